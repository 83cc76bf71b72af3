// The raw lanes' work, in a worker: buffers of WebGPU itself, on a device of their own.

/** STORAGE | COPY_DST. */
const USAGE = 0x80 | 0x8;
const BUDGETS_MAX = 8;
const LONGEST_MS = 10_000;

const told = { made: 0, held: 0, most: 0, making: 0, collection: 0, ended: "", took: 0 };
let lane;
let gone = 0;
let began;
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
  postMessage(told);
};

async function device() {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  device.lost.then(({ message }) => (told.ended ||= `lost: ${message || "no room"}`));
  began = performance.now();
  return device;
}

function frame(device, count) {
  const { bufferBytes, destroys } = lane;
  const start = performance.now();
  const buffers = Array.from({ length: count }, () => device.createBuffer({ size: bufferBytes, usage: USAGE }));
  told.making += performance.now() - start;
  told.made += count * bufferBytes;
  const encoder = device.createCommandEncoder();
  for (const buffer of buffers) encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
  device.queue.writeBuffer(buffers[0], 0, (upload ??= new Uint8Array(bufferBytes).fill(1)));
  if (destroys) destroy(buffers);
  else for (const buffer of buffers) registry.register(buffer, bufferBytes);
  told.held = told.made - gone;
  told.most = Math.max(told.most, told.held);
  told.took = performance.now() - start;
  if (!destroys) mind(device);
}

/** Gives memory back by hand. */
function destroy(buffers) {
  const start = performance.now();
  for (const buffer of buffers) buffer.destroy();
  told.collection += performance.now() - start;
  gone += buffers.length * lane.bufferBytes;
}

/** Stops before it takes the machine's memory. */
function mind(device) {
  if (told.held >= BUDGETS_MAX * lane.budget) told.ended = "stopped at 8 budgets";
  else if (performance.now() - began > LONGEST_MS) told.ended = "stopped after 10 s";
  if (told.ended) device.destroy();
}
