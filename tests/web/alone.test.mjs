// A page left alone: what nobody uses goes back by the library's own timers.

import { equal, holds, test } from "./harness.mjs";

const KIB = 2 ** 10;
const MS = { beside: true, ms: 200_000 };

/** Lets time pass: the promise is about it. */
function passes(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

/** Makes four buffers at once, and gives all but so many back, which it answers. */
async function use(device, keeps = 0) {
  const buffers = [];
  for (let i = 0; i < 4; i += 1) buffers.push(await device.createBuffer(256 * KIB));
  for (const buffer of buffers.splice(keeps)) buffer.dispose();
  equal(device.held, 1024 * KIB);
  return buffers;
}

// The scans come 0, 1, 3, 7, 12 and 17 seconds after.
test(
  "s9_15_what_a_page_left_alone_has_cached_goes_back_by_the_tick_unless_pools_are_not_managed",
  async ({ copy }) => {
    const rig = await (await copy("alone")).init();
    const unmanaged = await (await copy("alone, not managed")).init({ managedPool: false });
    const [m, kept] = [rig.memory("alone"), unmanaged.memory("alone, not managed")];
    const used = rig.memory("alone, half of it used");
    // It is there first, and its timers have as much time.
    const half = await use(used, 2);
    for (const device of [kept, m]) await use(device);
    await passes(globalThis.document ? 120 : 20);
    // Where other tests keep the page busy for seconds, timers are late: its own are waited for. A
    // look tells what the timers left: it is taken ahead of all else that a call does.
    while (m.held > 0) await passes(1);
    equal([m.held, m.cached], [0, 0]);
    equal([used.held, used.cached, half.map(({ state }) => state)], [512 * KIB, 0, ["live", "live"]], "what was returned goes alone");
    equal((await m.createBuffer(256 * KIB)).size, 256 * KIB, "it goes on");
    equal([kept.held, kept.cached, kept.stats().freedCount], [1024 * KIB, 1024 * KIB, 0], "nobody looked");
    equal([kept.freeCache(), kept.held], [{ returned: 1024 * KIB, pending: 0 }, 0], "what is asked for is done");
    for (const device of [m, kept, used]) await device.close();
  },
  MS,
);

test(
  "s9_15_gpu_buffers_of_a_page_left_alone_are_destroyed_by_the_tick",
  async ({ copy, gpuDevice }) => {
    const rig = await (await copy("alone on a gpu")).init();
    const device = await gpuDevice();
    const began = performance.now();
    let count = 0;
    const destroyed = new Promise((resolve) => {
      const { createBuffer } = device;
      device.createBuffer = (descriptor) => {
        const buffer = createBuffer.call(device, descriptor);
        if (descriptor.size !== 256 * KIB) return buffer;
        buffer.destroy = () => {
          GPUBuffer.prototype.destroy.call(buffer);
          count += 1;
          if (count === 4) resolve();
        };
        return buffer;
      };
    });
    const gpu = rig.adopt(device);
    await use(gpu);
    await destroyed;
    const seconds = (performance.now() - began) / 1000;
    equal(gpu.held, 0);
    holds(seconds > 10, `after ${seconds} s, not before six scans`);
    await gpu.close();
  },
  { ...MS, needs: "gpu" },
);
