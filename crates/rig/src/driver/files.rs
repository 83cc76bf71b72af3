//! File operations of a device whose buffers are files (S1.10 to S1.12).

use crate::driver::{Fault, Region};
use crate::sync::{MaybeSend, MaybeSync};
use std::path::Path;
use std::sync::Arc;

/// What a device of files can do. Errors here concern one file and lose nothing (S1.11).
pub trait FileIo: MaybeSend + MaybeSync {
    /// Creates a file of `len` bytes, or cuts one that exists to that length.
    fn create(&self, path: &Path, len: u64) -> Result<Region, FileError>;

    /// Opens a file that exists; answers its length.
    fn open(&self, path: &Path, mode: FileMode) -> Result<(Region, u64), FileError>;

    /// Reads at an offset until `into` is full.
    fn read_at(&self, file: Region, offset: u64, into: &mut [u8]) -> Result<(), FileError>;

    /// Writes all of `from` at an offset.
    fn write_at(&self, file: Region, offset: u64, from: &[u8]) -> Result<(), FileError>;
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileMode {
    /// The buffer is read-only.
    ReadOnly,
    /// The buffer can be written.
    ReadWrite,
}

/// Why a file operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileError {
    /// This file cannot; the text is the system's.
    Failed(Arc<str>),
    /// The device is lost.
    Fault(Fault),
}

/// Whether there may be files: a browser has none (S1.10), and none of the code for them.
pub(crate) const HAS_FILES: bool = cfg!(not(target_family = "wasm"));
