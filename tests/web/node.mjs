// Runs the tests in Node: the host and memory devices.

import { init, RigError } from "rig-web";
import { runAll } from "./harness.mjs";
import "./all.mjs";

const result = await runAll({ rig: await init(), init, RigError, gpu: null });
process.exitCode = result.failed > 0 || result.passed === 0 ? 1 : 0;
