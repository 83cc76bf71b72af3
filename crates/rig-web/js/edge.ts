// Copies and fills of any bytes at any offset.
//
// WebGPU copies whole words between different buffers. The rest goes through a small compute pass,
// which makes whole words of the destination and keeps the bytes around. What such a pass cannot
// bind, the buffers of a half and a source within the destination's own buffer, goes through a
// scratch buffer first. It is the way of the library's wgpu driver, with the same shader.

import { inWords, Usage, WORD } from "./flags.js";
import SHADER from "../../rig/src/drivers/wgpu/edge.wgsl";

/** Bytes of a GPU buffer. */
export interface Place {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly length: number;
}

type Pass = "move_bytes" | "fill_bytes";

/** The passes of a device, made when first needed. */
export class Edges {
  readonly #device: GPUDevice;
  readonly #pipelines = new Map<Pass, GPUComputePipeline>();
  readonly #align: number;
  readonly #stretch: number;
  /** Through the one, and from there through the other where both ends need one. */
  readonly #scratches: [GPUBuffer?, GPUBuffer?] = [];
  /** The arguments of the passes of the submission that is being encoded. */
  #jobs: GPUBuffer[] = [];

  constructor(device: GPUDevice) {
    this.#device = device;
    const { minStorageBufferOffsetAlignment, maxStorageBufferBindingSize } = device.limits;
    this.#align = Math.max(minStorageBufferOffsetAlignment, WORD);
    const bound = maxStorageBufferBindingSize - 2 * this.#align;
    this.#stretch = Math.floor(Math.min(bound, STRETCH_MAX) / WORD) * WORD;
  }

  /** Lets what the last submission needed go; it was submitted. */
  clear(): void {
    for (const job of this.#jobs) job.destroy();
    this.#jobs = [];
  }

  /** Lets all go, at the end of the instance. */
  end(): void {
    this.clear();
    for (const scratch of this.#scratches.splice(0)) scratch?.destroy();
  }

  /** Copies between places of one length. */
  copy(src: Place, dst: Place, to: GPUCommandEncoder): void {
    if (isWhole(dst, src)) {
      to.copyBufferToBuffer(src.buffer, src.offset, dst.buffer, dst.offset, dst.length);
      return;
    }
    if (src.buffer === dst.buffer) return this.#throughScratch(src, dst, to);
    const whole = !canBind(dst) && dst.offset % WORD === 0;
    if (whole && src.offset % WORD === 0) {
      // What lies behind the bytes in a half is nobody's.
      to.copyBufferToBuffer(src.buffer, src.offset, dst.buffer, dst.offset, words(src).length);
      return;
    }
    if (whole && canBind(src)) return this.#toHalf(src, dst, to);
    const head = (WORD - (dst.offset % WORD)) % WORD;
    if (src.offset % WORD !== dst.offset % WORD || dst.length < head + WORD) {
      return this.#moved(src, dst, to);
    }
    const tail = (dst.length - head) % WORD;
    const middle = dst.length - head - tail;
    to.copyBufferToBuffer(src.buffer, src.offset + head, dst.buffer, dst.offset + head, middle);
    if (head > 0) this.#moved(part(src, 0, head), part(dst, 0, head), to);
    const at = head + middle;
    if (tail > 0) this.#moved(part(src, at, tail), part(dst, at, tail), to);
  }

  /** Sets every byte of a place. */
  fill(dst: Place, byte: number, to: GPUCommandEncoder): void {
    if (byte === 0 && isWhole(dst)) {
      to.clearBuffer(dst.buffer, dst.offset, dst.length);
      return;
    }
    each(dst.length, this.#stretch, (at, length) => {
      this.#dispatch(undefined, part(dst, at, length), byte * 0x01010101, to);
    });
  }

  /** Writes bytes to a place, by a buffer of their own. */
  write(bytes: Uint8Array, dst: Place, to: GPUCommandEncoder): void {
    // They lie in words as they will there.
    const offset = dst.offset % WORD;
    const buffer = this.#job(Usage.STORAGE | Usage.COPY_SRC, bytes, offset);
    this.copy({ buffer, offset, length: bytes.length }, dst, to);
  }

  /** Makes a buffer of bytes, from an offset on, for the submission that is being encoded. */
  #job(usage: number, bytes: Uint8Array, offset: number): GPUBuffer {
    const size = inWords(offset + bytes.length);
    const job = this.#device.createBuffer({ label: "rig arguments", size, usage, mappedAtCreation: true });
    new Uint8Array(job.getMappedRange()).set(bytes, offset);
    job.unmap();
    this.#jobs.push(job);
    return job;
  }

  /** Moves bytes by the pass, from wherever they are. */
  #moved(src: Place, dst: Place, to: GPUCommandEncoder): void {
    if (!canBind(src)) return this.#throughScratch(src, dst, to);
    each(src.length, this.#stretch, (at, length) => {
      this.#dispatch(part(src, at, length), part(dst, at, length), 0, to);
    });
  }

  /** Copies the words around the bytes into the scratch buffer, and moves the bytes from there. */
  #throughScratch(src: Place, dst: Place, to: GPUCommandEncoder): void {
    const scratch = this.#scratchBuffer(0);
    each(src.length, SCRATCH_BYTES, (at, length) => {
      const piece = part(src, at, length);
      const around = words(piece);
      to.copyBufferToBuffer(around.buffer, around.offset, scratch, 0, around.length);
      const staged = { buffer: scratch, offset: piece.offset - around.offset, length };
      this.copy(staged, part(dst, at, length), to);
    });
  }

  /** Moves the bytes to the scratch buffer's start, and copies its words to a half. */
  #toHalf(src: Place, dst: Place, to: GPUCommandEncoder): void {
    const scratch = this.#scratchBuffer(src.buffer === this.#scratches[0] ? 1 : 0);
    each(src.length, SCRATCH_BYTES, (at, length) => {
      const staged = { buffer: scratch, offset: 0, length };
      this.#moved(part(src, at, length), staged, to);
      this.copy(staged, part(dst, at, length), to);
    });
  }

  /** Encodes one dispatch: a fill, or a move where there is a source. */
  #dispatch(src: Place | undefined, dst: Place, value: number, to: GPUCommandEncoder): void {
    const pipeline = this.#pipeline(src ? "move_bytes" : "fill_bytes");
    const target = this.#bind(dst);
    const source = src && this.#bind(src);
    const numbers = new Uint32Array([source?.at ?? 0, target.at, dst.length, value, 0]);
    const job = this.#job(Usage.UNIFORM, new Uint8Array(numbers.buffer), 0);
    const entries: GPUBindGroupEntry[] = [
      { binding: 0, resource: target.binding },
      { binding: 1, resource: { buffer: job } },
    ];
    if (source) entries.push({ binding: 2, resource: source.binding });
    const group = this.#device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    const pass = to.beginComputePass({ label: "rig bytes" });
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(Math.ceil(inWords((target.at % WORD) + dst.length) / WORD / GROUP));
    pass.end();
  }

  /** Returns a binding around a place, and where in it the place starts. */
  #bind(place: Place): { binding: GPUBufferBinding; at: number } {
    const offset = Math.floor(place.offset / this.#align) * this.#align;
    const around = words(place);
    const size = around.offset + around.length - offset;
    return { binding: { buffer: place.buffer, offset, size }, at: place.offset - offset };
  }

  #pipeline(entryPoint: Pass): GPUComputePipeline {
    let pipeline = this.#pipelines.get(entryPoint);
    if (!pipeline) {
      const module = this.#device.createShaderModule({ label: "rig bytes", code: SHADER });
      pipeline = this.#device.createComputePipeline({
        label: entryPoint,
        layout: "auto",
        compute: { module, entryPoint },
      });
      this.#pipelines.set(entryPoint, pipeline);
    }
    return pipeline;
  }

  #scratchBuffer(which: 0 | 1): GPUBuffer {
    return (this.#scratches[which] ??= this.#device.createBuffer({
      label: "rig scratch",
      size: SCRATCH_BYTES + 2 * WORD,
      usage: Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST,
    }));
  }
}

/** Whether a copy, or a fill with zeros where there is no source, is one command that cannot fail. */
export function isWhole(dst: Place, src?: Place): boolean {
  return src?.buffer !== dst.buffer && ((src?.offset ?? 0) | dst.offset | dst.length) % WORD === 0;
}

function canBind(place: Place): boolean {
  return (place.buffer.usage & Usage.STORAGE) !== 0;
}

function part({ buffer, offset }: Place, at: number, length: number): Place {
  return { buffer, offset: offset + at, length };
}

/** The words that bytes are part of. */
function words({ buffer, offset, length }: Place): Place {
  const start = Math.floor(offset / WORD) * WORD;
  const end = Math.min(inWords(offset + length), buffer.size);
  return { buffer, offset: start, length: end - start };
}

function each(length: number, step: number, f: (at: number, length: number) => void): void {
  for (let at = 0; at < length; at += step) f(at, Math.min(step, length - at));
}

/** The invocations of a workgroup of the passes. */
const GROUP = 256;
/** The most bytes one dispatch reaches: 65,535 groups of 256 words are just below 64 MiB. */
const STRETCH_MAX = 32 * 2 ** 20;
const SCRATCH_BYTES = 2 ** 20;
