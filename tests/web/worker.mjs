// rig in a module worker: the host, and a GPU where workers have one.

import { init } from "/dist/rig.js";

const rig = await init();
const gpu = await rig.open("worker", { budget: 2 ** 20 });
// What is forgotten comes back there too.
for (let i = 0; i < 16; i += 1) {
  await gpu.createBuffer(2 ** 18);
  if (gpu.held > gpu.budget) throw new Error(`${gpu.held} bytes are held`);
}
const h = await rig.host.createBuffer(7);
await h.write((bytes) => bytes.fill(9));
const x = await gpu.createBuffer(7);
await rig.copy(h, x);
if ((await x.toArray(Uint8Array))[6] !== 9) throw new Error("the copy is wrong");
await x.fill(3);
postMessage([...(await x.toArray(Uint8Array))]);
