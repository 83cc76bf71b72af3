// Arrays by number: host memory outside wasm memory, and the ranges of mapped GPU buffers.

interface Entry {
  bytes: Uint8Array;
  /** How many bytes there were when it came in. */
  readonly length: number;
  /** How many scopes of programs and exports hand it out. */
  open: number;
  /** Whether all of it was taken in one move. */
  taken: boolean;
  /** Whether it is the program's own, which is never transferred. */
  readonly wrapped: boolean;
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
    this.#entries[at] = { bytes, length: bytes.byteLength, open: 0, taken: false, wrapped };
    return at;
  }

  /** Has bytes of the program copied, unless all were taken or let go. */
  keep(array: number, bytes: Uint8Array): void {
    const entry = this.#entries[array];
    if (entry?.bytes === bytes && !entry.taken) entry.bytes = bytes.slice();
  }

  /** Returns part of an array to be taken; none where the program took the bytes away. */
  take(array: number, offset: number, length: number): Uint8Array | undefined {
    const entry = this.#entry(array);
    entry.taken = length === entry.length;
    return this.part(array, offset, length);
  }

  drop(array: number): void {
    this.#entries[array] = undefined;
    this.#empty.push(array);
  }

  length(array: number): number {
    return this.#entry(array).length;
  }

  /** Returns part of an array; none where the program took the bytes away. */
  part(array: number, offset: number, length: number): Uint8Array | undefined {
    const { bytes, length: all } = this.#entry(array);
    if (bytes.byteLength !== all) return undefined;
    // An engine takes a while to make a view.
    return length === all ? bytes : bytes.subarray(offset, offset + length);
  }

  /** Copies between two arrays. Bytes that the program took away are neither read nor written. */
  copy(src: number, srcAt: number, dst: number, dstAt: number, length: number): void {
    const from = this.take(src, srcAt, length);
    if (from) this.part(dst, dstAt, length)?.set(from);
  }

  /** Whether the program took the bytes of an array away: transferred it, or changed its length. */
  isGone(array: number): boolean {
    const entry = this.#entries[array];
    return entry !== undefined && entry.bytes.byteLength !== entry.length;
  }

  /** Names what the program did to an array that is gone. */
  whyGone(array: number): string {
    return this.#entry(array).wrapped ? "detached" : "transferred";
  }

  /** Gives an array that is gone zeroed bytes. */
  renew(array: number): void {
    const entry = this.#entry(array);
    entry.bytes = new Uint8Array(entry.length);
  }

  /**
   * Gives `f` part of an array for its synchronous run. Afterwards no view of it is left: the bytes
   * move to a new array, unless they are the program's own, exported, or an outer scope goes on.
   */
  scope<R>(array: number, offset: number, length: number, f: (bytes: Uint8Array) => R): R {
    const bytes = this.export(array, offset, length);
    try {
      return f(bytes);
    } finally {
      this.unexport(array);
    }
  }

  /** Returns part of an array for an export, until {@link Arrays.unexport}. */
  export(array: number, offset: number, length: number): Uint8Array {
    const entry = this.#entry(array);
    const { buffer, byteOffset } = entry.bytes;
    entry.open += 1;
    return new Uint8Array(buffer, byteOffset + offset, length);
  }

  /** Ends an export: after the last one, where bytes can move, no view of the array is left. */
  unexport(array: number): void {
    const entry = this.#entry(array);
    entry.open -= 1;
    if (entry.open > 0 || entry.wrapped || this.isGone(array)) return;
    entry.bytes = new Uint8Array(moved(entry.bytes.buffer as ArrayBuffer));
  }

  #entry(array: number): Entry {
    const entry = this.#entries[array];
    if (entry === undefined) throw new Error(`array ${array} is gone`);
    return entry;
  }
}

type Movable = ArrayBuffer & {
  transfer?(length?: number): ArrayBuffer;
  transferToFixedLength?(): ArrayBuffer;
};

/** Moves the bytes of a buffer to a new one, without a copy; the old one is detached. */
function moved(buffer: Movable): ArrayBuffer {
  if (buffer.transferToFixedLength) return buffer.transferToFixedLength();
  return structuredClone(buffer, { transfer: [buffer] });
}

/** Whether memory may change its length. */
export function isResizable(memory: ArrayBufferLike): boolean {
  const { resizable, growable } = memory as { resizable?: boolean; growable?: boolean };
  return Boolean(resizable || growable);
}

/**
 * Whether the engine keeps a buffer from being transferred, as it does with wasm memory. Asks for
 * a transfer that fails in any case, and changes nothing: engines look for this ahead of the rest.
 */
export function isPinned(buffer: ArrayBufferLike): boolean {
  // Some engines freeze shared wasm memory; it never detaches either way.
  if (!(buffer instanceof ArrayBuffer)) return Object.isFrozen(buffer);
  const refusal = (ask: () => unknown) => {
    try {
      ask();
      return undefined;
    } catch (e) {
      return e as Error;
    }
  };
  const twice = { transfer: [buffer, buffer] };
  if (isNode()) {
    // Node leaves the buffer out of what it transfers, and then finds no duplicate.
    return !/duplicate/i.test(String(refusal(() => structuredClone(undefined, twice))));
  }
  // In Firefox and by the specification, ahead of the length.
  const length = refusal(() => (buffer as Movable).transfer?.(Number.MAX_SAFE_INTEGER));
  // In Chromium, ahead of duplicates; in this one of all that transfer.
  const { EncodedVideoChunk: Chunk } = globalThis as { EncodedVideoChunk?: new (o: object) => object };
  const chunk = { type: "key", timestamp: 0, data: new Uint8Array(1), ...twice };
  const again = refusal(() => Chunk && new Chunk(chunk));
  return length instanceof TypeError || /cannot detach/i.test(String(again));
}

/** Whether this is Node. */
export function isNode(): boolean {
  return Boolean((globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node);
}
