// Page chrome: bytes and times for people, elements by name, lists of facts, and how a page starts.

export const KIB = 2 ** 10;
export const MIB = 2 ** 20;

/**
 * Runs a page, unless its address says `?quiet`: then only its `run` is wanted. Failures are shown.
 * @param {() => Promise<void>} page
 */
export function start(page) {
  if (new URLSearchParams(location.search).has("quiet")) return;
  page().catch((e) => {
    const shown = made("p", `This demo stopped: ${e instanceof Error ? e.message : e}`, "panel failure");
    shown.role = "alert";
    document.querySelector("h1")?.after(shown);
  });
}

/**
 * Returns bytes as a person reads them.
 * @param {number} count
 */
export function bytes(count) {
  if (count === Infinity) return "no bound";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = count;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  const digits = value < 10 && at > 0 ? 1 : 0;
  // A number and its unit stay on one line.
  return `${value.toFixed(digits)}\u00a0${units[at]}`;
}

/**
 * Returns milliseconds as a person reads them.
 * @param {number} ms
 */
export function milliseconds(ms) {
  return `${ms < 100 ? ms.toFixed(1) : Math.round(ms).toLocaleString("en")}\u00a0ms`;
}

/**
 * Returns the element of an id, which the page has.
 * @param {string} id
 */
export function element(id) {
  return elementOf(id, HTMLElement);
}

/**
 * Returns the element of an id, which the page has and which is of that class.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 */
export function elementOf(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} "${id}"`);
  return found;
}

/**
 * Makes an element with a text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string | number} text
 */
export function made(tag, text, className = "") {
  const root = document.createElement(tag);
  root.textContent = String(text);
  root.className = className;
  return root;
}

/**
 * Makes a list of facts, by their names; answers it and what shows their values.
 * @param {string[]} names
 */
export function factsOf(names) {
  const root = document.createElement("dl");
  const cells = names.map((name) => {
    const cell = made("dd", "");
    root.append(made("dt", name), cell);
    return cell;
  });
  /** @param {(string | number)[]} values */
  const show = (values) => values.forEach((value, at) => (cells[at].textContent = String(value)));
  return { root, show };
}

/**
 * Waits until a button is pressed, which can be pressed meanwhile.
 * @param {HTMLButtonElement} button
 * @returns {Promise<void>}
 */
export function pressed(button) {
  button.disabled = false;
  return new Promise((resolve) => button.addEventListener("click", () => resolve(), { once: true }));
}

/**
 * Returns the value of a colour of the page.
 * @param {string} name
 */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** Waits for the page's next frame. */
export function nextFrame() {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

/**
 * Returns what lets a call through now and then: numbers that change too fast cannot be read.
 * @template {unknown[]} Told
 * @param {(...told: Told) => void} f
 */
export function seldom(f, everyMs = SELDOM_MS) {
  let last = -Infinity;
  /** @param {Told} told */
  return (...told) => {
    if (performance.now() - last < everyMs) return;
    last = performance.now();
    f(...told);
  };
}

/** Whether the person at the page asked for less motion. */
export function wantsStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

const SELDOM_MS = 250;
