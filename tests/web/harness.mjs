// Tests that run in Node and in browsers alike: a list of promises, and how to state them.

const tests = [];

/**
 * Adds a test. `needs` lists what it cannot do without: "gpu"; "gc", an exact collection. Tests that
 * need the latter have a run of their own, with nothing else in it. A test that is `beside` starts
 * first and is awaited last: it is about time that has to pass.
 */
export function test(name, f, { needs = [], beside = false, ms = TEST_MS } = {}) {
  tests.push({ name, f, needs: [needs].flat(), beside, ms });
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

/**
 * Runs every test, one after another, and answers what came of them. What `world.complaints` gets
 * meanwhile fails the test that runs: rejections and errors that nobody handled, uncaptured errors.
 * `only` is part of the names of those that run.
 */
export async function runAll(world, tell = console.log, only = "") {
  const result = { passed: 0, failed: 0, skipped: 0 };
  const complaints = (world.complaints ??= []);
  watch(complaints);
  const ended = (name, failure, ms) => {
    tell(`test ${name} ... ${failure ? `FAILED (${ms} ms)\n    ${failure}` : `ok (${ms} ms)`}`);
    result[failure ? "failed" : "passed"] += 1;
  };
  const named = tests.filter(({ name }) => name.includes(only));
  const chosen = named.filter((test) => canRun(test, world, result, tell));
  const beside = chosen.filter((test) => test.beside).map((test) => [test.name, timed(test, world)]);
  for (const test of chosen.filter((test) => !test.beside)) {
    const [failure, ms] = await timed(test, world);
    await turn();
    ended(test.name, failure || told(complaints), ms);
  }
  for (const [name, running] of beside) ended(name, ...(await running));
  // What a test leaves behind may complain late.
  for (let i = 0; i < 3; i += 1) await turn();
  if (complaints.length > 0) ended("nothing_complains_in_the_end", told(complaints), 0);
  const verdict = result.failed ? "FAILED" : "ok";
  tell(`test result: ${verdict}. ${result.passed} passed; ${result.failed} failed; ${result.skipped} skipped`);
  return result;
}

function canRun({ name, needs }, world, result, tell) {
  if (needs.includes("gc") !== Boolean(world.gc)) return false;
  const lacks = needs.find((need) => !world[need]);
  if (!lacks) return true;
  result.skipped += 1;
  tell(`test ${name} ... skipped: no ${lacks} here`);
  return false;
}

/** Runs a test; answers why it failed, or nothing, and how many milliseconds it took. */
async function timed({ f, ms }, world) {
  const began = performance.now();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took more than ${ms} ms`)), ms);
  });
  let failure = "";
  try {
    await Promise.race([f(world), late]);
  } catch (e) {
    failure = `${e}\n${e?.stack ?? ""}`;
  } finally {
    clearTimeout(timer);
  }
  return [failure, Math.round(performance.now() - began)];
}

/** Collects rejections and errors that nobody handled. */
function watch(complaints) {
  const note = (what) => (e) => complaints.push(`${what}: ${e}`);
  if (globalThis.process?.on) {
    process.on("unhandledRejection", note("unhandled"));
    process.on("uncaughtException", note("uncaught"));
    // Of many listeners on one target.
    process.on("warning", (e) => e.name === "MaxListenersExceededWarning" && note("warned")(e));
  }
  globalThis.addEventListener?.("unhandledrejection", (event) => note("unhandled")(event.reason));
  globalThis.addEventListener?.("error", (event) => note("uncaught")(event.message));
}

function told(complaints) {
  return complaints.splice(0).join("\n    ");
}

function plain(value) {
  const text = (_, item) => (ArrayBuffer.isView(item) ? [...item] : item === Infinity ? "Infinity" : item);
  return JSON.stringify(value, text);
}

/** A machine that does much else besides is slow. */
const TEST_MS = 180_000;
