// Real work: a simulation that makes every buffer anew, beside the same by hand with buffers reused.

import { MIB, element, nextFrame, start, wantsStill } from "../../shared/page.js";
import { Lane } from "./lanes.js";
import { picture } from "./picture.js";
import { brushOf } from "./rules.js";

/** Pictures are compared after this many frames, and after each of so many. */
const FIRST_CHECK = 5;
const CHECK_FRAMES = 60;

/**
 * Runs both programs for so many frames, in turns, and answers what they came to. `opened` is
 * called with them, `show` after each frame, and `checked` with the hashes of two pictures, now and
 * then and at the end. `isOver` ends it early, and `isPaused` lets it rest after its first.
 */
export async function run({
  frames = Infinity,
  cells,
  budget,
  isOver = () => false,
  isPaused = () => false,
  opened = () => undefined,
  show = () => undefined,
  checked = () => undefined,
} = {}) {
  const found = await adapter();
  const size = cells ?? found.cells;
  const bound = budget ?? budgetOf(size);
  const { on, lanes } = await open(found.on, { cells: size, budget: bound });
  const hashes = [];
  opened({ ...found, on, cells: size, budget: bound, lanes });
  for (let frame = 0; frame < frames && !isOver(); ) {
    if (frame === 0 || !isPaused()) {
      const brush = new Float32Array([...brushOf(frame, size), 0]);
      for (const lane of frame % 2 === 0 ? lanes : lanes.toReversed()) await lane.frame(brush);
      frame += 1;
      if (frame === FIRST_CHECK || frame % CHECK_FRAMES === 0 || frame === frames) {
        const [rig, hand] = await Promise.all(lanes.map((lane) => lane.hash()));
        hashes.push({ frame, rig, hand });
        checked(hashes.at(-1));
      }
      show(lanes);
    }
    await nextFrame();
  }
  const answer = lanes.map(({ name, frames, calls, took, memory }) => {
    const [median, p99] = [took.median, took.p99];
    return { name, frames, calls: calls.median, median, p99, ...memory };
  });
  await Promise.all(lanes.map((lane) => lane.close()));
  return { on, adapter: found.name, cells: size, budget: bound, hashes, lanes: answer };
}

/** Room for what 13 frames make, where that is not too much. */
function budgetOf(cells) {
  return Math.min(1024 * cells ** 2, 512 * MIB);
}

/** Finds the GPU of the page: its name, and how many cells a side it should be given. */
async function adapter() {
  const found = await navigator.gpu?.requestAdapter();
  if (!found) return { on: "memory", name: "the processor", cells: 128 };
  const { vendor, architecture, device, description, isFallbackAdapter } = found.info;
  const name = description || [vendor, architecture, device].filter(Boolean).join(" ") || "a GPU without a name";
  const isSlow = isFallbackAdapter || /swiftshader|llvmpipe|software/i.test([name, architecture].join(" "));
  return { on: "gpu", name, isSlow, cells: isSlow ? 256 : 512 };
}

/** Starts both programs; on the processor where their workers have no GPU. */
async function open(on, options) {
  const opening = ["rig", "hand"].map((name) => Lane.open(name, on, options));
  const opened = await Promise.allSettled(opening);
  const failed = opened.find(({ status }) => status === "rejected");
  const lanes = opened.flatMap(({ value }) => value ?? []);
  if (!failed) return { on, lanes };
  await Promise.all(lanes.map((lane) => lane.close()));
  if (failed.reason.code !== "Unsupported" || on === "memory") throw failed.reason;
  return open("memory", options);
}

/** Shows the programs on the page, and reads its controls. */
async function page() {
  const toggle = element("toggle");
  const choice = element("cells");
  let running = !wantsStill();
  let chosen;
  const label = () => (toggle.textContent = running ? "Pause" : "Go on");
  toggle.addEventListener("click", () => {
    running = !running;
    label();
  });
  choice.addEventListener("change", () => (chosen = Number(choice.value)));
  label();
  for (;;) {
    const cells = chosen;
    await run({ cells, isOver: () => chosen !== cells, isPaused: () => !running, ...picture() });
  }
}

start(page);
