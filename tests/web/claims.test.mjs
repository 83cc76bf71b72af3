// Claims of one call, and exports: who may read, who may take memory over, whose bytes are out.

import { equal, error, fails, holds, test } from "./harness.mjs";

const MIB = 2 ** 20;

test("s5_3_a_donation_that_nobody_else_can_notice_is_taken_over_in_place", async ({ rig }) => {
  const x = await rig.host.createBuffer(4, { label: "x" });
  await x.fill(3);
  const view = x.view(1);
  view.dispose();
  const y = await rig.withClaims({ donate: [[x]] }, async (claims) => {
    equal(claims.isExclusive(x), true);
    const own = claims.consume(x, "taken over");
    await own.write((bytes) => (bytes[0] = 9));
    return own;
  });
  equal([x.state, y.state, y.size, y.label, y.device === rig.host], ["dead", "live", 4, "x", true]);
  const { message } = await fails(() => x.read(() => 1), "Misuse", "Dead");
  holds(message.includes("taken over"), message);
  equal(await y.toArray(Uint8Array), [9, 3, 3, 3]);
  await y.fill(1);
  equal(await y.read((bytes) => [...bytes]), [1, 1, 1, 1]);
});

test("s5_7_what_somebody_can_notice_is_never_exclusive", async ({ rig }) => {
  const make = () => rig.host.createBuffer(8);
  const [claimed, exported, paired, viewed] = [await make(), await make(), await make(), await make()];
  const claim = claimed.claimRead();
  const out = await exported.export();
  const wrapped = rig.wrap(new Uint8Array(8));
  for (const buffer of [claimed, exported, wrapped, viewed.view(0, 4)]) {
    await rig.withClaims({ donate: [[paired, buffer]] }, async (claims) => {
      equal([claims.isExclusive(buffer), claims.isExclusive(paired)], [false, false]);
      await fails(() => claims.consume(paired, "no"), "Misuse", "NotClaimed");
    });
    equal([buffer.state, paired.state], ["live", "live"]);
  }
  claim.release();
  const isExclusive = await rig.withClaims({ donate: [[paired, claimed]] }, (claims) => claims.isExclusive(claimed));
  equal(isExclusive, true, "the same, once nobody can");
  out.dispose();
});

test("s5_4_a_wrong_donation_is_misuse_and_claims_nothing", async ({ rig }) => {
  const [x, y, gone] = [await rig.host.createBuffer(8), await rig.host.createBuffer(8), await rig.host.createBuffer(8)];
  gone.free();
  const never = () => holds(false, "f is called");
  for (const wrong of [{ reads: [x], donate: [[x]] }, { donate: [[x], [x.view(0, 2)]] }, { donate: [[x, x]] }]) {
    await fails(() => rig.withClaims(wrong, never), "Misuse", "DonationOverlaps");
  }
  await fails(() => rig.withClaims({ reads: [x, gone] }, never), "Misuse", "Dead");
  await rig.withClaims({ donate: [[y]] }, async () => {
    const { call } = await fails(() => rig.withClaims({ reads: [x, y] }, never), "Misuse", "Busy");
    equal(call, "withClaims");
  });
  for (const buffer of [x, y]) await buffer.write((bytes) => bytes.fill(1));
});

test("s5_4_after_a_value_an_error_and_a_rejection_everything_is_released", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  const thrown = new Error("on purpose");
  const ends = [
    [() => 7, 7],
    [async () => 8, 8],
    [() => { throw thrown; }, thrown],
    [() => Promise.reject(thrown), thrown],
  ];
  for (const [f, wanted] of ends) {
    let kept;
    const call = rig.withClaims({ reads: [x] }, (claims) => {
      kept = claims;
      return f();
    });
    equal((await call.catch((e) => e)) === wanted, true);
    equal(kept.isExclusive(x), false);
    await fails(() => kept.consume(x, "late"), "Misuse", "ClaimsEnded");
    await x.write((bytes) => bytes.fill(2));
  }
});

test("s5_1_beside_the_claims_of_a_call_the_host_reads_and_does_not_write", async ({ rig }) => {
  const [read, given] = [await rig.host.createBuffer(8), await rig.host.createBuffer(8)];
  await rig.withClaims({ reads: [read], donate: [[given]] }, async () => {
    equal(await read.read((bytes) => bytes.length), 8);
    read.claimRead().release();
    for (const call of [() => read.write(() => 1), () => read.free(), () => given.read(() => 1), () => given.claimRead()]) {
      await fails(call, "Misuse", "Busy");
    }
  });
});

test("s5_3_claims_cover_memory_of_other_devices", async ({ rig, gpu }) => {
  const m = rig.memory("claimed");
  for (const device of [m, ...(gpu ? [gpu] : [])]) {
    const x = await device.createBuffer(16);
    await x.fill(4);
    const y = await rig.withClaims({ donate: [[x]] }, (claims) => claims.consume(x, "moved"));
    equal([x.state, y.device === device, await y.toArray(Uint8Array)], ["dead", true, new Uint8Array(16).fill(4)]);
    y.free();
  }
  await m.close();
});

test("s5_5_what_is_taken_over_through_a_borrow_is_on_the_device_of_its_memory", async ({ rig }) => {
  const m = rig.memory("taken over");
  const x = await rig.host.createBuffer(8);
  await x.fill(5);
  const b = x.borrow(m);
  const y = await rig.withClaims({ donate: [[b]] }, (claims) => claims.consume(b, "moved"));
  equal([x.state, b.state, y.device === rig.host, await y.toArray(Uint8Array)], ["dead", "dead", true, Array(8).fill(5)]);
  await m.close();
});

test("s6_5_an_export_reaches_the_bytes_past_the_end_of_the_buffer", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  await x.blitFrom(new Uint8Array([0, 1, 2, 3, 4, 5, 6, 7]));
  const out = await x.view(2, 4).export();
  equal([out.size, out.bytes, out.copyOut(1, new Uint8Array(2))], [4, [2, 3, 4, 5], [3, 4]]);
  out.copyIn(3, new Uint8Array([50]));
  out.bytes[0] = 20;
  equal(await x.toArray(Uint8Array), [0, 1, 20, 3, 4, 50, 6, 7]);
  await x.write((bytes) => (bytes[3] = 30));
  equal(out.bytes[1], 30, "no scope ends the bytes that are out");
  x.free();
  equal([x.state, out.bytes], ["dead", [20, 30, 4, 50]]);
  out.copyIn(0, new Uint16Array([0x0101]));
  equal(out.copyOut(0, new Uint8Array(4)), [1, 1, 4, 50]);
  await fails(() => out.copyOut(3, new Uint8Array(2)), "Misuse", "OutOfRange");
  out.dispose();
});

test("s13_7_nothing_is_left_of_the_bytes_of_an_export_that_was_disposed", async ({ rig }) => {
  const x = await rig.host.createBuffer(65_536);
  const [a, b] = [await x.export(), await x.export()];
  const kept = new Uint32Array(a.bytes.buffer);
  a.dispose();
  a.dispose();
  equal([kept.length > 0, b.bytes.length], [true, 65_536], "one of two is left");
  b[Symbol.dispose]();
  equal([kept.length, a.bytes.length, b.bytes.length, a.size], [0, 0, 0, 65_536]);
  await fails(() => a.copyOut(0, new Uint8Array(1)), "Misuse", "Disposed");
  await x.fill(5);
  equal((await x.toArray(Uint8Array))[65_535], 5, "the buffer goes on");
});

test("s13_7_views_of_wrapped_memory_stay_as_the_memory_does", async ({ rig }) => {
  const own = new Uint8Array([1, 2, 3]);
  const x = rig.wrap(own);
  const kept = await x.read((bytes) => bytes);
  const out = await x.export();
  out.dispose();
  equal([kept.length, out.bytes.length, own.length, kept.buffer === own.buffer], [3, 3, 3, true]);
});

test("s5_1_an_export_beside_what_conflicts_is_busy_and_beside_a_reader_is_not", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  let inside;
  await x.write(() => {
    inside = x.export().catch((e) => [e.code, e.what]);
  });
  equal(await inside, ["Misuse", "Busy"]);
  const claim = x.claimRead();
  const out = await x.export();
  const [read, written] = await x.read(() => [
    out.copyOut(0, new Uint8Array(1)).length,
    error(() => out.copyIn(0, new Uint8Array(1))),
  ]);
  equal([read, (await written).what], [1, "Busy"]);
  claim.release();
  out.dispose();
});

test("s6_4_memory_that_the_host_does_not_address_is_not_exported", async ({ rig, gpu }) => {
  if (gpu) await fails(async () => (await gpu.createBuffer(8)).export(), "Unsupported");
  const empty = await (await rig.host.createBuffer(0)).export();
  equal([empty.size, empty.bytes.length, empty.copyOut(0, new Uint8Array(0)).length], [0, 0, 0]);
  const reason = new Error("enough");
  const x = await rig.host.createBuffer(8);
  equal((await error(() => x.export({ signal: AbortSignal.abort(reason) }))) === reason, true);
  await x.write((bytes) => bytes.fill(1));
});

test("s4_12_whoever_has_the_bytes_of_an_export_keeps_its_memory", async ({ rig }) => {
  const m = rig.memory("exported", { budget: MIB });
  const keeper = await bytesOnly(m);
  const { report } = await fails(() => m.createBuffer(MIB), "OutOfMemory");
  equal([report.rounds.at(-1).kept.exportedBytes, keeper.bytes.length, keeper.bytes[7]], [MIB, MIB, 7]);
  keeper.bytes = null;
  equal((await m.createBuffer(MIB)).size, MIB, "its memory serves again");
  await m.close();
});

async function bytesOnly(device) {
  const x = await device.createBuffer(MIB);
  const { bytes } = await x.export();
  bytes[7] = 7;
  return { bytes };
}

test("s13_7_bytes_of_an_export_that_the_program_transfers_away_are_gone_for_all", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  const view = x.view(4);
  const out = await x.export();
  const taken = structuredClone(out.bytes, { transfer: [out.bytes.buffer] });
  equal([taken.length, out.bytes.length, x.state, view.state], [8, 0, "dead", "dead"]);
  for (const call of [() => x.fill(1), () => view.toArray(Uint8Array), () => x.read(() => 1), () => out.copyOut(0, new Uint8Array(1))]) {
    await fails(call, "Misuse", "Dead");
  }
  out.dispose();
  x.dispose();
  const again = await rig.host.createBuffer(8);
  await again.fill(6);
  equal([taken, await again.toArray(Uint8Array)], [new Uint8Array(8), Array(8).fill(6)]);
});
