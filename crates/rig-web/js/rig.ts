// The package's face: `init`, and what it answers.

import { isNode, isPinned, isResizable } from "./arrays.js";
import { Buffer, isOdd, numberOf } from "./buffer.js";
import { budgetOf, bytesOf, callable, flag, has, integer, named, options } from "./check.js";
import { type ClaimOptions, Claims } from "./claims.js";
import { Device, type Label } from "./device.js";
import { misuse, RigError, unsupported } from "./error.js";
import { Usage } from "./flags.js";
import { type Exports, Instance, type Settings } from "./instance.js";
import { countersOf, listed, statsOf } from "./said.js";
import type { Counters, DeviceStats } from "./stats.js";
import { completion, raced, type Wait } from "./wait.js";

export type { Buffer, Bytes, Claim, Lent, Range, Stamps, TypedCtor } from "./buffer.js";
export type { ClaimOptions, Claims } from "./claims.js";
export type {
  Device,
  Facts,
  KernelOptions,
  Label,
  Listener,
  ListenerObject,
  Pass,
  Point,
  SubmitOptions,
  Uses,
} from "./device.js";
export type { Export } from "./export.js";
export type { Binding, Bindings, Kernel } from "./kernel.js";
export type { Code } from "./error.js";
export type {
  Counters,
  DeviceStats,
  Held,
  Kept,
  LabelTotal,
  Live,
  Report,
  Returned,
  Round,
  SiteTotal,
} from "./stats.js";
export type { Wait } from "./wait.js";
export { RigError } from "./error.js";

/** Where the wasm comes from: an address as `fetch` takes it, a response, bytes, or a compiled module. */
export type WasmSource = string | URL | Response | BufferSource | WebAssembly.Module;
/** Options of {@link init}. The first call's count. */
export interface InitOptions {
  /** Where the wasm comes from; from beside the module by default. */
  wasm?: WasmSource | Promise<WasmSource> | undefined;
  /** Whether caches give back what recent use says nobody needs; on by default. */
  managedPool?: boolean | undefined;
  /** Whether reports and statistics say which place of the program made what is live; off by default. */
  tracePool?: boolean | undefined;
  /** Whether the engine is nudged to collect as buffers are made; on by default. */
  pacing?: boolean | undefined;
}
/** Options of a device. */
export interface Opts {
  /** The most bytes it may hold. */
  budget?: number | undefined;
  /** What else its GPU buffers are used for, as flags of `GPUBufferUsage`. */
  usage?: number | undefined;
}
/** Options of {@link Rig.open}. */
export interface OpenOptions extends Wait, Opts {
  /** Which adapter. */
  adapter?: GPURequestAdapterOptions | undefined;
  /** What the GPU device is to have; the adapter's limits by default. */
  device?: GPUDeviceDescriptor | undefined;
}
/** Options of {@link Rig.adopt}. */
export interface AdoptOptions extends Opts {
  /** Its name; one of its own by default. */
  name?: string | undefined;
}
/** The statistics of every device, and their sums: plain data. */
export interface Stats {
  /** Each device that is open or still holds something, the host first. */
  readonly devices: readonly DeviceStats[];
  /** All of them together. */
  readonly sum: Counters;
}

/** One instance of rig: its host, its devices, copies between them. */
export interface Rig {
  /** The host: memory of the page, always open. */
  readonly host: Device;
  /** Every device that was opened: a lost one as long as the program has it. */
  readonly devices: readonly Device[];
  /**
   * Opens a GPU under a name, or answers the device that has it. In Node it is the one of the
   * package `webgpu`, where that is installed.
   */
  open(name: string, o?: OpenOptions): Promise<Device>;
  /** Takes a GPU device of the page; adopting one twice answers the same device. */
  adopt(device: GPUDevice, o?: AdoptOptions): Device;
  /** Opens a device over memory of the page, with a timeline. */
  memory(name: string, o?: Opts): Device;
  /**
   * Makes a host buffer over a typed array, without a copy. It is charged to no budget. Memory of
   * WebAssembly, and buffers whose length can change, are Misuse.
   */
  wrap(view: ArrayBufferView, o?: Label): Buffer;
  /** Copies all of a buffer to another of the same size, on whatever devices. */
  copy(src: Buffer, dst: Buffer, o?: Wait): Promise<void>;
  /**
   * Claims everything for reading, each donation exclusively where nobody else could notice, and
   * calls `f`. The claims end with what it promises; an error of `f` gets out.
   */
  withClaims<R>(c: ClaimOptions, f: (claims: Claims) => R | Promise<R>): Promise<R>;
  /** Returns the statistics of all devices. */
  stats(): Stats;
}

let current: Promise<[Instance, Rig]> | undefined;
/** What was compiled, for the next instance. */
let compiled: WebAssembly.Module | undefined;

/**
 * Gets rig ready. Again it answers the same, until an instance ends by an internal error: then it
 * makes a new one.
 */
export async function init(o?: InitOptions): Promise<Rig> {
  const settings = settingsOf(o);
  const made = (current ??= start(o?.wasm, settings));
  const isOver = await made.then(([instance]) => instance.dead !== null, () => true);
  if (isOver && current === made) current = undefined;
  const [instance, rig] = await made;
  return instance.dead ? init(o) : rig;
}

function settingsOf(o?: InitOptions): Settings {
  const { wasm = "", managedPool = true, tracePool = false, pacing = true } = options("init", o);
  if (typeof wasm !== "string") has("init", "wasm", wasm, "source of wasm");
  for (const [name, value] of Object.entries({ managedPool, tracePool, pacing })) flag("init", name, value);
  return { managedPool, tracePool, pacing };
}

async function start(wasm: InitOptions["wasm"], settings: Settings): Promise<[Instance, Rig]> {
  if (wasm !== undefined) compiled = undefined;
  compiled ??= await compile(wasm);
  const instance = await Instance.of(compiled, settings);
  return [instance, new Face(instance)];
}

async function compile(given: InitOptions["wasm"]): Promise<WebAssembly.Module> {
  try {
    // What is no module of its own, as in a bundle of CommonJS, has no address.
    const source = (await given) ?? new URL("./rig.wasm", import.meta.url);
    if (source instanceof WebAssembly.Module) return source;
    return await WebAssembly.compile(await sourceOf(source));
  } catch (e) {
    if (RigError.is(e)) throw e;
    const text = String(e);
    const isPolicy = /Content Security Policy|unsafe-eval|blocked by CSP/i.test(text);
    const hint = isPolicy ? "; the page's policy needs script-src 'wasm-unsafe-eval'" : "";
    throw unsupported("rig", `its wasm does not compile: ${text}${hint}`);
  }
}

async function sourceOf(source: string | URL | Response | BufferSource): Promise<BufferSource> {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  const bytes = await loaded(source as string | URL | Response);
  if (String.fromCharCode(...bytes.subarray(0, 4)) === "\0asm") return bytes;
  const from = (source as Response).url || String(source);
  const why = "is no wasm; with Vite, put rig-web into optimizeDeps.exclude; else put rig.wasm there, or give init({ wasm })";
  throw unsupported("rig", `what came back from ${from} ${why}`);
}

async function loaded(source: string | URL | Response): Promise<Uint8Array<ArrayBuffer>> {
  if (source instanceof Response) return bytesIn(source);
  const address = String(source);
  if (address.startsWith("file:")) {
    const name = "node:fs/promises";
    const { readFile } = (await import(/* @vite-ignore */ name)) as {
      readFile(path: URL): Promise<Uint8Array<ArrayBuffer>>;
    };
    return readFile(new URL(address));
  }
  try {
    return await bytesIn(await fetch(address));
  } catch (e) {
    throw unsupported("rig", `its wasm does not load from ${address}: ${String(e)}`);
  }
}

async function bytesIn(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await response.arrayBuffer());
}

class Face implements Rig {
  readonly host: Device;
  readonly #instance: Instance;
  /** By index; lost ones are the program's to keep. */
  readonly #devices: { name: string; device: Device | WeakRef<Device> }[] = [];
  readonly #adopted = new WeakMap<GPUDevice, Device>();
  readonly #opening = new Map<string, Promise<Device>>();

  /** @internal Its tag, like that of buffers. */
  get [Symbol.toStringTag](): string {
    return "Rig";
  }

  constructor(instance: Instance) {
    this.#instance = instance;
    this.host = this.#device(0, "CPU", 0);
  }

  get devices(): readonly Device[] {
    return this.#devices.map(reached).filter((device) => device !== undefined);
  }

  async open(name: string, o?: OpenOptions): Promise<Device> {
    named("open", "name", name);
    const { adapter, device, ...opts } = optsOf("open", o);
    for (const [part, value] of Object.entries({ adapter, device })) {
      if (value !== undefined) has("open", part, value, "descriptor");
    }
    if (opts.signal?.aborted) throw opts.signal.reason;
    const known = this.#known(name, true);
    if (known) return known;
    let opening = this.#opening.get(name);
    if (!opening) {
      opening = this.#request(name, { ...opts, adapter, device }).finally(() => this.#opening.delete(name));
      this.#opening.set(name, opening);
    }
    return raced(opening, opts);
  }

  adopt(device: GPUDevice, o: AdoptOptions = {}): Device {
    has("adopt", "device", device, "GPUDevice", "queue", "limits", "lost", "createBuffer");
    const opts = optsOf("adopt", o);
    const name = named("adopt", "name", opts.name ?? this.#freeName());
    const known = this.#adopted.get(device);
    if (known && this.#known(known.name) === known) return known;
    return this.#adopt(device, name, false, opts, "adopt");
  }

  memory(name: string, o: Opts = {}): Device {
    named("memory", "name", name);
    const opts = optsOf("memory", o);
    const known = this.#known(name, false);
    if (known) return known;
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.open(0);
    });
    return this.#budgeted(this.#device(index, name, 0), opts);
  }

  wrap(view: ArrayBufferView, o?: Label): Buffer {
    if (!ArrayBuffer.isView(view)) throw misuse("wrap", "Option", "view is no typed array");
    const { label = "" } = options("wrap", o);
    const bytes = bytesOf("wrap", "view", view);
    const { buffer } = bytes;
    if (isResizable(buffer) || isPinned(buffer)) {
      throw misuse("wrap", "Option", "view is over memory that can change its length: resizable, or of WebAssembly");
    }
    const instance = this.#instance;
    const array = instance.arrays.add(bytes, true);
    const size = view.byteLength;
    const number = instance.call((e) => e.wrap(array, 0, size));
    const made = { instance, device: this.host, number, size, label, offset: 0, counted: 0 };
    return new Buffer({ ...made, array: size > 0 ? array : 0 });
  }

  copy(src: Buffer, dst: Buffer, o?: Wait): Promise<void> {
    return completion(this.#copy(src, dst, o));
  }

  async #copy(src: Buffer, dst: Buffer, o?: Wait): Promise<void> {
    options("copy", o);
    const from = numberOf("copy", "src", src, this.#instance);
    const to = numberOf("copy", "dst", dst, this.#instance);
    const patched = isOdd(src.offset, src.size) || isOdd(dst.offset, 0) ? Usage.STORAGE : 0;
    src.checkUsage("copy", Usage.COPY_SRC);
    dst.checkUsage("copy", Usage.COPY_DST | patched);
    let written = 0;
    const start = (e: Exports, ticket: number) => {
      written = e.copy(ticket, from, to);
    };
    await this.#instance.wait(start, o);
    for (const side of [src, dst]) side.checkThere("copy");
    src.device.checkWritten("copy", written);
  }

  async withClaims<R>(c: ClaimOptions, f: (claims: Claims) => R | Promise<R>): Promise<R> {
    callable("withClaims", "f", f);
    const claims = this.#instance.dropped.kept(() => new Claims(this.#instance, c));
    try {
      return await f(claims);
    } finally {
      claims.end();
    }
  }

  stats(): Stats {
    this.#instance.call((e) => e.stats(-1));
    const said = this.#instance.answer;
    return { devices: listed(said, statsOf), sum: countersOf(said) };
  }

  async #request(name: string, o: OpenOptions): Promise<Device> {
    const gpu = await webgpu();
    const missing = isNode() ? "; Node has one by the package webgpu" : "";
    if (!gpu) throw unsupported(name, `there is no WebGPU here${missing}`);
    try {
      const adapter = await gpu.requestAdapter(o.adapter);
      if (!adapter) throw unsupported(name, "there is no such adapter");
      const requiredLimits = { ...limitsOf(adapter), ...o.device?.requiredLimits };
      const device = await adapter.requestDevice({ label: name, ...o.device, requiredLimits });
      try {
        return this.#adopt(device, name, true, o, "open");
      } catch (e) {
        device.destroy();
        throw e;
      }
    } catch (e) {
      throw RigError.is(e) ? e : unsupported(name, String(e));
    }
  }

  #adopt(gpu: GPUDevice, name: string, isOwn: boolean, o: Opts, call: string): Device {
    const taken = misuse(call, "NameTaken", `the name ${name} belongs to another device`);
    if (this.#known(name)) throw taken;
    const number = this.#instance.addGpu(gpu, isOwn, o.usage ?? 0);
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.open(number);
    });
    const device = this.#device(index, name, number);
    this.#adopted.set(gpu, device);
    // An engine may keep a GPU device for good.
    void device.lost.then(() => this.#adopted.get(gpu) === device && this.#adopted.delete(gpu));
    return this.#budgeted(device, o);
  }

  #budgeted(device: Device, o: Opts): Device {
    if (o.budget !== undefined) device.budget = o.budget;
    return device;
  }

  /** Returns a name that no device has. */
  #freeName(at = this.#devices.length): string {
    const name = `gpu ${at}`;
    return this.#known(name) || this.#opening.has(name) ? this.#freeName(at + 1) : name;
  }

  /** Returns the open device of a name; of another kind than asked for, it is Misuse. */
  #known(name: string, isGpu?: boolean): Device | undefined {
    const index = this.#instance.call((e) => {
      this.#instance.putText(name);
      return e.named();
    });
    const known = index < 0 ? undefined : reached(this.#devices[index]);
    const isWrong = known === this.host || (known?.gpu !== null) !== isGpu;
    if (known && isGpu !== undefined && isWrong) {
      const call = isGpu ? "open" : "memory";
      throw misuse(call, "NameTaken", `the name ${name} is taken by a ${known.facts.driver} device`);
    }
    return known;
  }

  #device(index: number, name: string, gpu: number): Device {
    const known = reached(this.#devices[index]);
    if (known) return known;
    const device = new Device({
      instance: this.#instance,
      index,
      name,
      gpu: this.#instance.gpus.get(gpu) ?? null,
      // A stamp may name one that the program forgot.
      of: (at) => this.#device(at, this.#devices[at]!.name, 0),
    });
    this.#devices[index] = { name, device };
    void device.lost.then(() => (this.#devices[index] = { name, device: new WeakRef(device) }));
    return device;
  }
}

function reached(known?: { device: Device | WeakRef<Device> }): Device | undefined {
  return known?.device instanceof WeakRef ? known.device.deref() : known?.device;
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

/** Checks the options of a device, before anything is opened. */
function optsOf<T extends Opts>(call: string, o: T | undefined): T {
  const opts = options(call, o);
  if (opts.budget !== undefined) budgetOf(call, opts.budget);
  const { usage = 0 } = opts;
  if (integer(call, "usage", usage) > USAGES || (usage & (Usage.MAP_READ | Usage.MAP_WRITE)) !== 0) {
    throw misuse(call, "Option", `usage is ${usage}, which is no set of flags for buffers that are not mapped`);
  }
  return opts;
}

/** All flags of `GPUBufferUsage`. */
const USAGES = 0x3ff;

/** Returns the WebGPU of the engine, or in Node that of the package `webgpu`, if it is there. */
async function webgpu(): Promise<GPU | undefined> {
  const { gpu } = (globalThis as { navigator?: { gpu?: GPU } }).navigator ?? {};
  if (gpu || !isNode()) return gpu;
  return (ofNode ??= fromPackage().catch(() => undefined));
}

async function fromPackage(): Promise<GPU> {
  // A bundler resolves a name that it can read, or fails: pages have no such package.
  const name = ["web", "gpu"].join("");
  const { create } = (await import(/* @vite-ignore */ name)) as { create(flags: string[]): GPU };
  return create([]);
}

/** Kept for good: its devices end with it. */
let ofNode: Promise<GPU | undefined> | undefined;
