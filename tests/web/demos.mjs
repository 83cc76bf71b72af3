// Runs each demo's `run()` in headless Chromium, and uses its page as built, as a person does. With a
// folder as the second argument, it leaves pictures of every page there; with a word as the third, it
// runs the tests that have it in their names.

import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";
import { build, preview } from "vite";
import { CANVAS_FLAGS, CHROMIUM_FLAGS, isWell } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";
import "./look.mjs";
import { serveDemos } from "./runs.mjs";

const [executablePath, pictures, only] = process.argv.slice(2);
const configFile = new URL("../../www/vite.config.js", import.meta.url).pathname;
const quiet = { configFile, logLevel: "error" };

test("demo_01_reclamation_starts_on_load_and_rests_when_told", async ({ open, built }) => {
  const page = await open(`${built}/demos/01-reclamation/index.html`);
  const made = () => page.textContent("#made");
  // Twice its budget.
  await page.waitForFunction(() => /GiB|[5-9]\d\d.MiB/.test(document.getElementById("made").textContent), null, { timeout: 50_000 });
  equal(await page.textContent("#budget"), "256\u00a0MiB");
  await page.press("#toggle", "Enter");
  equal(await page.textContent("#toggle"), "Go on");
  await page.press("#rate", "End");
  equal(await page.inputValue("#rate"), "128");
  await page.press("#toggle", "Enter");
  const before = await made();
  await page.waitForFunction((before) => document.getElementById("made").textContent !== before, before);
  await page.close();
});

test("demo_01_reclamation_ends_its_raw_lane_after_10_seconds_also_at_rest", async ({ open, built }) => {
  const page = await open(`${built}/demos/01-reclamation/index.html`);
  const raw = page.locator("#lanes > section").nth(2);
  await raw.waitFor();
  await page.press("#toggle", "Enter");
  equal((await raw.textContent()).includes("running"), true, "it runs until then");
  await raw.filter({ hasText: "stopped: 10 s" }).waitFor();
  equal(await page.textContent("#toggle"), "Go on");
  await page.press("#toggle", "Enter");
  const before = await page.textContent("#made");
  await page.waitForFunction((before) => document.getElementById("made").textContent !== before, before);
  await page.close();
});

test("demo_02_budget_goes_step_by_step", async ({ open, built }) => {
  const page = await open(`${built}/demos/02-budget/index.html`);
  for (const steps of [1, 2]) {
    await page.waitForFunction((steps) => document.getElementById("steps").children.length === steps, steps);
    await page.focus("#next");
    await page.keyboard.press("Enter");
  }
  await page.waitForSelector("#report:not([hidden])");
  equal(await page.locator("#report .rounds > li").count(), 3);
  await page.waitForFunction(() => document.getElementById("next").textContent === "Start again");
  await page.close();
});

test("demo_03_stamps_goes_one_call_a_press", async ({ open, built }) => {
  const page = await open(`${built}/demos/03-stamps/index.html`);
  const rows = (count) => page.waitForFunction((count) => document.querySelectorAll("#stamps tr").length === count + 1, count);
  for (const calls of [0, 1, 2, 3, 4, 5]) {
    await rows(calls);
    await page.waitForSelector("#next:enabled");
    equal(await page.locator("#program > li.done").count(), calls);
    await page.focus("#next");
    await page.keyboard.press("Enter");
  }
  await rows(6);
  await page.waitForFunction(() => document.getElementById("next").textContent === "Start again");
  equal(await page.locator("#timeline > li.reached").count(), 3);
  equal(await page.textContent("#told"), "done: the last number of H is 131070");
  await page.keyboard.press("Enter");
  await rows(0);
  equal(await page.textContent("#next"), "Next call");
  await page.close();
});

test("demo_04_loss_shows_its_tables", async ({ open, built }) => {
  const page = await open(`${built}/demos/04-loss/index.html`);
  await page.waitForSelector("#lose:enabled");
  await page.focus("#lose");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#answers:not([hidden])");
  equal(await page.textContent("#lose"), "Open again");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#answers", { state: "hidden" });
  await page.close();
});

test("demo_05_work_shows_two_canvases_with_one_picture", async ({ open, built }) => {
  const page = await open(`${built}/demos/05-work/index.html`, { draws: true });
  await page.waitForSelector("#equal .good", { timeout: 50_000 });
  holds(/ on a GPU in software: .*swiftshader/.test(await page.textContent("#told")), "the page names its adapter");
  await page.press("#toggle", "Enter");
  equal(await page.textContent("#toggle"), "Go on");
  await page.waitForFunction(() => {
    const pictures = [...document.querySelectorAll("canvas[role=img]")].map((canvas) => {
      const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      context.drawImage(canvas, 0, 0);
      return new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    });
    const isEqual = pictures[0].every((pixel, at) => pixel === pictures[1][at]);
    return pictures.length === 2 && isEqual && new Set(pictures[0]).size > 100;
  });
  await page.selectOption("#cells", "512");
  await page.waitForFunction(() => document.querySelector("#lanes canvas").width === 512);
  await page.close();
});

for (const [name, button] of [["02-budget", "#next"], ["03-stamps", "#next"], ["04-loss", "#lose"], ["05-work", "#toggle"], ["01-reclamation", "#toggle"]]) {
  test(`demo_${name.replace("-", "_")}_says_that_there_is_no_webgpu`, async ({ open, built }) => {
    const page = await open(`${built}/demos/${name}/index.html`, { gpu: false });
    await page.waitForSelector("#absent:not([hidden])");
    await page.press(`${button}:enabled`, "Enter");
    await page.waitForFunction(() => document.querySelectorAll("#steps > li, #stamps tr, #memory tr, #lanes dd").length > 1);
    await page.close();
  });
}

test("demo_05_work_runs_on_the_processor_where_workers_have_no_webgpu", async ({ open, development }) => {
  // What is between the page and its server also ends the server's own socket, which complains.
  const page = await open("about:blank", { complains: false });
  await page.route("**/worker.js*", async (route) => {
    const response = await route.fetch();
    const body = `Object.defineProperty(navigator, "gpu", { value: undefined });\n${await response.text()}`;
    await route.fulfill({ response, body });
  });
  await page.goto(`${development}/demos/05-work/index.html?quiet`);
  const found = await page.evaluate(async () => {
    const { run } = await import("/demos/05-work/main.js");
    return run({ frames: 5, cells: 64 });
  });
  equal([found.on, found.lanes.length, found.hashes.length], ["memory", 2, 1]);
  equal(found.hashes[0].rig, found.hashes[0].hand);
  await page.close();
});

test("a_page_says_why_its_demo_stopped", async ({ open, built }) => {
  const page = await open("about:blank", { complains: false });
  await page.route("**/*.wasm", (route) => route.abort());
  await page.goto(`${built}/demos/03-stamps/index.html`);
  const told = await page.textContent("[role=alert]");
  holds(/^This demo stopped: .*its wasm does not load/.test(told), told);
  await page.close();
});

test("a_page_shows_its_code_as_it_is", async ({ open, built }) => {
  const page = await open(`${built}/demos/05-work/index.html?quiet`);
  for (const file of ["rig.js", "hand.js"]) {
    const name = `demos/05-work/${file}`;
    await page.click(`summary:text("${name}")`);
    const shown = await page.textContent(`pre[aria-label="${name}"]`);
    equal(shown, await readFile(new URL(`../../www/${name}`, import.meta.url), "utf8"));
  }
  await page.close();
});

const { development, stop } = await serveDemos();
await build(quiet);
const built = await preview({ ...quiet, preview: { port: 0 } });
const launch = (flags) => chromium.launch({ executablePath, args: [...CHROMIUM_FLAGS, ...flags] });
/** Drawing a canvas in software slows all else, so that it has a browser of its own. */
const browsers = { plain: await launch([]), drawing: await launch(CANVAS_FLAGS) };
/** What pages complained of; the harness fails the test that runs. */
const complaints = [];

/** Opens a page and listens for what it complains of. Pages that were open before are closed. */
async function open(url, { complains = true, gpu = true, draws = false, ...options } = {}) {
  const contexts = Object.values(browsers).flatMap((browser) => browser.contexts());
  await Promise.all(contexts.map((context) => context.close()));
  const page = await browsers[draws ? "drawing" : "plain"].newPage({ viewport: { width: 1280, height: 900 }, ...options });
  if (!gpu) await page.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  if (complains) {
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  }
  await page.goto(url);
  return page;
}

const [address] = built.resolvedUrls.local;
const servers = { development, built: address.replace(/\/$/, "") };
try {
  const world = { open, gpu: true, ...servers, complaints, pictures };
  if (!isWell(await runAll(world, console.log, only))) process.exitCode = 1;
} finally {
  await Promise.all(Object.values(browsers).map((browser) => browser.close()));
  await stop();
  await built.close();
}
