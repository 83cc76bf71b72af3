//! Reads and writes of a file at an offset, where the system has none: all are refused.
//!
//! Any thread may call these. No locks.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};

/// Refuses.
pub(crate) fn read_at(_: &File, _: u64, _: &mut [u8]) -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, "this platform reads no files at an offset"))
}

/// Refuses.
pub(crate) fn write_at(_: &File, _: u64, _: &[u8]) -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, "this platform writes no files at an offset"))
}
