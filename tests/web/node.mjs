// Runs the tests in Node: the host and memory devices. With `--expose-gc`, those that need an exact
// collection.

import { init, RigError } from "rig-web";
import { runAll } from "./harness.mjs";
import "./all.mjs";

const gc = globalThis.gc && (() => globalThis.gc({ type: "major", execution: "async" }));
const result = await runAll({
  rig: await init(),
  init,
  RigError,
  gpu: null,
  gc,
  stray: 0,
  long: process.env.RIG_LONG === "1",
  copy: (query) => import(`../../dist/rig.js?${query}`),
});
process.exitCode = result.failed > 0 || result.passed === 0 ? 1 : 0;
