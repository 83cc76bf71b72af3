// Runs the tests in a page. `?gc` runs those that need an exact collection, `?long` takes the time
// that promises about time speak of.

import { init, RigError } from "rig-web";
import { runAll, turn } from "./harness.mjs";
import "./all.mjs";

const asked = new URLSearchParams(location.search);
const complaints = [];
const lines = [];
let heard = () => undefined;
let registry;

/** Answers what was told since the last call, once there is something, and the result if there is one. */
globalThis.told = async () => {
  if (lines.length === 0 && !globalThis.result) await new Promise((resolve) => (heard = resolve));
  return [lines.splice(0), globalThis.result];
};
document.dispatchEvent(new Event("told"));

function tell(line) {
  console.log(line);
  lines.push(line);
  heard();
}

/** Listens to every GPU device of the page for errors that nobody captured. */
function listen() {
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

listen();
const rig = await init();
let opened = 0;

/** Opens a GPU under a name of its own. */
async function open(budget) {
  opened += 1;
  return rig.open(`gpu of test ${opened}`, budget === undefined ? {} : { budget });
}

/** Opens a GPU device as a page does. */
async function gpuDevice() {
  const adapter = await navigator.gpu.requestAdapter();
  return adapter.requestDevice();
}

/** Opens a GPU device as a page does, and adopts it. */
async function adopted() {
  const device = await gpuDevice();
  return { device, gpu: rig.adopt(device) };
}

async function gpuHere() {
  try {
    return await open();
  } catch (e) {
    tell(`no GPU: ${e}`);
    return null;
  }
}

/** Has the engine collect everything that cannot be reached. */
async function gc() {
  if (globalThis.TestUtils) return TestUtils.gc();
  if (globalThis.gc) return globalThis.gc({ type: "major", execution: "async" });
  // It collects by itself, again and again, while something is made: until one of these is found.
  let isFound = false;
  registry = new FinalizationRegistry(() => (isFound = true));
  for (let i = 0; i < 64; i += 1) registry.register({}, i);
  while (!isFound) {
    void new Array(10_000).fill({});
    await turn();
  }
}

const world = {
  rig,
  init,
  RigError,
  gpu: await gpuHere(),
  open,
  gpuDevice,
  adopted,
  complaints,
  gc: asked.has("gc") ? gc : null,
  // How many handles may seem to be in use: WebKit takes what lies on its stack for handles.
  stray: navigator.vendor.startsWith("Apple") ? 8 : 0,
  long: asked.has("long"),
  copy: (query) => import(`/dist/rig.js?${query}`),
};
globalThis.result = await runAll(world, tell);
heard();
