import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const DEMOS = {
  "01-reclamation": "Reclamation",
  "02-budget": "Budget",
  "03-stamps": "Stamps",
  "04-loss": "Loss",
  "05-work": "Real work",
};

/** Gives every page the same head, and above it the way to the others. */
const chrome = {
  name: "chrome",
  transformIndexHtml: {
    order: "pre",
    handler(html, { path }) {
      const root = "../".repeat(path.split("/").length - 2) || "./";
      const to = (name, text) => {
        const isHere = path.includes(`/${name}/`);
        return `<a href="${root}demos/${name}/index.html"${isHere ? ' aria-current="page"' : ""}>${text}</a>`;
      };
      const links = Object.entries(DEMOS).map(([name, text]) => to(name, text));
      const nav = `<a href="${root}index.html">rig</a>${links.join("")}`;
      const meta = (attrs) => ({ tag: "meta", attrs, injectTo: "head-prepend" });
      return [
        meta({ charset: "utf-8" }),
        meta({ name: "viewport", content: "width=device-width, initial-scale=1" }),
        { tag: "link", attrs: { rel: "icon", href: "data:," }, injectTo: "head" },
        { tag: "link", attrs: { rel: "stylesheet", href: `${root}shared/page.css` }, injectTo: "head" },
        { tag: "nav", attrs: { "aria-label": "Demos" }, children: nav, injectTo: "body-prepend" },
      ];
    },
  },
};

export default {
  root: here("."),
  base: "./",
  plugins: [chrome],
  resolve: { alias: { "rig-web": here("../dist/rig.js") } },
  // The development server's bundles would lose the wasm beside the module.
  optimizeDeps: { exclude: ["rig-web"] },
  server: { fs: { allow: [here("..")] } },
  // Workers are modules here too: they import rig, and rig its wasm.
  worker: { format: "es" },
  build: {
    outDir: here("./dist"),
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: {
      input: ["index.html", ...Object.keys(DEMOS).map((name) => `demos/${name}/index.html`)].map(here),
    },
  },
};
