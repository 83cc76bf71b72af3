// The shaders of the simulation, the same for both lanes.

import { FEED, FEED_MORE, KILL, KILL_MORE, LIGHT, PALETTE } from "./rules.js";

/**
 * Returns the code of each pass over a field of so many cells a side, a power of two, whose pixels
 * have their colours in an order: "rgba" or "bgra".
 * @param {number} cells
 * @param {string} order
 * @returns {Record<string, string>}
 */
export function passes(cells, order) {
  const start = `const N = ${cells}u;\nconst LAST = ${cells - 1}u;`;
  const all = { seed: SEED, wipe: WIPE, react: REACT, rows: ROWS, columns: COLUMNS, shade: shade(order) };
  return Object.fromEntries(Object.entries(all).map(([name, code]) => [name, start + code]));
}

/**
 * How many groups a pass takes a side.
 * @param {number} cells
 */
export const groupsOf = (cells) => cells / GROUP;

const GROUP = 16;
const MAIN = `@compute @workgroup_size(${GROUP}, ${GROUP}) fn main(@builtin(global_invocation_id) id: vec3u)`;

const SEED = `
@group(0) @binding(0) var<storage, read_write> next: array<vec2f>;
${MAIN} {
  let place = f32(N) / 8.0;
  let corner = floor(vec2f(id.xy) / place);
  let d = vec2f(id.xy) - (corner + 0.5) * place;
  let is_sown = (u32(corner.x) * 5u + u32(corner.y) * 3u) % 7u < 3u && dot(d, d) < place * place / 25.0;
  next[id.y * N + id.x] = select(vec2f(1.0, 0.0), vec2f(0.5, 0.5), is_sown);
}`;

/**
 * A step of the field.
 * @param {string} more What else it binds.
 * @param {string} cell The cell of the place (x, id.y) before it.
 */
const step = (more, cell) => `
@group(0) @binding(0) var<storage, read> old: array<vec2f>;
@group(0) @binding(1) var<storage, read_write> next: array<vec2f>;
${more}
${MAIN} {
  let x = id.x;
  let left = (x + LAST) & LAST;
  let right = (x + 1u) & LAST;
  let up = ((id.y + LAST) & LAST) * N;
  let here = id.y * N;
  let down = ((id.y + 1u) & LAST) * N;
  // Near cells count 0.2, those at the corners 0.05.
  let near = old[up + x] + old[down + x] + old[here + left] + old[here + right];
  let far = old[up + left] + old[up + right] + old[down + left] + old[down + right];
  let around = 0.2 * near + 0.05 * far;
  let cell = ${cell};
  let eaten = cell.x * cell.y * cell.y;
  let part = vec2f(id.xy) / f32(N);
  let feed = ${FEED} + ${FEED_MORE} * part.y;
  let kill = ${KILL} + ${KILL_MORE} * part.x;
  next[here + x] = vec2f(
    around.x - eaten + feed * (1.0 - cell.x),
    cell.y + 0.5 * (around.y - cell.y) + eaten - (feed + kill) * cell.y,
  );
}`;

const REACT = step("", "old[here + x]");
/** The same where a brush wipes a disc of it clean. */
const WIPE = step(
  "@group(0) @binding(2) var<uniform> brush: vec4f;",
  "select(old[here + x], vec2f(1.0, 0.0), distance(vec2f(id.xy), brush.xy) < brush.z)",
);

/**
 * A blur of nine cells in a row or a column, written out: a loop takes longer in software.
 * @param {string} from
 * @param {string} type
 * @param {(by: number) => string} cell
 */
const blur = (from, type, cell) => `
@group(0) @binding(0) var<storage, read> ${from}: array<${type}>;
@group(0) @binding(1) var<storage, read_write> next: array<f32>;
${MAIN} {
  next[id.y * N + id.x] = (${[1, 2, 3, 4, 5, 4, 3, 2, 1].map((much, by) => `${much}.0 * ${cell(by)}`).join("\n    + ")}) / 25.0;
}`;

const ROWS = blur("field", "vec2f", (by) => `field[id.y * N + ((id.x + N + ${by}u - 4u) & LAST)].y`);
const COLUMNS = blur("rows", "f32", (by) => `rows[((id.y + N + ${by}u - 4u) & LAST) * N + id.x]`);

const [LOW, MIDDLE, HIGH] = PALETTE.map((colour) => `vec3f(${colour.join(", ")})`);
/** @param {string} order */
const shade = (order) => `
@group(0) @binding(0) var<storage, read> field: array<vec2f>;
@group(0) @binding(1) var<storage, read> glow: array<f32>;
@group(0) @binding(2) var<storage, read_write> pixels: array<u32>;
${MAIN} {
  let at = id.y * N + id.x;
  let across = field[id.y * N + ((id.x + 1u) & LAST)].y - field[id.y * N + ((id.x + LAST) & LAST)].y;
  let along = field[((id.y + 1u) & LAST) * N + id.x].y - field[((id.y + LAST) & LAST) * N + id.x].y;
  let light = clamp(0.5 - ${LIGHT}.0 * (across + along), 0.0, 1.0);
  let much = min(field[at].y * 2.8, 1.0);
  let low = mix(${LOW}, ${MIDDLE}, 2.0 * much);
  let high = mix(${MIDDLE}, ${HIGH}, 2.0 * much - 1.0);
  let colour = select(high, low, much < 0.5);
  let lit = colour * (0.55 + 0.9 * light) + 1.8 * max(light - 0.62, 0.0) + ${MIDDLE} * glow[at];
  pixels[at] = pack4x8unorm(vec4f(clamp(lit, vec3f(0.0), vec3f(1.0)), 1.0).${order});
}`;
