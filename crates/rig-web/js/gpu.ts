// A GPU device of the page, as the driver sees it: buffers by number, maps, submissions, fences.
//
// The word rises by a mapped fence buffer alone: the promises of work that is done, and those of
// error scopes, also resolve on a device that is lost. Every event wakes the driver, which looks.
//
// What one microtask asks of the library's own buffers goes to the queue together, with its fence.
// Writes ahead of all that go at once; so does, after what was kept, work that somebody else could
// tell the order of, or that may be found wrong.

import { type Arrays, isResizable } from "./arrays.js";
import { Edges, isWhole, type Place } from "./edge.js";
import { MapMode, Usage } from "./flags.js";
import { type Around, Half, type Way } from "./half.js";
import { mappable, watched } from "./scopes.js";
import { Uniforms } from "./uniforms.js";
import { noWork, run, type Work } from "./work.js";

/** Answers to "what became of it". */
const enum Verdict {
  Pending = 0,
  There = 1,
  Refused = 2,
}

interface Held {
  /** The device's own buffer, or the program's; none for a half. */
  buffer: GPUBuffer | null;
  /** Whether the program brought it, or has it alone. */
  wrapped: boolean;
  /** Whether the program has it. */
  lent: boolean;
  verdict: Verdict;
  /** A half, and the way of it that the host asked for last. */
  half: Half | null;
  asked: Way | null;
}

/** A GPU device. */
export class Gpu {
  readonly device: GPUDevice;
  /** Why the device is lost, or empty. */
  loss = "";
  /** Hears of every encoding that was found wrong: its value, why, and its label. */
  onRejection: (value: number, why: string, label: string) => void = () => undefined;
  readonly #own: boolean;
  readonly #usage: number;
  readonly #around: Around;
  readonly #woke: () => void;
  readonly #over: () => void;
  readonly #edges: Edges;
  readonly uniforms: Uniforms;
  /** The buffers that are there for sure, and that only this library has, and their numbers. */
  readonly #sure = new WeakMap<GPUBuffer, number>();
  readonly #buffers = new Map<number, Held>();
  #nextNumber = 1;
  /** Commands of the program that wait for their submission, by number. */
  readonly #commands = new Map<number, { encoder: GPUCommandEncoder; label: string; isJudged: boolean }>();
  /** What is being offered. */
  #work = noWork();
  /** What waits for the end of this microtask. */
  #kept = noWork();
  /** The ways that went to the queue in it, which are mapped again behind all their work. */
  readonly #used = new Set<Way>();
  #submitted = 0;
  #fenced = 0;
  /** When the oldest fence on the way was put, and when the engine was last kept moving. */
  #fencedMs = 0;
  #nudgedMs = 0;
  #reached = 0;
  #isFencing = false;
  #isStopped = false;
  readonly #fences: GPUBuffer[] = [];
  /** What the next fence waits for besides: whether the commands behind it were found wrong. */
  #judged: Promise<boolean>[] = [];
  /**
   * Maps cancelled since the last fence. The package webgpu looks at the promise of each once more when
   * the device comes to it, and ends Node where it was collected: a later fence has to come first.
   */
  #cancelled: [Promise<void>, () => void][] = [];
  /** Why what was just offered was found wrong. */
  #refused = "";
  /** Why work was found wrong later, each with its first and its last value. */
  #rejections: { first: number; last: number; why: string }[] = [];

  /** Events wake; `over` hears when the driver has stopped it and nothing of it is left. */
  constructor(device: GPUDevice, own: boolean, usage: number, arrays: Arrays, woke: (gpu: Gpu) => void, over: () => void) {
    this.device = device;
    this.#over = over;
    this.#own = own;
    this.#usage = USAGE | usage;
    this.#woke = () => woke(this);
    const left = (way: Way) => {
      // What uses it goes to the queue first.
      if (this.#kept.ways.includes(way)) this.#flush();
      this.#used.delete(way);
    };
    const cancelled: Around["cancelled"] = (...map) => void this.#cancelled.push(map);
    this.#around = { device, arrays, woke: this.#woke, failed: () => this.#mapFailed(), left, cancelled };
    this.#edges = new Edges(device);
    this.uniforms = new Uniforms(device);
    hearLoss(device, new WeakRef(this));
  }

  get architecture(): string {
    const info = (this.device as { adapterInfo?: GPUAdapterInfo }).adapterInfo;
    const words = [info?.vendor, info?.architecture, info?.description];
    return words.filter(Boolean).join(" ") || "WebGPU";
  }

  /** Notes the loss, once. */
  lose(why: string): void {
    if (this.loss) return;
    this.loss = why;
    this.#woke();
  }

  /** Takes a buffer in that the program brought. */
  wrap(buffer: GPUBuffer): number {
    return this.#enter({ ...EMPTY, buffer, wrapped: true });
  }

  /** Returns the GPU buffer of a number. */
  buffer(number: number): GPUBuffer | null {
    return this.#buffers.get(number)?.buffer ?? null;
  }

  /** Returns the number of a buffer that is there for sure, and that only this library has. */
  ownNumber(buffer: GPUBuffer): number | undefined {
    return this.#sure.get(buffer);
  }

  /** Notes that the program has a buffer. */
  lend(number: number): void {
    const held = this.#buffers.get(number);
    if (held) held.lent = true;
    if (held?.buffer) this.#sure.delete(held.buffer);
    // What the program submits itself comes after what was asked before.
    this.#flush();
  }

  /** Leaves a buffer to the program, which has it alone now. */
  letGo(number: number): void {
    const held = this.#buffers.get(number);
    if (held) held.wrapped = true;
  }

  /** Returns why the work of a value was found wrong; empty where it was not. */
  rejection(value: number): string {
    const found = this.#rejections.findLast(({ first, last }) => first <= value && value <= last);
    return found?.why ?? "";
  }

  /** Lets everything go, after the end of the instance: what the program brought or has stays. */
  abandon(why: string): void {
    this.loss ||= why;
    this.#isStopped = true;
    if (this.#own) this.device.destroy();
    for (const [number, held] of this.#buffers) if (!held.lent) this.free(number);
    this.#letGo();
    this.#keepCancelled();
  }

  /** Keeps commands for the submission that follows at once; others may take the verdict on them. */
  addCommands(encoder: GPUCommandEncoder, label: string, isJudged: boolean): number {
    const number = this.#nextNumber++;
    this.#commands.set(number, { encoder, label, isJudged });
    return number;
  }

  /** Forgets commands, submitted or not. */
  dropCommands(number: number): void {
    this.#commands.delete(number);
  }

  alloc(size: number): number {
    const { device } = this;
    const found = watched(device);
    let buffer: GPUBuffer | null = null;
    try {
      buffer = device.createBuffer({ label: "rig", size, usage: this.#usage });
    } catch {
      // An engine may throw what it cannot even describe to its GPU.
    }
    const errors = found();
    if (!buffer) {
      for (const error of errors) error.catch(() => undefined);
      return 0;
    }
    const held: Held = { ...EMPTY, buffer, verdict: Verdict.Pending };
    const number = this.#enter(held);
    const judge = (found: (GPUError | null)[]) => {
      held.verdict = found.some(Boolean) ? Verdict.Refused : Verdict.There;
      if (held.verdict === Verdict.There && !held.lent) this.#sure.set(buffer, number);
      this.#woke();
    };
    // A scope that cannot be popped is one of a device that is being lost.
    Promise.all(errors).then(judge, () => judge([]));
    return number;
  }

  half(length: number): number {
    return this.#enter({ ...EMPTY, half: new Half(this.#around, length) });
  }

  verdict(number: number): number {
    const held = this.#buffers.get(number);
    if (held?.verdict === Verdict.Refused) this.free(number);
    return held?.verdict ?? Verdict.Refused;
  }

  free(number: number): void {
    const held = this.#buffers.get(number);
    if (!held) return;
    this.#buffers.delete(number);
    if (!held.wrapped) held.buffer?.destroy();
    held.half?.destroy();
    this.#lookIfOver();
  }

  map(number: number, isWritten: boolean): number {
    const held = this.#buffers.get(number);
    if (!held?.half) return 1;
    held.asked = held.half.way(isWritten);
    // A map waits for the work that is on the queue.
    if (!isWritten && this.#kept.ways.includes(held.asked)) this.#flush();
    return 0;
  }

  /** Answers the array of what was asked to be mapped, 0 while it is not there; -1 where nothing was. */
  mapped(number: number): number {
    const way = this.#buffers.get(number)?.asked;
    if (!way) return -1;
    return way.ask() ? way.range() : 0;
  }

  copy(src: number, srcAt: number, dst: number, dstAt: number, length: number): void {
    const work = this.#work;
    work.isLarge ||= length > SMALL_MAX;
    this.#add(() => {
      const from = this.#place(src, false, srcAt, length);
      const place = this.#place(dst, true, dstAt, length);
      work.isSure &&= isWhole(place, from);
      work.steps.push((to) => this.#edges.copy(from, place, to));
    });
  }

  fill(dst: number, at: number, length: number, byte: number): void {
    const work = this.#work;
    this.#add(() => {
      const place = this.#place(dst, true, at, length);
      work.isSure &&= byte === 0 && isWhole(place);
      work.steps.push((to) => this.#edges.fill(place, byte, to));
    });
  }

  write(array: number, at: number, dst: number, dstAt: number, length: number): void {
    const work = this.#work;
    const { buffer, offset } = this.#place(dst, true, dstAt, length);
    work.isLarge ||= length > SMALL_MAX;
    // The program's bytes are taken before the call is over: at once, where nothing is kept.
    const bytes = this.#around.arrays.take(array, at, length);
    if (!bytes) return;
    const place = { buffer, offset, length };
    const isOdd = !isWhole(place);
    const isLater = !work.isUrgent && !work.isLarge;
    const isNext = isLater && !isOdd && this.#kept.steps.length === 0;
    // Engines take no memory whose length may change, and the package webgpu ends Node at what is shared.
    const isOther = isResizable(bytes.buffer) || !(bytes.buffer instanceof ArrayBuffer);
    const taken = (isLater && !isNext) || isOther ? bytes.slice() : bytes;
    if (isNext) this.#add(() => this.device.queue.writeBuffer(buffer, offset, taken));
    else work.steps.push(isOdd ? (to) => this.#edges.write(taken, place, to) : { buffer, offset, bytes: taken });
    work.isSure &&= !isOdd;
  }

  native(number: number): void {
    const commands = this.#commands.get(number);
    if (!commands) return;
    this.#work.label = commands.label;
    this.#work.isUrgent = true;
    this.#work.isSure = commands.isJudged;
    this.#work.steps.push(commands.encoder);
  }

  /** Takes the work as a value's, or drops it for value 0. */
  end(value: number): number {
    const work = this.#work;
    this.#work = noWork();
    if (value === 0) return 0;
    let { wrong } = work;
    if (!wrong && work.isUrgent) {
      this.#flush();
      work.values = [value, value];
      wrong = this.#submit(work);
    } else if (!wrong) {
      this.#keep(work, value);
    }
    if (wrong) {
      this.#refused = wrong;
      return 1;
    }
    this.#submitted = value;
    // The host moves the next piece while the device has this one.
    if (work.isLarge) this.#fence();
    else this.#commit();
    return 0;
  }

  /** Keeps the work of a value for the end of this microtask, where some is left of it. */
  #keep({ steps, ways, isSure, isLarge }: Work, value: number): void {
    if (steps.length === 0) return;
    const kept = this.#kept;
    kept.steps.push(...steps);
    for (const way of ways) if (!kept.ways.includes(way)) kept.ways.push(way);
    kept.isSure &&= isSure && !isLarge;
    kept.values[0] ||= value;
    kept.values[1] = value;
  }

  /** Takes the verdict of an error scope on the commands of values, and answers it; value 0 is nobody's. */
  judge(error: Promise<GPUError | null>, values: Work["values"], label: string | null): Promise<boolean> {
    const judged = error.then(
      (found) => {
        if (found) this.#reject(values, found.message, label);
        return !found;
      },
      // A scope that cannot be popped is one of a device that is being lost.
      () => false,
    );
    this.#judged.push(judged);
    return judged;
  }

  /** Has a fence put behind what this microtask submits. */
  #commit(): void {
    if (this.#isFencing || this.#fenced >= this.#submitted) return;
    this.#isFencing = true;
    // Node takes its time for `queueMicrotask`.
    void DONE.then(() => this.#fence());
  }

  /** The word. */
  get reached(): number {
    return this.#reached;
  }

  /** Whether work was found wrong after it was taken. */
  get hasRejected(): boolean {
    return this.#rejections.length > 0;
  }

  /** Asks again for what the engine may have told meanwhile: verdicts, maps, fences. */
  again(): void {
    for (const held of this.#buffers.values()) {
      // Work with it is found wrong where it is not there.
      if (held.verdict === Verdict.Pending) held.verdict = Verdict.There;
      held.half?.again();
    }
    this.#fenced = this.#reached;
    this.#commit();
    this.#woke();
  }

  /** Keeps a slow engine moving: some show what is done only when something is submitted. */
  nudge(): void {
    const now = performance.now();
    const isSlow = this.#reached < this.#fenced && now - this.#fencedMs >= SLOW_MS;
    if (!isSlow || now - this.#nudgedMs < NUDGE_MS) return;
    this.#nudgedMs = now;
    this.device.queue.submit([]);
  }

  stop(): void {
    if (this.#own) this.device.destroy();
    this.loss ||= "closed";
    this.#isStopped = true;
    // What the program has stays with it.
    for (const held of this.#buffers.values()) held.wrapped ||= held.lent;
    this.#letGo();
    this.#lookIfOver();
  }

  /** Returns a text for the driver: the hardware, the loss, or why a value was found wrong. */
  text(what: number, at: number): string {
    if (what === 0) return this.architecture;
    if (what === 1) return this.loss;
    return at === 0 ? this.#refused : this.rejection(at);
  }

  /** Submits what was kept, and takes the verdict on it: that of all its values. */
  #flush(then?: () => void): void {
    const kept = this.#kept;
    if (kept.steps.length === 0) return;
    this.#kept = noWork();
    const wrong = this.#submit(kept, then);
    if (wrong) this.#reject(kept.values, wrong, null);
  }

  /** Encodes and submits work; answers what the engine throws. */
  #submit({ steps, ways, isSure, values, label }: Work, then?: () => void): string {
    const { device } = this;
    let wrong = "";
    for (const way of ways) isSure &&= way.isProven;
    const found = isSure ? null : watched(device);
    try {
      // Work on the queue finds nothing mapped.
      for (const way of ways) way.unmap();
      run(device, steps);
      for (const way of ways) this.#used.add(way);
    } catch (e) {
      wrong = String(e);
    }
    this.#edges.clear();
    then?.();
    for (const error of found?.() ?? []) void this.judge(error, wrong ? [0, 0] : values, label);
    return wrong;
  }

  #fence(): void {
    this.#isFencing = false;
    const value = this.#submitted;
    if (this.loss || this.#fenced >= value) return;
    if (this.#reached === this.#fenced) this.#fencedMs = performance.now();
    this.#fenced = value;
    // One that was mapped before is there.
    this.#kept.isSure &&= this.#fences.length > 0;
    const usage = Usage.MAP_READ | Usage.COPY_DST;
    const fence = this.#fences.pop() ?? mappable(this.device, { label: "rig fence", size: 4, usage });
    this.#kept.steps.push((to) => to.clearBuffer(fence));
    let mapped: Promise<unknown>;
    this.#flush(() => {
      for (const way of this.#used) way.map();
      this.#used.clear();
      mapped = fence.mapAsync(MapMode.READ);
    });
    const judged = this.#judged;
    this.#judged = [];
    const cancelled = this.#cancelled;
    this.#cancelled = [];
    const there = () => {
      if (this.loss) return;
      this.#reached = Math.max(this.#reached, value);
      this.#woke();
    };
    mapped!.then(
      () => {
        for (const [, done] of cancelled) done();
        cancelled.length = 0;
        fence.unmap();
        if (this.#isStopped) fence.destroy();
        else this.#fences.push(fence);
        // Whoever waits for a value learns whether its commands were wrong.
        if (judged.length > 0) return Promise.all(judged).then(there);
        return there();
      },
      () => this.#mapFailed(),
    );
  }

  /** A map that nobody cancelled failed: a loss, whose reason is awaited for a while. */
  #mapFailed(): void {
    setTimeout(() => this.lose("a map failed"), LOSS_MS);
  }

  #reject([first, last]: Work["values"], message: string, label: string | null): void {
    const why = label ? `${label}: ${message}` : message;
    if (this.loss || last === 0) return;
    const others = this.#rejections.filter((other) => other.last !== last);
    this.#rejections = [...others.slice(1 - REJECTIONS_MAX), { first, last, why }];
    if (label !== null) this.onRejection(last, why, label);
    this.#woke();
  }

  /** Lets go of what is nobody's buffer. */
  #letGo(): void {
    for (const fence of this.#fences.splice(0)) fence.destroy();
    this.#edges.end();
    this.uniforms.end();
  }

  #lookIfOver(): void {
    if (!this.#isStopped || this.#buffers.size > 0) return;
    this.#keepCancelled();
    this.#over();
  }

  /** Keeps what was cancelled where no fence comes any more. */
  #keepCancelled(): void {
    const cancelled = this.#cancelled;
    const drop = () => (cancelled.length = 0);
    this.device.queue.onSubmittedWorkDone().then(drop, drop);
  }

  #enter(held: Held): number {
    const number = this.#nextNumber++;
    this.#buffers.set(number, held);
    return number;
  }

  /** A half is read from an upload buffer, and written to a readback buffer. */
  #place(number: number, isWritten: boolean, offset: number, length: number): Place {
    const held = this.#buffers.get(number)!;
    if (held.half) {
      const way = held.half.way(!isWritten);
      if (!this.#work.ways.includes(way)) this.#work.ways.push(way);
      if (isWritten) way.used(offset, length);
      return { buffer: way.buffer, offset, length };
    }
    if (held.wrapped || held.lent || held.verdict !== Verdict.There) {
      this.#work.isUrgent = true;
      this.#work.isSure = false;
    }
    return { buffer: held.buffer!, offset, length };
  }

  /** Adds a step, and keeps what an engine throws for the end: nothing may pass through a call. */
  #add(step: () => void): void {
    try {
      step();
    } catch (e) {
      this.#work.wrong ||= String(e);
    }
  }
}

/** An engine may keep for good what waits for a loss that never comes: that reaches no device. */
function hearLoss(device: GPUDevice, gpu: WeakRef<Gpu>): void {
  void device.lost.then(({ message, reason }) => gpu.deref()?.lose(message || reason || "lost"));
}

const EMPTY: Held = {
  buffer: null,
  wrapped: false,
  lent: false,
  verdict: Verdict.There,
  half: null,
  asked: null,
};
const DONE = Promise.resolve();
const REJECTIONS_MAX = 64;
const LOSS_MS = 1000;
/** How long a wait lasts before the engine is kept moving, and how often that is (S13.12). */
const SLOW_MS = 10;
const NUDGE_MS = 4;
/** A longer copy is a piece of a long one, or stands alone: nothing is gained by keeping it. */
const SMALL_MAX = 2 ** 16;
/** What every buffer can be used for. */
const USAGE = Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST;
