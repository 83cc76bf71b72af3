// How long something takes, over and over.

/** The last times of something, in milliseconds. */
export class Times {
  /** @type {number[]} */
  #all = [];
  #kept;

  /** Keeps the last so many. */
  constructor(kept = 600) {
    this.#kept = kept;
  }

  /** @param {number} ms */
  add(ms) {
    this.#all.push(ms);
    if (this.#all.length > this.#kept) this.#all.shift();
  }

  /** How many there are. */
  get count() {
    return this.#all.length;
  }

  /** Half of them are below. */
  get median() {
    return this.#at(0.5);
  }

  /** 99 of 100 are below. */
  get p99() {
    return this.#at(0.99);
  }

  /** @param {number} part */
  #at(part) {
    const sorted = this.#all.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * part)] ?? 0;
  }
}
