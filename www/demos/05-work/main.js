// Real work: a simulation that makes every buffer anew, beside the same by hand with buffers reused.

import { MIB, element, nextFrame, start, wantsStill } from "../../shared/page.js";
import { Fit } from "./fit.js";
import { Lane } from "./lanes.js";
import { picture } from "./picture.js";
import { brushOf } from "./rules.js";

/** Pictures are compared after this many frames, and after each of so many. */
const FIRST_CHECK = 5;
const CHECK_FRAMES = 60;
/** What a program has made is asked for after each of so many. */
const TOLD_FRAMES = 6;

/**
 * Runs both programs for so many frames, in turns, and answers what they came to. Without `cells`
 * it finds how many cells and steps fit into a frame of the page; frames at other sizes do not
 * count. `opened` is called with the programs whenever they begin, `show` after each frame, and
 * `checked` with the hashes of two pictures, now and then and at the end. `isOver` ends it early,
 * and `isPaused` lets it rest after its first.
 */
export async function run({ frames = Infinity, cells, steps = 8, budget, ...page } = {}) {
  const found = await adapter();
  const fit = cells ? null : new Fit();
  for (;;) {
    const size = fit ? fit.size : { cells, steps };
    const bound = budget ?? budgetOf(size.cells);
    const answer = await work({ ...found, ...size, budget: bound }, { ...STILL, ...page, frames, fit });
    if (answer) return answer;
  }
}

/** What a run without a page has to show, and when it ends or rests: never. */
const STILL = {
  isOver: () => false,
  isPaused: () => false,
  opened: () => undefined,
  show: () => undefined,
  checked: () => undefined,
};

/** Runs both programs at one size; answers nothing if they have to begin again at another. */
async function work(found, { frames, fit, isOver, isPaused, opened, show, checked }) {
  const { on, lanes } = await open(found.on, found);
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
        hashes.push({ frame, rig, hand });
        checked(hashes.at(-1));
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

/** Room for what more than a dozen frames make, where that is neither next to nothing nor too much. */
function budgetOf(cells) {
  return Math.min(Math.max(1024 * cells ** 2, 16 * MIB), 512 * MIB);
}

/** Finds the GPU of the page, and its name. */
async function adapter() {
  const found = await navigator.gpu?.requestAdapter();
  if (!found) return { on: "memory", name: "the processor" };
  const { vendor, architecture, device, description, isFallbackAdapter } = found.info;
  const name = description || [vendor, architecture, device].filter(Boolean).join(" ");
  const isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|software/i.test([name, architecture].join(" "));
  const kind = isSoftware ? "a GPU in software" : "a GPU";
  return { on: "gpu", name: name ? `${kind}: ${name}` : kind, isSoftware };
}

/** Starts both programs; on the processor where their workers have no GPU. */
async function open(on, { cells, steps, budget }) {
  const opening = ["rig", "hand"].map((name) => Lane.open(name, on, { cells, steps, budget }));
  const opened = await Promise.allSettled(opening);
  const failed = opened.find(({ status }) => status === "rejected");
  const lanes = opened.flatMap(({ value }) => value ?? []);
  if (!failed) return { on, lanes };
  await Promise.all(lanes.map((lane) => lane.close()));
  if (failed.reason.code !== "Unsupported" || on === "memory") throw failed.reason;
  return open("memory", { cells, steps, budget });
}

/** Shows the programs on the page, and reads its controls. */
async function page() {
  const toggle = element("toggle");
  const choice = element("cells");
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
    const cells = Number(now) || undefined;
    await run({ cells, isOver: () => chosen !== now, isPaused: () => !running, ...picture() });
  }
}

start(page);
