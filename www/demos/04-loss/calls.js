// Calls that a page can make after a loss, on memory of either kind and on the device. None is left
// out for what it answers.

/** @import { Buffer, Device, Rig } from "rig-web" */

/**
 * Calls by their names: each answers what it comes to.
 * @template {unknown[]} On What it is made on.
 * @typedef {[name: string, call: (...on: On) => unknown][]} Calls
 */

/**
 * Returns the calls on memory: each takes a buffer, and other memory of the page.
 * @param {Rig} rig
 * @returns {Calls<[of: Buffer, other: Buffer]>}
 */
export function callsOfMemory(rig) {
  return [
    ["ask for size and label", ({ size, label }) => void [size, label]],
    ["ask for its state", ({ state }) => state],
    ["ask for its stamps", (of) => of.stamps()],
    ["take its bytes out", (of) => of.toArray(Uint8Array, { length: 4 })],
    ["take them into an array", (of) => of.blitTo(new Uint8Array(4))],
    ["put bytes in", (of) => of.blitFrom(new Uint8Array(4))],
    ["read it in place", (of) => of.read(({ length }) => void length)],
    ["write it in place", (of) => of.write((bytes) => void bytes.fill(1))],
    ["fill it", (of) => of.fill(0)],
    ["copy from it", (of, other) => rig.copy(of, other)],
    ["copy into it", (of, other) => rig.copy(other, of)],
    ["claim it for reading", (of) => of.claimRead().release()],
    ["claim it for a function", (of) => rig.withClaims({ reads: [of] }, () => undefined)],
    ["export its bytes", async (of) => (await of.export()).dispose()],
    ["take a view of it", (of) => of.view(0, 4).dispose()],
    ["free it", (of) => of.free()],
    ["dispose of it", (of) => of.dispose()],
  ];
}

/**
 * Returns the calls on the device.
 * @param {GPUDevice | null} gpu The page's own, that the device is over.
 * @param {string} wgsl
 * @returns {Calls<[of: Device]>}
 */
export function callsOfDevice(gpu, wgsl) {
  /** @type {Calls<[of: Device]>} */
  const calls = [
    ["create a buffer", (of) => of.createBuffer(4)],
    ["create one without waiting", (of) => of.createBufferNow(4)],
    ["submit work", (of) => of.submit({ writes: [] })],
    ["submit it once it can be", (of) => of.submitWhenReady({ writes: [] })],
    ["tell of work of the page's own", (of) => of.recordUse({ reads: [] })],
    ["wait for its first work, long done", (of) => of.wait(1)],
    ["ask how much work it was given", (of) => of.submitted],
    ["ask how much work it did", (of) => of.reached],
    ["ask how many bytes it holds", (of) => of.held],
    ["ask how many of them are cached", (of) => of.cached],
    ["set its budget", (of) => void (of.budget = 2 ** 20)],
    ["trim its cache", (of) => of.trim()],
    ["free its cache", (of) => of.freeCache()],
    ["ask for its statistics", (of) => of.stats()],
    ["ask why it is lost", async (of) => void (await of.lost)],
    ["close it", (of) => of.close()],
  ];
  if (gpu) {
    calls.splice(
      2,
      0,
      ["compile a kernel", (of) => of.kernel(wgsl)],
      ["wrap a buffer of the page's own", (of) => of.wrapGpu(gpu.createBuffer({ size: 4, usage: STORAGE }))],
    );
  }
  return calls;
}

const STORAGE = 0x80;
