// Runs the tests and the demos in WebKit, through WebKitWebDriver and its small browser, on a display
// that no screen shows. It has no WebGPU: the tests that need it are skipped.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { EXACT_PAGE, isWell, PAGE, PAGE_MS } from "./flags.mjs";
import { runDemos } from "./runs.mjs";
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
async function run(session, address) {
  await session("POST", "/url", { url: address });
  for (;;) {
    const [lines, result] = await session("POST", "/execute/async", { script: ASKS, args: [] });
    for (const line of lines) console.log(line);
    if (result) return result;
  }
}

/** Opens a page, in which functions can be run. */
async function open(session, address) {
  await session("POST", "/url", { url: address });
  const evaluate = async (f, arg) => {
    const script = `const [arg, done] = arguments; (${f})(arg).then((v) => done([v]), (e) => done([0, String(e)]));`;
    const [value, failure] = await session("POST", "/execute/async", { script, args: [arg] });
    if (failure) throw new Error(failure);
    return value;
  };
  return { evaluate, close: () => session("POST", "/url", { url: "about:blank" }) };
}

/** Starts the engine with variables, and runs something in a session of it. */
async function runWith(variables, f) {
  const free = await port();
  const url = `http://127.0.0.1:${free}`;
  // Of other locales without a country the engine makes a language that its own Intl refuses.
  const env = { ...process.env, DISPLAY: shown.name, GDK_BACKEND: "x11", LC_ALL: "C", ...variables };
  const driver = spawn(process.argv[2], [`--port=${free}`], { env, stdio: "inherit" });
  try {
    const { sessionId } = await call(url, "POST", "/session", { capabilities: {} });
    const session = (method, path, body) => call(url, method, `/session/${sessionId}${path}`, body);
    try {
      await session("POST", "/timeouts", { script: PAGE_MS });
      if (!isWell(await f(session), false)) process.exitCode = 1;
    } finally {
      await session("DELETE", "");
    }
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
  await runWith({}, (session) => run(session, `${server.url}${PAGE}`));
  // Its engine has no call that collects; this one collects again and again.
  await runWith({ JSC_collectContinuously: "1" }, (session) => run(session, `${server.url}${EXACT_PAGE}`));
  await runWith({}, (session) => runDemos((address) => open(session, address), false));
} finally {
  shown.server.kill();
  server.stop();
}
