// Loss: a device that is destroyed at work, and which calls still answer.

import { init } from "rig-web";
import { bytes, element, nextFrame, start } from "../../shared/page.js";
import { callsOfDevice, callsOfMemory } from "./calls.js";

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
 */
export async function run({ isOver = afterFrames(3), show = () => undefined } = {}) {
  const rig = await init();
  const device = await open(rig);
  const webgpu = device.gpu !== null;
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
  if (webgpu) device.gpu.destroy();
  else void device.close();
  const under = await answer(() => begun);
  const { why } = await device.lost;

  const other = await rig.host.createBuffer(BYTES);
  const memory = [];
  for (const [name, call] of callsOfMemory(rig)) {
    const of = (buffer) => answer(() => call(buffer, other));
    memory.push({ name, own: await of(own), host: await of(host) });
  }
  const rows = [{ name: "wait for the work under way, begun before", answer: under }];
  for (const [name, call] of callsOfDevice({ webgpu, wgsl: BUSY })) {
    rows.push({ name, answer: await answer(() => call(device)) });
  }
  const { held } = device;
  const again = await open(rig);
  const isNew = again !== device && again.submitted === 0;
  await again.close();
  return { webgpu, why, heard, held, isNew, memory, device: rows };
}

async function open(rig) {
  try {
    return await rig.open("loss");
  } catch (e) {
    if (e.code !== "Unsupported") throw e;
    return rig.memory("loss");
  }
}

/** Answers what submits a piece of work. */
async function workOf(device, x) {
  if (!device.gpu) return () => device.submit({ writes: [x] });
  const busy = await device.kernel(BUSY);
  return () => busy.run({ x }, [BYTES / 4 / 64]);
}

/** Names what a call answers: "answers", what it told, or the code of its error. */
async function answer(call) {
  try {
    const value = await call();
    return ["number", "string"].includes(typeof value) ? `answers ${value}` : "answers";
  } catch (e) {
    if (!e.code) throw e;
    return e.code;
  }
}

function afterFrames(count) {
  let frames = 0;
  return () => frames++ >= count;
}

/** Shows a device at work, and what its loss came to. */
async function page() {
  const lose = element("lose");
  for (;;) {
    let isOver = false;
    lose.textContent = "Destroy the device";
    lose.onclick = () => {
      isOver = true;
    };
    const show = (device) => {
      element("absent").hidden = device.gpu !== null;
      element("figure").innerHTML = `<b>${device.reached}</b> of <b>${device.submitted}</b> pieces of work done`;
      if (!device.gpu) lose.textContent = "Close the device";
      lose.disabled = false;
    };
    tell(await run({ isOver: () => isOver, show }));
    lose.textContent = "Open again";
    await new Promise((resolve) => (lose.onclick = resolve));
    element("answers").hidden = true;
    element("told").textContent = "";
  }
}

function tell({ why, heard, held, isNew, memory, device }) {
  const all = [...memory.flatMap(({ own, host }) => [own, host]), ...device.map((row) => row.answer)];
  const good = all.filter((text) => text.startsWith("answers")).length;
  element("figure").innerHTML = `<b>${good}</b> of <b>${all.length}</b> calls still answer`;
  element("told").textContent = `lost: ${why}`;
  fill(element("memory"), ["call", "X", "H"], memory.map(({ name, own, host }) => [name, own, host]));
  fill(element("device"), ["call", "answer"], device.map((row) => [row.name, row.answer]));
  const opened = isNew ? "Its name was opened again: that is a new device, with no work yet." : "";
  element("again").textContent =
    `The page heard of the loss ${heard === 1 ? "once" : `${heard} times`}. The lost device holds ${bytes(held)} now. ${opened}`;
  element("answers").hidden = false;
}

/** Fills a table. */
function fill(table, titles, rows) {
  const cells = (tag, texts) => {
    const row = document.createElement("tr");
    for (const [at, text] of texts.entries()) {
      const cell = document.createElement(at === 0 ? "th" : tag);
      cell.scope = tag === "th" ? "col" : at === 0 ? "row" : "";
      cell.textContent = text;
      if (tag === "td" && at > 0) cell.className = text.startsWith("answers") ? "good" : "bad";
      row.append(cell);
    }
    return row;
  };
  table.replaceChildren(cells("th", titles), ...rows.map((row) => cells("td", row)));
}

start(page);
