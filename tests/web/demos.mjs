// Runs each demo's `run()` in headless Chromium, from Vite's development server, and loads its page
// as built; then rig in a module worker and under policies. With a folder as the second argument, it
// leaves pictures there.

import { chromium } from "playwright-core";
import { build, createServer, preview } from "vite";
import { CANVAS_FLAGS, CHROMIUM_FLAGS } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";
import { serve } from "./serve.mjs";

const [executablePath, pictures] = process.argv.slice(2);
const MIB = 2 ** 20;
const configFile = new URL("../../www/vite.config.js", import.meta.url).pathname;
const quiet = { configFile, logLevel: "error" };

test("demo_01_reclamation_runs_within_its_budget", async ({ open, development }) => {
  const page = await open(`${development}/demos/01-reclamation/index.html?quiet`);
  const lanes = await page.evaluate(async (budget) => {
    const { run } = await import("/demos/01-reclamation/main.js");
    return run({ frames: 40, budget });
  }, 64 * MIB);
  equal(lanes.map(({ name }) => name), ["rig", "raw, with destroy()", "raw"]);
  const [rig, destroys, raw] = lanes;
  holds(rig.held <= 64 * MIB, `rig holds ${rig.held} bytes`);
  equal([destroys.held, destroys.made, rig.made], [0, 640 * MIB, 640 * MIB]);
  // It may have stopped by itself, at 8 budgets or after its time.
  holds(raw.held > 64 * MIB && raw.held <= 8 * 64 * MIB, `raw holds ${raw.held} bytes`);
  await page.close();
});

test("demo_01_reclamation_runs_on_a_memory_device_without_webgpu", async ({ open, development }) => {
  const page = await open(`${development}/demos/01-reclamation/index.html?quiet`);
  const lanes = await page.evaluate(async (budget) => {
    Object.defineProperty(navigator, "gpu", { value: undefined });
    const { run } = await import("/demos/01-reclamation/main.js");
    return run({ frames: 20, budget, rate: () => 4 });
  }, 16 * MIB);
  equal([lanes.length, lanes[0].made], [1, 80 * MIB]);
  holds(lanes[0].held <= 16 * MIB, `rig holds ${lanes[0].held} bytes`);
  await page.close();
});

for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
  test(`demo_01_reclamation_shows_itself_as_built_at_${width}`, async ({ open, built }) => {
    const page = await open(`${built}/demos/01-reclamation/index.html`, { width, scheme });
    await page.waitForFunction(() => document.getElementById("made").textContent.includes("GiB"), null, { timeout: 40_000 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    holds(wide <= 0, `the page is no wider than its window, by ${wide}`);
    if (pictures) await page.screenshot({ path: `${pictures}/reclamation-${width}.png`, fullPage: true });
    await page.focus("#toggle");
    await page.keyboard.press("Enter");
    equal(await page.textContent("#toggle"), "Go on");
    await page.close();
  });
}

for (const has of ["webgpu", "memory"]) {
  test(`demo_02_budget_ends_in_the_report_of_three_rounds_on_${has}`, async ({ open, development }) => {
    const page = await open(`${development}/demos/02-budget/index.html?quiet`);
    const { webgpu, steps, report } = await page.evaluate(async (hasGpu) => {
      if (!hasGpu) Object.defineProperty(navigator, "gpu", { value: undefined });
      const { run } = await import("/demos/02-budget/main.js");
      return run();
    }, has === "webgpu");
    equal(webgpu, has === "webgpu");
    equal(steps.map(({ fromCache, fromDriver }) => fromCache + fromDriver), [100, 104, 104]);
    for (const { held, name } of steps) holds(held <= MIB, `${name}: ${held} bytes are held`);
    equal([report.askedBytes, report.budgetBytes, report.liveBytes], [MIB / 4, MIB, MIB]);
    equal(report.rounds.map(({ kept }) => kept.liveBytes + kept.claimedBytes), [MIB, MIB, MIB]);
    equal(report.labels.map(({ label, count }) => [label, count])[0], ["weights", 2]);
    await page.close();
  });
}

for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
  test(`demo_02_budget_goes_step_by_step_as_built_at_${width}`, async ({ open, built }) => {
    const page = await open(`${built}/demos/02-budget/index.html`, { width, scheme });
    for (const steps of [1, 2]) {
      await page.waitForFunction((steps) => document.getElementById("steps").children.length === steps, steps);
      await page.focus("#next");
      await page.keyboard.press("Enter");
    }
    await page.waitForSelector("#report:not([hidden])");
    equal(await page.locator("#report .rounds > li").count(), 3);
    await page.waitForFunction(() => document.getElementById("next").textContent === "Start again");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    holds(wide <= 0, `the page is no wider than its window, by ${wide}`);
    if (pictures) await page.screenshot({ path: `${pictures}/budget-${width}.png`, fullPage: true });
    await page.close();
  });
}

for (const [has, values, x] of [
  ["webgpu", [0, 1, 2, 2, 3, 3], [[0, 0], [1, 1], [2, 2], [2, 2], [2, 3], [2, 3]]],
  // The page addresses the device's memory, so that only the submission takes a value.
  ["memory", [0, 0, 1, 1, 1, 1], [[0, 0], [0, 0], [1, 1], [1, 1], [1, 1], [1, 1]]],
]) {
  test(`demo_03_stamps_doubles_and_tells_the_stamps_on_${has}`, async ({ open, development }) => {
    const page = await open(`${development}/demos/03-stamps/index.html?quiet`);
    const { webgpu, steps } = await page.evaluate(async (hasGpu) => {
      if (!hasGpu) Object.defineProperty(navigator, "gpu", { value: undefined });
      const { run } = await import("/demos/03-stamps/main.js");
      return run();
    }, has === "webgpu");
    equal([webgpu, steps.at(-1).last], [has === "webgpu", 131_070]);
    equal(steps.map(({ submitted }) => submitted), values);
    equal(steps.map((step) => [step.x.write, step.x.use]), x);
    equal(steps.map((step) => [step.h.write, step.h.use]), steps.map(() => [0, 0]));
    // Only a doubling that was not waited for yet may be under way.
    for (const at of [0, 1, 3, 4, 5]) equal(steps[at].reached, values[at], steps[at].call);
    await page.close();
  });
}

for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
  test(`demo_03_stamps_goes_call_by_call_as_built_at_${width}`, async ({ open, built }) => {
    const page = await open(`${built}/demos/03-stamps/index.html`, { width, scheme });
    const rows = (count) => page.waitForFunction((count) => document.querySelectorAll("#stamps tr").length === count + 1, count);
    for (const calls of [1, 2, 3, 4, 5]) {
      await rows(calls);
      await page.waitForSelector("#next:enabled");
      if (pictures && calls === 3) await page.screenshot({ path: `${pictures}/stamps-3-${width}.png`, fullPage: true });
      await page.focus("#next");
      await page.keyboard.press("Enter");
    }
    await rows(6);
    await page.waitForFunction(() => document.getElementById("next").textContent === "Start again");
    equal(await page.locator("#timeline > li.reached").count(), 3);
    equal(await page.textContent("#told"), "done: the last number of H is 131070");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    holds(wide <= 0, `the page is no wider than its window, by ${wide}`);
    if (pictures) await page.screenshot({ path: `${pictures}/stamps-${width}.png`, fullPage: true });
    await page.keyboard.press("Enter");
    await rows(1);
    equal(await page.textContent("#next"), "Next call");
    await page.close();
  });
}

for (const has of ["webgpu", "memory"]) {
  test(`demo_04_loss_says_which_calls_still_answer_on_${has}`, async ({ open, development }) => {
    const page = await open(`${development}/demos/04-loss/index.html?quiet`);
    const found = await page.evaluate(async (hasGpu) => {
      if (!hasGpu) Object.defineProperty(navigator, "gpu", { value: undefined });
      const { run } = await import("/demos/04-loss/main.js");
      return run();
    }, has === "webgpu");
    equal([found.webgpu, found.heard, found.held, found.isNew], [has === "webgpu", 1, 0, true]);
    const answers = (text) => text.startsWith("answers");
    equal(found.memory.filter(({ host }) => !answers(host)), [], "what the page's memory refuses");
    const lost = found.memory.filter(({ own }) => own === "Lost").map(({ name }) => name);
    equal(lost, ["take its bytes out", "put bytes in", "fill it", "copy from it", "copy into it", "claim it for reading"]);
    holds(found.memory.every(({ own }) => own === "Lost" || answers(own)), "a call answers or is Lost");
    const of = (name) => found.device.find((row) => row.name.startsWith(name)).answer;
    // A close lets work end first; a destroyed device's work never looks done.
    equal(of("wait for the work under way"), has === "webgpu" ? "Lost" : "answers");
    for (const name of ["create a", "create one", "submit", "wait for its first"]) equal(of(name), "Lost", name);
    if (found.webgpu) equal(of("compile"), "Lost");
    equal(["ask for its stat", "ask why", "close"].map(of), ["answers", "answers", "answers"]);
    await page.close();
  });
}

for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
  test(`demo_04_loss_shows_its_tables_as_built_at_${width}`, async ({ open, built }) => {
    const page = await open(`${built}/demos/04-loss/index.html`, { width, scheme });
    await page.waitForSelector("#lose:enabled");
    await page.focus("#lose");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#answers:not([hidden])");
    equal(await page.textContent("#lose"), "Open again");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    holds(wide <= 0, `the page is no wider than its window, by ${wide}`);
    if (pictures) await page.screenshot({ path: `${pictures}/loss-${width}.png`, fullPage: true });
    await page.keyboard.press("Enter");
    await page.waitForSelector("#answers", { state: "hidden" });
    await page.close();
  });
}

for (const [name, button] of [["02-budget", "#next"], ["03-stamps", "#next"], ["04-loss", "#lose"]]) {
  test(`demo_${name.replace("-", "_")}_says_that_there_is_no_webgpu`, async ({ open, built }) => {
    const page = await open(`${built}/demos/${name}/index.html`, { gpu: false });
    await page.waitForSelector("#absent:not([hidden])");
    await page.press(`${button}:enabled`, "Enter");
    await page.waitForFunction(() => document.querySelectorAll("#steps > li, #stamps tr, #memory tr").length > 1);
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-memory.png`, fullPage: true });
    await page.close();
  });
}

test("s13_13_a_module_worker_has_an_instance_of_its_own", async ({ open, plain }) => {
  const page = await open(`${plain}/www/index.html`);
  const bytes = await page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/tests/web/worker.mjs", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
      }),
  );
  equal(bytes, [3, 3, 3, 3, 3, 3, 3]);
  await page.close();
});

for (const [policy, wanted] of [["'self' 'wasm-unsafe-eval'", "ready"], ["'self'", "wasm-unsafe-eval"]]) {
  test(`s13_13_a_page_whose_policy_is_script_src_${policy.replace(/\W+/g, "_")}`, async ({ open }) => {
    const server = await serve({ "content-security-policy": `script-src ${policy}` });
    const page = await open(`${server.url}/tests/web/policy.html`, { complains: false });
    await page.waitForFunction(() => document.title !== "");
    const title = await page.title();
    holds(title.includes(wanted), title);
    await page.close();
    server.stop();
  });
}

const plainServer = await serve();
const development = await createServer(quiet);
await development.listen(0);
await build(quiet);
const built = await preview({ ...quiet, preview: { port: 0 } });
const browser = await chromium.launch({ executablePath, args: [...CHROMIUM_FLAGS, ...CANVAS_FLAGS] });
const told = [];

/** Opens a page and listens for what it complains of. */
async function open(url, { width = 1280, scheme = "light", complains = true, gpu = true } = {}) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
  if (!gpu) await page.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  if (complains) {
    page.on("pageerror", (error) => told.push(String(error)));
    page.on("console", (message) => message.type() === "error" && told.push(message.text()));
  }
  await page.goto(url);
  return page;
}

const address = (server) => server.resolvedUrls.local[0].replace(/\/$/, "");
try {
  const world = { open, development: address(development), built: address(built), plain: plainServer.url };
  const { passed, failed } = await runAll(world);
  for (const text of told) console.log(`a page complained: ${text}`);
  if (failed > 0 || passed === 0 || told.length > 0) process.exitCode = 1;
} finally {
  await browser.close();
  await development.close();
  await built.close();
  plainServer.stop();
}
