// What the driver imports: functions of numbers, over the GPU devices of an instance.

import type { Gpu } from "./gpu.js";

/** The functions that the driver imports, over the devices of an instance: those that are over are lost. */
export function gpuImports(
  gpus: ReadonlyMap<number, Gpu>,
  write: (into: number) => (bytes: Uint8Array) => void,
): Record<string, WebAssembly.ImportValue> {
  let text = NO_TEXT;
  const of = (gpu: number) => gpus.get(gpu)!;
  return {
    gpu_text: (gpu: number, what: number, at: number) => {
      const found = gpus.get(gpu)?.text(what, at) ?? "closed";
      text = found ? new TextEncoder().encode(found) : NO_TEXT;
      return text.length;
    },
    gpu_text_into: (into: number) => write(into)(text),
    gpu_largest: (gpu: number) => of(gpu).device.limits.maxBufferSize,
    gpu_alloc: (gpu: number, size: number) => of(gpu).alloc(size),
    gpu_half: (gpu: number, size: number) => of(gpu).half(size),
    gpu_verdict: (gpu: number, buffer: number) => of(gpu).verdict(buffer),
    gpu_free: (gpu: number, buffer: number) => gpus.get(gpu)?.free(buffer),
    gpu_let_go: (gpu: number, buffer: number) => of(gpu).letGo(buffer),
    gpu_map: (gpu: number, buffer: number, isWrite: number) => of(gpu).map(buffer, isWrite !== 0),
    gpu_mapped: (gpu: number, buffer: number) => of(gpu).mapped(buffer),
    gpu_copy: (gpu: number, src: number, srcAt: number, dst: number, dstAt: number, length: number) =>
      of(gpu).copy(src, srcAt, dst, dstAt, length),
    gpu_fill: (gpu: number, dst: number, at: number, length: number, byte: number) =>
      of(gpu).fill(dst, at, length, byte),
    gpu_write: (gpu: number, src: number, srcAt: number, dst: number, dstAt: number, length: number) =>
      of(gpu).write(src, srcAt, dst, dstAt, length),
    gpu_native: (gpu: number, commands: number) => of(gpu).native(commands),
    gpu_end: (gpu: number, value: number) => of(gpu).end(value),
    gpu_nudge: (gpu: number) => of(gpu).nudge(),
    gpu_stop: (gpu: number) => of(gpu).stop(),
  };
}

const NO_TEXT = new Uint8Array();
