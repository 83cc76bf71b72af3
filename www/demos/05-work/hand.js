// The same work by hand, on WebGPU itself: two fields that change places, and every buffer reused.

import { Screen, finished } from "./screen.js";
import { groupsOf, passes } from "./shaders.js";
/** @import { Options } from "./worker.js" */

export class HandWork {
  madeBytes = 0;

  /**
   * Opens a device, makes every buffer and bind group there will be, and sows the field.
   * @param {Options} options
   */
  static async open({ canvas, cells, steps }) {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) throw Object.assign(new Error("there is no WebGPU here"), { code: "Unsupported" });
    const device = await adapter.requestDevice();
    /** @type {Record<string, GPUComputePipeline>} */
    const pipelines = {};
    const compiled = Object.entries(passes(cells, Screen.order)).map(async ([name, code]) => {
      const compute = { module: device.createShaderModule({ code }) };
      pipelines[name] = await device.createComputePipelineAsync({ label: name, layout: "auto", compute });
    });
    await Promise.all(compiled);
    const work = new HandWork(device, new Screen(device, canvas), pipelines, steps);
    work.submit((encoder) => work.pass(encoder, "seed"));
    return work;
  }

  /**
   * @param {GPUDevice} device
   * @param {Screen} screen
   * @param {Record<string, GPUComputePipeline>} pipelines
   * @param {number} steps
   */
  constructor(device, screen, pipelines, steps) {
    this.device = device;
    this.screen = screen;
    this.cells = screen.cells;
    this.pipelines = pipelines;
    this.steps = steps;
    const fields = [this.make(8), this.make(8)];
    const [rows, glow] = [this.make(4), this.make(4)];
    this.pixels = this.make(4);
    this.brush = device.createBuffer({ size: 16, usage: USAGE.UNIFORM | USAGE.COPY_DST });
    const { brush, pixels } = this;
    // An even count of steps ends in the field that it began with.
    /** @type {Record<string, GPUBindGroup>} */
    this.groups = {
      seed: this.group("seed", [fields[0]]),
      wipe: this.group("wipe", [fields[0], fields[1], brush]),
      there: this.group("react", [fields[0], fields[1]]),
      back: this.group("react", [fields[1], fields[0]]),
      rows: this.group("rows", [fields[0], rows]),
      columns: this.group("columns", [rows, glow]),
      shade: this.group("shade", [fields[0], glow, pixels]),
    };
  }

  /**
   * Does the work of a frame. It makes nothing.
   * @param {Float32Array<ArrayBuffer>} brush
   */
  async frame(brush) {
    this.device.queue.writeBuffer(this.brush, 0, brush);
    this.submit((encoder) => {
      this.pass(encoder, "wipe");
      for (let step = 1; step < this.steps; step += 1) {
        this.pass(encoder, "react", this.groups[step % 2 === 0 ? "there" : "back"]);
      }
      for (const name of ["rows", "columns", "shade"]) this.pass(encoder, name);
      this.screen.draw(encoder, { buffer: this.pixels });
    });
  }

  /** @param {(encoder: GPUCommandEncoder) => void} encode */
  submit(encode) {
    const encoder = this.device.createCommandEncoder();
    encode(encoder);
    this.device.queue.submit([encoder.finish()]);
  }

  /**
   * @param {GPUCommandEncoder} encoder
   * @param {string} name
   */
  pass(encoder, name, group = this.groups[name]) {
    const pass = encoder.beginComputePass();
    pass.setPipeline(this.pipelines[name]);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(groupsOf(this.cells), groupsOf(this.cells));
    pass.end();
  }

  /**
   * Makes a buffer of so many bytes a cell.
   * @param {number} bytes
   */
  make(bytes) {
    const size = bytes * this.cells ** 2;
    this.madeBytes += size;
    return this.device.createBuffer({ size, usage: USAGE.STORAGE | USAGE.COPY_SRC });
  }

  /**
   * @param {string} name
   * @param {GPUBuffer[]} buffers
   */
  group(name, buffers) {
    const layout = this.pipelines[name].getBindGroupLayout(0);
    const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
    return this.device.createBindGroup({ layout, entries });
  }

  finished() {
    return finished(this.device);
  }

  /** Returns the bytes of the last picture. */
  async bytes() {
    const { size } = this.pixels;
    const back = this.device.createBuffer({ size, usage: USAGE.MAP_READ | USAGE.COPY_DST });
    this.submit((encoder) => encoder.copyBufferToBuffer(this.pixels, 0, back, 0, size));
    await back.mapAsync(MAP_READ);
    const bytes = new Uint8Array(back.getMappedRange()).slice();
    back.destroy();
    return bytes;
  }

  get memory() {
    return { madeCount: MADE_COUNT, madeBytes: this.madeBytes, held: this.madeBytes };
  }

  close() {
    this.device.destroy();
  }
}

/** What buffers are used for: an engine without WebGPU has no names for it. */
const USAGE = { MAP_READ: 0x1, COPY_SRC: 0x4, COPY_DST: 0x8, UNIFORM: 0x40, STORAGE: 0x80 };
const MAP_READ = 0x1;
/** Two fields, two blurs, one picture. */
const MADE_COUNT = 5;
