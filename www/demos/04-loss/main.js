// Loss: a device that is destroyed at work, and which calls still answer.

import { RigError, init } from "rig-web";
import { opened } from "../../shared/device.js";
import { bytes, element, elementOf, made, nextFrame, pressed, start } from "../../shared/page.js";
import { callsOfDevice, callsOfMemory } from "./calls.js";
/** @import { Buffer, Device, Point } from "rig-web" */

const BYTES = 4 * 65_536;
const BUSY = `
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  var v = x[id.x];
  for (var i = 0u; i < 2000u; i++) { v = v * 1664525u + 1013904223u; }
  x[id.x] = v;
}`;

/**
 * Lets a device work until `isOver` answers true before a frame, loses it under way, and answers
 * what every call came to. `show` is called with the device after each frame.
 * @param {{ isOver?: () => boolean, show?: (device: Device) => void }} options
 */
export async function run({ isOver = afterFrames(3), show = () => undefined } = {}) {
  const rig = await init();
  const device = await opened(rig, "loss");
  const { gpu } = device;
  let heard = 0;
  device.addEventListener("lost", () => (heard += 1));
  const host = await rig.host.createBuffer(BYTES, { label: "H" });
  const own = await device.createBuffer(BYTES, { label: "X" });
  await rig.copy(host, own);
  const work = await workOf(device, own);

  let point = work();
  while (!isOver()) {
    const earlier = point;
    point = work();
    await device.wait(earlier);
    show(device);
    await nextFrame();
  }
  point = work();
  const begun = device.wait(point);
  if (gpu) gpu.destroy();
  else void device.close();
  const under = await answer(() => begun);
  const { why } = await device.lost;

  const other = await rig.host.createBuffer(BYTES);
  const memory = [];
  for (const [name, call] of callsOfMemory(rig)) {
    /** @param {Buffer} buffer */
    const of = (buffer) => answer(() => call(buffer, other));
    memory.push({ name, own: await of(own), host: await of(host) });
  }
  const rows = [{ name: "wait for the work under way, begun before", answer: under }];
  for (const [name, call] of callsOfDevice(gpu, BUSY)) {
    rows.push({ name, answer: await answer(() => call(device)) });
  }
  const { held } = device;
  const again = await opened(rig, "loss");
  const isNew = again !== device && again.submitted === 0;
  await again.close();
  return { webgpu: gpu !== null, why, heard, held, isNew, memory, device: rows };
}

/**
 * Answers what submits a piece of work.
 * @param {Device} device
 * @param {Buffer} x
 * @returns {Promise<() => Point>}
 */
async function workOf(device, x) {
  if (!device.gpu) return () => device.submit({ writes: [x] });
  const busy = await device.kernel(BUSY);
  return () => busy.run({ x }, [BYTES / 4 / 64]);
}

/**
 * Names what a call answers: "answers", what it told, or the code of its error.
 * @param {() => unknown} call
 */
async function answer(call) {
  try {
    const value = await call();
    return ["number", "string"].includes(typeof value) ? `answers ${value}` : "answers";
  } catch (e) {
    if (!RigError.is(e)) throw e;
    return e.code;
  }
}

/** @param {number} count */
function afterFrames(count) {
  let frames = 0;
  return () => frames++ >= count;
}

/** Shows a device at work, and what its loss came to. */
async function page() {
  const lose = elementOf("lose", HTMLButtonElement);
  for (;;) {
    let isOver = false;
    lose.textContent = "Destroy the device";
    lose.onclick = () => {
      isOver = true;
    };
    /** @param {Device} device */
    const show = (device) => {
      element("absent").hidden = device.gpu !== null;
      figure(device.reached, " of ", device.submitted, " pieces of work done");
      if (!device.gpu) lose.textContent = "Close the device";
      lose.disabled = false;
    };
    tell(await run({ isOver: () => isOver, show }));
    lose.textContent = "Open again";
    lose.onclick = null;
    await pressed(lose);
    element("answers").hidden = true;
    element("told").textContent = "";
  }
}

/**
 * Shows the page's first number, of all there are.
 * @param {number} some
 * @param {string} of
 * @param {number} all
 * @param {string} what
 */
function figure(some, of, all, what) {
  element("figure").replaceChildren(made("b", some), of, made("b", all), what);
}

/** @param {string} answer */
const isGood = (answer) => answer.startsWith("answers");

/**
 * Shows what a loss came to.
 * @param {Awaited<ReturnType<typeof run>>} found
 */
function tell({ why, heard, held, isNew, memory, device }) {
  const groups = {
    "Memory of the page, H": memory.map(({ host }) => host),
    "Memory of the lost device, X": memory.map(({ own }) => own),
    "The lost device": device.map(({ answer }) => answer),
  };
  const all = Object.values(groups).flat();
  figure(all.filter(isGood).length, " of ", all.length, " calls still answer");
  element("told").textContent = `lost: ${why}`;
  element("sums").replaceChildren(...Object.entries(groups).map(([name, answers]) => sum(name, answers)));
  fill(element("memory"), ["call", "H", "X"], memory.map(({ name, own, host }) => [name, host, own]));
  fill(element("device"), ["call", "answer"], device.map((row) => [row.name, row.answer]));
  const times = heard === 1 ? "once" : `${heard} times`;
  const anew = isNew ? " Its name was opened again: that is a new device, with no work yet." : "";
  element("again").textContent = `The page heard of the loss ${times}. The lost device holds ${bytes(held)} now.${anew}`;
  element("answers").hidden = false;
}

/**
 * Makes the card of some calls: a box for each, and how many of them answer.
 * @param {string} name
 * @param {string[]} answers
 */
function sum(name, answers) {
  const root = made("section", "", "lane");
  const good = answers.filter(isGood).length;
  const big = made("p", "", "big");
  big.append(made("b", `${good} of ${answers.length}`, good === answers.length ? "good" : ""), " answer");
  const boxes = made("div", "", "boxes");
  boxes.append(...answers.map((answer) => made("i", "", isGood(answer) ? "live" : "")));
  root.append(made("h2", name), big, boxes);
  return root;
}

/**
 * Fills a table.
 * @param {HTMLElement} table
 * @param {string[]} titles
 * @param {string[][]} rows
 */
function fill(table, titles, rows) {
  /**
   * @param {"td" | "th"} tag
   * @param {string[]} texts
   */
  const cells = (tag, texts) => {
    const row = document.createElement("tr");
    for (const [at, text] of texts.entries()) {
      const cell = made(at === 0 ? "th" : tag, text.replace(/^answers /, ""));
      if (tag === "th" || at === 0) cell.setAttribute("scope", tag === "th" ? "col" : "row");
      if (tag === "td" && at > 0) cell.className = isGood(text) ? "good" : "bad";
      row.append(cell);
    }
    return row;
  };
  table.replaceChildren(cells("th", titles), ...rows.map((row) => cells("td", row)));
}

start(page);
