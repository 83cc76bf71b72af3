//! Reads and writes of a file at an offset, where the system has `pread` and `pwrite`.
//!
//! No call moves the file's own position, so any thread may use one file at once. No locks.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

/// Reads some bytes at an offset, and returns how many; 0 at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, into: &mut [u8]) -> Result<usize> {
    file.read_at(into, offset)
}

/// Writes some bytes at an offset, and returns how many.
pub(crate) fn write_at(file: &File, offset: u64, from: &[u8]) -> Result<usize> {
    file.write_at(from, offset)
}
