// Runs the tests in a page. `?gc` runs those that need an exact collection.

import { runAll, turn } from "./harness.mjs";
import { worldOf } from "./world.mjs";
import "./all.mjs";

const asked = new URLSearchParams(location.search);
const lines = [];
let heard = () => undefined;
let registry;

/** Answers what was told since the last call, once there is something, and the result if there is one. */
globalThis.told = async () => {
  if (lines.length === 0 && !globalThis.result) await new Promise((resolve) => (heard = resolve));
  return [lines.splice(0), globalThis.result];
};
document.dispatchEvent(new Event("told"));

function tell(line) {
  console.log(line);
  lines.push(line);
  heard();
}

/** Has the engine collect everything that cannot be reached. */
async function gc() {
  if (globalThis.TestUtils) return TestUtils.gc();
  if (globalThis.gc) return globalThis.gc({ type: "major", execution: "async" });
  // It collects by itself, again and again, while something is made: until one of these is found.
  let isFound = false;
  registry = new FinalizationRegistry(() => (isFound = true));
  for (let i = 0; i < 64; i += 1) registry.register({}, i);
  while (!isFound) {
    void new Array(10_000).fill({});
    await turn();
  }
}

const world = {
  ...(await worldOf(navigator.gpu, tell)),
  gc: asked.has("gc") ? gc : null,
  // How many handles may seem to be in use: WebKit takes what lies on its stack for handles.
  stray: navigator.vendor.startsWith("Apple") ? 8 : 0,
};
globalThis.result = await runAll(world, tell, asked.get("only") ?? "");
heard();
