// rig in a module worker: the host, and a GPU where workers have one.

import { init } from "/dist/rig.js";

const rig = await init();
const gpu = await rig.open("worker", { budget: 2 ** 20 });
const x = await gpu.createBuffer(7);
await x.fill(3);
postMessage([...(await x.toArray(Uint8Array))]);
