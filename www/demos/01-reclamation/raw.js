// The raw lanes' work, in a worker: buffers of WebGPU itself, on a device of their own.

/** STORAGE | COPY_DST. */
const USAGE = 0x80 | 0x8;
const BUDGETS_MAX = 8;
const LONGEST_MS = 10_000;

const told = { made: 0, held: 0, most: 0, making: 0, collection: 0, ended: "", took: 0 };
let lane;
let gone = 0;
let upload;
const registry = new FinalizationRegistry((bytes) => {
  gone += bytes;
});

onmessage = async ({ data }) => {
  if (data.count === undefined) {
    lane = { ...data, device: device() };
    if (!data.destroys) told.collection = null;
    return;
  }
  frame(await lane.device, data.count);
  postMessage({ ...told, isFrame: true });
};

async function device() {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  device.lost.then(({ message }) => (told.ended ||= `lost: ${message || "no room"}`));
  // Also while the page rests.
  if (!lane.destroys) setTimeout(() => end(device, "stopped: 10 s"), LONGEST_MS);
  return device;
}

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

/** Gives memory back by hand. */
function destroy(buffers) {
  const start = performance.now();
  for (const buffer of buffers) buffer.destroy();
  told.collection += performance.now() - start;
  gone += buffers.length * lane.bufferBytes;
}

/** Ends the lane, and tells the page, which may not ask again. */
function end(device, why) {
  if (told.ended) return;
  told.ended = why;
  device.destroy();
  postMessage(told);
}
