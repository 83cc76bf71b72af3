//! Files as buffers: each open makes one buffer of fixed length, charged to nothing (S1.10).
//!
//! The calling thread reads and writes. Any thread may call.

use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory, Parts, Ref};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::{FileError, FileIo, FileMode, Region};
use crate::entry;
use crate::error::{Failed, Outcome, Result};
use crate::life;
use crate::tick;
use std::path::Path;
use std::sync::Arc;

impl Device {
    /// Creates a file of `len` bytes, or cuts one that exists to that length, and answers a buffer
    /// over it. The calling thread waits for the system, and for no work.
    ///
    /// # Errors
    ///
    /// - `Unsupported`: this device has no files, or this file cannot be made: the system's text.
    /// - `Lost`: the device is lost.
    pub fn create_file(&self, path: impl AsRef<Path>, len: u64) -> Result<Buffer> {
        entry::check("create_file")?;
        let create = |io: &dyn FileIo| Ok((io.create(path.as_ref(), len)?, len));
        Ok(self.open_with_io(create, FileMode::ReadWrite)?)
    }

    /// Opens a file that exists, and answers a buffer over its present length; read-only if it is
    /// opened so. Two opens never overlap. The calling thread waits for the system, and for no
    /// work.
    ///
    /// # Errors
    ///
    /// - `Unsupported`: this device has no files, or this file cannot be opened: the system's text.
    /// - `Lost`: the device is lost.
    pub fn open_file(&self, path: impl AsRef<Path>, mode: FileMode) -> Result<Buffer> {
        entry::check("open_file")?;
        Ok(self.open_with_io(|io| io.open(path.as_ref(), mode), mode)?)
    }

    fn open_with_io(
        &self,
        open: impl FnOnce(&dyn FileIo) -> std::result::Result<(Region, u64), FileError>,
        mode: FileMode,
    ) -> Outcome<Buffer> {
        let owner = &self.owner;
        life::drain(owner);
        life::check_lost(owner)?;
        let call = life::InFlight::new(owner)?;
        let Some(io) = call.driver().file().filter(|_| owner.has_files) else {
            return Err(Failed::unsupported(&owner.name, "this device has no files"));
        };
        let (region, len) = open(io).map_err(|error| file_error(owner, error))?;
        let record = Allocation::new(Parts {
            owner: Arc::clone(owner),
            region,
            bytes: None,
            memory: Memory::File,
            len,
            read_only: mode == FileMode::ReadOnly,
        });
        tick::arm(owner);
        Ok(Buffer::whole(Ref::new(record), len))
    }
}

/// Reads a file buffer's bytes from `offset` on.
pub(crate) fn read_file(file: &Buffer, offset: u64, into: &mut [u8]) -> Outcome<()> {
    with_io(file, |io| io.read_at(file.at.region, file.offset() + offset, into))
}

/// Writes a file buffer's bytes from `offset` on.
pub(crate) fn write_file(file: &Buffer, offset: u64, from: &[u8]) -> Outcome<()> {
    with_io(file, |io| io.write_at(file.at.region, file.offset() + offset, from))
}

/// Sets every byte of a file buffer.
pub(crate) fn fill_file(file: &Buffer, byte: u8) -> Outcome<()> {
    let chunk = vec![byte; file.len().min(FILL_BYTES) as usize];
    let mut offset = 0;
    while offset < file.len() {
        let len = (file.len() - offset).min(FILL_BYTES);
        write_file(file, offset, &chunk[..len as usize])?;
        offset += len;
    }
    Ok(())
}

fn with_io(
    file: &Buffer,
    f: impl FnOnce(&dyn FileIo) -> std::result::Result<(), FileError>,
) -> Outcome<()> {
    let owner = &file.at.owner;
    let call = life::InFlight::new(owner)?;
    let io = call.driver().file().expect("a file's device has files");
    f(io).map_err(|error| file_error(owner, error))
}

/// Turns a file's failure into the error to tell; only a fault loses the device (S1.11).
fn file_error(owner: &Arc<Owner>, error: FileError) -> Failed {
    match error {
        FileError::Failed(why) => Failed::unsupported(&owner.name, &why),
        FileError::Fault(fault) => life::fault(owner, &fault),
    }
}

/// The bytes that a fill writes at a time.
const FILL_BYTES: u64 = 1 << 20;
