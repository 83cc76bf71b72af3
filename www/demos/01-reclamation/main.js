// Reclamation: what is made every frame and never freed, within a budget.

import { RigError, init } from "rig-web";
import { MIB, bytes, element, elementOf, factsOf, made, milliseconds, nextFrame, seldom, start } from "../../shared/page.js";
import { bytesPlot } from "../../shared/plot.js";
import { RawLane, RigLane } from "./lanes.js";
/** @import { Rig } from "rig-web" */

/**
 * The lane of rig, and where there is WebGPU those beside it.
 * @typedef {[RigLane, ...RawLane[]]} Lanes
 */
/**
 * How a run goes. `show` is called after each frame; `rate` answers the buffers of the next one, and
 * 0 rests.
 * @typedef {{ frames?: number, budget?: number, rate?: () => number, show?: (lanes: Lanes) => void }} Options
 */

/**
 * Runs the lanes for so many frames and answers what they came to.
 * @param {Options} options
 */
export async function run({ frames = Infinity, budget = 256 * MIB, rate = () => 16, show = () => undefined } = {}) {
  const rig = await init();
  const lanes = await open(rig, budget);
  for (let frame = 0; frame < frames; frame += 1) {
    const count = rate();
    if (count > 0) for (const lane of lanes) await lane.frame(count);
    show(lanes);
    await nextFrame();
  }
  const answer = lanes.map(({ name, made, held, most, stats, frames, making, collection, ended }) => {
    return { name, made, held, most, staging: stats?.stagingBytes, p99: frames.p99, making, collection, ended };
  });
  for (const lane of lanes) await lane.close();
  return answer;
}

/**
 * @param {Rig} rig
 * @param {number} budget
 * @returns {Promise<Lanes>}
 */
async function open(rig, budget) {
  try {
    const gpu = new RigLane(await rig.open("reclamation", { budget }), rig.host);
    return [gpu, new RawLane(budget, true), new RawLane(budget, false)];
  } catch (e) {
    if (!RigError.is(e) || e.code !== "Unsupported") throw e;
    return [new RigLane(rig.memory("reclamation", { budget }), rig.host)];
  }
}

const PLOT_MS = 100;

/** Shows the lanes on the page, and reads its controls. */
async function page() {
  let running = true;
  /** @type {ReturnType<typeof picture> | undefined} */
  let shown;
  const rate = elementOf("rate", HTMLInputElement);
  const toggle = element("toggle");
  const told = () => (element("rate-shown").textContent = bytes(Number(rate.value) * MIB));
  rate.addEventListener("input", told);
  toggle.addEventListener("click", () => {
    running = !running;
    toggle.textContent = running ? "Pause" : "Go on";
  });
  told();
  /** @param {Lanes} lanes */
  const show = (lanes) => {
    shown ??= picture(lanes);
    shown.figures();
    if (running) shown.plot(lanes[0].stats);
  };
  await run({ show, rate: () => (running ? Number(rate.value) : 0) });
}

/**
 * Puts lanes onto the page, and answers what shows how they are.
 * @param {Lanes} lanes
 */
function picture(lanes) {
  const [{ budget }, ...others] = lanes;
  const cards = lanes.map(card);
  element("lanes").replaceChildren(...cards.map(({ root }) => root));
  element("budget").textContent = bytes(budget);
  element("absent").hidden = others.length > 0;
  for (const id of ["others", "same"]) element(id).hidden = others.length === 0;
  const figures = seldom(() => {
    element("made").textContent = bytes(lanes[0].made);
    element("held").textContent = bytes(lanes[0].held);
    for (const { show } of cards) show();
  });
  return { figures, plot: bytesPlot(element("plot"), budget, PLOT_MS) };
}

/** How much the bar of a lane shows, in budgets: what the lane that nobody gives back stops at. */
const BUDGETS_SHOWN = 8;

/**
 * Makes the card of a lane.
 * @param {Lanes[number]} lane
 */
function card(lane) {
  const { name, says, budget } = lane;
  const root = made("section", "", "lane");
  const big = made("p", "", "big");
  const held = made("b", "");
  big.append(held, " held");
  const bar = made("div", "", "bar budgets");
  const part = made("i", "");
  bar.append(part);
  root.style.setProperty("--budget", `${100 / BUDGETS_SHOWN}%`);
  const scale = made("p", "", "scale quiet");
  scale.append(made("span", `budget ${bytes(budget)}`), " ", made("span", bytes(BUDGETS_SHOWN * budget)));
  const facts = factsOf(["made", "held at most", "frame, p99", "new memory, in all", "collection, in all", "now"]);
  root.append(made("h2", name), made("p", says, "quiet"), big, bar, scale, facts.root);
  const show = () => {
    const { frames, making, collection, ended } = lane;
    const collected = collection === null ? "not told" : milliseconds(collection);
    const times = [milliseconds(frames.p99), milliseconds(making), collected];
    facts.show([bytes(lane.made), bytes(lane.most), ...times, ended || "running"]);
    held.textContent = bytes(lane.held);
    held.className = lane.held > budget ? "bad" : "good";
    part.style.width = `${Math.min((100 * lane.held) / budget / BUDGETS_SHOWN, 100)}%`;
    part.className = lane.held > budget ? "over" : "";
  };
  return { root, show };
}

start(page);
