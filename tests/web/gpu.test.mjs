// GPUs of the page: copies, kernels, submissions, budgets and loss on real WebGPU.

import { equal, error, fails, holds, test, turn, until } from "./harness.mjs";

const MIB = 2 ** 20;
const needs = { needs: "gpu" };

const DOUBLE = `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&x)) { x[id.x] *= 2.0; }
}`;

test(
  "s14_a_copy_double_copy_with_its_stamps",
  async ({ rig, open }) => {
    const gpu = await open();
    const h = await rig.host.createBuffer(4 * 65_536);
    const x = await gpu.createBuffer(4 * 65_536);
    await h.write((bytes) => new Float32Array(bytes.buffer).forEach((_, i, a) => (a[i] = i)));
    await rig.copy(h, x);
    equal([x.stamps().write.value, gpu.submitted, gpu.reached], [1, 1, 1]);
    const double = await gpu.kernel(DOUBLE);
    const done = double.run({ x }, [1024]);
    equal([done.value, x.stamps().write.value], [2, 2]);
    await gpu.wait(done);
    await rig.copy(x, h);
    const last = await h.read((bytes) => new Float32Array(bytes.buffer)[65_535]);
    equal([last, gpu.submitted, x.stamps().uses[0].value], [131_070, 3, 3]);
    await fails(() => x.read(() => 1), "Unsupported");
    await gpu.close();
  },
  needs,
);

test(
  "s6_7_copies_and_fills_are_byte_exact_at_odd_offsets",
  async ({ rig, gpu }) => {
    const length = 67;
    const from = Uint8Array.from({ length }, (_, i) => (i * 37 + 11) & 255);
    const [x, y] = [await gpu.createBuffer(length), await gpu.createBuffer(length)];
    for (const [a, b, count] of [[0, 0, 67], [1, 1, 50], [1, 3, 33], [3, 0, 9], [5, 2, 1], [2, 7, 6], [4, 8, 5]]) {
      await x.blitFrom(from);
      await y.fill(0xee);
      await rig.copy(x.view(a, count), y.view(b, count));
      const wanted = new Uint8Array(length).fill(0xee);
      wanted.set(from.subarray(a, a + count), b);
      equal(await y.toArray(Uint8Array), wanted, `${count} bytes from ${a} to ${b}`);
    }
    await x.blitFrom(from);
    await rig.copy(x.view(1, 20), x.view(30, 20));
    const within = Uint8Array.from(from);
    within.copyWithin(30, 1, 21);
    equal(await x.toArray(Uint8Array), within, "a copy within one GPU buffer");
  },
  needs,
);

test(
  "s7_5_large_transfers_go_in_pieces",
  async ({ gpu }) => {
    const length = 9 * MIB + 5;
    const data = Uint8Array.from({ length }, (_, i) => (i * 2_654_435_761) >>> 24);
    const x = await gpu.createBuffer(length);
    await x.blitFrom(data);
    const found = await x.toArray(Uint8Array);
    equal(found.findIndex((byte, i) => byte !== data[i]), -1, "the first byte that differs");
    x.dispose();
  },
  needs,
);

test(
  "s7_6_a_copy_goes_to_the_queue_in_pieces_of_4_mib_at_most_four_undone_and_a_blit_in_one",
  async ({ rig, adopted }) => {
    const { device, gpu } = await adopted();
    const { queue } = device;
    const { writeBuffer } = queue;
    const { mapAsync } = GPUBuffer.prototype;
    let [written, undone, mostUndone] = [[], 0, 0];
    queue.writeBuffer = function (buffer, offset, data, ...range) {
      written.push(data.byteLength);
      mostUndone = Math.max(mostUndone, undone + 1);
      return writeBuffer.call(this, buffer, offset, data, ...range);
    };
    // Each piece has a fence behind it, whose map tells that it is done.
    GPUBuffer.prototype.mapAsync = function (...words) {
      undone += 1;
      const mapped = mapAsync.apply(this, words);
      mapped.then(() => (undone -= 1));
      return mapped;
    };
    try {
      const length = 25 * MIB;
      const h = await rig.host.createBuffer(length);
      const x = await gpu.createBuffer(length);
      await rig.copy(h, x);
      equal([written, gpu.submitted], [[...Array(6).fill(4 * MIB), MIB], 7], "a copy");
      holds(mostUndone <= 4, `${mostUndone} pieces were undone at once`);
      written = [];
      await x.blitFrom(new Uint8Array(length));
      equal([written, gpu.submitted], [[length], 8], "a blit");
      h.free();
      rig.host.freeCache();
    } finally {
      GPUBuffer.prototype.mapAsync = mapAsync;
    }
    await gpu.close();
  },
  needs,
);

test(
  "s7_7_between_two_gpus_every_byte_comes_over_at_any_offset",
  async ({ rig, gpu, open }) => {
    const other = await open();
    const length = 9 * MIB + 5;
    const from = Uint8Array.from({ length }, (_, i) => (i * 2_654_435_761) >>> 24);
    const [x, y] = [await gpu.createBuffer(length), await other.createBuffer(length)];
    await x.blitFrom(from);
    for (const [a, b, count] of [[0, 0, length], [1, 3, 8 * MIB], [5, 2, 64 * 1024]]) {
      await y.fill(0xee);
      await rig.copy(x.view(a, count), y.view(b, count));
      const found = await y.toArray(Uint8Array);
      const wanted = new Uint8Array(length).fill(0xee);
      wanted.set(from.subarray(a, a + count), b);
      equal(found.findIndex((byte, i) => byte !== wanted[i]), -1, `${count} bytes from ${a} to ${b}`);
    }
    x.dispose();
    await other.close();
  },
  needs,
);

test(
  "s13_8_two_arrays_of_one_buffer_at_once_are_both_right",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(1024);
    await x.fill(5);
    const [a, b] = await Promise.all([x.toArray(Uint8Array), x.toArray(Uint32Array)]);
    equal([a.every((byte) => byte === 5), b.every((word) => word === 0x05050505)], [true, true]);
    const all = await Promise.all(Array.from({ length: 100 }, (_, i) => x.toArray(Uint8Array, { offset: i, length: 4 })));
    equal(all.every((bytes) => bytes[3] === 5), true);
  },
  needs,
);

test(
  "s13_11_free_and_dispose_beside_a_pending_call_settle_it",
  async ({ gpu }) => {
    for (const end of ["free", "dispose"]) {
      const x = await gpu.createBuffer(1 * MIB);
      const pending = [x.toArray(Uint8Array), x.fill(1), x.blitFrom(new Uint8Array(4))];
      const ended = await error(() => { x[end](); throw "ended"; });
      const settled = await Promise.allSettled(pending);
      if (end === "free") equal([ended.code, ended.what], ["Misuse", "Busy"]);
      else equal(settled.map(({ status }) => status), ["fulfilled", "fulfilled", "fulfilled"]);
    }
  },
  needs,
);

test(
  "s8_6_a_kernel_binds_by_name_with_uniforms_of_its_types",
  async ({ gpu }) => {
    const kernel = await gpu.kernel(`
      struct Line { a: f32, b: f32 }
      @group(0) @binding(3) var<storage, read_write> out: array<f32>;
      @group(0) @binding(0) var<storage, read> in: array<f32>;
      @binding(1) @group(0) var<uniform> line: Line;
      @group(0) @binding(2) var<uniform> bias: u32; // @group(0) @binding(9) var<uniform> none: u32;
      @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
        out[id.x] = line.a * in[id.x] + line.b + f32(bias);
      }`.replaceAll("in:", "given:").replaceAll("in[", "given["));
    const [given, out] = [await gpu.createBuffer(16), await gpu.createBuffer(16)];
    await given.blitFrom(new Float32Array([1, 2, 3, 4]));
    const line = new Float32Array([10, 0.5]);
    kernel.run({ given, out, line, bias: 2 }, [1]);
    equal(await out.toArray(Float32Array), [12.5, 22.5, 32.5, 42.5]);
    equal([given.stamps().write.value < out.stamps().write.value], [true]);
    await fails(() => kernel.run({ given, out, line, bias: 2, other: 1 }, [1]), "Misuse", "Option");
    await fails(() => kernel.run({ given, out: 3, line, bias: 2 }, [1]), "Misuse", "Option");
    const gone = await gpu.createBuffer(16);
    gone.dispose();
    equal((await fails(() => kernel.run({ given: gone, out, line, bias: 2 }, [1]), "Misuse", "Disposed")).call, "run");
    const wrong = await fails(() => gpu.kernel("fn main( {"), "Misuse", "Rejected");
    holds(/expected/.test(wrong.message) && /:1:\d/.test(wrong.message), wrong.message);
  },
  needs,
);

test(
  "s13_15_a_run_like_one_that_was_found_well_opens_no_error_scopes_and_a_wrong_one_is_rejected_still",
  async ({ gpu }) => {
    const add = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read> given: array<f32, 8>;
      @group(0) @binding(1) var<storage, read_write> to: array<f32, 8>;
      @group(0) @binding(2) var<uniform> n: f32;
      @compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3u) { to[id.x] = given[id.x] + n; }`);
    const [given, to, other] = [await gpu.createBuffer(32), await gpu.createBuffer(32), await gpu.createBuffer(32)];
    await given.fill(0);
    /** Returns how many scopes a run opens. */
    const scopesOf = async (run) => {
      let count = 0;
      const { gpu: device } = gpu;
      const own = device.pushErrorScope;
      device.pushErrorScope = (filter) => ((count += 1), own.call(device, filter));
      const point = run();
      delete device.pushErrorScope;
      await gpu.wait(point);
      return count;
    };
    const rejects = (run) => fails(async () => gpu.wait(run()), "Misuse", "Rejected");
    holds((await scopesOf(() => add.run({ given, to, n: 1 }, [1]))) > 0, "a first run is looked at");
    // Another buffer and another number are no other shape.
    equal(await scopesOf(() => add.run({ given, to: other, n: 2 }, [1])), 0);
    equal([(await to.toArray(Float32Array))[7], (await other.toArray(Float32Array))[7]], [1, 2]);
    // Too many groups, too few bytes, none, and one buffer that is read and written.
    await rejects(() => add.run({ given, to, n: 1 }, [2 ** 30]));
    await rejects(() => add.run({ given, to: to.view(0, 16), n: 1 }, [1]));
    await rejects(() => add.run({ given, to, n: new Uint8Array(0) }, [1]));
    await rejects(() => add.run({ given: to, to, n: 1 }, [1]));
    // What the program has it may destroy.
    const { buffer } = other.lend();
    await gpu.wait(add.run({ given, to: other, n: 3 }, [1]));
    buffer.destroy();
    await rejects(() => add.run({ given, to: other, n: 4 }, [1]));
    equal(await scopesOf(() => add.run({ given, to, n: 5 }, [1])), 0);
    equal((await to.toArray(Float32Array))[0], 5);
  },
  needs,
);

test(
  "s13_15_a_run_over_the_buffers_of_an_earlier_makes_no_bind_group_and_has_its_own_uniforms",
  async ({ gpu }) => {
    // Declared in another order than they are bound.
    const set = await gpu.kernel(`
      @group(0) @binding(7) var<uniform> by: u32;
      @group(0) @binding(3) var<storage, read_write> x: array<u32>;
      @group(0) @binding(5) var<uniform> at: u32;
      @compute @workgroup_size(1) fn main() { x[at] += by; }`);
    const all = [];
    for (let i = 0; i < 300; i += 1) all.push(await gpu.createBuffer(64));
    for (const x of all) await x.fill(0);
    const groupsOf = async (run) => {
      let count = 0;
      const { gpu: device } = gpu;
      const own = device.createBindGroup;
      device.createBindGroup = (what) => ((count += 1), own.call(device, what));
      await gpu.wait(run());
      delete device.createBindGroup;
      return count;
    };
    const [x] = all;
    await gpu.wait(set.run({ x, at: 0, by: 1 }, [1]));
    set.run({ x, at: 1, by: 2 }, [1]);
    equal(await groupsOf(() => (set.run({ x, at: 2, by: 3 }, [1]), set.run({ x, at: 3, by: 4 }, [1]))), 0);
    const words = async (x) => [...(await x.toArray(Uint32Array, { length: 16 }))];
    equal(await words(x), [1, 2, 3, 4]);
    // What is kept has an end.
    equal(await groupsOf(() => all.map((x, i) => set.run({ x, at: 4, by: i }, [1])).at(-1)), 299);
    equal(await groupsOf(() => all.map((x, i) => set.run({ x, at: 5, by: i }, [1])).at(-1)), 300);
    for (const [i, x] of all.entries()) equal([...(await x.toArray(Uint32Array))].slice(4, 6), [i, i]);
    // What the program has is bound anew, and looked at.
    all[299].lend();
    equal(await groupsOf(() => set.run({ x: all[299], at: 6, by: 1 }, [1])), 1);
    // A layout has room for so many places, and no more.
    const count = 10;
    const names = Array.from({ length: count }, (_, i) => `n${i}`);
    const sum = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      ${names.map((name, i) => `@group(0) @binding(${i + 1}) var<uniform> ${name}: u32;`).join(" ")}
      @compute @workgroup_size(1) fn main() { x[0] = ${names.map((name, i) => `${name} * ${2 ** i}`).join(" + ")}; }`);
    for (const n of [1, 2, 3]) {
      sum.run({ x, ...Object.fromEntries(names.map((name) => [name, n])) }, [1]);
      equal((await words(x))[0], n * (2 ** count - 1));
    }
  },
  needs,
);

test(
  "s13_15_uniforms_of_runs_that_nobody_awaits_are_each_runs_own",
  async ({ gpu }) => {
    const set = await gpu.kernel(`
      struct Many { first: u32, all: array<vec4u, 63> }
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @group(0) @binding(1) var<uniform> at: u32;
      @group(0) @binding(2) var<uniform> many: Many;
      @compute @workgroup_size(1) fn main() { x[at] = many.first + many.all[62].w; }`);
    const count = 300;
    const x = await gpu.createBuffer(4 * count);
    const run = (at) => {
      const many = new Uint32Array(4 * 64);
      [many[0], many[255]] = [at, 1000];
      return set.run({ x, at, many }, [1]);
    };
    await gpu.wait(run(0));
    const { gpu: device } = gpu;
    const create = device.createBuffer;
    let made = 0;
    device.createBuffer = (what) => ((made += 1), create.call(device, what));
    for (let at = 0; at < count; at += 1) run(at);
    delete device.createBuffer;
    equal(made, 0, "one buffer serves all of them");
    equal([...(await x.toArray(Uint32Array))], Array.from({ length: count }, (_, at) => at + 1000));
  },
  needs,
);

test(
  "s13_15_a_uniform_that_is_too_large_or_finds_no_room_spoils_no_later_run",
  async ({ open }) => {
    const gpu = await open();
    const set = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @group(0) @binding(1) var<uniform> n: u32;
      @compute @workgroup_size(1) fn main() { x[0] = n; }`);
    const x = await gpu.createBuffer(4);
    const { gpu: device } = gpu;
    const bytes = device.limits.maxUniformBufferBindingSize + 1;
    const e = await fails(() => set.run({ x, n: new Uint8Array(bytes) }, [1]), "Misuse", "Rejected");
    holds(e.message.includes(`n has ${bytes} bytes`), e.message);
    // What the engine refuses.
    const create = device.createBuffer;
    device.createBuffer = (what) => create.call(device, { ...what, size: device.limits.maxBufferSize + 4 });
    const refused = set.run({ x, n: 1 }, [1]);
    delete device.createBuffer;
    await fails(() => gpu.wait(refused), "Misuse", "Rejected");
    set.run({ x, n: 2 }, [1]);
    equal([...(await x.toArray(Uint32Array))], [2]);
  },
  needs,
);

test(
  "s13_1_commands_of_the_page_are_on_the_queue_when_submit_returns",
  async ({ gpu }) => {
    const [x, y] = [await gpu.createBuffer(16), await gpu.createBuffer(16)];
    await x.blitFrom(new Uint8Array(16).fill(3));
    const point = gpu.submit({ reads: [x], writes: [y] }, ({ encoder, buffer }) => {
      const [from, to] = [buffer(x), buffer(y)];
      encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, 16);
    });
    equal([y.stamps().write.value, point.value], [point.value, gpu.submitted]);
    equal((await y.toArray(Uint8Array))[15], 3);
    const submitted = gpu.submitted;
    await fails(() => gpu.submit({ reads: [x] }, ({ buffer }) => void buffer(y)), "Misuse", "NotNamed");
    await fails(() => gpu.submit({ reads: [x] }, async () => undefined), "Misuse", "Promise");
    const thrown = new Error("on purpose");
    equal((await error(() => gpu.submit({}, () => { throw thrown; }))) === thrown, true);
    equal(gpu.submitted, submitted, "no value was taken");
  },
  needs,
);

test(
  "s8_8_an_encoding_found_wrong_is_told_to_whoever_waits_or_as_an_event",
  async ({ open }) => {
    const gpu = await open();
    const x = await gpu.createBuffer(16);
    const wrong = ({ encoder, buffer }) => {
      const { buffer: own } = buffer(x);
      encoder.copyBufferToBuffer(own, 0, own, 8, 400);
    };
    const awaited = gpu.submit({ writes: [x] }, wrong);
    await fails(() => gpu.wait(awaited), "Misuse", "Rejected");
    const told = new Promise((resolve) => gpu.addEventListener("error", resolve));
    gpu.submit({ writes: [x] }, wrong);
    const { detail } = await told;
    equal([detail.code, detail.what], ["Misuse", "Rejected"]);
    await x.fill(1);
    equal((await x.toArray(Uint8Array))[0], 1, "the device goes on");
    await gpu.close();
  },
  needs,
);

test(
  "s4_16_what_was_lent_goes_on_after_its_device_was_closed",
  async ({ adopted }) => {
    const { gpu, device } = await adopted();
    const x = await gpu.createBuffer(16);
    await x.fill(5);
    const { buffer } = x.lend();
    await gpu.close();
    x.dispose();
    equal(gpu.held, 0);
    const seen = device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, seen, 0, 16);
    device.queue.submit([encoder.finish()]);
    await seen.mapAsync(GPUMapMode.READ);
    equal(new Uint8Array(seen.getMappedRange()), Array(16).fill(5));
    seen.destroy();
  },
  needs,
);

test(
  "s4_16_a_gpu_buffer_is_lent_and_a_foreign_one_wrapped",
  async ({ rig, adopted }) => {
    const { gpu, device } = await adopted();
    equal([rig.adopt(device) === gpu, gpu.gpu === device], [true, true]);
    for (const wrong of [undefined, null, 1, {}]) {
      await fails(() => rig.adopt(wrong), "Misuse", "Option");
      await fails(() => gpu.wrapGpu(wrong), "Misuse", "Option");
    }
    const foreign = device.createBuffer({ size: 8, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | GPUBufferUsage.STORAGE });
    const held = gpu.held;
    const w = gpu.wrapGpu(foreign, { label: "theirs" });
    await w.fill(4);
    equal([(await w.toArray(Uint8Array))[7], gpu.held, w.size], [4, held, 8]);
    const x = await gpu.createBuffer(8);
    const lent = x.lend();
    equal([lent.offset, lent.size, lent.buffer instanceof GPUBuffer], [0, 8, true]);
    // Work of the page itself, told afterwards.
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(foreign, 0, lent.buffer, 0, 8);
    device.queue.submit([encoder.finish()]);
    const point = gpu.recordUse({ reads: [w], writes: [x] });
    equal(x.stamps().write.value, point.value);
    equal((await x.toArray(Uint8Array))[0], 4);
    await gpu.close();
    const lost = await Promise.race([device.lost.then(() => "lost"), turn().then(() => "alive")]);
    equal(lost, "alive", "what the page brought");
  },
  needs,
);

test(
  "s12_1_a_device_that_the_page_destroys_is_lost_once_and_opens_again",
  async ({ adopted, open }) => {
    const { gpu, device } = await adopted();
    const x = await gpu.createBuffer(1024);
    let heard = 0;
    gpu.addEventListener("lost", () => (heard += 1));
    const pending = x.toArray(Uint8Array);
    device.destroy();
    equal((await error(() => pending)).code, "Lost");
    const lost = await gpu.lost;
    await turn();
    equal([lost.code, heard], ["Lost", 1]);
    for (const call of [() => gpu.createBuffer(8), () => x.fill(1), () => gpu.wait(gpu.submitted), () => x.toArray(Uint8Array)]) {
      await fails(call, "Lost");
    }
    for (const wgsl of [DOUBLE, "fn main( {"]) await fails(() => gpu.kernel(wgsl), "Lost");
    equal([x.size, x.state], [1024, "live"]);
    x.dispose();
    await until(() => gpu.held === 0, "its memory is home");
    const again = await open();
    equal((await again.createBuffer(8)).size, 8);
    await again.close();
  },
  needs,
);

test(
  "s13_9_10000_buffers_made_and_forgotten_stay_within_the_budget",
  async ({ open }) => {
    const gpu = await open(256 * MIB);
    let most = 0;
    for (let i = 0; i < 10_000; i += 1) {
      await gpu.createBuffer(MIB);
      most = Math.max(most, gpu.held);
    }
    holds(most <= 256 * MIB, `${most} held bytes never pass the budget`);
    const made = gpu.stats().actualCount;
    holds(made <= 256, `${made} GPU buffers served all`);
    await gpu.close();
  },
  needs,
);

test(
  "s13_1_a_loop_that_never_awaits_gets_a_clear_error_and_loses_nothing",
  async ({ open }) => {
    const gpu = await open(16 * MIB);
    const e = await error(() => {
      for (;;) gpu.createBufferNow(MIB);
    });
    equal([e.code, e.report.immediate, gpu.held <= 16 * MIB], ["OutOfMemory", true, true]);
    holds(e.message.includes("createBuffer reclaims"), `it says what to call: ${e.message}`);
    const x = await gpu.createBuffer(MIB);
    await x.fill(2);
    equal((await x.toArray(Uint8Array, { length: 1 }))[0], 2);
    await gpu.close();
  },
  needs,
);

test(
  "s10_12_work_with_a_buffer_that_the_engine_refused_later_is_found_wrong_and_its_bytes_go_with_its_last_handle",
  async ({ adopted }) => {
    const { gpu, device } = await adopted();
    const { createBuffer } = device;
    const refusing = (descriptor) => createBuffer.call(device, { ...descriptor, size: 2 ** 50 });
    device.createBuffer = (descriptor) => (descriptor.size === 1152 ? refusing : createBuffer.bind(device))(descriptor);
    await fails(() => gpu.createBuffer(1027), "OutOfMemory");
    equal(gpu.held, 0, "who waits is told at once");
    const [x, y] = [gpu.createBufferNow(1027), gpu.createBufferNow(64)];
    const view = x.view(0, 64);
    gpu.submit({ writes: [view] });
    const calls = [x.toArray(Uint8Array), x.blitFrom(new Uint8Array(4)), x.fill(1), y.fill(5)];
    const told = await Promise.allSettled(calls);
    equal(told.map(({ reason }) => reason?.what), ["Rejected", "Rejected", "Rejected", undefined]);
    equal([gpu.held, x.state], [1152 + 512, "live"]);
    x.dispose();
    equal(gpu.held, 1152 + 512, "a view is left");
    view.dispose();
    await until(() => gpu.held === 512, "its bytes left the books");
    equal([gpu.cached, (await y.toArray(Uint8Array))[63]], [0, 5]);
    await gpu.close();
    device.destroy();
  },
  needs,
);

test(
  "s1_2_an_adopted_gpu_gets_a_name_that_no_device_has",
  async ({ copy, gpuDevice }) => {
    const rig = await (await copy()).init();
    const [one, other] = [rig.memory("gpu 3"), rig.memory("gpu 4")];
    const gpu = rig.adopt(await gpuDevice());
    equal([new Set([one, other, gpu].map(({ name }) => name)).size, rig.devices.length], [3, 4]);
    for (const device of [one, other, gpu]) await device.close();
    gpu.gpu.destroy();
  },
  needs,
);

test(
  "s13_3_an_encoding_error_that_nobody_awaits_is_logged_once_a_label",
  async ({ open }) => {
    const gpu = await open(MIB);
    const [x, y] = [await gpu.createBuffer(16), await gpu.createBuffer(16)];
    const wrong = (label, past) => gpu.submit({ reads: [x], writes: [y], label }, ({ encoder, buffer }) => {
      encoder.copyBufferToBuffer(buffer(x).buffer, 0, buffer(y).buffer, 0, 2 ** 30 + past);
    });
    const logged = [];
    const { error: log } = console;
    console.error = (e) => logged.push(e);
    try {
      for (const [label, past] of [["frame", 4], ["frame", 8], ["other", 4], ["frame", 12]]) wrong(label, past);
      await until(() => gpu.reached === gpu.submitted, "all is reached");
      equal(logged.map((e) => [e.code, e.what]), [["Misuse", "Rejected"], ["Misuse", "Rejected"]]);
      const told = new Promise((resolve) => gpu.addEventListener("error", resolve, { once: true }));
      wrong("third", 4);
      equal([(await told).detail.what, logged.length], ["Rejected", 2]);
      for (let i = 0; i < 110; i += 1) wrong(`label ${i}`, 4);
      await until(() => gpu.reached === gpu.submitted, "all is reached");
      equal(logged.length, 100, "at most");
    } finally {
      console.error = log;
    }
    await gpu.close();
  },
  needs,
);

test(
  "s6_7_a_launch_binds_whole_words_and_no_byte_of_a_neighbour",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(519);
    const double = await gpu.kernel(DOUBLE);
    await fails(() => double.run({ x: x.view(0, 7) }, [1]), "Misuse", "Rejected");
    await fails(() => double.run({ x: x.view(256, 261).view(0, 7) }, [1]), "Misuse", "Rejected");
    const { submitted } = gpu;
    const multiple = gpu.gpu.limits.minStorageBufferOffsetAlignment;
    const { message } = await fails(() => double.run({ x: x.view(4, 8) }, [1]), "Misuse", "Rejected");
    equal(message, `misuse of run: x is a view from byte 4 on, which is no multiple of ${multiple}`);
    equal(gpu.submitted, submitted, "nothing was submitted");
    const seven = await gpu.createBuffer(7);
    for (const whole of [seven, seven.view(0), x, x.view(256), x.view(256).view(0, 263), x.view(0, 8)]) {
      await gpu.wait(double.run({ x: whole }, [1]));
    }
  },
  needs,
);

test(
  "s13_2_a_number_for_an_integer_of_a_kernel_is_one_that_the_type_has",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(4);
    const types = {
      u32: [[0, 7, 2 ** 32 - 1], [1.5, NaN, Infinity, 2 ** 32, -1]],
      i32: [[0, -7, 2 ** 31 - 1, -(2 ** 31)], [1.5, NaN, 2 ** 31, -(2 ** 31) - 1]],
      f32: [[0.1, NaN, -1, 2 ** 40], []],
    };
    for (const [type, [right, wrong]] of Object.entries(types)) {
      const set = await gpu.kernel(`
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @group(0) @binding(1) var<uniform> n: ${type};
        @compute @workgroup_size(1) fn main() { x[0] = bitcast<u32>(n); }`);
      const Type = { u32: Uint32Array, i32: Int32Array, f32: Float32Array }[type];
      for (const n of right) {
        set.run({ x, n }, [1]);
        equal([...(await x.toArray(Type))], [...Type.of(n)]);
      }
      for (const n of wrong) await fails(() => set.run({ x, n }, [1]), "Misuse", "Option");
      const { message } = await fails(() => set.run({ x }, [1]), "Misuse", "Option");
      equal(message, "misuse of run: n is undefined, which is no number or typed array");
    }
    const set = await gpu.kernel(DOUBLE);
    for (const groups of [[], [1, 1, 1, 1], [-1], [1.5], [2 ** 32], 1]) await fails(() => set.run({ x }, groups), "Misuse", "Option");
  },
  needs,
);

test(
  "s8_3_work_with_a_buffer_of_another_device_is_misuse_and_a_run_names_what_binds_it",
  async ({ rig, open, gpu }) => {
    const [other, m] = [await open(MIB), rig.memory("elsewhere")];
    const double = await gpu.kernel(DOUBLE);
    const { submitted } = gpu;
    for (const device of [rig.host, other, m]) {
      const x = await device.createBuffer(64);
      const e = await fails(() => double.run({ x }, [1]), "Misuse", "WrongDevice");
      equal(e.message, `misuse of run: x is on ${device.name}, not on ${gpu.name}`);
      await fails(() => gpu.submit({ writes: [x] }, ({ buffer }) => buffer(x)), "Misuse", "WrongDevice");
    }
    equal(gpu.submitted, submitted, "nothing was submitted");
    for (const device of [other, m]) await device.close();
  },
  needs,
);

test(
  "s13_12_a_map_after_a_cancelled_one_is_asked_for_once_a_fence_behind_the_work_is_there",
  async ({ adopted }) => {
    const { gpu, device } = await adopted();
    const { mapAsync, unmap } = GPUBuffer.prototype;
    const [fences, pending, cancelled] = [new Set(), new Set(), new Map()];
    let early = 0;
    GPUBuffer.prototype.mapAsync = function (...words) {
      if (cancelled.has(this) && [...cancelled.get(this)].some((fence) => fences.has(fence))) early += 1;
      const map = mapAsync.apply(this, words);
      const [all, one] = this.label === "rig fence" ? [fences, map] : [pending, this];
      all.add(one);
      map.then(() => all.delete(one), () => all.delete(one));
      return map;
    };
    GPUBuffer.prototype.unmap = function () {
      if (pending.has(this)) cancelled.set(this, new Set(fences));
      return unmap.call(this);
    };
    try {
      const buffers = await Promise.all(Array.from({ length: 8 }, () => gpu.createBuffer(64)));
      for (let turn = 1; turn <= 20; turn += 1) {
        const reads = [];
        for (const [i, x] of buffers.entries()) {
          x.fill(turn + i);
          reads.push(x.toArray(Uint8Array, { length: 4 }));
          // What comes in another microtask is submitted apart, while the map of the first is on its way.
          for (let at = 0; at < 8; at += 1) await null;
        }
        equal((await Promise.all(reads)).map(([byte]) => byte), buffers.map((_, i) => turn + i));
      }
      holds(cancelled.size > 0, "maps were cancelled");
      equal(early, 0, "maps asked for too early");
    } finally {
      Object.assign(GPUBuffer.prototype, { mapAsync, unmap });
    }
    await gpu.close();
    device.destroy();
  },
  needs,
);

test(
  "s13_13_a_page_shown_again_goes_on_where_a_map_was_cancelled_before_it_was_left",
  async ({ adopted }) => {
    const { gpu, device } = await adopted();
    const [x, y] = [await gpu.createBuffer(64), await gpu.createBuffer(64)];
    const { mapAsync, unmap } = GPUBuffer.prototype;
    let show;
    const shown = new Promise((resolve) => (show = resolve));
    const pending = new Set();
    let cancelled = 0;
    // Firefox drops what comes for a page that was left; others tell it once that is back.
    const isDropped = globalThis.navigator?.userAgent?.includes("Firefox");
    GPUBuffer.prototype.mapAsync = function (...words) {
      pending.add(this);
      const map = mapAsync.apply(this, words);
      map.catch(() => undefined);
      return shown.then(() => (isDropped ? new Promise(() => undefined) : map));
    };
    GPUBuffer.prototype.unmap = function () {
      if (pending.delete(this)) cancelled += 1;
      return unmap.call(this);
    };
    const reads = [];
    try {
      for (const [i, buffer] of [x, y, x, y].entries()) {
        buffer.fill(i + 1);
        reads.push(buffer.toArray(Uint8Array, { length: 4 }));
        for (let at = 0; at < 8; at += 1) await null;
      }
    } finally {
      Object.assign(GPUBuffer.prototype, { mapAsync, unmap });
    }
    holds(cancelled > 0, "a map was cancelled");
    show();
    if (isDropped) dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
    equal((await Promise.all(reads)).map(([byte]) => byte), [1, 2, 3, 4]);
    await gpu.close();
    device.destroy();
  },
  needs,
);

test(
  "s13_15_a_kernels_declarations_are_read_however_they_are_spaced_and_named",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(64);
    const declarations = [
      "@group(0) @binding(0) var<storage, read_write> x: array<f32, N * 4>;",
      "@ group ( 0 , ) @ binding ( 0x0 )\n  var < storage , read_write, > x : array<f32,>;",
      "@binding(0u) @group(0i) var<storage,read_write>x:array<f32>;",
      "/* @group(1) */ @group(0) // x\n @binding(0) var<storage, read_write> x: array< f32 , (4 + 4) * 2 >;",
      "/* from https://example.org/a */ @group(0) @binding(0) var<storage, read_write> x: array<f32>; /* x */",
      "// /* x\n@group(0) @binding(0) var<storage, read_write> x: array<f32>; // */",
    ];
    for (const declaration of declarations) {
      await x.blitFrom(new Float32Array(16).fill(3));
      const double = await gpu.kernel(`const N = 4; ${declaration}
        @compute @workgroup_size(1) fn main() { x[1] *= 2.0; }`);
      double.run({ x }, [1]);
      equal((await x.toArray(Float32Array, { length: 8 }))[1], 6, declaration);
    }
    const named = await gpu.kernel(`@group(0) @binding(0) var<storage, read_write> größe: array<f32>;
      @compute @workgroup_size(1) fn main() { größe[0] = 5.0; }`);
    named.run({ größe: x }, [1]);
    equal((await x.toArray(Float32Array))[0], 5);
    for (const where of ["@group(0) @binding(B)", "@group(0 + 0) @binding(0)", "@binding(0)"]) {
      const e = await fails(() => gpu.kernel(`const B = 0; ${where} var<storage, read_write> those: array<f32>;
        @compute @workgroup_size(1) fn main() { those[0] = 1.0; }`), "Misuse", "Option");
      holds(e.message.includes("those"), `it names the declaration: ${e.message}`);
    }
  },
  needs,
);

test(
  "s13_10_a_refusal_of_create_buffer_now_presses_the_engine_so_that_a_later_frame_finds_room",
  async ({ open }) => {
    const gpu = await open(64 * MIB);
    for (const size of [4 * MIB, MIB / 4]) {
      let [refused, served] = [0, 0];
      await until(() => {
        try {
          gpu.createBufferNow(size);
          if (refused > 0) served += 1;
        } catch (e) {
          equal(e.code, "OutOfMemory");
          refused += 1;
        }
        return served >= 32;
      }, `frames found room for ${size} bytes again`, 30_000);
    }
    await gpu.close();
  },
  needs,
);

test(
  "s13_2_a_usage_that_no_buffer_of_the_library_can_have_is_misuse",
  async ({ rig, gpuDevice }) => {
    const device = await gpuDevice();
    for (const usage of [1, 2, 0x81, 0x400, 2 ** 32 + 4, 2 ** 40]) {
      await fails(() => rig.open("no such usage", { usage }), "Misuse", "Option");
      await fails(() => rig.adopt(device, { usage }), "Misuse", "Option");
    }
    const gpu = rig.adopt(device, { usage: GPUBufferUsage.VERTEX | GPUBufferUsage.INDEX | GPUBufferUsage.INDIRECT });
    equal((await gpu.createBuffer(4)).lend().buffer.usage & GPUBufferUsage.VERTEX, GPUBufferUsage.VERTEX);
    await gpu.close();
    device.destroy();
  },
  needs,
);
