// The shaders of the simulation, the same for both lanes.

import { FEED, FEED_MORE, KILL, KILL_MORE, LIGHT, PALETTE } from "./rules.js";

/** Returns the code of each pass over a field of so many cells a side. */
export function passes(cells) {
  const start = `const N = ${cells}u;`;
  return { seed: start + SEED, react: start + REACT, rows: start + ROWS, columns: start + COLUMNS, shade: start + SHADE };
}

/** How many groups a pass takes a side. */
export const groupsOf = (cells) => cells / GROUP;

const GROUP = 8;
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

const REACT = `
@group(0) @binding(0) var<storage, read> old: array<vec2f>;
@group(0) @binding(1) var<storage, read_write> next: array<vec2f>;
@group(0) @binding(2) var<uniform> brush: vec4f;
${MAIN} {
  let x = id.x;
  let left = (x + N - 1u) % N;
  let right = (x + 1u) % N;
  let up = (id.y + N - 1u) % N * N;
  let here = id.y * N;
  let down = (id.y + 1u) % N * N;
  // Near cells count 0.2, those at the corners 0.05.
  let near = old[up + x] + old[down + x] + old[here + left] + old[here + right];
  let far = old[up + left] + old[up + right] + old[down + left] + old[down + right];
  let around = 0.2 * near + 0.05 * far;
  let d = vec2f(id.xy) - brush.xy;
  let cell = select(old[here + x], vec2f(1.0, 0.0), dot(d, d) < brush.z * brush.z);
  let eaten = cell.x * cell.y * cell.y;
  let part = vec2f(id.xy) / f32(N);
  let feed = ${FEED} + ${FEED_MORE} * part.y;
  let kill = ${KILL} + ${KILL_MORE} * part.x;
  next[here + x] = vec2f(
    around.x - eaten + feed * (1.0 - cell.x),
    cell.y + 0.5 * (around.y - cell.y) + eaten - (feed + kill) * cell.y,
  );
}`;

const ROWS = `
@group(0) @binding(0) var<storage, read> field: array<vec2f>;
@group(0) @binding(1) var<storage, read_write> next: array<f32>;
${MAIN} {
  var sum = 0.0;
  for (var by = 0u; by <= 8u; by++) {
    sum += (5.0 - abs(f32(by) - 4.0)) * field[id.y * N + (id.x + by + N - 4u) % N].y;
  }
  next[id.y * N + id.x] = sum / 25.0;
}`;

const COLUMNS = `
@group(0) @binding(0) var<storage, read> rows: array<f32>;
@group(0) @binding(1) var<storage, read_write> next: array<f32>;
${MAIN} {
  var sum = 0.0;
  for (var by = 0u; by <= 8u; by++) {
    sum += (5.0 - abs(f32(by) - 4.0)) * rows[(id.y + by + N - 4u) % N * N + id.x];
  }
  next[id.y * N + id.x] = sum / 25.0;
}`;

const [LOW, MIDDLE, HIGH] = PALETTE.map((colour) => `vec3f(${colour.join(", ")})`);
const SHADE = `
@group(0) @binding(0) var<storage, read> field: array<vec2f>;
@group(0) @binding(1) var<storage, read> glow: array<f32>;
@group(0) @binding(2) var<storage, read_write> pixels: array<u32>;
${MAIN} {
  let at = id.y * N + id.x;
  let across = field[id.y * N + (id.x + 1u) % N].y - field[id.y * N + (id.x + N - 1u) % N].y;
  let along = field[(id.y + 1u) % N * N + id.x].y - field[(id.y + N - 1u) % N * N + id.x].y;
  let light = clamp(0.5 - ${LIGHT}.0 * (across + along), 0.0, 1.0);
  let much = min(field[at].y * 2.8, 1.0);
  let low = mix(${LOW}, ${MIDDLE}, 2.0 * much);
  let high = mix(${MIDDLE}, ${HIGH}, 2.0 * much - 1.0);
  let colour = select(high, low, much < 0.5);
  let lit = colour * (0.55 + 0.9 * light) + 1.8 * max(light - 0.62, 0.0) + ${MIDDLE} * glow[at];
  pixels[at] = pack4x8unorm(vec4f(clamp(lit, vec3f(0.0), vec3f(1.0)), 1.0));
}`;

/** Draws pixels onto all of a canvas. */
export const DRAW = `
@group(0) @binding(0) var<storage, read> pixels: array<u32>;
@vertex fn corner(@builtin(vertex_index) at: u32) -> @builtin(position) vec4f {
  // One triangle, twice as large as what is seen of it.
  return vec4f(f32(at & 1u) * 4.0 - 1.0, f32(at >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}
@fragment fn colour(@builtin(position) at: vec4f) -> @location(0) vec4f {
  let side = u32(sqrt(f32(arrayLength(&pixels))));
  return unpack4x8unorm(pixels[u32(at.y) * side + u32(at.x)]);
}`;
