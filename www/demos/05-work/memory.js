// The same two programs where there is no WebGPU: on a memory device of rig's, and on plain arrays.

import { init } from "rig-web";
import * as on from "./field.js";

const CELL = 8;
const NUMBER = 4;
/** A brush that wipes nothing. */
const NO_BRUSH = [0, 0, 0];

/** Every pass writes a new buffer of a memory device, and nothing frees one. */
export class RigMemoryWork {
  static async open({ canvas, cells, steps, budget }) {
    const rig = await init();
    const work = new RigMemoryWork(rig.memory("work", { budget }), { canvas, cells, steps });
    work.field = await work.pass(CELL, (next) => on.seed(next, cells));
    return work;
  }

  constructor(device, { canvas, cells, steps }) {
    Object.assign(this, { device, cells, steps, madeCount: 0, madeBytes: 0, screen: screenOf(canvas) });
  }

  async frame(brush) {
    const { cells, steps } = this;
    for (let step = 0; step < steps; step += 1) {
      const old = await floats(this.field);
      this.field = await this.pass(CELL, (next) => on.react(old, next, cells, step === 0 ? brush : NO_BRUSH));
    }
    const field = await floats(this.field);
    const rows = await floats(await this.pass(NUMBER, (next) => on.blurRows(field, next, cells)));
    const glow = await floats(await this.pass(NUMBER, (next) => on.blurColumns(rows, next, cells)));
    this.pixels = await this.pass(NUMBER, (_, bytes) => on.shade(field, glow, bytes, cells));
    draw(this.screen, await this.bytes(), cells);
  }

  /** Makes a buffer of so many bytes a cell, and writes it. */
  async pass(bytes, write) {
    const size = bytes * this.cells ** 2;
    this.madeCount += 1;
    this.madeBytes += size;
    const made = await this.device.createBuffer(size);
    await made.write((bytes) => write(new Float32Array(bytes.buffer, bytes.byteOffset, size / 4), bytes));
    return made;
  }

  async finished() {}

  bytes() {
    return this.pixels.toArray(Uint8Array);
  }

  get memory() {
    const { madeCount, madeBytes, device } = this;
    return { madeCount, madeBytes, stats: device.stats(), held: device.held };
  }

  close() {
    return this.device.close();
  }
}

/** Two fields that change places, and every array reused. */
export class HandMemoryWork {
  static async open(options) {
    return new HandMemoryWork(options);
  }

  constructor({ canvas, cells, steps }) {
    const count = cells ** 2;
    this.fields = [new Float32Array(2 * count), new Float32Array(2 * count)];
    this.rows = new Float32Array(count);
    this.glow = new Float32Array(count);
    this.pixels = new Uint8Array(4 * count);
    this.screen = screenOf(canvas);
    Object.assign(this, { cells, steps });
    on.seed(this.fields[0], cells);
  }

  async frame(brush) {
    const { cells, steps, rows, glow, pixels } = this;
    for (let step = 0; step < steps; step += 1) {
      const [old, next] = this.fields;
      on.react(old, next, cells, step === 0 ? brush : NO_BRUSH);
      this.fields = [next, old];
    }
    on.blurRows(this.fields[0], rows, cells);
    on.blurColumns(rows, glow, cells);
    on.shade(this.fields[0], glow, pixels, cells);
    draw(this.screen, pixels, cells);
  }

  async finished() {}

  async bytes() {
    return this.pixels;
  }

  get memory() {
    const { fields, rows, glow, pixels } = this;
    const arrays = [...fields, rows, glow, pixels];
    const bytes = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return { madeCount: arrays.length, madeBytes: bytes, held: bytes };
  }

  close() {}
}

function screenOf(canvas) {
  return canvas.getContext("2d");
}

function draw(screen, pixels, cells) {
  screen.putImageData(new ImageData(new Uint8ClampedArray(pixels), cells), 0, 0);
}

function floats(buffer) {
  return buffer.toArray(Float32Array);
}
