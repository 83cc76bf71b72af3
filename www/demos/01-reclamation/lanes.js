// The same work in three lanes: with rig, with raw WebGPU, and with raw WebGPU that destroys.

const BUFFER_BYTES = 2 ** 20;
const FRAMES_KEPT = 300;

/** What a lane shows. */
class Lane {
  constructor(name, budget) {
    this.name = name;
    this.budget = budget;
    this.made = 0;
    this.creating = 0;
    this.ended = "";
    this.frames = [];
  }

  /** Notes how long a frame's work took. */
  took(ms) {
    this.frames.push(ms);
    if (this.frames.length > FRAMES_KEPT) this.frames.shift();
  }

  /** The time that 99 of 100 frames stay below. */
  get p99() {
    const sorted = this.frames.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  }
}

/** Buffers of rig: made, written, forgotten. */
export class RigLane extends Lane {
  constructor(device) {
    super("rig", device.budget);
    this.device = device;
  }

  get held() {
    return this.device.held;
  }

  async close() {
    await this.device.close();
  }

  async frame(count) {
    const began = performance.now();
    const buffers = [];
    for (let i = 0; i < count; i += 1) buffers.push(await this.device.createBuffer(BUFFER_BYTES));
    this.creating += performance.now() - began;
    this.made += count * BUFFER_BYTES;
    const encode = ({ encoder, buffer }) => {
      for (const made of buffers) {
        const { buffer: own, offset, size } = buffer(made);
        encoder.clearBuffer(own, offset, size);
      }
    };
    this.device.submit({ writes: buffers }, this.device.gpu ? encode : undefined);
    this.took(performance.now() - began);
  }
}

/**
 * Buffers of WebGPU itself, destroyed by hand or left to the engine: in a worker, so that what makes
 * the page's engine collect for rig does nothing for them.
 */
export class RawLane extends Lane {
  constructor(budget, destroys) {
    super(destroys ? "raw, with destroy()" : "raw", budget);
    this.held = 0;
    this.worker = new Worker(new URL("./raw.js", import.meta.url), { type: "module" });
    this.worker.postMessage({ budget, destroys, bufferBytes: BUFFER_BYTES });
  }

  async frame(count) {
    if (this.ended) return;
    const told = await new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => resolve(data);
      this.worker.onerror = (event) => reject(new Error(event.message));
      this.worker.postMessage({ count });
    });
    const { took, ...facts } = told;
    Object.assign(this, facts);
    this.took(took);
  }

  async close() {
    this.worker.terminate();
  }
}
