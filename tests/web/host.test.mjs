// The host: buffers in memory of the page.

import { equal, error, fails, holds, test, turn } from "./harness.mjs";

test("s13_7_bytes_are_written_and_read_in_place", async ({ rig }) => {
  const x = await rig.host.createBuffer(8, { label: "x" });
  equal([x.size, x.offset, x.label, x.state, x.device === rig.host], [8, 0, "x", "live", true]);
  equal(await x.write((bytes) => bytes.set([1, 2, 3])), undefined);
  equal(await x.read((bytes) => [...bytes.subarray(0, 3)]), [1, 2, 3]);
  equal(await x.view(1, 2).read((bytes) => [...bytes]), [2, 3]);
});

test("s13_7_a_view_kept_past_its_scope_has_length_0", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  let kept;
  await x.write((bytes) => {
    kept = bytes;
    bytes.fill(7);
  });
  equal([kept.length, kept.buffer.byteLength], [0, 0]);
  equal(await x.toArray(Uint8Array), new Uint8Array(8).fill(7));
});

test("s13_7_a_nested_read_ends_before_the_outer_and_the_outer_goes_on", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  await x.write((bytes) => bytes.set([1, 2, 3, 4]));
  const inner = x.read((bytes) => bytes[3]);
  const outer = x.read((bytes) => bytes[0]);
  equal(await Promise.all([inner, outer]), [4, 1]);
});

test("s13_7_a_promise_from_a_scope_is_misuse_and_the_buffer_goes_on", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  await fails(() => x.read(async () => 1), "Misuse", "Promise");
  await x.write((bytes) => bytes.fill(5));
  equal(await x.read((bytes) => bytes[0]), 5);
});

test("s13_7_bytes_that_a_scope_transferred_away_are_gone", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const taken = await x.read((bytes) => structuredClone(bytes.buffer, { transfer: [bytes.buffer] }));
  equal([taken.byteLength, x.state], [4, "dead"]);
  await fails(() => x.read(() => 1), "Misuse", "Dead");
});

test("s6_2_an_error_thrown_in_a_scope_gets_out_and_the_claim_ends", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const thrown = new Error("on purpose");
  equal(await error(() => x.write(() => { throw thrown; })) === thrown, true);
  await x.write((bytes) => bytes.fill(1));
  equal(await x.read((bytes) => bytes[3]), 1);
});

test("s5_1_what_conflicts_with_a_running_scope_is_busy", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const inside = await x.write(() => {
    try {
      x.free();
    } catch (e) {
      return [e.code, e.what];
    }
  });
  equal(inside, ["Misuse", "Busy"]);
  x.free();
  equal(x.state, "dead");
});

test("s13_4_a_disposed_handle_says_so_and_others_go_on", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const view = x.view(0, 2);
  x.dispose();
  x.dispose();
  equal([x.state, view.state, x.size], ["disposed", "live", 4]);
  for (const call of [() => x.read(() => 1), () => x.toArray(Uint8Array), () => x.fill(0)]) {
    await fails(call, "Misuse", "Disposed");
  }
  await fails(() => x.view(0, 1), "Misuse", "Disposed");
  await fails(() => x.free(), "Misuse", "Disposed");
  equal(await view.read((bytes) => bytes.length), 2);
});

test("s13_11_a_call_in_progress_goes_on_when_its_handle_is_disposed", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  await x.fill(9);
  const read = x.read((bytes) => bytes[0]);
  const copied = x.toArray(Uint8Array);
  x.dispose();
  equal([await read, await copied], [9, [9, 9, 9, 9]]);
});

test("s4_14_free_ends_every_handle_of_the_allocation", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const view = x.view(1);
  x.free();
  equal([x.state, view.state], ["dead", "dead"]);
  await fails(() => view.read(() => 1), "Misuse", "Dead");
  await fails(() => x.free(), "Misuse", "Dead");
});

test("s5_2_a_claim_keeps_the_host_from_writing", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const claim = x.claimRead();
  await fails(() => x.write(() => 1), "Misuse", "Busy");
  await fails(() => x.free(), "Misuse", "Busy");
  claim.release();
  claim.release();
  await x.write((bytes) => bytes.fill(1));
});

test("s13_6_a_typed_array_is_wrapped_without_a_copy", async ({ rig }) => {
  const own = new Uint16Array([1, 2, 3, 4]);
  const held = rig.host.held;
  const x = rig.wrap(own.subarray(1, 3), { label: "own" });
  equal([x.size, rig.host.held - held, x.label], [4, 0, "own"]);
  own[1] = 500;
  equal(await x.toArray(Uint16Array), [500, 3]);
  await x.write((bytes) => (bytes[2] = 9));
  equal([...own], [1, 500, 9, 4]);
  structuredClone(own.buffer, { transfer: [own.buffer] });
  equal(x.state, "dead");
  await fails(() => x.read(() => 1), "Misuse", "Dead");
});

test("s13_2_wrong_arguments_of_every_type_are_misuse_and_change_nothing", async ({ rig }) => {
  const x = await rig.host.createBuffer(4);
  const held = rig.host.held;
  for (const size of [-1, 1.5, NaN, Infinity, 2 ** 53, "4", null, undefined, {}, [], 4n, true, Symbol.iterator]) {
    await fails(() => rig.host.createBuffer(size), "Misuse", "Option");
    await fails(() => rig.host.createBufferNow(size), "Misuse", "Option");
    // What is left out has a default.
    if (size !== undefined && size !== null) {
      await fails(() => x.toArray(Uint8Array, { offset: size }), "Misuse", "Option");
      await fails(() => x.view(0, size), "Misuse", "Option");
    }
    await fails(() => rig.host.wait(size), "Misuse", "Option");
  }
  for (const f of [undefined, null, 1, "f", {}]) await fails(() => x.read(f), "Misuse", "Option");
  for (const side of [undefined, null, 1, {}, new Uint8Array(4)]) {
    await fails(() => rig.copy(side, x), "Misuse", "Option");
    await fails(() => rig.copy(x, side), "Misuse", "Option");
  }
  await fails(() => x.fill(256), "Misuse", "Option");
  await fails(() => x.blitFrom([1]), "Misuse", "Option");
  await fails(() => x.blitTo({}), "Misuse", "Option");
  await fails(() => rig.wrap([1]), "Misuse", "Option");
  await fails(() => rig.memory(""), "Misuse", "Option");
  equal([rig.host.held, x.state], [held, "live"]);
});

test("s0_4_ranges_past_the_end_are_misuse", async ({ rig }) => {
  const x = await rig.host.createBuffer(8);
  const data = new Uint8Array(4);
  await fails(() => x.view(5, 4), "Misuse", "OutOfRange");
  await fails(() => x.fill(0, { offset: 8, length: 1 }), "Misuse", "OutOfRange");
  await fails(() => x.toArray(Uint8Array, { offset: 9 }), "Misuse", "OutOfRange");
  await fails(() => x.blitFrom(data, { offset: 5 }), "Misuse", "OutOfRange");
  await fails(() => x.blitTo(data, { offset: 5 }), "Misuse", "OutOfRange");
  await fails(() => x.toArray(Uint16Array, { length: 3 }), "Misuse", "PartialElement");
  equal(await x.toArray(Uint8Array, { offset: 8 }), []);
});

test("s13_3_errors_are_of_one_class_with_plain_fields", async ({ rig, RigError }) => {
  const e = await fails(() => rig.host.wait(1), "Misuse", "NotSubmitted");
  holds(e instanceof Error && e instanceof RigError && RigError.is(e), "it is a RigError");
  equal([e.call, RigError.is(new Error("x")), RigError.is(null)], ["wait", false, false]);
  equal(JSON.parse(JSON.stringify(e)).what, "NotSubmitted");
});

test("s13_3_promises_that_only_tell_completion_are_never_unhandled_rejections", async ({ rig }) => {
  const [x, y] = [await rig.host.createBuffer(8), await rig.host.createBuffer(4)];
  const m = rig.memory("s13_3 completion");
  // All of them fail, and nobody asks: the harness hears of every unhandled rejection.
  const told = [x.fill(256), x.blitFrom(new Uint8Array(9)), rig.copy(x, y), m.wait(1), m.close({ signal: 1 })];
  await turn();
  const settled = await Promise.allSettled(told);
  equal(settled.map(({ reason }) => reason?.code), Array(5).fill("Misuse"));
  await m.close();
});

test("s0_6_an_aborted_call_rejects_with_the_reason", async ({ rig }) => {
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  equal((await error(() => rig.host.createBuffer(4, { signal }))) === reason, true);
});

test("s13_13_init_answers_the_same_instance", async ({ rig, init }) => {
  equal((await init()) === rig, true);
  await turn();
});
