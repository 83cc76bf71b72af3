// The OutOfMemory report as a picture: what the device held, and what each round came to.

import { bytes, made } from "../../shared/page.js";
/** @import { Report, Round } from "rig-web" */

/**
 * What the error of a buffer that found no room says: its report, and the same as a text.
 * @typedef {{ report: Report, picture: string }} Refusal
 */
/**
 * A box in the picture of a budget: its name, its bytes, and the word that gives it a colour.
 * @typedef {{ name: string, size: number, kind: string }} Place
 */
/**
 * Bytes by a name.
 * @typedef {Record<string, number>} Parts
 */

/** What each round does, for people. */
const ROUNDS = [
  "Waits for work of the GPU that keeps memory, and takes back what the program let go of.",
  "Does so again, after the engine was pressed to find what nobody can reach.",
  "Does so once more, after the engine was pressed harder.",
];
/**
 * Why memory is not returned, for people.
 * @type {Record<string, string>}
 */
const REASONS = {
  live: "still reachable",
  claimed: "being read",
  exported: "read elsewhere",
  lent: "in the page's hands",
  mapped: "open to the page",
  lost: "its device is gone",
};

/**
 * Draws the report of a step into an element.
 * @param {HTMLElement} root
 * @param {Refusal} refusal
 */
export function draw(root, { report, picture }) {
  const { askedBytes, cachedBytes, returningBytes, budgetBytes, labels } = report;
  const kept = labels.flatMap(({ label, bytes: all, count }) => {
    return times(count, { name: label || "no label", size: all / count, kind: "live" });
  });
  const others = { returning: returningBytes, cached: cachedBytes };
  const places = [...kept, ...Object.entries(others).map(([name, size]) => ({ name, size, kind: name }))];
  const rounds = made("ol", "", "rounds");
  for (const [at, round] of report.rounds.entries()) rounds.append(roundOf(round, at, budgetBytes));
  root.replaceChildren(
    made("h2", `Asked for ${bytes(askedBytes)}, and found no room`),
    made("p", `The budget is ${bytes(budgetBytes)}. These buffers have it, by their labels:`, "quiet"),
    slots([...places, { name: "asked for", size: askedBytes, kind: "asked" }], budgetBytes),
    made("h2", "Three rounds looked for room"),
    rounds,
    made("p", "Room comes when one of them is let go of, or with a larger budget."),
    textOf(picture),
  );
  root.hidden = false;
}

/**
 * Returns so many of a box.
 * @param {number} count
 * @param {Place} place
 */
export function times(count, place) {
  return Array.from({ length: count }, () => place);
}

/**
 * Makes the picture of a budget, to scale: a box for each buffer, and beyond the budget what was
 * asked for.
 * @param {Place[]} places
 * @param {number} budget
 */
export function slots(places, budget) {
  const root = made("div", "", "slots");
  const filled = places.filter(({ size }) => size > 0);
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", `${filled.map(({ name, size }) => `${name} ${bytes(size)}`).join(", ")} of ${bytes(budget)}`);
  for (const { name, size, kind } of filled) {
    const box = made("i", "", kind);
    box.style.flexGrow = String(size);
    box.append(made("span", name), " ", made("span", bytes(size)));
    root.append(box);
  }
  return root;
}

/**
 * Makes a round of the list.
 * @param {Round} round
 * @param {number} at
 * @param {number} whole
 */
function roundOf({ returnedBytes, kept }, at, whole) {
  const root = document.createElement("li");
  /** @type {Parts} */
  const reasons = { live: kept.liveBytes, claimed: kept.claimedBytes, exported: kept.exportedBytes };
  Object.assign(reasons, { lent: kept.lentBytes, mapped: kept.mappedBytes, lost: kept.lostBytes });
  for (const [name, size] of kept.unreached) reasons[`unreached on ${name}`] = size;
  const found = made("p", "found ", "big");
  found.append(made("b", bytes(returnedBytes), returnedBytes > 0 ? "good" : "bad"));
  root.append(made("h3", `Round ${at + 1}`), made("p", ROUNDS[at]), found);
  root.append(bar({ returned: returnedBytes, ...reasons }, whole), legend(reasons));
  return root;
}

/**
 * Makes a bar of parts, in bytes, of a whole. What is left of it stays empty.
 * @param {Parts} parts
 * @param {number} whole
 */
function bar(parts, whole) {
  const root = made("div", "", "bar parts");
  const named = Object.entries(parts).filter(([, size]) => size > 0);
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", `${named.map(([name, size]) => `${name} ${bytes(size)}`).join(", ")} of ${bytes(whole)}`);
  for (const [name, size] of named) {
    const part = made("i", "", kindOf(name));
    part.style.width = `${(100 * size) / whole}%`;
    root.append(part);
  }
  return root;
}

/**
 * Makes lines that say why memory was not returned.
 * @param {Parts} reasons
 */
function legend(reasons) {
  const root = made("p", "", "legend");
  for (const [name, size] of Object.entries(reasons)) {
    if (size === 0) continue;
    const part = document.createElement("span");
    part.append(made("i", "", kindOf(name)), made("b", bytes(size)), ` ${name}: ${REASONS[name] ?? "still worked with"}`);
    root.append(part, " ");
  }
  return root;
}

/**
 * Returns the first word of a name, which has a colour.
 * @param {string} name
 */
function kindOf(name) {
  return name.replace(/\W.*/, "");
}

/** @param {string} picture */
function textOf(picture) {
  const details = document.createElement("details");
  const text = made("pre", picture);
  text.tabIndex = 0;
  details.append(made("summary", "The same as the error's text"), text);
  return details;
}
