// WebKit through its WebKitWebDriver and its small browser, on a display that no screen shows.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

/** Starts a display, runs something with it, and ends it. */
export async function onDisplay(f) {
  const shown = await startDisplay();
  try {
    return await f(shown.name);
  } finally {
    shown.server.kill();
  }
}

/**
 * Starts the engine on a display, with variables, and runs something in a session of it: `f` gets
 * what calls the driver, a method, a path and a body.
 */
export async function inWebKit({ program, display, variables = {}, ms }, f) {
  const free = await port();
  const url = `http://127.0.0.1:${free}`;
  // Of other locales without a country the engine makes a language that its own Intl refuses.
  const env = { ...process.env, DISPLAY: display, GDK_BACKEND: "x11", LC_ALL: "C", ...variables };
  const driver = spawn(program, [`--port=${free}`], { env, stdio: "inherit" });
  try {
    const { sessionId } = await call(url, "POST", "/session", { capabilities: {} });
    const session = (method, path, body) => call(url, method, `/session/${sessionId}${path}`, body);
    try {
      await session("POST", "/timeouts", { script: ms });
      return await f(session);
    } finally {
      await session("DELETE", "");
    }
  } finally {
    driver.kill();
  }
}

/** Opens a page, in which functions can be run. */
export async function open(session, address) {
  await session("POST", "/url", { url: address });
  const evaluate = async (f, arg) => {
    const script = `
      const [arg, done] = arguments;
      (async () => (${f})(arg))().then((v) => done([v]), (e) => done([0, String(e)]));`;
    const [value, failure] = await session("POST", "/execute/async", { script, args: [arg] });
    if (failure) throw new Error(failure);
    return value;
  };
  const goTo = (url) => session("POST", "/url", { url });
  return { evaluate, goTo, goBack: () => session("POST", "/back", {}), close: () => goTo("about:blank") };
}

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
async function startDisplay() {
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
