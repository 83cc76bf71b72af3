// Runs the tests in a page.

import { init, RigError } from "rig-web";
import { runAll } from "./harness.mjs";
import "./all.mjs";

const rig = await init();
let opened = 0;

/** Opens a GPU under a name of its own. */
async function open(budget) {
  opened += 1;
  return rig.open(`gpu of test ${opened}`, budget === undefined ? {} : { budget });
}

/** Opens a GPU device as a page does, and adopts it. */
async function adopted() {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  return { device, gpu: rig.adopt(device) };
}

async function gpuHere() {
  try {
    return await open();
  } catch (e) {
    console.log(`no GPU: ${e}`);
    return null;
  }
}

const world = { rig, init, RigError, gpu: await gpuHere(), open, adopted };
globalThis.uncaptured = [];
world.gpu?.gpu.addEventListener("uncapturederror", (event) => globalThis.uncaptured.push(event.error.message));
const result = await runAll(world);
globalThis.result = { ...result, uncaptured: globalThis.uncaptured };
