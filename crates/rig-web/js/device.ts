// Devices: stores of bytes with a timeline, and what is submitted to them.

import { Buffer, numberOf, type Lent } from "./buffer.js";
import { eventLoopTurn, Pacing } from "./collector.js";
import { callable, instance, integer, labelOf, misuse, RigError, type Told, unsupported } from "./error.js";
import type { Gpu } from "./gpu.js";
import type { Instance, Wait } from "./instance.js";
import { Kernel } from "./kernel.js";

/** A device and a value of its timeline. */
export interface Point {
  readonly device: Device;
  readonly value: number;
}
/** What became of cached memory, in bytes. */
export interface Returned {
  readonly returned: number;
  /** What follows once its device is done with it. */
  readonly pending: number;
}
/** A name for people, in reports and errors. */
export type Label = { label?: string };
/** What a submission reads, writes and follows. */
export interface SubmitOptions extends Label {
  reads?: Buffer[];
  writes?: Buffer[];
  after?: Point[];
}
/** What a submission's commands are encoded with. */
export interface Pass {
  readonly encoder: GPUCommandEncoder;
  /** Returns the GPU buffer of one of the submission's buffers, for these commands alone. */
  buffer(b: Buffer): Lent;
}
/** What a device is, fixed when it opened. Sizes are bytes. */
export interface Facts {
  readonly architecture: string;
  readonly driver: string;
  readonly defaultBudget: number;
  readonly largest: number;
  readonly piece: number;
  readonly grain: number;
  readonly hostAddressed: boolean;
}
/** Statistics, as plain data: counts, bytes, nanoseconds. */
export type Stats = Readonly<Record<string, unknown>>;

/** What a device is made of. */
export interface Opened {
  readonly instance: Instance;
  readonly index: number;
  readonly name: string;
  readonly gpu: Gpu | null;
  readonly pacing: boolean;
  /** Returns a device by its index. */
  of(index: number): Device;
}

/** A store of bytes, usually with a processor; its work is one ordered sequence. */
export class Device extends EventTarget {
  readonly #opened: Opened;
  readonly #pacing: Pacing | null;
  readonly #awaited = new Set<number>();
  readonly #logged = new Set<string>();
  #listens = false;
  /** Settles with why the device is lost; never rejects. */
  readonly lost: Promise<RigError>;
  /** What the device is. */
  readonly facts: Facts;

  /** @internal Devices are opened by {@link Rig}. */
  constructor(opened: Opened) {
    super();
    this.#opened = opened;
    this.#pacing = opened.pacing ? new Pacing() : null;
    const { instance: rig, index, gpu } = opened;
    rig.call((e) => e.facts(index));
    this.facts = JSON.parse(rig.answer) as Facts;
    const read = (_: number, text: string) => new RigError(JSON.parse(text) as Told);
    this.lost = rig.quietly((e, t) => e.lost(t, index), read).catch((e: RigError) => e);
    void this.lost.then((error) => this.dispatchEvent(new CustomEvent("lost", { detail: error })));
    if (gpu) gpu.onRejection = (value, why) => this.#rejected(value, why);
  }

  override addEventListener(...args: Parameters<EventTarget["addEventListener"]>): void {
    this.#listens ||= args[0] === "error";
    super.addEventListener(...args);
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
    if (bytes !== Infinity) integer("budget", "budget", bytes);
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
    const label = labelOf("createBuffer", o);
    const { instance: rig } = this.#opened;
    const number = await rig.wait(
      (e, ticket) => {
        if (label) rig.putText(label);
        e.create(ticket, this.index, size);
      },
      (number) => number,
      o,
    );
    const buffer = this.#made(number, size, label);
    if (this.#paced(size)) await eventLoopTurn();
    return buffer;
  }

  /**
   * Makes a buffer at once: from the cache, or from room that is there. For code that cannot await;
   * a loop that never awaits is never served by what it let go of.
   */
  createBufferNow(size: number, o?: Label): Buffer {
    integer("createBufferNow", "size", size);
    const label = labelOf("createBufferNow", o);
    const { instance: rig } = this.#opened;
    const number = rig.call((e) => {
      if (label) rig.putText(label);
      return e.create_now(this.index, size);
    });
    this.#paced(size);
    return this.#made(number, size, label);
  }

  /** Makes a buffer of a GPU buffer of the page, without a copy. It is charged to no budget. */
  wrapGpu(buffer: GPUBuffer, o?: Label): Buffer {
    const { instance: rig, gpu } = this.#opened;
    if (!gpu) throw unsupported(this.name, "this is no GPU device");
    const label = labelOf("wrapGpu", o);
    const size = integer("wrapGpu", "the size of buffer", buffer?.size);
    const number = rig.call((e) => e.wrap_gpu(this.index, gpu.wrap(buffer), size));
    return this.#buffer({ number, size, label, counted: 0 });
  }

  /** Compiles WGSL to a kernel. */
  async kernel(wgsl: string, o?: Label & { entryPoint?: string }): Promise<Kernel> {
    const { gpu, instance: rig, index } = this.#opened;
    if (!gpu) throw unsupported(this.name, "this is no GPU device");
    try {
      return await Kernel.of(this, gpu, wgsl, o);
    } finally {
      // WebGPU compiles on a lost device too, or fails there for no fault of the source.
      await rig.wait((e, ticket) => e.wait(ticket, index, 0), () => undefined);
    }
  }

  /**
   * Submits commands that `encode` encodes, over buffers it names, and returns their point. They
   * are on the queue when this returns. What would have to wait is `WouldWait`.
   */
  submit(o: SubmitOptions, encode?: (pass: Pass) => void): Point {
    const { list, commands } = this.#encoded("submit", o, encode);
    const { instance: rig, gpu } = this.#opened;
    try {
      const value = rig.call((e) => {
        rig.putList(list);
        return e.submit(this.index, commands);
      });
      if (value === 0) {
        const text = "the call would have to wait for work of another device, a claim or room";
        throw misuse("submit", "WouldWait", `${text}; submitWhenReady does`);
      }
      return { device: this, value };
    } finally {
      gpu?.dropCommands(commands);
    }
  }

  /** Submits like {@link Device.submit}, once nothing has to be waited for. */
  async submitWhenReady(o: SubmitOptions & Wait, encode?: (pass: Pass) => void): Promise<Point> {
    const { list, commands } = this.#encoded("submitWhenReady", o, encode);
    const { instance: rig, gpu } = this.#opened;
    try {
      const start = (e: import("./instance.js").Exports, ticket: number) => {
        rig.putList(list);
        e.submit_when_ready(ticket, this.index, commands);
      };
      return await rig.wait(start, (value) => ({ device: this, value }), o);
    } finally {
      gpu?.dropCommands(commands);
    }
  }

  /** Notes that work which the page just queued itself uses these buffers. */
  recordUse(o: { reads?: Buffer[]; writes?: Buffer[] }): Point {
    return this.submit(o);
  }

  /** Waits until a point or a value of this device is reached. */
  async wait(p: Point | number, o?: Wait): Promise<void> {
    const value = integer("wait", "value", typeof p === "number" ? p : p?.value);
    if (typeof p !== "number" && p.device !== this) return p.device.wait(value, o);
    this.#awaited.add(value);
    const { instance: rig } = this.#opened;
    await rig.wait((e, t) => e.wait(t, this.index, value), () => undefined, o);
  }

  /** Returns cached memory that recent use says nobody needs. */
  trim(): Returned {
    return this.#giveBack(0);
  }

  /** Returns all cached memory. */
  freeCache(): Returned {
    return this.#giveBack(1);
  }

  /** Returns the statistics. */
  stats(): Stats {
    const { instance: rig } = this.#opened;
    rig.call((e) => e.stats(this.index));
    return JSON.parse(rig.answer) as Stats;
  }

  /** Waits for the work submitted before, and ends the device. What the page brought stays. */
  async close(): Promise<void> {
    const { instance: rig } = this.#opened;
    await rig.wait((e, t) => e.close(t, this.index), () => undefined);
  }

  /** @internal Its index, for a call of another class. */
  get index(): number {
    return this.#opened.index;
  }

  /** @internal Returns a device by its index. */
  of(index: number): Device {
    return this.#opened.of(index);
  }

  /** @internal Returns the GPU buffer of a number. */
  gpuBuffer(number: number): GPUBuffer | null {
    return this.#opened.gpu?.buffer(number) ?? null;
  }

  /** @internal Counts bytes that a free or a dispose gave back. */
  gaveBack(bytes: number): void {
    this.#pacing?.back(bytes);
  }

  #paced(size: number): boolean {
    return this.#pacing !== null && this.#pacing.made(size, this.budget - this.held);
  }

  #made(number: number, size: number, label: string): Buffer {
    return this.#buffer({ number, size, label, counted: size });
  }

  #buffer(made: { number: number; size: number; label: string; counted: number }): Buffer {
    const { instance } = this.#opened;
    return new Buffer({ instance, device: this, offset: 0, array: 0, arrayLength: 0, ...made });
  }

  /** Checks and encodes a submission. */
  #encoded(call: string, o: SubmitOptions, encode?: (pass: Pass) => void): { list: number[]; commands: number } {
    const reads = instance(call, "reads", o?.reads ?? [], Array<Buffer>);
    const writes = instance(call, "writes", o?.writes ?? [], Array<Buffer>);
    const numbers = [...reads, ...writes].map((buffer) => numberOf(call, "a buffer", buffer));
    const points = instance(call, "after", o?.after ?? [], Array<Point>);
    const after = points.flatMap((point) => {
      const { index } = instance(call, "the device of after", point?.device, Device);
      return [index, integer(call, "after", point.value)];
    });
    const list = [reads.length, writes.length, ...numbers, ...after];
    if (encode === undefined) return { list, commands: 0 };
    callable(call, "encode", encode);
    const { gpu } = this.#opened;
    if (!gpu) throw unsupported(this.name, "this device runs no commands of WebGPU");
    const encoder = gpu.device.createCommandEncoder({ label: labelOf(call, o) });
    const buffer = (b: Buffer) => {
      if (reads.includes(b) || writes.includes(b)) return b.placed(call);
      throw misuse(call, "NotNamed", "the commands use a buffer that reads and writes do not name");
    };
    const answer = encode({ encoder, buffer }) as unknown;
    if (typeof (answer as { then?: unknown } | undefined)?.then === "function") {
      Promise.resolve(answer).catch(() => undefined);
      throw misuse(call, "Promise", "encode answered a promise; commands are encoded while it runs");
    }
    return { list, commands: gpu.addCommands(encoder) };
  }

  #giveBack(all: number): Returned {
    const { instance: rig } = this.#opened;
    rig.call((e) => e.give_back(this.index, all));
    return JSON.parse(rig.answer) as Returned;
  }

  #number(what: number): number {
    return this.#opened.instance.call((e) => e.device_number_of(this.index, what));
  }

  /** Tells of an encoding that was found wrong, unless whoever waits for it hears of it. */
  #rejected(value: number, why: string): void {
    if (this.#awaited.has(value)) return;
    const error = misuse("submit", "Rejected", `the driver rejected the work of ${this.name}:${value}: ${why}`);
    this.dispatchEvent(new CustomEvent("error", { detail: error }));
    if (this.#listens || this.#logged.has(why)) return;
    this.#logged.add(why);
    console.error(error);
  }
}
