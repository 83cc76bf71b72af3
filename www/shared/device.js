// The device that a demo works on.

import { RigError } from "rig-web";
/** @import { Opts, Rig } from "rig-web" */

/**
 * Opens the GPU of the page under a name; where there is none, a memory device.
 * @param {Rig} rig
 * @param {string} name
 * @param {Opts} options
 */
export async function opened(rig, name, options = {}) {
  try {
    return await rig.open(name, options);
  } catch (e) {
    if (!RigError.is(e) || e.code !== "Unsupported") throw e;
    return rig.memory(name, options);
  }
}
