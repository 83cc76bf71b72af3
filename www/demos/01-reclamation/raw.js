// The raw lanes' work, in a worker: buffers of WebGPU itself, on a device of their own.

/**
 * What the page asks: a lane, once, and then frames of so many buffers.
 * @typedef {{ budget: number, destroys: boolean, bufferBytes: number }} Wanted
 * @typedef {Wanted | { count: number }} Asked
 */
/**
 * What the page is told: the facts of the lane as it shows them, and what its last frame took.
 * @typedef {object} Told
 * @property {number} made
 * @property {number} held
 * @property {number} most
 * @property {number} making
 * @property {number | null} collection
 * @property {string} ended
 * @property {number} took
 * @property {boolean} isFrame Whether a frame was asked for.
 */

/** STORAGE | COPY_DST. */
const USAGE = 0x80 | 0x8;
const BUDGETS_MAX = 8;
const LONGEST_MS = 10_000;

/** @type {Told} */
const told = { made: 0, held: 0, most: 0, making: 0, collection: 0, ended: "", took: 0, isFrame: false };
/** @type {Wanted & { device: Promise<GPUDevice> }} */
let lane;
let gone = 0;
/** @type {Uint8Array<ArrayBuffer> | undefined} */
let upload;
/** @type {FinalizationRegistry<number>} */
const registry = new FinalizationRegistry((bytes) => {
  gone += bytes;
});

/** @param {MessageEvent<Asked>} event */
onmessage = async ({ data }) => {
  if ("destroys" in data) {
    lane = { ...data, device: device(data) };
    if (!data.destroys) told.collection = null;
    return;
  }
  frame(await lane.device, data.count);
  postMessage({ ...told, isFrame: true });
};

/** @param {Wanted} wanted */
async function device({ destroys }) {
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error("there is no WebGPU here");
  const device = await adapter.requestDevice();
  device.lost.then(({ message }) => (told.ended ||= `lost: ${message || "no room"}`));
  // Also while the page rests.
  if (!destroys) setTimeout(() => end(device, "stopped: 10 s"), LONGEST_MS);
  return device;
}

/**
 * @param {GPUDevice} device
 * @param {number} count
 */
function frame(device, count) {
  const { budget, bufferBytes, destroys } = lane;
  told.held = told.made - gone;
  // Before it takes the machine's memory.
  if (told.held + count * bufferBytes > BUDGETS_MAX * budget) end(device, `stopped: ${BUDGETS_MAX} budgets`);
  if (told.ended) return;
  const start = performance.now();
  const buffers = Array.from({ length: count }, () => device.createBuffer({ size: bufferBytes, usage: USAGE }));
  told.making += performance.now() - start;
  told.made += count * bufferBytes;
  told.most = Math.max(told.most, told.made - gone);
  const encoder = device.createCommandEncoder();
  for (const buffer of buffers) encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
  device.queue.writeBuffer(buffers[0], 0, (upload ??= new Uint8Array(bufferBytes).fill(1)));
  if (destroys) destroy(buffers);
  else for (const buffer of buffers) registry.register(buffer, bufferBytes);
  told.held = told.made - gone;
  told.took = performance.now() - start;
}

/**
 * Gives memory back by hand.
 * @param {GPUBuffer[]} buffers
 */
function destroy(buffers) {
  const start = performance.now();
  for (const buffer of buffers) buffer.destroy();
  told.collection = (told.collection ?? 0) + performance.now() - start;
  gone += buffers.length * lane.bufferBytes;
}

/**
 * Ends the lane, and tells the page, which may not ask again.
 * @param {GPUDevice} device
 * @param {string} why
 */
function end(device, why) {
  if (told.ended) return;
  told.ended = why;
  device.destroy();
  postMessage(told);
}
