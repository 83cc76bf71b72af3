import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const DEMOS = ["01-reclamation", "02-budget", "03-stamps", "04-loss"];

export default {
  root: here("."),
  base: "./",
  resolve: { alias: { "rig-web": here("../dist/rig.js") } },
  // The development server's bundles would lose the wasm beside the module.
  optimizeDeps: { exclude: ["rig-web"] },
  server: { fs: { allow: [here("..")] } },
  build: {
    outDir: here("./dist"),
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: { input: ["index.html", ...DEMOS.map((name) => `demos/${name}/index.html`)].map(here) },
  },
};
