// Budget: 100 buffers within a budget for four, and what is told when a fifth has to stay.

import { init } from "rig-web";
import { opened } from "../../shared/device.js";
import { KIB, bytes, element, factsOf, made, pressed, start } from "../../shared/page.js";
import { draw, slots } from "./report.js";

const BUDGET = 1024 * KIB;
const BUFFER = 256 * KIB;

/**
 * Runs the program and answers its steps and the report. `show` is called with each step and the
 * device, and the step after it begins once what `show` answers has settled; `progress` is called
 * after each buffer.
 */
export async function run({ show = () => undefined, progress = () => undefined } = {}) {
  const device = await opened(await init(), "budget", { budget: BUDGET });
  const steps = [];
  try {
    for await (const step of program(device, progress)) {
      steps.push(step);
      await show(step, device);
    }
  } finally {
    await device.close();
  }
  return { webgpu: device.gpu !== null, steps, report: steps.at(-1).report };
}

/** The program itself. It yields what each of its steps came to. */
async function* program(device, progress) {
  let count = 0;
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

  let refused;
  try {
    await make("fifth");
  } catch (e) {
    if (e.code !== "OutOfMemory") throw e;
    refused = e;
  }
  const { report, picture } = refused ?? {};
  yield { ...stepOf("a fifth, which fails", device), report, picture };
  claim.release();
  for (const buffer of kept) buffer.dispose();
}

function stepOf(name, device) {
  const { kindCounts, liveBytes, returningBytes, cachedBytes, actualCount } = device.stats();
  const [cache, driver, cacheLater, driverLater] = kindCounts;
  const served = { fromCache: cache + cacheLater, fromDriver: driver + driverLater };
  return { name, ...served, held: device.held, liveBytes, returningBytes, cachedBytes, actualCount };
}

/** What the page says after each step, and names what it holds then. */
const TOLD = [
  { says: "next it makes 4 and keeps them", holds: "forgotten", kind: "forgotten" },
  { says: "next it asks for a fifth", holds: "kept", kind: "live" },
  { says: "the fifth found no room, and the report below says why", holds: "kept", kind: "live" },
];

/** Shows the steps on the page, one for each press of its button. */
async function page() {
  const next = element("next");
  const progress = (made, held) => {
    element("made").textContent = bytes(made);
    element("held").textContent = bytes(held);
  };
  const steps = element("steps");
  const show = (step, device) => {
    element("absent").hidden = device.gpu !== null;
    const { says, holds, kind } = TOLD[steps.children.length];
    steps.append(card(step, { name: holds, kind }));
    element("told").textContent = says;
    return step.report ? draw(element("report"), step) : pressed(next);
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

/** Makes the card of a step. */
function card({ name, fromCache, fromDriver, liveBytes, returningBytes, cachedBytes, report }, held) {
  const root = made("li", "", "lane");
  const facts = factsOf(["buffers made, so far", "in new memory", "in used memory"]);
  facts.show([fromCache + fromDriver, fromDriver, fromCache]);
  const places = [{ ...held, size: liveBytes }, { name: "returning", size: returningBytes, kind: "returning" }];
  const boxes = places.flatMap(({ size, ...place }) => Array(Math.round(size / BUFFER)).fill({ ...place, size: BUFFER }));
  boxes.push(...Array(Math.round(cachedBytes / BUFFER)).fill({ name: "free again", size: BUFFER, kind: "cached" }));
  if (report) boxes.push({ name: "fifth", size: BUFFER, kind: "asked" });
  root.append(made("h2", name), slots(boxes, BUDGET), facts.root);
  return root;
}

start(page);
