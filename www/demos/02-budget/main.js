// Budget: 100 buffers within a budget for four, and what is told when a fifth has to stay.

import { RigError, init } from "rig-web";
import { opened } from "../../shared/device.js";
import { KIB, bytes, element, elementOf, factsOf, made, pressed, start } from "../../shared/page.js";
import { draw, slots, times } from "./report.js";
/** @import { Buffer, Device } from "rig-web" */
/** @import { Place, Refusal } from "./report.js" */

/**
 * What a step came to; the last of them with what its error says.
 * @typedef {ReturnType<typeof stepOf> & Partial<Refusal>} Step
 */
/**
 * How a run goes. `show` is called with each step and the device, and the step after it begins once
 * what `show` answers has settled; `progress` is called after each buffer with the bytes made and held.
 * @typedef {object} Options
 * @property {(step: Step, device: Device) => Promise<void> | void} [show]
 * @property {Progress} [progress]
 *
 * @typedef {(made: number, held: number) => void} Progress
 */

const BUDGET = 1024 * KIB;
const BUFFER = 256 * KIB;

/**
 * Runs the program and answers its steps and the report.
 * @param {Options} options
 */
export async function run({ show = () => undefined, progress = () => undefined } = {}) {
  const device = await opened(await init(), "budget", { budget: BUDGET });
  /** @type {Step[]} */
  const steps = [];
  try {
    for await (const step of program(device, progress)) {
      steps.push(step);
      await show(step, device);
    }
  } finally {
    await device.close();
  }
  return { webgpu: device.gpu !== null, steps, report: steps.at(-1)?.report };
}

/**
 * The program itself. It yields what each of its steps came to.
 * @param {Device} device
 * @param {Progress} progress
 */
async function* program(device, progress) {
  let count = 0;
  /** @param {string} label */
  const make = async (label) => {
    const buffer = await device.createBuffer(BUFFER, { label });
    await buffer.fill(count % 256);
    count += 1;
    progress(count * BUFFER, device.held);
    return buffer;
  };
  for (let i = 0; i < 100; i += 1) await make("forgotten");
  yield stepOf("100 made, none kept", device);

  const kept = [await make("weights"), await make("weights"), await make("frame"), await make("result")];
  const claim = kept[3].claimRead();
  yield stepOf("4 made, all kept", device);

  yield { ...stepOf("a fifth, which fails", device), ...(await refusal(make("fifth"))) };
  claim.release();
  for (const buffer of kept) buffer.dispose();
}

/**
 * Answers what the error says of a buffer that found no room.
 * @param {Promise<Buffer>} making
 * @returns {Promise<Partial<Refusal>>}
 */
async function refusal(making) {
  try {
    await making;
    return {};
  } catch (e) {
    if (!RigError.is(e) || !e.report) throw e;
    return { report: e.report, picture: e.picture ?? "" };
  }
}

/**
 * @param {string} name
 * @param {Device} device
 */
function stepOf(name, device) {
  const { kindCounts, liveBytes, returningBytes, cachedBytes, actualCount } = device.stats();
  const [cache, driver, cacheLater, driverLater] = kindCounts;
  const served = { fromCache: cache + cacheLater, fromDriver: driver + driverLater };
  return { name, ...served, held: device.held, liveBytes, returningBytes, cachedBytes, actualCount };
}

/** What the page says after each step, and names what it holds then. */
const TOLD = [
  { says: "next it makes 4 and keeps them", name: "forgotten", kind: "forgotten" },
  { says: "next it asks for a fifth", name: "kept", kind: "live" },
  { says: "the fifth found no room, and the report below says why", name: "kept", kind: "live" },
];

/** Shows the steps on the page, one for each press of its button. */
async function page() {
  const next = elementOf("next", HTMLButtonElement);
  /** @type {Progress} */
  const progress = (made, held) => {
    element("made").textContent = bytes(made);
    element("held").textContent = bytes(held);
  };
  const steps = element("steps");
  /** @type {Options["show"]} */
  const show = (step, device) => {
    element("absent").hidden = device.gpu !== null;
    const { says, ...held } = TOLD[steps.children.length];
    steps.append(card(step, held));
    element("told").textContent = says;
    const { report, picture } = step;
    if (!report) return pressed(next);
    draw(element("report"), { report, picture: picture ?? "" });
  };
  element("budget").textContent = bytes(BUDGET);
  for (;;) {
    await run({ show, progress });
    next.textContent = "Start again";
    await pressed(next);
    next.textContent = "Next step";
    element("told").textContent = "making 100 buffers";
    steps.replaceChildren();
    element("report").hidden = true;
  }
}

/**
 * Makes the card of a step.
 * @param {Step} step
 * @param {Omit<Place, "size">} held What the page calls the memory that is live.
 */
function card({ name, fromCache, fromDriver, liveBytes, returningBytes, cachedBytes, report }, held) {
  const root = made("li", "", "lane");
  const facts = factsOf(["buffers made, so far", "in new memory", "in used memory"]);
  facts.show([fromCache + fromDriver, fromDriver, fromCache]);
  /** @type {Place[]} */
  const places = [{ ...held, size: liveBytes }, { name: "returning", size: returningBytes, kind: "returning" }];
  const boxes = places.flatMap(({ size, ...place }) => times(Math.round(size / BUFFER), { ...place, size: BUFFER }));
  boxes.push(...times(Math.round(cachedBytes / BUFFER), { name: "free again", size: BUFFER, kind: "cached" }));
  if (report) boxes.push({ name: "fifth", size: BUFFER, kind: "asked" });
  root.append(made("h2", name), slots(boxes, BUDGET), facts.root);
  return root;
}

start(page);
