// Real work: a simulation that makes every buffer anew, beside the same by hand with buffers reused.

import { MIB, element, elementOf, nextFrame, start, wantsStill } from "../../shared/page.js";
import { Fit } from "./fit.js";
import { Lane } from "./lanes.js";
import { picture } from "./picture.js";
import { brushOf } from "./rules.js";

/**
 * What the programs run on: GPUs or the processor, its name, and whether it is a GPU in software.
 * @typedef {{ on: "gpu" | "memory", name: string, isSoftware: boolean }} Found
 */
/**
 * How much the programs have to do, and rig's budget.
 * @typedef {{ cells: number, steps: number, budget: number }} Size
 */
/**
 * The program on rig and that by hand.
 * @typedef {[rig: Lane, hand: Lane]} Lanes
 */
/**
 * The hashes of the two pictures of a frame.
 * @typedef {{ frame: number, rig: string, hand: string }} Hashes
 */
/**
 * What a run tells a page and asks it.
 * @typedef {object} Page
 * @property {() => boolean} isOver Ends it early.
 * @property {() => boolean} isPaused Lets it rest after its first frame.
 * @property {(begun: Found & Size & { lanes: Lanes }) => void} opened Told whenever the programs begin.
 * @property {(lanes: Lanes) => void} show Told after each frame.
 * @property {(hashes: Hashes) => void} checked Told of two pictures, now and then and at the end.
 */

/** Pictures are compared after this many frames, and after each of so many. */
const FIRST_CHECK = 5;
const CHECK_FRAMES = 60;
/** What a program has made is asked for after each of so many. */
const TOLD_FRAMES = 6;

/**
 * Runs both programs for so many frames, in turns, and answers what they came to. Without `cells`
 * it finds how many cells and steps fit into a frame of the page; frames at other sizes do not
 * count.
 * @param {{ frames?: number } & Partial<Size & Page>} options
 */
export async function run({ frames = Infinity, cells, steps = 8, budget, ...page } = {}) {
  const found = await adapter();
  const fit = cells ? null : new Fit();
  for (;;) {
    const size = fit ? fit.size : { cells: cells ?? 0, steps };
    const bound = budget ?? budgetOf(size.cells);
    const answer = await work({ ...found, ...size, budget: bound }, { ...STILL, ...page, frames, fit });
    if (answer) return answer;
  }
}

/**
 * What a run without a page has to show, and when it ends or rests: never.
 * @type {Page}
 */
const STILL = {
  isOver: () => false,
  isPaused: () => false,
  opened: () => undefined,
  show: () => undefined,
  checked: () => undefined,
};

/**
 * Runs both programs at one size; answers nothing if they have to begin again at another.
 * @param {Found & Size} found
 * @param {Page & { frames: number, fit: Fit | null }} how
 */
async function work(found, { frames, fit, isOver, isPaused, opened, show, checked }) {
  const { on, lanes } = await open(found.on, found);
  /** @type {Hashes[]} */
  const hashes = [];
  let isOther = false;
  let before = NaN;
  opened({ ...found, on, lanes });
  for (let frame = 0; frame < frames && !isOver() && !isOther; ) {
    // Asked for before the work, so that a frame that takes a little too long loses no other.
    const next = nextFrame();
    if (frame === 0 || !isPaused()) {
      const brush = new Float32Array([...brushOf(frame, found.cells), 0]);
      for (const lane of frame % 2 === 0 ? lanes : lanes.toReversed()) await lane.frame(brush);
      frame += 1;
      const isLast = frame === frames;
      if (frame === 1 || frame % TOLD_FRAMES === 0 || isLast) await Promise.all(lanes.map((lane) => lane.tell()));
      if (frame === FIRST_CHECK || frame % CHECK_FRAMES === 0 || isLast) {
        const [rig, hand] = await Promise.all(lanes.map((lane) => lane.hash()));
        const both = { frame, rig, hand };
        hashes.push(both);
        checked(both);
      }
      show(lanes);
      const apart = performance.now() - before;
      if (fit && apart > 0) isOther = fit.changes(lanes[0].last + lanes[1].last, apart);
      before = performance.now();
    } else {
      before = NaN;
    }
    await next;
  }
  const answer = lanes.map(({ name, frames, calls, took, memory }) => {
    const [median, p99] = [took.median, took.p99];
    return { name, frames, calls: calls.median, median, p99, ...memory };
  });
  await Promise.all(lanes.map((lane) => lane.close()));
  const { name, cells, steps, budget } = found;
  return isOther ? null : { on, adapter: name, cells, steps, budget, hashes, lanes: answer };
}

/**
 * Room for what more than a dozen frames make, where that is neither next to nothing nor too much.
 * @param {number} cells
 */
function budgetOf(cells) {
  return Math.min(Math.max(1024 * cells ** 2, 16 * MIB), 512 * MIB);
}

/**
 * Finds the GPU of the page, and its name.
 * @returns {Promise<Found>}
 */
async function adapter() {
  const found = await navigator.gpu?.requestAdapter();
  if (!found) return { on: "memory", name: "the processor", isSoftware: false };
  const { vendor, architecture, device, description, isFallbackAdapter } = found.info;
  const name = description || [vendor, architecture, device].filter(Boolean).join(" ");
  const isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|software/i.test([name, architecture].join(" "));
  const kind = isSoftware ? "a GPU in software" : "a GPU";
  return { on: "gpu", name: name ? `${kind}: ${name}` : kind, isSoftware };
}

/**
 * Starts both programs; on the processor where their workers have no GPU.
 * @param {Found["on"]} on
 * @param {Size} size
 * @returns {Promise<{ on: Found["on"], lanes: Lanes }>}
 */
async function open(on, { cells, steps, budget }) {
  const size = { cells, steps, budget };
  const opening = [Lane.open("rig", on, size), Lane.open("hand", on, size)];
  const [rig, hand] = await Promise.allSettled(opening);
  if (rig.status === "fulfilled" && hand.status === "fulfilled") return { on, lanes: [rig.value, hand.value] };
  let reason;
  for (const lane of [rig, hand]) {
    if (lane.status === "fulfilled") await lane.value.close();
    else reason = lane.reason;
  }
  if (!isUnsupported(reason) || on === "memory") throw reason;
  return open("memory", size);
}

/** @param {unknown} e */
function isUnsupported(e) {
  return e instanceof Error && "code" in e && e.code === "Unsupported";
}

/** Shows the programs on the page, and reads its controls. */
async function page() {
  const toggle = element("toggle");
  const choice = elementOf("cells", HTMLSelectElement);
  let running = !wantsStill();
  let chosen = "";
  const label = () => (toggle.textContent = running ? "Pause" : "Go on");
  toggle.addEventListener("click", () => {
    running = !running;
    label();
  });
  choice.addEventListener("change", () => (chosen = choice.value));
  label();
  for (;;) {
    const now = chosen;
    const size = now ? { cells: Number(now) } : {};
    await run({ ...size, isOver: () => chosen !== now, isPaused: () => !running, ...picture() });
  }
}

start(page);
