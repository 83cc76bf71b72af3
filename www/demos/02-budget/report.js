// The OutOfMemory report as a picture: what the device held, and what each round came to.

import { bytes } from "../../shared/page.js";

/** What each round does, for people. */
const ROUNDS = [
  "waits for work that keeps memory, and takes back what was let go of",
  "does so again, and presses the engine to find handles that nobody can reach",
  "does so once more, and presses the engine harder",
];

/** Draws the report of a step into an element. */
export function draw(root, { report, picture }) {
  const asked = `Asked for ${bytes(report.askedBytes)}, and found no room`;
  root.replaceChildren(text("h2", asked), text("p", "The device holds, of its budget:", "quiet"));
  const { liveBytes, returningBytes, cachedBytes, stagingBytes, budgetBytes } = report;
  const places = { live: liveBytes, returning: returningBytes, cached: cachedBytes, staging: stagingBytes };
  root.append(bar(places, budgetBytes), legend(places, budgetBytes));

  const rounds = document.createElement("ol");
  rounds.className = "rounds";
  for (const [at, round] of report.rounds.entries()) rounds.append(roundOf(round, ROUNDS[at], budgetBytes));
  root.append(text("h2", "What three rounds found"), rounds, text("h2", "What is live, by label"));

  for (const { label, bytes: size, count } of report.labels) {
    root.append(text("p", `${label || "no label"}: ${bytes(size)} in ${count}`, "row"));
    root.append(bar({ [label || "no label"]: size }, budgetBytes));
  }
  const details = document.createElement("details");
  details.append(text("summary", "The same as the error's text"), text("pre", picture));
  root.append(details);
  root.hidden = false;
}

/** Makes a bar of parts, in bytes, of a whole. What is left of it stays empty. */
export function bar(parts, whole) {
  const root = document.createElement("div");
  root.className = "bar parts";
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", told(parts, whole));
  for (const [name, size] of Object.entries(parts)) {
    const part = document.createElement("i");
    part.className = name.replace(/\W.*/, "");
    part.style.width = `${(100 * size) / whole}%`;
    root.append(part);
  }
  return root;
}

/** Makes a round of the list. */
function roundOf({ returnedBytes, waitedBytes, kept }, does, whole) {
  const root = document.createElement("li");
  const reasons = { live: kept.liveBytes, claimed: kept.claimedBytes, exported: kept.exportedBytes };
  Object.assign(reasons, { lent: kept.lentBytes, mapped: kept.mappedBytes, lost: kept.lostBytes });
  for (const [name, size] of kept.unreached) reasons[`unreached on ${name}`] = size;
  const parts = { returned: returnedBytes, ...reasons };
  const came = `It waited for ${bytes(waitedBytes)} and returned ${bytes(returnedBytes)}.`;
  root.append(text("span", `${does}. ${came}`), bar(parts, whole), legend(reasons, whole, "kept: "));
  return root;
}

/** Makes a line that names the parts of a bar. */
function legend(parts, whole, before = "") {
  const root = document.createElement("p");
  root.className = "legend quiet";
  root.append(before);
  for (const [name, size] of Object.entries(parts)) {
    if (size === 0) continue;
    root.append(text("i", "", name.replace(/\W.*/, "")), `${name} ${bytes(size)}`);
  }
  root.append(` of ${bytes(whole)}`);
  return root;
}

function told(parts, whole) {
  const named = Object.entries(parts).filter(([, size]) => size > 0);
  return `${named.map(([name, size]) => `${name} ${bytes(size)}`).join(", ") || "nothing"} of ${bytes(whole)}`;
}

function text(tag, content, className = "") {
  const made = document.createElement(tag);
  made.textContent = content;
  made.className = className;
  return made;
}
