// WGSL kernels in one call: bindings by name, as the source declares them.

import { Buffer, bytesOf, type Bytes } from "./buffer.js";
import type { Device, Point } from "./device.js";
import { integer, labelOf, misuse } from "./error.js";
import { COMPUTE, Usage } from "./flags.js";
import type { Gpu } from "./gpu.js";

/** What a kernel binds by a name: a buffer for storage, a number or bytes for a uniform. */
export type Bindings = Record<string, Buffer | number | Bytes>;

interface Variable {
  readonly name: string;
  readonly binding: number;
  readonly space: "read" | "write" | "uniform";
  readonly type: string;
}

/** A compute shader, compiled once and run with buffers. */
export class Kernel {
  readonly #device: Device;
  readonly #gpu: Gpu;
  readonly #pipeline: GPUComputePipeline;
  readonly #layout: GPUBindGroupLayout;
  readonly #variables: readonly Variable[];
  readonly #label: string;

  private constructor(device: Device, gpu: Gpu, label: string, variables: readonly Variable[], made: Made) {
    this.#device = device;
    this.#gpu = gpu;
    this.#label = label;
    this.#variables = variables;
    this.#pipeline = made.pipeline;
    this.#layout = made.layout;
  }

  /** @internal Kernels are made by devices. */
  static async of(device: Device, gpu: Gpu, wgsl: string, o?: { label?: string; entryPoint?: string }): Promise<Kernel> {
    if (typeof wgsl !== "string") throw misuse("kernel", "Option", "wgsl is no string");
    const label = labelOf("kernel", o);
    const variables = variablesOf(wgsl);
    const made = await compiled(gpu.device, wgsl, variables, label, o?.entryPoint);
    return new Kernel(device, gpu, label, variables, made);
  }

  /**
   * Runs the kernel over groups, with what it binds by the names of the source, and returns the
   * point. It reads what it declares `read`, and writes what it declares `read_write`.
   */
  run(bind: Bindings, groups: [number, number?, number?]): Point {
    const [x, y = 1, z = 1] = groups;
    for (const count of [x, y, z]) integer("run", "groups", count);
    const unknown = Object.keys(bind).find((name) => !this.#variables.some((known) => known.name === name));
    if (unknown !== undefined) throw misuse("run", "Option", `the kernel declares no ${unknown}`);
    const named: Record<"reads" | "writes", Buffer[]> = { reads: [], writes: [] };
    for (const variable of this.#variables) {
      const value = bind[variable.name];
      if (variable.space === "uniform") continue;
      if (!(value instanceof Buffer)) throw misuse("run", "Option", `${variable.name} is no buffer`);
      named[variable.space === "write" ? "writes" : "reads"].push(value);
    }
    const uniforms: GPUBuffer[] = [];
    const { device } = this.#gpu;
    device.pushErrorScope("validation");
    let point: Point | undefined;
    try {
      point = this.#device.submit({ ...named, label: this.#label }, ({ encoder, buffer }) => {
        const entries = this.#variables.map((variable) => {
          const value = bind[variable.name];
          const resource = value instanceof Buffer ? bound(buffer(value)) : this.#uniform(variable, value, uniforms);
          return { binding: variable.binding, resource };
        });
        const pass = encoder.beginComputePass({ label: this.#label });
        pass.setPipeline(this.#pipeline);
        pass.setBindGroup(0, device.createBindGroup({ layout: this.#layout, entries }));
        pass.dispatchWorkgroups(x, y, z);
        pass.end();
      });
      return point;
    } finally {
      for (const uniform of uniforms) uniform.destroy();
      this.#gpu.judge(device.popErrorScope(), point?.value ?? 0);
    }
  }

  #uniform(variable: Variable, value: number | Bytes | undefined, made: GPUBuffer[]): GPUBufferBinding {
    const bytes = uniformBytes(variable, value);
    const size = Math.ceil(bytes.length / 16) * 16;
    const usage = Usage.UNIFORM;
    const buffer = this.#gpu.device.createBuffer({ label: variable.name, size, usage, mappedAtCreation: true });
    new Uint8Array(buffer.getMappedRange()).set(bytes);
    buffer.unmap();
    made.push(buffer);
    return { buffer };
  }
}

interface Made {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

async function compiled(
  device: GPUDevice,
  code: string,
  variables: readonly Variable[],
  label: string,
  entryPoint: string | undefined,
): Promise<Made> {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label, code });
  const layout = device.createBindGroupLayout({
    label,
    entries: variables.map(({ binding, space }) => ({
      binding,
      visibility: COMPUTE,
      buffer: { type: TYPES[space] },
    })),
  });
  const scope = device.popErrorScope();
  const pipelineLayout = device.createPipelineLayout({ bindGroupLayouts: [layout] });
  const compute = entryPoint === undefined ? { module } : { module, entryPoint };
  const pipeline = device.createComputePipelineAsync({ label, layout: pipelineLayout, compute });
  const [error, made] = await Promise.all([
    scope.catch(() => null),
    pipeline.catch((e: Error) => e),
  ]);
  if (error ?? !("getBindGroupLayout" in made)) {
    const why = error?.message ?? (made as Error).message;
    throw misuse("kernel", "Rejected", `the driver rejected the code: ${why}`);
  }
  return { pipeline: made as GPUComputePipeline, layout };
}

/** Finds the variables of group 0 that a source declares. */
function variablesOf(wgsl: string): Variable[] {
  const code = wgsl.replace(/\/\/.*$/gm, "").replace(/\/\*[\s\S]*?\*\//g, "");
  const found: Variable[] = [];
  const attributes = /((?:@(?:group|binding)\s*\(\s*\d+\s*\)\s*){2})var\s*(?:<([^>]*)>)?\s*(\w+)\s*:\s*([\w<>, ]+?)\s*;/g;
  for (const [, where = "", space = "", name = "", type = ""] of code.matchAll(attributes)) {
    const group = /@group\s*\(\s*(\d+)/.exec(where)?.[1];
    const binding = Number(/@binding\s*\(\s*(\d+)/.exec(where)?.[1]);
    if (group !== "0" || !/storage|uniform/.test(space)) {
      throw misuse("kernel", "Option", `${name} is no storage or uniform variable of group 0`);
    }
    const kind = space.includes("uniform") ? "uniform" : space.includes("write") ? "write" : "read";
    found.push({ name, binding, space: kind, type });
  }
  return found;
}

function uniformBytes({ name, type }: Variable, value: number | Bytes | undefined): Uint8Array {
  if (typeof value === "number") {
    if (type === "f32") return bytesOf(new Float32Array([value]));
    if (type === "u32") return bytesOf(new Uint32Array([value]));
    if (type === "i32") return bytesOf(new Int32Array([value]));
    throw misuse("run", "Option", `${name} is a ${type}, which no number makes`);
  }
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return bytesOf(value);
  throw misuse("run", "Option", `${name} is neither a number nor bytes`);
}

function bound({ buffer, offset, size }: { buffer: GPUBuffer; offset: number; size: number }): GPUBufferBinding {
  // A binding is made of whole words.
  return { buffer, offset, size: Math.min(Math.ceil(size / 4) * 4, buffer.size - offset) };
}

const TYPES = { read: "read-only-storage", write: "storage", uniform: "uniform" } as const;
