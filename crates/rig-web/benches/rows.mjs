// The rows of the benchmarks of the package: each beside its floor and its peers, in one run.
//
// The cases of a row take turns, so that a busy machine meets all of them. A figure is the ratio of
// their fastest rounds; the median and the ninth tenth stand beside it.

const KIB = 2 ** 10;
const MIB = 2 ** 20;

/**
 * Runs every row and tells its lines of Markdown. `open` opens another GPU device. Without an adapter
 * it is the rows that memory devices can show.
 */
export async function run({ init, adapter, open, peers, quick, tell }) {
  const rig = await init();
  if (adapter) await runOnGpu({ rig, adapter, open, peers, quick, tell });
  tell("");
  tell(`### P18: buffers of 1 MiB made and forgotten under a budget of 256 MiB${adapter ? "" : ", on memory devices"}`);
  tell("");
  const columns = ["loop", "buffers", "s", "stalled", "of it for new memory", "wanted", "met", "waited for a round", "longest ms"];
  tell(`| ${[...columns, "greatest held", "raw WebGPU, greatest held"].join(" | ")} |`);
  tell("|---|---|---|---|---|---|---|---|---|---|---|");
  const raw = adapter ? await forgottenRaw({ open }, quick ? 500 : 2_000) : "none here";
  const world = { rig, open: adapter && open, tell };
  await forgotten(world, "awaited", quick ? 2_000 : 10_000, raw, () => undefined);
  await forgottenObjects(world, quick ? 1_000 : 2_000);
  await forgotten(world, "8 a frame of 16 ms", quick ? 1_000 : 5_000, raw, frame);
  // Millions of live objects make every collection slow.
  globalThis.kept = Array.from({ length: 3_000_000 }, (_, i) => ({ i }));
  await forgotten(world, "awaited, 3 million live objects", quick ? 500 : 2_000, raw, () => undefined);
  globalThis.kept = undefined;
}

async function runOnGpu({ rig, adapter, open, peers, quick, tell }) {
  const { limits } = adapter;
  const requiredLimits = Object.fromEntries(
    ["maxBufferSize", "maxStorageBufferBindingSize"].map((name) => [name, limits[name]]),
  );
  const device = await adapter.requestDevice({ requiredLimits });
  const world = { rig, device, open, gpu: rig.adopt(device, { budget: 1024 * MIB }), peers, quick, tell };
  head(world, "making and giving back, 64 KiB, 1,000 at a time");
  await making(world);
  head(world, "64 runs of a kernel, a submission each");
  await runs(world);
  head(world, "bytes to a GPU");
  await uploads(world);
  head(world, "bytes from a GPU");
  await reads(world);
  head(world, "64 reads of 4 bytes");
  await smallReads(world);
  world.gpu.freeCache();
}

async function making({ gpu, device, peers, tell, quick }) {
  const usage = 8 | 4 | 128;
  const size = 64 * KIB;
  const count = 1_000;
  const registry = new FinalizationRegistry(() => undefined);
  const cases = {
    rig() {
      for (let i = 0; i < count; i += 1) gpu.createBufferNow(size).dispose();
    },
    raw() {
      for (let i = 0; i < count; i += 1) device.createBuffer({ size, usage }).destroy();
    },
    async promise() {
      for (let i = 0; i < count; i += 1) (await gpu.createBuffer(size)).dispose();
    },
    watched() {
      for (let i = 0; i < count; i += 1) registry.register({ i }, i);
    },
  };
  const manager = peers?.bufferManager;
  if (manager) {
    cases.tf = () => {
      for (let i = 0; i < count; i += 1) manager.releaseBuffer(manager.acquireBuffer(size, usage));
    };
  }
  const times = await interleaved(cases, quick ? 10 : 40, () => settled(device));
  const row = rows(tell, "P16", times);
  row("createBufferNow, dispose", "rig", "raw createBuffer, destroy", "raw", 0.08, count);
  if (manager) row("createBufferNow, dispose", "rig", "TensorFlow.js, acquire and release", "tf", 0.3, count);
  row("createBufferNow, dispose", "rig", "an object that a FinalizationRegistry watches", "watched", undefined, count);
  row("createBuffer awaited, dispose", "promise", "raw createBuffer, destroy", "raw", undefined, count);
}

async function runs({ gpu, device, tell, quick }) {
  const count = 64;
  const code = `
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @group(0) @binding(1) var<uniform> n: f32;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] += n; }`;
  const kernel = await gpu.kernel(code);
  const x = await gpu.createBuffer(256);
  await x.fill(0);
  const module = device.createShaderModule({ code });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const layout = pipeline.getBindGroupLayout(0);
  const [own, uniform] = [[256, 128], [16, 64 | 8]].map(([size, usage]) => device.createBuffer({ size, usage }));
  const resources = [own, uniform].map((buffer, binding) => ({ binding, resource: { buffer } }));
  let added = 0;
  const cases = {
    async rig() {
      for (let n = 0; n < count; n += 1) kernel.run({ x, n }, [1]);
      added += (count * (count - 1)) / 2;
      await fence(device);
    },
    async raw() {
      for (let n = 0; n < count; n += 1) {
        device.queue.writeBuffer(uniform, 0, Float32Array.of(n));
        const encoder = device.createCommandEncoder();
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, device.createBindGroup({ layout, entries: resources }));
        pass.dispatchWorkgroups(1);
        pass.end();
        device.queue.submit([encoder.finish()]);
      }
      await fence(device);
    },
  };
  const times = await interleaved(cases, quick ? 10 : 40, () => settled(device));
  if ((await x.toArray(Float32Array))[63] !== added) throw new Error("a run was wrong");
  const row = rows(tell, "", times);
  row("run of a kernel with a uniform, waited for together", "rig", "by hand, with a reused uniform buffer", "raw", undefined, count);
  for (const made of [own, uniform]) made.destroy();
  x.free();
}

async function uploads({ rig, gpu, device, peers, tell, quick }) {
  for (const size of sizes(quick)) {
    const data = new Uint8Array(size).map((_, i) => i * 31 + (i >> 8));
    const x = await gpu.createBuffer(size);
    const buffer = device.createBuffer({ size, usage: 8 | 4 | 128 });
    const host = rig.wrap(data);
    const cases = {
      copy: () => rig.copy(host, x),
      blit: () => x.blitFrom(data),
      raw() {
        device.queue.writeBuffer(buffer, 0, data);
        return fence(device);
      },
    };
    if (size >= 16 * MIB) {
      const beside = new Uint8Array(size);
      cases.memory = () => beside.set(data);
    }
    for (const [name, peer] of peersAt(peers, size)) cases[name] = () => peer.upload(new Float32Array(data.buffer));
    const times = await interleaved(cases, rounds(size, quick), () => settled(device));
    check(await x.toArray(Uint8Array), data);
    const row = rows(tell, "P17", times);
    const wanted = size === 256 * MIB ? 1 / 2.5 : 1;
    row(`copy of a wrapped array, ${named(size)}`, "copy", "writeBuffer, waited for", "raw", wanted);
    row(`blitFrom, ${named(size)}`, "blit", "writeBuffer, waited for", "raw", wanted);
    if (cases.memory) row(`once through the memory, ${named(size)}`, "memory", "writeBuffer, waited for", "raw");
    for (const [name] of peersAt(peers, size)) row(`copy of a wrapped array, ${named(size)}`, "copy", name, name, 1 / 3);
    x.free();
    buffer.destroy();
  }
}

async function reads({ gpu, device, peers, tell, quick }) {
  for (const size of sizes(quick)) {
    const data = new Uint8Array(size).map((_, i) => i * 29 + (i >> 8));
    const x = await gpu.createBuffer(size);
    const buffer = device.createBuffer({ size, usage: 8 | 4 | 128 });
    await x.blitFrom(data);
    device.queue.writeBuffer(buffer, 0, data);
    let found;
    const cases = {
      async rig() {
        found = await x.toArray(Uint8Array);
      },
      async raw() {
        const staging = device.createBuffer({ size, usage: 1 | 8 });
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
        device.queue.submit([encoder.finish()]);
        await staging.mapAsync(1);
        new Uint8Array(staging.getMappedRange().slice(0));
        staging.destroy();
      },
    };
    for (const [name, peer] of peersAt(peers, size)) cases[name] = peer.read(new Float32Array(size / 4).fill(3));
    const times = await interleaved(cases, rounds(size, quick), () => settled(device));
    check(found, data);
    const row = rows(tell, "P17", times);
    row(`toArray, ${named(size)}`, "rig", "a buffer mapped and copied", "raw", 1);
    for (const [name] of peersAt(peers, size)) row(`toArray, ${named(size)}`, "rig", name, name, 1 / 3);
    x.free();
    buffer.destroy();
  }
}

async function smallReads({ gpu, device, tell, quick }) {
  const count = 64;
  const x = await gpu.createBuffer(4 * count);
  await x.blitFrom(Uint32Array.from({ length: count }, (_, i) => i + 1));
  const buffer = device.createBuffer({ size: 4 * count, usage: 8 | 4 | 128 });
  const [staging, all] = [4, 4 * count].map((size) => device.createBuffer({ size, usage: 1 | 8 }));
  let found;
  const cases = {
    async rig() {
      const reads = Array.from({ length: count }, (_, i) => x.toArray(Uint32Array, { offset: 4 * i, length: 4 }));
      found = await Promise.all(reads);
    },
    async raw() {
      for (let i = 0; i < count; i += 1) {
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, 4 * i, staging, 0, 4);
        device.queue.submit([encoder.finish()]);
        await staging.mapAsync(1);
        new Uint32Array(staging.getMappedRange().slice(0));
        staging.unmap();
      }
    },
    async floor() {
      const encoder = device.createCommandEncoder();
      for (let i = 0; i < count; i += 1) encoder.copyBufferToBuffer(buffer, 4 * i, all, 4 * i, 4);
      device.queue.submit([encoder.finish()]);
      await all.mapAsync(1);
      const bytes = all.getMappedRange();
      await Promise.all(Array.from({ length: count }, async (_, i) => new Uint32Array(bytes.slice(4 * i, 4 * i + 4))));
      all.unmap();
    },
  };
  const times = await interleaved(cases, quick ? 5 : 30, () => settled(device));
  if (found.some(([word], i) => word !== i + 1)) throw new Error("a small read was wrong");
  const row = rows(tell, "P19", times);
  row("toArray, asked together", "rig", "as many maps, one after another", "raw", 1 / 50, count);
  row("toArray, asked together", "rig", "as many copies by hand in one map", "floor", undefined, count);
  row("as many copies by hand in one map", "floor", "as many maps, one after another", "raw", undefined, count);
  for (const own of [staging, all, buffer]) own.destroy();
  x.free();
}

/** Makes buffers and forgets them; tells how long that took, and how much of it was waited for. */
async function forgotten({ rig, open, tell }, name, count, raw, between) {
  const o = { budget: 256 * MIB, name };
  const gpu = open ? rig.adopt(await open(), o) : rig.memory(name, o);
  let [stalled, forMemory, longest, greatest] = [0, 0, 0, 0];
  const began = performance.now();
  for (let i = 0; i < count; i += 1) {
    const asked = performance.now();
    await gpu.createBuffer(MIB);
    const ms = performance.now() - asked;
    const { held } = gpu;
    if (ms >= STALL_MS) stalled += ms;
    if (ms >= STALL_MS && held > greatest) forMemory += ms;
    longest = Math.max(longest, ms);
    greatest = Math.max(greatest, held);
    await between(i);
  }
  const took = performance.now() - began;
  const share = stalled / took;
  if (greatest > 256 * MIB) throw new Error(`${greatest} bytes were held`);
  const wanted = name.includes("million") ? "" : "<= 10 %";
  const met = wanted && (share <= 0.1 ? "yes" : "no");
  const shares = [stalled, forMemory].map((ms) => `${((100 * ms) / took).toFixed(1)} %`);
  const [, , fromCache, fromDriver] = gpu.stats().kindCounts;
  const cells = [name, count, (took / 1e3).toFixed(2), ...shares, wanted, met, fromCache + fromDriver];
  tell(`| ${[...cells, longest.toFixed(0), named(greatest), raw].join(" | ")} |`);
  await gpu.close();
}

/**
 * Does the same with objects that have no memory, by hand: where 256 are out, an array that nobody
 * touches and a turn of the event loop until the engine tells of one. That is its collecting alone.
 */
async function forgottenObjects({ tell }, count) {
  let [held, stalls, stalled, longest] = [0, 0, 0, 0];
  const registry = new FinalizationRegistry(() => (held -= 1));
  const began = performance.now();
  for (let i = 0; i < count; i += 1) {
    const asked = performance.now();
    for (; held >= 256; await turn()) void new ArrayBuffer(64 * MIB);
    registry.register({ i }, i);
    held += 1;
    await undefined;
    const ms = performance.now() - asked;
    longest = Math.max(longest, ms);
    if (ms < STALL_MS) continue;
    stalls += 1;
    stalled += ms;
  }
  const took = performance.now() - began;
  const share = `${((100 * stalled) / took).toFixed(1)} %`;
  const cells = ["objects alone, by hand, awaited", count, (took / 1e3).toFixed(2), share, "", "", "", stalls, longest.toFixed(0)];
  tell(`| ${[...cells, "256 objects", ""].join(" | ")} |`);
}

/** Does the same without rig; answers the most that was not found unreachable at any time. */
async function forgottenRaw({ open }, count) {
  const own = await open();
  let [held, greatest] = [0, 0];
  const registry = new FinalizationRegistry(() => (held -= 1));
  for (let i = 0; i < count; i += 1) {
    registry.register(own.createBuffer({ size: MIB, usage: 8 | 128 }), i);
    held += 1;
    greatest = Math.max(greatest, held);
    await eighth(i);
  }
  own.destroy();
  return `${named(greatest * MIB)} of ${named(count * MIB)}`;
}

/** Waits for a turn of the event loop after every eighth. */
function eighth(i) {
  return i % 8 === 7 ? new Promise((resolve) => setTimeout(resolve)) : undefined;
}

/** Waits for a turn of the event loop, which no timer holds back. */
function turn() {
  const { port1, port2 } = new MessageChannel();
  port2.postMessage(0);
  return new Promise((resolve) => (port1.onmessage = resolve)).then(() => port1.close());
}

/** Waits for a frame after every eighth. */
function frame(i) {
  return i % 8 === 7 ? new Promise((resolve) => setTimeout(resolve, 16)) : undefined;
}

/** Waits until what was submitted is done. */
async function fence(device) {
  const buffer = device.createBuffer({ size: 4, usage: 1 | 8 });
  const encoder = device.createCommandEncoder();
  encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
  await buffer.mapAsync(1);
  buffer.destroy();
}

/** Waits like {@link fence} ahead of a case: an engine that looks seldom is kept moving. */
async function settled(device) {
  const timer = setInterval(() => device.queue.submit([]), 4);
  await fence(device);
  clearInterval(timer);
}

/** The peers that take part at a size, by name. */
function peersAt(peers, size) {
  return size === 16 * MIB ? Object.entries(peers?.tensors ?? {}) : [];
}

/** Runs the cases in turn, each `count` times or until time is over; answers milliseconds. */
async function interleaved(cases, count, settle) {
  const names = Object.keys(cases);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  const end = performance.now() + ROW_MS;
  for (let round = -1; round < count && (round < ROUNDS_MIN || performance.now() < end); round += 1) {
    for (let i = 0; i < names.length; i += 1) {
      const name = names[(i + Math.max(round, 0)) % names.length];
      await settle();
      const began = performance.now();
      await cases[name]();
      // The first round warms up.
      if (round >= 0) times[name].push(performance.now() - began);
    }
  }
  for (const name of names) times[name].sort((a, b) => a - b);
  return times;
}

function head({ tell }, title) {
  tell("");
  tell(`### ${title}`);
  tell("");
  tell("| goal | what | figure | wanted | met | rig us: min, median, p90 | beside | its us |");
  tell("|---|---|---|---|---|---|---|---|");
}

/** Returns what tells a row of one case beside another, in microseconds of each of `count`. */
function rows(tell, goal, times) {
  const shown = (name, count) => {
    const at = (share) => times[name][Math.floor(share * (times[name].length - 1))];
    return [0, 0.5, 0.9].map((share) => ((1e3 * at(share)) / count).toFixed(2)).join(", ");
  };
  return (what, name, beside, other, wanted, count = 1) => {
    const figure = times[name][0] / times[other][0];
    const met = wanted === undefined ? "" : figure <= wanted ? "yes" : "no";
    const bound = wanted === undefined ? "" : `<= ${Number(wanted.toPrecision(2))}`;
    const cells = [goal, what, `${figure.toFixed(3)} x`, bound, met, shown(name, count), beside, shown(other, count)];
    tell(`| ${cells.join(" | ")} |`);
  };
}

function check(found, wanted) {
  const at = found.findIndex((byte, i) => byte !== wanted[i]);
  if (at !== -1 || found.length !== wanted.length) throw new Error(`byte ${at} was wrong`);
}

function sizes(quick) {
  return quick ? [4, 64 * KIB, MIB, 16 * MIB] : [4, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB];
}

function rounds(size, quick) {
  return (quick ? 5 : size > 16 * MIB ? 6 : 20) * (size < MIB ? 10 : 1);
}

function named(bytes) {
  if (bytes < KIB) return `${bytes} B`;
  return bytes < MIB ? `${bytes / KIB} KiB` : `${Math.round(bytes / MIB)} MiB`;
}

/** A row takes no longer, once it has so many rounds. */
const ROW_MS = 8_000;
const ROUNDS_MIN = 3;
/** A call that takes longer waited for something. */
const STALL_MS = 2;
