// Stamps: a copy, a doubling and a copy back, and what memory remembers after each call.

import { init } from "rig-web";
import { opened } from "../../shared/device.js";
import { element, elementOf, made, pressed, start } from "../../shared/page.js";
import { draw, rowOfStep, titles } from "./timeline.js";
/** @import { Buffer, Device, Point } from "rig-web" */
/** @import { Step } from "./timeline.js" */

/**
 * How a run goes. `ready` is called with the device before the first call, and `show` with all steps
 * so far after each; the next call is made once their answer has settled.
 * @typedef {object} Options
 * @property {(device: Device) => Promise<void> | void} [ready]
 * @property {(steps: Step[]) => Promise<void> | void} [show]
 */

const COUNT = 65_536;
const DOUBLE = `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&x)) { x[id.x] *= 2.0; }
}`;

/** The program's calls, as a person writes them. The steps below make the same ones. */
const PROGRAM = [
  "await h.write(numbers);",
  "await rig.copy(h, x);",
  "const done = double.run({ x }, groups);",
  "await d.wait(done);",
  "await rig.copy(x, h);",
  "const last = await h.read(lastNumber);",
];

/**
 * Runs the program and answers its steps.
 * @param {Options} options
 */
export async function run({ ready = () => undefined, show = () => undefined } = {}) {
  const device = await opened(await init(), "d");
  /** @type {Step[]} */
  const steps = [];
  try {
    await ready(device);
    for await (const step of program(device)) {
      steps.push(step);
      await show(steps);
    }
  } finally {
    await device.close();
  }
  return { webgpu: device.gpu !== null, steps };
}

/**
 * The program itself. It yields what was so right after each of its calls.
 * @param {Device} device
 * @returns {AsyncGenerator<Step>}
 */
async function* program(device) {
  const rig = await init();
  const double = await doubling(device);
  const h = await rig.host.createBuffer(4 * COUNT, { label: "H" });
  const x = await device.createBuffer(4 * COUNT, { label: "X" });
  /** @param {string} call */
  const after = (call, came = "") => {
    const { submitted, reached } = device;
    return { call, came, submitted, reached, h: stamps(h), x: stamps(x) };
  };

  await h.write((bytes) => floats(bytes).forEach((_, i, all) => (all[i] = i)));
  yield after("write 0, 1, 2 ... into H");
  await rig.copy(h, x);
  yield after("copy H to X");
  const done = await double(x);
  yield after("double X", `it answers ${device.name}:${done.value} and does not wait`);
  await device.wait(done);
  yield after(`wait for ${device.name}:${done.value}`);
  await rig.copy(x, h);
  yield after("copy X to H");
  const last = await h.read((bytes) => floats(bytes)[COUNT - 1]);
  yield { ...after("read the last number of H", `the last number of H is ${last}`), last };
}

/**
 * Answers what doubles a buffer on a device.
 * @param {Device} device
 * @returns {Promise<(x: Buffer) => Promise<Point>>}
 */
async function doubling(device) {
  if (device.gpu) {
    const double = await device.kernel(DOUBLE);
    return async (x) => double.run({ x }, [COUNT / 64]);
  }
  return async (x) => {
    await x.write((bytes) => floats(bytes).forEach((value, i, all) => (all[i] = 2 * value)));
    return device.submit({ writes: [x] });
  };
}

/** @param {Uint8Array} bytes */
function floats(bytes) {
  return new Float32Array(bytes.buffer, bytes.byteOffset, COUNT);
}

/**
 * Returns the stamps of a buffer as values of the one device.
 * @param {Buffer} buffer
 */
function stamps(buffer) {
  const { write, uses } = buffer.stamps();
  return { write: write?.value ?? 0, use: uses[0]?.value ?? 0 };
}

/** Shows the program on the page, one call for each press of its button. */
async function page() {
  const next = elementOf("next", HTMLButtonElement);
  /** @param {Device} device */
  const ready = (device) => {
    element("absent").hidden = device.gpu !== null;
    begin();
    return pressed(next);
  };
  /** @param {Step[]} steps */
  const show = (steps) => {
    tell(steps);
    if (steps.length < PROGRAM.length) return pressed(next);
  };
  for (;;) {
    const { steps } = await run({ ready, show });
    next.textContent = "Start again";
    element("told").textContent = `done: ${steps.at(-1)?.came}`;
    await pressed(next);
    next.textContent = "Next call";
  }
}

/**
 * Marks the call of the program that comes next.
 * @param {number} count How many were made.
 */
function mark(count) {
  const lines = PROGRAM.map((text, at) => {
    const line = document.createElement("li");
    line.append(made("code", text));
    line.className = at < count ? "done" : "";
    if (at === count) line.setAttribute("aria-current", "step");
    return line;
  });
  element("program").replaceChildren(...lines);
}

/** Shows that nothing was called yet. */
function begin() {
  mark(0);
  for (const id of ["submitted", "reached"]) element(id).textContent = "0";
  element("told").textContent = "nothing was called yet";
  element("stamps").replaceChildren(titles());
  element("timeline").replaceChildren();
  element("empty").hidden = false;
}

/**
 * Shows the last of the steps.
 * @param {Step[]} steps
 */
function tell(steps) {
  const [before, step] = [steps.at(-2), steps[steps.length - 1]];
  const { call, came, submitted, reached } = step;
  mark(steps.length);
  element("submitted").textContent = String(submitted);
  element("reached").textContent = String(reached);
  element("told").textContent = came ? `${call}: ${came}` : call;
  element("stamps").append(rowOfStep(step, before));
  element("empty").hidden = submitted > 0;
  draw(element("timeline"), steps);
}

start(page);
