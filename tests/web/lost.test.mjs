// The table of S12.1, call by call: what answers once a device is lost, and what is Lost.

import { equal, error, test } from "./harness.mjs";

/** What the calls on a buffer need besides: the instance, and the host buffer of the same size beside it. */
const BUFFER_CALLS = {
  read: (x) => x.read((bytes) => bytes.length),
  write: (x) => x.write((bytes) => bytes.length),
  toArray: (x) => x.toArray(Uint8Array),
  blitTo: (x) => x.blitTo(new Uint8Array(8)),
  blitFrom: (x) => x.blitFrom(new Uint8Array(8)),
  fill: (x) => x.fill(3),
  "copy from": (x, { rig, other }) => rig.copy(x, other),
  "copy into": (x, { rig, other }) => rig.copy(other, x),
  claimRead: (x) => x.claimRead().release(),
  "withClaims, read": (x, { rig }) => rig.withClaims({ reads: [x] }, () => undefined),
  "withClaims, donated": (x, { rig }) => rig.withClaims({ donate: [[x]] }, () => undefined),
  borrow: (x, { there }) => x.borrow(there),
  export: async (x) => (await x.export()).dispose(),
  view: (x) => x.view(0, 4),
  stamps: (x) => x.stamps(),
  state: (x) => equal(x.state, "live"),
  facts: (x) => equal([x.size, x.offset, x.label], [8, 0, "mine"]),
  free: (x) => x.free(),
  dispose: (x) => x.dispose(),
};
/** The rows that answer for every buffer: facts, stamps, and what lets go. */
const ANSWERING = ["view", "stamps", "state", "facts", "free", "dispose"];
/** What memory that the page does not address is never asked for. */
const IN_PLACE = ["read", "write", "export"];

const DEVICE_CALLS = {
  createBuffer: (d) => d.createBuffer(8),
  createBufferNow: (d) => d.createBufferNow(8),
  submit: (d) => d.submit({}),
  "submit reading": (d, { x }) => d.submit({ reads: [x] }),
  "submit writing": (d, { x }) => d.submit({ writes: [x] }),
  submitWhenReady: (d) => d.submitWhenReady({}),
  recordUse: (d) => d.recordUse({}),
  "wait for what is reached": (d) => d.wait(0),
  "wait for its last value": (d) => d.wait(d.submitted),
  "wait for its point": (d, { there }) => there.wait({ device: d, value: d.submitted }),
};
const GPU_CALLS = {
  kernel: (d) => d.kernel("@compute @workgroup_size(1) fn main() {}"),
  wrapGpu: (d, { theirs }) => d.wrapGpu(theirs),
};
const DEVICE_FACTS = {
  name: (d) => d.name,
  gpu: (d) => d.gpu,
  facts: (d) => d.facts,
  numbers: (d) => [d.held, d.cached, d.submitted, d.reached],
  budget: (d) => (d.budget = d.budget),
  stats: (d) => d.stats(),
  trim: (d) => d.trim(),
  freeCache: (d) => d.freeCache(),
  lost: (d) => d.lost,
  listening: (d) => d.addEventListener("lost", () => undefined),
  close: (d) => d.close(),
};

/** Returns what each call answers on something of its own: `ok`, or the code of its error. */
async function answersOf(calls, make) {
  const found = {};
  for (const [name, call] of Object.entries(calls)) {
    const given = await make();
    try {
      await call(...given);
      found[name] = "ok";
    } catch (e) {
      found[name] = e.code ?? String(e);
    }
  }
  return found;
}

/** Returns what a table is wanted to be: one answer, but for those that are listed with others. */
function wanted(calls, answer, others) {
  const names = Object.keys(calls);
  const exceptions = Object.entries(others).flatMap(([other, list]) => list.map((name) => [name, other]));
  return { ...Object.fromEntries(names.map((name) => [name, answer])), ...Object.fromEntries(exceptions) };
}

/** Makes many buffers of a kind ahead of a loss, one for each call. */
async function many(make) {
  const all = [];
  for (let i = 0; i < Object.keys(BUFFER_CALLS).length; i += 1) all.push(await make());
  return all;
}

/** Looks at every row of the table, for a device that `lose` loses. */
async function looks(world, device, lose) {
  const { rig } = world;
  const there = rig.memory(`beside ${device.name}`);
  const other = await rig.host.createBuffer(8);
  const make = async (on) => {
    const x = await on.createBuffer(8, { label: "mine" });
    await x.fill(1);
    return x;
  };
  const [whole, own] = [await make(device), await many(() => make(device))];
  const views = await many(async () => (await make(device)).view(0));
  const theirs = device.gpu?.createBuffer({ size: 8, usage: 0x80 | 0x4 | 0x8 });
  // The page's memory, which a memory device addresses by borrows of it.
  const used = async () => {
    const root = await make(rig.host);
    const borrow = root.borrow(device);
    device.submit({ writes: [borrow] });
    return { root, borrow };
  };
  const [borrows, elsewhere] = device.gpu ? [] : [await many(used), await many(used)];
  const given = { rig, there, other, x: whole, theirs };
  await lose();
  equal((await device.lost).code, "Lost");
  const next = (list) => () => [list.shift(), given];
  const refused = device.gpu ? { ok: ANSWERING, Unsupported: IN_PLACE } : { ok: ANSWERING };
  const lost = wanted(BUFFER_CALLS, "Lost", refused);
  equal(await answersOf(BUFFER_CALLS, next(own)), lost, `its memory, ${device.name}`);
  equal(await answersOf(BUFFER_CALLS, next(views)), lost, `a view of its memory, ${device.name}`);
  if (!device.gpu) {
    equal(await answersOf(BUFFER_CALLS, next(borrows.map(({ borrow }) => borrow))), lost, "a borrow on it");
    // Its points are done: the memory is ordinary at once (S12.2).
    const roots = elsewhere.map(({ root }) => root);
    for (const { write } of roots.map((root) => root.stamps())) equal(write.device === device, true);
    equal(await answersOf(BUFFER_CALLS, next(roots)), wanted(BUFFER_CALLS, "ok", {}), "memory elsewhere with its points");
  }
  const calls = device.gpu ? { ...DEVICE_CALLS, ...GPU_CALLS } : DEVICE_CALLS;
  equal(await answersOf(calls, () => [device, given]), wanted(calls, "Lost", {}), device.name);
  equal(await answersOf(DEVICE_FACTS, () => [device, given]), wanted(DEVICE_FACTS, "ok", {}), device.name);
  for (const point of whole.stamps().uses) equal([point.device === device, await code(() => device.wait(point))], [true, "Lost"]);
  await there.close();
}

const code = async (f) => (await error(f)).code;

test("s12_1_every_call_on_a_closed_memory_device_and_on_what_it_touched", async (world) => {
  const m = world.rig.memory("closed, call by call");
  await looks(world, m, () => m.close());
});

test(
  "s12_1_every_call_on_a_closed_gpu_and_on_its_memory",
  async (world) => {
    const { gpu } = await world.adopted();
    await looks(world, gpu, () => gpu.close());
  },
  { needs: "gpu" },
);

test(
  "s12_1_every_call_on_a_gpu_that_the_page_destroyed_and_on_its_memory",
  async (world) => {
    const { gpu, device } = await world.adopted();
    await looks(world, gpu, async () => {
      gpu.submit({});
      device.destroy();
      await device.lost;
    });
  },
  { needs: "gpu" },
);

test("s12_1_no_call_of_a_buffer_is_left_out", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  const members = Object.getOwnPropertyNames(Object.getPrototypeOf(x));
  const rows = Object.keys(BUFFER_CALLS).map((name) => name.split(/[ ,]/)[0]);
  // Facts; what needs a GPU buffer of its own, and is no use of bytes.
  const besides = ["constructor", "device", "size", "offset", "label", "lend"];
  // Where there is no `Symbol.dispose`, that is the name of what `using` would call.
  const known = [...rows, ...besides, String(Symbol.dispose)];
  // What is the library's alone has a name of a letter or two.
  equal(members.filter((name) => name.length > 2 && !known.includes(name)), []);
});
