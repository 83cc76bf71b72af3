// The package's face: `init`, and what it answers.

import { Buffer } from "./buffer.js";
import { Device, type Label, type Stats } from "./device.js";
import { integer, misuse, RigError, unsupported } from "./error.js";
import { Instance, type Wait } from "./instance.js";

export type { Buffer, Bytes, Claim, Lent, Range, TypedCtor } from "./buffer.js";
export type { Device, Facts, Label, Pass, Point, Returned, Stats, SubmitOptions } from "./device.js";
export type { Bindings, Kernel } from "./kernel.js";
export type { Code, Report, Round } from "./error.js";
export type { Wait } from "./instance.js";
export { RigError } from "./error.js";

/** Where the wasm comes from: an address, a response, bytes, or a compiled module. */
export type WasmSource = string | URL | Response | BufferSource | WebAssembly.Module;
/** Options of {@link init}. */
export interface InitOptions {
  wasm?: WasmSource;
  /** Whether the engine is nudged to collect as buffers are made; on by default. */
  pacing?: boolean;
}
/** Options of a device: its budget in bytes, and what else its GPU buffers are used for. */
export type Opts = { budget?: number; usage?: number };

/** One instance of rig: its host, its devices, copies between them. */
export interface Rig {
  /** The host: memory of the page, always open. */
  readonly host: Device;
  /** Every device that was opened, lost ones too. */
  readonly devices: readonly Device[];
  /** Opens a GPU under a name, or answers the device that has it. */
  open(name: string, o?: Wait & Opts & { adapter?: GPURequestAdapterOptions; device?: GPUDeviceDescriptor }): Promise<Device>;
  /** Takes a GPU device of the page; adopting one twice answers the same device. */
  adopt(device: GPUDevice, o?: Opts & { name?: string }): Device;
  /** Opens a device over memory of the page, with a timeline. */
  memory(name: string, o?: Opts): Device;
  /** Makes a host buffer over a typed array, without a copy. It is charged to no budget. */
  wrap(view: ArrayBufferView, o?: Label): Buffer;
  /** Copies all of a buffer to another of the same size, on whatever devices. */
  copy(src: Buffer, dst: Buffer, o?: Wait): Promise<void>;
  /** Returns the statistics of all devices. */
  stats(): Stats;
}

let current: Promise<[Instance, Rig]> | undefined;

/**
 * Gets rig ready. Again it answers the same, until an instance ends by an internal error: then it
 * makes a new one.
 */
export async function init(o?: InitOptions): Promise<Rig> {
  const known = await current?.catch(() => undefined);
  if (!known || known[0].dead) {
    const made = start(o);
    current = made;
    made.catch(() => {
      if (current === made) current = undefined;
    });
  }
  return (await current!)[1];
}

async function start(o: InitOptions = {}): Promise<[Instance, Rig]> {
  const instance = await Instance.of(await compile(o.wasm ?? new URL("./rig.wasm", import.meta.url)));
  return [instance, new Face(instance, o.pacing ?? true)];
}

async function compile(source: WasmSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  try {
    return await WebAssembly.compile(await bytesOf(source));
  } catch (e) {
    if (RigError.is(e)) throw e;
    const text = String(e);
    const isPolicy = /Content Security Policy|unsafe-eval|blocked by CSP/i.test(text);
    const hint = isPolicy ? "; the page's policy needs script-src 'wasm-unsafe-eval'" : "";
    throw unsupported("rig", `its wasm does not compile: ${text}${hint}`);
  }
}

async function bytesOf(source: string | URL | Response | BufferSource): Promise<BufferSource> {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  const bytes = await loaded(source as string | URL | Response);
  const magic = new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength));
  if (String.fromCharCode(...magic) === "\0asm") return bytes;
  const why = "what came back is no wasm; with Vite, put rig-web into optimizeDeps.exclude, or give init({ wasm })";
  throw unsupported("rig", why);
}

async function loaded(source: string | URL | Response): Promise<ArrayBuffer> {
  if (source instanceof Response) return source.arrayBuffer();
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") {
    const name = "node:fs/promises";
    const { readFile } = (await import(/* @vite-ignore */ name)) as {
      readFile(path: URL): Promise<{ buffer: ArrayBuffer; byteOffset: number; byteLength: number }>;
    };
    const { buffer, byteOffset, byteLength } = await readFile(url);
    return buffer.slice(byteOffset, byteOffset + byteLength);
  }
  try {
    return await (await fetch(url)).arrayBuffer();
  } catch (e) {
    throw unsupported("rig", `its wasm does not load from ${url.href}: ${String(e)}`);
  }
}

class Face implements Rig {
  readonly host: Device;
  readonly #instance: Instance;
  readonly #pacing: boolean;
  readonly #devices: Device[] = [];
  readonly #adopted = new WeakMap<GPUDevice, Device>();
  readonly #opening = new Map<string, Promise<Device>>();

  constructor(instance: Instance, pacing: boolean) {
    this.#instance = instance;
    this.#pacing = pacing;
    this.host = this.#device(0, "CPU", 0);
  }

  get devices(): readonly Device[] {
    return [...this.#devices];
  }

  async open(
    name: string,
    o: Wait & Opts & { adapter?: GPURequestAdapterOptions; device?: GPUDeviceDescriptor } = {},
  ): Promise<Device> {
    text("open", "name", name);
    const known = this.#known(name, true);
    if (known) return known;
    const opening = this.#opening.get(name);
    if (opening) return opening;
    const made = this.#request(name, o).finally(() => this.#opening.delete(name));
    this.#opening.set(name, made);
    return made;
  }

  adopt(device: GPUDevice, o: Opts & { name?: string } = {}): Device {
    if (!device?.queue) throw misuse("adopt", "Option", "device is no GPUDevice");
    const known = this.#adopted.get(device);
    if (known) return known;
    const name = text("adopt", "name", o.name ?? `gpu ${this.#devices.length}`);
    return this.#adopt(device, name, false, o, "adopt");
  }

  memory(name: string, o: Opts = {}): Device {
    const known = this.#known(text("memory", "name", name), false);
    if (known) return known;
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.open(0);
    });
    return this.#budgeted(this.#device(index, name, 0), o);
  }

  wrap(view: ArrayBufferView, o?: Label): Buffer {
    if (!ArrayBuffer.isView(view)) throw misuse("wrap", "Option", "view is no typed array");
    const { buffer } = view as { buffer: ArrayBufferLike & { resizable?: boolean; growable?: boolean } };
    if (buffer.resizable || buffer.growable) {
      throw misuse("wrap", "Option", "view is over an ArrayBuffer that can change its length");
    }
    const instance = this.#instance;
    const bytes = new Uint8Array(buffer, view.byteOffset, view.byteLength);
    const array = instance.arrays.add(bytes, true);
    const size = view.byteLength;
    const number = instance.call((e) => e.wrap(array, 0, size));
    const label = o?.label ?? "";
    const made = { instance, device: this.host, number, size, label, offset: 0, counted: 0 };
    return new Buffer({ ...made, array: size > 0 ? array : 0, arrayLength: size });
  }

  async copy(src: Buffer, dst: Buffer, o?: Wait): Promise<void> {
    for (const side of [src, dst]) {
      if (!(side instanceof Buffer)) throw misuse("copy", "Option", "a side is no buffer");
    }
    const [from, to] = [src.numberFor("copy"), dst.numberFor("copy")];
    await this.#instance.wait((e, t) => e.copy(t, from, to), () => undefined, o);
  }

  stats(): Stats {
    this.#instance.call((e) => e.stats(-1));
    return JSON.parse(this.#instance.answer) as Stats;
  }

  async #request(
    name: string,
    o: Opts & { adapter?: GPURequestAdapterOptions; device?: GPUDeviceDescriptor },
  ): Promise<Device> {
    const { gpu } = (globalThis as { navigator?: { gpu?: GPU } }).navigator ?? {};
    if (!gpu) throw unsupported(name, "there is no WebGPU here");
    try {
      const adapter = await gpu.requestAdapter(o.adapter);
      if (!adapter) throw unsupported(name, "there is no such adapter");
      const requiredLimits = { ...limitsOf(adapter), ...o.device?.requiredLimits };
      const device = await adapter.requestDevice({ label: name, ...o.device, requiredLimits });
      return this.#adopt(device, name, true, o, "open");
    } catch (e) {
      throw RigError.is(e) ? e : unsupported(name, String(e));
    }
  }

  #adopt(gpu: GPUDevice, name: string, isOwn: boolean, o: Opts, call: string): Device {
    const number = this.#instance.addGpu(gpu, isOwn, integer(call, "usage", o.usage ?? 0));
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.open(number);
    });
    const device = this.#device(index, name, number);
    if (device.gpu !== gpu) {
      throw misuse(call, "NameTaken", `the name ${name} belongs to another GPU device`);
    }
    this.#adopted.set(gpu, device);
    return this.#budgeted(device, o);
  }

  #budgeted(device: Device, o: Opts): Device {
    if (o.budget !== undefined) device.budget = o.budget;
    return device;
  }

  /** Returns the open device of a name. */
  #known(name: string, isGpu: boolean): Device | undefined {
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.named();
    });
    const known = index < 0 ? undefined : this.#devices[index];
    if (known && (known === this.host || (known.gpu !== null) !== isGpu)) {
      const call = isGpu ? "open" : "memory";
      throw misuse(call, "NameTaken", `the name ${name} is taken by a ${known.facts.driver} device`);
    }
    return known;
  }

  #device(index: number, name: string, gpu: number): Device {
    const known = this.#devices[index];
    if (known) return known;
    const device = new Device({
      instance: this.#instance,
      index,
      name,
      gpu: this.#instance.gpus[gpu] ?? null,
      pacing: this.#pacing,
      of: (at) => this.#devices[at]!,
    });
    this.#devices[index] = device;
    return device;
  }
}

/** Returns the limits of an adapter: a device is opened with the highest. */
function limitsOf(adapter: GPUAdapter): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const name in adapter.limits) {
    const limit = (adapter.limits as unknown as Record<string, unknown>)[name];
    if (typeof limit === "number") limits[name] = limit;
  }
  return limits;
}

function text(call: string, name: string, value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw misuse(call, "Option", `${name} is no text`);
}
