// Instances of the library: beside each other, and with memory that grows all the time.

import { equal, fails, holds, test } from "./harness.mjs";

const MIB = 2 ** 20;
/** So often memory grows by 64 KiB at most: engines refuse it after some 4 GiB. */
const GROWN_MAX = 30_000;

/**
 * Makes an instance of its own, of whose wasm half `around` gets every function: those that it
 * exports and, with `isImport`, those that it imports.
 */
async function wrapped(copy, query, around) {
  const { instantiate } = WebAssembly;
  const all = (functions, isImport, memory) => {
    const entries = Object.entries(functions).map(([name, f]) => {
      return [name, typeof f === "function" ? around(f, { name, isImport, memory }) : f];
    });
    return Object.fromEntries(entries);
  };
  WebAssembly.instantiate = async (module, { page }) => {
    let memory;
    const imports = { page: all(page, true, () => memory) };
    const { exports } = await instantiate(module, imports);
    memory = exports.memory;
    return { exports: all(exports, false, () => memory) };
  };
  try {
    const face = await copy(query);
    return { ...face, rig: await face.init() };
  } finally {
    WebAssembly.instantiate = instantiate;
  }
}

test("s13_5_growth_of_wasm_memory_around_every_call_invalidates_nothing", async ({ copy, gpu, gpuDevice }) => {
  let [grown, memory] = [0, () => undefined];
  const grow = () => {
    if (!memory() || grown === GROWN_MAX) return;
    memory().grow(1);
    grown += 1;
  };
  const around = (f, of) => {
    memory = of.memory;
    // It has no part in any answer, and is asked all the time.
    if (of.name === "now_ms") return f;
    return (...args) => {
      const answer = f(...args);
      grow();
      return answer;
    };
  };
  const { rig } = await wrapped(copy, "growing", around);
  const m = rig.memory("growing", { budget: 4 * MIB });
  const devices = [rig.host, m, ...(gpu ? [rig.adopt(await gpuDevice(), { budget: 4 * MIB })] : [])];
  for (const device of devices) await everyCall(rig, device, grow);
  holds(grown > 200 && grown < GROWN_MAX, `memory grew ${grown} times, and never stopped`);
  for (const device of devices.slice(1)) await device.close();
});

test("s13_14_no_frame_of_wasm_is_active_while_a_function_of_the_program_runs", async ({ copy, gpu, gpuDevice }) => {
  let [depth, deepest] = [0, 0];
  const around = (f, { isImport }) => {
    if (isImport) return f;
    return (...args) => {
      depth += 1;
      deepest = Math.max(deepest, depth);
      try {
        return f(...args);
      } finally {
        depth -= 1;
      }
    };
  };
  const { rig } = await wrapped(copy, "callbacks", around);
  const depths = [];
  const called = () => void depths.push(depth);
  const m = rig.memory("callbacks", { budget: MIB });
  const own = gpu ? rig.adopt(await gpuDevice()) : null;
  m.addEventListener("lost", called);
  const x = await m.createBuffer(8);
  await x.read(called);
  await x.write(called);
  await rig.withClaims({ donate: [[x]] }, called);
  if (own) {
    const y = await own.createBuffer(8);
    own.submit({ writes: [y] }, called);
    await own.submitWhenReady({ writes: [y] }, called);
    own.addEventListener("error", called);
    own.submit({ label: "wrong" }, ({ encoder }) => void encoder.finish());
    await own.wait(own.submit({}));
    own.addEventListener("lost", called);
    await own.close();
  }
  await m.close();
  equal([depths, deepest], [Array(own ? 8 : 4).fill(0), 1], "calls of wasm under each function, and elsewhere");
});

/** Makes every call on a device, and grows memory while its functions run. */
async function everyCall(rig, device, grow) {
  const data = Uint8Array.from({ length: 1027 }, (_, i) => (i * 13 + 7) & 255);
  const x = await device.createBuffer(1027, { label: "grows: äöü" });
  const now = device.createBufferNow(1027);
  const h = await rig.host.createBuffer(1027);
  await x.blitFrom(data);
  const reads = [x.toArray(Uint8Array), x.view(3).toArray(Uint8Array), x.blitTo(new Uint8Array(1027))];
  grow();
  const [whole, part, out] = await Promise.all(reads);
  equal([whole, part, out], [data, data.subarray(3), data], device.name);
  await rig.copy(x, h);
  await h.read((bytes) => {
    grow();
    equal(bytes, data, "a scope's view");
    grow();
    equal([bytes.length, bytes[1026]], [1027, data[1026]]);
  });
  await h.write((bytes) => {
    bytes[0] = 1;
    grow();
    bytes[1] = 2;
  });
  await rig.copy(h, now);
  await now.fill(9, { offset: 1020 });
  equal(await now.toArray(Uint8Array, { offset: 1018 }), [data[1018], data[1019], ...Array(7).fill(9)]);
  equal(await now.toArray(Uint8Array, { length: 3 }), [1, 2, data[2]]);
  const own = rig.wrap(new Uint8Array(data));
  grow();
  await rig.copy(own, x);
  equal(await x.toArray(Uint8Array), data);
  const claim = x.claimRead();
  equal([x.label, x.stamps().uses.length <= 1, x.borrow(device).size], ["grows: äöü", true, 1027]);
  claim.release();
  if (device.gpu) await work(device, x, grow);
  if (device !== rig.host) {
    await device.wait(device.submit({ writes: [x] }));
    const e = await fails(() => device.createBuffer(8 * MIB), "OutOfMemory");
    equal([e.askedBytes, e.report.budgetBytes], [8 * MIB, 4 * MIB]);
    for (let i = 0; i < 6; i += 1) await device.createBuffer(MIB);
    equal(device.facts.driver, JSON.parse(JSON.stringify(device.facts)).driver);
    holds(device.stats().requestedCount >= 8 && device.trim().returned >= 0, "statistics answer");
  }
  for (const buffer of [x, h, own]) buffer.dispose();
  now.free();
  equal([x.state, now.state], ["disposed", "dead"]);
}

async function work(gpu, x, grow) {
  const increment = await gpu.kernel(`
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var<uniform> by: u32;
    @compute @workgroup_size(1) fn main() { x[0] += by; }`);
  await x.fill(0);
  increment.run({ x, by: 5 }, [1]);
  await gpu.submitWhenReady({ writes: [x] }, ({ encoder, buffer }) => {
    grow();
    const { buffer: to, offset } = buffer(x);
    encoder.clearBuffer(to, offset + 8, 8);
    grow();
  });
  equal(await x.toArray(Uint32Array, { length: 16 }), [5, 0, 0, 0]);
}

test(
  "s13_13_two_instances_share_a_gpu_device_with_a_budget_each",
  async ({ rig, RigError, copy, gpuDevice }) => {
    const second = await copy("second");
    const other = await second.init();
    const device = await gpuDevice();
    const [a, b] = [rig.adopt(device, { budget: 4 * MIB }), other.adopt(device, { budget: 2 * MIB })];
    equal([rig === other, a === b, rig.adopt(device) === a, other.adopt(device) === b], [false, false, true, true]);
    const kept = [];
    for (let i = 0; i < 64; i += 1) {
      const [x, y] = await Promise.all([a.createBuffer(MIB), b.createBuffer(MIB / 2)]);
      await Promise.all([x.fill(i), y.fill(i + 1)]);
      holds(a.held <= 4 * MIB && b.held <= 2 * MIB, `${a.held} and ${b.held} bytes are held`);
      if (i > 61) kept.push(x, y);
    }
    const firsts = kept.map((buffer) => buffer.toArray(Uint8Array, { length: 1 }));
    equal((await Promise.all(firsts)).map(([byte]) => byte), [62, 63, 63, 64]);
    await fails(() => b.createBuffer(4 * MIB), "OutOfMemory");
    const e = await fails(() => rig.copy(kept[0], kept[1]), "Misuse", "Option");
    equal([second.RigError === RigError, second.RigError.is(e), e instanceof second.RigError], [false, true, false]);
    await passes(rig, a, b);
    await b.close();
    await kept[0].fill(3);
    equal((await kept[0].toArray(Uint8Array))[9], 3, "the other goes on");
    const again = other.adopt(device, { name: "again" });
    const reasons = Promise.all([a.lost, again.lost]);
    device.destroy();
    equal((await reasons).map(({ code }) => code), ["Lost", "Lost"]);
  },
  { needs: "gpu" },
);

/** Passes bytes from one instance to the other, in the order of the queue alone. */
async function passes(rig, a, b) {
  const x = await a.createBuffer(64);
  const theirs = b.wrapGpu(x.lend().buffer);
  const filled = x.fill(7);
  const y = await b.createBuffer(64);
  b.submit({ reads: [theirs], writes: [y] }, ({ encoder, buffer }) => {
    const [from, to] = [buffer(theirs), buffer(y)];
    encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, 64);
  });
  equal(await y.toArray(Uint8Array), Array(64).fill(7));
  await filled;
}
