// What happens to whole pages: hidden ones, frozen ones, ones that are left and come back, those with
// a module worker or under a policy, in Chromium, Firefox or WebKit, whose program the argument is.

import { launch } from "puppeteer-core";
import { inWebKit, onDisplay, open as openInWebKit } from "./driver.mjs";
import { CHROMIUM_FLAGS, FIREFOX_PREFERENCES, PAGE_MS } from "./flags.mjs";
import { equal, holds, runAll, test } from "./harness.mjs";
import { serve } from "./serve.mjs";

/** Starts, in a page, loops that make, fill and read what they never free: one for each device. */
async function forgets(hasGpu) {
  const { init } = await import("/dist/rig.js");
  const rig = await init();
  const [budget, size] = [16 * 2 ** 20, 2 ** 20];
  const devices = [rig.memory("forgets", { budget })];
  if (hasGpu) devices.push(await rig.open("gpu", { budget }));
  const world = { rounds: devices.map(() => 0), most: 0, isOver: false, lost: [] };
  const loop = async (device, at) => {
    device.addEventListener("lost", ({ detail }) => world.lost.push(detail.message));
    for (; !world.isOver; world.rounds[at] += 1) {
      const x = await device.createBuffer(size);
      const wanted = world.rounds[at] & 255;
      await x.fill(wanted);
      const [byte] = await x.toArray(Uint8Array, { offset: size - 1 });
      if (byte !== wanted) throw new Error(`round ${world.rounds[at]} read ${byte}`);
      world.most = Math.max(world.most, device.held);
    }
    await device.close();
    return "well";
  };
  globalThis.world = world;
  globalThis.heard = [];
  const failed = (e) => (world.failure = String(e));
  globalThis.ended = Promise.all(devices.map((device, at) => loop(device, at).catch(failed)));
}

/** Ends the loops and looks at what came of them. */
async function endsWell(page, gpu) {
  const end = await page.evaluate(() => {
    world.isOver = true;
    return ended.then((how) => ({ how, lost: world.lost, most: world.most }));
  });
  const count = gpu ? 2 : 1;
  equal([end.how, end.lost.length], [Array(count).fill("well"), count], JSON.stringify(end.lost));
  holds(end.most <= 16 * 2 ** 20, `${end.most} bytes were held`);
}

/** Asks a page for something that can be told as text, again and again until it is as wanted. */
async function becomes(page, f, isWanted, what) {
  let found;
  // Polled from here: a hidden page draws no frames. In between, a page may have no context.
  const ask = async () => {
    found = await page.evaluate(f).catch(() => undefined);
  };
  for (const began = performance.now(); !isWanted(found); await ask()) {
    if (performance.now() - began > 120_000) throw new Error(`it never held that ${what}: ${JSON.stringify(found)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return found;
}

/** Waits until each loop has gone on for so many rounds. */
async function goesOn(page, rounds) {
  const from = await page.evaluate(() => world.rounds);
  const isFurther = (now) => now?.rounds.every((count, at) => count > from[at] + rounds);
  await becomes(page, () => world, isFurther, `${rounds} rounds come after ${from}`);
}

/** Opens a page with the loops. */
async function forgetful({ open, url, gpu }) {
  const page = await open(`${url}/www/index.html`);
  await page.evaluate(forgets, gpu);
  await goesOn(page, 3);
  return page;
}

/** Opens a page with the loops, and hides it behind another. */
async function hidden(world) {
  const page = await forgetful(world);
  const other = await world.open("about:blank");
  await other.raw.bringToFront();
  await becomes(page, () => document.hidden, (isHidden) => isHidden, "it is hidden");
  return { page, other };
}

test(
  "s13_9_a_hidden_page_goes_on_within_its_budget",
  async (world) => {
    const { page, other } = await hidden(world);
    // Many times its budget.
    await goesOn(page, 100);
    equal(await page.evaluate(() => document.visibilityState), "hidden");
    await page.raw.bringToFront();
    await goesOn(page, 3);
    await endsWell(page, world.gpu);
    await other.close();
    await page.close();
  },
  { needs: "hides" },
);

test(
  "s13_13_a_frozen_page_goes_on_where_it_was_when_it_resumes",
  async (world) => {
    const { page, other } = await hidden(world);
    const session = await page.raw.createCDPSession();
    const look = async (expression) => (await session.send("Runtime.evaluate", { expression })).result.value;
    await page.evaluate(() => {
      globalThis.ticks = 0;
      setInterval(() => (ticks += 1), 10);
      for (const name of ["freeze", "resume"]) document.addEventListener(name, () => heard.push(name));
    });
    for (const ms of [50, 1500]) {
      await session.send("Page.setWebLifecycleState", { state: "frozen" });
      while ((await look("heard.at(-1)")) !== "freeze");
      const frozen = await look("ticks");
      await new Promise((resolve) => setTimeout(resolve, ms));
      equal(await look("ticks"), frozen, "no timer runs in a frozen page");
      await session.send("Page.setWebLifecycleState", { state: "active" });
      await goesOn(page, 10);
    }
    equal(await page.evaluate(() => heard), ["freeze", "resume", "freeze", "resume"]);
    await endsWell(page, world.gpu);
    await other.close();
    await page.close();
  },
  { needs: "freezes" },
);

test("s13_13_a_page_that_was_left_comes_back_as_it_was_or_starts_anew", async (world) => {
  const page = await forgetful(world);
  for (let times = 0; times < 3; times += 1) {
    await page.evaluate(() => {
      globalThis.heard = [];
      for (const name of ["pagehide", "pageshow"]) {
        addEventListener(name, ({ persisted }) => heard.push([name, persisted]), { once: true });
      }
    });
    await page.goTo(`${world.url}/tests/web/policy.html`);
    await becomes(page, () => location.pathname, (path) => path === "/tests/web/policy.html", "it was left");
    await page.goBack();
    const look = () => ({ path: location.pathname, heard: globalThis.heard ?? null });
    const isBack = (now) => now?.path === "/www/index.html" && now.heard?.length !== 1;
    const { heard } = await becomes(page, look, isBack, "it came back");
    // An engine may let go of what it keeps.
    if (heard) equal(heard, [["pagehide", true], ["pageshow", true]]);
    else await page.evaluate(forgets, world.gpu);
    await goesOn(page, 20);
  }
  await endsWell(page, world.gpu);
  await page.close();
});

test("s13_13_a_module_worker_has_an_instance_of_its_own", async ({ open, url, gpu }) => {
  const page = await open(`${url}/tests/web/policy.html`);
  const told = await page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/tests/web/worker.mjs", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
      }),
  );
  equal(told, [gpu ? "web" : "memory", 3, 3, 3, 3, 3, 3, 3]);
  await page.close();
});

for (const [policy, wanted] of [["'self' 'wasm-unsafe-eval'", "ready"], ["'self'", "wasm-unsafe-eval"]]) {
  test(`s13_13_a_page_whose_policy_is_script_src_${policy.replace(/\W+/g, "_")}`, async ({ open }) => {
    const server = await serve({ "content-security-policy": `script-src ${policy}` });
    const page = await open(`${server.url}/tests/web/policy.html`);
    const title = await becomes(page, () => document.title, Boolean, "it is told");
    holds(title.includes(wanted), title);
    await page.close();
    server.stop();
  });
}

/** How a page of Chromium is left, and comes back. */
const byProtocol = (raw) => ({ goTo: (url) => raw.goto(url), goBack: () => raw.goBack() });

/** The same in Firefox, by the page itself: its protocol waits for a load that never comes. */
const byItself = (raw) => ({
  goTo: (url) => raw.evaluate((url) => void setTimeout(() => (location.href = url)), url),
  goBack: () => raw.evaluate(() => void setTimeout(() => history.back())),
});

/** Runs something with what opens pages of Chromium or Firefox. */
async function withBrowser(options, ways, f) {
  const browser = await launch({ executablePath: program, ...options });
  const open = async (url) => {
    const raw = await browser.newPage();
    await raw.goto(url);
    return { raw, evaluate: (f, arg) => raw.evaluate(f, arg), close: () => raw.close(), ...ways(raw) };
  };
  try {
    return await f(open);
  } finally {
    await browser.close();
  }
}

const program = process.argv[2];
const server = await serve();
const run = (world) => runAll({ url: server.url, ...world }, console.log, process.argv[3]);
const runs = {
  // A browser of tests keeps hidden pages awake, and none that was left, unless it is told not to.
  chromium: () => {
    const ignoreDefaultArgs = [
      "--disable-backgrounding-occluded-windows",
      "--disable-renderer-backgrounding",
      "--disable-background-timer-throttling",
      "--disable-back-forward-cache",
    ];
    const options = { args: CHROMIUM_FLAGS, ignoreDefaultArgs };
    return withBrowser(options, byProtocol, (open) => run({ open, gpu: true, hides: true, freezes: true }));
  },
  firefox: () => {
    const options = { browser: "firefox", extraPrefsFirefox: FIREFOX_PREFERENCES };
    return withBrowser(options, byItself, (open) => run({ open, gpu: true, hides: true }));
  },
  webkit: () =>
    onDisplay((display) =>
      inWebKit({ program, display, ms: PAGE_MS }, (session) => run({ open: (url) => openInWebKit(session, url), gpu: false })),
    ),
};
try {
  const engine = Object.keys(runs).find((name) => program.toLowerCase().includes(name)) ?? "chromium";
  const { failed, passed } = await runs[engine]();
  if (failed > 0 || passed === 0) process.exitCode = 1;
} finally {
  server.stop();
}
