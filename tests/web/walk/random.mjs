// Numbers that follow from a seed, the same in every engine: splitmix32.

export class Random {
  #state;

  constructor(seed) {
    this.#state = seed | 0;
  }

  next() {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  /** Returns a number below `count`, which is not 0. */
  below(count) {
    return this.next() % count;
  }

  /** Whether a chance of one in `count` came true. */
  oneIn(count) {
    return this.below(count) === 0;
  }

  /** Returns one of these; undefined where there is none. */
  of(list) {
    return list.length === 0 ? undefined : list[this.below(list.length)];
  }

  /** Returns one of the names, each as often as its weight says. */
  weighed(weights) {
    const all = Object.entries(weights);
    let at = this.below(all.reduce((sum, [, weight]) => sum + weight, 0));
    return all.find(([, weight]) => (at -= weight) < 0)[0];
  }

  /** Returns so many bytes. */
  bytes(count) {
    const first = this.next();
    return Uint8Array.from({ length: count }, (_, i) => Math.imul(first + i, 2_654_435_761) >>> 24);
  }

  /** Returns a length of bytes: mostly small and odd, now and then large. */
  length() {
    const kind = this.below(100);
    if (kind < 40) return this.below(71);
    if (kind < 60) return 64 + this.below(2_000);
    if (kind < 82) return this.below(70 * KIB);
    if (kind < 97) return 60 * KIB + this.below(500 * KIB);
    return this.below(1.5 * KIB * KIB);
  }

  /** Returns part of so many bytes: where it starts and how long it is. */
  range(size) {
    if (this.oneIn(3)) return [0, size];
    const offset = this.oneIn(2) ? this.below(size + 1) : this.below(Math.min(size, 9) + 1);
    const left = size - offset;
    return [offset, this.oneIn(2) ? left : this.oneIn(2) ? this.below(left + 1) : this.below(Math.min(left, 9) + 1)];
  }
}

const KIB = 1024;
