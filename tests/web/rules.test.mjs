// Rules of the JavaScript face that are about the engine: what of it gets out, how it is kept moving,
// and what its maps and clocks may do.

import { equal, fails, holds, test, turn } from "./harness.mjs";
import { fifthRow } from "./loss.test.mjs";

const needs = { needs: "gpu" };
const MIB = 2 ** 20;

test(
  "s13_3_no_exception_of_the_engine_gets_out",
  async ({ rig, open }) => {
    const gpu = await open(8 * MIB);
    const opens = [
      { device: { requiredFeatures: ["of no engine"] } },
      { device: { requiredLimits: { "of no engine": 1 } } },
      { device: { requiredLimits: { maxBufferSize: 2 ** 52 } } },
      { adapter: { powerPreference: "of no engine" } },
    ];
    for (const o of opens) await fails(() => rig.open("never", o), "Unsupported");
    for (const size of [gpu.facts.largest + 1, 2 ** 52]) {
      await fails(() => gpu.createBuffer(size), "Unsupported");
      await fails(() => gpu.createBufferNow(size), "Unsupported");
    }
    const shaders = ["fn", "@compute @workgroup_size(1, 1, 100000) fn main() {}", "@fragment fn main() {}"];
    // One binding twice, of which the engine tells once for the layout and once for what has it.
    const twice = ["x", "y"].map((name) => `@group(0) @binding(0) var<storage, read> ${name}: array<u32>;`).join("\n");
    shaders.push(`${twice} @compute @workgroup_size(1) fn main() {}`);
    for (const wgsl of shaders) await fails(() => gpu.kernel(wgsl), "Misuse", "Rejected");
    const kernel = await gpu.kernel("@compute @workgroup_size(1) fn main() {}");
    const encodings = [
      () => kernel.run({}, [2 ** 31]),
      () => gpu.submit({}, ({ encoder }) => void encoder.finish()),
      () => gpu.submit({}, ({ encoder }) => void encoder.beginComputePass()),
    ];
    for (const encode of encodings) await fails(() => gpu.wait(encode()), "Misuse", "Rejected");
    equal([rig.devices.at(-1) === gpu, (await gpu.createBuffer(8)).size], [true, 8], "the device goes on, and no other came");
    await gpu.close();
  },
  needs,
);

test(
  "s13_12_an_engine_that_is_slow_is_kept_moving_by_empty_submissions_that_take_no_value",
  async (world) => {
    const { gpu, device, double } = await fifthRow(world);
    await gpu.wait(2);
    const { queue } = device;
    const { submit } = queue;
    const at = [];
    queue.submit = (commands) => {
      if (commands.length === 0) at.push(performance.now());
      return submit.call(queue, commands);
    };
    const began = performance.now();
    await gpu.wait(double());
    const took = performance.now() - began;
    holds(at.length > 0, `the wait took ${took} ms`);
    holds(at[0] - began >= 9, `the first came after ${at[0] - began} ms`);
    // One may come late, so that the next is nearer to it: counted, not measured apart.
    holds(at.length <= 2 + (at.at(-1) - at[0]) / 4, `${at.length} in ${at.at(-1) - at[0]} ms`);
    equal(gpu.submitted, 3, "the copy's and the doublings'");
    at.length = 0;
    await turns(50);
    equal(at, [], "while nobody waits");
    await gpu.close();
  },
  needs,
);

for (const [name, hasReason] of [["whose_reason_is_awaited", true], ["without_a_reason", false]]) {
  test(
    `s13_12_a_map_that_fails_unasked_is_a_loss_${name}`,
    async ({ adopted }) => {
      const { gpu, device } = await adopted();
      const x = await gpu.createBuffer(16);
      const { createBuffer } = device;
      device.createBuffer = (descriptor) => {
        const buffer = createBuffer.call(device, descriptor);
        buffer.mapAsync = () => Promise.reject(new Error("on purpose"));
        return buffer;
      };
      const pending = [x.fill(1), x.toArray(Uint8Array), gpu.wait(gpu.submitted)].map((call) => call.catch((e) => e));
      // The reason comes later than the failure.
      await turns(50);
      if (hasReason) device.destroy();
      const { why } = await gpu.lost;
      equal(why === "a map failed", !hasReason, why);
      for (const e of await Promise.all(pending)) equal([e.code, e.why], ["Lost", why]);
      equal(gpu.reached, 0);
    },
    needs,
  );
}

test(
  "s8_8_a_wait_hears_of_a_verdict_that_comes_later_than_the_end_of_the_work",
  async ({ adopted }) => {
    const { gpu, device } = await adopted();
    const { popErrorScope } = device;
    device.popErrorScope = async () => {
      const found = await popErrorScope.call(device);
      await device.queue.onSubmittedWorkDone();
      await turns(50);
      return found;
    };
    const x = await gpu.createBuffer(16);
    const wrong = gpu.submit({ writes: [x] }, ({ encoder }) => void encoder.finish());
    await fails(() => gpu.wait(wrong), "Misuse", "Rejected");
    equal([gpu.reached >= wrong.value, await x.fill(1)], [true, undefined]);
    await gpu.close();
  },
  needs,
);

test(
  "s13_13_a_clock_that_jumps_loses_no_device",
  async (world) => {
    const { gpu, h, x } = await fifthRow(world);
    const { now } = performance;
    const jumps = [3_600_000, 0, 7_200_000];
    try {
      for (const ms of jumps) {
        performance.now = () => now.call(performance) + ms;
        await turns(5);
      }
      await gpu.wait(2);
      await world.rig.copy(x, h);
    } finally {
      delete performance.now;
    }
    equal(await h.read((bytes) => new Float32Array(bytes.buffer)[65_535]), 131_070);
    equal([gpu.submitted, gpu.reached], [3, 3]);
    await gpu.close();
  },
  needs,
);

test(
  "s13_7_mapped_ranges_of_a_gpu_never_reach_a_caller",
  async ({ rig, open }) => {
    const gpu = await open();
    const { getMappedRange } = GPUBuffer.prototype;
    const mapped = new Set();
    GPUBuffer.prototype.getMappedRange = function (...range) {
      const found = getMappedRange.apply(this, range);
      mapped.add(found);
      return found;
    };
    try {
      const [x, h] = [await gpu.createBuffer(4096), await rig.host.createBuffer(4096)];
      await x.fill(6);
      const arrays = [await x.toArray(Uint8Array), await x.toArray(Uint8Array, { offset: 1, length: 5 }), await x.blitTo(new Uint8Array(4096))];
      await rig.copy(x, h);
      arrays.push(await h.read((bytes) => {
        equal(mapped.has(bytes.buffer), false, "a scope's");
        return bytes.slice();
      }));
      holds(mapped.size > 0, "it mapped something");
      equal(arrays.map((array) => [mapped.has(array.buffer), array.at(-1)]), Array(4).fill([false, 6]));
    } finally {
      GPUBuffer.prototype.getMappedRange = getMappedRange;
    }
    await gpu.close();
  },
  needs,
);

/** Lets so many turns of the engine pass. */
async function turns(count) {
  for (let at = 0; at < count; at += 1) await turn();
}
