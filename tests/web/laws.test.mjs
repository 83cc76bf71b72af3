// The laws of drivers, on the driver over the page's GPU objects: those of `tests/contract`, run by
// wasm that is suspended wherever they wait.

import { test } from "./harness.mjs";

const needs = ["gpu", "suspends"];

if (globalThis.document && WebAssembly.Suspending) {
  const { names, run } = await import("/tests/web/laws/built/page.js");
  for (const [number, name] of (await names()).entries()) {
    test(`${name}_in_a_page`, async ({ gpuDevice }) => run(number, await gpuDevice()), { needs });
  }
}
