// What other libraries do of the same: TensorFlow.js.

import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgpu";

/** Makes the peers ready; null where they do not run. */
export async function peersHere() {
  try {
    await tf.setBackend("webgpu");
    await tf.ready();
    const backend = tf.backend();
    const done = async (t) => void (await backend.queue.onSubmittedWorkDone(), t.dispose());
    return {
      bufferManager: backend.bufferManager,
      /** Uploads floats, and waits until they are there. */
      async upload(floats) {
        const t = tf.tensor1d(floats);
        backend.uploadToGPU(t.dataId);
        if (backend.commandEncoder) backend.submitQueue();
        await done(t);
      },
      /** Returns what reads as many floats from the GPU. */
      read(floats) {
        const x = tf.tensor1d(floats);
        return async () => {
          // A result has no copy in memory of the page.
          const y = tf.add(x, 1);
          const data = await y.data();
          if (data[0] !== floats[0] + 1) throw new Error("TensorFlow.js read something else");
          y.dispose();
        };
      },
    };
  } catch (e) {
    console.log(`no TensorFlow.js: ${e}`);
    return null;
  }
}
