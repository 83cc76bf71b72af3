// Staging halves: an upload or a readback buffer each, made when it is needed.
//
// A way is mapped anew as soon as the work that used it is on the queue, so that the host finds it
// mapped when its turn comes; and it stays mapped until work that uses it goes to the queue, so
// that small copies which share a half share its map. Of what the host reads only the bytes that
// were written are mapped: an engine may move all that is.

import type { Arrays } from "./arrays.js";
import { inWords, MapMode, Usage } from "./flags.js";
import { mappable } from "./scopes.js";

const enum State {
  Unmapped,
  Pending,
  Mapped,
}

/** What the buffers of halves hang on. */
export interface Around {
  readonly device: GPUDevice;
  readonly arrays: Arrays;
  /** A map that somebody asked for is there. */
  readonly woke: () => void;
  /** A map failed that nobody cancelled. */
  readonly failed: () => void;
  /** A way is about to be destroyed. */
  readonly left: (way: Way) => void;
  /** A map on its way was cancelled; the function is to run once all work before that is done. */
  readonly cancelled: (map: Promise<void>, done: () => void) => void;
}

/** One way through a half: a buffer that the host writes, or one that it reads. */
export class Way {
  readonly buffer: GPUBuffer;
  readonly isWritten: boolean;
  /** Whether the engine has mapped it: what is wrong with a buffer shows by then. */
  isProven = false;
  readonly #around: Around;
  #state = State.Unmapped;
  /** The latest map. */
  #map?: Promise<void>;
  /** How many bytes from its start on the work that used it since somebody took the half wrote. */
  #usedBytes = 0;
  /** Which map is the latest; earlier ones were cancelled. */
  #round = 0;
  /** How many bytes the latest map has, cancelled or not; 0 once the host found it and it ended. */
  #mappedBytes: number;
  #array = 0;
  #isAsked = false;
  /** Firefox ends a map with the work that a cancelled one before it waited for: it is early then. */
  #isHeld = false;

  constructor(around: Around, size: number, isWritten: boolean) {
    this.#around = around;
    this.isWritten = isWritten;
    const label = isWritten ? "rig upload" : "rig readback";
    const usage = isWritten ? Usage.MAP_WRITE | Usage.COPY_SRC : Usage.MAP_READ | Usage.COPY_DST;
    this.buffer = mappable(around.device, { label, size, usage, mappedAtCreation: isWritten });
    if (isWritten) this.#state = State.Mapped;
    this.#mappedBytes = isWritten ? size : 0;
  }

  /** Notes what work writes. Whoever takes a half writes its start first. */
  used(offset: number, length: number): void {
    const end = inWords(offset + length);
    this.#usedBytes = offset === 0 ? end : Math.max(this.#usedBytes, end);
  }

  /** Whether the host finds its bytes; it is told once it does. */
  ask(): boolean {
    if (this.#state === State.Mapped) return this.#isThere();
    this.#isAsked = true;
    this.map();
    return false;
  }

  /** Starts to map it, if it is not mapped. */
  map(): void {
    if (this.#state !== State.Unmapped || this.#isHeld) return;
    this.#state = State.Pending;
    this.#round += 1;
    const round = this.#round;
    const { failed, woke } = this.#around;
    const there = () => {
      if (round !== this.#round) return;
      this.#state = State.Mapped;
      this.isProven = true;
      if (this.#isAsked) woke();
      this.#isAsked = false;
    };
    // Firefox may look for a cancelled map's bytes in the next one, and ends where that has fewer.
    this.#mappedBytes = Math.max(this.#mappedBytes, this.#usedBytes || this.buffer.size);
    const mode = this.isWritten ? MapMode.WRITE : MapMode.READ;
    this.#map = this.buffer.mapAsync(mode, 0, this.#mappedBytes);
    this.#map.then(there, () => round === this.#round && failed());
  }

  /** Maps it anew, if a map is on its way; one that a fence holds back comes with another. */
  again(): void {
    if (this.#isHeld) return this.#hold();
    if (this.#state !== State.Pending) return;
    const isAsked = this.#isAsked;
    this.unmap();
    // It waits for no other work than the one before.
    this.#isHeld = false;
    this.map();
    this.#isAsked = isAsked;
  }

  /** Returns the number of the array of its bytes. */
  range(): number {
    this.#array ||= this.#around.arrays.add(new Uint8Array(this.buffer.getMappedRange(0, this.#mappedBytes)), true);
    return this.#array;
  }

  /** Whether the bytes are there: a device that the page destroyed takes them along. */
  #isThere(): boolean {
    try {
      return this.#around.arrays.length(this.range()) > 0;
    } catch {
      return false;
    }
  }

  /** Ends or cancels the map. */
  unmap(): void {
    if (this.#state === State.Unmapped) return;
    if (this.#state === State.Mapped) this.#mappedBytes = 0;
    this.#forget();
    this.buffer.unmap();
  }

  destroy(): void {
    this.#forget();
    this.#round += 1;
    this.buffer.destroy();
  }

  #forget(): void {
    this.#round += 1;
    if (this.#state === State.Pending) this.#hold();
    this.#state = State.Unmapped;
    if (this.#array) this.#around.arrays.drop(this.#array);
    this.#array = 0;
  }

  /** Lets no map begin before all work up to now is done. */
  #hold(): void {
    const round = this.#round;
    this.#isHeld = true;
    this.#around.cancelled(this.#map!, () => {
      if (round !== this.#round) return;
      this.#isHeld = false;
      this.map();
    });
  }
}

/** A staging half: a buffer of one way at a time. */
export class Half {
  readonly #around: Around;
  readonly #length: number;
  #way: Way | null = null;

  constructor(around: Around, length: number) {
    this.#around = around;
    this.#length = length;
  }

  /** Returns the way that the host writes, or the one that it reads; it takes the other's place. */
  way(isWritten: boolean): Way {
    if (this.#way && this.#way.isWritten !== isWritten) this.destroy();
    return (this.#way ??= new Way(this.#around, this.#length, isWritten));
  }

  /** Asks anew for a map on its way. */
  again(): void {
    this.#way?.again();
  }

  destroy(): void {
    if (!this.#way) return;
    this.#around.left(this.#way);
    this.#way.destroy();
    this.#way = null;
  }
}
