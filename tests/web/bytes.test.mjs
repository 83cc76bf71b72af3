// How bytes reach a GPU of the page and come back: what is shared, counted by its own calls.

import { equal, holds, test } from "./harness.mjs";

const needs = { needs: "gpu" };
const KIB = 1024;
const MIB = 1024 * KIB;

/** Counts the submissions of commands and the maps of a GPU device while `f` runs. */
async function counted(gpu, f) {
  const { queue } = gpu.gpu;
  const buffers = Object.getPrototypeOf(gpu.gpu.createBuffer({ size: 4, usage: 8 }));
  const { mapAsync } = buffers;
  const { submit } = queue;
  const counts = { submits: 0, maps: 0 };
  queue.submit = (commands) => {
    // An empty one only keeps the engine moving.
    if (commands.length > 0) counts.submits += 1;
    return submit.call(queue, commands);
  };
  buffers.mapAsync = function (...args) {
    counts.maps += 1;
    return mapAsync.apply(this, args);
  };
  try {
    counts.answer = await f();
  } finally {
    delete queue.submit;
    buffers.mapAsync = mapAsync;
  }
  return counts;
}

function numbers(length, seed) {
  return Uint8Array.from({ length }, (_, i) => ((i + seed) * 2_654_435_761) >>> 24);
}

test(
  "s13_8_1000_small_reads_asked_together_share_one_submit_and_one_map_beside_the_fences",
  async ({ open }) => {
    const gpu = await open();
    const words = Uint32Array.from({ length: 1000 }, (_, i) => i * 77 + 5);
    const x = await gpu.createBuffer(words.byteLength);
    await x.blitFrom(words);
    const before = gpu.submitted;
    const { submits, maps, answer } = await counted(gpu, () =>
      Promise.all(Array.from(words, (_, i) => x.toArray(Uint32Array, { offset: 4 * i, length: 4 }))),
    );
    equal([submits, maps], [1, 2]);
    equal(gpu.submitted - before, 1000, "the values, one for each read");
    equal(answer.map((array) => array[0]), words);
    await gpu.close();
  },
  needs,
);

test(
  "s13_8_1000_small_writes_asked_together_share_one_submit",
  async ({ open }) => {
    const gpu = await open();
    const x = await gpu.createBuffer(4000);
    await x.fill(1);
    const { submits, maps } = await counted(gpu, () =>
      Promise.all(Array.from({ length: 1000 }, (_, i) => x.blitFrom(new Uint32Array([i * 31 + 7]), { offset: 4 * i }))),
    );
    equal([submits, maps], [1, 1], "the fence's alone");
    equal((await x.toArray(Uint32Array)).findIndex((word, i) => word !== i * 31 + 7), -1, "the first wrong word");
    await gpu.close();
  },
  needs,
);

test(
  "s13_8_reads_and_writes_asked_together_come_in_the_order_of_the_calls",
  async ({ gpu }) => {
    const x = await gpu.createBuffer(257);
    const wanted = [];
    const found = [];
    for (let i = 0; i < 50; i += 1) {
      const data = numbers(1 + (i * 13) % 200, i);
      const offset = (i * 7) % 50;
      const write = x.blitFrom(data, { offset });
      const read = x.toArray(Uint8Array, { offset, length: data.length });
      wanted.push(data);
      found.push(read);
      void write;
    }
    equal(await Promise.all(found), wanted);
    x.dispose();
  },
  needs,
);

test(
  "s8_8_the_programs_own_commands_come_after_what_was_asked_before_them",
  async ({ gpu }) => {
    const [x, y, z] = [await gpu.createBuffer(16), await gpu.createBuffer(16), await gpu.createBuffer(16)];
    const device = gpu.gpu;
    const copied = (from, to) => (encoder) =>
      encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, 16);
    const first = x.fill(3);
    gpu.submit({ reads: [x], writes: [y] }, ({ encoder, buffer }) => copied(buffer(x), buffer(y))(encoder));
    const second = x.fill(4);
    // Lent now, and used by commands that rig never sees.
    const [from, to] = [x.lend(), z.lend()];
    const encoder = device.createCommandEncoder();
    copied(from, to)(encoder);
    device.queue.submit([encoder.finish()]);
    gpu.recordUse({ reads: [x], writes: [z] });
    const third = x.fill(5);
    const all = await Promise.all([x, y, z].map((of) => of.toArray(Uint8Array, { length: 1 })));
    await Promise.all([first, second, third]);
    equal(all, [[5], [3], [4]]);
  },
  needs,
);

test(
  "s8_8_work_with_lent_and_wrapped_buffers_is_on_the_queue_when_the_call_returns",
  async ({ gpu }) => {
    const device = gpu.gpu;
    const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | GPUBufferUsage.STORAGE;
    const [foreign, seen] = [0, 1].map(() => device.createBuffer({ size: 16, usage }));
    const [x, w] = [await gpu.createBuffer(16), gpu.wrapGpu(foreign)];
    const lent = x.lend();
    for (const [of, from] of [[x, lent.buffer], [w, foreign]]) {
      const calls = [() => of.fill(5), () => of.blitFrom(new Uint8Array(16).fill(6))];
      for (const [at, call] of calls.entries()) {
        const pending = call();
        // The page's own commands, at once.
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(from, 0, seen, 0, 16);
        device.queue.submit([encoder.finish()]);
        equal((await gpu.wrapGpu(seen).toArray(Uint8Array))[15], 5 + at, `${of === x ? "lent" : "wrapped"}, call ${at}`);
        await pending;
      }
    }
    for (const buffer of [foreign, seen]) buffer.destroy();
    x.free();
  },
  needs,
);

test(
  "s7_6_a_small_copy_given_up_leaves_the_others_of_its_half_right",
  async ({ gpu, rig }) => {
    const x = await gpu.createBuffer(64 * KIB);
    await x.blitFrom(numbers(64 * KIB, 3));
    const wanted = numbers(64 * KIB, 3);
    for (let round = 0; round < 4; round += 1) {
      const given = new AbortController();
      const reads = Array.from({ length: 40 }, (_, i) => {
        const o = { offset: i * 1000, length: 999, ...(i % 3 === 1 && { signal: given.signal }) };
        return x.toArray(Uint8Array, o).catch((e) => e.name);
      });
      given.abort();
      for (const [i, read] of (await Promise.all(reads)).entries()) {
        if (i % 3 === 1) equal(read, "AbortError");
        else equal(read, wanted.subarray(i * 1000, i * 1000 + 999), `read ${i} of round ${round}`);
      }
    }
    const { stagingBytes } = rig.host.stats();
    holds(stagingBytes <= 16 * MIB, `staging stays within two slots: ${stagingBytes}`);
  },
  needs,
);

test(
  "s7_5_transfers_of_every_size_are_right_and_many_large_ones_at_once",
  async ({ gpu, rig }) => {
    for (const length of [1, 3, 64 * KIB, 64 * KIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB + 7, 9 * MIB]) {
      const data = numbers(length, length);
      const x = await gpu.createBuffer(length);
      await x.blitFrom(data);
      const found = await x.toArray(Uint8Array);
      equal(found.findIndex((byte, i) => byte !== data[i]), -1, `the first wrong byte of ${length}`);
      x.dispose();
    }
    const all = Array.from({ length: 6 }, (_, i) => numbers(5 * MIB + i, i));
    const found = await Promise.all(
      all.map(async (data) => {
        const x = await gpu.createBuffer(data.length);
        await x.blitFrom(data);
        return x.toArray(Uint8Array);
      }),
    );
    for (const [i, data] of all.entries()) {
      equal(found[i].findIndex((byte, at) => byte !== data[at]), -1, `the first wrong byte of transfer ${i}`);
    }
    holds(rig.host.held <= 24 * MIB, `staging is bounded: ${rig.host.held}`);
  },
  needs,
);

for (const [what, size] of [["small", 16], ["middle", 64 * KIB + 4], ["large", MIB]]) {
  test(
    `s13_8_${what}_work_of_one_gpu_runs_in_the_order_of_its_calls_awaited_or_not`,
    async ({ rig, open }) => {
      const gpu = await open();
      const [xs, hosts] = [[], []];
      for (let i = 0; i < 10; i += 1) {
        xs.push(await gpu.createBuffer(size));
        hosts.push(await rig.host.createBuffer(size));
        await xs[i].fill(1);
      }
      const reads = [];
      for (const x of xs) {
        reads.push(x.toArray(Uint8Array));
        // None shares its half with those of another microtask.
        await null;
      }
      const others = xs.map((x) => x.fill(2));
      const copies = xs.map((x, i) => rig.copy(x, hosts[i]));
      const odd = new Uint8Array(size - 2).fill(3);
      others.push(...copies, ...xs.map((x) => x.blitFrom(odd, { offset: 1 })), ...xs.map((x) => x.fill(4, { length: 8 })));
      equal((await Promise.all(reads)).map((array) => array.at(-1)), Array(10).fill(1), "reads, then fills");
      await Promise.all(others);
      for (const [i, x] of xs.entries()) {
        const [there, here] = [await x.toArray(Uint8Array), await hosts[i].toArray(Uint8Array)];
        equal([there[7], there[8], there.at(-2), there.at(-1), here.at(-2)], [4, 3, 3, 2, 2], `of buffer ${i}`);
      }
      for (const buffer of [...xs, ...hosts]) buffer.free();
      await gpu.close();
    },
    needs,
  );
}
