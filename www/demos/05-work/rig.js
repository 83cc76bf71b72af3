// The work on rig's kernels: every pass writes a new buffer, and nothing frees one.

import { init } from "rig-web";
import { Screen, finished } from "./screen.js";
import { groupsOf, passes } from "./shaders.js";

const CELL = 8;
const NUMBER = 4;

export class RigWork {
  /** Opens a device with a budget, and sows the field. */
  static async open({ canvas, cells, steps, budget }) {
    const rig = await init();
    const device = await rig.open("work", { budget });
    const code = Object.entries(passes(cells, Screen.order));
    const compiled = code.map(async ([name, wgsl]) => [name, await device.kernel(wgsl, { label: name })]);
    const work = new RigWork(device, { cells, steps, kernels: Object.fromEntries(await Promise.all(compiled)) });
    work.host = rig.host;
    work.screen = new Screen(device.gpu, canvas);
    work.field = await work.make(CELL);
    work.run("seed", { next: work.field });
    return work;
  }

  constructor(device, { cells, steps, kernels }) {
    Object.assign(this, { device, cells, steps, kernels, madeCount: 0, madeBytes: 0 });
  }

  /** Does the work of a frame. Every buffer of it is new; those of the frame before are forgotten. */
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
    this.pixels = await this.make(NUMBER);
    this.run("shade", { field: this.field, glow, pixels: this.pixels });
    const { pixels, screen } = this;
    this.device.submit({ reads: [pixels] }, ({ encoder, buffer }) => screen.draw(encoder, buffer(pixels)));
  }

  /** Makes a buffer of so many bytes a cell. */
  async make(bytes) {
    const size = bytes * this.cells ** 2;
    this.madeCount += 1;
    this.madeBytes += size;
    return this.device.createBuffer(size);
  }

  run(name, bind) {
    const groups = groupsOf(this.cells);
    return this.kernels[name].run(bind, [groups, groups]);
  }

  finished() {
    return finished(this.device.gpu);
  }

  /** Returns the bytes of the last picture. */
  bytes() {
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
