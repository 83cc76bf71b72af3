// The same work in three lanes: with rig, with raw WebGPU, and with raw WebGPU that destroys.

import { MIB } from "../../shared/page.js";
import { Times } from "../../shared/times.js";
/** @import { Buffer, Device, Pass } from "rig-web" */
/** @import { Asked, Told } from "./raw.js" */

const BUFFER_BYTES = MIB;
const UPLOAD = new Uint8Array(BUFFER_BYTES).fill(1);

/** What a lane shows: bytes, times of its frames, and where its milliseconds went. */
class Lane {
  made = 0;
  frames = new Times();
  /** Milliseconds in which the driver made memory. */
  making = 0;
  /** @type {number | null} Milliseconds that giving memory back took; null where no page is told. */
  collection = 0;
  ended = "";

  /**
   * @param {keyof typeof SAYS} name
   * @param {number} budget
   */
  constructor(name, budget) {
    this.name = name;
    this.budget = budget;
  }

  /** What the lane does with its buffers. */
  get says() {
    return SAYS[this.name];
  }
}

const SAYS = {
  rig: "forgets them, and rig takes them back",
  "raw, with destroy()": "destroys each by hand",
  raw: "forgets them, and waits for the engine",
};

/** Buffers of rig: made, cleared, one of them filled from memory of the page, and forgotten. */
export class RigLane extends Lane {
  collection = 0;
  upload = Promise.resolve();

  /**
   * @param {Device} device
   * @param {Device} host
   */
  constructor(device, host) {
    super("rig", device.budget);
    this.device = device;
    this.host = host;
  }

  get held() {
    return this.device.held;
  }

  get most() {
    return this.device.stats().peakHeldBytes;
  }

  /** Statistics of the device. What copies pass through is the host's, on whatever device. */
  get stats() {
    return { ...this.device.stats(), stagingBytes: this.host.stats().stagingBytes };
  }

  async close() {
    await this.upload;
    await this.device.close();
  }

  /** @param {number} count */
  async frame(count) {
    // That of the frame before, which is done by now or soon.
    await this.upload;
    const began = performance.now();
    /** @type {Buffer[]} */
    const buffers = [];
    for (let i = 0; i < count; i += 1) buffers.push(await this.make());
    this.made += count * BUFFER_BYTES;
    /** @param {Pass} pass */
    const encode = ({ encoder, buffer }) => {
      for (const made of buffers) {
        const { buffer: own, offset, size } = buffer(made);
        encoder.clearBuffer(own, offset, size);
      }
    };
    this.device.submit({ writes: buffers }, this.device.gpu ? encode : undefined);
    this.upload = buffers[0].blitFrom(UPLOAD);
    this.frames.add(performance.now() - began);
  }

  /** Makes a buffer. What a create takes that needs no new memory goes into finding forgotten memory. */
  async make() {
    const { held } = this.device;
    const began = performance.now();
    const buffer = await this.device.createBuffer(BUFFER_BYTES);
    const took = performance.now() - began;
    if (this.device.held > held) this.making += took;
    else this.collection += took;
    return buffer;
  }
}

/**
 * Buffers of WebGPU itself, destroyed by hand or left to the engine: in a worker, so that what makes
 * the page's engine collect for rig does nothing for them.
 */
export class RawLane extends Lane {
  held = 0;
  most = 0;
  /** Statistics are rig's. */
  stats = null;
  /** @type {() => void} Ends the wait for a frame. */
  done = () => undefined;
  /** @type {(error: Error) => void} Ends it with an error. */
  fail = () => undefined;

  /**
   * @param {number} budget
   * @param {boolean} destroys
   */
  constructor(budget, destroys) {
    super(destroys ? "raw, with destroy()" : "raw", budget);
    this.worker = new Worker(new URL("./raw.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.fail(new Error(event.message));
    this.ask({ budget, destroys, bufferBytes: BUFFER_BYTES });
  }

  /**
   * @param {number} count
   * @returns {Promise<void>}
   */
  frame(count) {
    if (this.ended) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.done = resolve;
      this.fail = reject;
      this.ask({ count });
    });
  }

  /** @param {Asked} what */
  ask(what) {
    this.worker.postMessage(what);
  }

  /**
   * Hears what a frame came to, or that the lane ended.
   * @param {Told} told
   */
  hear({ took, isFrame, ...facts }) {
    Object.assign(this, facts);
    if (!isFrame) return;
    if (!facts.ended) this.frames.add(took);
    this.done();
  }

  async close() {
    this.worker.terminate();
  }
}
