// Each demo's `run()`, from Vite's development server, in whatever browser: on its WebGPU, and as in
// a page without. The browser opens pages, each with `evaluate` and `close`.

import { createServer } from "vite";
import { equal, holds, runAll, test } from "./harness.mjs";

const MIB = 2 ** 20;
const configFile = new URL("../../www/vite.config.js", import.meta.url).pathname;

/** Serves the demos as they are; answers their address and what stops that. */
export async function serveDemos() {
  const server = await createServer({ configFile, logLevel: "error" });
  await server.listen(0);
  return { development: server.resolvedUrls.local[0].replace(/\/$/, ""), stop: () => server.close() };
}

/** Runs these tests in a browser, which has a GPU or none; answers what came of them. */
export async function runDemos(open, gpu) {
  const { development, stop } = await serveDemos();
  try {
    return await runAll({ open, gpu, development });
  } finally {
    await stop();
  }
}

/** Runs a demo, and answers what its `run()` does. */
async function ran({ open, development }, demo, on, options = {}) {
  const page = await open(`${development}/demos/${demo}/index.html?quiet`, { draws: demo === "05-work" && on === "gpu" });
  try {
    // As text, since not every protocol tells an object that is there twice.
    const text = await page.evaluate(
      async ([demo, on, options]) => {
        if (on === "memory") Object.defineProperty(navigator, "gpu", { value: undefined });
        const { run } = await import(`/demos/${demo}/main.js`);
        return JSON.stringify(await run(options));
      },
      [demo, on, options],
    );
    return JSON.parse(text);
  } finally {
    await page.close();
  }
}

const onGpu = { needs: "gpu" };
const needsOf = (on) => (on === "gpu" ? onGpu : {});

test("demo_01_reclamation_runs_within_its_budget", async (world) => {
  const lanes = await ran(world, "01-reclamation", "gpu", { frames: 40, budget: 64 * MIB });
  equal(lanes.map(({ name }) => name), ["rig", "raw, with destroy()", "raw"]);
  const [rig, destroys, raw] = lanes;
  holds(rig.held <= 64 * MIB, `rig holds ${rig.held} bytes`);
  equal([destroys.held, destroys.made, rig.made], [0, 640 * MIB, 640 * MIB]);
  equal(rig.staging, 0, "an upload a frame is the queue's own write");
  // It may have stopped by itself, at 8 budgets or after its time.
  holds(raw.most > 64 * MIB && raw.most <= 8 * 64 * MIB, `raw held ${raw.most} bytes`);
  const { p99, making, collection } = rig;
  holds(p99 > 0 && making > 0 && collection > 0, `rig tells its times: ${[p99, making, collection]}`);
  // Some engines round a time to milliseconds.
  holds(destroys.collection >= 0 && destroys.collection < collection, `destroy() takes ${destroys.collection} ms`);
  equal(raw.collection, null);
}, onGpu);

test("demo_01_reclamation_runs_on_a_memory_device_without_webgpu", async (world) => {
  const lanes = await ran(world, "01-reclamation", "memory", { frames: 20, budget: 64 * MIB });
  equal([lanes.length, lanes[0].made], [1, 320 * MIB]);
  holds(lanes[0].held <= 64 * MIB, `rig holds ${lanes[0].held} bytes`);
});

for (const on of ["gpu", "memory"]) {
  test(`demo_02_budget_ends_in_the_report_of_three_rounds_on_${on}`, async (world) => {
    const { webgpu, steps, report } = await ran(world, "02-budget", on);
    equal(webgpu, on === "gpu");
    equal(steps.map(({ fromCache, fromDriver }) => fromCache + fromDriver), [100, 104, 104]);
    for (const { held, name } of steps) holds(held <= MIB, `${name}: ${held} bytes are held`);
    equal([report.askedBytes, report.budgetBytes, report.liveBytes], [MIB / 4, MIB, MIB]);
    equal(report.rounds.map(({ kept }) => kept.liveBytes + kept.claimedBytes), [MIB, MIB, MIB]);
    equal(report.labels.map(({ label, count }) => [label, count])[0], ["weights", 2]);
  }, needsOf(on));
}

for (const [on, values, x] of [
  ["gpu", [0, 1, 2, 2, 3, 3], [[0, 0], [1, 1], [2, 2], [2, 2], [2, 3], [2, 3]]],
  // The page addresses the device's memory, so that only the submission takes a value.
  ["memory", [0, 0, 1, 1, 1, 1], [[0, 0], [0, 0], [1, 1], [1, 1], [1, 1], [1, 1]]],
]) {
  test(`demo_03_stamps_doubles_and_tells_the_stamps_on_${on}`, async (world) => {
    const { webgpu, steps } = await ran(world, "03-stamps", on);
    equal([webgpu, steps.at(-1).last], [on === "gpu", 131_070]);
    equal(steps.map(({ submitted }) => submitted), values);
    equal(steps.map((step) => [step.x.write, step.x.use]), x);
    equal(steps.map((step) => [step.h.write, step.h.use]), steps.map(() => [0, 0]));
    // Only a doubling that was not waited for yet may be under way.
    for (const at of [0, 1, 3, 4, 5]) equal(steps[at].reached, values[at], steps[at].call);
  }, needsOf(on));
}

for (const on of ["gpu", "memory"]) {
  test(`demo_04_loss_says_which_calls_still_answer_on_${on}`, async (world) => {
    const found = await ran(world, "04-loss", on);
    equal([found.webgpu, found.heard, found.held, found.isNew], [on === "gpu", 1, 0, true]);
    const answers = (text) => text.startsWith("answers");
    equal(found.memory.filter(({ host }) => !answers(host)), [], "what the page's memory refuses");
    const lost = found.memory.filter(({ own }) => own === "Lost").map(({ name }) => name);
    const inPlace = ["read it in place", "write it in place", "export its bytes"];
    const others = ["take its", "take them", "put", "fill", "copy from", "copy into", "claim it for r", "claim it for a"];
    equal(lost.length, others.length + (on === "gpu" ? 0 : inPlace.length), "how many are Lost");
    for (const start of others) holds(lost.some((name) => name.startsWith(start)), `${start} is Lost`);
    // A page never addresses the memory of a GPU.
    const never = found.memory.filter(({ own }) => own === "Unsupported").map(({ name }) => name);
    equal(never, on === "gpu" ? inPlace : []);
    const of = (name) => found.device.find((row) => row.name.startsWith(name)).answer;
    // A close lets work end first; a destroyed device's work never looks done.
    equal(of("wait for the work under way"), on === "gpu" ? "Lost" : "answers");
    for (const name of ["create a", "create one", "submit work", "submit it", "tell", "wait for its first"]) equal(of(name), "Lost", name);
    if (found.webgpu) equal(of("compile"), "Lost");
    for (const name of ["ask for its stat", "ask why", "set", "trim", "free", "close"]) equal(of(name), "answers", name);
  }, needsOf(on));
}

for (const [on, cells, checks] of [["gpu", 256, [5, 25]], ["memory", 64, [5, 60, 100]]]) {
  test(`demo_05_work_draws_the_same_pixels_with_new_buffers_and_with_reused_ones_on_${on}`, async (world) => {
    const size = cells ** 2;
    const frames = checks.at(-1);
    const budget = 24 * 8 * size;
    const found = await ran(world, "05-work", on, { frames, cells, budget });
    equal([found.on, found.cells, found.budget], [on, cells, budget]);
    const [rig, hand] = found.lanes;
    equal([rig.name, rig.frames, hand.name, hand.frames], ["rig", frames, "hand", frames]);
    // Eight fields of 8 bytes a cell, two blurs and a picture of 4; and the field at the start.
    equal([rig.madeCount, rig.madeBytes], [11 * frames + 1, size * (frames * (8 * 8 + 3 * 4) + 8)]);
    equal([hand.madeCount, hand.madeBytes, hand.held], [5, size * (2 * 8 + 3 * 4), hand.madeBytes]);
    const { peakHeldBytes, requestedCount, returnedCount } = rig.stats;
    holds(rig.held <= budget && peakHeldBytes <= budget, `rig held ${peakHeldBytes} of ${budget}`);
    // What was made is many times what fits: the engine gave nearly all of it back.
    holds(rig.madeBytes > 6 * budget, `${rig.madeBytes} is more than 6 budgets`);
    holds((requestedCount - returnedCount) * 4 * size <= budget, `${returnedCount} of ${requestedCount} are returned`);
    for (const { calls, median, p99 } of found.lanes) {
      holds(calls <= median && 0 < median && median <= p99, `calls ${calls}, median ${median}, p99 ${p99}`);
    }
    equal(found.hashes.map(({ frame }) => frame), checks);
    for (const { frame, rig, hand } of found.hashes) equal(rig, hand, `the picture of frame ${frame}`);
    equal(new Set(found.hashes.map(({ rig }) => rig)).size, checks.length, "pictures that differ");
  }, needsOf(on));
}

for (const on of ["gpu", "memory"]) {
  test(`demo_05_work_finds_a_size_that_fits_and_compares_at_it_on_${on}`, async (world) => {
    const found = await ran(world, "05-work", on, { frames: 45 });
    holds([64, 128, 256, 512].includes(found.cells), `${found.cells} cells were found`);
    for (const { frames } of found.lanes) equal(frames, 45, "frames of the last size alone count");
    equal(found.hashes.map(({ frame, rig, hand }) => [frame, rig === hand]), [[5, true], [45, true]]);
  }, needsOf(on));
}

test("demo_05_work_grows_while_there_is_room_and_keeps_off_a_size_that_was_too_large", async () => {
  const { Fit } = await import("../../www/demos/05-work/fit.js");
  /** Judges one size from frames alike, and answers the cells then. */
  const judged = (fit, took, apart = 16) => {
    for (let frame = 0; frame < 20; frame += 1) fit.changes(took, apart);
    return fit.size.cells;
  };
  const fast = new Fit();
  equal([1, 2, 4, 5].map((took) => judged(fast, took)), [128, 256, 512, 512]);
  const slow = new Fit();
  equal([5, 9, 40, 5].map((took) => judged(slow, took)), [128, 256, 128, 128]);
  const late = new Fit();
  equal([[5, 16], [5, 33], [5, 16]].map(([took, apart]) => judged(late, took, apart)), [128, 64, 64]);
  const full = new Fit();
  equal([12, 12, 40].map((took) => judged(full, took)), [64, 64, 64]);
});

test("a_hash_of_bytes_is_fnv_1a_with_32_bits", async () => {
  const { hash } = await import("../../www/shared/hash.js");
  const found = ["", "a", "foobar"].map((text) => hash(new TextEncoder().encode(text)));
  equal(found, ["811c9dc5", "e40c292c", "bf9cf968"]);
});
