// How the browsers of the tests are started.

/** Chromium with WebGPU in software. */
export const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan",
];
