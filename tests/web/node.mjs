// Runs the tests in Node: the host and memory devices, and GPUs of the package `webgpu`. With
// `--expose-gc`, those that need an exact collection. An argument is part of the names of tests.
//
// That package asks Vulkan for a driver. Chromium's own, in software, is what the tests of
// Chromium run on; Debian's, of Mesa, lacks what the package needs.

import { existsSync } from "node:fs";
import { runAll } from "./harness.mjs";

const SOFTWARE = "/usr/lib/chromium/vk_swiftshader_icd.json";
if (existsSync(SOFTWARE)) process.env.VK_DRIVER_FILES ??= SOFTWARE;
const webgpu = await webgpuHere();
// Imported once WebGPU has its globals.
const { worldOf } = await import("./world.mjs");
await import("./all.mjs");
await import("./types.test.mjs");
const world = {
  ...(await worldOf(webgpu)),
  gc: globalThis.gc && (() => globalThis.gc({ type: "major", execution: "async" })),
  stray: 0,
};
const result = await runAll(world, console.log, process.argv[2]);
process.exitCode = result.failed > 0 || result.passed === 0 ? 1 : 0;

/** Returns the package's WebGPU, with the globals that pages have; none without the package. */
async function webgpuHere() {
  try {
    const { create, globals } = await import("webgpu");
    Object.assign(globalThis, globals);
    return create([]);
  } catch (e) {
    console.log(`no package webgpu: ${e.message}`);
    return undefined;
  }
}
