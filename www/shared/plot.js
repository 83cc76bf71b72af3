// Moving plots: the last seconds of what a device holds, and of how long frames take.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, colour, made, milliseconds, seldom, wantsStill } from "./page.js";
/** @import { DeviceStats } from "rig-web" */

/**
 * A line of a plot.
 * @typedef {object} Line
 * @property {string} of The name of its colour.
 * @property {boolean} [isArea] Whether what is below it is filled.
 */
/**
 * What a plot draws.
 * @typedef {object} Look
 * @property {Line[]} lines
 * @property {number[]} marks The values that its axis names, the greatest last.
 * @property {(value: number) => string} tell How a value is written.
 */

/** How much of the past is shown. */
const SHOWN_S = 10;
/** Where less motion is wanted, it is drawn this often. */
const STILL_MS = 1000;
/** Of statistics, what adds up to the bytes held, from below; each has a colour of its name. */
const PARTS = /** @type {const} */ (["live", "returning", "cached"]);
/** Frame times shown: what fits 60, 30 and 20 frames a second. Higher ones are cut off. */
const FRAMES_MS = [60, 30, 20].map((rate) => 1000 / rate);

/**
 * Puts a plot of a device's bytes into an element: what it holds, part upon part, below its budget;
 * beside it what copies pass through, which the host holds. Answers what adds a sample: statistics
 * of a device, with the host's `stagingBytes`. It is drawn again after so many milliseconds.
 * @param {HTMLElement} parent
 * @param {number} budget
 * @param {number} everyMs
 */
export function bytesPlot(parent, budget, everyMs) {
  const legend = legendOf([
    ...PARTS.map((part) => ({ name: part, swatch: part })),
    { name: "held", after: ` of ${bytes(budget)}` },
    { name: "staging", swatch: "staging", after: ", of the host's budget" },
  ], everyMs);
  // The highest is drawn first, so that each hides what is below its own top.
  const areas = PARTS.toReversed().map((part) => ({ of: part, isArea: true }));
  const add = moving(parent, legend.root, {
    lines: [...areas, { of: "staging" }, { of: "text" }],
    marks: [0, budget / 2, budget],
    tell: bytes,
    everyMs,
  });
  /** @param {DeviceStats} stats */
  return (stats) => {
    let held = 0;
    const tops = PARTS.map((part) => (held += stats[`${part}Bytes`]));
    add([...tops.toReversed(), stats.stagingBytes, budget]);
    legend.show([...PARTS.map((part) => bytes(stats[`${part}Bytes`])), bytes(held), bytes(stats.stagingBytes)]);
  };
}

/**
 * Puts a plot of what frames take into an element, with a line at 60 a second. Answers what adds a
 * sample: milliseconds of each line. It is drawn again after so many milliseconds.
 * @param {HTMLElement} parent
 * @param {{ name: string, of: string }[]} lines
 * @param {number} everyMs
 */
export function timesPlot(parent, lines, everyMs) {
  const frame = FRAMES_MS[0];
  const legend = legendOf([...lines.map(({ name, of }) => ({ name, swatch: of })), { name: "60 a second", swatch: "text" }], everyMs);
  const add = moving(parent, legend.root, {
    lines: [...lines, { of: "text" }],
    marks: [0, ...FRAMES_MS],
    tell: milliseconds,
    everyMs,
  });
  /** @param {number[]} all */
  return (all) => {
    add([...all, frame]);
    legend.show([...all, frame].map(milliseconds));
  };
}

/**
 * Puts a plot and its legend into an element; answers what adds a sample: a value of each line.
 * @param {HTMLElement} parent
 * @param {HTMLElement} legend
 * @param {Look & { everyMs: number }} look
 */
function moving(parent, legend, { everyMs, ...look }) {
  const box = document.createElement("div");
  parent.replaceChildren(box, legend);
  /** @type {[number[], ...number[][]]} */
  const samples = [[], ...look.lines.map(() => [])];
  const colours = coloursOf();
  const plot = new uPlot(optionsOf(box, colours.of, look), samples, box);
  colours.onChange(() => plot.redraw());
  new ResizeObserver(() => plot.setSize(sizeOf(box))).observe(box);
  const draw = seldom(() => plot.setData(samples), wantsStill() ? STILL_MS : everyMs);
  const began = performance.now();
  /** @param {number[]} values */
  return (values) => {
    for (const [at, value] of [(performance.now() - began) / 1000, ...values].entries()) samples[at].push(value);
    const [seconds] = samples;
    while (seconds[seconds.length - 1] - seconds[1] > SHOWN_S) for (const kept of samples) kept.shift();
    draw();
  };
}

/**
 * @param {HTMLElement} box
 * @param {(name: string) => () => string} of
 * @param {Look} look
 * @returns {uPlot.Options}
 */
function optionsOf(box, of, { lines, marks, tell }) {
  const grid = { stroke: of("line"), width: 1 };
  const axis = { stroke: of("quiet"), grid, ticks: grid };
  const series = lines.map(({ of: name, isArea }) => {
    const line = { stroke: of(name), width: isArea ? 1 : 2, points: { show: false } };
    return isArea ? { ...line, fill: of(name) } : line;
  });
  /** @type {uPlot.Range.Function} */
  const seconds = (_, __, last) => [Math.max((last ?? 0) - SHOWN_S, 0), Math.max(last ?? 0, SHOWN_S)];
  return {
    ...sizeOf(box),
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, range: seconds }, y: { range: [0, Math.max(...marks) * 1.1] } },
    axes: [
      { ...axis, space: 40, incrs: [1, 2, 5], values: (_, at) => at.map((v) => `${v} s`) },
      { ...axis, size: 76, splits: () => marks, values: (_, at) => at.map(tell) },
    ],
    series: [{}, ...series],
  };
}

/** Makes functions of colours' names: each is as in the scheme of now. `onChange` tells of another. */
function coloursOf() {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  /** @type {Record<string, string>} */
  let known = {};
  /** @param {() => void} f */
  const onChange = (f) =>
    scheme.addEventListener("change", () => {
      known = {};
      f();
    });
  /** @param {string} name */
  const of = (name) => () => (known[name] ??= colour(name));
  return { of, onChange };
}

/** @param {HTMLElement} box */
function sizeOf(box) {
  return { width: box.clientWidth, height: 220 };
}

/**
 * Makes the line that names what is drawn; answers it and what shows how much each is now.
 * @param {{ name: string, swatch?: string, after?: string }[]} items
 * @param {number} everyMs
 */
function legendOf(items, everyMs) {
  const root = made("p", "", "legend");
  const cells = items.map(({ name, swatch, after = "" }) => {
    const value = made("b", "");
    const item = made("span", "");
    if (swatch) item.append(made("i", "", swatch));
    item.append(`${name} `, value, after);
    root.append(item, " ");
    return value;
  });
  /** @param {string[]} values */
  const show = (values) => values.forEach((value, at) => (cells[at].textContent = value));
  return { root, show: seldom(show, everyMs) };
}
