// A walk: random calls of the package, several of them under way at once, beside plain bytes that
// say what each has to come to.
//
// Calls under way leave open what comes first where nothing orders them (README, "Order"). A call
// that meets one under way in this manner is not made; work on one GPU runs in the order of its calls.

import { ACTS } from "./acts.mjs";
import { CALLS } from "./calls.mjs";
import { Dev, Handle } from "./model.mjs";
import { checkAll, end } from "./checks.mjs";
import { Random } from "./random.mjs";
import { RARE } from "./rare.mjs";

const MIB = 2 ** 20;
const SETTLES_MS = 60_000;
const COMMANDS = { ...CALLS, ...ACTS, ...RARE };

export class Walk {
  devs = [];
  handles = [];
  /** Exports, with their memory and their place in it. */
  outs = [];
  /** Memory whose GPU buffer the program has alone. */
  alone = [];
  /** Some buffers that are dead. */
  dead = [];
  /** Calls under way. */
  pending = [];
  /** Buffers whose bytes nobody knows yet, and bytes that are one thing or another. */
  fresh = [];
  open = [];
  log = [];
  #step = 0;
  #names = 0;
  /** How many more calls are made before those under way are awaited. */
  #left = 0;

  constructor(world, rig, seed, weights = {}) {
    Object.assign(this, { world, rig, seed });
    this.weights = Object.fromEntries(Object.entries(COMMANDS).map(([name, { weight }]) => [name, weights[name] ?? weight]));
  }

  /** Walks so many steps, from opening devices to the end of them. */
  async run(steps) {
    try {
      await this.#begin();
      for (this.#step = 1; this.#step <= steps; this.#step += 1) {
        // Calls under way share a microtask, unless something is awaited between them.
        const later = this.#one();
        if (later) await later;
      }
      await this.settle();
      await end(this);
    } catch (e) {
      const program = `RIG_SEED=${this.seed} RIG_STEPS=${steps}`;
      const failure = new Error(`${program} fails at step ${this.#step}: ${e.message}\n${this.log.slice(-25).join("\n")}`);
      failure.stack = e.stack;
      throw failure;
    }
  }

  async #begin() {
    const { rig } = this;
    this.r = new Random(this.seed);
    this.devs = [new Dev("host", rig.host, 40 * MIB), await this.#memory("m"), await this.#memory("n")];
    this.devs[0].values = rig.host.submitted;
    if (this.world.gpu) this.devs.push(await this.#gpu("g"), await this.#gpu("k"));
  }

  async #memory(name) {
    return new Dev("memory", this.rig.memory(name), 3 * MIB);
  }

  async #gpu(name) {
    const isOwn = this.r.oneIn(2);
    const gpu = isOwn ? await this.rig.open(name) : this.rig.adopt(await this.world.gpuDevice(), { name });
    const dev = new Dev("gpu", gpu, 5 * MIB);
    dev.page = isOwn ? null : gpu.gpu;
    return dev;
  }

  /** Opens a device anew under its name. */
  async openAgain(dev) {
    const name = dev.device.name;
    this.devs[this.devs.indexOf(dev)] = dev.isGpu ? await this.#gpu(name) : await this.#memory(name);
  }

  /** Makes the next call; answers what has to be awaited first. */
  #one() {
    // Of its own, so that what one step finds changes none of the others.
    this.r = new Random(Math.imul(this.seed, 7_919) ^ Math.imul(this.#step, 104_729));
    const { r } = this;
    if (this.#left === 0 && r.oneIn(5)) this.#left = 2 + r.below(14);
    const { f, alone } = COMMANDS[r.weighed(this.weights)];
    if (alone) return this.#alone(f, r);
    f(this, r);
    this.#left = Math.max(this.#left - 1, 0);
    if (this.#left === 0) return this.#over(r);
    if (r.oneIn(4)) return r.oneIn(3) ? turn() : Promise.resolve();
    return null;
  }

  async #alone(f, r) {
    await this.settle();
    await f(this, r);
    await this.#over(r);
  }

  async #over(r) {
    await this.settle();
    if (r.oneIn(8)) await checkAll(this);
    const complaints = this.world.complaints ?? [];
    if (complaints.length > 0) throw new Error(`something complains: ${complaints.join("; ")}`);
  }

  say(text) {
    this.log.push(`${this.#step}: ${text}`);
  }

  /** Names a buffer, and knows it from now on. */
  add(buffer, alloc, at, dev) {
    const handle = new Handle(`b${(this.#names += 1)}`, buffer, alloc, at, dev);
    this.handles.push(handle);
    return handle;
  }

  /** Keeps a new buffer until its bytes are known. */
  hatch(buffer, alloc) {
    this.fresh.push(new Handle(`b${(this.#names += 1)}`, buffer, alloc, 0));
  }

  /** Knows a handle no longer, which was disposed, or forgotten, or is dead. */
  drop(handle) {
    handle.alloc.handles.delete(handle);
    this.handles = this.handles.filter((other) => other !== handle);
    this.left(handle.alloc);
  }

  /** Looks whether memory is left that only the engine knows, or only the program. */
  left(alloc) {
    if ((alloc.dead && !alloc.isKept) || alloc.handles.size > 0 || alloc.exports.length > 0) return;
    if (alloc.isForgotten && alloc.isCharged) alloc.dev.limbo.push(alloc.bytes.length);
    if (!alloc.isLent) return;
    // What was lent is the program's alone now.
    alloc.dev.made.delete(alloc.isLent);
    if (!alloc.foreign) this.alone.push(alloc);
  }

  /** Ends all buffers of memory. */
  kill(alloc, why) {
    alloc.dead = why;
    this.dead = [...this.dead, ...[...alloc.handles].map(({ buffer }) => buffer)].slice(-8);
    for (const handle of [...alloc.handles]) this.drop(handle);
  }

  /** Whether a call that touches this comes to something that is known. */
  isFree(touches) {
    const meets = (a, b) => a.alloc === b.alloc && (a.write || b.write) && !(a.order && a.order === b.order);
    return !this.pending.some((call) => call.touches.some((a) => touches.some((b) => meets(a, b))));
  }

  /** Whether a call under way touches memory. */
  isTouched(alloc) {
    return this.pending.some((call) => call.touches.some((touch) => touch.alloc === alloc));
  }

  /**
   * Makes a call that promises something. `refused` is the error that has to come of it; else
   * `effect` happens to the bytes, and `check` looks at what is promised. `undo` is for what a
   * device that ends meanwhile left undone.
   */
  call({ text, touches = [], devs = [], values = [], refused = null, make, effect, check, undo, forgive, works = true, abort = "" }) {
    if (!this.isFree(touches)) return false;
    const given = new AbortController();
    const reason = new Error("given up");
    if (abort === "before") given.abort(reason);
    this.say(`${text}${abort && `, given up ${abort}`}${refused ? `, which is ${refused}` : ""}`);
    const ending = devs.find((dev) => dev.ending);
    const call = { text, touches, devs, refused, check, undo, forgive, reason, abort };
    // Work of a device that is destroyed cannot be done.
    call.isDoomed = works && ending?.ending === "destroyed";
    call.outcome = promised(() => make(abort ? given.signal : undefined));
    if (abort === "after") given.abort(reason);
    if (!refused && abort !== "before") {
      effect?.();
      for (const [dev, count, isLeast] of values) {
        dev.values += count;
        if (isLeast || abort || ending || dev.ending) dev.isVague = true;
      }
    }
    this.pending.push(call);
    return true;
  }

  /** Waits for all calls under way, in any order. */
  async settle() {
    this.#left = 0;
    const { r } = this;
    const calls = this.pending;
    for (let at = calls.length - 1; at > 0; at -= 1) {
      const other = r.below(at + 1);
      [calls[at], calls[other]] = [calls[other], calls[at]];
    }
    for (const call of calls) await this.#settled(call);
    this.pending = [];
    for (const dev of this.devs) await this.#ended(dev);
    for (const one of this.open.splice(0)) await one();
    for (const handle of this.fresh.splice(0)) await this.#learn(handle);
  }

  async #settled({ text, touches, devs, refused, outcome, check, undo, forgive, reason, abort, isDoomed }) {
    const { value, error } = await within(outcome, `${text} settles`);
    if (String(error?.why).includes("internal error")) throw error;
    const isOver = error?.code === "Lost" && devs.some((dev) => dev.ending);
    const wrong = (what) => new Error(`${text}: ${what}`, { cause: error });
    if (abort === "before") {
      if (error !== reason) throw wrong(`${error ?? "success"}, which is not the reason of its signal`);
    } else if (refused) {
      if (!isError(error, refused) && !isOver) throw wrong(`${error ?? "success"}, which has to be ${refused}`);
    } else if (!error) {
      if (isDoomed) throw wrong("done by a device that was destroyed");
      await check?.(value);
    } else if (abort && error === reason) {
      undo?.(true);
    } else if (isOver || (error.what === "Dead" && touches.some(({ alloc }) => alloc.dead))) {
      for (const dev of devs) dev.isVague = true;
      undo?.(false);
    } else if (!forgive?.(error)) {
      throw wrong(`${error} ${JSON.stringify(error)}`);
    }
  }

  /** Waits for the loss of a device that ends. */
  async #ended(dev) {
    if (!dev.ending || dev.isLost) return;
    const lost = await within(dev.device.lost, `${dev} is lost`);
    if (lost.code !== "Lost") throw new Error(`${dev} is lost with ${lost}`);
    dev.isLost = true;
  }

  /** Learns or sets the bytes of a buffer that was just made. */
  async #learn(handle) {
    const { buffer, bytes, isLost } = handle;
    this.handles.push(handle);
    if (isLost) return;
    if (this.r.oneIn(2)) {
      bytes.set(await within(buffer.toArray(Uint8Array), "new bytes are read"));
      if (buffer.device.gpu && bytes.length > 0) this.devOf(buffer.device).values += 1;
      return;
    }
    bytes.set(this.r.bytes(bytes.length));
    await within(buffer.blitFrom(bytes.slice()), "new bytes are set");
    if (buffer.device.gpu && bytes.length > 0) this.devOf(buffer.device).values += 1;
  }

  devOf(device) {
    return this.devs.find((dev) => dev.device === device);
  }

  /** Runs something that is over at once, and has to fail with an error where one is named. */
  now(text, refused, f) {
    this.say(`${text}${refused ? `, which is ${refused}` : ""}`);
    let value;
    try {
      value = f();
    } catch (e) {
      if (refused && isError(e, refused)) return undefined;
      throw new Error(`${text}: ${e} ${JSON.stringify(e)}`, { cause: e });
    }
    if (refused) throw new Error(`${text}: success, which has to be ${refused}`);
    return value;
  }
}

/** Whether an error is of a code or, for Misuse, says that. */
export function isError(error, wanted) {
  return error?.name === "RigError" && (error.code === wanted || (error.code === "Misuse" && error.what === wanted));
}

/** Starts something that promises; answers what came of it, which never rejects. */
function promised(make) {
  const tried = async () => ({ value: await make() });
  return tried().catch((error) => ({ error }));
}

/** What is waited for, by when that has to come: an engine may keep what a timer of its own has. */
const WATCHED = new Set();
let watch = null;

/** Waits for something, but not for ever. */
export async function within(promise, what, ms = SETTLES_MS) {
  const entry = { by: performance.now() + ms };
  const late = new Promise((_, reject) => {
    entry.late = () => reject(new Error(`in ${ms} ms it never came that ${what}`));
  });
  WATCHED.add(entry);
  watch ??= setInterval(look, 1000);
  try {
    return await Promise.race([promise, late]);
  } finally {
    WATCHED.delete(entry);
    if (WATCHED.size === 0) clearInterval(watch);
    if (WATCHED.size === 0) watch = null;
  }
}

function look() {
  for (const { by, late } of WATCHED) if (performance.now() > by) late();
}

export function turn() {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Fails unless bytes are the ones they have to be. */
export function same(found, wanted, what) {
  const at = found.length === wanted.length ? wanted.findIndex((byte, i) => byte !== found[i]) : 0;
  if (at < 0) return;
  const [a, b] = [found, wanted].map((bytes) => `${[...bytes.slice(at, at + 8)]} (${bytes.length})`);
  throw new Error(`${what}: from byte ${at} it is ${a}, not ${b}`);
}
