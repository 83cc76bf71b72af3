// Runs the laws of drivers on the package's own half of the browser driver.

import { Instance } from "../../../crates/rig-web/js/instance.js";

/** An instance whose laws are suspended for a turn whenever they wait. */
interface Suspended {
  readonly instance: Instance;
  readonly law: (number: number, gpu: number) => Promise<void>;
  readonly names: () => void;
  /** Hears of every event of a device. */
  woke: () => void;
  /** Why a law panicked. */
  trap: string;
}
type Functions = Record<string, (...args: number[]) => unknown>;
interface Suspends {
  Suspending: new (f: () => Promise<void>) => WebAssembly.ImportValue;
  promising(f: unknown): (...args: number[]) => Promise<void>;
}
const settings = { managedPool: true, tracePool: false, pacing: false };
const wasm = fetch(new URL("./laws.wasm", import.meta.url)).then(WebAssembly.compileStreaming);

async function suspended(turn: () => Promise<void>): Promise<Suspended> {
  const { instantiate } = WebAssembly;
  const { Suspending, promising } = WebAssembly as unknown as Suspends;
  const made: Partial<Suspended> = { woke: () => undefined, trap: "" };
  const suspending = async (module: WebAssembly.Module, { page }: WebAssembly.Imports) => {
    const trapped = (at: number, length: number) => {
      made.trap = new TextDecoder().decode(new Uint8Array(memory.buffer, at, length));
    };
    const imports = { page: { ...page, trapped, turn: new Suspending(turn) } };
    const { exports } = await instantiate(module, imports);
    const memory = exports.memory as WebAssembly.Memory;
    const { law, names, gpu_woke } = exports as unknown as Functions;
    Object.assign(made, { law: promising(law), names });
    const woke = (...told: number[]) => {
      gpu_woke!(...told);
      made.woke!();
    };
    return { exports: { ...exports, gpu_woke: woke } };
  };
  try {
    Object.assign(WebAssembly, { instantiate: suspending });
    return Object.assign(made, { instance: await Instance.of(await wasm, settings) }) as Suspended;
  } finally {
    Object.assign(WebAssembly, { instantiate });
  }
}

/** Answers the names of the laws. */
export async function names(): Promise<string[]> {
  const { instance, names } = await suspended(async () => undefined);
  instance.call(names);
  return instance.answer as string[];
}

/** Runs a law on a GPU device that nobody else uses. */
export async function run(number: number, device: GPUDevice): Promise<void> {
  // A turn ends with the next event of the device, or after a while, in which it is kept moving.
  const turn = () => {
    made.instance.gpus.get(gpu)?.nudge();
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 4);
      made.woke = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  };
  const made = await suspended(turn);
  const gpu = made.instance.addGpu(device, false, 0);
  try {
    await made.law(number, gpu);
  } catch (e) {
    throw new Error(`the law does not hold: ${made.trap || String(e)}`);
  }
}
