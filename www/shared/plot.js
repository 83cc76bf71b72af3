// A moving plot of a device's bytes: what it holds, part upon part, below its budget; beside it what
// copies pass through, which the host holds.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, colour, made, seldom, wantsStill } from "./page.js";

const SAMPLES = 300;
/** Of statistics, what adds up to the bytes held, from below; each has a colour of its name. */
const PARTS = ["live", "returning", "cached"];
const STILL_MS = 1000;

/** Puts a plot into an element; answers what adds a sample: statistics of a device, with the host's `stagingBytes`. */
export function plotOf(parent, budget) {
  const legend = legendOf(budget);
  const box = document.createElement("div");
  parent.replaceChildren(box, legend.root);
  const samples = [[], ...PARTS.map(() => []), [], []];
  const plot = new uPlot(optionsOf(budget, box), samples, box);
  new ResizeObserver(() => plot.setSize(sizeOf(box))).observe(box);
  const began = performance.now();
  let drawn = 0;
  return (stats) => {
    const now = performance.now();
    let sum = 0;
    const row = PARTS.map((part) => (sum += stats[`${part}Bytes`]));
    const values = [(now - began) / 1000, ...row.toReversed(), stats.stagingBytes, budget];
    for (const [at, value] of values.entries()) {
      samples[at].push(value);
      if (samples[at].length > SAMPLES) samples[at].shift();
    }
    if (now - drawn < (wantsStill() ? STILL_MS : 0)) return;
    drawn = now;
    plot.setData(samples);
    legend.show(stats, sum);
  };
}

function optionsOf(budget, box) {
  const of = colours();
  const grid = { stroke: of("line"), width: 1 };
  const axis = { stroke: of("quiet"), grid, ticks: grid };
  // The highest is drawn first, so that each hides what is below its own top.
  const areas = PARTS.toReversed().map((part) => ({ fill: of(part), stroke: of(part), width: 1 }));
  const lines = [...areas, ...["staging", "text"].map((name) => ({ stroke: of(name), width: 2 }))];
  return {
    ...sizeOf(box),
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, y: { range: [0, budget * 1.1] } },
    axes: [
      { ...axis, space: 70, values: (_, at) => at.map((v) => `${Number(v.toFixed(1))} s`) },
      { ...axis, size: 76, splits: () => [0, budget / 2, budget], values: (_, at) => at.map(bytes) },
    ],
    series: [{}, ...lines.map((line) => ({ ...line, points: { show: false } }))],
  };
}

/** Answers what makes a function of a colour's name: the colour as it is in the scheme of now. */
function colours() {
  let known = {};
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (known = {}));
  return (name) => () => (known[name] ??= colour(name));
}

function sizeOf(box) {
  return { width: box.clientWidth, height: 220 };
}

/** Makes the line that names the parts and says how much each is now. */
function legendOf(budget) {
  const root = made("p", "", "legend");
  const item = (name, className, after = "") => {
    const shown = made("b", "");
    const part = made("span", "");
    if (className) part.append(made("i", "", className));
    part.append(`${name} `, shown, after);
    root.append(part, " ");
    return shown;
  };
  const parts = PARTS.map((part) => item(part, part));
  const whole = item("held", "", ` of ${bytes(budget)}`);
  const staging = item("staging", "staging", ", of the host's budget");
  const show = (stats, held) => {
    for (const [at, part] of PARTS.entries()) parts[at].textContent = bytes(stats[`${part}Bytes`]);
    whole.textContent = bytes(held);
    staging.textContent = bytes(stats.stagingBytes);
  };
  return { root, show: seldom(show) };
}
