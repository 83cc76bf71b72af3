// Runs the tests and the demos in headless Firefox, whose WebGPU is on the software Vulkan driver.

import { launch } from "puppeteer-core";
import { EXACT_PAGE, FIREFOX_PREFERENCES, isWell, PAGE, PAGE_MS } from "./flags.mjs";
import { runDemos } from "./runs.mjs";
import { serve } from "./serve.mjs";

const server = await serve();
const browser = await launch({
  browser: "firefox",
  executablePath: process.argv[2],
  extraPrefsFirefox: FIREFOX_PREFERENCES,
  protocolTimeout: PAGE_MS,
});
try {
  for (const path of [PAGE, EXACT_PAGE]) {
    const page = await browser.newPage();
    page.on("console", (message) => console.log(message.text()));
    await page.goto(`${server.url}${path}`);
    await page.waitForFunction("globalThis.result", { timeout: PAGE_MS });
    if (!isWell(await page.evaluate("globalThis.result"))) process.exitCode = 1;
    await page.close();
  }
  const open = async (url) => {
    const page = await browser.newPage();
    await page.goto(url);
    return page;
  };
  if (!isWell(await runDemos(open, true))) process.exitCode = 1;
} finally {
  await browser.close();
  server.stop();
}
