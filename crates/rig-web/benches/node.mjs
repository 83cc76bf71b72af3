// Runs the benchmarks in Node, on the package `webgpu`.

import { existsSync } from "node:fs";

const SOFTWARE = "/usr/lib/chromium/vk_swiftshader_icd.json";
if (existsSync(SOFTWARE)) process.env.VK_DRIVER_FILES ??= SOFTWARE;
const { create, globals } = await import("webgpu");
Object.assign(globalThis, globals);
const gpu = create([]);
// Imported once WebGPU has its globals.
const { init } = await import("rig-web");
const { run } = await import("./rows.mjs");
const open = async () => (await gpu.requestAdapter()).requestDevice();
const quick = process.argv.includes("--quick");
await run({ init, adapter: await gpu.requestAdapter(), open, peers: null, quick, tell: (line) => console.log(line) });
process.exit(0);
