// Instances: their options, their end by a trap, and others beside them.

import { equal, error, fails, holds, test, turn, until } from "./harness.mjs";

const KIB = 2 ** 10;
const MIB = 2 ** 20;

test("s13_13_init_is_idempotent_and_the_first_options_count", async ({ rig, init, copy }) => {
  equal((await init({ pacing: false })) === rig, true);
  const other = await copy();
  const [a, b] = await Promise.all([other.init(), other.init({ tracePool: true })]);
  equal([a === b, a === rig, a.host === rig.host], [true, false, false]);
  const [mine, theirs] = [rig.memory("both", { budget: MIB }), a.memory("both", { budget: 2 * MIB })];
  equal([mine === theirs, mine.budget, theirs.budget], [false, MIB, 2 * MIB]);
  await Promise.all([mine.close(), theirs.close()]);
});

test("s13_3_errors_of_another_copy_of_the_package_are_told_apart_by_none", async ({ copy, RigError }) => {
  const other = await copy();
  const e = await error(async () => (await other.init()).memory(""));
  equal([e instanceof RigError, RigError.is(e), other.RigError.is(e), e.name], [false, true, true, "RigError"]);
});

test("s13_13_nothing_runs_at_import", async ({ copy }) => {
  const ran = [];
  const watched = [
    ...["compile", "compileStreaming", "instantiate", "instantiateStreaming"].map((name) => [WebAssembly, name]),
    ...["fetch", "addEventListener", "FinalizationRegistry", "MessageChannel"].map((name) => [globalThis, name]),
  ].filter(([of, name]) => of[name]);
  const real = watched.map(([of, name]) => of[name]);
  // Instances of other tests may be at work meanwhile: what the import runs has the copy's address on
  // its stack, or, in WebKit, which leaves queries out, the code of a module itself.
  const atImport = [];
  const note = (name) => {
    ran.push(name);
    if (/imported=alone|module code@/.test(new Error().stack)) atImport.push(name);
  };
  const told = (name) => ({
    apply(f, of, args) {
      note(name);
      return f.apply(of, args);
    },
    construct(f, args) {
      note(name);
      return new f(...args);
    },
  });
  for (const [at, [of, name]] of watched.entries()) of[name] = new Proxy(real[at], told(name));
  try {
    const { init } = await copy("imported=alone");
    equal([typeof init, atImport], ["function", []]);
    ran.length = 0;
    await init();
  } finally {
    for (const [at, [of, name]] of watched.entries()) of[name] = real[at];
  }
  holds(ran.includes("FinalizationRegistry") && ran.some((name) => /compile|instantiate/.test(name)), `init ran ${ran}`);
});

test("s13_13_init_takes_the_wasm_in_every_form", async ({ copy }) => {
  const module = await compiled();
  const { init } = await copy();
  equal((await init({ wasm: module })).host.name, "CPU");
  const promised = await (await copy("promised")).init({ wasm: Promise.resolve(module) });
  equal(promised.host.name, "CPU");
  const other = await fails(async () => (await copy()).init({ wasm: "data:text/plain,none" }), "Unsupported");
  holds(other.message.includes("what came back from data:text/plain,none is no wasm"), other.message);
  for (const [wasm, text] of [[new Uint8Array([1, 2, 3, 4, 5]), "compile"], [EMPTY, "not of this version"]]) {
    const { message } = await fails(async () => (await copy()).init({ wasm }), "Unsupported");
    holds(message.includes(text), message);
  }
});

test("s13_13_an_address_of_the_wasm_is_what_fetch_takes_for_it", async ({ copy }) => {
  const { fetch } = globalThis;
  const bytes = await given();
  const asked = [];
  globalThis.fetch = async (address) => (asked.push(address), new Response(bytes));
  try {
    equal((await (await copy()).init({ wasm: "assets/rig.wasm?v=1" })).host.name, "CPU");
  } finally {
    globalThis.fetch = fetch;
  }
  equal(asked, ["assets/rig.wasm?v=1"]);
});

/** A module of wasm that exports nothing. */
const EMPTY = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);

async function compiled() {
  return WebAssembly.compile(await given());
}

/** The bytes of the package's wasm. */
async function given() {
  const url = import.meta.resolve("rig-web/rig.wasm");
  if (!url.startsWith("file:")) return (await fetch(url)).arrayBuffer();
  const { readFile } = await import("node:fs/promises");
  return readFile(new URL(url));
}

test("s11_6_traced_memory_is_named_by_the_place_that_made_it", async ({ rig, copy }) => {
  const { init } = await copy();
  const m = (await init({ tracePool: true })).memory("traced", { budget: MIB });
  const kept = [await m.createBuffer(256 * KIB), m.createBufferNow(256 * KIB)];
  const places = [m.stats().sites, (await fails(() => m.createBuffer(MIB), "OutOfMemory")).report.sites];
  for (const sites of places) {
    equal(sites.map(({ bytes, count }) => [bytes, count]), [[256 * KIB, 1], [256 * KIB, 1]]);
    for (const { site } of sites) holds(/init\.test\.mjs:\d+:\d+/.test(site), site);
    holds(sites[0].site !== sites[1].site, "two places");
  }
  equal([kept.length, rig.host.stats().sites], [2, []], "untraced elsewhere");
  await m.close();
});

/** Makes an instance whose imports fail, or whose wasm panics, once that is asked for. */
async function trapping({ copy }) {
  const { init, RigError } = await copy();
  const real = WebAssembly.instantiate;
  const trap = { now: "" };
  const failing = (f) => (...args) => {
    if (trap.now === "import") throw new Error("on purpose");
    return f(...args);
  };
  WebAssembly.instantiate = async (module, { page }) => {
    const names = Object.keys(page);
    const wrapped = Object.fromEntries(names.map((name) => [name, failing(page[name])]));
    const { exports } = await real(module, { page: wrapped });
    // No device has this index: what looks for it panics.
    const panicking = (f) => (...args) => (trap.now === "panic" ? exports.facts(999) : f(...args));
    const [pump, create] = [panicking(exports.pump), panicking(exports.create)];
    return { exports: { ...exports, pump, create } };
  };
  try {
    return { rig: await init(), init, RigError, trap };
  } finally {
    WebAssembly.instantiate = real;
  }
}

for (const kind of ["import", "panic"]) {
  test(`s13_14_a_trap_by_${kind}_loses_every_device_and_rejects_what_is_pending`, async (world) => {
    const { rig, init, RigError, trap } = await trapping(world);
    const [m, n] = [rig.memory("m", { budget: MIB }), rig.memory("n")];
    const x = await m.createBuffer(MIB);
    const [claim, out] = [x.claimRead(), await (await rig.host.createBuffer(8)).export()];
    const { submitted } = m;
    let heard = 0;
    m.addEventListener("lost", () => (heard += 1));
    const pending = [m.createBuffer(MIB), m.lost.then((e) => Promise.reject(e)), rig.host.lost.then((e) => Promise.reject(e))];
    const settled = Promise.allSettled(pending);
    trap.now = kind;
    const e = await fails(() => n.createBuffer(8), "Lost");
    const why = kind === "panic" ? /unreachable/i : /on purpose/;
    holds(e.why.startsWith("internal error") && why.test(e.why), e.why);
    equal((await settled).map(({ reason }) => [reason.code, reason.why === e.why]), Array(3).fill(["Lost", true]));
    equal([(await m.lost).device, (await n.lost).device, heard], ["m", "n", 1]);
    for (const call of [() => x.fill(1), () => m.createBufferNow(8), () => m.submit({}), () => rig.stats(), () => rig.memory("o")]) {
      await fails(call, "Lost");
    }
    equal([x.state, x.size, m.submitted, m.reached, m.name], ["dead", MIB, submitted, 0, "m"]);
    for (const end of [() => claim.release(), () => out.dispose(), () => x.free(), () => x.dispose(), () => x.dispose()]) end();
    equal([out.bytes.length, x.state], [0, "disposed"]);
    trap.now = "";
    const again = await init();
    equal([again === rig, await init() === again], [false, true]);
    const y = await again.memory("m").createBuffer(8);
    await y.fill(3);
    equal([(await y.toArray(Uint8Array))[7], RigError.is(e)], [3, true]);
    await fails(() => again.copy(x, y), "Misuse", "Option");
    await again.memory("m").close();
  });
}

test("s13_14_a_trap_that_no_call_meets_is_told_by_the_event_alone", async (world) => {
  const { rig, trap } = await trapping(world);
  const m = rig.memory("m", { budget: MIB });
  await m.createBuffer(512 * KIB);
  let heard;
  m.addEventListener("lost", (event) => (heard = event.detail));
  trap.now = "panic";
  await until(() => heard, "the timer of the maintenance meets it");
  equal([heard.code, heard.device], ["Lost", "m"]);
});

test(
  "s13_14_a_trap_destroys_what_is_the_instances_own_on_a_gpu",
  async (world) => {
    const { rig, trap } = await trapping(world);
    const own = await rig.open("own");
    const { device } = await world.adopted();
    const left = new Set();
    const { createBuffer } = device;
    device.createBuffer = (descriptor) => {
      const made = createBuffer.call(device, descriptor);
      made.destroy = () => {
        left.delete(made);
        GPUBuffer.prototype.destroy.call(made);
      };
      left.add(made);
      return made;
    };
    const theirs = rig.adopt(device, { name: "theirs" });
    const [x, lent] = [await theirs.createBuffer(64), await theirs.createBuffer(64)];
    const { buffer } = lent.lend();
    await x.fill(3, { offset: 1 });
    const pending = x.toArray(Uint8Array).catch((e) => e.code);
    // Its fence is on the way.
    await null;
    trap.now = "import";
    await fails(() => own.createBuffer(8), "Lost");
    equal(await pending, "Lost");
    equal([(await own.lost).code, (await own.gpu.lost).reason], ["Lost", "destroyed"]);
    const alive = await Promise.race([device.lost.then(() => false), turn().then(() => true)]);
    equal(alive, true, "what the page brought goes on");
    await until(() => left.size === 1, "all but what the page was lent is destroyed");
    equal(left.has(buffer), true);
    device.queue.writeBuffer(buffer, 0, new Uint8Array(64));
    device.pushErrorScope("validation");
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(buffer);
    device.queue.submit([encoder.finish()]);
    equal(await device.popErrorScope(), null, "what the page was lent goes on");
    trap.now = "";
    device.destroy();
  },
  { needs: "gpu" },
);
