// Buffers: handles of bytes on a device.

import { type Device, indexOf, type Point } from "./device.js";
import { arrayOf, bytesOf, callable, instance, integer, options } from "./check.js";
import { dead, misuse, outOfRoom, unsupported } from "./error.js";
import { Export } from "./export.js";
import { Usage, WORD } from "./flags.js";
import type { Exports, Instance } from "./instance.js";
import { listed, type Said } from "./said.js";
import { completion, promised, type Wait } from "./wait.js";

/** Bytes in memory. */
export type Bytes = ArrayBufferView | ArrayBuffer;
/** Part of a buffer, in bytes. */
export type Range = {
  /** Where it starts; 0 by default. */
  offset?: number | undefined;
  /** How long it is; what is left by default. */
  length?: number | undefined;
};
/** A class of typed arrays. */
export type TypedCtor<T> = {
  /** Makes one of so many elements. */
  new (count: number): T;
  /** The bytes of an element. */
  readonly BYTES_PER_ELEMENT: number;
};
/** A GPU buffer and a range of it. */
export interface Lent {
  /** The GPU buffer. */
  readonly buffer: GPUBuffer;
  /** Where the range starts in it. */
  readonly offset: number;
  /** The bytes of the range. */
  readonly size: number;
}
/** The points that memory remembers. */
export interface Stamps {
  /** The point of the last write; null before any. */
  readonly write: Point | null;
  /** The point of the last use on each device, writes included. */
  readonly uses: readonly Point[];
}
/** Keeps the host from writing a buffer's memory until it is released. */
export interface Claim extends Disposable {
  /** Ends the claim; again does nothing. */
  release(): void;
}

/**
 * What a buffer is made of, which does not change.
 * @internal
 */
export interface Made {
  readonly instance: Instance;
  readonly device: Device;
  /** The device of its memory, where it is a borrow. */
  readonly home?: Device;
  readonly number: number;
  readonly size: number;
  readonly offset: number;
  readonly label: string;
  /** The bytes of its whole memory, where it is a view. */
  readonly whole?: number;
  /** The bytes that its device's pacing counted for it; 0 for views, borrows and wrapped memory. */
  readonly counted: number;
  /** The page's own GPU buffer, where it is one. */
  readonly foreign?: GPUBuffer;
  /** The number of the array that holds its bytes, or 0; asked for where it is not known. */
  readonly array?: number;
}

/**
 * Bytes of one allocation, on one device. Its memory comes back by itself once no buffer, view or
 * borrow of it can be reached; {@link Buffer.dispose} and {@link Buffer.free} are never needed.
 */
export class Buffer {
  /** @internal */
  static readonly name = "Buffer";
  readonly #made: Made;
  readonly #array: number;
  #number: number;

  /** @internal Buffers are made by devices. */
  constructor(made: Made) {
    this.#made = made;
    this.#number = made.number;
    const isHere = made.device.facts.hostAddressed;
    this.#array = made.array ?? (isHere ? made.instance.look((e) => e.array_of(made.number)) : 0);
    made.instance.dropped.watch(this, made.number);
  }

  /** The device that the buffer is on. */
  get device(): Device {
    return this.#made.device;
  }

  /** Its bytes. */
  get size(): number {
    return this.#made.size;
  }

  /** Where it starts in its allocation. */
  get offset(): number {
    return this.#made.offset;
  }

  /** Its label; empty where it has none. */
  get label(): string {
    return this.#made.label;
  }

  /** Whether it can be used: `dead` once its memory was freed, `disposed` once its handle was. */
  get state(): "live" | "dead" | "disposed" {
    if (this.#number === 0) return "disposed";
    if (this.#isGone() || this.#made.instance.dead) return "dead";
    return this.#made.instance.call((e) => e.is_dead(this.#number)) ? "dead" : "live";
  }

  /** Returns the points that its memory remembers. */
  stamps(): Stamps {
    const { instance: rig, device } = this.#made;
    const number = this.#live("stamps");
    rig.call((e) => e.stamps(number));
    const said = rig.answer as number[];
    const point = () => ({ device: device.of(said.shift()!), value: said.shift()! });
    const [write = null] = listed(said, point);
    return { write, uses: listed(said, point) };
  }

  /**
   * Waits for the last write, and gives `f` the bytes in place for its synchronous run. The view
   * has length 0 afterwards, but of memory that is wrapped or exported. Memory that the host does
   * not address is `Unsupported`.
   */
  read<R>(f: (bytes: Uint8Array) => R, o?: Wait): Promise<R> {
    return this.#access("read", 0, f, o);
  }

  /** Waits for every use, and gives `f` the bytes in place to change, like {@link Buffer.read}. */
  write<R>(f: (bytes: Uint8Array) => R, o?: Wait): Promise<R> {
    return this.#access("write", 1, f, o);
  }

  /** Promises a fresh typed array with the bytes of a range, from any buffer. */
  toArray<T extends ArrayBufferView>(type: TypedCtor<T>, o?: Range & Wait): Promise<T> {
    // Making the array may run code of the program, after the buffer's number was read.
    const ask = () => {
      callable("toArray", "type", type);
      const { offset, length } = this.#range("toArray", o);
      const number = this.#live("toArray");
      this.#inRange("toArray", offset, length);
      const out = arrayOf("toArray", type, length);
      return this.#blit("toArray", number, offset, bytesOf("toArray", "type", out), out, o);
    };
    return promised(() => this.#made.instance.dropped.kept(ask));
  }

  /** Copies bytes from `offset` on into a typed array of the program, and promises that. */
  blitTo<T extends ArrayBufferView>(out: T, o?: Pick<Range, "offset"> & Wait): Promise<T> {
    return promised(() => {
      if (!ArrayBuffer.isView(out)) throw misuse("blitTo", "Option", "out is no typed array");
      return this.#moved("blitTo", out, out, o);
    });
  }

  /** Copies bytes into the buffer, from `offset` on. They are taken before this returns. */
  blitFrom(data: Bytes, o?: Pick<Range, "offset"> & Wait): Promise<void> {
    return completion(promised(() => this.#moved("blitFrom", data, undefined, o)));
  }

  /** Sets every byte of a range. */
  fill(byte: number, o?: Range & Wait): Promise<void> {
    return completion(this.#fill(byte, o));
  }

  async #fill(byte: number, o?: Range & Wait): Promise<void> {
    if (integer("fill", "byte", byte) > 255) {
      throw misuse("fill", "Option", `byte is ${byte}, which is not 0 to 255`);
    }
    const { offset, length } = this.#range("fill", o);
    const number = this.#live("fill");
    this.checkUsage("fill", Usage.COPY_DST | (byte > 0 || isOdd(this.offset + offset, length) ? Usage.STORAGE : 0));
    await this.#made.instance.wait((e, t) => e.fill(t, number, offset, length, byte), o);
    this.checkThere("fill");
  }

  /** Returns a buffer over part of this one. */
  view(offset: number, length?: number): Buffer {
    const { length: size } = this.#part("view", offset, length);
    const number = this.#live("view");
    const made = this.#made.instance.call((e) => e.view(number, offset, size));
    const whole = this.#made.whole ?? this.size;
    return this.#other({ number: made, size, offset: this.offset + offset, whole });
  }

  /** Returns a buffer on another device over the same bytes, without a copy, or null. */
  borrow(device: Device): Buffer | null {
    const { instance: rig } = this.#made;
    const index = indexOf("borrow", "device", device, rig);
    const number = this.#live("borrow");
    const made = rig.call((e) => e.borrow(index, number));
    const home = this.#made.home ?? this.device;
    return made === 0 ? null : this.#other({ number: made, device, home });
  }

  /** Keeps the host from writing the memory until the claim is released. */
  claimRead(): Claim {
    const number = this.#live("claimRead");
    const { instance: rig } = this.#made;
    let kept = rig.call((e) => e.claim_read(number));
    const release = () => {
      if (kept !== 0) rig.dropKept(kept);
      kept = 0;
    };
    const claim = { release, [Symbol.dispose]: release };
    rig.dropped.watch(claim, -kept);
    return claim;
  }

  /**
   * Waits for every use, and hands the bytes out, outside the claims for good. Memory that the host
   * does not address is `Unsupported`.
   */
  async export(o?: Wait): Promise<Export> {
    options("export", o);
    const number = this.#live("export");
    const { instance: rig } = this.#made;
    const made = (kept: number, said: Said) => new Export(rig, kept, said as number[]);
    return rig.wait((e, t) => e.export(t, number), o, made);
  }

  /**
   * Lends the GPU buffer itself, for bind groups and commands of the program. From now on its
   * memory is never given to another buffer; {@link Buffer.free} ends it.
   */
  lend(): Lent {
    const number = this.#live("lend");
    const { instance: rig, device } = this.#made;
    if (!device.gpu) throw unsupported(device.name, "lend: this memory is no GPU buffer");
    const lent = rig.call((e) => e.lend(number));
    device.lends(lent);
    return this.#lentBy(device, lent, "lend");
  }

  /** Ends all buffers of the allocation now. They are dead then, and say so. */
  free(): void {
    const { instance: rig } = this.#made;
    if (rig.dead) return;
    const number = this.#live("free");
    rig.call((e) => e.free(number));
    this.#uncount();
  }

  /** Drops this handle; again does nothing. A call in progress goes on. */
  dispose(): void {
    if (this.#number === 0) return;
    const number = this.#number;
    this.#number = 0;
    const { instance: rig } = this.#made;
    if (rig.dead) return;
    rig.dropped.disposed(this, number);
    this.#uncount();
  }

  /** Drops this handle, as `using` does. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal */
  static is(value: object): value is Buffer {
    return #made in value;
  }

  /** @internal Its tag: frameworks make proxies of what has none. */
  get [Symbol.toStringTag](): string {
    return "Buffer";
  }

  /** @internal The number, for a call of another class of an instance. */
  numberIn(rig: Instance, call: string, name: string): number {
    if (this.#made.instance === rig) return this.#live(call);
    throw misuse(call, "Option", `${name} is of another instance of rig`);
  }

  /**
   * @internal Fails where a GPU buffer of the page lacks a usage that a call needs. Edges that are
   * no whole words are patched by a compute pass.
   */
  checkUsage(call: string, needed: number): void {
    const { foreign, device } = this.#made;
    if (!foreign || (foreign.usage & needed) === needed) return;
    const lacking = USAGES.filter(([usage]) => usage & needed & ~foreign.usage).map(([, name]) => name);
    throw unsupported(device.name, `${call}: the page's GPU buffer lacks the usage ${lacking.join(" and ")}`);
  }

  /**
   * @internal Fails where its device binds nothing, and where it ends within a word, unless its
   * memory ends there too (S6.7).
   */
  checkBinding(call: string, name: string): void {
    const multiple = this.offset > 0 ? (this.device.gpu?.limits.minStorageBufferOffsetAlignment ?? 1) : 1;
    if (this.offset % multiple > 0) {
      throw misuse(call, "Rejected", `${name} is a view from byte ${this.offset} on, which is no multiple of ${multiple}`);
    }
    if (this.size % WORD === 0 || this.offset + this.size === (this.#made.whole ?? this.size)) return;
    throw misuse(call, "Rejected", `${name} is a view of ${this.size} bytes, which ends within a word of its buffer`);
  }

  /** @internal Fails if the program took the bytes away while a call ran. */
  checkThere(call: string): void {
    if (this.#isGone()) throw dead(call, this.#made.instance.arrays.whyGone(this.#array));
  }

  /** @internal Gives new bytes to memory that comes again after a program took its bytes away. */
  renew(): this {
    if (!this.#isGone()) return this;
    try {
      this.#made.instance.arrays.renew(this.#array);
      return this;
    } catch {
      this.dispose();
      throw outOfRoom(this.size);
    }
  }

  /** @internal Returns the buffer that its memory was taken over by, on the device of that. */
  takenOver(number: number): Buffer {
    const { array: _, home, ...made } = this.#made;
    return new Buffer({ ...made, device: home ?? made.device, number, offset: 0, counted: 0 });
  }

  /** @internal The GPU buffer for a submission's commands, without lending it. */
  placed(call: string): Lent {
    const number = this.#live(call);
    const { instance: rig, device } = this.#made;
    return this.#lentBy(device, rig.call((e) => e.region_of(number)), call);
  }

  #lentBy(device: Device, number: number, call: string): Lent {
    const buffer = device.gpuBuffer(number);
    if (!buffer) throw unsupported(device.name, `${call}: this memory is no GPU buffer`);
    return { buffer, offset: this.offset, size: this.size };
  }

  async #access<R>(call: string, write: number, f: (bytes: Uint8Array) => R, o?: Wait): Promise<R> {
    callable(call, "f", f);
    options(call, o);
    const { instance: rig } = this.#made;
    const live = this.#live(call);
    // The call goes on if the handle is disposed meanwhile.
    const own = rig.call((e) => e.again(live));
    try {
      for (;;) {
        await rig.wait((e, t) => e.ready(t, own, write), o);
        const access = rig.call((e) => e.access(own, write));
        if (access !== 0) return this.#run(call, own, access, f);
      }
    } finally {
      rig.event((e) => e.drop_kept(own));
    }
  }

  #run<R>(call: string, own: number, access: number, f: (bytes: Uint8Array) => R): R {
    const { instance: rig } = this.#made;
    const [array, offset, length] = rig.answer as [number, number, number];
    let value: R;
    try {
      if (array !== 0 && rig.arrays.isGone(array)) throw dead(call, rig.arrays.whyGone(array));
      value = array === 0 ? f(new Uint8Array(0)) : rig.arrays.scope(array, offset, length, f);
    } finally {
      rig.dropKept(access);
      // Its bytes are the program's now; nothing finds them here any more.
      if (array !== 0 && rig.arrays.isGone(array)) this.#lose(own);
    }
    if (typeof (value as { then?: unknown } | null)?.then === "function") {
      Promise.resolve(value).catch(() => undefined);
      throw misuse(call, "Promise", "the function answered a promise; it has the bytes only while it runs");
    }
    return value;
  }

  /** Ends the buffers of memory whose bytes the program took away. */
  #lose(own: number): void {
    try {
      this.#made.instance.call((e) => e.lose(own));
    } catch {
      // Dead already, or kept by what says so itself.
    }
  }

  /** Copies between bytes of the program and the buffer, from an offset on; promises `answer`. */
  #moved<T>(call: (typeof BLITS)[number], data: Bytes, answer: T, o?: Pick<Range, "offset"> & Wait): Promise<T> {
    const bytes = bytesOf(call, call === "blitTo" ? "out" : "data", data);
    const { offset } = this.#range(call, o);
    const number = this.#live(call);
    this.#inRange(call, offset, bytes.length);
    return this.#blit(call, number, offset, bytes, answer, o);
  }

  /** Starts a blit, and promises `answer` unless something was taken away or found wrong meanwhile. */
  #blit<T>(call: (typeof BLITS)[number], number: number, offset: number, bytes: Uint8Array, answer: T, o?: Wait): Promise<T> {
    const { instance: rig, device } = this.#made;
    const { length } = bytes;
    const isOut = call !== "blitFrom";
    const patched = isOdd(this.offset + offset, length) ? Usage.STORAGE : 0;
    this.checkUsage(call, isOut ? Usage.COPY_SRC : Usage.COPY_DST | patched);
    // The value that wrote last what is read, where it may be found wrong.
    let written = 0;
    const start = (e: Exports, ticket: number) => {
      const array = rig.arrays.add(bytes, true);
      written = e.blit(ticket, number, offset, array, length, BLITS.indexOf(call));
      if (!isOut) rig.arrays.keep(array, bytes);
    };
    const done = () => {
      this.checkThere(call);
      if (!isOut) return answer;
      if (bytes.length !== length) throw misuse(call, "Detached", "the array was taken away meanwhile");
      device.checkWritten(call, written);
      return answer;
    };
    // A program that takes the bytes away right after the call is told too.
    return rig.wait(start, o).then(done);
  }

  /** Checks and returns a range of the buffer. */
  #range(call: string, o: (Range & Wait) | undefined): { offset: number; length: number } {
    const { offset = 0, length } = options(call, o);
    return this.#part(call, offset, length);
  }

  #part(call: string, offset: number, length?: number): { offset: number; length: number } {
    integer(call, "offset", offset);
    return { offset, length: integer(call, "length", length === undefined ? Math.max(this.size - offset, 0) : length) };
  }

  #inRange(call: string, offset: number, length: number): void {
    if (offset + length <= this.size) return;
    throw misuse(call, "OutOfRange", `the range ends at ${offset + length} of ${this.size} bytes`);
  }

  #other(changed: Partial<Made>): Buffer {
    return new Buffer({ ...this.#made, array: this.#array, counted: 0, ...changed });
  }

  /** Whether the program took the bytes away. */
  #isGone(): boolean {
    return this.#array !== 0 && this.#made.instance.arrays.isGone(this.#array);
  }

  #live(call: string): number {
    if (this.#number === 0) throw misuse(call, "Disposed", "the buffer is disposed");
    this.checkThere(call);
    return this.#number;
  }

  #uncount(): void {
    this.#made.device.gaveBack(this.#made.counted);
  }
}

/** @internal Whether bytes start or end within a word of WebGPU's. */
export function isOdd(offset: number, length: number): boolean {
  return (offset | length) % WORD !== 0;
}

/** The usages that calls need, and their names. */
const USAGES = [
  [Usage.COPY_SRC, "COPY_SRC"],
  [Usage.COPY_DST, "COPY_DST"],
  [Usage.STORAGE, "STORAGE"],
] as const;

/** The calls that are blits, by the numbers they have in the wasm half. */
const BLITS = ["blitTo", "blitFrom", "toArray"] as const;

/** @internal Checks that something is a buffer of an instance, and returns its number. */
export function numberOf(call: string, name: string, buffer: unknown, rig: Instance): number {
  return instance(call, name, buffer, Buffer).numberIn(rig, call, name);
}
