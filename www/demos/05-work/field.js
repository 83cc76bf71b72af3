// Reaction and diffusion on plain arrays: what the shaders do, for a page without WebGPU.
//
// A cell is two numbers: how much there is of a food, and of what eats it. Where the field ends, it
// goes on at its other side.

import { FEED, FEED_MORE, KILL, KILL_MORE, LIGHT, PALETTE, sown } from "./rules.js";
/** @import { Brush } from "./rules.js" */

/**
 * Writes the field that everything begins with.
 * @param {Float32Array} next
 * @param {number} cells
 */
export function seed(next, cells) {
  for (let at = 0; at < cells * cells; at += 1) {
    const isSown = sown(at % cells, Math.floor(at / cells), cells);
    next[2 * at] = isSown ? 0.5 : 1;
    next[2 * at + 1] = isSown ? 0.5 : 0;
  }
}

/**
 * Writes the field a step later. A brush, where it is and its radius, wipes a disc of it clean.
 * @param {Float32Array} old
 * @param {Float32Array} next
 * @param {number} cells
 * @param {Brush} brush
 */
export function react(old, next, cells, brush) {
  // By index: taken apart as a pattern, a function that gets plain and typed arrays in turns ends
  // WebKitGTK 2.50's process once its compiler makes it fast.
  const bx = brush[0];
  const by = brush[1];
  const radius = brush[2];
  for (let y = 0; y < cells; y += 1) {
    const up = 2 * cells * ((y + cells - 1) % cells);
    const here = 2 * cells * y;
    const down = 2 * cells * ((y + 1) % cells);
    const feed = FEED + FEED_MORE * (y / cells);
    for (let x = 0; x < cells; x += 1) {
      const left = 2 * ((x + cells - 1) % cells);
      const at = 2 * x;
      const right = 2 * ((x + 1) % cells);
      /**
       * Near cells count 0.2, those at the corners 0.05.
       * @param {number} which
       */
      const around = (which) =>
        0.2 * (old[up + at + which] + old[down + at + which] + old[here + left + which] + old[here + right + which]) +
        0.05 * (old[up + left + which] + old[up + right + which] + old[down + left + which] + old[down + right + which]);
      const isWiped = (x - bx) * (x - bx) + (y - by) * (y - by) < radius * radius;
      const food = isWiped ? 1 : old[here + at];
      const eater = isWiped ? 0 : old[here + at + 1];
      const eaten = food * eater * eater;
      const gone = (feed + KILL + KILL_MORE * (x / cells)) * eater;
      next[here + at] = around(0) - eaten + feed * (1 - food);
      next[here + at + 1] = eater + 0.5 * (around(1) - eater) + eaten - gone;
    }
  }
}

/**
 * Writes how much there is of what eats, blurred along rows.
 * @param {Float32Array} field
 * @param {Float32Array} next
 * @param {number} cells
 */
export function blurRows(field, next, cells) {
  blur(next, cells, (x, y, by) => field[2 * (y * cells + ((x + by + cells) % cells)) + 1]);
}

/**
 * Writes the same, blurred along columns too.
 * @param {Float32Array} rows
 * @param {Float32Array} next
 * @param {number} cells
 */
export function blurColumns(rows, next, cells) {
  blur(next, cells, (x, y, by) => rows[((y + by + cells) % cells) * cells + x]);
}

/**
 * Writes a picture of the field, lit from one side, with a glow.
 * @param {Float32Array} field
 * @param {Float32Array} glow
 * @param {Uint8Array} pixels
 * @param {number} cells
 */
export function shade(field, glow, pixels, cells) {
  /**
   * @param {number} x
   * @param {number} y
   */
  const eater = (x, y) => field[2 * (((y + cells) % cells) * cells + ((x + cells) % cells)) + 1];
  const [low, middle, high] = PALETTE;
  for (let at = 0; at < cells * cells; at += 1) {
    const x = at % cells;
    const y = (at - x) / cells;
    const slope = eater(x + 1, y) - eater(x - 1, y) + eater(x, y + 1) - eater(x, y - 1);
    const light = Math.min(Math.max(0.5 - LIGHT * slope, 0), 1);
    const much = Math.min(field[2 * at + 1] * 2.8, 1);
    const from = much < 0.5 ? low : middle;
    const to = much < 0.5 ? middle : high;
    const part = much < 0.5 ? 2 * much : 2 * much - 1;
    for (let channel = 0; channel < 3; channel += 1) {
      const colour = from[channel] + (to[channel] - from[channel]) * part;
      const shine = 1.8 * Math.max(light - 0.62, 0) + middle[channel] * glow[at];
      pixels[4 * at + channel] = 255 * Math.min(Math.max(colour * (0.55 + 0.9 * light) + shine, 0), 1);
    }
    pixels[4 * at + 3] = 255;
  }
}

/**
 * @param {Float32Array} next
 * @param {number} cells
 * @param {(x: number, y: number, by: number) => number} of
 */
function blur(next, cells, of) {
  for (let y = 0; y < cells; y += 1) {
    for (let x = 0; x < cells; x += 1) {
      let sum = 0;
      for (let by = -4; by <= 4; by += 1) sum += (5 - Math.abs(by)) * of(x, y, by);
      next[y * cells + x] = sum / 25;
    }
  }
}
