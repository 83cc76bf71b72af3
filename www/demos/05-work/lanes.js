// A lane: a program in a worker of its own, so that each has a heap, a device and a canvas of its own.

import { Times } from "../../shared/times.js";

export class Lane {
  /** Starts the program `name`, "rig" or "hand", on "gpu" or on "memory". */
  static async open(name, on, { cells, ...options }) {
    const lane = new Lane(name, cells);
    const canvas = lane.canvas.transferControlToOffscreen();
    try {
      await lane.ask("open", { name, on, canvas, cells, ...options }, [canvas]);
    } catch (e) {
      lane.worker.terminate();
      throw e;
    }
    return lane;
  }

  constructor(name, cells) {
    const canvas = document.createElement("canvas");
    canvas.width = cells;
    canvas.height = cells;
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    Object.assign(this, { name, canvas, worker, frames: 0, last: 0, calls: new Times(), took: new Times() });
    this.memory = { madeCount: 0, madeBytes: 0, held: 0 };
  }

  /** Does the work of a frame, and waits until it is done. */
  async frame(brush) {
    const { calls, took } = await this.ask("frame", { brush });
    this.frames += 1;
    this.last = took;
    if (this.frames <= WARM_FRAMES) return;
    this.calls.add(calls);
    this.took.add(took);
  }

  /** Asks what the program has made and holds. */
  async tell() {
    this.memory = await this.ask("memory");
  }

  /** Returns the hash of the last picture, from bytes read back. */
  hash() {
    return this.ask("hash");
  }

  async close() {
    await this.ask("close");
    this.worker.terminate();
  }

  ask(call, options = {}, transfer = []) {
    return new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data: { answer, failure } }) => {
        if (failure) reject(Object.assign(new Error(failure.message), { code: failure.code }));
        else resolve(answer);
      };
      this.worker.onerror = (event) => reject(new Error(event.message));
      this.worker.postMessage({ call, ...options }, transfer);
    });
  }
}

/** The first frames of a program also compile what it is made of. */
const WARM_FRAMES = 5;
