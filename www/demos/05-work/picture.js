// What a run shows: two canvases with their figures, the plot, and the verdict on the pictures.

import { bytes, element, factsOf, made, milliseconds, seldom } from "../../shared/page.js";
import { plotOf } from "../../shared/plot.js";

/** Before these, a median says little. */
const FRAMES_MIN = 10;
const NAMES = { rig: "rig: new buffers, none freed", hand: "by hand: 5 buffers, reused" };

/** Returns what a run calls to show itself. */
export function picture() {
  const rate = rateOf();
  let cards, plot, facts;
  return {
    opened(found) {
      facts = found;
      cards = found.lanes.map(card);
      element("lanes").replaceChildren(...cards.map(({ root }) => root));
      plot = plotOf(element("plot"), found.budget);
      const isGpu = found.on === "gpu";
      element("absent").hidden = isGpu;
      element("choice").hidden = !isGpu;
      element("cells").value = found.cells;
    },
    show(lanes) {
      rate.count();
      plot(lanes[0].memory.stats);
      tell(lanes, cards, facts, rate);
    },
    checked({ frame, rig, hand }) {
      const verdict = rig === hand ? "The pictures are equal" : "The pictures differ";
      const shown = made("b", verdict, rig === hand ? "good" : "bad");
      element("equal").replaceChildren(shown, ` after ${frame} frames. Hash of the pixels: rig ${rig}, by hand ${hand}.`);
    },
  };
}

const tell = seldom((lanes, cards, { name, isSlow, on }, rate) => {
  const [rig, hand] = lanes;
  if (rig.took.count >= FRAMES_MIN) {
    element("rig-took").textContent = milliseconds(rig.took.median);
    element("hand-took").textContent = milliseconds(hand.took.median);
  }
  const { madeCount, madeBytes, held } = rig.memory;
  const count = madeCount.toLocaleString("en");
  element("made").textContent = `${count} buffers so far, ${bytes(madeBytes)}, of which ${bytes(held)} are held`;
  for (const [at, lane] of lanes.entries()) cards[at].show(lane);
  const where = on === "memory" ? "the processor" : isSlow ? `a GPU in software: ${name}` : name;
  element("told").textContent = `${rate.now()} frames a second on ${where}`;
});

/** Makes the card of a lane. */
function card({ name, canvas }) {
  const root = made("section", "", "lane");
  const facts = factsOf(["frame, median", "frame, p99", "calls, median", "buffers made", "of them returned", "bytes made", "bytes held"]);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `The simulation, as drawn by the program ${name === "rig" ? "on rig" : "written by hand"}`);
  root.append(made("h2", NAMES[name]), canvas, facts.root);
  const show = ({ calls, took, memory: { madeCount, madeBytes, held, stats } }) => {
    const times = [took.median, took.p99, calls.median].map(milliseconds);
    const counts = [madeCount, stats?.returnedCount ?? 0].map((count) => count.toLocaleString("en"));
    facts.show([...times, ...counts, bytes(madeBytes), bytes(held)]);
  };
  return { root, show };
}

/** Counts the frames of the last second. */
function rateOf() {
  const frames = [];
  return {
    count: () => frames.push(performance.now()),
    now() {
      while (performance.now() - frames[0] > 1000) frames.shift();
      return frames.length;
    },
  };
}
