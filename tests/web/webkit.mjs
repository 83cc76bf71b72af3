// Runs the tests in WebKit, through WebKitWebDriver and its small browser, on a display that no
// screen shows. It has no WebGPU: the tests that need it are skipped.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { EXACT_PAGE, isWell, PAGE, PAGE_MS } from "./flags.mjs";
import { serve } from "./serve.mjs";

/** A free port of this machine. */
function port() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port: free } = server.address();
      server.close(() => resolve(free));
    });
  });
}

/** Starts a display; answers its process and its name. */
async function display() {
  const words = ["-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"];
  const server = spawn("Xvfb", words, { stdio: ["ignore", "pipe", "ignore"] });
  const number = await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", () => reject(new Error("Xvfb does not start")));
    // It tells its number once it is ready.
    server.stdout.once("data", (data) => resolve(String(data).trim()));
  });
  return { server, name: `:${number}` };
}

/** Calls the driver, which may not have started yet. */
async function call(url, method, path, body) {
  const options = { method, headers: { "content-type": "application/json" } };
  if (body) options.body = JSON.stringify(body);
  for (let tries = 0; ; tries += 1) {
    try {
      const { value } = await (await fetch(`${url}${path}`, options)).json();
      if (value?.error) throw new Error(`${path}: ${value.error}: ${value.message}`);
      return value;
    } catch (e) {
      if (e.cause?.code !== "ECONNREFUSED" || tries > 100) throw e;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Runs a page's tests, and prints what they tell. */
async function run(url, address) {
  const { sessionId } = await call(url, "POST", "/session", { capabilities: {} });
  const session = `/session/${sessionId}`;
  try {
    await call(url, "POST", `${session}/timeouts`, { script: PAGE_MS });
    await call(url, "POST", `${session}/url`, { url: address });
    for (;;) {
      const asks = { script: ASKS, args: [] };
      const [lines, result] = await call(url, "POST", `${session}/execute/async`, asks);
      for (const line of lines) console.log(line);
      if (result) return result;
    }
  } finally {
    await call(url, "DELETE", session);
  }
}

/** Runs a page's tests with variables for the engine. */
async function runWith(variables, address) {
  const free = await port();
  const env = { ...process.env, DISPLAY: shown.name, GDK_BACKEND: "x11", ...variables };
  const driver = spawn(process.argv[2], [`--port=${free}`], { env, stdio: "inherit" });
  try {
    const result = await run(`http://127.0.0.1:${free}`, address);
    if (!isWell(result, false)) process.exitCode = 1;
  } finally {
    driver.kill();
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
const shown = await display();
try {
  await runWith({}, `${server.url}${PAGE}`);
  // Its engine has no call that collects; this one collects again and again.
  await runWith({ JSC_collectContinuously: "1" }, `${server.url}${EXACT_PAGE}`);
} finally {
  shown.server.kill();
  server.stop();
}
