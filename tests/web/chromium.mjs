// Runs the tests in headless Chromium, with WebGPU in software.

import { chromium } from "playwright-core";
import { CHROMIUM_FLAGS } from "./flags.mjs";
import { serve } from "./serve.mjs";

const server = await serve();
const browser = await chromium.launch({ executablePath: process.argv[2], args: CHROMIUM_FLAGS });
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.log(message.text()));
  page.on("pageerror", (error) => console.log(`page error: ${error}`));
  await page.goto(`${server.url}/tests/web/page.html`);
  await page.waitForFunction("globalThis.result", null, { timeout: 400_000 });
  const { failed, passed, skipped, uncaptured } = await page.evaluate("globalThis.result");
  for (const message of uncaptured) console.log(`uncaptured error of WebGPU: ${message}`);
  if (failed > 0 || passed === 0 || skipped > 0 || uncaptured.length > 0) process.exitCode = 1;
} finally {
  await browser.close();
  server.stop();
}
