// One instance of the wasm half: calls, the tickets of promises, timers and the end of it.

import { Arrays } from "./arrays.js";
import { Dropped, isFirefoxPage, Pressure } from "./collector.js";
import { lost, RigError, told, unsupported } from "./error.js";
import { Gpu } from "./gpu.js";
import { gpuImports } from "./imports.js";
import type { Said } from "./said.js";
import { onAbort, type Wait } from "./wait.js";

/** What the wasm half exports: its `src` says what each does. */
export interface Exports {
  readonly memory: WebAssembly.Memory;
  start(managedPool: boolean, tracePool: boolean): void;
  pump(isDue: boolean): number;
  turn_over(): void;
  gpu_woke(gpu: number, reached: number, isLost: boolean, hasRejected: boolean): void;
  text_in(length: number): number;
  site_in(length: number): number;
  list_in(count: number): number;
  open(gpu: number): number;
  named(): number;
  lost(ticket: number, device: number): void;
  device_number_of(device: number, what: number): number;
  facts(device: number): void;
  stats(device: number): void;
  set_budget(device: number, bytes: number): number;
  give_back(device: number, all: number): number;
  close(ticket: number, device: number): void;
  wait(ticket: number, device: number, value: number): void;
  create(ticket: number, device: number, length: number, dropped: number): number;
  create_now(device: number, length: number, dropped: number): number;
  wrap(array: number, offset: number, length: number): number;
  wrap_gpu(device: number, buffer: number, length: number): number;
  drop_listed(): void;
  drop_kept(kept: number): void;
  array_of(buffer: number): number;
  free(buffer: number): number;
  lose(buffer: number): number;
  is_dead(buffer: number): number;
  again(buffer: number): number;
  region_of(buffer: number): number;
  stamps(buffer: number): void;
  view(buffer: number, offset: number, length: number): number;
  borrow(device: number, buffer: number): number;
  ready(ticket: number, buffer: number, write: number): void;
  access(buffer: number, write: number): number;
  copy(ticket: number, src: number, dst: number): number;
  blit(ticket: number, buffer: number, offset: number, array: number, length: number, call: number): number;
  fill(ticket: number, buffer: number, offset: number, length: number, byte: number): void;
  claim_read(buffer: number): number;
  claim_all(): number;
  is_exclusive(claims: number, buffer: number): number;
  consume(claims: number, buffer: number): number;
  export(ticket: number, buffer: number): void;
  may_copy(exported: number, write: number): number;
  lend(buffer: number): number;
  submit(device: number, commands: number): number;
  submit_when_ready(ticket: number, device: number, commands: number): void;
  cancel(ticket: number): void;
}

/** Makes of a number and of what was said what a promise settles with; it may fail. */
type Made<T> = (number: number, said: Said) => T;

/** A promise that waits for the wasm half. */
interface Ticket {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  /** Where it settles with another thing than its number. */
  map: Made<unknown> | undefined;
  /** Forgets the signal, where there is one. */
  over: (() => void) | undefined;
}

/** What a promise settles with: a number and what was said, or an error. */
type Outcome = { number: number; said: Said } | { error: unknown };

/** What an instance keeps from its start. */
export interface Settings {
  readonly managedPool: boolean;
  readonly tracePool: boolean;
  readonly pacing: boolean;
}

/** One instance of the wasm half. */
export class Instance {
  readonly arrays = new Arrays();
  readonly dropped: Dropped;
  /** The arrays of the exports that are kept, by the number of each. */
  readonly exported = new Map<number, number>();
  readonly settings: Settings;
  /** The GPU devices, by number from 1, until each is over. */
  readonly gpus = new Map<number, Gpu>();
  /** What the last call answered besides a number. */
  answer: Said = [];
  #said: Said = [];
  #exports!: Exports;
  #error: RigError | null = null;
  #dead: RigError | null = null;
  #nextTicket = 1;
  #nextGpu = 1;
  /** How many tickets keep no process alive. */
  #quiet = 0;
  readonly #tickets = new Map<number, Ticket>();
  #settled: [Ticket, Outcome][] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;
  /** Whether the time of the next maintenance has come. */
  #isDue = false;
  /** Whether something was woken, or somebody asks for maintenance. */
  #isWanted = false;
  readonly #pressure: Pressure;

  private constructor(settings: Settings) {
    this.settings = settings;
    this.dropped = new Dropped(() => this.event((e) => e.pump(false)));
    this.#pressure = new Pressure(() => this.event((e) => e.turn_over()));
    if (isFirefoxPage) addEventListener("pageshow", ({ persisted }) => persisted && this.#again());
  }

  /** Makes an instance of a compiled module. */
  static async of(module: WebAssembly.Module, settings: Settings): Promise<Instance> {
    const made = new Instance(settings);
    try {
      const { exports } = await WebAssembly.instantiate(module, { page: made.#imports() });
      made.#exports = exports as unknown as Exports;
      made.#exports.start(settings.managedPool, settings.tracePool);
    } catch (e) {
      throw unsupported("rig", `its wasm is not of this version: ${String(e)}`);
    }
    return made;
  }

  /** Why the instance ended, or null. */
  get dead(): RigError | null {
    return this.#dead;
  }

  /** Runs a call, throws what it told, and does what follows a call. */
  call<R>(f: (exports: Exports, ticket: number) => R, ticket = 0): R {
    if (this.#dead) throw this.#dead;
    this.#error = null;
    try {
      this.#takeDropped();
      const result = f(this.#exports, ticket);
      const error = this.#error;
      this.answer = this.#taken();
      this.#after();
      if (error) throw error;
      return result;
    } catch (e) {
      throw RigError.is(e) ? e : this.#end(e);
    }
  }

  /** Runs a call that nobody hears of if it fails: a trap is told to all who wait. */
  event(f: (exports: Exports) => void): void {
    if (this.#dead) return;
    try {
      this.call(f);
    } catch {
      // Told by the end of the instance.
    }
  }

  /** Asks for something that changes nothing and cannot fail. */
  look<R>(f: (exports: Exports) => R): R {
    if (this.#dead) throw this.#dead;
    return f(this.#exports);
  }

  /** Runs a call that settles a ticket, and promises its number, or what `map` makes of that and of what was said. */
  wait<T = number>(start: (exports: Exports, ticket: number) => void, o?: Wait, map?: Made<T>): Promise<T> {
    // Looking at a signal may run code of the program, after the numbers of handles were read.
    return this.dropped.kept(() => {
      const number = this.#nextTicket++;
      const settled = this.#settles(number, o, map);
      const ticket = this.#tickets.get(number);
      try {
        if (ticket) this.call(start, number);
      } catch (error) {
        this.#tickets.delete(number);
        settle([ticket!, { error }]);
      }
      return settled;
    });
  }

  /**
   * Runs a call that answers a number at once, or 0 and then settles its ticket with one. The signal
   * is not aborted yet.
   */
  begin(start: (exports: Exports, ticket: number) => number, o?: Wait): number | Promise<number> {
    let later: Promise<number> | undefined;
    const now = this.call((e, number) => {
      const answer = start(e, number);
      // Known ahead of what follows the call, which may settle it.
      if (answer === 0) later = this.#settles(number, o);
      return answer;
    }, this.#nextTicket++);
    return later ?? now;
  }

  /** Promises what a ticket settles with. An aborted signal ends the wait: there is no ticket then. */
  #settles<T>(number: number, o?: Wait, map?: Made<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const signal = o?.signal;
      if (signal?.aborted) return reject(signal.reason);
      const aborted = () => {
        if (!this.#tickets.delete(number)) return;
        reject(signal!.reason);
        this.event((e) => e.cancel(number));
      };
      const over = signal && onAbort(signal, aborted);
      this.#tickets.set(number, { resolve: resolve as Ticket["resolve"], reject, map, over });
    });
  }

  /** Waits like {@link Instance.wait}, for something that may never come and keeps nothing alive. */
  quietly<T>(start: (exports: Exports, ticket: number) => void, map: Made<T>): Promise<T> {
    this.#quiet += 1;
    const over = () => {
      this.#quiet -= 1;
    };
    const waited = this.wait(start, undefined, map);
    waited.then(over, over);
    return waited;
  }

  /** Puts a text in for the next call. */
  putText(text: string): void {
    if (this.#dead) return;
    const bytes = ENCODER.encode(text);
    const at = this.#exports.text_in(bytes.length);
    this.#bytes(at, bytes.length).set(bytes);
  }

  /** Puts a place of the program in for the next call. */
  putSite(site: string): void {
    if (this.#dead) return;
    const bytes = ENCODER.encode(site);
    const at = this.#exports.site_in(bytes.length);
    this.#bytes(at, bytes.length).set(bytes);
  }

  /** Puts a list of numbers in for the next call. */
  putList(numbers: readonly number[]): void {
    const at = this.#exports.list_in(numbers.length);
    new Float64Array(this.#exports.memory.buffer, at, numbers.length).set(numbers);
  }

  /** Takes a GPU device in; answers its number. */
  addGpu(device: GPUDevice, own: boolean, usage: number): number {
    const number = this.#nextGpu++;
    const woke = (gpu: Gpu) => {
      this.event((e) => e.gpu_woke(number, gpu.reached, gpu.loss !== "", gpu.hasRejected));
    };
    const over = () => this.gpus.delete(number);
    this.gpus.set(number, new Gpu(device, own, usage, this.arrays, woke, over));
    return number;
  }

  /** Ends what is kept under a number: a claim, an export. */
  dropKept(number: number): void {
    this.endExport(number);
    this.event((e) => e.drop_kept(number));
  }

  /** Lets the bytes of an export go, where a number is one. */
  endExport(number: number): void {
    const array = this.exported.get(number);
    if (array === undefined) return;
    this.exported.delete(number);
    this.arrays.unexport(array);
  }

  /** Asks again for what may have been missed while the engine kept the page. */
  #again(): void {
    this.dropped.again();
    for (const gpu of this.gpus.values()) gpu.again();
  }

  #takeDropped(): void {
    const numbers = this.dropped.take();
    if (numbers.length === 0) return;
    for (const number of numbers) this.endExport(-number);
    this.putList(numbers);
    this.#exports.drop_listed();
  }

  /** Polls what was woken, sets the timer for the next maintenance, and resolves promises. */
  #after(): void {
    if (this.#isWanted || this.#isDue) {
      const isDue = this.#isDue;
      this.#isWanted = this.#isDue = false;
      const next = this.#exports.pump(isDue);
      if (next >= 0) this.#setTimer(next);
    }
    const settled = this.#settled;
    if (settled.length === 0) return;
    this.#settled = [];
    for (const one of settled) settle(one);
  }

  #setTimer(wait: number): void {
    const at = performance.now() + wait;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    const timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isDue = true;
      this.event(() => undefined);
    }, wait);
    this.#timer = timer;
    // In Node a timer keeps the process alive: only a promise that is pending may.
    if (this.#tickets.size <= this.#quiet) (timer as { unref?(): void }).unref?.();
  }

  /** Ends the instance after a trap: every promise is rejected, and every later call fails. */
  #end(e: unknown): RigError {
    const why = `internal error: ${String(e)}`;
    const error = lost("rig", why);
    this.#dead = error;
    clearTimeout(this.#timer);
    // What was settled before is told as it is.
    for (const one of this.#settled.splice(0)) settle(one);
    for (const ticket of this.#tickets.values()) ticket.reject(error);
    this.#tickets.clear();
    for (const gpu of this.gpus.values()) gpu.abandon(why);
    return error;
  }

  /** Takes what was said so far. */
  #taken(): Said {
    const said = this.#said;
    if (said.length === 0) return NOTHING;
    this.#said = [];
    return said;
  }

  #bytes(at: number, length: number): Uint8Array {
    return new Uint8Array(this.#exports.memory.buffer, at, length);
  }

  #text(at: number, length: number): string {
    return length === 0 ? "" : DECODER.decode(this.#bytes(at, length));
  }

  /** What the wasm half imports: `src/page.rs` says what each does. */
  #imports(): Record<string, WebAssembly.ImportValue> {
    const { arrays } = this;
    const finish = (number: number, outcome: Outcome) => {
      const ticket = this.#tickets.get(number);
      if (ticket && this.#tickets.delete(number)) this.#settled.push([ticket, outcome]);
    };
    return {
      now_ms: () => performance.now(),
      wants_pump: () => {
        this.#isWanted = true;
      },
      array_make: (length: number) => arrays.make(length),
      array_drop: (array: number) => arrays.drop(array),
      array_len: (array: number) => arrays.length(array),
      array_copy: (src: number, srcAt: number, dst: number, dstAt: number, length: number) => {
        arrays.copy(src, srcAt, dst, dstAt, length);
      },
      array_fill: (array: number, at: number, length: number, byte: number) => {
        arrays.part(array, at, length)?.fill(byte);
      },
      array_out: (array: number, at: number, into: number, length: number) => {
        const part = arrays.part(array, at, length);
        if (part) this.#bytes(into, length).set(part);
      },
      array_in: (from: number, length: number, array: number, at: number) => {
        arrays.part(array, at, length)?.set(this.#bytes(from, length));
      },
      say: (number: number) => {
        this.#said.push(number);
      },
      say_text: (text: number, length: number) => {
        this.#said.push(this.#text(text, length));
      },
      settle: (ticket: number, number: number) => finish(ticket, { number, said: this.#taken() }),
      settle_error: (ticket: number) => finish(ticket, { error: told(this.#taken()) }),
      answer_error: () => {
        this.#error = told(this.#taken());
      },
      collect: (round: number, turn: number) => this.#pressure.take(round, turn),
      ...gpuImports(this.gpus, (into) => (bytes) => this.#bytes(into, bytes.length).set(bytes)),
    };
  }
}

/** Settles a promise; its signal has no say any more. */
function settle([{ resolve, reject, map, over }, outcome]: [Ticket, Outcome]): void {
  over?.();
  if ("error" in outcome) return reject(outcome.error);
  const { number, said } = outcome;
  try {
    resolve(map ? map(number, said) : number);
  } catch (e) {
    reject(e);
  }
}

const NOTHING: Said = [];
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();
