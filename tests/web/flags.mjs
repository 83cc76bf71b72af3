// How the browsers of the tests are started, and with which pages.

/** Chromium with WebGPU in software. */
export const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan",
];

/**
 * What it needs besides to show a canvas that WebGPU draws: else its GPU process ends. Texts and
 * plots are drawn by the processor, as in a browser without a GPU.
 */
export const CANVAS_FLAGS = [
  "--use-vulkan=swiftshader",
  "--use-angle=swiftshader",
  "--disable-gpu-rasterization",
  "--disable-accelerated-2d-canvas",
];

/** An argument after the browser is part of the names of the tests that run; variables are a walk's. */
const given = Object.entries({ only: process.argv[3], ...walk(process.env) });
const only = given.filter(([, value]) => value).map(([name, value]) => `&${name}=${value}`).join("");
/** The tests as they are, and those that need an exact collection. */
export const PAGE = `/tests/web/page.html?${only}`;
export const EXACT_PAGE = `/tests/web/page.html?gc${only}`;
/** The most time that a page takes, in milliseconds. */
export const PAGE_MS = 500_000;

/** What a random program is asked for, by the names that a page has for it. */
function walk({ RIG_SEED: seed, RIG_FIRST: first, RIG_STEPS: steps, RIG_WALKS: walks }) {
  return { seed, first, steps, walks };
}

/** Whether a page's tests went well; all has to run where there is a GPU. */
export function isWell({ failed, passed, skipped }, hasGpu = true) {
  return failed === 0 && passed > 0 && !(hasGpu && skipped > 0);
}

/** Firefox with WebGPU on the software Vulkan driver. */
export const FIREFOX_PREFERENCES = {
  "dom.webgpu.enabled": true,
  "gfx.webgpu.ignore-blocklist": true,
  "gfx.webgpu.force-enabled": true,
  // An exact collection; what rig does is the same with and without it.
  "dom.testing.testutils.enabled": true,
};
