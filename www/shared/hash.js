// A hash of bytes, by which two pictures are told apart.

/**
 * Returns the hash of bytes as 8 hexadecimal digits: FNV-1a with 32 bits.
 * @param {Uint8Array} bytes
 */
export function hash(bytes) {
  let value = 0x811c9dc5;
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193);
  return (value >>> 0).toString(16).padStart(8, "0");
}
