// Reclamation: what is made every frame and never freed, within a budget.

import { init } from "rig-web";
import { MIB, bytes, element, factsOf, made, milliseconds, nextFrame, seldom, start } from "../../shared/page.js";
import { bytesPlot } from "../../shared/plot.js";
import { RawLane, RigLane } from "./lanes.js";

/**
 * Runs the lanes for so many frames and answers what they came to. `show` is called after each
 * frame; `rate` answers the buffers of the next one, and 0 rests.
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

async function open(rig, budget) {
  try {
    const gpu = new RigLane(await rig.open("reclamation", { budget }), rig.host);
    return [gpu, new RawLane(budget, true), new RawLane(budget, false)];
  } catch (e) {
    if (e.code !== "Unsupported") throw e;
    return [new RigLane(rig.memory("reclamation", { budget }), rig.host)];
  }
}

const PLOT_MS = 100;

/** Shows the lanes on the page, and reads its controls. */
async function page() {
  let running = true;
  let cards, plot;
  const rate = element("rate");
  const toggle = element("toggle");
  const told = () => (element("rate-shown").value = bytes(rate.value * MIB));
  rate.addEventListener("input", told);
  toggle.addEventListener("click", () => {
    running = !running;
    toggle.textContent = running ? "Pause" : "Go on";
  });
  told();
  const figures = seldom((lanes) => {
    element("made").textContent = bytes(lanes[0].made);
    element("held").textContent = bytes(lanes[0].held);
    for (const [at, lane] of lanes.entries()) cards[at].show(lane);
  });
  const show = (lanes) => {
    if (!cards) {
      cards = lanes.map(card);
      element("lanes").replaceChildren(...cards.map(({ root }) => root));
      plot = bytesPlot(element("plot"), lanes[0].budget, PLOT_MS);
      element("budget").textContent = bytes(lanes[0].budget);
      element("absent").hidden = lanes.length > 1;
      for (const id of ["others", "same"]) element(id).hidden = lanes.length === 1;
    }
    figures(lanes);
    if (running) plot(lanes[0].stats);
  };
  await run({ show, rate: () => (running ? Number(rate.value) : 0) });
}

/** How much the bar of a lane shows, in budgets: what the lane that nobody gives back stops at. */
const BUDGETS_SHOWN = 8;
/** What each lane does with its buffers. */
const SAYS = {
  rig: "forgets them, and rig takes them back",
  "raw, with destroy()": "destroys each by hand",
  raw: "forgets them, and waits for the engine",
};

/** Makes the card of a lane. */
function card({ name, budget }) {
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
  root.append(made("h2", name), made("p", SAYS[name], "quiet"), big, bar, scale, facts.root);
  const show = (lane) => {
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
