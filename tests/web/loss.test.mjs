// Losses, as the vectors D and E of S14 and the table of S12.1 have them, on a GPU that the page
// destroys while work is under way.

import { equal, error, fails, holds, test, turn, until } from "./harness.mjs";

const needs = { needs: "gpu" };
const N = 65_536;
const SPIN = `
  @group(0) @binding(0) var<storage, read_write> x: array<f32>;
  @group(0) @binding(1) var<uniform> count: u32;
  @group(0) @binding(2) var<uniform> none: u32;
  @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    var v = bitcast<u32>(x[id.x]);
    for (var i = 0u; i < count; i++) { v = v * 1664525u + 1013904223u; }
    x[id.x] = 2.0 * x[id.x] + f32(v & none);
  }`;

/** Answers how many times round a kernel goes in some 200 ms. */
async function slowness(gpu, spin, x) {
  // The first time, it is compiled.
  await gpu.wait(spin.run({ x, count: 1, none: 0 }, [N / 64]));
  for (let count = 100; ; count *= 4) {
    const began = performance.now();
    await gpu.wait(spin.run({ x, count, none: 0 }, [N / 64]));
    const ms = performance.now() - began;
    if (ms > 100) return Math.ceil((count * 200) / ms);
  }
}

/** The program of vector A up to its fifth row, whose doubling takes a while; and H and X. */
export async function fifthRow({ rig, open, adopted }) {
  const probe = await open();
  const slow = await slowness(probe, await probe.kernel(SPIN), await probe.createBuffer(4 * N));
  await probe.close();
  const { gpu, device } = await adopted();
  const spin = await gpu.kernel(SPIN);
  const [h, x] = [await rig.host.createBuffer(4 * N), await gpu.createBuffer(4 * N)];
  await h.write((bytes) => new Float32Array(bytes.buffer).forEach((_, i, a) => (a[i] = i)));
  await rig.copy(h, x);
  equal([gpu.reached, gpu.submitted], [1, 1]);
  const double = () => spin.run({ x, count: slow, none: 0 }, [N / 64]);
  equal(double().value, 2);
  return { gpu, device, h, x, double };
}

const lastOf = (h) => h.read((bytes) => new Float32Array(bytes.buffer)[N - 1]);

test(
  "s14_d_a_loss_under_the_doubling",
  async (world) => {
    const { rig, open, gpuDevice } = world;
    const other = await open();
    const beside = await other.createBuffer(4);
    const { gpu, device, h, x } = await fifthRow(world);
    device.destroy();
    equal([(await gpu.lost).code, gpu.reached], ["Lost", 1]);
    for (const value of [2, 1]) await fails(() => gpu.wait(value), "Lost");
    const calls = [
      () => gpu.createBuffer(8),
      () => gpu.createBufferNow(8),
      () => gpu.submit({ reads: [x] }),
      () => gpu.submitWhenReady({ writes: [x] }),
      () => h.borrow(gpu),
      () => gpu.kernel(SPIN),
      ...usesOf(rig, x),
    ];
    for (const call of calls) await fails(call, "Lost");
    for (const call of usesOf(rig, h)) {
      const answer = await call();
      answer?.release?.();
    }
    equal([await lastOf(h), x.size, x.state, gpu.submitted], [N - 1, 4 * N, "live", 2]);
    // Another device goes on, through the same halves.
    await beside.fill(2);
    const y = await other.createBuffer(4 * N);
    await rig.copy(h, y);
    equal([(await y.toArray(Float32Array)).at(-1), await beside.toArray(Uint8Array)], [N - 1, Array(4).fill(2)]);
    x.free();
    equal(x.state, "dead");
    await until(() => gpu.held === 0, "its memory is home");
    const again = rig.adopt(await gpuDevice(), { name: gpu.name });
    equal([again === gpu, again.submitted, again.reached], [false, 0, 0]);
    await Promise.all([other.close(), again.close()]);
  },
  needs,
);

/** What uses a buffer's bytes, and leaves those of H as they were. */
function usesOf(rig, buffer) {
  return [
    () => buffer.toArray(Uint8Array, { length: 4 }),
    () => buffer.blitTo(new Uint8Array(4)),
    () => buffer.blitFrom(new Uint8Array(4)),
    () => buffer.fill(0, { length: 4 }),
    () => rig.copy(buffer.view(0, 4), rig.wrap(new Uint8Array(4))),
    () => rig.copy(rig.wrap(new Uint8Array(4)), buffer.view(0, 4)),
    () => buffer.claimRead(),
  ];
}

test(
  "s14_e_a_loss_under_the_copy_back",
  async (world) => {
    const { rig, open } = world;
    const { gpu, device, h, x } = await fifthRow(world);
    const copy = rig.copy(x, h);
    await until(() => gpu.submitted === 3, "its leg is on the queue");
    device.destroy();
    await fails(() => copy, "Lost");
    equal([await lastOf(h), h.stamps().write], [N - 1, null], "as the host wrote them");
    equal([gpu.submitted, gpu.reached], [3, 1]);
    for (const call of usesOf(rig, x)) await fails(call, "Lost");
    const other = await open();
    const y = await other.createBuffer(4 * N);
    await rig.copy(h, y);
    await h.fill(0);
    await rig.copy(y, h);
    equal(await lastOf(h), N - 1);
    await other.close();
  },
  needs,
);

test(
  "s13_12_no_wait_resolves_of_600_ms_of_work_under_a_destroyed_device",
  async (world) => {
    const { rig } = world;
    const h = await rig.host.createBuffer(4 * N);
    const { gpu, device, x, double } = await fifthRow(world);
    // Some 200 ms each, of which a slow page may see the first two end.
    const values = [2, double().value, double().value, double().value, double().value];
    const waits = values.map((value) => gpu.wait(value).then(() => "done", (e) => e.code));
    const calls = [x.toArray(Uint8Array), x.fill(1), rig.copy(x, h)].map((of) => error(() => of));
    await turn();
    device.destroy();
    for (const e of await Promise.all(calls)) equal(e.code, "Lost", e.message);
    const { reached } = gpu;
    holds(reached < 4, `${reached} of ${gpu.submitted} was reached`);
    const wanted = values.map((value) => (value <= reached ? "done" : "Lost"));
    equal(await Promise.all(waits), wanted);
    // As much work on a device that lives has ended.
    const beside = await fifthRow(world);
    for (let i = 0; i < 3; i += 1) beside.double();
    await beside.gpu.wait(beside.gpu.submitted);
    await beside.gpu.close();
    equal([gpu.reached, gpu.submitted >= 6], [reached, true], "the work never looks done");
    for (const value of values) await fails(() => gpu.wait(value), "Lost");
  },
  needs,
);

test(
  "s12_1_lost_settles_within_a_turn_of_the_devices_own_once_and_its_name_opens_anew",
  async ({ rig, adopted, gpuDevice }) => {
    const { gpu, device } = await adopted();
    const name = gpu.name;
    let heard = 0;
    gpu.addEventListener("lost", () => (heard += 1));
    let why = "";
    void gpu.lost.then((e) => (why = e.code));
    device.destroy();
    await device.lost;
    await turn();
    equal([why, heard], ["Lost", 1]);
    const again = rig.adopt(await gpuDevice(), { name });
    equal([again === gpu, again.submitted], [false, 0]);
    const x = await again.createBuffer(8);
    await x.fill(4);
    equal(await x.toArray(Uint8Array), Array(8).fill(4));
    holds((await error(() => gpu.createBuffer(8))).code === "Lost" && heard === 1, "the old one stays lost");
    await again.close();
  },
  needs,
);
