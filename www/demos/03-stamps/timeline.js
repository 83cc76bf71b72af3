// The timeline of a device, drawn, and the table of stamps.

import { made } from "../../shared/page.js";

/** Draws each value that was submitted so far, and where the stamps of H and X are. */
export function draw(root, steps) {
  const { reached, h, x } = steps.at(-1);
  const values = [];
  for (const [at, { call, submitted }] of steps.entries()) {
    const before = at === 0 ? 0 : steps[at - 1].submitted;
    for (let value = before + 1; value <= submitted; value += 1) values.push({ value, call });
  }
  const marks = { "wrote H last": h.write, "used H last": h.use, "wrote X last": x.write, "used X last": x.use };
  root.replaceChildren(...values.map(({ value, call }) => place(value, call, value <= reached, marks)));
}

/** Makes the place of a value on the timeline. */
function place(value, call, isReached, marks) {
  const root = document.createElement("li");
  root.className = isReached ? "reached" : "";
  const here = Object.keys(marks).filter((name) => marks[name] === value);
  const state = made("span", isReached ? "reached" : "under way", "state");
  root.append(made("b", `d:${value}`), made("span", call), state, ...here.map((name) => made("em", name)));
  return root;
}

/** Makes the titles of the table. */
export function titles() {
  return rowOf("th", "call", [{ text: "H" }, { text: "X written" }, { text: "X used" }]);
}

/** Makes the row of a step, in which what changed since the one before stands out. */
export function rowOfStep({ call, h, x }, before) {
  const cell = (value, old) => ({ text: value ? `d:${value}` : "none", isNew: value !== (old ?? 0) });
  const ofH = { text: h.write || h.use ? `d:${Math.max(h.write, h.use)}` : "none" };
  return rowOf("td", call, [ofH, cell(x.write, before?.x.write), cell(x.use, before?.x.use)]);
}

function rowOf(tag, first, cells) {
  const root = document.createElement("tr");
  const head = made("th", first);
  head.scope = tag === "th" ? "col" : "row";
  root.append(head);
  for (const { text, isNew } of cells) {
    const cell = made(tag, text, isNew ? "new" : text === "none" ? "quiet" : "");
    if (tag === "th") cell.scope = "col";
    root.append(cell);
  }
  return root;
}
