// What the tests get in Node and in pages alike: an instance of rig, ways to open GPUs, and other
// copies of the package.

import { init, RigError } from "rig-web";

let copies = 0;

/** Makes the world of the tests. `webgpu` is the WebGPU of the engine, if it has one. */
export async function worldOf(webgpu, tell = console.log) {
  const complaints = [];
  listen(complaints);
  const rig = await init();
  let opened = 0;

  /** Opens a GPU under a name of its own. */
  const open = async (budget) => {
    opened += 1;
    return rig.open(`gpu of test ${opened}`, budget === undefined ? {} : { budget });
  };
  /** Opens a GPU device as a page does. */
  const gpuDevice = async () => (await webgpu.requestAdapter()).requestDevice();
  /** Opens a GPU device as a page does, and adopts it. */
  const adopted = async () => {
    const device = await gpuDevice();
    return { device, gpu: rig.adopt(device) };
  };
  /** Imports another copy of the package, which has instances of its own. */
  const copy = (query = `copy=${(copies += 1)}`) => import(`${import.meta.resolve("rig-web")}?${query}`);
  const gpu = await open().catch((e) => {
    tell(`no GPU: ${e.message}`);
    return null;
  });
  // Whether wasm can be suspended until a promise settles.
  const suspends = "Suspending" in WebAssembly;
  return { rig, init, RigError, gpu, open, gpuDevice, adopted, copy, complaints, suspends };
}

/** Listens to every GPU device of the page for errors that nobody captured. */
function listen(complaints) {
  const prototype = globalThis.GPUAdapter?.prototype;
  if (!prototype) return;
  const { requestDevice } = prototype;
  prototype.requestDevice = async function (...args) {
    const device = await requestDevice.apply(this, args);
    const note = ({ error }) => complaints.push(`uncaptured error of WebGPU: ${error.message}`);
    device.addEventListener("uncapturederror", note);
    return device;
  };
}
