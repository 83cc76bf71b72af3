// What comes seldom: wrong calls, claims of a call, wrong commands, bytes that are taken away,
// budgets, and the end of devices.

import { devsOf, refusal, touch } from "./calls.mjs";
import { dropOut } from "./acts.mjs";
import { isError, same, turn, within } from "./walk.mjs";

const KIB = 1024;
const MIB = 1024 * KIB;
/** What a device may hold at least and at most. */
const BUDGETS = { host: [24 * MIB, 48 * MIB], memory: [64 * KIB, 4 * MIB], gpu: [256 * KIB, 6 * MIB] };

/** Calls that are wrong in whatever state a live buffer is, and what has to be said of each. */
const WRONG = [
  ["a fill with 256", "Option", (w, h) => h.buffer.fill(256)],
  ["a fill past the end", "OutOfRange", (w, h) => h.buffer.fill(1, { offset: h.size, length: 1 })],
  ["a fill at 1.5", "Option", (w, h) => h.buffer.fill(1, { offset: 1.5 })],
  ["an array past the end", "OutOfRange", (w, h) => h.buffer.toArray(Uint8Array, { offset: h.size + 1 })],
  ["an array of no type", "Option", (w, h) => h.buffer.toArray({ BYTES_PER_ELEMENT: 1 })],
  ["an array of 3 bytes of words", h => (h.size < 3 ? "OutOfRange" : "PartialElement"), (w, h) => h.buffer.toArray(Uint16Array, { length: 3 })],
  ["a blit that is too long", "OutOfRange", (w, h) => h.buffer.blitFrom(new Uint8Array(h.size + 1))],
  ["a blit out that is too long", "OutOfRange", (w, h) => h.buffer.blitTo(new Uint8Array(3), { offset: h.size })],
  ["a blit from a list", "Option", (w, h) => h.buffer.blitFrom([1, 2])],
  ["a copy of two lengths", "LengthsDiffer", (w, h) => w.rig.copy(h.buffer, w.rig.wrap(new Uint8Array(h.size + 1)))],
  ["a copy onto a text", "Option", (w, h) => w.rig.copy(h.buffer, "x")],
  ["a view past the end", "OutOfRange", (w, h) => h.buffer.view(h.size, 1)],
  ["a view from -1", "Option", (w, h) => h.buffer.view(-1)],
  ["a signal that is none", "Option", (w, h) => h.buffer.fill(1, { signal: {} })],
  ["a scope without a function", "Option", (w, h) => h.buffer.read(7)],
  ["a buffer of -1 bytes", "Option", (w, h) => h.dev.device.createBuffer(-1)],
  ["a buffer of 2^53 bytes", "Option", (w, h) => h.dev.device.createBufferNow(2 ** 53)],
  ["a budget of half a byte", "Option", (w, h) => void (h.dev.device.budget = 0.5)],
  ["a close of the host", "HostClose", (w) => w.rig.host.close()],
  ["work of the host", "Unsupported", (w) => w.rig.host.submit({})],
  ["a use of a text", "Option", (w, h) => h.dev.device.submit({ reads: ["x"] })],
];
/** Calls on a buffer that is disposed, or dead. */
const ENDED = [
  ["fill", (w, x) => x.fill(1)],
  ["toArray", (w, x) => x.toArray(Uint8Array, { length: 0 })],
  ["blitFrom", (w, x) => x.blitFrom(new Uint8Array(0))],
  ["read", (w, x) => x.read(() => 1)],
  ["view", (w, x) => x.view(0, 0)],
  ["copy", (w, x) => w.rig.copy(x, x.size === 0 ? x : w.rig.wrap(new Uint8Array(x.size)))],
  ["claimRead", (w, x) => x.claimRead()],
  ["borrow", (w, x) => x.borrow(w.rig.host)],
  ["free", (w, x) => x.free()],
  ["export", (w, x) => x.export()],
  ["withClaims", (w, x) => w.rig.withClaims({ reads: [x] }, () => 1)],
];

function wrong(w, r) {
  const h = r.of(w.handles);
  if (!h || h.isEnding) return;
  if (r.oneIn(3)) {
    const [name, f] = r.of(ENDED);
    const dead = r.of(w.dead);
    const gone = dead && r.oneIn(2) ? dead : h.buffer.view(0);
    if (gone !== dead) gone.dispose();
    w.call({ text: `${name} of a buffer that is over`, refused: gone === dead ? "Dead" : "Disposed", make: () => f(w, gone) });
    return;
  }
  const [text, what, f] = r.of(WRONG);
  w.call({ text: `${text}, ${h}`, refused: typeof what === "string" ? what : what(h), make: () => f(w, h) });
}

/** The page asks for more than a device may ever hold. */
function tooMuch(w, r) {
  const dev = r.of(w.devs);
  if (dev.ending) return;
  const length = dev.budget + 1 + r.below(MIB);
  w.call({
    text: `create ${length} bytes on ${dev}`,
    make: () => dev.device.createBuffer(length),
    check: () => {
      throw new Error("it is served");
    },
    forgive: ({ code, report }) => {
      dev.failedBytes += length;
      return code === "OutOfMemory" && report.rounds.length === 0;
    },
    works: false,
  });
}

/** Claims of a call, which takes over what nobody else can notice. */
async function claims(w, r) {
  const h = r.of(w.handles);
  const other = r.of(w.handles);
  if (!h || h.isLost || other.isLost || h.isEnding || other.isEnding || h.size === 0) return;
  const { alloc } = h;
  const reads = other.alloc === alloc ? [] : [other.buffer];
  const isWhole = h.at === 0 && h.size === alloc.bytes.length;
  const isOwn = isWhole && alloc.canBeTakenOver;
  const doesConsume = isOwn && r.oneIn(2);
  w.say(`withClaims, ${h} donated, ${reads.length} read${doesConsume ? ", consumed" : ""}`);
  const taken = await within(w.rig.withClaims({ reads, donate: [[h.buffer]] }, async (claims) => {
    if (claims.isExclusive(h.buffer) !== isOwn) throw new Error(`${h} is exclusive: ${!isOwn}`);
    if (reads.length > 0 && claims.isExclusive(other.buffer)) throw new Error("what is read is exclusive");
    if (!isOwn || r.oneIn(3)) {
      const found = await error(() => h.buffer.free());
      if (found?.what !== "Busy") throw new Error(`free under a claim: ${found}`);
    }
    if (doesConsume) return claims.consume(h.buffer, "taken over");
    if (isOwn) return null;
    const found = await error(() => claims.consume(h.buffer, "no"));
    if (found?.code !== "Misuse") throw new Error(`a consume of what is read: ${found}`);
    return null;
  }), "the claims end");
  if (!taken) return;
  const { bytes, label } = alloc;
  const old = [...alloc.handles];
  w.kill(alloc, "taken over");
  alloc.dead = "";
  const own = w.add(taken, alloc, 0);
  for (const { buffer } of old) if (buffer.state !== "dead") throw new Error(`an earlier buffer is ${buffer.state}`);
  if (own.size !== bytes.length || taken.label !== label || taken.device !== alloc.dev.device) throw new Error(`what is taken over is ${own}`);
}

async function error(f) {
  try {
    await f();
  } catch (e) {
    return e;
  }
  return null;
}

/** Wrong commands of the program's own, which only who waits for them or reads hears of. */
async function wrongCommands(w, r) {
  const h = r.of(w.handles.filter(({ dev, size, isEnding }) => dev.isGpu && !isEnding && size > 0));
  if (!h) return;
  const { dev } = h;
  const { device } = dev;
  const isAwaited = r.oneIn(2);
  w.say(`wrong commands over ${h}${isAwaited ? ", awaited" : ""}`);
  const point = device.submit({ writes: [h.buffer], label: "wrong" }, ({ encoder, buffer }) => {
    const { buffer: gpu } = buffer(h.buffer);
    encoder.copyBufferToBuffer(gpu, 0, gpu, 2, 4);
  });
  dev.rejected.add(point.value);
  const calls = [() => h.buffer.toArray(Uint8Array), ...(isAwaited ? [() => device.wait(point)] : [])];
  if (r.oneIn(2)) calls.reverse();
  const tried = calls.map((call) => error(call));
  for (const one of tried) {
    const found = await within(one, "wrong commands are told");
    if (!isError(found, "Rejected")) throw new Error(`${h} after wrong commands: ${found}`);
  }
  await h.buffer.fill(7, { length: 1 });
  h.bytes[0] = 7;
  dev.values += 3;
  same(await h.buffer.toArray(Uint8Array), h.bytes, "bytes after wrong commands");
  dev.values += 1;
  const heard = dev.errors.splice(0);
  if (heard.length !== (isAwaited ? 0 : 1) || heard.some((e) => !isError(e, "Rejected"))) throw new Error(`heard of ${heard}`);
}

/** A scope that takes the bytes away. */
async function transfer(w, r) {
  const h = r.of(w.handles.filter(({ alloc, size }) => !alloc.dev.isGpu && size > 0 && !(alloc.own?.buffer instanceof (globalThis.SharedArrayBuffer ?? Map))));
  if (!h || h.isLost || h.isEnding) return;
  const { alloc } = h;
  const isWrite = alloc.claims.length === 0 && r.oneIn(2);
  w.say(`${isWrite ? "write" : "read"} ${h}, which transfers the bytes away`);
  const wanted = h.bytes.slice();
  const taken = await h.buffer[isWrite ? "write" : "read"]((bytes) => {
    const place = [bytes.byteOffset, bytes.length];
    return new Uint8Array(structuredClone(bytes.buffer, { transfer: [bytes.buffer] }), ...place);
  });
  same(taken, wanted, "bytes that were taken");
  const old = [...alloc.handles];
  w.kill(alloc, "transferred");
  for (const { buffer } of old) if (buffer.state !== "dead") throw new Error(`a buffer without bytes is ${buffer.state}`);
  if (alloc.claims.length === 0) return;
  // Under a claim the memory is live as long as it has handles.
  for (const { buffer } of old) buffer.dispose();
  alloc.isKept = true;
  w.left(alloc);
  for (const claim of alloc.claims.splice(0)) claim.release();
  w.dead = w.dead.filter((buffer) => buffer.state === "dead");
}

function budget(w, r) {
  const dev = r.of(w.devs);
  if (dev.ending) return;
  const [least, most] = BUDGETS[dev.kind];
  const bytes = least + r.below(most - least);
  w.now(`the budget of ${dev} is ${bytes}`, null, () => (dev.device.budget = bytes));
  dev.budget = bytes;
  const { held, cached } = dev.device;
  if (held > bytes && cached > 0) throw new Error(`${held} bytes are held, ${cached} cached`);
}

/** A device ends: the page destroys it, or closes it. */
function lose(w, r) {
  const dev = r.of(w.devs.slice(1));
  if (dev.ending) return;
  if (dev.isGpu && r.oneIn(2)) {
    w.say(`destroy ${dev}`);
    dev.device.gpu.destroy();
    dev.ending = "destroyed";
    return;
  }
  w.call({ text: `close ${dev}`, devs: [dev], make: (signal) => dev.device.close({ signal }), works: false });
  dev.ending = "closed";
}

/** A device that ended is opened again under its name. */
async function openAgain(w, r) {
  const dev = r.of(w.devs.filter(({ isLost }) => isLost));
  if (!dev) return;
  const { device } = dev;
  w.say(`open ${dev} again`);
  for (const one of w.outs.filter(({ alloc }) => alloc.dev === dev)) dropOut(w, one);
  for (const h of w.handles.filter((h) => h.dev === dev || h.alloc.dev === dev)) {
    const { alloc } = h;
    for (const claim of alloc.dev === dev ? alloc.claims.splice(0) : []) claim.release();
    if (alloc.dev === dev && r.oneIn(3) && alloc.handles.has(h)) {
      h.buffer.free();
      w.kill(alloc, "freed");
    } else if (alloc.handles.has(h)) {
      if (alloc.handles.size === 1) for (const claim of alloc.claims.splice(0)) claim.release();
      h.buffer.dispose();
      w.drop(h);
    }
  }
  const began = performance.now();
  const most = dev.limbo.length * 2 * MIB;
  while (device.held > most) {
    if (performance.now() - began > 10_000) throw new Error(`the lost ${dev} holds ${device.held} bytes`);
    await turn();
  }
  const again = await within(error(() => device.createBuffer(8)), "a lost device answers");
  if (again?.code !== "Lost") throw new Error(`a create on the lost ${dev}: ${again}`);
  await within(w.openAgain(dev), `${dev} opens`);
}

export const RARE = {
  wrong: { weight: 8, f: wrong },
  tooMuch: { weight: 1, f: tooMuch },
  claims: { weight: 3, f: claims, alone: true },
  wrongCommands: { weight: 1, f: wrongCommands, alone: true },
  transfer: { weight: 1, f: transfer, alone: true },
  budget: { weight: 1, f: budget, alone: true },
  lose: { weight: 1, f: lose },
  openAgain: { weight: 8, f: openAgain, alone: true },
  pause: { weight: 2, f: turn, alone: true },
};
