// Runs the tests and the demos in WebKit. It has no WebGPU: the tests that need it are skipped.

import { inWebKit, onDisplay, open } from "./driver.mjs";
import { EXACT_PAGE, isWell, PAGE, PAGE_MS } from "./flags.mjs";
import { runDemos } from "./runs.mjs";
import { serve } from "./serve.mjs";

/** Runs a page's tests, and prints what they tell. */
async function run(session, address) {
  await session("POST", "/url", { url: address });
  for (;;) {
    const [lines, result] = await session("POST", "/execute/async", { script: ASKS, args: [] });
    for (const line of lines) console.log(line);
    if (result) return result;
  }
}

/** Asks the page what its tests told. Its modules may run later than its load. */
const ASKS = `
  const [done] = arguments;
  const ask = () => told().then(done);
  if (globalThis.told) ask();
  else document.addEventListener("told", ask, { once: true });
  import("/tests/web/page.mjs").catch((e) => done([[String(e)], { failed: 1 }]));`;

const server = await serve();
try {
  await onDisplay(async (display) => {
    const runWith = async (variables, f) => {
      const result = await inWebKit({ program: process.argv[2], display, variables, ms: PAGE_MS }, f);
      if (!isWell(result, false)) process.exitCode = 1;
    };
    await runWith({}, (session) => run(session, `${server.url}${PAGE}`));
    // Its engine has no call that collects; this one collects again and again.
    await runWith({ JSC_collectContinuously: "1" }, (session) => run(session, `${server.url}${EXACT_PAGE}`));
    await runWith({}, (session) => runDemos((address) => open(session, address), false));
  });
} finally {
  server.stop();
}
