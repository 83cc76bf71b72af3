// The same two programs where there is no WebGPU: on a memory device of rig's, and on plain arrays.

import { init } from "rig-web";
import * as on from "./field.js";
/** @import { Buffer, Device } from "rig-web" */
/** @import { Brush } from "./rules.js" */
/** @import { Options } from "./worker.js" */

const CELL = 8;
const NUMBER = 4;
/** A brush that wipes nothing. */
const NO_BRUSH = [0, 0, 0];

/** Every pass writes a new buffer of a memory device, and nothing frees one. */
export class RigMemoryWork {
  madeCount = 1;
  /** @type {Buffer | undefined} The last picture. */
  pixels;

  /** @param {Options} options */
  static async open(options) {
    const rig = await init();
    const { cells, budget } = options;
    const device = rig.memory("work", { budget });
    const field = await device.createBuffer(CELL * cells ** 2);
    await field.write((bytes) => on.seed(numbers(bytes), cells));
    return new RigMemoryWork(device, rig.host, field, options);
  }

  /**
   * @param {Device} device
   * @param {Device} host
   * @param {Buffer} field
   * @param {Options} options
   */
  constructor(device, host, field, { canvas, cells, steps }) {
    this.device = device;
    this.host = host;
    this.field = field;
    this.screen = screenOf(canvas);
    this.cells = cells;
    this.steps = steps;
    this.madeBytes = field.size;
  }

  /** @param {Brush} brush */
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
    draw(this.screen, await this.pixels.toArray(Uint8Array), cells);
  }

  /**
   * Makes a buffer of so many bytes a cell, and writes it.
   * @param {number} bytes
   * @param {(next: Float32Array, bytes: Uint8Array) => void} write
   */
  async pass(bytes, write) {
    const size = bytes * this.cells ** 2;
    this.madeCount += 1;
    this.madeBytes += size;
    const made = await this.device.createBuffer(size);
    await made.write((bytes) => write(numbers(bytes), bytes));
    return made;
  }

  async finished() {}

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

/** Two fields that change places, and every array reused. */
export class HandMemoryWork {
  /** @param {Options} options */
  static async open(options) {
    return new HandMemoryWork(options);
  }

  /** @param {Options} options */
  constructor({ canvas, cells, steps }) {
    const count = cells ** 2;
    this.fields = [new Float32Array(2 * count), new Float32Array(2 * count)];
    this.rows = new Float32Array(count);
    this.glow = new Float32Array(count);
    this.pixels = new Uint8Array(4 * count);
    this.screen = screenOf(canvas);
    this.cells = cells;
    this.steps = steps;
    on.seed(this.fields[0], cells);
  }

  /** @param {Brush} brush */
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

/** @param {OffscreenCanvas} canvas */
function screenOf(canvas) {
  const screen = canvas.getContext("2d");
  if (!screen) throw new Error("this canvas cannot be drawn on");
  return screen;
}

/**
 * @param {OffscreenCanvasRenderingContext2D} screen
 * @param {Uint8Array} pixels
 * @param {number} cells
 */
function draw(screen, pixels, cells) {
  screen.putImageData(new ImageData(new Uint8ClampedArray(pixels), cells), 0, 0);
}

/** @param {Buffer} buffer */
function floats(buffer) {
  return buffer.toArray(Float32Array);
}

/** @param {Uint8Array} bytes */
function numbers(bytes) {
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}
