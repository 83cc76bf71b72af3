// Buffers: handles of bytes on a device.

import type { Device, Point } from "./device.js";
import { callable, instance, integer, misuse, unsupported } from "./error.js";
import type { Instance, Wait } from "./instance.js";

/** Bytes in memory. */
export type Bytes = ArrayBufferView | ArrayBuffer;
/** Part of a buffer, in bytes. */
export type Range = { offset?: number; length?: number };
/** A class of typed arrays. */
export type TypedCtor<T> = { new (count: number): T; readonly BYTES_PER_ELEMENT: number };
/** A GPU buffer and a range of it. */
export interface Lent {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}
/** Keeps the host from writing a buffer's memory until it is released. */
export interface Claim extends Disposable {
  /** Ends the claim; again does nothing. */
  release(): void;
}

/** What a buffer is made of, which does not change. */
export interface Made {
  readonly instance: Instance;
  readonly device: Device;
  readonly number: number;
  readonly size: number;
  readonly offset: number;
  readonly label: string;
  /** The bytes that its device's pacing counted for it; 0 for views, borrows and wrapped memory. */
  readonly counted: number;
  /** The number of the program's own array, where it wraps one; else 0. */
  readonly array: number;
  /** How long that array was. */
  readonly arrayLength: number;
}

/**
 * Bytes of one allocation, on one device. Its memory comes back by itself once no buffer, view or
 * borrow of it can be reached; {@link Buffer.dispose} and {@link Buffer.free} are never needed.
 */
export class Buffer {
  readonly #made: Made;
  #number: number;

  /** @internal Buffers are made by devices. */
  constructor(made: Made) {
    this.#made = made;
    this.#number = made.number;
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
    if (this.#isDetached()) return "dead";
    return this.#made.instance.call((e) => e.is_dead(this.#number)) ? "dead" : "live";
  }

  /** Returns the points that its memory remembers. */
  stamps(): { write: Point | null; uses: Point[] } {
    const { instance: rig, device } = this.#made;
    const number = this.#live("stamps");
    rig.call((e) => e.stamps(number));
    type Pair = [number, number];
    const { write, uses } = JSON.parse(rig.answer) as { write: Pair | null; uses: Pair[] };
    const point = ([index, value]: Pair) => ({ device: device.of(index), value });
    return { write: write && point(write), uses: uses.map(point) };
  }

  /**
   * Waits for the last write, and gives `f` the bytes in place for its synchronous run. The view
   * has length 0 afterwards. Memory that the host does not address is `Unsupported`.
   */
  read<R>(f: (bytes: Uint8Array) => R, o?: Wait): Promise<R> {
    return this.#access("read", 0, f, o);
  }

  /** Waits for every use, and gives `f` the bytes in place to change, like {@link Buffer.read}. */
  write<R>(f: (bytes: Uint8Array) => R, o?: Wait): Promise<R> {
    return this.#access("write", 1, f, o);
  }

  /** Promises a fresh typed array with the bytes of a range, from any buffer. */
  async toArray<T extends ArrayBufferView>(type: TypedCtor<T>, o?: Range & Wait): Promise<T> {
    callable("toArray", "type", type);
    const number = this.#live("toArray");
    const offset = integer("toArray", "offset", o?.offset ?? 0);
    const length = integer("toArray", "length", o?.length ?? Math.max(this.size - offset, 0));
    const element = type.BYTES_PER_ELEMENT;
    if (length % element !== 0) {
      const text = `${length} bytes are not a whole number of elements of ${element}`;
      throw misuse("toArray", "PartialElement", text);
    }
    this.#inRange("toArray", offset, length);
    const out = new type(length / element);
    await this.#blit(number, offset, bytesOf(out), 0, o);
    return out;
  }

  /** Copies bytes from `offset` on into a typed array of the program, and promises that. */
  async blitTo<T extends ArrayBufferView>(out: T, o?: { offset?: number } & Wait): Promise<T> {
    const number = this.#live("blitTo");
    const offset = integer("blitTo", "offset", o?.offset ?? 0);
    const bytes = bytesOf(view("blitTo", "out", out));
    this.#inRange("blitTo", offset, bytes.length);
    await this.#blit(number, offset, bytes, 0, o);
    return out;
  }

  /** Copies bytes into the buffer, from `offset` on. They are taken before this returns. */
  async blitFrom(data: Bytes, o?: { offset?: number } & Wait): Promise<void> {
    const number = this.#live("blitFrom");
    const offset = integer("blitFrom", "offset", o?.offset ?? 0);
    const whole = data instanceof ArrayBuffer ? new Uint8Array(data) : view("blitFrom", "data", data);
    const bytes = bytesOf(whole);
    this.#inRange("blitFrom", offset, bytes.length);
    await this.#blit(number, offset, bytes.slice(), 1, o);
  }

  /** Sets every byte of a range. */
  async fill(byte: number, o?: Range & Wait): Promise<void> {
    const number = this.#live("fill");
    if (integer("fill", "byte", byte) > 255) {
      throw misuse("fill", "Option", `byte is ${byte}, which is not 0 to 255`);
    }
    const offset = integer("fill", "offset", o?.offset ?? 0);
    const length = integer("fill", "length", o?.length ?? Math.max(this.size - offset, 0));
    const done = () => undefined;
    await this.#made.instance.wait((e, t) => e.fill(t, number, offset, length, byte), done, o);
  }

  /** Returns a buffer over part of this one. */
  view(offset: number, length?: number): Buffer {
    const number = this.#live("view");
    integer("view", "offset", offset);
    const size = integer("view", "length", length ?? Math.max(this.size - offset, 0));
    const made = this.#made.instance.call((e) => e.view(number, offset, size));
    return this.#other({ number: made, size, offset: this.offset + offset });
  }

  /** Returns a buffer on another device over the same bytes, without a copy, or null. */
  borrow(device: Device): Buffer | null {
    const number = this.#live("borrow");
    const index = device.index;
    const made = this.#made.instance.call((e) => e.borrow(index, number));
    return made === 0 ? null : this.#other({ number: made, device });
  }

  /** Keeps the host from writing the memory until the claim is released. */
  claimRead(): Claim {
    const number = this.#live("claimRead");
    const { instance: rig } = this.#made;
    let claim = rig.call((e) => e.claim_read(number));
    const release = () => {
      if (claim !== 0) rig.call((e) => e.release(claim));
      claim = 0;
    };
    return { release, [Symbol.dispose]: release };
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
    return this.#lentBy(device, lent, "lend");
  }

  /** Ends all buffers of the allocation now. They are dead then, and say so. */
  free(): void {
    const number = this.#live("free");
    this.#made.instance.call((e) => e.free(number));
    this.#uncount();
  }

  /** Drops this handle; again does nothing. A call in progress goes on. */
  dispose(): void {
    if (this.#number === 0) return;
    const number = this.#number;
    this.#number = 0;
    this.#made.instance.call((e) => e.drop_buffer(number));
    this.#uncount();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal The number, for a call of another class. */
  numberFor(call: string): number {
    return this.#live(call);
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
    const { instance: rig } = this.#made;
    const live = this.#live(call);
    // The call goes on if the handle is disposed meanwhile.
    const own = rig.call((e) => e.again(live));
    try {
      for (;;) {
        await rig.wait((e, t) => e.ready(t, own, write), () => undefined, o);
        const access = rig.call((e) => e.access(own, write));
        if (access !== 0) return this.#run(call, own, access, f);
      }
    } finally {
      rig.call((e) => e.drop_buffer(own));
    }
  }

  #run<R>(call: string, own: number, access: number, f: (bytes: Uint8Array) => R): R {
    const { instance: rig } = this.#made;
    const [array, offset, length] = JSON.parse(rig.answer) as [number, number, number];
    let isGone = false;
    const gone = () => {
      isGone = true;
    };
    let value: R;
    try {
      value = array === 0 ? f(new Uint8Array(0)) : rig.arrays.scope(array, offset, length, f, gone);
    } finally {
      rig.call((e) => e.end_access(access));
      // Its bytes are the program's now; nothing finds them here any more.
      if (isGone) rig.call((e) => e.free(own));
    }
    if (typeof (value as { then?: unknown } | null)?.then === "function") {
      Promise.resolve(value).catch(() => undefined);
      throw misuse(call, "Promise", "the function answered a promise; it has the bytes only while it runs");
    }
    return value;
  }

  #blit(number: number, offset: number, bytes: Uint8Array, into: number, o?: Wait): Promise<void> {
    const { instance: rig } = this.#made;
    const start = (e: import("./instance.js").Exports, ticket: number) => {
      e.blit(ticket, number, offset, rig.arrays.add(bytes, true), into);
    };
    return rig.wait(start, () => undefined, o);
  }

  #inRange(call: string, offset: number, length: number): void {
    if (offset + length <= this.size) return;
    throw misuse(call, "OutOfRange", `the range ends at ${offset + length} of ${this.size} bytes`);
  }

  #other(changed: Partial<Made>): Buffer {
    return new Buffer({ ...this.#made, counted: 0, ...changed });
  }

  #isDetached(): boolean {
    const { array, arrayLength, instance: rig } = this.#made;
    return array !== 0 && rig.arrays.isDetached(array, arrayLength);
  }

  #live(call: string): number {
    if (this.#number === 0) throw misuse(call, "Disposed", "the buffer is disposed");
    if (this.#isDetached()) throw misuse(call, "Dead", "the buffer is dead: detached");
    return this.#number;
  }

  #uncount(): void {
    this.#made.device.gaveBack(this.#made.counted);
  }
}

/** Checks that something is a buffer of this package, and returns its number. */
export function numberOf(call: string, name: string, buffer: unknown): number {
  return instance(call, name, buffer, Buffer).numberFor(call);
}

/** Returns the bytes of a typed array. */
export function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function view<T>(call: string, name: string, value: T): T & ArrayBufferView {
  if (!ArrayBuffer.isView(value)) {
    throw misuse(call, "Option", `${name} is no typed array`);
  }
  return value as T & ArrayBufferView;
}
