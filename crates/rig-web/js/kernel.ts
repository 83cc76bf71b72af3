// WGSL kernels in one call: bindings by name, as the source declares them.

import { Buffer, type Bytes, type Lent } from "./buffer.js";
import { bytesOf, instance, integer, list, options, text } from "./check.js";
import type { Device, Point } from "./device.js";
import { misuse } from "./error.js";
import { COMPUTE, inWords, Usage } from "./flags.js";
import type { Gpu } from "./gpu.js";
import { type Found, watched } from "./scopes.js";
import type { Place } from "./uniforms.js";

/** What a kernel binds by a name: a buffer for storage, a number or bytes for a uniform. */
export type Binding = Buffer | number | Bytes;
/** What a kernel binds, by the names of the source. */
export type Bindings = Record<string, Binding>;

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
  readonly #made: Made;
  /** Shapes of runs that the engine found well: their like is well. */
  readonly #shapes = new Set<string>();
  /** What was bound by runs that were well, of own buffers; the oldest first. */
  readonly #bound = new Map<string, GPUBindGroup>();

  /** @internal Its tag, like that of buffers. */
  get [Symbol.toStringTag](): string {
    return "Kernel";
  }

  private constructor(made: Made) {
    this.#made = made;
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
    return new Kernel({ device, gpu, label, variables, ...made });
  }

  /**
   * Runs the kernel over groups, with what it binds by the names of the source, and returns the
   * point. It reads what it declares `read`, and writes what it declares `read_write`.
   */
  run<B extends Record<keyof B, Binding>>(bind: B, groups: readonly number[]): Point {
    const [x, y = 1, z = 1, ...more] = list("run", "groups", groups, (count) => count);
    for (const count of [x, y, z]) {
      if (integer("run", "groups", count) > GROUPS_MAX) throw misuse("run", "Option", `groups has ${count}; the most is ${GROUPS_MAX}`);
    }
    if (more.length > 0) throw misuse("run", "Option", "groups has more than three counts");
    if (typeof bind !== "object" || bind === null) throw misuse("run", "Option", "bind is no object");
    const { device, gpu, label, variables, pipeline, isDynamic, groupsMax, uniformMax } = this.#made;
    const unknown = Object.keys(bind).find((name) => !variables.some((known) => known.name === name));
    if (unknown !== undefined) throw misuse("run", "Option", `the kernel declares no ${unknown}`);
    const named: Record<"reads" | "writes", Buffer[]> = { reads: [], writes: [] };
    const uniforms: Uint8Array<ArrayBuffer>[] = [];
    // The program's getters are asked once.
    const buffers = variables.map((variable) => {
      const value = (bind as Bindings)[variable.name];
      if (variable.space === "uniform") {
        uniforms.push(uniformBytes(variable, value, uniformMax));
        return null;
      }
      const buffer = instance("run", variable.name, value, Buffer);
      device.checkHas("run", variable.name, buffer);
      buffer.checkUsage("run", Usage.STORAGE);
      buffer.checkBinding("run", variable.name);
      named[variable.space === "write" ? "writes" : "reads"].push(buffer);
      return buffer;
    });
    const trial: Trial = { found: null, shape: "", places: [], value: 0 };
    try {
      const point = device.submitRun({ ...named, label }, ({ encoder, buffer }) => {
        // The submission says so.
        if (gpu.loss) return;
        const bound = buffers.map((b) => b && bindingOf(buffer(b)));
        const isReady = Math.max(x!, y, z) <= groupsMax && gpu.uniforms.isReady(uniforms);
        const key = isReady ? keyOf(gpu, bound, uniforms) : "";
        let group = this.#bound.get(key);
        if (!group) {
          trial.shape = shapeOf(bound, uniforms);
          if (!key || !this.#shapes.has(trial.shape)) trial.found = watched(gpu.device);
        }
        trial.places = gpu.uniforms.write(uniforms);
        if (!group) {
          group = this.#grouped(bound, trial.places);
          if (isDynamic && !trial.found) this.#keep(key, group);
        }
        const pass = encoder.beginComputePass({ label });
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group, isDynamic ? trial.places.map(({ offset }) => offset) : []);
        pass.dispatchWorkgroups(x!, y, z);
        pass.end();
      });
      trial.value = point.value;
      return point;
    } finally {
      if (trial.found) void this.#judge(trial);
    }
  }

  #grouped(bound: readonly (Place | null)[], places: readonly Place[]): GPUBindGroup {
    const { gpu, variables, layout, isDynamic } = this.#made;
    const own = places.map((place) => (isDynamic ? { ...place, offset: 0 } : place)).values();
    const entries = variables.map(({ binding }, i) => ({ binding, resource: bound[i] ?? own.next().value! }));
    return gpu.device.createBindGroup({ layout, entries });
  }

  #keep(key: string, group: GPUBindGroup): void {
    if (this.#bound.size === BOUND_MAX) this.#bound.delete(this.#bound.keys().next().value!);
    this.#bound.set(key, group);
  }

  /** Takes the engine's verdict on a trial; what is like one that went well is none. */
  async #judge({ found, shape, places, value }: Trial): Promise<void> {
    const { gpu, label } = this.#made;
    const verdicts = found!().map((error) => gpu.judge(error, [value, value], label));
    const isWell = (await Promise.all(verdicts)).every(Boolean);
    gpu.uniforms.judged(places, isWell);
    if (value === 0 || !isWell) return;
    if (this.#shapes.size === SHAPES_MAX) this.#shapes.clear();
    this.#shapes.add(shape);
  }
}

/** A run. */
interface Trial {
  /** What the engine finds of it, where it found none like it well yet. */
  found: Found | null;
  shape: string;
  /** Of its uniforms. */
  places: readonly Place[];
  /** Its value, or 0 where it has none. */
  value: number;
}

/** What the engine makes of a kernel's source. */
interface Compiled {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  /** Whether the places of uniforms are told with each run: a layout has room for some of them. */
  readonly isDynamic: boolean;
  /** The most groups of a dimension, and the most bytes of a uniform. */
  readonly groupsMax: number;
  readonly uniformMax: number;
}

/** What a kernel is made of. */
interface Made extends Compiled {
  readonly device: Device;
  readonly gpu: Gpu;
  readonly label: string;
  readonly variables: readonly Variable[];
}

async function compiled(
  device: GPUDevice,
  code: string,
  variables: readonly Variable[],
  label: string,
  entryPoint: string | undefined,
): Promise<Compiled> {
  const uniforms = variables.filter(({ space }) => space === "uniform");
  const { limits } = device;
  const isDynamic = uniforms.length <= limits.maxDynamicUniformBuffersPerPipelineLayout;
  const found = watched(device, ["validation"]);
  const module = device.createShaderModule({ label, code });
  const layout = device.createBindGroupLayout({
    label,
    entries: variables.map(({ binding, space }) => ({
      binding,
      visibility: COMPUTE,
      buffer: { type: TYPES[space], hasDynamicOffset: isDynamic && space === "uniform" },
    })),
  });
  const pipelineLayout = device.createPipelineLayout({ bindGroupLayouts: [layout] });
  const [scope] = found();
  const compute = entryPoint === undefined ? { module } : { module, entryPoint };
  const pipeline = device.createComputePipelineAsync({ label, layout: pipelineLayout, compute });
  const [error, made] = await Promise.all([
    scope!.catch(() => null),
    pipeline.catch((e: Error) => e),
  ]);
  if (error ?? !("getBindGroupLayout" in made)) {
    const why = error?.message ?? (made as Error).message;
    // In Firefox only this says what is wrong, and where.
    const told = await module.getCompilationInfo().then(({ messages }) => messages, () => []);
    const more = told.map(({ message }) => (why.includes(message) ? "" : message));
    throw misuse("kernel", "Rejected", `the driver rejected the code: ${why}${more.join("")}`);
  }
  const [groupsMax, uniformMax] = [limits.maxComputeWorkgroupsPerDimension, limits.maxUniformBufferBindingSize];
  return { pipeline: made as GPUComputePipeline, layout, isDynamic, groupsMax, uniformMax };
}

/** Finds the variables of group 0 that a source declares, by their bindings. */
function variablesOf(wgsl: string): Variable[] {
  const code = wgsl.replace(/\/\/.*|\/\*[^]*?\*\//g, " ");
  const found: Variable[] = [];
  const declarations = /((?:@\s*\w+\s*\([^;{}]*?\)\s*)+)var\s*(?:<([^>]*)>)?\s*([^\s:]+)\s*:\s*([^;]+?)\s*;/g;
  for (const [, where = "", space = "", name = "", type = ""] of code.matchAll(declarations)) {
    const [group, binding] = ["group", "binding"].map((attribute) => {
      const number = new RegExp(`@\\s*${attribute}\\s*\\(\\s*(0[xX][\\da-fA-F]+|\\d+)[iu]?\\s*,?\\s*\\)`).exec(where);
      if (number) return Number(number[1]);
      throw misuse("kernel", "Option", `the ${attribute} of ${name} is not read: it has to be a plain number`);
    }) as [number, number];
    if (group !== 0 || !/storage|uniform/.test(space)) {
      throw misuse("kernel", "Option", `${name} is no storage or uniform variable of group 0`);
    }
    const kind = space.includes("uniform") ? "uniform" : space.includes("write") ? "write" : "read";
    found.push({ name, binding, space: kind, type });
  }
  // The places of uniforms are told in this order.
  return found.sort((a, b) => a.binding - b.binding);
}

/** Returns a uniform's bytes, of whole words for every type of WGSL. */
function uniformBytes({ name, type }: Variable, value: Bindings[string] | undefined, max: number): Uint8Array<ArrayBuffer> {
  if (typeof value === "number") {
    const Type = SCALARS[type];
    if (!Type) throw misuse("run", "Option", `${name} is a ${type}, which no number makes`);
    const made = new Type(UNIFORM_BYTES / Type.BYTES_PER_ELEMENT);
    made[0] = value;
    if (Type === Float32Array || made[0] === value) return new Uint8Array(made.buffer);
    throw misuse("run", "Option", `${name} is ${value}, which no ${type} is`);
  }
  const given = bytesOf("run", name, value, "no number or typed array");
  if (given.length > max) throw misuse("run", "Rejected", `${name} has ${given.length} bytes; the most is ${max}`);
  const bytes = new Uint8Array(Math.ceil(given.length / UNIFORM_BYTES) * UNIFORM_BYTES);
  bytes.set(given);
  return bytes;
}

/** Tells apart what an engine may find right from what it may find wrong, among own buffers. */
function shapeOf(bound: readonly (Place | null)[], uniforms: readonly Uint8Array[]): string {
  const places = bound.map((place) => place && [bound.findIndex((b) => b?.buffer === place.buffer), place.offset, place.size]);
  return [places, uniforms.map(({ length }) => length)].join();
}

/** Names what is bound, where only this library has it; else answers nothing. */
function keyOf(gpu: Gpu, bound: readonly (Place | null)[], uniforms: readonly Uint8Array[]): string {
  let key = `${gpu.uniforms.round}`;
  for (const place of bound) {
    if (!place) continue;
    const number = gpu.ownNumber(place.buffer);
    if (!number) return "";
    key += `,${number},${place.offset},${place.size}`;
  }
  for (const { length } of uniforms) key += `;${length}`;
  return key;
}

function bindingOf({ buffer, offset, size }: Lent): Place {
  // A binding is made of whole words.
  return { buffer, offset, size: Math.min(inWords(size), buffer.size - offset) };
}

const SCALARS: Record<string, typeof Float32Array | typeof Uint32Array | typeof Int32Array | undefined> = {
  f32: Float32Array,
  u32: Uint32Array,
  i32: Int32Array,
};
/** What the bytes of a uniform of any type are a multiple of. */
const UNIFORM_BYTES = 16;
/** What WebGPU can be told; a device's own limit is lower. */
const GROUPS_MAX = 2 ** 32 - 1;
/** How many shapes of its runs a kernel knows, and how much of what they bound it keeps. */
const SHAPES_MAX = 64;
const BOUND_MAX = 256;
const TYPES = { read: "read-only-storage", write: "storage", uniform: "uniform" } as const;
