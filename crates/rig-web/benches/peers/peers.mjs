// What other libraries do of the same: TensorFlow.js and jax-js.

import * as jax from "@jax-js/jax";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgpu";

/** Makes the peers ready: those that run here. */
export async function peersHere() {
  const peers = { tensors: {} };
  try {
    Object.assign(peers, await tensorFlow());
    peers.tensors["TensorFlow.js"] = tfTensors();
  } catch (e) {
    console.log(`no TensorFlow.js: ${e}`);
  }
  try {
    await jax.init("webgpu");
    jax.defaultDevice("webgpu");
    peers.tensors["jax-js"] = JAX;
  } catch (e) {
    console.log(`no jax-js: ${e}`);
  }
  return peers;
}

async function tensorFlow() {
  await tf.setBackend("webgpu");
  await tf.ready();
  return { bufferManager: tf.backend().bufferManager };
}

function tfTensors() {
  const backend = tf.backend();
  return {
    /** Uploads floats, and waits until they are there. */
    async upload(floats) {
      const t = tf.tensor1d(floats);
      backend.uploadToGPU(t.dataId);
      if (backend.commandEncoder) backend.submitQueue();
      await backend.queue.onSubmittedWorkDone();
      t.dispose();
    },
    /** Returns what reads as many floats from the GPU. */
    read(floats) {
      const x = tf.tensor1d(floats);
      return async () => {
        // A result has no copy in memory of the page.
        const y = tf.add(x, 1);
        check(await y.data(), floats);
        y.dispose();
      };
    },
  };
}

const JAX = {
  async upload(floats) {
    const t = jax.numpy.array(floats);
    await t.blockUntilReady();
    t.dispose();
  },
  read(floats) {
    const x = jax.numpy.array(floats);
    return async () => check(await jax.numpy.add(x.ref, 1).data(), floats);
  },
};

function check(found, floats) {
  if (found[0] !== floats[0] + 1) throw new Error("a peer read something else");
}
