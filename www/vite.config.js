import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** @param {string} path */
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/**
 * Each demo by its folder: its name, one line, a picture as paths of a colour, and the files of its
 * code that its page shows.
 * @type {Record<string, { name: string, says: string, picture: [colour: string, d: string][], code: string[] }>}
 */
const DEMOS = {
  "01-reclamation": {
    name: "Reclamation",
    says: "Gigabytes made and never freed, within 256 MiB, beside the same work without rig.",
    picture: [
      ["budget", "M4 12H92"],
      ["cached", "M4 56V24H92V56Z"],
      ["live", "M4 56 20 28V50L40 26V52L62 25V48L80 27V54L92 40V56Z"],
    ],
    code: ["lanes.js"],
  },
  "02-budget": {
    name: "Budget",
    says: "100 buffers where four fit, and a picture of why a fifth that has to stay finds no room.",
    picture: [
      ["budget", "M4 16V56H72V16"],
      ["live", "M8 38H36V52H8ZM40 38H68V52H40ZM8 20H36V34H8ZM40 20H68V34H40Z"],
      ["warm", "M64 4H92V14H64Z"],
    ],
    code: ["main.js"],
  },
  "03-stamps": {
    name: "Stamps",
    says: "A copy, a doubling and a copy back, call by call, and what memory remembers of each.",
    picture: [
      ["budget", "M4 44H92"],
      ["live", "M12 36H28V52H12ZM40 36H56V52H40ZM68 36H84V52H68Z"],
      ["warm", "M40 12H56V24L48 32L40 24ZM68 12H84V24L76 32L68 24Z"],
    ],
    code: ["main.js"],
  },
  "04-loss": {
    name: "Loss",
    says: "A device destroyed at work, and which calls still answer.",
    picture: [
      ["cached", "M20 12H76V52H20Z"],
      ["budget", "M32 4V12M48 4V12M64 4V12M32 52V60M48 52V60M64 52V60"],
      ["warm", "M54 8 36 36H48L42 56L62 28H50Z"],
    ],
    code: ["main.js", "calls.js"],
  },
  "05-work": {
    name: "Real work",
    says: "A simulation that makes every buffer anew, beside the same with reuse by hand: equal pixels, and the price.",
    picture: [
      ["cached", "M4 8H44V56H4ZM52 8H92V56H52Z"],
      ["worm", "M10 18Q18 10 24 20T38 18M10 34Q20 24 26 36T38 34M10 50Q16 42 24 48T38 48"],
      ["worm", "M58 18Q66 10 72 20T86 18M58 34Q68 24 74 36T86 34M58 50Q64 42 72 48T86 48"],
    ],
    code: ["rig.js", "hand.js"],
  },
};

/**
 * Makes whole pages of what their files hold, which is what they alone have to say.
 * @type {import("vite").Plugin}
 */
const chrome = {
  name: "chrome",
  transformIndexHtml: {
    order: "pre",
    handler(html, { path }) {
      const root = "../".repeat(path.split("/").length - 2) || "./";
      const folder = Object.keys(DEMOS).find((folder) => path.includes(`/${folder}/`));
      const body = folder ? demo(html, folder) : html.replace("DEMOS", list());
      return PAGE.replaceAll("ROOT", root)
        .replace("TITLE", folder ? `${DEMOS[folder].name}: rig demos` : "rig: GPU memory that comes back by itself")
        .replace("LINKS", links(root, folder))
        .replace("BODY", () => body);
    },
  },
};

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>TITLE</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="ROOTshared/page.css" />
  </head>
  <body>
    <nav aria-label="Demos"><a href="ROOTindex.html">rig</a>LINKS</nav>
    <main>BODY</main>
    <script type="module" src="./main.js"></script>
  </body>
</html>`;

/**
 * Returns what a page has of its own: for a demo below its name, and above its code.
 * @param {string} html
 * @param {string} folder
 */
function demo(html, folder) {
  const { name, code } = DEMOS[folder];
  return `<h1>${name}</h1>${html}${code.map((file) => codeOf(folder, file)).join("")}`;
}

/** Returns the list of the demos. */
function list() {
  const items = Object.entries(DEMOS).map(([folder, { name, says, picture }]) => {
    const paths = picture.map(([colour, d]) => `<path class="${colour}" d="${d}" />`).join("");
    const link = `<a href="./demos/${folder}/index.html">${name}</a>`;
    return `<li><svg viewBox="0 0 96 64" aria-hidden="true">${paths}</svg>${link}<span>${says}</span></li>`;
  });
  return items.join("");
}

/**
 * Returns the way to each demo.
 * @param {string} root
 * @param {string | undefined} folder That of the page itself, where it is one of them.
 */
function links(root, folder) {
  const all = Object.entries(DEMOS).map(([at, { name }]) => {
    const current = at === folder ? ' aria-current="page"' : "";
    return `<a href="${root}demos/${at}/index.html"${current}>${name}</a>`;
  });
  return all.join("");
}

/**
 * Returns a file of a demo as a part of its page.
 * @param {string} folder
 * @param {string} file
 */
function codeOf(folder, file) {
  const text = readFileSync(here(`demos/${folder}/${file}`), "utf8");
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const name = `demos/${folder}/${file}`;
  return `<details><summary>Its code: ${name}</summary><pre tabindex="0" aria-label="${name}"><code>${escaped}</code></pre></details>`;
}

export default defineConfig({
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
});
