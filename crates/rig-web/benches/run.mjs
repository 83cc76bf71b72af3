// Runs the benchmarks of the built package in the engines that are here, and prints Markdown.
//
// `--quick` takes few rounds; other arguments are engines: node, chromium, firefox, webkit.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { launch } from "puppeteer-core";
import { inWebKit, onDisplay } from "../../../tests/web/driver.mjs";
import { CHROMIUM_FLAGS, FIREFOX_PREFERENCES } from "../../../tests/web/flags.mjs";
import { serve } from "../../../tests/web/serve.mjs";

const PAGE_MS = 900_000;
/** A page that is isolated has a finer clock. */
const ISOLATED = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
};
const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const [flags, engines] = [[], []];
for (const word of process.argv.slice(2)) (word.startsWith("--") ? flags : engines).push(word);
const isQuick = flags.includes("--quick");
const all = { node: inNode, chromium: inChromium, firefox: inFirefox, webkit: inItsDriver };

const query = new URLSearchParams({ ...(isQuick ? { quick: 1 } : {}), ...(hasPeers() ? { peers: 1 } : {}) });
for (const name of engines.length > 0 ? engines : Object.keys(all)) {
  console.log(`## In ${name}`);
  await all[name]();
}

/** Installs and bundles the peers, if the registry has them. */
function hasPeers() {
  const own = { cwd: `${HERE}peers`, stdio: "ignore" };
  try {
    if (!existsSync(`${HERE}peers/node_modules/@jax-js`)) {
      execFileSync("npm", ["install", "--no-fund", "--no-audit", "--no-package-lock"], own);
    }
    const words = ["peers.mjs", "--bundle", "--format=esm", "--outfile=node_modules/peers.js"];
    execFileSync(`${ROOT}node_modules/.bin/esbuild`, words, own);
    return true;
  } catch {
    console.log("no peers: they did not install");
    return false;
  }
}

async function inNode() {
  const words = [`${HERE}node.mjs`, ...(isQuick ? ["--quick"] : [])];
  const { status } = spawnSync(process.execPath, words, { stdio: ["ignore", "inherit", "ignore"] });
  if (status !== 0) process.exitCode = 1;
}

async function inChromium() {
  const executablePath = onPath(["chromium", "chromium-browser", "google-chrome"]);
  if (!executablePath) return console.log("no Chromium here");
  const browser = await chromium.launch({ executablePath, args: CHROMIUM_FLAGS });
  await inPage(browser, (page) => page.waitForFunction("globalThis.result", null, { timeout: PAGE_MS }));
}

async function inFirefox() {
  const executablePath = onPath(["firefox-esr", "firefox"]);
  if (!executablePath) return console.log("no Firefox here");
  const extraPrefsFirefox = FIREFOX_PREFERENCES;
  const browser = await launch({ browser: "firefox", executablePath, extraPrefsFirefox, protocolTimeout: PAGE_MS });
  await inPage(browser, (page) => page.waitForFunction("globalThis.result", { timeout: PAGE_MS }));
}

/** WebKit, which has no WebGPU here. */
async function inItsDriver() {
  const program = onPath(["WebKitWebDriver"]);
  if (!program || !onPath(["Xvfb"])) return console.log("no WebKit here");
  const server = await serve(ISOLATED);
  try {
    const address = `${server.url}/crates/rig-web/benches/page.html?${query}`;
    const script = `
      const [done] = arguments;
      const end = () => done([globalThis.lines, globalThis.result]);
      if (globalThis.result) end();
      else globalThis.ended = end;`;
    const [lines, result] = await onDisplay((display) =>
      inWebKit({ program, display, ms: PAGE_MS }, async (session) => {
        await session("POST", "/url", { url: address });
        return session("POST", "/execute/async", { script, args: [] });
      }),
    );
    for (const line of lines) console.log(line);
    if (result !== "ok") failed(result);
  } finally {
    server.stop();
  }
}

async function inPage(browser, wait) {
  const server = await serve(ISOLATED);
  try {
    const page = await browser.newPage();
    page.on("console", (message) => console.log(message.text()));
    await page.goto(`${server.url}/crates/rig-web/benches/page.html?${query}`);
    await wait(page);
    const result = await page.evaluate("globalThis.result");
    if (result !== "ok") failed(result);
  } finally {
    await browser.close();
    server.stop();
  }
}

function failed(result) {
  console.log(`failed: ${result}`);
  process.exitCode = 1;
}

/** Returns the first of these programs that is installed. */
function onPath(names) {
  const folders = (process.env.PATH ?? "").split(":");
  return names.flatMap((name) => folders.map((folder) => `${folder}/${name}`)).find((path) => existsSync(path));
}

