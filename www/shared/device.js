// The device that a demo works on.

/** Opens the GPU of the page under a name; where there is none, a memory device. */
export async function opened(rig, name, options = {}) {
  try {
    return await rig.open(name, options);
  } catch (e) {
    if (e.code !== "Unsupported") throw e;
    return rig.memory(name, options);
  }
}
