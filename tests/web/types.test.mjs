// The public types: what changed since they were last looked at, and that each member is documented.
//
// `RIG_UPDATE=1` writes the snapshot anew.

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { equal, holds, test } from "./harness.mjs";

const ROOT = new URL("../../", import.meta.url);
const SNAPSHOT = new URL("face.snapshot.txt", import.meta.url);
/** The pages whose programs people copy, each with how many it has. */
const READMES = { "README.md": 1, "crates/rig-web/README.md": 3 };

/** Returns the public types, file by file. */
async function publicTypes() {
  const { files } = JSON.parse(await readFile(new URL("package.json", ROOT), "utf8"));
  const found = [];
  for (const path of files.filter((path) => path.endsWith(".d.ts"))) {
    found.push({ path, text: await readFile(new URL(path, ROOT), "utf8") });
  }
  return found;
}

test("the_public_types_are_those_of_the_snapshot", async () => {
  const types = await publicTypes();
  const now = types.map(({ path, text }) => `// ${path}\n\n${text.trim()}\n`).join("\n");
  if (process.env.RIG_UPDATE === "1") await writeFile(SNAPSHOT, now);
  const then = await readFile(SNAPSHOT, "utf8").catch(() => "");
  const [before, after] = [then.split("\n"), now.split("\n")];
  const gone = before.filter((line) => !after.includes(line)).map((line) => `- ${line}`);
  const made = after.filter((line) => !before.includes(line)).map((line) => `+ ${line}`);
  const hint = "the types changed; look at it, then write the snapshot with RIG_UPDATE=1";
  holds(now === then, `${hint}:\n${[...gone, ...made].join("\n")}`);
});

test("every_public_type_and_each_of_its_members_is_documented", async () => {
  const missing = [];
  for (const { path, text } of await publicTypes()) {
    let above = "";
    for (const line of text.split("\n")) {
      const isExported = /^export (declare |abstract )?(class|interface|type [^{]|function|const) ?\w/.test(line);
      const isMember = /^ {4}(?!#private|private )[\w[]/.test(line);
      const isSetter = /^ {4}set /.test(line) && above.includes("get ");
      if ((isExported || isMember) && !isSetter && !above.trim().endsWith("*/")) missing.push(`${path}: ${line.trim()}`);
      above = line;
    }
  }
  equal(missing, [], "what lacks documentation");
});

test("the_public_types_name_nothing_that_is_not_shipped", async () => {
  const types = await publicTypes();
  const shipped = types.map(({ path }) => path.replace(/^dist\//, "./").replace(/\.d\.ts$/, ".js"));
  const named = types.flatMap(({ text }) => [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, path]) => path));
  equal([...new Set(named)].filter((path) => !shipped.includes(path)), []);
  holds(named.length > 0, "there are imports");
});

test("the_programs_of_the_readmes_are_strict_typescript", async () => {
  const folder = new URL("readme/built/", import.meta.url);
  await mkdir(folder, { recursive: true });
  const files = [];
  for (const [path, count] of Object.entries(READMES)) {
    const text = await readFile(new URL(path, ROOT), "utf8");
    const programs = [...text.matchAll(/^```(?:js|ts)\n(.*?)^```$/gms)].map(([, program]) => program);
    equal(programs.length, count, `the programs of ${path}`);
    for (const program of programs) {
      files.push(`${files.length}.ts`);
      await writeFile(new URL(files.at(-1), folder), program);
    }
  }
  await writeFile(new URL("tsconfig.json", folder), JSON.stringify({ extends: "../../tsconfig.json", files }));
  equal(await compiled(folder), [undefined, ""]);
});

test("the_code_of_the_demos_is_strictly_typed_javascript", async () => {
  const www = new URL("www/", ROOT);
  equal(await compiled(www), [undefined, ""]);
});

test("no_line_of_the_demos_is_left_out_of_their_types", async () => {
  const www = new URL("www/", ROOT);
  const [, listed] = await compiled(www, "--listFilesOnly");
  const own = await scripts(www);
  equal(own.filter((path) => !listed.includes(`/www/${path}`)), [], "scripts that the compiler does not read");
  holds(own.length > 20, `there are scripts: ${own.length}`);
  for (const path of own) {
    const text = await readFile(new URL(path, www), "utf8");
    equal(text.match(/@ts-\w+|\{[^}]*\bany\b[^}]*\} |<any>/g), null, `what turns types off in ${path}`);
  }
});

test("every_test_of_pages_that_the_readme_of_the_tests_names_is_there", async () => {
  const text = await readFile(new URL("tests/README.md", ROOT), "utf8");
  const [, ofPages] = text.split("## The vectors of S14 in a page");
  const named = [...ofPages.matchAll(/`([a-z]\w+_\w+)`/g)].map(([, name]) => name);
  const here = new URL("./", import.meta.url);
  const files = (await readdir(here)).filter((path) => path.endsWith(".mjs"));
  const texts = await Promise.all(files.map((path) => readFile(new URL(path, here), "utf8")));
  const known = new Set(texts.flatMap((text) => [...text.matchAll(/"([a-z]\w+)"/g)].map(([, name]) => name)));
  equal(named.filter((name) => !known.has(name)), []);
  holds(named.length > 60, `there are names: ${named.length}`);
});

/** Returns the paths of a folder's scripts, without what is built from them. */
async function scripts(folder) {
  const all = await readdir(folder, { recursive: true });
  return all.filter((path) => path.endsWith(".js") && !path.startsWith("dist"));
}

/** Compiles a project; answers the compiler's code and what it says, which is undefined and nothing. */
async function compiled(folder, ...options) {
  const tsc = fileURLToPath(new URL("node_modules/.bin/tsc", ROOT));
  const told = await promisify(execFile)(tsc, ["-p", fileURLToPath(folder), ...options]).catch((e) => e);
  return [told.code, told.stdout];
}
