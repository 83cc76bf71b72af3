// Tests that run in Node and in browsers alike: a list of promises, and how to state them.

const tests = [];

/** Adds a test. `needs` names what it cannot do without: "gpu". */
export function test(name, f, { needs } = {}) {
  tests.push({ name, f, needs });
}

/** Fails unless two plain values are the same. */
export function equal(found, wanted, what = "") {
  const [a, b] = [plain(found), plain(wanted)];
  if (a !== b) throw new Error(`${what} is ${a}, not ${b}`);
}

/** Fails unless something holds. */
export function holds(condition, what) {
  if (!condition) throw new Error(`it does not hold that ${what}`);
}

/** Runs something that has to fail, and returns its error. */
export async function error(f) {
  try {
    await f();
  } catch (e) {
    return e;
  }
  throw new Error("nothing failed");
}

/** Fails unless a call fails with a code and, for Misuse, what was wrong. */
export async function fails(f, code, what) {
  const e = await error(f);
  equal([e.name, e.code, e.what], ["RigError", code, what], `the error (${e.message})`);
  return e;
}

/** Waits until something holds, for at most so many milliseconds. */
export async function until(condition, what, ms = 10_000) {
  const began = performance.now();
  while (!condition()) {
    if (performance.now() - began > ms) throw new Error(`in ${ms} ms it never held that ${what}`);
    await turn();
  }
}

/** Waits for a turn of the event loop. */
export function turn() {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Runs every test, one after another, and answers what came of them. */
export async function runAll(world, tell = console.log) {
  const result = { passed: 0, failed: 0, skipped: 0 };
  const unhandled = [];
  watch(unhandled);
  for (const { name, f, needs } of tests) {
    if (needs && !world[needs]) {
      result.skipped += 1;
      tell(`test ${name} ... skipped: no ${needs} here`);
      continue;
    }
    const began = performance.now();
    const failure = await run(f, world, unhandled);
    const ms = Math.round(performance.now() - began);
    tell(`test ${name} ... ${failure ? `FAILED (${ms} ms)\n    ${failure}` : `ok (${ms} ms)`}`);
    result[failure ? "failed" : "passed"] += 1;
  }
  const verdict = result.failed ? "FAILED" : "ok";
  tell(`test result: ${verdict}. ${result.passed} passed; ${result.failed} failed; ${result.skipped} skipped`);
  return result;
}

async function run(f, world, unhandled) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took more than ${TEST_MS} ms`)), TEST_MS);
  });
  try {
    await Promise.race([f(world), late]);
    await turn();
    return unhandled.length > 0 ? `unhandled: ${unhandled.splice(0).join("; ")}` : "";
  } catch (e) {
    return e?.stack ?? String(e);
  } finally {
    clearTimeout(timer);
  }
}

/** Collects rejections that nobody handled. */
function watch(unhandled) {
  if (globalThis.process?.on) process.on("unhandledRejection", (e) => unhandled.push(String(e)));
  globalThis.addEventListener?.("unhandledrejection", (event) => unhandled.push(String(event.reason)));
}

function plain(value) {
  const text = (_, item) => (ArrayBuffer.isView(item) ? [...item] : item === Infinity ? "Infinity" : item);
  return JSON.stringify(value, text);
}

const TEST_MS = 60_000;
