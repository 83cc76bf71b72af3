// Runs the benchmarks in a page.

import { init } from "rig-web";
import { run } from "./rows.mjs";

const { searchParams } = new URL(location.href);
// The peers are there only if they were installed and bundled.
const peers = searchParams.has("peers") ? await (await import("./peers/node_modules/peers.js")).peersHere() : null;
const adapter = (await navigator.gpu?.requestAdapter()) ?? null;
const open = async () => (await navigator.gpu.requestAdapter()).requestDevice();
const quick = searchParams.has("quick");
const tell = (line) => {
  console.log(line);
  (globalThis.lines ??= []).push(line);
};
try {
  await run({ init, adapter, open, peers, quick, tell });
  globalThis.result = "ok";
} catch (e) {
  globalThis.result = String(e?.stack ?? e);
}
globalThis.ended?.();
