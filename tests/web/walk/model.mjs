// What a walk knows: devices, the bytes of their memory, and who has a handle of it.

/** A device and what was asked of it. */
export class Dev {
  /** What its GPU holds of rig's memory: each buffer that was made and not destroyed, by its bytes. */
  made = new Map();
  /** How it ends or ended: "" while it is open; "destroyed" and "closed" until its loss was awaited. */
  ending = "";
  isLost = false;
  values = 0;
  /** Whether a call was given up, so that nobody knows how many values were taken. */
  isVague = false;
  /** How many bytes were asked for in vain. */
  failedBytes = 0;
  /** What was forgotten and may not have come back. */
  limbo = [];
  errors = [];
  /** The values whose commands were wrong. */
  rejected = new Set();
  kernel = null;

  constructor(kind, device, budget) {
    this.kind = kind;
    this.device = device;
    this.budget = budget;
    device.budget = budget;
    device.addEventListener("error", ({ detail }) => this.errors.push(detail));
    if (kind === "gpu") this.#count(device.gpu);
  }

  get isGpu() {
    return this.kind === "gpu";
  }

  toString() {
    return this.device.name;
  }

  #count(gpu) {
    const { createBuffer } = gpu;
    gpu.createBuffer = (descriptor) => {
      const made = createBuffer.call(gpu, descriptor);
      if (descriptor.label !== "rig") return made;
      this.made.set(made, made.size);
      const { destroy } = made;
      made.destroy = () => {
        this.made.delete(made);
        destroy.call(made);
      };
      return made;
    };
  }
}

/** Memory: the bytes that it has to have, and what was done with it. */
export class Alloc {
  handles = new Set();
  exports = [];
  claims = [];
  dead = "";
  wasExported = false;
  /** The GPU buffer that the program has of it. */
  isLent = null;
  /** Whether a handle of it was forgotten. */
  isForgotten = false;
  /** Whether it is live though dead, as long as it has handles. */
  isKept = false;

  /** `own` is the program's array that was wrapped, `foreign` its GPU buffer. */
  constructor(dev, bytes, label, { own = null, foreign = null } = {}) {
    Object.assign(this, { dev, bytes, label, own, foreign });
  }

  /** Whether its device pays for it. */
  get isCharged() {
    return !this.own && !this.foreign && this.bytes.length > 0;
  }

  /** Whether claims, exports and loans leave it to one call alone. */
  get canBeTakenOver() {
    return this.isCharged && !this.wasExported && !this.isLent && this.claims.length === 0;
  }
}

/** A buffer of the program: part of some memory, on a device. */
export class Handle {
  constructor(name, buffer, alloc, at, dev = alloc.dev) {
    Object.assign(this, { name, buffer, alloc, at, dev, size: buffer.size });
    alloc.handles.add(this);
  }

  get bytes() {
    return this.alloc.bytes.subarray(this.at, this.at + this.size);
  }

  get isLost() {
    return this.dev.isLost || this.alloc.dev.isLost;
  }

  get isEnding() {
    return Boolean(this.dev.ending || this.alloc.dev.ending);
  }

  toString() {
    const { alloc, at, size, dev } = this;
    const on = dev === alloc.dev ? dev : `${dev}, of ${alloc.dev}`;
    return `${this.name}[${at}..${at + size} of ${alloc.bytes.length} on ${on}]`;
  }
}

/** The most bytes that memory of a length takes: its bin, or the nearest larger one that serves (S9.9). */
export function mostBytes(length) {
  const last = Math.max(length, 512) - 1;
  const step = 2 ** Math.max(Math.floor(Math.log2(last)) - 3, 0);
  return 1.25 * Math.max(512, (Math.floor(last / step) + 1) * step);
}
