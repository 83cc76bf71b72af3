// Runs the tests in headless Chromium, with WebGPU in software.

import { chromium } from "playwright-core";
import { CHROMIUM_FLAGS, EXACT_PAGE, isWell, PAGE, PAGE_MS } from "./flags.mjs";
import { serve } from "./serve.mjs";

const server = await serve();
// The engine's `gc` changes how rig presses it to collect, so that only the tests of it have it.
for (const [path, more] of [[PAGE, []], [EXACT_PAGE, ["--js-flags=--expose-gc"]]]) {
  const args = [...CHROMIUM_FLAGS, ...more];
  const browser = await chromium.launch({ executablePath: process.argv[2], args });
  try {
    const page = await browser.newPage();
    page.on("console", (message) => console.log(message.text()));
    page.on("pageerror", (error) => console.log(`page error: ${error}`));
    await page.goto(`${server.url}${path}`);
    await page.waitForFunction("globalThis.result", null, { timeout: PAGE_MS });
    if (!isWell(await page.evaluate("globalThis.result"))) process.exitCode = 1;
  } finally {
    await browser.close();
  }
}
server.stop();
