// What kernels bind as uniforms: places in one buffer of the device, which its queue writes.
//
// The queue keeps writes and submissions in their order, so that a place is written anew behind
// the work that reads it, and nothing is waited for.

import { Usage } from "./flags.js";

/** Where something that is bound is. */
export type Place = Required<GPUBufferBinding>;

/** The uniforms of a device. */
export class Uniforms {
  readonly #device: GPUDevice;
  #buffer: GPUBuffer | null = null;
  /** How many buffers there were. */
  round = 0;
  #nextByte = 0;
  #isThere = false;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Whether there is room for uniforms, in a buffer that the engine did make. */
  isReady(all: readonly Uint8Array[]): boolean {
    return all.length === 0 || (this.#isThere && bytesOf(all) <= this.#buffer!.size);
  }

  /** Writes uniforms, of whole words, ahead of what is submitted next. */
  write(all: readonly Uint8Array<ArrayBuffer>[]): Place[] {
    if (all.length === 0) return [];
    const bytes = bytesOf(all);
    if (!this.#buffer || bytes > this.#buffer.size) this.#make(bytes);
    const buffer = this.#buffer!;
    if (this.#nextByte + bytes > buffer.size) this.#nextByte = 0;
    return all.map((data) => {
      const place = { buffer, offset: this.#nextByte, size: data.length };
      this.#device.queue.writeBuffer(buffer, place.offset, data);
      this.#nextByte += spanOf(data);
      return place;
    });
  }

  /** Notes what the engine said of work that has these places; a buffer that may not be there goes. */
  judged(places: readonly Place[], isWell: boolean): void {
    if (this.#isThere || !places.some(({ buffer }) => buffer === this.#buffer)) return;
    if (isWell) this.#isThere = true;
    else this.end();
  }

  /** Lets the buffer go; what is on the queue goes on with it. */
  end(): void {
    this.#buffer?.destroy();
    this.#buffer = null;
    this.#isThere = false;
  }

  #make(bytes: number): void {
    this.end();
    const usage = Usage.UNIFORM | Usage.COPY_DST;
    this.#buffer = this.#device.createBuffer({ label: "rig uniforms", size: Math.max(bytes, ROOM_BYTES), usage });
    this.#nextByte = 0;
    this.round += 1;
  }
}

function spanOf(data: Uint8Array): number {
  return Math.ceil(data.length / ALIGNMENT) * ALIGNMENT;
}

function bytesOf(all: readonly Uint8Array[]): number {
  return all.reduce((sum, data) => sum + spanOf(data), 0);
}

/** Where the binding of a uniform may begin on every device. */
const ALIGNMENT = 256;
const ROOM_BYTES = 2 ** 14;
