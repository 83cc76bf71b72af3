// A lane's worker: it does the work of a frame when told, and says how long that took.

import { hash } from "../../shared/hash.js";
import { HandWork } from "./hand.js";
import { HandMemoryWork, RigMemoryWork } from "./memory.js";
import { RigWork } from "./rig.js";
/** @import { DeviceStats } from "rig-web" */

/**
 * What a program is opened with.
 * @typedef {{ canvas: OffscreenCanvas, cells: number, steps: number, budget: number }} Options
 */
/**
 * What the page asks.
 * @typedef {{ call: "open", name: "rig" | "hand", on: "gpu" | "memory" } & Options} Opening
 * @typedef {Opening | { call: "frame", brush: Float32Array<ArrayBuffer> } | { call: "memory" | "hash" | "close" }} Asked
 */
/**
 * What the page hears: an answer, or why there is none.
 * @template Answer
 * @typedef {{ answer: Answer, failure?: { message: string, code?: string } }} Heard
 */
/**
 * Milliseconds of a frame: until all calls were made, and until their work was done.
 * @typedef {{ calls: number, took: number }} Took
 */
/**
 * What a program has made and holds, and the statistics of rig, where it is one on rig.
 * @typedef {{ madeCount: number, madeBytes: number, held: number, stats?: DeviceStats }} Memory
 */

const WORKS = {
  rig: { gpu: RigWork, memory: RigMemoryWork },
  hand: { gpu: HandWork, memory: HandMemoryWork },
};

/** @type {RigWork | RigMemoryWork | HandWork | HandMemoryWork} */
let work;

/**
 * Answers what the page asks.
 * @param {Asked} asked
 */
async function answer(asked) {
  switch (asked.call) {
    case "open":
      work = await WORKS[asked.name][asked.on].open(asked);
      return undefined;
    case "frame":
      return frame(asked.brush);
    case "memory":
      return work.memory;
    case "hash":
      return hash(await work.bytes());
    case "close":
      return work.close();
  }
}

/**
 * Does the work of a frame.
 * @param {Float32Array<ArrayBuffer>} brush
 * @returns {Promise<Took>}
 */
async function frame(brush) {
  const began = performance.now();
  await work.frame(brush);
  const calls = performance.now() - began;
  await work.finished();
  return { calls, took: performance.now() - began };
}

/** @param {MessageEvent<Asked>} event */
onmessage = async ({ data }) => {
  try {
    postMessage({ answer: await answer(data) });
  } catch (e) {
    const { message, code } = /** @type {Error & { code?: string }} */ (e);
    postMessage({ failure: { message, code } });
  }
};
