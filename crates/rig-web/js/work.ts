// Work on its way to a device's queue: steps in their order.

import type { Way } from "./half.js";

/** Encodes a step of the library. */
export type Encode = (to: GPUCommandEncoder) => void;

/** A write of the queue's own. */
interface Write {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Work on its way to the queue: the library's steps or a program's commands, and halves' ways. */
export interface Work {
  steps: (Encode | Write | GPUCommandEncoder)[];
  /** Each once. */
  ways: Way[];
  /** Whether nothing can be found wrong with it: whole words move between buffers that are there. */
  isSure: boolean;
  /** Whether it must not wait for other work to go to the queue. */
  isUrgent: boolean;
  /** Whether it moves so much that nothing is gained by keeping it. */
  isLarge: boolean;
  /** What was wrong when it was encoded, or empty. */
  wrong: string;
  /** The label of the program's commands; none of rig's, whose call awaits them. */
  label: string | null;
  /** The first and the last value whose work it is; 0 for nobody's. */
  values: [number, number];
}

/** Returns no work, of nobody. */
export function noWork(): Work {
  return { steps: [], ways: [], isSure: true, isUrgent: false, isLarge: false, wrong: "", label: null, values: [0, 0] };
}

/** Does the steps: writes of the queue's own between submissions of what is encoded. */
export function run(device: GPUDevice, steps: Work["steps"]): void {
  const { queue } = device;
  let finished: GPUCommandBuffer[] = [];
  let own: GPUCommandEncoder | null = null;
  for (const step of steps) {
    if (typeof step === "function") {
      step((own ??= device.createCommandEncoder({ label: "rig" })));
      continue;
    }
    if (own) finished.push(own.finish());
    own = null;
    if (!("bytes" in step)) {
      finished.push(step.finish());
      continue;
    }
    if (finished.length > 0) queue.submit(finished);
    finished = [];
    queue.writeBuffer(step.buffer, step.offset, step.bytes);
  }
  if (own) finished.push(own.finish());
  if (finished.length > 0) queue.submit(finished);
}
