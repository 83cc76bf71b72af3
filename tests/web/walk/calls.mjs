// Calls that promise: what each touches, and what has to come of it.

import { Alloc, mostBytes } from "./model.mjs";
import { same } from "./walk.mjs";

const TYPES = [Uint8Array, Uint8Array, Int8Array, Uint8ClampedArray, Uint16Array, Int32Array, Float32Array, Float64Array];
const LABELS = ["", "a", "b", "c", "a longer label", "ü"];
/** The most bytes that a smaller half takes. */
const TRANSIENT_BYTES = 1024 * 1024;

/** Returns what a call that uses part of a handle touches. */
export function touch(handle, write, isOrdered = true) {
  const { alloc } = handle;
  return { alloc, write, order: isOrdered && alloc.dev.isGpu ? alloc.dev : null };
}

/** Returns why a use of handles is refused, or null; `writes` of them by the host where it reaches them. */
export function refusal(handles, writes = []) {
  if (handles.some((handle) => handle.isLost)) return "Lost";
  const isBusy = ({ alloc }) => !alloc.dev.isGpu && alloc.claims.length > 0;
  return writes.some(isBusy) ? "Busy" : null;
}

export const devsOf = (...handles) => handles.flatMap(({ dev, alloc }) => [dev, alloc.dev]);
const givenUp = (r) => (r.oneIn(12) ? r.of(["before", "after"]) : "");
/** One value, or more of a move that finds no half but smaller ones (S7.8). */
const valuesOf = ({ alloc: { dev } }, moved) => (dev.isGpu ? [[dev, 1, moved > TRANSIENT_BYTES]] : []);
export const viewed = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Whether bytes change by a call: what they are if it was given up, and if its device is lost. */
function changed(w, handle, offset, bytes, isOther, abort) {
  const place = handle.bytes.subarray(offset, offset + bytes.length);
  const old = place.slice();
  const { dev } = handle.alloc;
  let look = null;
  return {
    effect: () => {
      place.set(bytes);
      // Whoever looks afterwards has a handle of his own.
      if (abort === "after") look = handle.buffer.view(offset, bytes.length);
    },
    check: () => look?.dispose(),
    undo: () => {
      if (!look || handle.isLost || handle.isEnding) {
        look?.dispose();
        if (isOther) place.set(old);
        return;
      }
      w.open.push(async () => {
        if (handle.isLost || handle.alloc.dead) return look.dispose();
        if (dev.isGpu) await dev.device.wait(dev.device.submitted);
        const found = await look.toArray(Uint8Array);
        look.dispose();
        if (found.some((byte, i) => byte !== bytes[i])) same(found, old, "what a call that was given up left");
        place.set(found);
      });
    },
  };
}

function fill(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const [offset, length] = r.range(h.size);
  const byte = r.oneIn(3) ? 0 : r.below(256);
  const abort = givenUp(r);
  const range = length === h.size && r.oneIn(2) ? {} : { offset, length };
  const isReal = length > 0;
  w.call({
    text: `fill ${h} from ${offset}, ${length} bytes, with ${byte}`,
    touches: isReal ? [touch(h, true, !abort)] : [],
    devs: devsOf(h),
    refused: refusal([h], isReal ? [h] : []),
    values: isReal ? valuesOf(h, 0) : [],
    make: (signal) => h.buffer.fill(byte, { ...range, signal }),
    works: isReal,
    abort,
    ...changed(w, h, offset, new Uint8Array(length).fill(byte), false, abort),
  });
}

export function blitFrom(w, r, h = r.of(w.handles)) {
  if (!h) return;
  const [offset, length] = r.range(h.size);
  const bytes = r.bytes(length);
  const abort = givenUp(r);
  const lead = r.below(9);
  const whole = new Uint8Array(length + lead);
  whole.set(bytes, lead);
  const data = lead === 0 && r.oneIn(2) ? whole.buffer : r.oneIn(3) ? new DataView(whole.buffer, lead) : whole.subarray(lead);
  const isReal = length > 0;
  w.call({
    text: `blitFrom ${length} bytes to ${h} at ${offset}`,
    touches: isReal ? [touch(h, true, !abort)] : [],
    devs: devsOf(h),
    refused: refusal([h], isReal ? [h] : []),
    values: isReal ? valuesOf(h, length) : [],
    make: (signal) => {
      const done = h.buffer.blitFrom(data, offset === 0 && !signal ? undefined : { offset, signal });
      // The data has been taken.
      if (r.oneIn(4)) structuredClone(whole.buffer, { transfer: [whole.buffer] });
      else whole.fill(0x55);
      return done;
    },
    works: isReal,
    abort,
    ...changed(w, h, offset, bytes, false, abort),
  });
}

function toArray(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const Type = r.of(TYPES);
  let [offset, length] = r.range(h.size);
  length -= length % Type.BYTES_PER_ELEMENT;
  const wanted = h.bytes.slice(offset, offset + length);
  const abort = givenUp(r);
  const isReal = length > 0;
  w.call({
    text: `toArray ${Type.name} of ${h} from ${offset}, ${length} bytes`,
    touches: isReal ? [touch(h, false, !abort)] : [],
    devs: devsOf(h),
    refused: refusal([h]),
    values: isReal ? valuesOf(h, length) : [],
    make: (signal) => h.buffer.toArray(Type, { offset, length, signal }),
    works: isReal,
    abort,
    check: (found) => {
      if (!(found instanceof Type)) throw new Error(`${found} is no ${Type.name}`);
      same(viewed(found), wanted, `the array of ${h.name}`);
    },
  });
}

function blitTo(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const [offset, length] = r.range(h.size);
  const wanted = h.bytes.slice(offset, offset + length);
  const lead = r.below(9);
  const around = new Uint8Array(length + lead + 3).fill(0xa5);
  const out = r.oneIn(4) ? new DataView(around.buffer, lead, length) : around.subarray(lead, lead + length);
  const isReal = length > 0;
  w.call({
    text: `blitTo ${length} bytes of ${h} at ${offset}`,
    touches: isReal ? [touch(h, false)] : [],
    devs: devsOf(h),
    refused: refusal([h]),
    values: isReal ? valuesOf(h, length) : [],
    make: (signal) => h.buffer.blitTo(out, { offset, signal }),
    works: isReal,
    check: (found) => {
      if (found !== out) throw new Error("what blitTo promises is another array");
      same(viewed(found), wanted, `the bytes of ${h.name}`);
      const rest = [...around.subarray(0, lead), ...around.subarray(lead + length)];
      if (rest.some((byte) => byte !== 0xa5)) throw new Error("blitTo wrote beside the array");
    },
  });
}

function copy(w, r) {
  const [from, to] = [r.of(w.handles), r.of(w.handles)];
  if (!from) return;
  const length = r.oneIn(2) ? Math.min(from.size, to.size) : r.below(Math.min(from.size, to.size) + 1);
  const place = (h) => (r.oneIn(2) ? 0 : r.below(h.size - length + 1));
  const [a, b] = [place(from), place(to)];
  const isReal = length > 0;
  const [starts, ends] = [from.at + a, to.at + b];
  const isOverlap = isReal && from.alloc === to.alloc && Math.abs(starts - ends) < length;
  const [d, e] = [from.alloc.dev, to.alloc.dev];
  const isThrough = d.isGpu && e.isGpu && d !== e;
  const abort = isOverlap ? "" : givenUp(r);
  const moved = d === e ? 0 : length;
  const values = !isReal ? [] : [...valuesOf(from, moved), ...(d === e ? [] : valuesOf(to, moved))];
  const [src, dst] = [from.buffer.view(a, length), to.buffer.view(b, length)];
  w.call({
    text: `copy ${length} bytes of ${from} at ${a} to ${to} at ${b}`,
    touches: isReal ? [touch(from, false, !abort), touch(to, true, !abort && !isThrough)] : [],
    devs: devsOf(from, to),
    refused: isOverlap ? "Overlap" : refusal([from, to], isReal ? [to] : []),
    values,
    make: (signal) => w.rig.copy(src, dst, { signal }),
    works: isReal,
    abort,
    ...changed(w, to, b, from.bytes.slice(a, a + length), d !== e, abort),
  });
  for (const view of [src, dst]) view.dispose();
}

function scope(name) {
  const isWrite = name === "write";
  return (w, r) => {
    const h = r.of(w.handles);
    if (!h) return;
    const { alloc } = h;
    const wanted = h.bytes.slice();
    const [offset, length] = isWrite ? r.range(h.size) : [0, 0];
    const bytes = r.bytes(length);
    const isThrown = r.oneIn(8);
    const thrown = new Error("on purpose");
    // What only a claim is left of lives on.
    const inside = alloc.handles.size === 1 && alloc.claims.length > 0 ? 7 : r.below(8);
    const refused = alloc.dev.isGpu ? "Unsupported" : refusal([h], isWrite ? [h] : []);
    let [later, kept] = [null, null];
    const f = (given) => {
      kept = given;
      same(given, wanted, `what ${name} gives of ${h.name}`);
      given.set(bytes, offset);
      if (inside === 0) h.buffer.dispose();
      // It may have been disposed since the call.
      const isThere = h.buffer.state === "live";
      if (inside === 1 && isThere) later = h.buffer.read((again) => again.slice()).then((found) => ({ found }), (error) => ({ error }));
      if (inside === 2 && isThere) {
        const error = errorOf(() => h.buffer.free());
        if (error?.what !== "Busy") throw new Error(`free in a scope: ${error}`);
      }
      if (inside === 3 && isThere) h.buffer.view(0).dispose();
      if (isThrown) throw thrown;
      return given.length;
    };
    // An error of the scope's own is what it promises.
    const forgive = (error) => isThrown && error === thrown;
    const isOver = async () => {
      if (!later) return;
      const { found, error } = await later;
      if (alloc.dead && error?.what === "Dead") return;
      // A read within a write meets it.
      if (isWrite ? error?.what !== "Busy" : !found) throw new Error(`a read in a ${name}: ${error ?? "done"}`);
      if (found) same(found, h.bytes, "a read in a scope");
    };
    const isMade = w.call({
      text: `${name} ${h}${isThrown ? ", which throws" : ""}, ${length} bytes at ${offset}; ${inside}`,
      // Of empty memory too a scope has a claim.
      touches: [touch(h, isWrite)],
      devs: devsOf(h),
      refused,
      make: (signal) => h.buffer[name](f, { signal }),
      effect: () => h.bytes.set(bytes, offset),
      works: false,
      check: async (value) => {
        if (value !== h.size || isThrown) throw new Error(`${name} promises ${value}`);
        if (kept.length > 0 && !alloc.own && alloc.exports.length === 0) throw new Error(`${kept.length} bytes of a scope are left`);
        await isOver();
      },
      undo: () => {
        if (kept) return;
        // The scope that was to write, or to dispose, never came.
        if (isWrite) h.bytes.set(wanted);
        if (inside === 0) h.buffer.dispose();
      },
      forgive,
    });
    if (isMade && inside === 0 && !refused) w.drop(h);
  };
}

function errorOf(f) {
  try {
    f();
  } catch (e) {
    return e;
  }
  return null;
}

function create(w, r) {
  const dev = r.of(w.devs);
  const { length, label, abort } = wish(w, r, dev);
  if (length < 0) return;
  w.call({
    text: `create ${length} bytes on ${dev}, label ${label}`,
    devs: [dev],
    refused: dev.isLost ? "Lost" : null,
    make: (signal) => dev.device.createBuffer(length, label || signal ? { label, signal } : undefined),
    works: false,
    abort,
    check: (buffer) => newBuffer(w, dev, buffer, length, label),
    undo: (isGivenUp) => {
      // Whether it counts as asked for in vain depends on how far it came.
      if (isGivenUp) dev.failedBytes = NaN;
    },
    forgive: (error) => isFull(w, dev, error, length, false),
  });
}

/** Draws a buffer's length and label; -1 where a device is nearly full and has waited enough. */
export function wish(w, r, dev) {
  let length = r.length();
  const live = liveBytes(w, dev);
  // A call in vain takes long.
  if (live + mostBytes(length) > dev.budget && !r.oneIn(40)) length = live + 2 * 2 ** 10 > dev.budget ? -1 : r.below(71);
  return { length, label: r.of(LABELS), abort: givenUp(r) };
}

/** The most bytes that live on a device as far as the walk knows. */
export function liveBytes(w, dev) {
  let sum = 0;
  for (const alloc of allocsOf(w)) if (alloc.dev === dev && alloc.isCharged) sum += mostBytes(alloc.bytes.length);
  return sum;
}

/** All memory that somebody can reach. */
export function allocsOf(w) {
  return new Set([...w.handles, ...w.outs].map(({ alloc }) => alloc));
}

/** Takes in what a create made. */
export function newBuffer(w, dev, buffer, length, label) {
  const { size, offset, state } = buffer;
  if (size !== length || offset !== 0 || buffer.label !== label || buffer.device !== dev.device || state !== "live") {
    throw new Error(`a new buffer is ${[size, offset, buffer.label, buffer.device.name, state]}`);
  }
  w.hatch(buffer, new Alloc(dev, new Uint8Array(length), label));
}

/** Whether a device is as full as an error says that it is. */
export function isFull(w, dev, error, length, isNow) {
  if (error.code !== "OutOfMemory") return false;
  dev.failedBytes += length;
  const { report, askedBytes, heldBytes, budgetBytes } = error;
  if (askedBytes !== length || report.immediate !== isNow || budgetBytes !== dev.budget) return false;
  if (isNow) return heldBytes + mostBytes(length) > budgetBytes;
  return report.liveBytes + Math.ceil(length / 4) * 4 > budgetBytes;
}

function wait(w, r) {
  const dev = r.of(w.devs);
  const { submitted } = dev.device;
  const value = r.oneIn(2) ? submitted : r.below(submitted + (dev.isLost ? 1 : 2));
  const refused = dev.isLost ? "Lost" : value > submitted ? "NotSubmitted" : dev.rejected.has(value) ? "Rejected" : null;
  const point = r.oneIn(2) ? value : { device: dev.device, value };
  const other = typeof point === "number" ? dev.device : r.of(w.devs).device;
  w.call({
    text: `wait for ${value} of ${dev}`,
    devs: [dev],
    refused,
    make: (signal) => other.wait(point, { signal }),
    works: false,
    abort: refused ? "" : givenUp(r),
    check: () => {
      const { reached } = dev.device;
      if (reached < value) throw new Error(`${dev} reached ${reached}, not ${value}`);
    },
  });
}

function exported(w, r) {
  const h = r.of(w.handles);
  if (!h) return;
  const { alloc } = h;
  w.call({
    text: `export ${h}`,
    touches: h.size > 0 ? [touch(h, true)] : [],
    devs: devsOf(h),
    refused: alloc.dev.isGpu ? "Unsupported" : refusal([h]),
    make: (signal) => h.buffer.export({ signal }),
    works: false,
    check: (out) => {
      same(out.bytes, h.bytes, `the export of ${h.name}`);
      alloc.wasExported = true;
      alloc.exports.push(out);
      w.outs.push({ out, alloc, at: h.at, size: h.size });
    },
  });
}

/** Commands of the program's own that wait for other devices. */
function submitWhenReady(w, r) {
  const [from, to] = pair(w, r) ?? [];
  if (!from) return;
  const { dev } = to;
  const before = to.bytes.slice();
  const after = w.devs.filter((other) => other !== dev && !other.ending).map(({ device }) => ({ device, value: device.submitted }));
  w.call({
    text: `submitWhenReady of a copy of ${from} to ${to}, after ${after.map(({ value }) => value)}`,
    touches: [touch(from, false, false), touch(to, true, false)],
    devs: [dev],
    values: [[dev, 1]],
    make: (signal) => dev.device.submitWhenReady({ reads: [from.buffer], writes: [to.buffer], after, signal }, copied(from, to)),
    effect: () => to.bytes.set(from.bytes.subarray(0, words(from, to))),
    // Freed while it waits, what it names refuses it, and nothing ran (S8.4).
    undo: () => to.bytes.set(before),
    check: ({ device, value }) => {
      if (device !== dev.device || value > device.submitted) throw new Error(`the point is ${value}`);
    },
  });
}

/** Draws two buffers of one GPU between which its own copies move words. */
export function pair(w, r) {
  const isFit = (h) => h.dev.isGpu && !h.dev.ending && h.size >= 4 && h.at % 4 === 0;
  const all = w.handles.filter(isFit);
  const to = r.of(all);
  const from = to && r.of(all.filter((h) => h.dev === to.dev && h.alloc !== to.alloc));
  return from ? [from, to] : null;
}

/** How many bytes of whole words go from one to the other. */
export function words(from, to) {
  const least = Math.min(from.size, to.size);
  return least - (least % 4);
}

/** Encodes a copy of whole words. */
export function copied(from, to) {
  return ({ encoder, buffer }) => {
    const [a, b] = [buffer(from.buffer), buffer(to.buffer)];
    encoder.copyBufferToBuffer(a.buffer, a.offset, b.buffer, b.offset, words(from, to));
  };
}

export const CALLS = {
  fill: { weight: 10, f: fill },
  blitFrom: { weight: 14, f: blitFrom },
  toArray: { weight: 12, f: toArray },
  blitTo: { weight: 6, f: blitTo },
  copy: { weight: 22, f: copy },
  read: { weight: 5, f: scope("read") },
  write: { weight: 5, f: scope("write") },
  create: { weight: 16, f: create },
  wait: { weight: 4, f: wait },
  export: { weight: 1, f: exported },
  submitWhenReady: { weight: 3, f: submitWhenReady },
};
