// Calls that are over when they return.

import { allocsOf, blitFrom, copied, devsOf, isFull, newBuffer, pair, refusal, touch, viewed, wish, words } from "./calls.mjs";
import { Alloc } from "./model.mjs";
import { same } from "./walk.mjs";

const WRAPPED = [Uint8Array, Uint16Array, Float32Array, DataView, Int8Array];
const GPU_USAGE = 0x80 | 0x4 | 0x8;
const XORED = `
  @group(0) @binding(0) var<storage, read> y: array<u32>;
  @group(0) @binding(1) var<storage, read_write> x: array<u32>;
  @group(0) @binding(2) var<uniform> k: u32;
  @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < min(arrayLength(&x), arrayLength(&y))) { x[id.x] = (y[id.x] ^ k) + 1u; }
  }`;

function view(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const [offset, length] = r.range(h.size);
  const isRest = offset + length === h.size && r.oneIn(2);
  const made = w.now(`view ${length} bytes of ${h} from ${offset}`, null, () => h.buffer.view(offset, isRest ? undefined : length));
  const handle = w.add(made, h.alloc, h.at + offset, h.dev);
  if (made.size !== length || made.offset !== h.buffer.offset + offset) throw new Error(`the view ${handle} is of ${made.size} bytes`);
}

function borrow(w, r) {
  const h = r.of(w.handles);
  const dev = r.of(w.devs);
  if (!h || dev.ending || h.isEnding) return;
  const isOwn = h.alloc.dev === dev;
  const isHere = !h.alloc.dev.isGpu && !dev.isGpu;
  const made = w.now(`borrow ${h} on ${dev}`, refusal([h]), () => h.buffer.borrow(dev.device));
  if (h.isLost) return;
  // Empty memory that was made is borrowed anywhere.
  if ((made !== null) !== (isOwn || isHere || (h.alloc.bytes.length === 0 && !h.alloc.own))) throw new Error(`the borrow is ${made}`);
  if (made) w.add(made, h.alloc, h.at, dev);
}

/** Lets go of a handle that others may be left beside: what only claims keep is released first. */
function lastOf(w, h) {
  if (h.alloc.handles.size === 1) for (const claim of h.alloc.claims.splice(0)) claim.release();
}

function dispose(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  lastOf(w, h);
  w.now(`dispose ${h}`, null, () => (r.oneIn(2) ? h.buffer.dispose() : h.buffer[Symbol.dispose]()));
  w.drop(h);
  if (h.buffer.state !== "disposed") throw new Error(`its state is ${h.buffer.state}`);
}

function forget(w, r) {
  const h = r.of(w.handles);
  if (!h || h.alloc.isLent) return;
  lastOf(w, h);
  w.say(`forget ${h}`);
  w.hasForgotten = h.alloc.isForgotten = true;
  w.drop(h);
}

function free(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const { alloc } = h;
  const isClaimed = alloc.claims.length > 0 && alloc.bytes.length > 0;
  // Under a call that moves its bytes it is refused; whether that has ended is not known.
  if (w.isTouched(alloc)) {
    w.say(`free ${h} under a call`);
    try {
      h.buffer.free();
    } catch (e) {
      if (e.what !== "Busy") throw e;
      return;
    }
    if (isClaimed) throw new Error("it is free under a claim");
  } else {
    w.now(`free ${h}`, isClaimed ? "Busy" : null, () => h.buffer.free());
    if (isClaimed) return;
  }
  if (h.buffer.state !== "dead") throw new Error(`its state is ${h.buffer.state}`);
  alloc.claims.length = 0;
  // What was lent is destroyed, and so counts until it is.
  w.kill(alloc, "freed");
}

function claimRead(w, r) {
  const h = r.of(w.handles);
  if (!h || h.size === 0 || h.isEnding !== h.isLost || w.isTouched(h.alloc)) return;
  const claim = w.now(`claimRead ${h}`, refusal([h]), () => h.buffer.claimRead());
  if (claim) h.alloc.claims.push(claim);
}

function release(w, r) {
  const alloc = r.of([...allocsOf(w)].filter(({ claims }) => claims.length > 0));
  if (!alloc || w.isTouched(alloc)) return;
  w.say(`release a claim of ${alloc.bytes.length} bytes on ${alloc.dev}`);
  const claim = alloc.claims.pop();
  claim.release();
  if (r.oneIn(2)) claim.release();
}

function createNow(w, r) {
  const dev = r.of(w.devs);
  const { length, label } = wish(w, r, dev);
  if (length < 0) return;
  w.say(`createBufferNow ${length} bytes on ${dev}, label ${label}`);
  let buffer;
  try {
    buffer = dev.device.createBufferNow(length, label ? { label } : undefined);
  } catch (e) {
    const isFine = dev.ending ? e.code === "Lost" : isFull(w, dev, e, length, true);
    if (!isFine) throw e;
    return;
  }
  if (dev.isLost) throw new Error("a lost device made a buffer");
  newBuffer(w, dev, buffer, length, label);
}

function wrap(w, r) {
  const Type = r.of(WRAPPED);
  const unit = Type.BYTES_PER_ELEMENT ?? 1;
  const count = Math.floor(r.length() / unit);
  const lead = unit * r.below(9);
  const memory = new (r.oneIn(6) && globalThis.SharedArrayBuffer ? SharedArrayBuffer : ArrayBuffer)(lead + count * unit + 5);
  const own = viewed(new Type(memory, lead, count));
  own.set(r.bytes(own.length));
  const buffer = w.now(`wrap a ${Type.name} of ${own.length} bytes`, null, () => w.rig.wrap(new Type(memory, lead, count), { label: "own" }));
  w.add(buffer, new Alloc(w.devs[0], own.slice(), "own", { own }), 0);
}

/** The page stores into what it wrapped, or into what is exported to it. */
function store(w, r) {
  const places = [...w.outs.map(({ out, alloc, at }) => [out.bytes, alloc, at]), ...[...allocsOf(w)].filter(({ own }) => own).map((alloc) => [alloc.own, alloc, 0])];
  const [bytes, alloc, at] = r.of(places) ?? [];
  if (!bytes || bytes.length === 0 || w.isTouched(alloc)) return;
  const [offset, byte] = [r.below(bytes.length), r.below(256)];
  w.say(`store ${byte} at ${offset} of ${bytes.length} bytes of the page's`);
  bytes[offset] = byte;
  if (!alloc.dead || alloc.dead === "freed") alloc.bytes[at + offset] = byte;
}

function wrapGpu(w, r) {
  const dev = r.of(w.devs.filter(({ isGpu, ending }) => isGpu && !ending));
  if (!dev) return;
  const size = 4 * (1 + r.below(r.oneIn(2) ? 20 : 20_000));
  const gpu = dev.device.gpu;
  const foreign = gpu.createBuffer({ size, usage: GPU_USAGE, label: "foreign" });
  const bytes = r.bytes(size);
  gpu.queue.writeBuffer(foreign, 0, bytes);
  const [offset, length] = r.range(size);
  const text = `wrapGpu ${length} bytes from ${offset} of ${size} on ${dev}`;
  const buffer = w.now(text, null, () => dev.device.wrapGpu(foreign, { offset, length, label: "foreign" }));
  w.add(buffer, new Alloc(dev, bytes, "foreign", { foreign }), offset);
}

function lend(w, r) {
  const h = r.of(w.handles);
  if (!h || h.isEnding) return;
  const refused = h.dev.isGpu ? refusal([h]) : "Unsupported";
  // A borrow is not lent, and what is empty has no GPU buffer.
  if (h.size === 0 || h.dev !== h.alloc.dev || h.isLost || h.alloc.isForgotten) return;
  const lent = w.now(`lend ${h}`, refused, () => h.buffer.lend());
  if (lent) noteLent(h, lent);
}

function noteLent(h, { buffer, offset, size }) {
  if (size !== h.size || offset !== h.buffer.offset || buffer.size < offset + size) throw new Error(`${h} is lent at ${offset}, ${size}`);
  h.alloc.isLent = buffer;
}

const shownOf = (from, to) => `${words(from, to)} bytes of ${from} to ${to}`;

/** Answers the point of a submission, which is the next value. */
function submitted(w, dev, text, f) {
  const before = dev.device.submitted;
  const point = w.now(text, null, f);
  dev.values += 1;
  if (point.device !== dev.device || point.value !== before + 1) throw new Error(`the point is ${point.value}, not ${before + 1}`);
}

/** The program's own commands, in its own function. */
function encode(w, r) {
  const [from, to] = pair(w, r) ?? [];
  if (!from || !w.isFree([touch(from, false), touch(to, true)])) return;
  const o = { reads: [from.buffer], writes: [to.buffer], label: "a copy" };
  submitted(w, to.dev, `submit a copy of ${shownOf(from, to)}`, () => to.dev.device.submit(o, copied(from, to)));
  to.bytes.set(from.bytes.subarray(0, words(from, to)));
}

/** The program's own commands, on the queue by itself. */
function recordUse(w, r) {
  const [from, to] = pair(w, r) ?? [];
  // What was asked before comes first, although it waits for the end of the microtask.
  if (from && r.oneIn(2)) blitFrom(w, r, from);
  if (!from || from.alloc.isForgotten || to.alloc.isForgotten || !w.isFree([touch(from, false), touch(to, true)])) return;
  const { device } = to.dev;
  submitted(w, to.dev, `recordUse of a copy of ${shownOf(from, to)}`, () => {
    const [a, b] = [from.buffer.lend(), to.buffer.lend()];
    noteLent(from, a);
    noteLent(to, b);
    const encoder = device.gpu.createCommandEncoder();
    encoder.copyBufferToBuffer(a.buffer, a.offset, b.buffer, b.offset, words(from, to));
    device.gpu.queue.submit([encoder.finish()]);
    return device.recordUse({ reads: [from.buffer], writes: [to.buffer] });
  });
  to.bytes.set(from.bytes.subarray(0, words(from, to)));
}

function kernel(w, r) {
  // A binding starts at 256 bytes, and ends with a word or with its memory.
  const isFit = ({ dev, alloc, at, size }) =>
    dev.kernel && !dev.ending && size > 0 && at % 256 === 0 && (size % 4 === 0 || at + size === alloc.bytes.length);
  const all = w.handles.filter(isFit);
  const x = r.of(all);
  const y = x && r.of(all.filter((h) => h.dev === x.dev && h.alloc !== x.alloc && (h.size % 4 === 0 || h.size >= x.size)));
  if (!y || !w.isFree([touch(y, false), touch(x, true)])) return;
  const k = r.next();
  const count = Math.min(Math.ceil(x.size / 4), Math.ceil(y.size / 4));
  submitted(w, x.dev, `run ${x} = (${y} ^ ${k}) + 1`, () => x.dev.kernel.run({ x: x.buffer, y: y.buffer, k }, [Math.ceil(count / 64)]));
  const [padded, into] = [new Uint8Array(4 * count), new Uint8Array(4 * count)];
  padded.set(y.bytes.subarray(0, 4 * count));
  const [from, to] = [padded, into].map((bytes) => new Uint32Array(bytes.buffer));
  from.forEach((word, at) => (to[at] = ((word ^ k) >>> 0) + 1));
  x.bytes.set(into.subarray(0, x.size));
}

/** Work of a memory device that changes nothing. */
function submit(w, r) {
  const dev = r.of(w.devs.filter(({ kind }) => kind === "memory"));
  if (dev.ending) return;
  const uses = w.handles.filter((h) => h.dev === dev && !h.isLost && h.size > 0);
  const [x, y] = [r.of(uses), r.of(uses)].map((h) => (h && r.oneIn(2) ? h : undefined));
  const touches = [x && touch(x, false), y && touch(y, true)].filter(Boolean);
  if (!w.isFree(touches)) return;
  const o = { reads: x ? [x.buffer] : [], writes: y ? [y.buffer] : [] };
  submitted(w, dev, `submit on ${dev} reading ${x}, writing ${y}`, () => dev.device.submit(o));
  if (!y) return;
  const { write } = y.buffer.stamps();
  if (write?.device !== dev.device || write.value !== dev.device.submitted) throw new Error(`its write is ${write?.value}`);
}

function useOut(w, r) {
  const one = r.of(w.outs);
  if (!one || w.isTouched(one.alloc)) return;
  const { out, alloc, at, size } = one;
  const kind = r.below(3);
  const isGone = alloc.dead === "transferred" && size > 0;
  const [offset, length] = r.range(size);
  const place = alloc.bytes.subarray(at + offset, at + offset + length);
  const refused = isGone ? "Dead" : null;
  if (kind === 0) {
    const bytes = r.bytes(length);
    // A kept claim keeps the host from writing.
    const isBusy = alloc.claims.length > 0;
    w.now(`copyIn ${length} bytes at ${offset} of ${size}`, isBusy ? "Busy" : refused, () => out.copyIn(offset, bytes));
    if (!refused && !isBusy) place.set(bytes);
  } else if (kind === 1) {
    const found = w.now(`copyOut ${length} bytes at ${offset} of ${size}`, refused, () => out.copyOut(offset, new Uint8Array(length)));
    if (found) same(found, place, "the bytes of an export");
  } else {
    w.say(`dispose an export of ${size} bytes of ${alloc.dev}`);
    dropOut(w, one);
  }
}

export function dropOut(w, one) {
  const { out, alloc } = one;
  out.dispose();
  out.dispose();
  w.outs = w.outs.filter((other) => other !== one);
  alloc.exports = alloc.exports.filter((other) => other !== out);
  w.left(alloc);
  if (out.bytes.length > 0 && alloc.exports.length === 0 && !alloc.own) throw new Error("bytes of a disposed export are left");
}

function giveBack(w, r) {
  const dev = r.of(w.devs);
  if (dev.ending) return;
  const isAll = r.oneIn(3);
  const { returned, pending } = w.now(`${isAll ? "freeCache" : "trim"} ${dev}`, null, () => (isAll ? dev.device.freeCache() : dev.device.trim()));
  if (returned < 0 || pending < 0) throw new Error(`it gives back ${returned} and ${pending}`);
}

function facts(w, r) {
  const h = r.of(w.handles);
  const { submitted, reached, held, budget } = r.of(w.devs).device;
  if (reached > submitted || held < 0 || budget < 0) throw new Error(`${[submitted, reached, held, budget]}`);
  if (!h) return;
  w.say(`facts of ${h}`);
  const { size, state, device, label } = h.buffer;
  if (size !== h.size || state !== "live" || device !== h.dev.device || label !== h.alloc.label) throw new Error(`its facts are ${[size, state, device.name, label]}`);
  for (const { device: of, value } of h.buffer.stamps().uses) {
    if (value < 1 || value > of.submitted) throw new Error(`a use is ${of.name}:${value}`);
  }
}

/** Compiles what the walk runs. */
async function compile(w, r) {
  const dev = r.of(w.devs.filter(({ isGpu, ending, kernel }) => isGpu && !ending && !kernel));
  if (!dev) return;
  w.say(`compile for ${dev}`);
  dev.kernel = await dev.device.kernel(XORED, { label: "xored" });
}

export const ACTS = {
  view: { weight: 12, f: view },
  borrow: { weight: 4, f: borrow },
  dispose: { weight: 20, f: dispose },
  forget: { weight: 4, f: forget },
  free: { weight: 6, f: free },
  claimRead: { weight: 2, f: claimRead },
  release: { weight: 3, f: release },
  createNow: { weight: 5, f: createNow },
  wrap: { weight: 3, f: wrap },
  store: { weight: 4, f: store },
  wrapGpu: { weight: 2, f: wrapGpu },
  lend: { weight: 1, f: lend },
  encode: { weight: 8, f: encode },
  recordUse: { weight: 2, f: recordUse },
  kernel: { weight: 12, f: kernel },
  submit: { weight: 4, f: submit },
  useOut: { weight: 6, f: useOut },
  giveBack: { weight: 2, f: giveBack },
  facts: { weight: 4, f: facts },
  compile: { weight: 6, f: compile, alone: true },
};
