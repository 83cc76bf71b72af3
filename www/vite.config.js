import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** Each demo: its name, and the files of its code that its page shows. */
const DEMOS = {
  "01-reclamation": { name: "Reclamation", code: ["lanes.js"] },
  "02-budget": { name: "Budget", code: ["main.js"] },
  "03-stamps": { name: "Stamps", code: ["main.js"] },
  "04-loss": { name: "Loss", code: ["main.js", "calls.js"] },
  "05-work": { name: "Real work", code: ["rig.js", "hand.js"] },
};

/** Gives every page the same head, above it the way to the others, and below it its code. */
const chrome = {
  name: "chrome",
  transformIndexHtml: {
    order: "pre",
    handler(html, { path }) {
      const root = "../".repeat(path.split("/").length - 2) || "./";
      const here = Object.keys(DEMOS).find((folder) => path.includes(`/${folder}/`));
      const links = Object.entries(DEMOS).map(([folder, { name }]) => {
        const current = folder === here ? ' aria-current="page"' : "";
        return `<a href="${root}demos/${folder}/index.html"${current}>${name}</a>`;
      });
      const children = `<a href="${root}index.html">rig</a>${links.join("")}`;
      const meta = (attrs) => ({ tag: "meta", attrs, injectTo: "head-prepend" });
      const tags = [
        meta({ charset: "utf-8" }),
        meta({ name: "viewport", content: "width=device-width, initial-scale=1" }),
        { tag: "link", attrs: { rel: "icon", href: "data:," }, injectTo: "head" },
        { tag: "link", attrs: { rel: "stylesheet", href: `${root}shared/page.css` }, injectTo: "head" },
        { tag: "nav", attrs: { "aria-label": "Demos" }, children, injectTo: "body-prepend" },
      ];
      const code = here ? DEMOS[here].code.map((file) => codeOf(here, file)).join("") : "";
      return { html: html.replace("</main>", () => `${code}</main>`), tags };
    },
  },
};

/** Returns a file of a demo as a part of its page. */
function codeOf(folder, file) {
  const text = readFileSync(here(`demos/${folder}/${file}`), "utf8");
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const name = `demos/${folder}/${file}`;
  return `<details><summary>Its code: ${name}</summary><pre tabindex="0" aria-label="${name}"><code>${escaped}</code></pre></details>`;
}

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
