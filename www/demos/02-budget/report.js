// The OutOfMemory report as a picture: what the device held, and what each round came to.

import { bytes, made } from "../../shared/page.js";

/** What each round does, for people. */
const ROUNDS = [
  "Waits for work that keeps memory, and takes back what was let go of.",
  "Does so again, and presses the engine to find handles that nobody can reach.",
  "Does so once more, and presses the engine harder.",
];

/** Draws the report of a step into an element. */
export function draw(root, { report, picture }) {
  const { askedBytes, liveBytes, returningBytes, cachedBytes, stagingBytes, budgetBytes } = report;
  const places = { live: liveBytes, returning: returningBytes, cached: cachedBytes, staging: stagingBytes };
  const whole = bar({ ...places, asked: askedBytes }, budgetBytes + askedBytes);
  whole.classList.add("asked");
  root.replaceChildren(
    made("h2", `Asked for ${bytes(askedBytes)}, and found no room`),
    made("p", `Of its budget of ${bytes(budgetBytes)} the device holds ${bytes(sum(places))}:`, "quiet"),
    whole,
    legend({ ...places, asked: askedBytes }),
  );

  const rounds = made("ol", "", "rounds");
  for (const [at, round] of report.rounds.entries()) rounds.append(roundOf(round, at, budgetBytes));
  root.append(made("h2", "What three rounds found"), rounds, made("h2", "What is live, by label"));

  for (const { label, bytes: size, count } of report.labels) {
    const name = label || "no label";
    root.append(made("p", `${name}: ${bytes(size)} in ${count} buffer${count === 1 ? "" : "s"}`, "row"));
    root.append(bar({ live: size }, budgetBytes, `${name}: ${bytes(size)} of ${bytes(budgetBytes)}`));
  }
  const details = document.createElement("details");
  const text = made("pre", picture);
  text.tabIndex = 0;
  details.append(made("summary", "The same as the error's text"), text);
  root.append(details);
  root.hidden = false;
}

/** Makes a bar of parts, in bytes, of a whole. What is left of it stays empty. */
export function bar(parts, whole, says = told(parts, whole)) {
  const root = made("div", "", "bar parts");
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", says);
  for (const [name, size] of Object.entries(parts)) {
    if (size === 0) continue;
    const part = made("i", "", name.replace(/\W.*/, ""));
    part.style.width = `${(100 * size) / whole}%`;
    root.append(part);
  }
  return root;
}

/** Makes a round of the list. */
function roundOf({ returnedBytes, waitedBytes, kept }, at, whole) {
  const root = document.createElement("li");
  const reasons = { live: kept.liveBytes, claimed: kept.claimedBytes, exported: kept.exportedBytes };
  Object.assign(reasons, { lent: kept.lentBytes, mapped: kept.mappedBytes, lost: kept.lostBytes });
  for (const [name, size] of kept.unreached) reasons[`unreached on ${name}`] = size;
  const came = `It waited for the work of ${bytes(waitedBytes)}, returned ${bytes(returnedBytes)}, and could not return:`;
  root.append(made("h3", `Round ${at + 1}`), made("p", ROUNDS[at]), made("p", came, "quiet"));
  root.append(bar({ returned: returnedBytes, ...reasons }, whole), legend(reasons));
  return root;
}

/** Makes a line that names the parts of a bar. */
function legend(parts) {
  const root = made("p", "", "legend");
  for (const [name, size] of Object.entries(parts)) {
    if (size === 0) continue;
    const part = document.createElement("span");
    part.append(made("i", "", name.replace(/\W.*/, "")), `${name} `, made("b", bytes(size)));
    root.append(part, " ");
  }
  return root;
}

function told(parts, whole) {
  const named = Object.entries(parts).filter(([, size]) => size > 0);
  return `${named.map(([name, size]) => `${name} ${bytes(size)}`).join(", ") || "nothing"} of ${bytes(whole)}`;
}

function sum(parts) {
  return Object.values(parts).reduce((all, size) => all + size, 0);
}
