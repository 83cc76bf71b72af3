// The whole face with wrong arguments of every type: RigError, Misuse, and nothing changed.

import { equal, error, fails, holds, test, turn } from "./harness.mjs";

/** Values of every type, none of which is a size, a name, a buffer or a device. */
const WRONG = {
  undefined: undefined,
  null: null,
  "not a number": NaN,
  infinity: Infinity,
  negative: -1,
  fraction: 1.5,
  "2^53": 2 ** 53,
  "a big integer": 4n,
  true: true,
  "a symbol": Symbol("x"),
  "an empty string": "",
  "a string": "4",
  "an object": {},
  "an object without a prototype": Object.create(null),
  "an array": [],
  "a function": () => 1,
  "a class": class {},
  "a date": new Date(0),
  "a promise": Promise.resolve(1),
  "a typed array": new Uint8Array(4),
};

/** What is right in a slot of this kind although it is in the list. */
const RIGHT = {
  size: () => false,
  name: (value) => typeof value === "string" && value !== "",
  text: (value) => typeof value === "string",
  object: (value) => typeof value === "object" && value !== null,
  thing: () => false,
  list: Array.isArray,
  function: (value) => typeof value === "function",
  budget: (value) => value === Infinity,
  flag: (value) => typeof value === "boolean",
  bytes: (value) => ArrayBuffer.isView(value),
};
/** A slot that may be left out. */
const maybe = (kind) => (value) => value === undefined || RIGHT[kind](value);
/** Options as a whole, which may be nothing. */
const options = (value) => value === undefined || value === null || RIGHT.object(value);

/** Slots of the options that every waiting call has. */
const waits = (call) => [[options, (v) => call(v)], [maybe("thing"), (v) => call({ signal: v })]];
/** Slots of a label beside them. */
const labelled = (call) => [[options, (v) => call(v)], [maybe("text"), (v) => call({ label: v })]];

const of = (kind) => RIGHT[kind];
/** What a target takes for a listener. */
const isListener = (value) => options(value) || RIGHT.function(value);

function slotsOfRig({ rig, x, y, init }) {
  const nothing = () => undefined;
  return {
    init: [
      [options, (v) => init(v)],
      [(v) => maybe("text")(v) || RIGHT.object(v), (v) => init({ wasm: v })],
      ...["managedPool", "tracePool", "pacing"].map((name) => [maybe("flag"), (v) => init({ [name]: v })]),
    ],
    open: [
      [of("name"), (v) => rig.open(v)],
      ...waits((o) => rig.open("never", o)),
      [maybe("budget"), (v) => rig.open("never", { budget: v })],
      [maybe("size"), (v) => rig.open("never", { usage: v })],
      [(v) => v === undefined || RIGHT.object(v), (v) => rig.open("never", { adapter: v })],
      [(v) => v === undefined || RIGHT.object(v), (v) => rig.open("never", { device: v })],
    ],
    adopt: [[of("thing"), (v) => rig.adopt(v)]],
    memory: [
      [of("name"), (v) => rig.memory(v)],
      [options, (v) => rig.memory("never", v)],
      [maybe("budget"), (v) => rig.memory("never", { budget: v })],
      [maybe("size"), (v) => rig.memory("never", { usage: v })],
    ],
    wrap: [[of("bytes"), (v) => rig.wrap(v)], ...labelled((o) => rig.wrap(new Uint8Array(4), o))],
    copy: [
      [of("thing"), (v) => rig.copy(v, y)],
      [of("thing"), (v) => rig.copy(x, v)],
      ...waits((o) => rig.copy(x, y, o)),
    ],
    withClaims: [
      [options, (v) => rig.withClaims(v, nothing)],
      [of("function"), (v) => rig.withClaims({}, v)],
      [maybe("list"), (v) => rig.withClaims({ reads: v }, nothing)],
      [of("thing"), (v) => rig.withClaims({ reads: [x, v] }, nothing)],
      [maybe("list"), (v) => rig.withClaims({ donate: v }, nothing)],
      [of("list"), (v) => rig.withClaims({ donate: [v] }, nothing)],
      [of("thing"), (v) => rig.withClaims({ donate: [[x], [v]] }, nothing)],
      [of("thing"), (v) => rig.withClaims({ donate: [[x]] }, (claims) => claims.isExclusive(v))],
      [of("thing"), (v) => rig.withClaims({ donate: [[x]] }, (claims) => claims.consume(v, "why"))],
      [of("text"), (v) => rig.withClaims({ donate: [[x]] }, (claims) => claims.consume(x, v))],
    ],
  };
}

function slotsOfDevice({ m, x }) {
  const submissions = (submit) => [
    [options, (v) => submit(v)],
    ...["reads", "writes"].flatMap((name) => [
      [maybe("list"), (v) => submit({ [name]: v })],
      [of("thing"), (v) => submit({ [name]: [x, v] })],
    ]),
  ];
  const commands = (submit) => [
    ...submissions(submit),
    [maybe("list"), (v) => submit({ after: v })],
    [of("thing"), (v) => submit({ after: [v] })],
    [of("thing"), (v) => submit({ after: [{ device: v, value: 1 }] })],
    [of("size"), (v) => submit({ after: [{ device: m, value: v }] })],
    [maybe("text"), (v) => submit({ label: v })],
    [maybe("function"), (v) => submit({}, v)],
  ];
  return {
    budget: [[of("budget"), (v) => void (m.budget = v)]],
    createBuffer: [
      [of("size"), (v) => m.createBuffer(v)],
      ...labelled((o) => m.createBuffer(4, o)),
      ...waits((o) => m.createBuffer(4, o)),
    ],
    createBufferNow: [[of("size"), (v) => m.createBufferNow(v)], ...labelled((o) => m.createBufferNow(4, o))],
    wrapGpu: [[of("thing"), (v) => m.wrapGpu(v)]],
    kernel: [
      [of("text"), (v) => m.kernel(v)],
      ...labelled((o) => m.kernel("", o)),
      ...waits((o) => m.kernel("", o)),
      [maybe("text"), (v) => m.kernel("", { entryPoint: v })],
    ],
    submit: commands((o, encode) => m.submit(o, encode)),
    submitWhenReady: [
      ...commands((o, encode) => m.submitWhenReady(o, encode)),
      [maybe("thing"), (v) => m.submitWhenReady({ signal: v })],
    ],
    recordUse: submissions((o) => m.recordUse(o)),
    wait: [
      [of("size"), (v) => m.wait(v)],
      [of("thing"), (v) => m.wait({ device: v, value: 0 })],
      [of("size"), (v) => m.wait({ device: m, value: v })],
      ...waits((o) => m.wait(0, o)),
    ],
    close: waits((o) => m.close(o)),
    addEventListener: [[isListener, (v) => m.addEventListener("lost", v)]],
    removeEventListener: [[isListener, (v) => m.removeEventListener("lost", v)]],
  };
}

function slotsOfBuffer({ x, out }) {
  const ranges = (call) => [
    ...waits(call),
    [maybe("size"), (v) => call({ offset: v })],
    [maybe("size"), (v) => call({ length: v })],
  ];
  const offsets = (call) => [...waits(call), [maybe("size"), (v) => call({ offset: v })]];
  const scopes = (name) => [[of("function"), (v) => x[name](v)], ...waits((o) => x[name](() => 1, o))];
  return {
    read: scopes("read"),
    write: scopes("write"),
    toArray: [[of("thing"), (v) => x.toArray(v)], ...ranges((o) => x.toArray(Uint8Array, o))],
    blitTo: [[of("bytes"), (v) => x.blitTo(v)], ...offsets((o) => x.blitTo(new Uint8Array(0), o))],
    blitFrom: [[of("bytes"), (v) => x.blitFrom(v)], ...offsets((o) => x.blitFrom(new Uint8Array(0), o))],
    fill: [[of("size"), (v) => x.fill(v)], ...ranges((o) => x.fill(7, o))],
    view: [[of("size"), (v) => x.view(v)], [maybe("size"), (v) => x.view(0, v)]],
    borrow: [[of("thing"), (v) => x.borrow(v)]],
    export: waits((o) => x.export(o)),
    copyOut: [[of("size"), (v) => out.copyOut(v, new Uint8Array(0))], [of("bytes"), (v) => out.copyOut(0, v)]],
    copyIn: [[of("size"), (v) => out.copyIn(v, new Uint8Array(0))], [of("bytes"), (v) => out.copyIn(0, v)]],
  };
}

/** Tries every slot with every value that is wrong there; answers what did not answer with Misuse. */
async function tried(slots, wrong) {
  const found = [];
  for (const [call, ofCall] of Object.entries(slots)) {
    for (const [at, [isRight, run]] of ofCall.entries()) {
      for (const [kind, value] of Object.entries(wrong).filter(([, value]) => !isRight(value))) {
        const e = await error(() => run(value)).catch(() => ({ message: "nothing failed" }));
        if (e.name === "RigError" && e.code === "Misuse" && e.what === "Option") continue;
        found.push(`${call}, slot ${at}, ${kind}: ${e.name} ${e.code} ${e.what}: ${e.message}`);
      }
    }
  }
  return found;
}

test("s0_2_wrong_arguments_of_every_type_are_misuse_and_change_nothing", async (world) => {
  const { rig, copy } = world;
  const m = rig.memory("wrong arguments");
  const [x, y] = [await m.createBuffer(8), await m.createBuffer(8)];
  const out = await (await rig.host.createBuffer(8)).export();
  await x.fill(7);
  const theirs = (await (await copy()).init()).memory("theirs");
  const foreign = { ...WRONG, "a buffer of another copy": await theirs.createBuffer(8), "a device of another copy": theirs };
  const { held, submitted, budget } = m;
  const given = { ...world, m, x, y, out };
  const found = [];
  for (const slots of [slotsOfRig(given), slotsOfDevice(given), slotsOfBuffer(given)]) {
    found.push(...(await tried(slots, foreign)));
  }
  await turn();
  equal(found, [], "what was not Misuse");
  equal([m.held, m.submitted, m.budget, rig.devices.at(-1) === m], [held, submitted, budget, true], "nothing was opened");
  equal([x.state, y.state, x.stamps().write, await x.toArray(Uint8Array)], ["live", "live", null, Array(8).fill(7)]);
  for (const buffer of [x, y]) buffer.free();
  await m.close();
  await theirs.close();
});

test(
  "s0_2_wrong_arguments_of_gpu_calls_are_misuse_and_take_no_value",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(16);
    const kernel = await gpu.kernel(`
      @group(0) @binding(0) var<storage, read_write> x: array<u32>;
      @group(0) @binding(1) var<uniform> n: u32;
      @compute @workgroup_size(1) fn main() { x[0] = n; }`);
    const { submitted } = gpu;
    const page = gpu.gpu.createBuffer({ size: 16, usage: 0x80 });
    const slots = {
      run: [
        [() => false, (v) => kernel.run(v, [1])],
        [of("thing"), (v) => kernel.run({ x: v, n: 1 }, [1])],
        [(v) => typeof v === "number" || RIGHT.bytes(v), (v) => kernel.run({ x, n: v }, [1])],
        [() => false, (v) => kernel.run({ x, n: 1 }, v)],
        [of("size"), (v) => kernel.run({ x, n: 1 }, [v])],
        [maybe("size"), (v) => kernel.run({ x, n: 1 }, [1, v])],
      ],
      wrapGpu: [
        [options, (v) => gpu.wrapGpu(page, v)],
        [maybe("size"), (v) => gpu.wrapGpu(page, { offset: v })],
        [maybe("size"), (v) => gpu.wrapGpu(page, { length: v })],
        [maybe("text"), (v) => gpu.wrapGpu(page, { label: v })],
      ],
    };
    equal(await tried(slots, WRONG), [], "what was not Misuse");
    equal([gpu.submitted, x.stamps().write], [submitted, null]);
    page.destroy();
    x.free();
  },
  { needs: "gpu" },
);

test("s13_2_a_proxy_of_a_handle_or_one_of_another_copy_is_misuse_and_lists_of_other_realms_are_lists", async ({ rig, copy }) => {
  const m = rig.memory("of proxies");
  const x = await m.createBuffer(8);
  const second = await (await copy("of proxies")).init();
  for (const other of [new Proxy(x, {}), await second.host.createBuffer(8)]) {
    const e = await fails(() => rig.copy(other, x), "Misuse", "Option");
    holds(/src is a Buffer, which is a proxy of one, or of another copy of rig-web/.test(e.message), e.message);
    await fails(() => m.submit({ reads: [other] }), "Misuse", "Option");
  }
  await fails(() => x.borrow(new Proxy(m, {})), "Misuse", "Option");
  // Frameworks make proxies of plain objects alone, by this.
  const tag = (of) => Object.prototype.toString.call(of);
  equal([tag(x), tag(rig), tag(m) === tag({})], ["[object Buffer]", "[object Rig]", false]);
  const [list, bytes] = await ofAnotherRealm();
  list.push(x);
  equal(m.submit({ writes: list }).value, 1);
  equal(await rig.withClaims({ reads: list }, () => 7), 7);
  await x.blitFrom(bytes);
  await m.close();
});

test("s13_2_lists_with_holes_and_lists_that_change_while_they_are_read_end_no_instance", async ({ rig }) => {
  const m = rig.memory("of lists");
  const x = await m.createBuffer(8);
  const hollow = new Array(2);
  for (const call of [
    () => m.submit({ reads: hollow }),
    () => m.submit({ writes: [x, , x] }),
    () => m.submit({ after: hollow }),
    () => m.submitWhenReady({ writes: hollow }),
    () => m.recordUse({ reads: [, x] }),
    () => rig.withClaims({ reads: hollow }, () => 0),
    () => rig.withClaims({ donate: hollow }, () => 0),
    () => rig.withClaims({ donate: [[x], hollow] }, () => 0),
  ]) {
    await fails(call, "Misuse", "Option");
  }
  equal([m.submitted, x.state], [0, "live"], "nothing was submitted");
  // Its first element makes it longer or shorter.
  const changing = (length) => {
    const list = [x, x, x];
    return Object.defineProperty(list, 0, { get: () => ((list.length = length), x) });
  };
  equal(m.submit({ reads: changing(1) }).value, 1);
  equal(await rig.withClaims({ reads: changing(1) }, () => 7), 7);
  await fails(() => m.submit({ reads: changing(9) }), "Misuse", "Option");
  await fails(() => rig.withClaims({ reads: changing(9) }, () => 7), "Misuse", "Option");
  equal([m.submitted, x.state], [1, "live"]);
  await m.close();
});

/** Makes a list and an ArrayBuffer whose classes are not the page's. */
async function ofAnotherRealm() {
  if (globalThis.process) {
    const { runInNewContext } = await import("node:vm");
    return runInNewContext("[[], new ArrayBuffer(8)]");
  }
  const frame = document.body.appendChild(document.createElement("iframe"));
  const { Array, ArrayBuffer } = frame.contentWindow;
  return [new Array(), new ArrayBuffer(8)];
}
