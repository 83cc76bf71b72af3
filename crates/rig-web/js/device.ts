// Devices: stores of bytes with a timeline, and what is submitted to them.

import { Buffer, type Lent, type Made, numberOf, type Range } from "./buffer.js";
import { Pacing } from "./collector.js";
import { budgetOf, callable, has, instance, integer, list, options } from "./check.js";
import { lost, misuse, RigError, unsupported } from "./error.js";
import type { Gpu } from "./gpu.js";
import type { Exports, Instance } from "./instance.js";
import { Kernel } from "./kernel.js";
import { Listeners } from "./listeners.js";
import { named, type Said, statsOf } from "./said.js";
import type { DeviceStats, Returned } from "./stats.js";
import { completion, raced, type Wait } from "./wait.js";

/** A device and a value of its timeline. */
export interface Point {
  /** The device. */
  readonly device: Device;
  /** The value: which of its submissions, from 1. */
  readonly value: number;
}
/** What has a name for people. */
export type Label = {
  /** The name, for reports, statistics and errors. */
  label?: string | undefined;
};
/** What a submission names of buffers. */
export interface Uses {
  /** What it reads. */
  reads?: readonly Buffer[] | undefined;
  /** What it writes, and may read. */
  writes?: readonly Buffer[] | undefined;
}
/** What a submission reads, writes and follows. */
export interface SubmitOptions extends Label, Uses {
  /** Points of other devices that it comes after. */
  after?: readonly Point[] | undefined;
}
/** What a kernel is compiled with. */
export interface KernelOptions extends Label, Wait {
  /** The function of the source; its only one by default. */
  entryPoint?: string | undefined;
}
/** What a submission's commands are encoded with. */
export interface Pass {
  /** The encoder that the submission finishes. */
  readonly encoder: GPUCommandEncoder;
  /** Returns the GPU buffer of one of the submission's buffers, for these commands alone. */
  buffer(b: Buffer): Lent;
}
/** What a device is, fixed when it opened. Sizes are bytes. */
export interface Facts {
  /** The hardware's name. */
  readonly architecture: string;
  /** The kind of device: `host`, `memory` or `web`. */
  readonly driver: string;
  /** The budget that it opens with. */
  readonly defaultBudget: number;
  /** The largest allocation. */
  readonly largest: number;
  /** The most bytes that a copy moves at once. */
  readonly piece: number;
  /** The multiple that its memory is allocated in. */
  readonly grain: number;
  /** Whether `read`, `write` and `export` reach its memory. */
  readonly hostAddressed: boolean;
}
/** Hears the events of a device, as an object. */
export interface ListenerObject {
  /** Hears one. */
  handleEvent(event: CustomEvent<RigError>): void;
}
/** Hears the events of a device. */
export type Listener = ((event: CustomEvent<RigError>) => void) | ListenerObject;

/**
 * What a device is made of.
 * @internal
 */
export interface Opened {
  readonly instance: Instance;
  readonly index: number;
  readonly name: string;
  readonly gpu: Gpu | null;
  /** Returns a device by its index. */
  of(index: number): Device;
}

/** A store of bytes, usually with a processor; its work is one ordered sequence. */
export class Device extends EventTarget {
  /** @internal */
  static readonly name = "Device";
  readonly #opened: Opened;
  readonly #pacing: Pacing | null;
  /** How many wait for a value: they hear of its encoding by themselves. */
  readonly #awaited = new Map<number, number>();
  readonly #logged = new Set<string>();
  /** The numbers that were asked for last: what the device answers once its instance has ended. */
  readonly #numbers: number[] = [0, 0, 0, 0, 0];
  readonly #listeners = new Listeners();
  /** Settles with why the device is lost; never rejects. */
  readonly lost: Promise<RigError>;
  /** What the device is. */
  readonly facts: Facts;

  /** @internal Devices are opened by {@link Rig}. */
  constructor(opened: Opened) {
    super();
    this.#opened = opened;
    const { instance: rig, index, name, gpu } = opened;
    this.#pacing = rig.settings.pacing ? new Pacing(() => this.budget - this.held + this.cached) : null;
    rig.call((e) => e.facts(index));
    const facts = named<Facts>(rig.answer, "architecture driver defaultBudget largest piece grain hostAddressed");
    this.facts = { ...facts, hostAddressed: Boolean(facts.hostAddressed) };
    const why = (_: number, [text]: Said) => lost(name, text as string);
    // Rejected by the end of the instance alone.
    const ended = (e: RigError) => lost(name, e.why ?? e.message);
    this.lost = rig.quietly((e, t) => e.lost(t, index), why).catch(ended);
    void this.lost.then((error) => this.dispatchEvent(new CustomEvent("lost", { detail: error })));
    if (gpu) gpu.onRejection = (value, why, label) => this.#rejected(value, why, label);
  }

  /**
   * Listens. `lost` comes once. `error` comes for work that was found wrong and that nobody awaits;
   * while nobody listens, it is logged, once a label.
   */
  override addEventListener(
    type: "error" | "lost",
    listener: Listener | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  /** Listens, to an event of the program's own. */
  override addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  override addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | Listener | null,
    options?: boolean | AddEventListenerOptions,
  ): void {
    super.addEventListener(type, this.#listeners.of("addEventListener", listener as EventListener), options);
  }

  /** Listens no more. */
  override removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | Listener | null,
    options?: boolean | EventListenerOptions,
  ): void {
    super.removeEventListener(type, this.#listeners.of("removeEventListener", listener as EventListener), options);
  }

  /** The name under which it was opened. */
  get name(): string {
    return this.#opened.name;
  }

  /** The page's own GPU device, or null. */
  get gpu(): GPUDevice | null {
    return this.#opened.gpu?.device ?? null;
  }

  /** The most bytes it may hold. Lowering it returns cached memory; live memory stays. */
  get budget(): number {
    return this.#number(0);
  }

  set budget(bytes: number) {
    budgetOf("budget", bytes);
    this.#opened.instance.call((e) => e.set_budget(this.index, bytes));
  }

  /** The bytes it holds: live, returning, cached, staging. */
  get held(): number {
    return this.#number(1);
  }

  /** The bytes that wait for reuse. */
  get cached(): number {
    return this.#number(2);
  }

  /** The last value assigned. */
  get submitted(): number {
    return this.#number(3);
  }

  /** The last value reached. */
  get reached(): number {
    return this.#number(4);
  }

  /**
   * Makes a buffer. Waits where there is no room: for work that keeps memory from returning, and
   * for the engine to find handles that nobody can reach.
   */
  async createBuffer(size: number, o?: Wait & Label): Promise<Buffer> {
    integer("createBuffer", "size", size);
    const label = this.#tagged("createBuffer", o);
    const { instance: rig, index } = this.#opened;
    const dropped = rig.dropped.takeOne();
    const made = rig.begin((e, ticket) => e.create(ticket, index, size, dropped), o);
    const number = typeof made === "number" ? made : await made;
    const buffer = this.#made(number, size, label);
    const turn = this.#pacing?.made(size);
    if (turn) await turn;
    return buffer;
  }

  /**
   * Makes a buffer at once: from the cache, or from room that is there. For code that cannot await;
   * a loop that never awaits is never served by what it let go of. A refusal presses the engine to
   * find what was forgotten, so that a later frame finds room.
   */
  createBufferNow(size: number, o?: Label): Buffer {
    integer("createBufferNow", "size", size);
    const label = this.#tagged("createBufferNow", o);
    const { instance: rig, index } = this.#opened;
    const dropped = rig.dropped.takeOne();
    try {
      const number = rig.call((e) => e.create_now(index, size, dropped));
      this.#pacing?.made(size);
      return this.#made(number, size, label);
    } catch (error) {
      if ((error as RigError).code === "OutOfMemory") {
        // What is cached did not serve: a later frame finds its room.
        rig.event((e) => e.give_back(index, 1));
        this.#pacing?.refused();
      }
      throw error;
    }
  }

  /**
   * Puts the label and the call site in for the call that follows, unless that is given up already;
   * answers the label.
   */
  #tagged(call: string, o: (Wait & Label) | undefined): string {
    const { instance: rig } = this.#opened;
    if (o === undefined && !rig.settings.tracePool) return "";
    const { label = "", signal } = options(call, o);
    if (signal?.aborted) throw signal.reason;
    if (label) rig.putText(label);
    if (rig.settings.tracePool) rig.putSite(callSite());
    return label;
  }

  /**
   * Makes a buffer of a GPU buffer of the page, or of a range of it, without a copy. It is charged
   * to no budget, and the GPU buffer is never destroyed.
   */
  wrapGpu(buffer: GPUBuffer, o?: Range & Label): Buffer {
    has("wrapGpu", "buffer", buffer, "GPUBuffer", "mapAsync", "destroy", "size", "usage");
    const { offset = 0, length, label = "" } = options("wrapGpu", o);
    integer("wrapGpu", "offset", offset);
    const { size } = buffer;
    integer("wrapGpu", "length", length === undefined ? 0 : length);
    const { instance: rig, gpu } = this.#opened;
    if (!gpu) throw unsupported(this.name, "this is no GPU device");
    const number = rig.call((e) => e.wrap_gpu(this.index, gpu.wrap(buffer), size));
    const whole = this.#made(number, size, label, buffer);
    if (offset === 0 && (length ?? size) === size) return whole;
    try {
      return whole.view(offset, length);
    } finally {
      whole.dispose();
    }
  }

  /** Compiles WGSL to a kernel. */
  async kernel(wgsl: string, o?: KernelOptions): Promise<Kernel> {
    const opts = options("kernel", o);
    return raced(this.#kernel(wgsl, opts), opts);
  }

  async #kernel(wgsl: string, o: KernelOptions): Promise<Kernel> {
    const { gpu, instance: rig, index } = this.#opened;
    Kernel.check(wgsl, o);
    if (!gpu) throw unsupported(this.name, "this is no GPU device");
    try {
      return await Kernel.of(this, gpu, wgsl, o);
    } finally {
      // WebGPU compiles on a lost device too, or fails there for no fault of the source.
      await rig.wait((e, ticket) => e.wait(ticket, index, 0));
    }
  }

  /**
   * Submits commands that `encode` encodes, over buffers it names, and returns their point. They
   * are on the queue when this returns. What would have to wait is `WouldWait`.
   */
  submit(o: SubmitOptions, encode?: (pass: Pass) => void): Point {
    return this.#opened.instance.dropped.kept(() => this.#submit("submit", o, encode));
  }

  /** @internal Submits the commands of a kernel, which takes the engine's verdict on them. */
  submitRun(o: SubmitOptions, encode: (pass: Pass) => void): Point {
    return this.#opened.instance.dropped.kept(() => this.#submit("run", o, encode));
  }

  #submit(call: "submit" | "run", o: SubmitOptions, encode?: (pass: Pass) => void): Point {
    const { list, commands } = this.#encoded(call, o, encode);
    const { instance: rig, gpu } = this.#opened;
    try {
      const value = rig.call((e) => {
        rig.putList(list);
        return e.submit(this.index, commands);
      });
      if (value === 0) {
        const text = "the call would have to wait for work of another device, a claim or room";
        throw misuse(call, "WouldWait", `${text}; ${call === "run" ? "await that first" : "submitWhenReady does"}`);
      }
      return { device: this, value };
    } finally {
      gpu?.dropCommands(commands);
    }
  }

  /** Submits like {@link Device.submit}, once nothing has to be waited for. */
  submitWhenReady(o: SubmitOptions & Wait, encode?: (pass: Pass) => void): Promise<Point> {
    return this.#opened.instance.dropped.kept(() => this.#submitWhenReady(o, encode));
  }

  async #submitWhenReady(o: SubmitOptions & Wait, encode?: (pass: Pass) => void): Promise<Point> {
    const { list, commands } = this.#encoded("submitWhenReady", o, encode);
    const { instance: rig, gpu } = this.#opened;
    try {
      const start = (e: Exports, ticket: number) => {
        rig.putList(list);
        e.submit_when_ready(ticket, this.index, commands);
      };
      return await rig.wait(start, o, (value) => ({ device: this, value }));
    } finally {
      gpu?.dropCommands(commands);
    }
  }

  /** Notes that work which the page just queued itself uses these buffers. */
  recordUse(o: Uses): Point {
    const { reads = [], writes = [] } = options("recordUse", o);
    return this.submit({ reads, writes });
  }

  /** Waits until a point or a value of this device is reached. */
  wait(p: Point | number, o?: Wait): Promise<void> {
    return completion(this.#wait(p, o));
  }

  async #wait(p: Point | number, o?: Wait): Promise<void> {
    const { instance: rig } = this.#opened;
    const value = integer("wait", "value", typeof p === "number" ? p : p?.value);
    options("wait", o);
    if (typeof p !== "number") {
      indexOf("wait", "the device of the point", p.device, rig);
      if (p.device !== this) return p.device.wait(value, o);
    }
    const count = (more: number) => {
      const now = (this.#awaited.get(value) ?? 0) + more;
      if (now > 0) this.#awaited.set(value, now);
      else this.#awaited.delete(value);
    };
    count(1);
    try {
      await rig.wait((e, t) => e.wait(t, this.index, value), o);
    } finally {
      count(-1);
    }
  }

  /** Returns cached memory that recent use says nobody needs. */
  trim(): Returned {
    return this.#giveBack(0);
  }

  /** Returns all cached memory. */
  freeCache(): Returned {
    return this.#giveBack(1);
  }

  /** Returns the statistics, and what is live. It looks through all that the device pays for. */
  stats(): DeviceStats {
    const { instance: rig } = this.#opened;
    rig.call((e) => e.stats(this.index));
    return statsOf(rig.answer);
  }

  /** Waits for the work submitted before, and ends the device. What the page brought stays. */
  close(o?: Wait): Promise<void> {
    return completion(this.#close(o));
  }

  async #close(o?: Wait): Promise<void> {
    options("close", o);
    const { instance: rig } = this.#opened;
    await rig.wait((e, t) => e.close(t, this.index), o);
  }

  /** @internal */
  static is(value: object): value is Device {
    return #opened in value;
  }

  /** @internal Its index, for a call of another class. */
  get index(): number {
    return this.#opened.index;
  }

  /** @internal Its index in an instance, which has to be its own. */
  indexIn(rig: Instance, call: string, name: string): number {
    if (this.#opened.instance === rig) return this.index;
    throw misuse(call, "Option", `${name} is of another instance of rig`);
  }

  /** @internal Returns a device by its index. */
  of(index: number): Device {
    return this.#opened.of(index);
  }

  /** @internal Checks that a buffer is on this device. */
  checkHas(call: string, name: string, { device }: Buffer): void {
    if (device !== this) throw misuse(call, "WrongDevice", `${name} is on ${device.name}, not on ${this.name}`);
  }

  /** @internal Returns the GPU buffer of a number. */
  gpuBuffer(number: number): GPUBuffer | null {
    return this.#opened.gpu?.buffer(number) ?? null;
  }

  /** @internal Notes that the page has a GPU buffer of its own now. */
  lends(number: number): void {
    this.#opened.gpu?.lend(number);
  }

  /** @internal Fails if what wrote the bytes that were read was found wrong. */
  checkWritten(call: string, value: number): void {
    const why = value > 0 ? this.#opened.gpu?.rejection(value) : "";
    if (why) throw this.#rejection(call, value, why);
  }

  /** @internal Counts bytes that a free or a dispose gave back. */
  gaveBack(bytes: number): void {
    this.#pacing?.back(bytes);
  }

  #made(number: number, size: number, label: string, foreign?: GPUBuffer): Buffer {
    const { instance } = this.#opened;
    const made = { instance, device: this, number, size, offset: 0, label, counted: foreign ? 0 : size, foreign };
    return new Buffer(made).renew();
  }

  /** Checks and encodes a submission. */
  #encoded(call: string, o: SubmitOptions, encode?: (pass: Pass) => void): { list: number[]; commands: number } {
    const { reads = [], writes = [], after = [], label = "" } = options(call, o);
    if (encode !== undefined) callable(call, "encode", encode);
    const { gpu, instance: rig } = this.#opened;
    const buffers: Buffer[] = [];
    const numbers = (all: readonly Buffer[]) =>
      list(call, "a list of buffers", all, (buffer) => {
        buffers.push(buffer);
        return numberOf(call, "a buffer", buffer, rig);
      });
    const read = numbers(reads);
    const all = [read.length, 0, ...read, ...numbers(writes)];
    all[1] = buffers.length - read.length;
    list(call, "after", after, (point) => {
      const index = indexOf(call, "the device of after", point?.device, rig);
      const value = integer(call, "after", point.value);
      // Value 0 is reached from the start.
      if (value > 0) all.push(index, value);
    });
    if (encode === undefined) return { list: all, commands: 0 };
    if (!gpu) throw unsupported(this.name, "this device runs no commands of WebGPU");
    const encoder = gpu.device.createCommandEncoder({ label });
    let isOver = false;
    const buffer = (b: Buffer) => {
      if (isOver) throw misuse(call, "Ended", "the commands were encoded; lend the buffer to keep its GPU buffer");
      if (!buffers.includes(b)) throw misuse(call, "NotNamed", "the commands use a buffer that reads and writes do not name");
      this.checkHas(call, "the buffer", b);
      return b.placed(call);
    };
    let answer: unknown;
    try {
      answer = encode({ encoder, buffer });
    } finally {
      isOver = true;
    }
    if (typeof (answer as { then?: unknown } | undefined)?.then === "function") {
      Promise.resolve(answer).catch(() => undefined);
      throw misuse(call, "Promise", "encode answered a promise; commands are encoded while it runs");
    }
    return { list: all, commands: gpu.addCommands(encoder, label, call === "run") };
  }

  #giveBack(all: number): Returned {
    const { instance: rig } = this.#opened;
    rig.call((e) => e.give_back(this.index, all));
    return named(rig.answer, "returned pending");
  }

  #number(what: number): number {
    const { instance: rig } = this.#opened;
    if (rig.dead) return this.#numbers[what]!;
    return (this.#numbers[what] = rig.call((e) => e.device_number_of(this.index, what)));
  }

  #rejection(call: string, value: number, why: string): RigError {
    return misuse(call, "Rejected", `the driver rejected the work of ${this.name}:${value}: ${why}`);
  }

  /** Tells of an encoding that was found wrong, unless whoever waits for it hears of it. */
  #rejected(value: number, why: string, label: string): void {
    if (this.#awaited.has(value)) return;
    const error = this.#rejection("submit", value, why);
    const isHeard = this.#listeners.hear(() => this.dispatchEvent(new CustomEvent("error", { detail: error })));
    const what = label || why;
    if (isHeard || this.#logged.has(what) || this.#logged.size === LOGGED_MAX) return;
    this.#logged.add(what);
    console.error(error);
  }
}

/** The most errors of encodings, by label, that reach the console. */
const LOGGED_MAX = 100;

/** @internal Checks that something is a device of an instance, and returns its index. */
export function indexOf(call: string, name: string, device: unknown, rig: Instance): number {
  return instance(call, name, device, Device).indexIn(rig, call, name);
}

/** Returns where in the program the call that asks was made, as the engine writes it. */
function callSite(): string {
  const frames = (new Error().stack ?? "").split("\n").filter((line) => /:\d+:\d+/.test(line));
  // This function and its caller, the call, which WebKit names twice where it is async, and who made it.
  const isTwice = frames[3]?.includes("createBuffer@");
  return (frames[isTwice ? 4 : 3] ?? "").trim().replace(/^at /, "") || "an unknown place";
}
