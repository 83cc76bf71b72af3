// Runs the tests in headless Firefox, whose WebGPU is on the software Vulkan driver.

import { launch } from "puppeteer-core";
import { serve } from "./serve.mjs";

const PREFERENCES = {
  "dom.webgpu.enabled": true,
  "gfx.webgpu.ignore-blocklist": true,
  "gfx.webgpu.force-enabled": true,
};

const server = await serve();
const browser = await launch({
  browser: "firefox",
  executablePath: process.argv[2],
  extraPrefsFirefox: PREFERENCES,
});
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.log(message.text()));
  await page.goto(`${server.url}/tests/web/page.html`);
  await page.waitForFunction("globalThis.result", { timeout: 500_000 });
  const { failed, passed, skipped, uncaptured } = await page.evaluate("globalThis.result");
  for (const message of uncaptured) console.log(`uncaptured error of WebGPU: ${message}`);
  if (failed > 0 || passed === 0 || skipped > 0 || uncaptured.length > 0) process.exitCode = 1;
} finally {
  await browser.close();
  server.stop();
}
