// What is left of the vectors of S14, and the order of a page's own commands around rig's.

import { equal, fails, test } from "./harness.mjs";

const needs = { needs: "gpu" };

test("s9_7_bins_are_what_a_device_holds_for_one_buffer", async ({ rig }) => {
  const bins = [
    [1, 512],
    [513, 576],
    [1_025, 1_152],
    [65_537, 73_728],
    [1_000_000, 1_048_576],
    [2 ** 26 + 1, 75_497_472],
    [104_857_600, 109_051_904],
    [104_857_601, 104_857_601],
  ];
  for (const [asked, held] of bins) {
    const m = rig.memory("bins");
    const x = await m.createBuffer(asked);
    equal([m.held, x.size], [held, asked], `a buffer of ${asked}`);
    x.dispose();
    await m.close();
  }
});

test("s2_7_a_wait_above_the_last_value_names_both", async ({ rig }) => {
  const m = rig.memory("values");
  for (let value = 1; value <= 4; value += 1) equal(m.submit({}).value, value);
  equal([m.submitted, m.reached], [4, 4]);
  const e = await fails(() => m.wait(5), "Misuse", "NotSubmitted");
  equal([e.message.includes("5"), e.message.includes("4")], [true, true], e.message);
  await m.close();
});

test("s14_a_submission_waits_for_the_writer_of_what_it_borrows", async ({ rig }) => {
  const [a, b] = [rig.memory("writes"), rig.memory("reads")];
  const x = await a.createBuffer(16);
  await x.fill(6);
  equal(a.submit({ writes: [x] }).value, 1);
  const borrowed = x.borrow(b);
  equal(b.submit({ reads: [borrowed], after: [{ device: a, value: 1 }] }).value, 1);
  await fails(() => b.submit({ reads: [x] }), "Misuse", "WrongDevice");
  const { write, uses } = x.stamps();
  equal([write.device === a, write.value, uses.length], [true, 1, 2]);
  equal([await borrowed.toArray(Uint8Array), b.submitted], [Array(16).fill(6), 1]);
  await b.close();
  equal((await x.toArray(Uint8Array))[0], 6, "what the lost one read is done");
  await fails(() => borrowed.toArray(Uint8Array), "Lost");
  await a.close();
});

test("s6_7_bytes_4_to_7_of_a_7_byte_buffer_are_exact", async ({ rig, gpu }) => {
  const m = rig.memory("seven");
  for (const device of [rig.host, m, ...(gpu ? [gpu] : [])]) {
    const [x, y] = [await device.createBuffer(7), await device.createBuffer(7)];
    await x.blitFrom(new Uint8Array([1, 2, 3, 4, 5, 6, 7]));
    await y.fill(9);
    await rig.copy(x.view(4, 3), y.view(4, 3));
    equal(await y.toArray(Uint8Array), [9, 9, 9, 9, 5, 6, 7], device.name);
    await rig.copy(x.view(4, 3), y.view(1, 3));
    equal(await y.toArray(Uint8Array), [9, 5, 6, 7, 5, 6, 7], device.name);
    equal(await x.blitTo(new Uint8Array(3), { offset: 4 }), [5, 6, 7], device.name);
    await fails(() => x.view(4, 4), "Misuse", "OutOfRange");
  }
  await m.close();
});

test(
  "s13_1_a_pages_own_commands_keep_their_order_around_rigs",
  async ({ rig, adopted }) => {
    const { gpu, device } = await adopted();
    const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | GPUBufferUsage.STORAGE;
    const theirs = device.createBuffer({ size: 64, usage });
    const w = gpu.wrapGpu(theirs);
    const [x, y] = [await gpu.createBuffer(64), await gpu.createBuffer(4 * 32)];
    const add = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @group(0) @binding(1) var<storage, read> w: array<u32>;
      @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] += w[id.x]; }`);
    await x.fill(0);
    for (let round = 0; round < 32; round += 1) {
      // The page writes, rig adds, the page writes again, rig copies the sum: nothing is awaited.
      device.queue.writeBuffer(theirs, 0, new Uint32Array(16).fill(round));
      add.run({ x, w }, [1]);
      device.queue.writeBuffer(theirs, 0, new Uint32Array(16).fill(1_000_000));
      gpu.submit({ reads: [x], writes: [y] }, ({ encoder, buffer }) => {
        const [from, to] = [buffer(x), buffer(y)];
        encoder.copyBufferToBuffer(from.buffer, from.offset + 60, to.buffer, to.offset + 4 * round, 4);
      });
    }
    let sum = 0;
    equal(await y.toArray(Uint32Array), Array.from({ length: 32 }, (_, round) => (sum += round)));
    equal((await w.toArray(Uint32Array))[0], 1_000_000);
    // Work of the page alone, told afterwards, is waited for like rig's.
    const lent = x.lend();
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(lent.buffer, lent.offset, lent.size);
    device.queue.submit([encoder.finish()]);
    equal(gpu.recordUse({ writes: [x] }).value, gpu.submitted);
    const h = await rig.host.createBuffer(64);
    await rig.copy(x, h);
    equal(await h.toArray(Uint8Array), Array(64).fill(0));
    await gpu.close();
  },
  needs,
);
