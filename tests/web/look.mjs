// How the pages look: nothing is cut off or too faint, at both widths and in both schemes; every
// control is reached by the keyboard, has a name, and shows that it has the focus.

import { writeFile } from "node:fs/promises";
import { equal, holds, test } from "./harness.mjs";

/** Each page, and what brings it into one state worth looking at after another. */
const PAGES = {
  index: {
    path: "index.html",
    states: { start: () => undefined, end: (page) => page.waitForFunction(() => document.getElementById("made").textContent !== "0 B") },
  },
  reclamation: {
    path: "demos/01-reclamation/index.html",
    states: {
      start: (page) => page.waitForFunction(() => document.querySelectorAll("#lanes dd").length === 18),
      middle: (page) => page.waitForFunction(() => /\d/.test(document.querySelector("#plot .legend b").textContent)),
      end: (page) => page.waitForFunction(() => document.getElementById("lanes").textContent.includes("stopped"), null, { timeout: 60_000 }),
    },
  },
  budget: {
    path: "demos/02-budget/index.html",
    states: {
      start: (page) => page.waitForSelector("#steps > li"),
      middle: (page) => page.click("#next").then(() => page.waitForSelector("#steps > li:nth-child(2)")),
      end: (page) => page.click("#next").then(() => page.waitForSelector("#report:not([hidden])")),
    },
  },
  stamps: {
    path: "demos/03-stamps/index.html",
    states: {
      start: (page) => page.waitForSelector("#next:enabled"),
      middle: (page) => calls(page, [1, 2, 3]),
      end: (page) => calls(page, [4, 5, 6]),
    },
  },
  loss: {
    path: "demos/04-loss/index.html",
    states: {
      start: (page) => page.waitForSelector("#lose:enabled"),
      end: (page) => page.click("#lose").then(() => page.waitForSelector("#answers:not([hidden])")),
    },
  },
  work: {
    path: "demos/05-work/index.html",
    draws: true,
    states: {
      start: () => undefined,
      middle: (page) => page.waitForFunction(() => document.querySelectorAll("#lanes dd").length === 14),
      end: (page) => page.waitForSelector("#equal .good"),
    },
  },
};

/** Makes the next calls of the program, up to each of these counts. */
async function calls(page, counts) {
  for (const count of counts) {
    await page.click("#next:enabled");
    await page.waitForFunction((count) => document.querySelectorAll("#stamps tr").length === count + 1, count);
  }
}

for (const [name, { path, states, draws }] of Object.entries(PAGES)) {
  test(`the_page_${name}_is_whole_and_legible_and_used_by_keyboard_alone`, async ({ open, built, pictures }) => {
    const page = await open(`${built}/${path}`, { draws });
    for (const [state, ready] of Object.entries(states)) {
      await ready(page);
      await look(page, `${name}-${state}`, { pictures, isLast: state === "end" });
    }
    const wanted = await page.evaluate(controls);
    const reached = [];
    // Tab goes on from what was pressed last, and past the end to the start.
    for (let presses = 0; presses < 2 * wanted + 2; presses += 1) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(focused));
    }
    equal(reached.filter(({ isNew }) => isNew).length, wanted, "controls reached by Tab");
    equal(reached.filter(({ isWeak }) => isWeak), [], "controls without a name or an outline");
    equal([await page.locator("h1").count(), await page.evaluate(() => document.documentElement.lang)], [1, "en"]);
    await page.close();
  });
}

/** Looks at a page as it is, at each width and in each scheme. */
async function look(page, name, { pictures, isLast }) {
  for (const width of [1280, 390, 320]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(settled);
      const where = `of ${name} at ${width} in ${colorScheme}`;
      equal(await page.evaluate(cutOff), [], `what is cut off ${where}`);
      equal(await page.evaluate(faint), [], `what is too faint ${where}`);
      if (!pictures && !isLast) continue;
      const shot = await page.screenshot({ fullPage: true });
      const colours = await page.evaluate(coloursOf, shot.toString("base64"));
      holds(colours >= 8, `${where} there is a picture: ${colours} colours`);
      if (pictures) await writeFile(`${pictures}/${name}-${width}-${colorScheme}.png`, shot);
    }
    equal(await page.evaluate(cutOff, LONG), [], `what is cut off of ${name} at ${width} where figures are long`);
  }
}

/** As long as a figure of a page may get. */
const LONG = { number: "1,234,567,890", fact: "1,023\u00a0MiB" };

test("a_page_moves_less_where_that_is_asked_for", async ({ open, built }) => {
  const page = await open(`${built}/${PAGES.work.path}`, { draws: true, reducedMotion: "reduce" });
  await page.waitForFunction(() => document.querySelector("#lanes dd")?.textContent !== undefined);
  equal(await page.textContent("#toggle"), "Go on");
  const made = () => page.evaluate(() => document.getElementById("made").textContent);
  await page.waitForFunction(() => document.getElementById("made").textContent.startsWith("8 "));
  await page.evaluate(settled);
  holds((await made()).startsWith("8 "), "no frame came after the first");
  await page.press("#toggle", "Enter");
  await page.waitForFunction(() => !document.getElementById("made").textContent.startsWith("8 "));
  await page.close();
});

/**
 * Finds what is wider than its place or the window. What scrolls by itself may be. `long` is put
 * where the page shows figures, for the while.
 */
function cutOff(long) {
  const found = [];
  const before = [];
  const figures = long ? document.querySelectorAll(".figure b, .second b, .big b, .live-figure b, .legend b, dd, output") : [];
  for (const figure of figures) {
    before.push(figure.textContent);
    figure.textContent = /^[\d,]+$/.test(figure.textContent) ? long.number : long.fact;
  }
  for (const element of document.body.querySelectorAll("*")) {
    const { overflowX, display } = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest("svg, .uplot")) continue;
    const scrolls = element.closest("pre") !== null;
    const isWide = !scrolls && display !== "inline" && overflowX !== "hidden" && element.scrollWidth > element.clientWidth + 1;
    if (isWide && element.clientWidth > 0) found.push(`${element.localName} ${element.textContent.slice(0, 30)}`);
    if (!scrolls && box.right > innerWidth + 1) found.push(`${element.localName} ends at ${box.right}`);
  }
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) found.push(`the page is ${scrollWidth} wide`);
  for (const [at, text] of before.entries()) figures[at].textContent = text;
  return found;
}

/** Finds texts whose contrast to what is behind them is less than 4.5, or 3 where they are large. */
function faint() {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at);
      if (parts(backgroundColor)[3] !== 0) return backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (text === "" || !element.checkVisibility() || element.closest("script, :disabled")) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const [low, high] = [light(color), light(behind(element))].toSorted((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const size = parseFloat(fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && fontWeight >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`${text.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}

/** Counts what Tab has to reach. */
function controls() {
  const all = [...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")];
  return all.filter((of) => of.checkVisibility() && !of.disabled).length;
}

/** Tells of the element with the focus: whether it had none before, and whether it lacks a name or an outline. */
function focused() {
  const element = document.activeElement;
  if (element === document.body) return { isNew: false, isWeak: false };
  const isNew = element.dataset.reached === undefined;
  element.dataset.reached = "";
  const name = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const isWeak = name.trim() === "" || outlineStyle === "none" || parseFloat(outlineWidth) < 2;
  return { isNew, isWeak, name };
}

/** Waits until a change of the window was met. */
function settled() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))));
}

/** Counts the colours of a picture. */
async function coloursOf(png) {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
  return new Set(new Uint32Array(data.buffer)).size;
}
