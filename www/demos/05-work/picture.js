// What a run shows: two canvases with their figures, plots, and the verdict on the pictures.

import { bytes, element, factsOf, made, milliseconds, seldom } from "../../shared/page.js";
import { bytesPlot, timesPlot } from "../../shared/plot.js";
import { OTHERS } from "./rules.js";
/** @import { Lane } from "./lanes.js" */
/** @import { Lanes, Page } from "./main.js" */

/** Before these, a median says little. */
const FRAMES_MIN = 10;
const NAMES = { rig: "rig: new buffers, none freed", hand: "by hand: 5 buffers, reused" };
/** Texts and plots change together and seldom: in software, each change costs as much as many frames. */
const SHOWN_MS = 250;
const SHOWN_SOFTWARE_MS = 1000;
const LINES = [{ name: "rig", of: "live" }, { name: "by hand", of: "warm" }];

/**
 * Returns what a run calls to show itself.
 * @returns {Pick<Page, "opened" | "show" | "checked">}
 */
export function picture() {
  const rate = rateOf();
  /** @type {Pick<Page, "show" | "checked">} */
  let begun;
  return {
    opened: (found) => (begun = pictureOf(found, rate)),
    show: (lanes) => begun.show(lanes),
    checked: (hashes) => begun.checked(hashes),
  };
}

/**
 * Puts the programs that began onto the page; answers what shows how they go on.
 * @param {Parameters<Page["opened"]>[0]} found
 * @param {ReturnType<typeof rateOf>} rate
 * @returns {Pick<Page, "show" | "checked">}
 */
function pictureOf({ on, name, cells, steps, budget, isSoftware, lanes }, rate) {
  const everyMs = isSoftware ? SHOWN_SOFTWARE_MS : SHOWN_MS;
  const cards = lanes.map(card);
  element("lanes").replaceChildren(...cards.map(({ root }) => root));
  const plot = bytesPlot(element("plot"), budget, everyMs);
  const times = timesPlot(element("times"), LINES, everyMs);
  element("absent").hidden = on === "gpu";
  element("passes").textContent = String(steps + OTHERS);
  element("fits").textContent = `what fits: ${cells} x ${cells}`;
  const where = on === "memory" ? "the processor" : name;
  const told = seldom(() => {
    element("rate").textContent = String(rate.now());
    tell(lanes);
    for (const { show } of cards) show();
    element("told").textContent = `${cells} x ${cells} cells, ${steps} steps a frame, on ${where}`;
  }, everyMs);
  return {
    show([rig, hand]) {
      rate.count();
      if (rig.memory.stats) plot(rig.memory.stats);
      times([rig.last, hand.last]);
      told();
    },
    checked({ frame, rig, hand }) {
      const verdict = rig === hand ? "The pictures are equal" : "The pictures differ";
      const shown = made("b", verdict, rig === hand ? "good" : "bad");
      const after = ` after ${frame.toLocaleString("en")} frames of ${cells} x ${cells} cells`;
      element("equal").replaceChildren(shown, `${after}. Hash of the pixels: rig ${rig}, by hand ${hand}.`);
    },
  };
}

/**
 * Shows what a frame takes, and what the program on rig has made.
 * @param {Lanes} lanes
 */
function tell([rig, hand]) {
  if (rig.took.count >= FRAMES_MIN) {
    element("rig-took").textContent = milliseconds(rig.took.median);
    element("hand-took").textContent = milliseconds(hand.took.median);
  }
  const { madeCount, madeBytes, held } = rig.memory;
  const count = madeCount.toLocaleString("en");
  element("made").textContent = `${count} buffers so far, ${bytes(madeBytes)}, of which ${bytes(held)} are held`;
}

/**
 * Makes the card of a lane.
 * @param {Lane} lane
 */
function card(lane) {
  const { name, canvas } = lane;
  const root = made("section", "", "lane");
  const facts = factsOf(["frame, median", "frame, p99", "calls, median", "buffers made", "returned", "bytes made", "bytes held"]);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `The simulation, as drawn by the program ${name === "rig" ? "on rig" : "written by hand"}`);
  // A small field is not blown up: that costs a GPU in software more than the field.
  canvas.style.maxWidth = `${SHOWN_PIXELS * canvas.width}px`;
  const view = made("div", "", "view");
  view.append(canvas, facts.root);
  root.append(made("h2", NAMES[name]), view);
  const show = () => {
    const { calls, took, memory } = lane;
    const { madeCount, madeBytes, held, stats } = memory;
    const times = [took.median, took.p99, calls.median].map(milliseconds);
    const counts = [madeCount, stats?.returnedCount ?? 0].map((count) => count.toLocaleString("en"));
    facts.show([...times, ...counts, bytes(madeBytes), bytes(held)]);
  };
  return { root, show };
}

/** Counts the frames of the last second, once there was one. */
function rateOf() {
  const began = performance.now();
  /** @type {number[]} */
  const frames = [];
  return {
    count: () => frames.push(performance.now()),
    now() {
      const now = performance.now();
      while (now - frames[0] > 1000) frames.shift();
      return now - began > 1000 ? frames.length : "...";
    },
  };
}

/** How many pixels of the page a cell is at the most. */
const SHOWN_PIXELS = 4;
