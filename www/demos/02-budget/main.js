// Budget: 100 buffers within a budget for four, and what is told when a fifth has to stay.

import { init } from "rig-web";
import { KIB, bytes, element, factsOf, made, start } from "../../shared/page.js";
import { bar, draw } from "./report.js";

const BUDGET = 1024 * KIB;
const BUFFER = 256 * KIB;

/**
 * Runs the program and answers its steps and the report. `show` is called with each step and the
 * device, and the step after it begins once what `show` answers has settled; `progress` is called
 * after each buffer.
 */
export async function run({ show = () => undefined, progress = () => undefined } = {}) {
  const device = await open(await init());
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

async function open(rig) {
  try {
    return await rig.open("budget", { budget: BUDGET });
  } catch (e) {
    if (e.code !== "Unsupported") throw e;
    return rig.memory("budget", { budget: BUDGET });
  }
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

/** Shows the steps on the page, one for each press of its button. */
async function page() {
  const next = element("next");
  const pressed = () => new Promise((resolve) => next.addEventListener("click", resolve, { once: true }));
  const progress = (made, held) => {
    element("made").textContent = bytes(made);
    element("held").textContent = bytes(held);
  };
  const show = (step, device) => {
    element("absent").hidden = device.gpu !== null;
    element("steps").append(card(step));
    if (step.report) return draw(element("report"), step);
    element("told").textContent = `done: ${step.name}`;
    return pressed();
  };
  element("budget").textContent = bytes(BUDGET);
  for (;;) {
    await run({ show, progress });
    next.textContent = "Start again";
    element("told").textContent = "done: the fifth found no room, and the report below says why";
    await pressed();
    next.textContent = "Next step";
    element("told").textContent = "";
    element("steps").replaceChildren();
    element("report").hidden = true;
  }
}

/** Makes the card of a step. */
function card({ name, fromCache, fromDriver, held, liveBytes, returningBytes, cachedBytes }) {
  const root = made("li", "", "lane");
  const facts = factsOf(["served by the cache, so far", "served by the driver, so far", "live", "cached", "held"]);
  facts.show([fromCache, fromDriver, bytes(liveBytes), bytes(cachedBytes), bytes(held)]);
  const parts = { live: liveBytes, returning: returningBytes, cached: cachedBytes };
  root.append(made("h2", name), facts.root, bar(parts, BUDGET));
  return root;
}

start(page);
