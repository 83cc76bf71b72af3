// WGSL kernels in one call: bindings by name, as the source declares them.

import { Buffer, type Bytes } from "./buffer.js";
import { bytesOf, instance, integer, options, text } from "./check.js";
import type { Device, Point } from "./device.js";
import { misuse } from "./error.js";
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
  /** @internal */
  static readonly name = "Kernel";
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

  /** @internal Checks what a kernel is made of. */
  static check(wgsl: unknown, o?: { entryPoint?: string }): void {
    text("kernel", "wgsl", wgsl);
    const { entryPoint } = options("kernel", o);
    if (entryPoint !== undefined) text("kernel", "entryPoint", entryPoint);
  }

  /** @internal Kernels are made by devices. */
  static async of(device: Device, gpu: Gpu, wgsl: string, o?: { label?: string; entryPoint?: string }): Promise<Kernel> {
    const label = o?.label ?? "";
    const variables = variablesOf(wgsl);
    const made = await compiled(gpu.device, wgsl, variables, label, o?.entryPoint);
    return new Kernel(device, gpu, label, variables, made);
  }

  /**
   * Runs the kernel over groups, with what it binds by the names of the source, and returns the
   * point. It reads what it declares `read`, and writes what it declares `read_write`.
   */
  run(bind: Bindings, groups: [number, number?, number?]): Point {
    const [x, y = 1, z = 1] = instance("run", "groups", groups, Array<number>) as [number, number?, number?];
    for (const count of [x, y, z]) integer("run", "groups", count);
    if (typeof bind !== "object" || bind === null) throw misuse("run", "Option", "bind is no object");
    const unknown = Object.keys(bind).find((name) => !this.#variables.some((known) => known.name === name));
    if (unknown !== undefined) throw misuse("run", "Option", `the kernel declares no ${unknown}`);
    const named: Record<"reads" | "writes", Buffer[]> = { reads: [], writes: [] };
    for (const variable of this.#variables) {
      const value = bind[variable.name];
      if (variable.space === "uniform") continue;
      if (!(value instanceof Buffer)) throw misuse("run", "Option", `${variable.name} is no buffer`);
      value.checkUsage("run", Usage.STORAGE);
      named[variable.space === "write" ? "writes" : "reads"].push(value);
    }
    const bytes = new Map<Variable, Uint8Array>();
    for (const variable of this.#variables) {
      if (variable.space === "uniform") bytes.set(variable, uniformBytes(variable, bind[variable.name]));
    }
    const uniforms: GPUBuffer[] = [];
    const { device } = this.#gpu;
    device.pushErrorScope("validation");
    let point: Point | undefined;
    try {
      point = this.#device.submit({ ...named, label: this.#label }, ({ encoder, buffer }) => {
        const entries = this.#variables.map((variable) => {
          const value = bind[variable.name];
          const own = bytes.get(variable);
          const resource = own ? this.#uniform(variable, own, uniforms) : bound(buffer(value as Buffer));
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
      const value = point?.value ?? 0;
      this.#gpu.judge(device.popErrorScope(), [value, value], this.#label);
    }
  }

  #uniform(variable: Variable, bytes: Uint8Array, made: GPUBuffer[]): GPUBufferBinding {
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

function uniformBytes({ name, type }: Variable, value: Bindings[string] | undefined): Uint8Array {
  if (typeof value !== "number") return bytesOf("run", name, value);
  const Type = SCALARS[type];
  if (Type) return new Uint8Array(new Type([value]).buffer);
  throw misuse("run", "Option", `${name} is a ${type}, which no number makes`);
}

function bound({ buffer, offset, size }: { buffer: GPUBuffer; offset: number; size: number }): GPUBufferBinding {
  // A binding is made of whole words.
  return { buffer, offset, size: Math.min(Math.ceil(size / 4) * 4, buffer.size - offset) };
}

const SCALARS: Record<string, typeof Float32Array | typeof Uint32Array | typeof Int32Array | undefined> = {
  f32: Float32Array,
  u32: Uint32Array,
  i32: Int32Array,
};
const TYPES = { read: "read-only-storage", write: "storage", uniform: "uniform" } as const;
