//! Reads and writes of a file at an offset, where the system has overlapped offsets.
//!
//! These move the file's own position, which nobody here uses, so any thread may use one file at
//! once. No locks.

use std::fs::File;
use std::io::Result;
use std::os::windows::fs::FileExt;

/// Reads some bytes at an offset, and returns how many; 0 at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, into: &mut [u8]) -> Result<usize> {
    file.seek_read(into, offset)
}

/// Writes some bytes at an offset, and returns how many.
pub(crate) fn write_at(file: &File, offset: u64, from: &[u8]) -> Result<usize> {
    file.seek_write(from, offset)
}
