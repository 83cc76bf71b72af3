// Reclamation: what is made every frame and never freed, within a budget.

import { init } from "rig-web";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, colour, element } from "../../shared/page.js";
import { RawLane, RigLane } from "./lanes.js";

const MIB = 2 ** 20;
const SAMPLES = 240;

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
  const answer = lanes.map(({ name, made, held, ended }) => ({ name, made, held, ended }));
  for (const lane of lanes) await lane.close();
  return answer;
}

async function open(rig, budget) {
  try {
    const gpu = new RigLane(await rig.open("reclamation", { budget }));
    return [gpu, new RawLane(budget, true), new RawLane(budget, false)];
  } catch (e) {
    if (e.code !== "Unsupported") throw e;
    return [new RigLane(rig.memory("reclamation", { budget }))];
  }
}

function nextFrame() {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

/** Shows the lanes on the page, and reads its controls. */
function page() {
  let running = true;
  let plot;
  const cards = [];
  const rate = element("rate");
  const toggle = element("toggle");
  const told = () => (element("rate-shown").value = bytes(rate.value * MIB));
  rate.addEventListener("input", told);
  toggle.addEventListener("click", () => {
    running = !running;
    toggle.textContent = running ? "Pause" : "Go on";
  });
  told();
  const show = (lanes) => {
    if (cards.length === 0) {
      cards.push(...lanes.map(card));
      plot = plotOf(element("plot"), lanes[0].budget);
      element("budget").textContent = bytes(lanes[0].budget);
      element("absent").hidden = lanes.length > 1;
    }
    element("made").textContent = bytes(lanes[0].made);
    element("held").textContent = bytes(lanes[0].held);
    for (const [at, lane] of lanes.entries()) cards[at](lane);
    if (running) plot(lanes[0].device.stats());
  };
  return run({ show, rate: () => (running ? Number(rate.value) : 0) });
}

/** Makes the card of a lane; answers what refreshes it. */
function card({ name }) {
  const root = document.createElement("section");
  root.className = "lane";
  const facts = ["made", "held", "frame, p99", "creating, in all", "now"];
  const rows = facts.map((fact) => `<dt>${fact}</dt><dd></dd>`).join("");
  root.innerHTML = `<h2></h2><dl>${rows}</dl><div class="bar"><i></i></div>`;
  root.querySelector("h2").textContent = name;
  element("lanes").append(root);
  const cells = [...root.querySelectorAll("dd")];
  const bar = root.querySelector("i");
  return (lane) => {
    const { held } = lane;
    const shown = [
      bytes(lane.made),
      bytes(held),
      `${lane.p99.toFixed(1)} ms`,
      `${Math.round(lane.creating)} ms`,
      lane.ended || "running",
    ];
    for (const [at, text] of shown.entries()) cells[at].textContent = text;
    bar.style.width = `${Math.min((100 * held) / lane.budget, 100)}%`;
    bar.className = held > lane.budget ? "over" : "";
  };
}

/** Makes the plot of a device's bytes; answers what adds a sample. */
function plotOf(parent, budget) {
  const line = (label, name, fill) => ({ label, stroke: colour(name), fill, width: 2, value: (_, v) => (v == null ? "" : bytes(v)) });
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const size = () => ({ width: parent.clientWidth - 32, height: 240 });
  const plot = new uPlot(
    {
      ...size(),
      scales: { x: { time: false }, y: { range: [0, budget * 1.1] } },
      axes: [
        { ...axis, values: (_, at) => at.map((v) => `${v.toFixed(1)} s`) },
        { ...axis, size: 76, splits: () => [0, budget / 2, budget], values: (_, at) => at.map((v) => bytes(v)) },
      ],
      series: [
        { label: "time", value: (_, v) => (v == null ? "" : `${v.toFixed(1)} s`) },
        line("live", "accent"),
        line("returning", "warm"),
        line("cached", "quiet"),
        line("budget", "text"),
      ],
    },
    [[], [], [], [], []],
    parent,
  );
  new ResizeObserver(() => plot.setSize(size())).observe(parent);
  const began = performance.now();
  const samples = [[], [], [], [], []];
  return (stats) => {
    const { liveBytes, returningBytes, cachedBytes } = stats;
    const row = [(performance.now() - began) / 1000, liveBytes, returningBytes, cachedBytes, budget];
    for (const [at, value] of row.entries()) {
      samples[at].push(value);
      if (samples[at].length > SAMPLES) samples[at].shift();
    }
    plot.setData(samples);
  };
}

if (!new URLSearchParams(location.search).has("quiet")) {
  page().catch((e) => {
    element("figure").textContent = String(e.message ?? e);
  });
}
