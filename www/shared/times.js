// How long something takes, over and over.

const KEPT = 600;

/** The last times of something, in milliseconds. */
export class Times {
  #all = [];

  add(ms) {
    this.#all.push(ms);
    if (this.#all.length > KEPT) this.#all.shift();
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

  #at(part) {
    const sorted = this.#all.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * part)] ?? 0;
  }
}
