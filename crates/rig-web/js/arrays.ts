// Arrays by number: host memory outside wasm memory, and the ranges of mapped GPU buffers.

import { misuse } from "./error.js";

interface Entry {
  bytes: Uint8Array;
  /** How many scopes of programs have it open. */
  open: number;
  /** Whether it is the program's own, which is never transferred. */
  wrapped: boolean;
}

/** The arrays of an instance. */
export class Arrays {
  readonly #entries: (Entry | undefined)[] = [undefined];
  readonly #empty: number[] = [];

  /** Makes a zeroed array; 0 if the engine refuses. */
  make(length: number): number {
    try {
      return this.add(new Uint8Array(length), false);
    } catch {
      return 0;
    }
  }

  /** Takes an array in; answers its number. */
  add(bytes: Uint8Array, wrapped: boolean): number {
    const at = this.#empty.pop() ?? this.#entries.length;
    this.#entries[at] = { bytes, open: 0, wrapped };
    return at;
  }

  drop(array: number): void {
    this.#entries[array] = undefined;
    this.#empty.push(array);
  }

  length(array: number): number {
    return this.#entry(array).bytes.byteLength;
  }

  /** Returns part of an array. */
  part(array: number, offset: number, length: number): Uint8Array {
    const { bytes } = this.#entry(array);
    return bytes.subarray(offset, offset + length);
  }

  /** Whether the program detached an array that is its own. */
  isDetached(array: number, length: number): boolean {
    return this.#entry(array).bytes.byteLength !== length;
  }

  /**
   * Gives `f` part of an array for its synchronous run. Afterwards no view of it is left: the bytes
   * move to a new array, unless they are the program's own or an outer scope goes on. Where `f` took
   * the bytes away, `gone` is called.
   */
  scope<R>(array: number, offset: number, length: number, f: (bytes: Uint8Array) => R, gone: () => void): R {
    const entry = this.#entry(array);
    const { buffer, byteLength, byteOffset } = entry.bytes;
    entry.open += 1;
    try {
      return f(new Uint8Array(buffer, byteOffset + offset, length));
    } finally {
      entry.open -= 1;
      if (byteLength > 0 && entry.bytes.byteLength === 0) {
        gone();
      } else if (entry.open === 0 && !entry.wrapped && byteLength > 0) {
        entry.bytes = new Uint8Array(moved(buffer as ArrayBuffer));
      }
    }
  }

  #entry(array: number): Entry {
    const entry = this.#entries[array];
    if (entry === undefined) throw misuse("array", "Dead", `array ${array} is gone`);
    return entry;
  }
}

type Movable = ArrayBuffer & { transferToFixedLength?(): ArrayBuffer };

/** Moves the bytes of a buffer to a new one, without a copy; the old one is detached. */
function moved(buffer: Movable): ArrayBuffer {
  if (buffer.transferToFixedLength) return buffer.transferToFixedLength();
  return structuredClone(buffer, { transfer: [buffer] });
}
