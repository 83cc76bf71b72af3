// The start page's miniature: buffers that are made every frame and forgotten, within a budget.

import { init } from "rig-web";
import { opened } from "./shared/device.js";
import { MIB, bytes, element, nextFrame, seldom, start, wantsStill } from "./shared/page.js";
import { bytesPlot } from "./shared/plot.js";
/** @import { Device, DeviceStats } from "rig-web" */

/**
 * What a frame came to.
 * @typedef {{ device: Device, made: number, stats: DeviceStats }} Told
 */

const BUDGET = 32 * MIB;
const BUFFER = MIB;
const SHOWN_MS = 250;
/** Where less motion is wanted, it is over soon. */
const STILL_FRAMES = 120;

/**
 * Makes and forgets for so many frames, and answers what came of it; `show` is called after each.
 * @param {{ frames?: number, show?: (told: Told) => void }} options
 */
export async function run({ frames = Infinity, show = () => undefined } = {}) {
  const rig = await init();
  const device = await opened(rig, "miniature", { budget: BUDGET });
  let made = 0;
  for (let frame = 0; frame < frames; frame += 1) {
    const buffer = await device.createBuffer(BUFFER);
    await buffer.fill(frame % 256);
    made += BUFFER;
    show({ device, made, stats: { ...device.stats(), stagingBytes: rig.host.stats().stagingBytes } });
    await nextFrame();
  }
  const { held, gpu } = device;
  await device.close();
  return { webgpu: gpu !== null, made, held };
}

/** Shows it on the page. */
async function page() {
  const plot = bytesPlot(element("plot"), BUDGET, SHOWN_MS);
  /** @param {Told} told */
  const write = ({ device, made }) => {
    element("made").textContent = bytes(made);
    element("held").textContent = bytes(device.held);
    element("where").textContent = device.gpu ? "Live, on the GPU of this page." : "Live, on a memory device: there is no WebGPU here.";
  };
  const tell = seldom(write, SHOWN_MS);
  /** @param {Told} told */
  const show = (told) => {
    plot(told.stats);
    tell(told);
  };
  await run({ show, frames: wantsStill() ? STILL_FRAMES : Infinity });
}

start(page);
