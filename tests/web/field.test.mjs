// What programs met in the field, each with the result that is right.

import { equal, error, fails, holds, test } from "./harness.mjs";

const KIB = 2 ** 10;
const MIB = 2 ** 20;

/** Runs something on the host, on a memory device and on the GPU where there is one. */
async function onEach({ rig, gpu }, f) {
  const m = rig.memory("field");
  for (const device of [rig.host, m, ...(gpu ? [gpu] : [])]) await f(device);
  await m.close();
}

test("s13_11_two_arrays_of_one_buffer_at_once_are_both_right_on_every_device", async (world) => {
  await onEach(world, async (device) => {
    const data = Uint8Array.from({ length: 1027 }, (_, i) => (i * 7 + 3) & 255);
    const x = await device.createBuffer(data.length);
    await x.blitFrom(data);
    const whole = x.toArray(Uint8Array);
    const words = x.toArray(Uint32Array, { length: 1024 });
    const odd = x.toArray(Uint8Array, { offset: 5, length: 9 });
    const [a, b, c] = await Promise.all([whole, words, odd]);
    equal(a, data, device.name);
    equal(new Uint8Array(b.buffer), data.subarray(0, 1024), device.name);
    equal(c, data.subarray(5, 14), device.name);
  });
});

/** Calls; what each promises for four sevens, and what the four are afterwards. */
const CALLS = {
  toArray: [(x) => x.toArray(Uint8Array), [7, 7, 7, 7], 7],
  blitTo: [(x) => x.blitTo(new Uint8Array(4)), [7, 7, 7, 7], 7],
  blitFrom: [(x) => x.blitFrom(new Uint8Array(4)), undefined, 0],
  fill: [(x) => x.fill(1), undefined, 1],
  read: [(x) => x.read((bytes) => [...bytes]), [7, 7, 7, 7], 7],
  write: [(x) => x.write((bytes) => bytes.fill(2).length), 4, 2],
};
/** The orders, and what each step answers where nothing moves bytes any more, and where it does. */
const ORDERS = [
  [["free"], ["done"], ["Busy"]],
  [["dispose"], ["done"], ["done"]],
  [["free", "dispose"], ["done", "done"], ["Busy", "done"]],
  [["dispose", "free"], ["done", "Disposed"], ["done", "Disposed"]],
  [["free", "free"], ["done", "Dead"], ["Busy", "Busy"]],
  [["dispose", "dispose"], ["done", "done"], ["done", "done"]],
];

test("s13_11_free_and_dispose_in_every_order_settle_a_pending_call", async (world) => {
  await onEach(world, async (device) => {
    for (const name of Object.keys(CALLS)) {
      // The page does not address what is on a GPU.
      if (device.gpu && ["read", "write"].includes(name)) continue;
      for (const order of ORDERS) await endedUnder(device, name, order);
    }
  });
});

async function endedUnder(device, name, [order, still, moving]) {
  const [call, promised, afterwards] = CALLS[name];
  const what = `${name}, then ${order} on ${device.name}`;
  const x = await device.createBuffer(4);
  await x.fill(7);
  const view = x.view(0);
  const pending = call(x).catch((e) => [e.code, e.what]);
  equal(order.map((end) => ended(x, end)), device.gpu ? moving : still, what);
  const isFreed = order[0] === "free" && !device.gpu;
  // What had not begun when its memory went finds that out; the rest was done or goes on.
  const isLate = isFreed && ["read", "write"].includes(name);
  equal(await pending, isLate ? ["Misuse", "Dead"] : promised, what);
  equal(view.state, isFreed ? "dead" : "live", what);
  if (!isFreed) {
    equal(await view.toArray(Uint8Array), Array(4).fill(afterwards), what);
    view.free();
  }
}

function ended(x, end) {
  try {
    x[end]();
    return "done";
  } catch (e) {
    return e.what;
  }
}

test("s13_9_24_buffers_a_round_let_go_never_hold_more_than_two_rounds", async ({ rig, gpu, open, stray }) => {
  // WebKit may take an old round's array on its stack for one in use: there it is three.
  const budget = (stray > 0 ? 72 : 48) * MIB;
  for (const device of [rig.memory("rounds", { budget }), ...(gpu ? [await open(budget)] : [])]) {
    let most = 0;
    for (let round = 0; round < 200; round += 1) {
      await oneRound(device, round);
      most = Math.max(most, device.held);
    }
    holds(most <= budget, `${most} bytes held on ${device.name} never pass the budget`);
    await device.close();
  }
});

async function oneRound(device, round) {
  const buffers = [];
  for (let i = 0; i < 24; i += 1) buffers.push(await device.createBuffer(MIB));
  await buffers[0].fill(round);
}

test("s9_9_24_buffers_a_round_disposed_hold_one_round", async ({ rig }) => {
  const m = rig.memory("disposed rounds");
  for (let round = 0; round < 200; round += 1) {
    const buffers = [];
    for (let i = 0; i < 24; i += 1) buffers.push(await m.createBuffer(MIB));
    for (const buffer of buffers) buffer.dispose();
    equal(m.held, 24 * MIB, `round ${round}`);
  }
  equal(m.stats().actualCount, 24);
  await m.close();
});

test("s6_2_after_an_error_in_a_scope_no_claim_is_left", async ({ rig }) => {
  const m = rig.memory("thrown");
  for (const device of [rig.host, m]) {
    for (const scope of ["read", "write"]) {
      const x = await device.createBuffer(4);
      const thrown = new Error("on purpose");
      const found = await error(() => x[scope](() => { throw thrown; }));
      equal(found === thrown, true);
      await x.fill(6);
      equal(await x.toArray(Uint8Array), [6, 6, 6, 6]);
      x.free();
      equal(x.state, "dead");
    }
  }
  await m.close();
});

test(
  "s0_2_an_error_in_an_encoding_leaves_no_claim_and_no_stamp",
  async ({ gpu }) => {
    const [x, y] = [await gpu.createBuffer(16), await gpu.createBuffer(16)];
    await y.fill(2);
    const { submitted } = gpu;
    const before = [x.stamps().write, y.stamps().write.value, submitted];
    const thrown = new Error("on purpose");
    const encode = ({ encoder, buffer }) => {
      const [from, to] = [buffer(y), buffer(x)];
      encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, 16);
      throw thrown;
    };
    equal((await error(() => gpu.submit({ reads: [y], writes: [x] }, encode))) === thrown, true);
    equal([x.stamps().write, y.stamps().write.value, gpu.submitted], before);
    await x.fill(4);
    equal([(await x.toArray(Uint8Array))[15], (await y.toArray(Uint8Array))[15]], [4, 2]);
    x.free();
    y.free();
    equal([x.state, y.state], ["dead", "dead"]);
  },
  { needs: "gpu" },
);

test("s11_1_what_a_closure_or_an_error_keeps_is_named_by_its_label", async ({ rig, stray }) => {
  const m = rig.memory("leak", { budget: MIB });
  const keepers = [await closureOver(m), await errorWith(m)];
  for (let i = 0; i < 8; i += 1) await m.createBuffer(128 * KIB, { label: "forgotten" });
  const { report, picture } = await fails(() => m.createBuffer(512 * KIB), "OutOfMemory");
  const isKept = ({ label }) => stray === 0 || label !== "forgotten";
  equal(report.labels.filter(isKept), [
    { label: "kept by a closure", bytes: 512 * KIB, count: 1 },
    { label: "kept by an error", bytes: 128 * KIB, count: 1 },
  ]);
  for (const { label } of report.labels) holds(picture.includes(label), `the picture names it: ${picture}`);
  keepers.length = 0;
  const room = stray > 0 ? 256 * KIB : MIB;
  equal((await m.createBuffer(room)).size, room);
  await m.close();
});

async function closureOver(device) {
  const buffer = await device.createBuffer(512 * KIB, { label: "kept by a closure" });
  return () => buffer.size;
}

async function errorWith(device) {
  const buffer = await device.createBuffer(128 * KIB, { label: "kept by an error" });
  return Object.assign(new Error("on purpose"), { buffer });
}

test("s6_2_a_read_begun_in_a_read_nests_and_one_begun_in_a_write_is_busy", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  await x.blitFrom(new Uint8Array([1, 2, 3, 4]));
  for (const [scope, wanted] of [["read", [1, 2, 3, 4]], ["write", ["Misuse", "Busy"]]]) {
    let inner;
    const outer = await x[scope]((bytes) => {
      inner = x.read((own) => [...own]).catch((e) => [e.code, e.what]);
      return bytes[3];
    });
    equal([outer, await inner, x.state], [4, wanted, "live"], scope);
  }
  equal(await x.toArray(Uint8Array), [1, 2, 3, 4]);
});

test("s13_7_memory_whose_bytes_were_transferred_away_comes_again_whole", async ({ rig }) => {
  const m = rig.memory("transferred");
  const transfer = (bytes) => void structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  const ways = {
    "in a scope": (x) => x.read(transfer),
    "in a scope under a claim": async (x) => {
      const claim = x.claimRead();
      await x.read(transfer);
      claim.release();
    },
    "of an export": async (x) => {
      const out = await x.export();
      transfer(out.bytes);
      out.dispose();
    },
  };
  for (const device of [rig.host, m]) {
    for (const [way, take] of Object.entries(ways)) {
      for (const size of [8, 256 * KIB]) {
        const what = `${size} bytes of ${device.name}, taken ${way}`;
        device.freeCache();
        const [x, { held }] = [await device.createBuffer(size), device];
        const view = x.view(4);
        await take(x);
        for (const gone of [x, view]) {
          const { message } = await fails(() => gone.fill(1), "Misuse", "Dead");
          holds(message.includes("transferred"), `${what}: ${message}`);
        }
        for (const gone of [x, view]) gone.dispose();
        for (let i = 0; i < 2; i += 1) {
          const again = await device.createBuffer(size);
          equal([again.state, again.size, device.held <= held], ["live", size, true], what);
          await again.fill(7);
          equal((await again.read((bytes) => bytes.every((byte) => byte === 7))), true, what);
          again.dispose();
        }
      }
    }
  }
  await m.close();
});

test("s13_7_a_read_begun_in_a_scope_that_transfers_the_bytes_away_finds_them_dead", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  await x.fill(8);
  const view = x.view(2);
  let inner;
  const taken = await x.read((bytes) => {
    inner = [x, view].map((of) => of.read((own) => own.length).catch((e) => [e.code, e.what]));
    return structuredClone(bytes, { transfer: [bytes.buffer] });
  });
  equal([taken, x.state, view.state], [[8, 8, 8, 8], "dead", "dead"]);
  equal(await Promise.all(inner), [["Misuse", "Dead"], ["Misuse", "Dead"]]);
  const again = await rig.host.createBuffer(4);
  await again.fill(9);
  equal([taken, await again.toArray(Uint8Array)], [[8, 8, 8, 8], [9, 9, 9, 9]], "nobody else has the bytes");
});
