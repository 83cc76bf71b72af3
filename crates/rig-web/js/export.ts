// Exports: host bytes handed out for good.

import { bytesOf, integer } from "./check.js";
import { dead, misuse } from "./error.js";
import type { Instance } from "./instance.js";

/**
 * Bytes of host memory handed out: reachable while the export exists, past a `free` of the buffer
 * too, and ordered by nothing. Beside work that uses them they are mixed bytes at worst. They come
 * back once neither the export nor its {@link Export.bytes} can be reached, or when it is disposed.
 */
export class Export {
  /** @internal */
  static readonly name = "Export";
  readonly #instance: Instance;
  readonly #array: number;
  #kept: number;
  /**
   * The bytes themselves, in place, to read and to write. Length 0 once the export is disposed, but
   * of wrapped memory; views made of `bytes.buffer` end then too, so keep the export as long as they
   * are used.
   */
  readonly bytes: Uint8Array;
  /** How many bytes there are. */
  readonly size: number;

  /** @internal Its tag, like that of buffers. */
  get [Symbol.toStringTag](): string {
    return "Export";
  }

  /** @internal Exports are made by buffers. */
  constructor(instance: Instance, kept: number, [array = 0, offset = 0, length = 0]: readonly number[]) {
    this.#instance = instance;
    this.#kept = kept;
    this.#array = array;
    this.size = length;
    this.bytes = array === 0 ? new Uint8Array(0) : instance.arrays.export(array, offset, length);
    if (array !== 0) instance.exported.set(kept, array);
    instance.dropped.watch(this, -kept);
    KEEPERS.set(this.bytes, this);
  }

  /** Copies bytes from `offset` on into a typed array, as they are at this moment, and returns it. */
  copyOut<T extends ArrayBufferView>(offset: number, into: T): T {
    const to = bytesOf("copyOut", "into", into);
    to.set(this.#part("copyOut", 0, offset, to.length));
    return into;
  }

  /** Copies bytes in, from `offset` on. */
  copyIn(offset: number, from: ArrayBufferView | ArrayBuffer): void {
    const bytes = bytesOf("copyIn", "from", from);
    this.#part("copyIn", 1, offset, bytes.length).set(bytes);
  }

  /** Ends the export; again does nothing. */
  dispose(): void {
    if (this.#kept === 0) return;
    const kept = this.#kept;
    this.#kept = 0;
    this.#instance.dropKept(kept);
  }

  /** Ends the export, as `using` does. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  #part(call: string, write: number, offset: number, length: number): Uint8Array {
    integer(call, "offset", offset);
    if (this.#kept === 0) throw misuse(call, "Disposed", "the export is disposed");
    if (offset + length > this.size) {
      throw misuse(call, "OutOfRange", `the range ends at ${offset + length} of ${this.size} bytes`);
    }
    this.#instance.call((e) => e.may_copy(this.#kept, write));
    if (this.#array !== 0 && this.#instance.arrays.isGone(this.#array)) throw dead(call, "transferred");
    return this.bytes.subarray(offset, offset + length);
  }
}

/** Whoever can reach the bytes of an export keeps the export. */
const KEEPERS = new WeakMap<Uint8Array, Export>();
