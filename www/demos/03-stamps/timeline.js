// The timeline of a device, drawn, and the table of stamps.

import { made } from "../../shared/page.js";

/**
 * What was so right after a call: what it answered, the timeline, and the stamps of H and X.
 * @typedef {object} Step
 * @property {string} call
 * @property {string} came
 * @property {number} submitted
 * @property {number} reached
 * @property {Stamps} h
 * @property {Stamps} x
 * @property {number} [last] The last number of H, once it was read.
 *
 * @typedef {{ write: number, use: number }} Stamps
 */
/**
 * A cell of the table.
 * @typedef {{ text: string, isNew?: boolean }} Cell
 */

/**
 * Draws each value that was submitted so far, and where the stamps of H and X are.
 * @param {HTMLElement} root
 * @param {Step[]} steps One at least.
 */
export function draw(root, steps) {
  const { reached, h, x } = steps[steps.length - 1];
  const values = [];
  for (const [at, { call, submitted }] of steps.entries()) {
    const before = at === 0 ? 0 : steps[at - 1].submitted;
    for (let value = before + 1; value <= submitted; value += 1) values.push({ value, call });
  }
  const marks = { "wrote H last": h.write, "used H last": h.use, "wrote X last": x.write, "used X last": x.use };
  root.replaceChildren(...values.map(({ value, call }) => place(value, call, value <= reached, marks)));
}

/**
 * Makes the place of a value on the timeline.
 * @param {number} value
 * @param {string} call
 * @param {boolean} isReached
 * @param {Record<string, number>} marks
 */
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

/**
 * Makes the row of a step, in which what changed since the one before stands out.
 * @param {Step} step
 * @param {Step | undefined} before
 */
export function rowOfStep({ call, h, x }, before) {
  /**
   * @param {number} value
   * @param {number} [old]
   * @returns {Cell}
   */
  const cell = (value, old) => ({ text: value ? `d:${value}` : "none", isNew: value !== (old ?? 0) });
  const ofH = { text: h.write || h.use ? `d:${Math.max(h.write, h.use)}` : "none" };
  return rowOf("td", call, [ofH, cell(x.write, before?.x.write), cell(x.use, before?.x.use)]);
}

/**
 * @param {"td" | "th"} tag
 * @param {string} first
 * @param {Cell[]} cells
 */
function rowOf(tag, first, cells) {
  const root = document.createElement("tr");
  const head = made("th", first);
  head.scope = tag === "th" ? "col" : "row";
  root.append(head);
  for (const { text, isNew } of cells) {
    const cell = made(tag, text, isNew ? "new" : text === "none" ? "quiet" : "");
    if (tag === "th") cell.setAttribute("scope", "col");
    root.append(cell);
  }
  return root;
}
