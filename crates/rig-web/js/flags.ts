// WebGPU's flags as numbers, since Node has none of their globals before a package makes them, and
// its units.

/** What a buffer is used for. */
export const enum Usage {
  MAP_READ = 0x1,
  MAP_WRITE = 0x2,
  COPY_SRC = 0x4,
  COPY_DST = 0x8,
  UNIFORM = 0x40,
  STORAGE = 0x80,
}

/** How a buffer is mapped. */
export const enum MapMode {
  READ = 0x1,
  WRITE = 0x2,
}

/** The stage of compute shaders. */
export const COMPUTE = 0x4;
/** The unit of WebGPU's own copies. */
export const WORD = 4;
/** Returns the bytes of the whole words that so many bytes are part of. */
export function inWords(bytes: number): number {
  return Math.ceil(bytes / WORD) * WORD;
}
