// rig in a module worker: the host, and a GPU where workers have one.

import { init } from "/dist/rig.js";

const rig = await init();
const options = { budget: 2 ** 20 };
const device = navigator.gpu ? await rig.open("worker", options) : rig.memory("worker", options);
// What is forgotten comes back there too.
for (let i = 0; i < 16; i += 1) {
  await device.createBuffer(2 ** 18);
  if (device.held > device.budget) throw new Error(`${device.held} bytes are held`);
}
const h = await rig.host.createBuffer(7);
await h.write((bytes) => bytes.fill(9));
const x = await device.createBuffer(7);
await rig.copy(h, x);
if ((await x.toArray(Uint8Array))[6] !== 9) throw new Error("the copy is wrong");
await x.fill(3);
postMessage([device.facts.driver, ...(await x.toArray(Uint8Array))]);
