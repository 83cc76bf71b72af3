// What the simulation is, stated once for the shaders and for the plain arrays.

/**
 * A brush: where it is, and its radius. What a shader reads has a fourth number, which says nothing.
 * @typedef {Float32Array<ArrayBuffer> | number[]} Brush
 */

/** How fast food comes, and how fast what eats it goes; both change across the field. */
export const FEED = 0.034;
export const FEED_MORE = 0.02;
export const KILL = 0.0601;
export const KILL_MORE = 0.0024;

/** How steep a slope has to look. */
export const LIGHT = 3;

/** Colours of nothing, of some and of much. */
export const PALETTE = [
  [0.05, 0.07, 0.11],
  [0.04, 0.43, 0.39],
  [0.98, 0.86, 0.62],
];

/** What a frame makes besides the field of each step: two blurs and a picture. */
export const OTHERS = 3;

/**
 * Where the field is sown at the start: discs, on a grid of 8 by 8, one in three of its places.
 * @param {number} x
 * @param {number} y
 * @param {number} cells
 */
export function sown(x, y, cells) {
  const place = cells / 8;
  const [column, row] = [Math.floor(x / place), Math.floor(y / place)];
  const [dx, dy] = [x - (column + 0.5) * place, y - (row + 0.5) * place];
  return (column * 5 + row * 3) % 7 < 3 && dx * dx + dy * dy < (place / 5) ** 2;
}

/**
 * Returns the brush of a frame. It goes round and never rests.
 * @param {number} frame
 * @param {number} cells
 */
export function brushOf(frame, cells) {
  const x = 0.5 + 0.4 * Math.sin(frame / 97);
  const y = 0.5 + 0.4 * Math.sin(frame / 143 + 1);
  return [Math.fround(x * cells), Math.fround(y * cells), Math.fround(cells / 16)];
}
