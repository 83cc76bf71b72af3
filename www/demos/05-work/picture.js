// What a run shows: two canvases with their figures, plots, and the verdict on the pictures.

import { bytes, element, factsOf, made, milliseconds, seldom } from "../../shared/page.js";
import { bytesPlot, timesPlot } from "../../shared/plot.js";
import { OTHERS } from "./rules.js";

/** Before these, a median says little. */
const FRAMES_MIN = 10;
const NAMES = { rig: "rig: new buffers, none freed", hand: "by hand: 5 buffers, reused" };
/** Texts and plots change together and seldom: in software, each change costs as much as many frames. */
const SHOWN_MS = 250;
const SHOWN_SOFTWARE_MS = 1000;
const LINES = [{ name: "rig", of: "live" }, { name: "by hand", of: "warm" }];

/** Returns what a run calls to show itself. */
export function picture() {
  const rate = rateOf();
  let cards, plot, times, facts, told;
  return {
    opened(found) {
      facts = found;
      const everyMs = found.isSoftware ? SHOWN_SOFTWARE_MS : SHOWN_MS;
      told = seldom(tell, everyMs);
      cards = found.lanes.map((lane) => card(lane));
      element("lanes").replaceChildren(...cards.map(({ root }) => root));
      plot = bytesPlot(element("plot"), found.budget, everyMs);
      times = timesPlot(element("times"), LINES, everyMs);
      element("absent").hidden = found.on === "gpu";
      element("passes").textContent = found.steps + OTHERS;
      element("fits").textContent = `what fits: ${found.cells} x ${found.cells}`;
    },
    show(lanes) {
      rate.count();
      plot(lanes[0].memory.stats);
      times(lanes.map(({ last }) => last));
      told(lanes, cards, facts, rate);
    },
    checked({ frame, rig, hand }) {
      const verdict = rig === hand ? "The pictures are equal" : "The pictures differ";
      const shown = made("b", verdict, rig === hand ? "good" : "bad");
      const after = ` after ${frame.toLocaleString("en")} frames of ${facts.cells} x ${facts.cells} cells`;
      element("equal").replaceChildren(shown, `${after}. Hash of the pixels: rig ${rig}, by hand ${hand}.`);
    },
  };
}

function tell(lanes, cards, { name, on, cells, steps }, rate) {
  const [rig, hand] = lanes;
  element("rate").textContent = rate.now();
  if (rig.took.count >= FRAMES_MIN) {
    element("rig-took").textContent = milliseconds(rig.took.median);
    element("hand-took").textContent = milliseconds(hand.took.median);
  }
  const { madeCount, madeBytes, held } = rig.memory;
  const count = madeCount.toLocaleString("en");
  element("made").textContent = `${count} buffers so far, ${bytes(madeBytes)}, of which ${bytes(held)} are held`;
  for (const [at, lane] of lanes.entries()) cards[at].show(lane);
  element("told").textContent = `${cells} x ${cells} cells, ${steps} steps a frame, on ${on === "memory" ? "the processor" : name}`;
}

/** Makes the card of a lane. */
function card({ name, canvas }) {
  const root = made("section", "", "lane");
  const facts = factsOf(["frame, median", "frame, p99", "calls, median", "buffers made", "returned", "bytes made", "bytes held"]);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `The simulation, as drawn by the program ${name === "rig" ? "on rig" : "written by hand"}`);
  // A small field is not blown up: that costs a GPU in software more than the field.
  canvas.style.maxWidth = `${SHOWN_PIXELS * canvas.width}px`;
  const view = made("div", "", "view");
  view.append(canvas, facts.root);
  root.append(made("h2", NAMES[name]), view);
  const show = ({ calls, took, memory: { madeCount, madeBytes, held, stats } }) => {
    const times = [took.median, took.p99, calls.median].map(milliseconds);
    const counts = [madeCount, stats?.returnedCount ?? 0].map((count) => count.toLocaleString("en"));
    facts.show([...times, ...counts, bytes(madeBytes), bytes(held)]);
  };
  return { root, show };
}

/** Counts the frames of the last second, once there was one. */
function rateOf() {
  const began = performance.now();
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
