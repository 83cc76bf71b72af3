// How much work fits into a frame of the page: it starts small, and grows while there is room.

import { Times } from "../../shared/times.js";

/** Sizes of the work, from small to large: cells a side, and steps a frame. */
const SIZES = [
  { cells: 64, steps: 4 },
  { cells: 128, steps: 4 },
  { cells: 256, steps: 8 },
  { cells: 512, steps: 8 },
];

/** What a page has for a frame where 60 are shown a second, in milliseconds. */
const FRAME_MS = 1000 / 60;
/** The work of both programs may grow while it takes less of a frame than this, and shrinks above the other. */
const ROOM = 0.6;
const FULL = 0.9;
/** Frames that come later than this were late. */
const LATE = 1.25;
/** The size is judged after so many frames. */
const JUDGED_FRAMES = 20;

/** Finds the size of the work. */
export class Fit {
  #at = 0;
  #isFound = false;
  #count = 0;
  #took = new Times(JUDGED_FRAMES);
  #apart = new Times(JUDGED_FRAMES);

  /** The size as it is now. */
  get size() {
    return SIZES[this.#at];
  }

  /**
   * Takes what a frame took, and how long it came after the one before, in milliseconds; answers
   * whether the size changes.
   * @param {number} took
   * @param {number} apart
   */
  changes(took, apart) {
    this.#took.add(took);
    this.#apart.add(apart);
    this.#count += 1;
    if (this.#count < JUDGED_FRAMES) return false;
    this.#count = 0;
    const next = this.#at + this.#verdict();
    // A size that was too large is not tried again.
    if (next <= this.#at) this.#isFound = true;
    if (next === this.#at || !SIZES[next]) return false;
    this.#at = next;
    return true;
  }

  /** Answers whether the work should grow, 1, or shrink, -1, or neither. */
  #verdict() {
    if (this.#took.median > FULL * FRAME_MS || this.#apart.median > LATE * FRAME_MS) return -1;
    return this.#took.median < ROOM * FRAME_MS && !this.#isFound ? 1 : 0;
  }
}
