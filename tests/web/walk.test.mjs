// Random programs over the whole face beside plain bytes (S15.5), on the host, memory devices and
// GPUs. `RIG_SEED` replays one, `RIG_FIRST` is the first of several, `RIG_WALKS` how many there are,
// `RIG_STEPS` how long each is; in a page `?seed`, `?first`, `?walks` and `?steps`.

import { test } from "./harness.mjs";
import { Walk } from "./walk/walk.mjs";

const asked = globalThis.process?.env ?? {};
const page = new URLSearchParams(globalThis.location?.search);

/** Answers a number that was asked for. */
function number(name, otherwise) {
  return Number(page.get(name) ?? asked[`RIG_${name.toUpperCase()}`] ?? otherwise);
}

async function walks(world) {
  const only = number("seed", 0);
  const first = only || number("first", 1);
  const [steps, count] = [number("steps", STEPS), only ? 1 : number("walks", WALKS)];
  for (let seed = first; seed < first + count; seed += 1) {
    const rig = await (await world.copy(`walk=${seed}`)).init();
    await new Walk(world, rig, seed).run(steps);
    if (count > WALKS && seed % 50 === 0) console.log(`${seed} walks`);
  }
}

const STEPS = 300;
const WALKS = 10;
const ms = 3_000_000;

test("s15_5_random_programs_of_the_face_come_to_what_plain_bytes_say", walks, { ms });
test("s15_5_random_programs_beside_exact_collections_come_to_what_plain_bytes_say", walks, { needs: "gc", ms });
