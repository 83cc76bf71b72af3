// Every test that runs in Node and in browsers.

import "./init.test.mjs";
import "./host.test.mjs";
import "./wrong.test.mjs";
import "./claims.test.mjs";
import "./memory.test.mjs";
import "./field.test.mjs";
import "./faults.test.mjs";
import "./gpu.test.mjs";
import "./bytes.test.mjs";
import "./collector.test.mjs";
import "./instances.test.mjs";
import "./alone.test.mjs";
import "./loss.test.mjs";
import "./lost.test.mjs";
import "./vectors.test.mjs";
import "./rules.test.mjs";
import "./laws.test.mjs";
import "./wgpu.test.mjs";
import "./walk.test.mjs";
