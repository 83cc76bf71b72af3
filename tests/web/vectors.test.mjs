// What is left of the vectors of S14, and the order of a page's own commands around rig's.

import { equal, fails, holds, test } from "./harness.mjs";

const needs = { needs: "gpu" };
const KIB = 2 ** 10;
const MIB = 2 ** 20;

/** Returns the values of a buffer's stamps on a device: the write's, and the last use's. */
function valuesOf(x, device) {
  const { write, uses } = x.stamps();
  const on = uses.filter((point) => point.device === device).map(({ value }) => value);
  return [write?.value ?? 0, on[0] ?? 0];
}

test(
  "s14_a_row_by_row",
  async ({ rig, open }) => {
    const gpu = await open();
    const n = 256 * KIB;
    const doubles = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<f32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] *= 2.0; }`);
    const h = await rig.host.createBuffer(n);
    equal([h.stamps(), gpu.submitted], [{ write: null, uses: [] }, 0], "1");
    const x = await gpu.createBuffer(n);
    equal([valuesOf(x, gpu), gpu.held], [[0, 0], n], "2");
    await h.write((bytes) => new Float32Array(bytes.buffer).forEach((_, i, a) => (a[i] = i)));
    equal([h.stamps().write, gpu.submitted], [null, 0], "3");
    await rig.copy(h, x);
    equal([valuesOf(x, gpu), h.stamps().uses, gpu.submitted, gpu.reached], [[1, 1], [], 1, 1], "4");
    doubles.run({ x }, [n / 4 / 64]);
    equal([valuesOf(x, gpu), gpu.submitted], [[2, 2], 2], "5");
    await gpu.wait(2);
    equal([gpu.submitted, gpu.reached], [2, 2], "6");
    await rig.copy(x, h);
    equal([valuesOf(x, gpu), h.stamps().uses, gpu.submitted, gpu.reached], [[2, 3], [], 3, 3], "7");
    equal(await h.read((bytes) => new Float32Array(bytes.buffer)[65_535]), 131_070, "8");
    await rig.copy(h, x);
    equal([valuesOf(x, gpu), gpu.submitted], [[4, 4], 4], "9");
    x.dispose();
    gpu.trim();
    equal([gpu.cached, gpu.submitted], [n, 4], "10");
    const again = await gpu.createBuffer(n);
    equal([gpu.stats().kindCounts, gpu.held], [[1, 1, 0, 0], n], "11");
    const { cached } = rig.host;
    h.dispose();
    rig.host.trim();
    equal([rig.host.cached - cached, gpu.submitted, again.state], [n, 4, "live"], "12");
    await gpu.close();
  },
  needs,
);

test(
  "s14_memory_whose_own_device_still_uses_it_is_served_at_try_1_with_that_point",
  async ({ open }) => {
    const gpu = await open(MIB);
    const spin = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
        for (var i = 0u; i < 20000u; i++) { x[id.x] = x[id.x] * 1664525u + 1013904223u; }
      }`);
    const x = await gpu.createBuffer(MIB);
    const { value } = spin.run({ x }, [64]);
    x.dispose();
    const y = await gpu.createBuffer(MIB);
    const { kindCounts, actualCount } = gpu.stats();
    equal([kindCounts, actualCount, gpu.held], [[1, 1, 0, 0], 1, MIB]);
    equal(valuesOf(y, gpu)[1], value, "its stamps keep the point");
    await y.fill(3);
    equal((await y.toArray(Uint8Array))[MIB - 1], 3, "what is asked of it comes after");
    await gpu.close();
  },
  needs,
);

test(
  "s14_a_copy_of_three_pieces_and_4096_bytes_takes_four_values",
  async ({ rig, open }) => {
    const gpu = await open();
    const { piece } = gpu.facts;
    const { stagingBytes } = rig.host.stats();
    const length = 3 * piece + 4096;
    const h = await rig.host.createBuffer(length);
    await h.write((bytes) => bytes.forEach((_, i) => (bytes[i] = i % 251)));
    const [x, back] = [await gpu.createBuffer(length), await rig.host.createBuffer(length)];
    await rig.copy(h, x);
    equal([gpu.submitted, valuesOf(x, gpu), h.stamps().uses], [4, [4, 4], []]);
    await rig.copy(x, back);
    equal([gpu.submitted, valuesOf(x, gpu), back.stamps().write], [8, [4, 8], null]);
    equal(await back.read((bytes) => bytes.findIndex((byte, i) => byte !== i % 251)), -1);
    const more = rig.host.stats().stagingBytes - stagingBytes;
    holds(more <= 16 * MIB, `two slots of two halves are ${more} bytes`);
    await gpu.close();
  },
  needs,
);

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

test("s14_b_through_a_borrow_on_a_device_whose_work_the_page_does", async ({ rig }) => {
  const d = rig.memory("vector b");
  const n = 256 * KIB;
  const [h, x] = [await rig.host.createBuffer(n), await d.createBuffer(n)];
  await h.write((bytes) => new Float32Array(bytes.buffer).forEach((_, i, a) => (a[i] = i)));
  const stamps = () => [valuesOf(h, d), valuesOf(x, d)];
  const { held } = d;
  const hb = h.borrow(d);
  equal([stamps(), hb.size, hb.device === d, d.held], [[[0, 0], [0, 0]], n, true, held], "1: over the same bytes");
  await rig.copy(hb, x);
  d.submit({ reads: [hb], writes: [x] });
  equal(stamps(), [[0, 1], [1, 1]], "2");
  await x.write((bytes) => new Float32Array(bytes.buffer).forEach((value, i, a) => (a[i] = 2 * value)));
  d.submit({ writes: [x] });
  equal(stamps(), [[0, 1], [2, 2]], "3");
  await rig.copy(x, hb);
  d.submit({ reads: [x], writes: [hb] });
  equal([stamps(), hb.stamps().write.value], [[[3, 3], [2, 3]], 3], "4");
  equal(await h.read((bytes) => new Float32Array(bytes.buffer)[65_535]), 131_070, "5");
  hb.dispose();
  d.submit({ reads: [x] });
  const again = h.borrow(d);
  equal([hb.state, valuesOf(again, d), h.state], ["disposed", [3, 3], "live"], "6: it is borrowed anew, with its stamps");
  again.dispose();
  await d.close();
  equal(await h.read((bytes) => new Float32Array(bytes.buffer)[1]), 2, "what it used it for is done");
});

test("s14_f_and_g_where_every_point_is_done_only_the_borrow_is_lost", async ({ rig }) => {
  const d = rig.memory("vectors f and g");
  const [h, x, there] = [await rig.host.createBuffer(4), await d.createBuffer(4), await rig.host.createBuffer(4)];
  await h.fill(5);
  const [hb, out] = [h.borrow(d), await h.export()];
  d.submit({ reads: [x], writes: [hb] });
  await d.close();
  for (const call of [() => rig.copy(x, hb), () => hb.toArray(Uint8Array), () => hb.fill(1), () => hb.claimRead()]) await fails(call, "Lost");
  equal(out.bytes, [5, 5, 5, 5], "an export of before");
  out.dispose();
  await rig.copy(h, there);
  await h.fill(6);
  const borrowed = h.borrow(rig.memory("beside f and g"));
  equal([await there.toArray(Uint8Array), await borrowed.toArray(Uint8Array)], [Array(4).fill(5), Array(4).fill(6)]);
  x.dispose();
  rig.host.trim();
  const { liveBytes } = rig.host.stats();
  for (const buffer of [h, hb, borrowed]) buffer.dispose();
  rig.host.trim();
  equal([d.held, liveBytes - rig.host.stats().liveBytes], [0, 4], "it returns");
  await borrowed.device.close();
});

test("s14_no_device_of_a_page_has_an_undone_point_on_memory_of_another", async ({ rig, gpu, open }) => {
  const gpus = gpu ? [await open(), await open()] : [];
  const memories = [rig.memory("one of two"), rig.memory("two of two")];
  const devices = [rig.host, ...memories, ...gpus];
  for (const of of devices) {
    const x = await of.createBuffer(64);
    for (const on of devices.filter((on) => on !== of)) {
      const borrow = x.borrow(on);
      const what = `${on.name} borrows of ${of.name}`;
      // A GPU of a page maps nothing, and nothing maps its memory; the host has no timeline.
      equal(borrow === null, gpus.includes(of) || gpus.includes(on), what);
      if (!memories.includes(on)) continue;
      if (borrow) equal([on.submit({ writes: [borrow] }).value, on.reached], [on.submitted, on.submitted], what);
    }
  }
  for (const device of devices.slice(1)) await device.close();
});

test(
  "s13_1_what_comes_after_an_unreached_point_would_wait_and_has_no_value_until_it_is_ready",
  async ({ rig, open }) => {
    const [gpu, m] = [await open(), rig.memory("comes after")];
    const x = await m.createBuffer(64);
    const point = gpu.submit({});
    await fails(() => m.submit({ writes: [x], after: [point] }), "Misuse", "WouldWait");
    const pending = m.submitWhenReady({ writes: [x], after: [point] });
    equal([gpu.reached, m.submitted, x.stamps().uses], [0, 0, []], "while it waits");
    const { value } = await pending;
    equal([value, gpu.reached, m.reached, valuesOf(x, m)], [1, 1, 1, [1, 1]], "once it can be");
    await Promise.all([gpu.close(), m.close()]);
  },
  needs,
);

test("s14_a_submission_waits_for_the_writer_of_what_it_borrows", async ({ rig }) => {
  const [a, b] = [rig.memory("writes"), rig.memory("reads")];
  const [x, y, z] = [await a.createBuffer(16), await b.createBuffer(16), await rig.host.createBuffer(16)];
  await x.fill(6);
  equal(a.submit({ writes: [x] }).value, 1);
  const borrowed = x.borrow(b);
  await rig.copy(borrowed, y);
  const after = [{ device: a, value: 1 }];
  equal(b.submit({ reads: [borrowed], writes: [y], after }).value, 1);
  await rig.copy(y, z);
  equal([await z.toArray(Uint8Array), z.stamps(), a.submitted, b.submitted], [Array(16).fill(6), { write: null, uses: [] }, 1, 1]);
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
