// The work on rig's kernels: every pass writes a new buffer, and nothing frees one.

import { init } from "rig-web";
import { Screen, finished } from "./screen.js";
import { groupsOf, passes } from "./shaders.js";
/** @import { Bindings, Buffer, Device, Kernel } from "rig-web" */
/** @import { Options } from "./worker.js" */

const CELL = 8;
const NUMBER = 4;

export class RigWork {
  madeCount = 1;
  /** @type {Buffer | undefined} The last picture. */
  pixels;

  /**
   * Opens a device with a budget, and sows the field.
   * @param {Options} options
   */
  static async open({ canvas, cells, steps, budget }) {
    const rig = await init();
    const device = await rig.open("work", { budget });
    /** @type {Record<string, Kernel>} */
    const kernels = {};
    const compiled = Object.entries(passes(cells, Screen.order)).map(async ([name, code]) => {
      kernels[name] = await device.kernel(code, { label: name });
    });
    await Promise.all(compiled);
    // What `rig.open` answers is over a GPU device.
    const gpu = /** @type {GPUDevice} */ (device.gpu);
    const field = await device.createBuffer(CELL * cells ** 2);
    const work = new RigWork({ device, gpu, host: rig.host, screen: new Screen(gpu, canvas), kernels, field, steps });
    work.run("seed", { next: field });
    return work;
  }

  /**
   * @param {object} made
   * @param {Device} made.device
   * @param {GPUDevice} made.gpu
   * @param {Device} made.host
   * @param {Screen} made.screen
   * @param {Record<string, Kernel>} made.kernels
   * @param {Buffer} made.field
   * @param {number} made.steps
   */
  constructor({ device, gpu, host, screen, kernels, field, steps }) {
    this.device = device;
    this.gpu = gpu;
    this.host = host;
    this.screen = screen;
    this.cells = screen.cells;
    this.kernels = kernels;
    this.field = field;
    this.steps = steps;
    this.madeBytes = field.size;
  }

  /**
   * Does the work of a frame. Every buffer of it is new; those of the frame before are forgotten.
   * @param {Float32Array<ArrayBuffer>} brush
   */
  async frame(brush) {
    for (let step = 0; step < this.steps; step += 1) {
      const next = await this.make(CELL);
      if (step === 0) this.run("wipe", { old: this.field, next, brush });
      else this.run("react", { old: this.field, next });
      this.field = next;
    }
    const rows = await this.make(NUMBER);
    this.run("rows", { field: this.field, next: rows });
    const glow = await this.make(NUMBER);
    this.run("columns", { rows, next: glow });
    const pixels = await this.make(NUMBER);
    this.run("shade", { field: this.field, glow, pixels });
    this.device.submit({ reads: [pixels] }, ({ encoder, buffer }) => this.screen.draw(encoder, buffer(pixels)));
    this.pixels = pixels;
  }

  /**
   * Makes a buffer of so many bytes a cell.
   * @param {number} bytes
   */
  async make(bytes) {
    const size = bytes * this.cells ** 2;
    this.madeCount += 1;
    this.madeBytes += size;
    return this.device.createBuffer(size);
  }

  /**
   * @param {string} name
   * @param {Bindings} bind
   */
  run(name, bind) {
    const groups = groupsOf(this.cells);
    return this.kernels[name].run(bind, [groups, groups]);
  }

  finished() {
    return finished(this.gpu);
  }

  /** Returns the bytes of the last picture. */
  bytes() {
    if (!this.pixels) throw new Error("nothing was drawn yet");
    return this.pixels.toArray(Uint8Array);
  }

  get memory() {
    const { madeCount, madeBytes, device, host } = this;
    const stats = { ...device.stats(), stagingBytes: host.stats().stagingBytes };
    return { madeCount, madeBytes, stats, held: device.held };
  }

  close() {
    return this.device.close();
  }
}
