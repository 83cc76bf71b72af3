// A lane: a program in a worker of its own, so that each has a heap, a device and a canvas of its own.

import { Times } from "../../shared/times.js";
/** @import { Asked, Heard, Memory, Options, Took } from "./worker.js" */

export class Lane {
  frames = 0;
  /** Milliseconds of the last frame. */
  last = 0;
  calls = new Times();
  took = new Times();
  /** @type {Memory} */
  memory = { madeCount: 0, madeBytes: 0, held: 0 };

  /**
   * Starts a program.
   * @param {"rig" | "hand"} name
   * @param {"gpu" | "memory"} on
   * @param {Omit<Options, "canvas">} options
   */
  static async open(name, on, options) {
    const lane = new Lane(name, options.cells);
    const canvas = lane.canvas.transferControlToOffscreen();
    try {
      await lane.ask({ call: "open", name, on, canvas, ...options }, [canvas]);
    } catch (e) {
      lane.worker.terminate();
      throw e;
    }
    return lane;
  }

  /**
   * @param {"rig" | "hand"} name
   * @param {number} cells
   */
  constructor(name, cells) {
    this.name = name;
    this.canvas = document.createElement("canvas");
    this.canvas.width = cells;
    this.canvas.height = cells;
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  }

  /**
   * Does the work of a frame, and waits until it is done.
   * @param {Float32Array<ArrayBuffer>} brush
   */
  async frame(brush) {
    /** @type {Took} */
    const { calls, took } = await this.ask({ call: "frame", brush });
    this.frames += 1;
    this.last = took;
    if (this.frames <= WARM_FRAMES) return;
    this.calls.add(calls);
    this.took.add(took);
  }

  /** Asks what the program has made and holds. */
  async tell() {
    this.memory = await this.ask({ call: "memory" });
  }

  /**
   * Returns the hash of the last picture, from bytes read back.
   * @returns {Promise<string>}
   */
  hash() {
    return this.ask({ call: "hash" });
  }

  async close() {
    await this.ask({ call: "close" });
    this.worker.terminate();
  }

  /**
   * Asks the program, and answers what it answers.
   * @template Answer
   * @param {Asked} asked
   * @param {Transferable[]} transfer
   * @returns {Promise<Answer>}
   */
  ask(asked, transfer = []) {
    return new Promise((resolve, reject) => {
      /** @param {MessageEvent<Heard<Answer>>} event */
      this.worker.onmessage = ({ data: { answer, failure } }) => {
        if (failure) reject(Object.assign(new Error(failure.message), { code: failure.code }));
        else resolve(answer);
      };
      this.worker.onerror = (event) => reject(new Error(event.message));
      this.worker.postMessage(asked, transfer);
    });
  }
}

/** The first frames of a program also compile what it is made of. */
const WARM_FRAMES = 5;
