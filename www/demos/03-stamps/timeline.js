// The timeline of a device, drawn, and rows of the table of stamps.

import { made } from "../../shared/page.js";

/** Draws each value that was submitted so far, and where the stamps of H and X are. */
export function draw(root, steps) {
  const { reached, h, x } = steps.at(-1);
  const values = [];
  for (const [at, { call, submitted }] of steps.entries()) {
    const before = at === 0 ? 0 : steps[at - 1].submitted;
    for (let value = before + 1; value <= submitted; value += 1) values.push({ value, call });
  }
  const marks = { "H write": h.write, "H use": h.use, "X write": x.write, "X use": x.use };
  root.replaceChildren(...values.map(({ value, call }) => place(value, call, value <= reached, marks)));
}

/** Makes the place of a value on the timeline. */
function place(value, call, isReached, marks) {
  const root = document.createElement("li");
  root.className = isReached ? "reached" : "";
  const here = Object.keys(marks).filter((name) => marks[name] === value);
  const state = isReached ? "reached" : "under way";
  root.append(made("b", `d:${value}`), made("span", `${call}, ${state}`), ...here.map((name) => made("em", name)));
  return root;
}

/** Makes a row of the table: a call, then texts or stamps. */
export function row(tag, [first, ...others]) {
  const root = document.createElement("tr");
  const head = made("th", first);
  head.scope = tag === "th" ? "col" : "row";
  root.append(head);
  for (const other of others) {
    const cell = made(tag, typeof other === "string" ? other : "");
    if (tag === "th") cell.scope = "col";
    else cell.append(...stampsOf(other));
    root.append(cell);
  }
  return root;
}

/** Makes the texts of a record of stamps. */
function stampsOf({ write, use }) {
  const told = Object.entries({ write, use }).filter(([, value]) => value > 0);
  if (told.length === 0) return [made("span", "none")];
  return told.flatMap(([name, value]) => [made("span", `${name} d:${value}`), " "]);
}
