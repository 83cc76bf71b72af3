// What happens to whole pages, in headless Chromium: hidden ones, frozen ones.

import { launch } from "puppeteer-core";
import { CHROMIUM_FLAGS } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";
import { serve } from "./serve.mjs";

/** Starts, in a page, a loop that makes, fills and reads what it never frees. */
async function forgets() {
  const { init } = await import("/dist/rig.js");
  const rig = await init();
  const [budget, size] = [16 * 2 ** 20, 2 ** 20];
  const devices = [rig.memory("forgets", { budget }), await rig.open("gpu", { budget })];
  const world = { rounds: 0, most: 0, isOver: false, lost: [] };
  for (const device of devices) device.addEventListener("lost", ({ detail }) => world.lost.push(detail.message));
  const round = async () => {
    for (const device of devices) {
      const x = await device.createBuffer(size);
      await x.fill(world.rounds & 255);
      const [byte] = await x.toArray(Uint8Array, { offset: size - 1 });
      if (byte !== (world.rounds & 255)) throw new Error(`round ${world.rounds} read ${byte}`);
      world.most = Math.max(world.most, device.held);
    }
    world.rounds += 1;
  };
  const loop = async () => {
    while (!world.isOver) await round();
    for (const device of devices) await device.close();
  };
  globalThis.world = world;
  globalThis.ended = loop().then(() => "well", String);
}

/** Ends the loop and looks at what came of it. */
async function endsWell(page) {
  const end = await page.evaluate(() => {
    world.isOver = true;
    return ended.then((how) => ({ how, lost: world.lost, most: world.most }));
  });
  equal([end.how, end.lost.length], ["well", 2], JSON.stringify(end.lost));
  holds(end.most <= 16 * 2 ** 20, `${end.most} bytes were held`);
}

/** Waits until the loop has gone on for so many rounds. */
async function goesOn(page, rounds) {
  const from = await page.evaluate("world.rounds");
  // Polled from here: a hidden page draws no frames.
  await page.waitForFunction(`world.rounds > ${from + rounds}`, { polling: 100, timeout: 30_000 });
}

/** Opens a page with the loop, and hides it behind another. */
async function hidden({ browser, url }) {
  const page = await browser.newPage();
  await page.goto(`${url}/www/index.html`);
  await page.evaluate(forgets);
  await goesOn(page, 3);
  const other = await browser.newPage();
  await other.bringToFront();
  await page.waitForFunction("document.hidden", { polling: 100 });
  return { page, other };
}

test("s13_9_a_hidden_page_goes_on_within_its_budget", async (world) => {
  const { page, other } = await hidden(world);
  // Many times its budget.
  await goesOn(page, 100);
  equal(await page.evaluate("document.visibilityState"), "hidden");
  await page.bringToFront();
  await goesOn(page, 3);
  await endsWell(page);
  await other.close();
  await page.close();
});

test("s13_13_a_frozen_page_goes_on_where_it_was_when_it_resumes", async (world) => {
  const { page, other } = await hidden(world);
  const session = await page.createCDPSession();
  const look = async (expression) => (await session.send("Runtime.evaluate", { expression })).result.value;
  await page.evaluate(() => {
    globalThis.heard = [];
    globalThis.ticks = 0;
    setInterval(() => (ticks += 1), 10);
    for (const name of ["freeze", "resume"]) document.addEventListener(name, () => heard.push(name));
  });
  for (const ms of [50, 1500]) {
    await session.send("Page.setWebLifecycleState", { state: "frozen" });
    while ((await look("heard.at(-1)")) !== "freeze");
    const frozen = await look("ticks");
    await new Promise((resolve) => setTimeout(resolve, ms));
    equal(await look("ticks"), frozen, "no timer runs in a frozen page");
    await session.send("Page.setWebLifecycleState", { state: "active" });
    await goesOn(page, 10);
  }
  equal(await page.evaluate("heard"), ["freeze", "resume", "freeze", "resume"]);
  await endsWell(page);
  await other.close();
  await page.close();
});

const server = await serve();
// A browser of tests keeps hidden pages awake unless it is told not to.
const ignoreDefaultArgs = [
  "--disable-backgrounding-occluded-windows",
  "--disable-renderer-backgrounding",
  "--disable-background-timer-throttling",
];
const browser = await launch({ executablePath: process.argv[2], args: CHROMIUM_FLAGS, ignoreDefaultArgs });
try {
  const { failed, passed } = await runAll({ browser, url: server.url });
  if (failed > 0 || passed === 0) process.exitCode = 1;
} finally {
  await browser.close();
  server.stop();
}
