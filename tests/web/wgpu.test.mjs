// rig's driver of wgpu, as a program in Rust has it in a page: the laws of `tests/contract`, run by
// wasm that is suspended wherever they wait, and promises of the library, which any engine runs.

import { test, turn } from "./harness.mjs";
// First, since it changes how wasm is instantiated while it loads.
import "./laws.test.mjs";

let instances = 0;

/** Makes an instance of the program; `ended` rejects once it panics. */
async function instance() {
  instances += 1;
  const page = await import(`/tests/web/wgpu/built/page.js?${instances}`);
  const ended = new Promise((_, reject) => {
    globalThis.panicked = (text) => reject(new Error(text));
  });
  ended.catch(() => undefined);
  globalThis.passed = turn;
  const wasm = await page.default();
  return { page, wasm, ended };
}

if (globalThis.document) {
  const { page } = await instance();
  for (const [number, name] of page.laws().entries()) {
    test(
      `${name}_through_wgpu_in_a_page`,
      async () => {
        const { wasm, ended } = await instance();
        await Promise.race([WebAssembly.promising(wasm.law)(number), ended]);
      },
      { needs: ["gpu", "suspends"] },
    );
  }
  for (const [number, name] of page.promises().entries()) {
    test(
      `${name}_through_wgpu_in_a_page`,
      async () => {
        const { page, ended } = await instance();
        await Promise.race([page.promise(number), ended]);
      },
      { needs: "gpu", beside: name.endsWith("by_the_tick") },
    );
  }
}
