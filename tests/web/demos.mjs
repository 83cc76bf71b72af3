// Runs each demo's `run()` in headless Chromium, from Vite's development server, and uses its page as
// built; then rig in a module worker and under policies. With a folder as the second argument, it
// leaves pictures of every page there; with a word as the third, it runs the tests that have it in
// their names.

import { chromium } from "playwright-core";
import { build, createServer, preview } from "vite";
import { CANVAS_FLAGS, CHROMIUM_FLAGS } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";
import "./look.mjs";
import { serve } from "./serve.mjs";

const [executablePath, pictures, only] = process.argv.slice(2);
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
  const { p99, making, collection } = rig;
  holds(p99 > 0 && making > 0 && collection > 0, `rig tells its times: ${[p99, making, collection]}`);
  holds(destroys.collection > 0, `destroy() takes ${destroys.collection} ms`);
  equal(raw.collection, null);
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

for (const on of ["gpu", "memory"]) {
  test(`demo_05_work_draws_the_same_pixels_with_new_buffers_and_with_reused_ones_on_${on}`, async ({ open, development }) => {
    const page = await open(`${development}/demos/05-work/index.html?quiet`, { draws: true });
    const [cells, frames] = on === "gpu" ? [256, 25] : [64, 100];
    const budget = 24 * cells ** 2 * 8;
    const found = await page.evaluate(async ([on, options]) => {
      if (on === "memory") Object.defineProperty(navigator, "gpu", { value: undefined });
      const { run } = await import("/demos/05-work/main.js");
      return run(options);
    }, [on, { frames, cells, budget }]);
    equal([found.on, found.cells, found.budget], [on, cells, budget]);
    const [rig, hand] = found.lanes;
    equal([rig.name, rig.frames, hand.name, hand.frames], ["rig", frames, "hand", frames]);
    // Eight fields of 8 bytes a cell, two blurs and a picture of 4; and the field at the start.
    const size = cells ** 2;
    equal([rig.madeCount, rig.madeBytes], [11 * frames + 1, size * (frames * (8 * 8 + 3 * 4) + 8)]);
    equal([hand.madeCount, hand.madeBytes, hand.held], [5, size * (2 * 8 + 3 * 4), hand.madeBytes]);
    holds(rig.held <= budget && rig.stats.peakHeldBytes <= budget, `rig held ${rig.stats.peakHeldBytes} of ${budget}`);
    // What was made is many times what the driver was asked for, and the engine gave the rest back.
    holds(rig.madeBytes > 6 * budget, `${rig.madeBytes} is more than 6 budgets`);
    const kept = rig.stats.requestedCount - rig.stats.returnedCount;
    holds(kept * 4 * size <= budget, `${kept} are not returned`);
    for (const { calls, median, p99 } of found.lanes) {
      holds(calls > 0 && calls <= median && median <= p99, `calls ${calls}, median ${median}, p99 ${p99}`);
    }
    equal(found.hashes.map(({ frame }) => frame), on === "gpu" ? [5, 25] : [5, 60, 100]);
    for (const { frame, rig, hand } of found.hashes) equal(rig, hand, `the picture of frame ${frame}`);
    const different = new Set(found.hashes.map(({ rig }) => rig));
    equal(different.size, found.hashes.length, "pictures that differ");
    await page.close();
  });
}

test("demo_05_work_shows_two_canvases_with_one_picture", async ({ open, built }) => {
  const page = await open(`${built}/demos/05-work/index.html`, { draws: true });
  await page.waitForSelector("#equal .good", { timeout: 50_000 });
  holds((await page.textContent("#told")).includes("swiftshader"), "the page names its adapter");
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

test("a_hash_of_bytes_is_fnv_1a_with_32_bits", async ({ open, development }) => {
  const page = await open(`${development}/index.html`);
  const found = await page.evaluate(async () => {
    const { hash } = await import("/shared/hash.js");
    return ["", "a", "foobar"].map((text) => hash(new TextEncoder().encode(text)));
  });
  equal(found, ["811c9dc5", "e40c292c", "bf9cf968"]);
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

test("s13_13_a_module_worker_has_an_instance_of_its_own", async ({ open, plain }) => {
  const page = await open(`${plain}/tests/web/policy.html`);
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

const address = (server) => server.resolvedUrls.local[0].replace(/\/$/, "");
const servers = { development: address(development), built: address(built), plain: plainServer.url };
try {
  const { passed, failed } = await runAll({ open, ...servers, complaints, pictures }, console.log, only);
  if (failed > 0 || passed === 0) process.exitCode = 1;
} finally {
  await Promise.all(Object.values(browsers).map((browser) => browser.close()));
  await development.close();
  await built.close();
  plainServer.stop();
}
