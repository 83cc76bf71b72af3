// A lane's worker: it does the work of a frame when told, and says how long that took.

import { hash } from "../../shared/hash.js";
import { HandWork } from "./hand.js";
import { HandMemoryWork, RigMemoryWork } from "./memory.js";
import { RigWork } from "./rig.js";

const WORKS = {
  rig: { gpu: RigWork, memory: RigMemoryWork },
  hand: { gpu: HandWork, memory: HandMemoryWork },
};

let work;

const ANSWERS = {
  async open({ name, on, canvas, ...options }) {
    work = await WORKS[name][on].open({ canvas, ...options });
  },

  /** Takes the time until all calls were made, and until their work was done. */
  async frame({ brush }) {
    const began = performance.now();
    await work.frame(brush);
    const calls = performance.now() - began;
    await work.finished();
    return { calls, took: performance.now() - began };
  },

  async memory() {
    return work.memory;
  },

  async hash() {
    return hash(await work.bytes());
  },

  async close() {
    await work.close();
  },
};

onmessage = async ({ data: { call, ...options } }) => {
  try {
    postMessage({ answer: await ANSWERS[call](options) });
  } catch ({ message, code }) {
    postMessage({ failure: { message, code } });
  }
};
