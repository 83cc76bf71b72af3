// What programs do wrong in the middle of things: arrays taken away, wrong commands, waits given up.

import { equal, error, fails, holds, test, turn, until } from "./harness.mjs";

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const needs = { needs: "gpu" };

test("s13_6_memory_that_can_change_its_length_is_not_wrapped_and_not_touched", async ({ rig }) => {
  const wasm = new WebAssembly.Memory({ initial: 1, maximum: 4 });
  const before = wasm.buffer;
  new Uint8Array(before)[3] = 9;
  const others = [new ArrayBuffer(8, { maxByteLength: 16 })];
  if (globalThis.SharedArrayBuffer) others.push(new SharedArrayBuffer(8, { maxByteLength: 16 }));
  for (const buffer of [before, ...others]) {
    for (const Type of [Uint8Array, Float64Array, DataView]) await fails(() => rig.wrap(new Type(buffer)), "Misuse", "Option");
  }
  equal([before === wasm.buffer, before.byteLength, new Uint8Array(before)[3]], [true, 64 * KIB, 9]);
  wasm.grow(1);
  equal([before.byteLength, wasm.buffer.byteLength], [0, 128 * KIB]);
  const sides = await Promise.all([rig.host.createBuffer(128 * KIB), rig.host.createBuffer(8)]);
  equal(sides.map(({ state }) => state), ["live", "live"]);
});

test("s13_6_memory_of_whole_pages_that_is_not_of_wasm_is_wrapped_and_stays_as_it_was", async ({ rig }) => {
  for (const length of [0, 8, 64 * KIB, MIB]) {
    const own = new ArrayBuffer(length);
    const x = rig.wrap(new Uint8Array(own), { label: "own" });
    equal([x.size, x.state, own.byteLength], [length, "live", length]);
    await x.fill(4);
    equal(new Uint8Array(own).every((byte) => byte === 4), true);
    equal(structuredClone(own, { transfer: [own] }).byteLength, length, "what can be transferred still");
  }
});

test("s13_6_shared_memory_is_wrapped_unless_the_engine_says_that_it_is_wasms", async ({ rig }) => {
  const { buffer } = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true });
  if (Object.isFrozen(buffer)) {
    await fails(() => rig.wrap(new Uint8Array(buffer)), "Misuse", "Option");
  } else {
    const x = rig.wrap(new Uint8Array(buffer, 8, 8));
    await x.fill(6);
    equal([new Uint8Array(buffer)[7], new Uint8Array(buffer)[8]], [0, 6]);
  }
  const Shared = buffer.constructor;
  const own = new Uint8Array(new Shared(8));
  const x = rig.wrap(own);
  await x.write((bytes) => bytes.set([1, 2]));
  equal([own[1], (await x.toArray(Uint8Array))[1], x.state], [2, 2, "live"]);
});

test("s13_8_shared_memory_is_taken_and_filled_like_any_other", async ({ rig, gpu }) => {
  const Shared = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer.constructor;
  const m = rig.memory("shared");
  for (const device of [rig.host, m, ...(gpu ? [gpu] : [])]) {
    for (const size of [7, 64, MIB + 4]) {
      const shared = new Uint8Array(new Shared(size + 8), 8);
      shared.fill(3);
      const [x, y] = [await device.createBuffer(size), await device.createBuffer(size)];
      await x.blitFrom(shared);
      await rig.copy(rig.wrap(shared), y);
      shared.fill(0);
      equal((await x.blitTo(shared)) === shared && shared.every((byte) => byte === 3), true, device.name);
      equal((await y.toArray(Uint8Array)).every((byte) => byte === 3), true, device.name);
    }
  }
  await m.close();
});

/** Takes the memory of an array away, in each of the ways that there are. */
const TAKEN = {
  transferred: [(size) => new Uint8Array(size), (array) => structuredClone(array, { transfer: [array.buffer] })],
  shortened: [(size) => new Uint8Array(new ArrayBuffer(size, { maxByteLength: size })), (array) => array.buffer.resize(1)],
};

test("s13_8_an_array_taken_away_while_it_is_filled_is_misuse_and_harms_nothing", async ({ rig, gpu }) => {
  const m = rig.memory("taken");
  for (const device of [rig.host, m, ...(gpu ? [gpu] : [])]) {
    for (const [how, [make, take]] of Object.entries(TAKEN)) {
      const x = await device.createBuffer(5 * KIB);
      await x.fill(7);
      const out = make(5 * KIB);
      const pending = x.blitTo(out).then(() => "done", (e) => [e.code, e.what]);
      take(out);
      equal(await pending, ["Misuse", "Detached"], `${how}, on ${device.name}`);
      equal((await x.toArray(Uint8Array))[5119], 7, "the buffer goes on");
      // What goes in is taken before the call returns.
      const data = make(5 * KIB).fill(3);
      const taking = x.blitFrom(data);
      take(data);
      await taking;
      equal([(await x.toArray(Uint8Array))[5119], data.length < 2], [3, true]);
      x.free();
    }
  }
  await m.close();
});

test("s13_8_a_blit_has_taken_the_data_when_it_returns", async ({ rig, gpu }) => {
  const m = rig.memory("taken at once");
  for (const device of [rig.host, m, ...(gpu ? [gpu] : [])]) {
    // Whole words, small and large, and others.
    for (const [size, offset] of [[4 * KIB, 4], [5, 3], [5 * KIB + 1, 3], [5 * MIB, 0], [5 * MIB + 1, 3]]) {
      // Several at once, so that some wait for what the others pass through.
      const buffers = [];
      for (let i = 0; i < 3; i += 1) buffers.push(await device.createBuffer(size + offset));
      const data = new Uint8Array(size);
      // Alone, and behind what is asked before.
      for (const count of size < MIB ? [0, 1] : [0]) {
        const pending = buffers.slice(0, count).map((x) => x.toArray(Uint8Array));
        pending.push(...buffers.map((x, i) => x.blitFrom(data.fill(i + 1), { offset })));
        data.fill(9);
        await Promise.all(pending);
        for (const [i, x] of buffers.entries()) {
          const found = await x.toArray(Uint8Array, { offset });
          equal(found.findIndex((byte) => byte !== i + 1), -1, `the first wrong byte of ${size} on ${device.name}`);
          await x.fill(0);
        }
      }
      for (const x of buffers) x.free();
    }
  }
  await m.close();
});

test("s13_8_blits_take_arrays_of_memory_that_may_be_resized", async ({ rig, gpu }) => {
  for (const device of [rig.host, ...(gpu ? [gpu] : [])]) {
    for (const size of [4, 5, 256 * KIB]) {
      const x = await device.createBuffer(size);
      const [data, out] = [3, 0].map((byte) => new Uint8Array(new ArrayBuffer(size, { maxByteLength: 2 * size })).fill(byte));
      await x.blitFrom(data);
      equal((await x.blitTo(out)).every((byte) => byte === 3), true, `${size} bytes on ${device.name}`);
      x.free();
    }
  }
});

test("s0_2_an_array_that_is_detached_already_is_misuse", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  const out = await x.export();
  const gone = new Uint8Array(8);
  structuredClone(gone, { transfer: [gone.buffer] });
  const calls = [
    () => x.blitTo(gone),
    () => x.blitFrom(gone),
    () => x.blitFrom(gone.buffer),
    () => rig.wrap(gone),
    () => out.copyOut(0, gone),
    () => out.copyIn(0, gone),
  ];
  for (const call of calls) await fails(call, "Misuse", "Detached");
  out.dispose();
});

test("s13_6_wrapped_memory_detached_under_a_copy_is_dead_and_the_rest_goes_on", async ({ rig, gpu }) => {
  const m = rig.memory("detached");
  for (const device of [m, ...(gpu ? [gpu] : [])]) {
    const there = await device.createBuffer(4 * KIB);
    await there.fill(5);
    for (const isSource of [true, false]) {
      const own = new Uint8Array(4 * KIB);
      const w = rig.wrap(own);
      const view = w.view(8);
      const pending = (isSource ? rig.copy(w, there) : rig.copy(there, w)).then(() => "done", (e) => [e.code, e.what]);
      structuredClone(own, { transfer: [own.buffer] });
      equal([await pending, w.state, view.state], [["Misuse", "Dead"], "dead", "dead"]);
      await fails(() => rig.copy(w, there), "Misuse", "Dead");
    }
    await there.fill(1);
    equal((await there.toArray(Uint8Array))[9], 1);
    there.free();
  }
  await m.close();
});

test("s11_2_statistics_name_the_labels_of_what_is_live", async ({ rig }) => {
  const m = rig.memory("labels");
  const keep = async (label, size) => m.createBuffer(size, { label });
  const kept = [await keep("small", 64 * KIB), await keep("great", MIB), await keep("small", 64 * KIB), await m.createBuffer(512)];
  const wanted = [
    { label: "great", bytes: MIB, count: 1 },
    { label: "small", bytes: 128 * KIB, count: 2 },
    { label: "", bytes: 512, count: 1 },
  ];
  equal(m.stats().labels, wanted);
  equal(rig.stats().devices.find(({ name }) => name === "labels").labels, wanted);
  kept[1].dispose();
  kept[3].free();
  equal(m.stats().labels, wanted.slice(1, 2));
  const view = kept[0].view(0, 1);
  for (const buffer of [kept[0], kept[2]]) buffer.dispose();
  equal(m.stats().labels, [{ label: "small", bytes: 64 * KIB, count: 1 }], "a view keeps it");
  view.dispose();
  equal([m.stats().labels, rig.stats().sum.name], [[], "sum"]);
  await m.close();
});

test(
  "s11_1_labels_count_neither_staging_nor_what_nobody_pays_for",
  async ({ rig, open, copy }) => {
    const own = await (await copy()).init();
    const gpu = own.adopt((await open()).gpu);
    const [x, w] = [await gpu.createBuffer(8), own.wrap(new Uint8Array(8))];
    await own.copy(x, w);
    await own.host.createBuffer(0);
    const { stagingBytes, liveBytes, labels } = own.host.stats();
    equal([stagingBytes > 0, liveBytes, labels], [true, 0, []]);
    await gpu.close();
  },
  needs,
);

test(
  "s13_3_wrong_commands_in_a_loop_that_awaits_nothing_are_told_by_console_and_event",
  async ({ open }) => {
    const gpu = await open();
    const x = await gpu.createBuffer(16);
    const frame = (label) => gpu.submit({ writes: [x], label }, wrongly(x));
    const logged = await loggedBy(async () => {
      for (let i = 0; i < 5; i += 1) frame("frame");
      frame("another");
      await gpu.submitWhenReady({ writes: [x], label: "frame" }, wrongly(x));
      await gpu.wait(gpu.submit({}));
    });
    equal(logged.map(({ name, code, what }) => [name, code, what]), Array(2).fill(["RigError", "Misuse", "Rejected"]));
    holds(logged[0].message.includes("frame") && logged[1].message.includes("another"), logged.map(String).join());
    const heard = [];
    gpu.addEventListener("error", ({ detail }) => heard.push(detail));
    const more = await loggedBy(async () => {
      for (let i = 0; i < 3; i += 1) frame("third");
      await gpu.wait(gpu.submit({}));
      await until(() => heard.length === 3, "each is told");
    });
    equal([more, heard.map(({ code, what }) => [code, what])], [[], Array(3).fill(["Misuse", "Rejected"])]);
    await gpu.close();
  },
  needs,
);

test(
  "s13_3_while_nobody_listens_any_more_wrong_commands_are_logged",
  async ({ open }) => {
    const control = new AbortController();
    const heard = [];
    const hear = ({ detail }) => heard.push(detail);
    const object = { handleEvent: hear };
    // How each listener comes and goes, and how many of two errors it hears.
    const ways = [
      [2, (gpu) => gpu.addEventListener("error", hear), (gpu) => gpu.removeEventListener("error", hear)],
      [2, (gpu) => gpu.addEventListener("error", object, true), (gpu) => gpu.removeEventListener("error", object, { capture: true })],
      [2, (gpu) => gpu.addEventListener("error", hear, { signal: control.signal }), () => control.abort()],
      [1, (gpu) => gpu.addEventListener("error", hear, { once: true }), () => undefined],
      [0, (gpu) => gpu.addEventListener("error", hear, { signal: control.signal }), () => undefined],
      [0, (gpu) => gpu.addEventListener("lost", hear), (gpu) => gpu.removeEventListener("lost", hear)],
      [0, (gpu) => gpu.addEventListener("error", null), () => undefined],
    ];
    const gpu = await open();
    const x = await gpu.createBuffer(16);
    const fail = async (label) => {
      gpu.submit({ writes: [x], label }, wrongly(x));
      await gpu.wait(gpu.submit({}));
    };
    for (const [at, [count, come, go]] of ways.entries()) {
      heard.length = 0;
      const logged = await loggedBy(async () => {
        come(gpu);
        // Twice the same is once.
        come(gpu);
        await fail(`${at}, first`);
        await fail(`${at}, second`);
        equal(heard.length, count, `heard by way ${at}`);
        // One that never listened in this way takes nothing away.
        gpu.removeEventListener("error", fail);
        go(gpu);
        await fail(`${at}, last`);
      });
      // An engine may log something of its own besides.
      const texts = logged.filter(({ name }) => name === "RigError").map(({ message }) => message);
      equal([heard.length, texts.length], [count, 3 - count], `way ${at}: ${texts}`);
      holds(texts.at(-1).includes(`${at}, last`), texts.at(-1));
    }
    await gpu.close();
  },
  needs,
);

/** Encodes a copy past the end. */
function wrongly(x) {
  return ({ encoder, buffer }) => {
    const { buffer: own } = buffer(x);
    encoder.copyBufferToBuffer(own, 0, own, 8, 400);
  };
}

/** Returns what was logged as errors meanwhile. */
async function loggedBy(f) {
  const real = console.error;
  const logged = [];
  console.error = (...what) => logged.push(...what);
  try {
    await f();
  } finally {
    console.error = real;
  }
  return logged;
}

test(
  "s13_3_the_next_read_of_what_wrong_commands_wrote_reports_them",
  async ({ rig, open }) => {
    const gpu = await open();
    const [x, y] = [await gpu.createBuffer(16), await gpu.createBuffer(16)];
    const h = await rig.host.createBuffer(16);
    gpu.addEventListener("error", () => undefined);
    gpu.submit({ reads: [y], writes: [x], label: "blur" }, wrongly(x));
    for (const read of [() => x.toArray(Uint8Array), () => x.view(4).blitTo(new Uint8Array(4)), () => rig.copy(x, h)]) {
      const { message } = await fails(read, "Misuse", "Rejected");
      holds(message.includes("blur"), message);
    }
    equal((await y.toArray(Uint8Array)).length, 16, "what they read only");
    await x.fill(2);
    equal((await x.toArray(Uint8Array))[15], 2, "what was written since");
    await gpu.close();
  },
  needs,
);

test(
  "s13_1_the_gpu_buffer_of_an_encoding_is_that_encodings_alone",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(16);
    let kept;
    gpu.submit({ writes: [x] }, ({ encoder, buffer }) => {
      kept = buffer;
      encoder.clearBuffer(buffer(x).buffer);
    });
    await fails(() => kept(x), "Misuse", "Ended");
    const { submitted } = gpu;
    const thrown = new Error("on purpose");
    const throwing = ({ buffer }) => {
      buffer(x);
      throw thrown;
    };
    equal((await error(() => gpu.submitWhenReady({ writes: [x] }, throwing))) === thrown, true);
    equal([gpu.submitted, x.stamps().write.value], [submitted, submitted]);
    x.free();
    equal(x.state, "dead");
  },
  needs,
);

test(
  "s4_4_a_range_of_a_foreign_gpu_buffer_is_wrapped",
  async ({ gpu }) => {
    const foreign = gpu.gpu.createBuffer({ size: 32, usage: 0x80 | 0x4 | 0x8 });
    const [whole, part] = [gpu.wrapGpu(foreign), gpu.wrapGpu(foreign, { offset: 8, length: 10, label: "part" })];
    equal([whole.size, part.size, part.offset, part.label, gpu.wrapGpu(foreign, { offset: 32 }).size], [32, 10, 8, "part", 0]);
    await whole.fill(1);
    await part.fill(9);
    const wanted = Array.from({ length: 32 }, (_, i) => (i >= 8 && i < 18 ? 9 : 1));
    equal(await gpu.wrapGpu(foreign).toArray(Uint8Array), wanted);
    for (const wrong of [{ offset: 33 }, { offset: 30, length: 3 }, { length: 33 }]) {
      await fails(() => gpu.wrapGpu(foreign, wrong), "Misuse", "OutOfRange");
    }
    foreign.destroy();
  },
  needs,
);

test(
  "s4_4_a_foreign_gpu_buffer_that_lacks_a_usage_is_unsupported_before_anything_runs",
  async ({ rig, gpu }) => {
    const { COPY_SRC, COPY_DST, STORAGE } = GPUBufferUsage;
    const wrap = (usage) => gpu.wrapGpu(gpu.gpu.createBuffer({ size: 16, usage }));
    const own = await gpu.createBuffer(16);
    await own.fill(3);
    const kernel = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @compute @workgroup_size(1) fn main() { x[0] = 1; }`);
    const source = wrap(COPY_SRC);
    const target = wrap(COPY_DST);
    const { submitted } = gpu;
    const calls = [
      [() => source.fill(0), "COPY_DST"],
      [() => source.blitFrom(new Uint8Array(16)), "COPY_DST"],
      [() => rig.copy(own, source), "COPY_DST"],
      [() => target.toArray(Uint8Array), "COPY_SRC"],
      [() => rig.copy(target, own), "COPY_SRC"],
      [() => target.fill(1), "STORAGE"],
      [() => target.view(1).fill(0), "STORAGE"],
      [() => target.blitFrom(new Uint8Array(5)), "STORAGE"],
      [() => rig.copy(own.view(0, 5), target.view(4, 5)), "STORAGE"],
      [() => kernel.run({ x: target }, [1]), "STORAGE"],
    ];
    for (const [call, lacking] of calls) {
      const { message } = await fails(call, "Unsupported");
      holds(message.includes(lacking), message);
    }
    equal([gpu.submitted, source.stamps().write, target.stamps().write], [submitted, null, null]);
    // What they can do, they do.
    await rig.copy(own, target);
    await target.fill(0, { offset: 4, length: 4 });
    await target.blitFrom(new Uint8Array([1, 2, 3, 4]), { offset: 8 });
    equal(await source.toArray(Uint8Array, { offset: 3, length: 7 }), new Uint8Array(7));
    const both = wrap(COPY_SRC | COPY_DST | STORAGE);
    await both.view(1, 5).fill(9);
    equal((await both.toArray(Uint8Array)).subarray(0, 7), [0, 9, 9, 9, 9, 9, 0]);
  },
  needs,
);

test(
  "s8_8_a_copy_whose_own_commands_are_found_wrong_is_misuse_and_answers_nothing",
  async ({ rig, open }) => {
    const gpu = await open();
    const foreign = gpu.gpu.createBuffer({ size: 4096, usage: 0x80 | 0x4 | 0x8 });
    const [w, x, h] = [gpu.wrapGpu(foreign), await gpu.createBuffer(4096), await rig.host.createBuffer(4096)];
    await w.fill(5);
    await x.fill(6);
    foreign.destroy();
    const calls = {
      toArray: () => w.toArray(Uint8Array),
      blitTo: () => w.view(4, 8).blitTo(new Uint8Array(8)),
      blitFrom: () => w.blitFrom(new Uint8Array(4096)),
      fill: () => w.fill(0),
      copy: () => rig.copy(w, h),
    };
    const logged = await loggedBy(async () => {
      for (const [name, call] of Object.entries(calls)) {
        equal((await fails(call, "Misuse", "Rejected")).call, name);
      }
      for (const call of [() => rig.copy(h, w), () => rig.copy(w, x), () => rig.copy(x, w)]) await fails(call, "Misuse", "Rejected");
    });
    equal(logged, [], "whoever called is told, and nobody else");
    await x.fill(7);
    equal((await x.toArray(Uint8Array))[4095], 7, "the device goes on");
    await gpu.close();
  },
  needs,
);

test(
  "s8_8_small_copies_that_went_wrong_together_are_told_to_each_of_their_callers",
  async ({ open }) => {
    const gpu = await open();
    const [x, y, z] = [await gpu.createBuffer(4096), await gpu.createBuffer(4096), await gpu.createBuffer(512)];
    const beside = await gpu.createBuffer(4);
    await x.fill(6);
    await y.fill(7);
    const many = (call) => Promise.all(Array.from({ length: 100 }, (_, i) => call(i).then(() => "done", (e) => e.what)));
    const read = (i) => x.toArray(Uint8Array, { offset: 4 * i, length: 4 });
    const logged = await loggedBy(async () => {
      const wrong = Array(100).fill("Rejected");
      // A pass that may be found wrong, among moves of whole words that cannot.
      const spoil = () => error(() => beside.fill(1));
      const together = async (call) => {
        const [found, { what }] = await spoiled(() => Promise.all([many(call), spoil()]));
        equal(what, "Rejected");
        return found;
      };
      const write = (i) => z.blitFrom(new Uint8Array(4).fill(8), { offset: 4 * i });
      equal(await together(read), wrong, "reads");
      equal((await spoiled(() => Promise.all([spoil(), many(write)])))[1], wrong, "writes");
      equal(await together(write), Array(100).fill("done"), "writes ahead of it are on the queue by then");
      equal(await together((i) => x.fill(0, { offset: 4 * i, length: 4 })), wrong, "fills");
    });
    equal(logged, [], "whoever called is told, and nobody else");
    await fails(() => x.toArray(Uint8Array), "Misuse", "Rejected");
    await x.fill(6, { length: 4 });
    equal(await many(read), Array(100).fill("done"), "what comes later is not theirs");
    equal(await x.toArray(Uint8Array), Array(4096).fill(6), "nothing of them ran");
    equal((await y.toArray(Uint8Array))[4095], 7);
    await z.blitFrom(new Uint8Array(4).fill(9), { offset: 508 });
    const ran = await z.toArray(Uint8Array, { length: 400 });
    equal(ran.every((byte) => byte === 8), true, "the queue's own writes ran");
    await gpu.close();
  },
  needs,
);

/** Asks for something, with one wrong command among those of its microtask. */
async function spoiled(ask) {
  const { finish } = GPUCommandEncoder.prototype;
  GPUCommandEncoder.prototype.finish = function (...words) {
    GPUCommandEncoder.prototype.finish = finish;
    this.popDebugGroup();
    return finish.apply(this, words);
  };
  return ask();
}

test("s13_11_free_and_dispose_of_either_side_of_a_pending_copy_settle_it", async ({ rig, gpu }) => {
  const m = rig.memory("copied");
  const ends = [["src", "free"], ["src", "dispose"], ["dst", "free"], ["dst", "dispose"]];
  for (const there of [m, ...(gpu ? [gpu] : [])]) {
    for (const [from, to] of [[rig.host, there], [there, rig.host], [there, there]]) {
      for (const [first, second] of ends.flatMap((a) => ends.map((b) => [a, b]))) {
        const sides = { src: await from.createBuffer(512), dst: await to.createBuffer(512) };
        const left = sides.dst.view(0);
        await sides.src.fill(8);
        const pending = rig.copy(sides.src, sides.dst).then(() => "done", (e) => e.what);
        const found = [first, second].map(([side, end]) => ended(sides[side], end));
        const what = `${first} and ${second} under a copy from ${from.name} to ${to.name}`;
        holds(found.every((one) => ["done", "Busy", "Dead", "Disposed"].includes(one)), `${what}: ${found}`);
        equal(await pending, "done", what);
        if (left.state === "live") equal((await left.toArray(Uint8Array))[511], 8, what);
        for (const buffer of [sides.src, sides.dst, left]) buffer.dispose();
      }
    }
  }
  await m.close();
});

function ended(x, end) {
  try {
    x[end]();
    return "done";
  } catch (e) {
    return e.what;
  }
}

test("s0_6_a_wait_given_up_rejects_at_once_and_leaves_nothing_behind", async ({ rig }) => {
  const m = rig.memory("given up", { budget: MIB });
  const kept = await m.createBuffer(MIB);
  const { signal, abort } = control();
  const waiting = m.createBuffer(MIB, { signal }).catch((e) => e);
  const reason = new Error("enough");
  abort(reason);
  equal((await waiting) === reason, true);
  kept.dispose();
  equal((await m.createBuffer(MIB)).size, MIB);
  const x = await rig.host.createBuffer(8);
  const calls = [
    () => m.wait(0, { signal }),
    () => m.close({ signal }),
    () => m.createBuffer(8, { signal }),
    () => m.submitWhenReady({ signal }),
    () => rig.copy(x, x.view(0), { signal }),
    () => rig.open("never", { signal }),
    () => x.read(() => 1, { signal }),
    () => x.write(() => 1, { signal }),
    () => x.fill(1, { signal }),
    () => x.toArray(Uint8Array, { signal }),
    () => x.blitTo(new Uint8Array(8), { signal }),
    () => x.blitFrom(new Uint8Array(8), { signal }),
    () => x.export({ signal }),
  ];
  for (const [at, call] of calls.entries()) equal((await error(call)) === reason, true, `call ${at}`);
  equal([m.submitted, x.state], [0, "live"]);
  await x.write((bytes) => bytes.fill(1));
  await m.close();
});

test("s0_6_a_creation_given_up_before_it_begins_loses_no_disposed_buffer_and_leaves_no_label", async ({ rig }) => {
  const m = rig.memory("given up before", { budget: MIB });
  (await m.createBuffer(MIB)).dispose();
  const reason = new Error("enough");
  const givenUp = m.createBuffer(8, { label: "given up", signal: AbortSignal.abort(reason) });
  equal((await givenUp.catch((e) => e)) === reason, true);
  const next = m.createBufferNow(MIB);
  equal(m.stats().labels.map(({ label }) => label).includes("given up"), false);
  equal(next.label, "");
  await m.close();
});

test("s0_6_a_signal_has_one_listener_while_many_calls_wait_with_it_and_none_after_the_last", async ({ rig }) => {
  const m = rig.memory("many waits", { budget: MIB });
  const [given, served] = [new AbortController(), new AbortController()];
  const [ofGiven, ofServed] = [listenersOf(given.signal), listenersOf(served.signal)];
  const kept = await m.createBuffer(MIB);
  const many = ({ signal }) => Array.from({ length: 24 }, () => m.createBuffer(32 * KIB, { signal }).catch((e) => e));
  const [rejected, made] = [many(given), many(served)];
  equal([ofGiven.size, ofServed.size], [1, 1], "while they wait");
  const reason = new Error("enough");
  given.abort(reason);
  for (const e of await Promise.all(rejected)) equal(e === reason, true);
  equal(ofServed.size, 1, "the others wait still");
  kept.dispose();
  const buffers = await Promise.all(made);
  equal(buffers.map(({ size }) => size), Array(24).fill(32 * KIB));
  equal([ofGiven.size, ofServed.size], [0, 0], "once they are over");
  // It is listened to again, and ends what waits then.
  for (const buffer of buffers) buffer.dispose();
  const whole = await m.createBuffer(MIB);
  const again = many(served);
  equal(ofServed.size, 1);
  served.abort(reason);
  for (const e of await Promise.all(again)) equal(e === reason, true);
  equal([ofServed.size, whole.state, m.held], [0, "live", MIB]);
  await m.close();
});

/** Returns the listeners that a signal has, as they come and go. */
function listenersOf(signal) {
  const all = new Set();
  const { addEventListener, removeEventListener } = signal;
  addEventListener.call(signal, "abort", () => all.clear());
  signal.addEventListener = (type, listener, options) => {
    all.add(listener);
    addEventListener.call(signal, type, listener, options);
  };
  signal.removeEventListener = (type, listener) => {
    all.delete(listener);
    removeEventListener.call(signal, type, listener);
  };
  return all;
}

test(
  "s0_6_short_reads_behind_longer_ones_given_up_are_right",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(1024);
    await x.fill(7);
    // Firefox ends itself at a map that has fewer bytes than one which was cancelled just before.
    for (let i = 0; i < 50; i += 1) {
      for (const length of [1024, 4]) {
        await givenUp((o) => x.toArray(Uint8Array, { ...o, length }));
        for (let j = 0; j < 3; j += 1) await givenUp((o) => x.fill(7, o));
      }
    }
    equal(await x.toArray(Uint8Array, { length: 4 }), [7, 7, 7, 7]);
  },
  { needs: "gpu" },
);

test(
  "s0_6_reads_given_up_may_be_collected_before_the_engine_comes_to_them",
  async ({ adopted, gc }) => {
    const { device, gpu } = await adopted();
    const x = await gpu.createBuffer(64);
    await x.fill(7);
    const { setImmediate = setTimeout } = globalThis;
    for (let i = 0; i < 5; i += 1) {
      await gpu.wait(gpu.submitted);
      await turn();
      // The package webgpu looks at each cancelled map again: here ahead of that, others of its
      // promises are where the collected ones were.
      const others = new Promise((resolve) => {
        setImmediate(() => resolve(Promise.all(Array.from({ length: 400 }, () => device.queue.onSubmittedWorkDone()))));
      });
      for (let j = 0; j < 100; j += 1) await givenUp((o) => x.toArray(Uint8Array, o));
      await (globalThis.gc ?? gc)();
      await others;
    }
    equal(await x.toArray(Uint8Array, { length: 4 }), [7, 7, 7, 7]);
    await gpu.close();
  },
  { needs: ["gpu", "gc"] },
);

/** Makes a call and gives it up at once. */
async function givenUp(call) {
  const { signal, abort } = control();
  const waiting = call({ signal }).catch(() => undefined);
  abort();
  await waiting;
}

function control() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason) => controller.abort(reason) };
}

test(
  "s0_6_an_opening_given_up_goes_on_for_whoever_else_waits",
  async ({ rig }) => {
    const { signal, abort } = control();
    const given = rig.open("given up", { signal }).catch((e) => e);
    const kept = rig.open("given up");
    const reason = new Error("enough");
    abort(reason);
    equal((await given) === reason, true);
    const gpu = await kept;
    equal([gpu.name, (await rig.open("given up")) === gpu], ["given up", true]);
    equal((await error(() => gpu.kernel("", { signal }))) === reason, true);
    await gpu.close();
  },
  needs,
);

test(
  "s13_4_what_a_call_in_progress_was_given_may_be_disposed_by_the_programs_code_that_it_runs",
  async ({ rig, open }) => {
    const gpu = await open();
    const made = async () => {
      const whole = await gpu.createBuffer(64);
      await whole.fill(1);
      const view = whole.view(16, 32);
      // Another call takes what was disposed.
      const drop = () => {
        whole.dispose();
        view[Symbol.dispose]();
        gpu.createBufferNow(4).dispose();
      };
      return { whole, view, drop };
    };
    const other = await gpu.createBuffer(32);
    const clear = ({ encoder, buffer }, of) => {
      const { buffer: at, offset, size } = buffer(of);
      return encoder.clearBuffer(at, offset, size);
    };
    const calls = {
      submit: ({ view, drop }) => gpu.submit({ writes: [view] }, (pass) => (clear(pass, view), drop())),
      "submit of two": ({ whole, view, drop }) => gpu.submit({ reads: [whole, view] }, drop),
      submitWhenReady: ({ view, drop }) => gpu.submitWhenReady({ writes: [view] }, (pass) => (clear(pass, view), drop())),
      after: ({ whole, drop }) => gpu.submit({ writes: [whole], after: [{ get device() { drop(); return gpu; }, value: 1 }] }),
      toArray: ({ view, drop }) => view.toArray(class extends Uint8Array { constructor(count) { super(count); drop(); } }),
      fill: ({ view, drop }) => view.fill(3, signal(drop, 2)),
      copy: ({ view, drop }) => rig.copy(view, other, signal(drop, 2)).then(() => other.toArray(Uint8Array)),
      withClaims: ({ view, drop }) => {
        const reads = new Proxy([view, other], { get: (of, key) => (key === "1" && drop(), of[key]) });
        return rig.withClaims({ reads }, () => 1);
      },
    };
    for (const [name, call] of Object.entries(calls)) {
      const given = await made();
      const before = gpu.submitted;
      const came = await call(given);
      holds(came !== undefined || gpu.submitted > before, `${name} went on`);
      equal([given.whole.state, given.view.state], ["disposed", "disposed"], name);
    }
    await until(() => gpu.stats().liveBytes <= 512 + 32, "all of it came back");
    await gpu.close();
  },
  needs,
);

/** Options whose signal, looked at for the last of so many times, runs something. */
function signal(run, times) {
  return {
    get signal() {
      times -= 1;
      if (times === 0) run();
      return undefined;
    },
  };
}
