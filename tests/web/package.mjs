// Tests the package as a program gets it: packed, installed into an empty project, met by the
// compiler, Node, Vite's development server and Vite's build.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { build, createServer, preview } from "vite";
import { CHROMIUM_FLAGS } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const PROGRAM = `
import { init } from "rig-web";

const rig = await init();
const x = await rig.host.createBuffer(7, { label: "x" });
await x.fill(3);
export const bytes = [...(await x.toArray(Uint8Array))];`;

const FILES = {
  "package.json": JSON.stringify({ name: "program", version: "1.0.0", type: "module", private: true }),
  "program.js": `${PROGRAM}\nconsole.log(bytes.join());`,
  "without.js": `import { init } from "rig-web";\nconst rig = await init();
const told = await rig.open("gpu").catch((e) => [e.code, e.message]);
console.log(JSON.stringify([told, (await rig.memory("m").createBuffer(7)).size]));`,
  "page.js": `${PROGRAM}\ndocument.title = bytes.join();`,
  "failing.js": `import { init } from "rig-web";\ninit().catch((e) => (document.title = e.message));`,
  "index.html": `<!doctype html><title>wait</title><script type="module" src="./page.js"></script>`,
  "readme.html": `<!doctype html><title>wait</title><script type="module" src="./readme.js"></script>`,
  "failing.html": `<!doctype html><title>wait</title><script type="module" src="./failing.js"></script>`,
  "strict.ts": `${PROGRAM}\nconst first: number | undefined = bytes[0];\nexport { first };`,
};

test("the_package_holds_a_module_its_wasm_its_types_and_what_is_to_be_read_and_nothing_else", async ({ packed }) => {
  const others = packed.filter((path) => !/^(dist\/.*\.d\.ts|dist\/rig\.(js|wasm))$/.test(path));
  const wanted = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "crates/rig-web/README.md", "package.json"];
  equal(others.sort(), wanted);
  holds(packed.includes("dist/rig.d.ts"), "there are types");
});

test("webpack_finds_its_wasm_and_searches_for_nothing_else", async ({ project }) => {
  const module = await readFile(join(project, "node_modules/rig-web/dist/rig.js"), "utf8");
  equal(module.match(/new URL\([^()]*import\.meta\.url\)/g), ['new URL("./rig.wasm",import.meta.url)']);
  const imports = module.match(/import\([^()]*\)/g);
  holds(imports.length === 2 && imports.every((text) => text.includes("/* webpackIgnore: true */")), `${imports}`);
});

test("tools_that_read_no_exports_find_the_same_module_and_types", async ({ project }) => {
  const read = await readFile(join(project, "node_modules/rig-web/package.json"), "utf8");
  const { main, types, exports } = JSON.parse(read);
  equal({ types, default: main }, exports["."]);
});

test("it_is_imported_by_its_name_in_node", async ({ project }) => {
  const { stdout } = await run(process.execPath, ["program.js"], { cwd: project });
  equal(stdout.trim(), "3,3,3,3,3,3,3");
});

test("s1_2_in_node_without_the_package_webgpu_a_gpu_is_unsupported_and_memory_devices_work", async ({ project }) => {
  const { stdout } = await run(process.execPath, ["without.js"], { cwd: project });
  const [[code, message], size] = JSON.parse(stdout);
  equal([code, size], ["Unsupported", 7]);
  holds(message.includes("webgpu"), `it names what is missing: ${message}`);
});

for (const resolution of ["nodenext", "bundler"]) {
  test(`its_types_are_found_by_the_compiler_under_${resolution}`, async ({ project }) => {
    const module = resolution === "bundler" ? "es2022" : resolution;
    const compiler = join(ROOT, "node_modules/.bin/tsc");
    const options = ["--strict", "--noEmit", "--target", "es2022", "--lib", "es2023,dom,esnext.disposable"];
    const how = ["--module", module, "--moduleResolution", resolution, "--types", "", "strict.ts"];
    await run(compiler, [...options, ...how], { cwd: project }).catch((e) => {
      throw new Error(e.stdout);
    });
  });
}

test("vites_development_server_serves_it_where_its_optimizer_leaves_it_alone", async ({ project, title }) => {
  const server = await createServer({ ...vite(project), optimizeDeps: { exclude: ["rig-web"] } });
  await server.listen();
  equal(await title(`${server.resolvedUrls.local[0]}index.html`), "3,3,3,3,3,3,3");
  await server.close();
});

test("s13_13_an_optimizer_that_lost_the_wasm_is_named_by_the_error", async ({ project, title }) => {
  const server = await createServer({ ...vite(project), optimizeDeps: { include: ["rig-web"] } });
  await server.listen();
  const told = await title(`${server.resolvedUrls.local[0]}failing.html`);
  holds(told.includes("optimizeDeps"), `the error names the way out: ${told}`);
  await server.close();
});

for (const readme of ["README.md", "crates/rig-web/README.md"]) {
  test(`the_programs_of_${readme}_run`, async (world) => {
    const text = await readFile(join(ROOT, readme), "utf8");
    const programs = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map(([, program]) => program);
    holds(programs.length > 0, "there are programs");
    for (const program of programs) equal(await ran(world, program), "ran", program);
  });
}

/** Runs a program of a readme in a page, as Vite serves it; answers what came of it. */
async function ran({ project, title }, program) {
  // Fewer steps, and what it asserts is heard.
  const heard = program.replaceAll("10_000", "100").replaceAll("console.assert(", "holds(");
  const holds = "const holds = (is) => { if (!is) throw new Error('it does not hold'); };";
  const own = `(async () => {\n${heard.replace(/^import .*$/m, "")}\n})().then(() => "ran", String)`;
  const page = `import { init, RigError } from "rig-web";\n${holds}\n${own}.then((told) => (document.title = told));`;
  await writeFile(join(project, "readme.js"), page);
  const server = await createServer({ ...vite(project), optimizeDeps: { exclude: ["rig-web"] } });
  await server.listen();
  const told = await title(`${server.resolvedUrls.local[0]}readme.html`);
  await server.close();
  return told;
}

test("vites_build_takes_the_wasm_along", async ({ project, title }) => {
  await build({ ...vite(project), base: "./", build: { target: "es2022" } });
  const server = await preview(vite(project));
  equal(await title(`${server.resolvedUrls.local[0]}index.html`), "3,3,3,3,3,3,3");
  await server.close();
});

function vite(root) {
  return { root, configFile: false, logLevel: "error", server: { port: 0 }, preview: { port: 0 } };
}

/** Packs the package, and installs it into a project in an empty folder. */
async function installed(folder) {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: ROOT });
  const [{ files, filename }] = JSON.parse(stdout);
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(folder, name), text);
  const quiet = ["--no-fund", "--no-audit", "--offline", "--ignore-scripts"];
  await run("npm", ["install", ...quiet, join(folder, filename)], { cwd: folder });
  equal(await readdir(join(folder, "node_modules")).then((names) => names.filter((name) => name[0] !== ".")), ["rig-web"]);
  return files.map(({ path }) => path);
}

const project = await mkdtemp(join(tmpdir(), "rig-package-"));
const browser = await chromium.launch({ executablePath: process.argv[2], args: CHROMIUM_FLAGS });
try {
  const packed = await installed(project);
  /** Opens a page, and answers its title once the page has set it. */
  const title = async (url) => {
    const page = await browser.newPage();
    page.on("pageerror", (error) => console.log(`page error: ${error}`));
    await page.goto(url);
    await page.waitForFunction(() => document.title !== "wait", null, { timeout: 30_000 });
    const told = await page.title();
    await page.close();
    return told;
  };
  const { failed, passed } = await runAll({ packed, project, title });
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
} finally {
  await browser.close();
  await rm(project, { recursive: true, force: true });
}
