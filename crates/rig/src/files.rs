//! Files as buffers: each open makes one buffer of fixed length, charged to nothing (S1.10).
//!
//! The calling thread reads and writes. Any thread may call.

use crate::allocation::{Allocation, Memory, Parts, Ref};
use crate::buffer::Buffer;
use crate::copy::file_error;
use crate::device::Device;
use crate::driver::{FileIo, FileMode, Region};
use crate::entry;
use crate::error::{Error, Result};
use crate::life;
use std::path::Path;
use std::sync::Arc;

impl Device {
    /// Creates a file of `len` bytes, or cuts one that exists to that length, and answers a buffer
    /// over it.
    ///
    /// # Errors
    ///
    /// - `Unsupported`: this device has no files, or this file cannot be made: the system's text.
    /// - `Lost`: the device is lost.
    pub fn create_file(&self, path: impl AsRef<Path>, len: u64) -> Result<Buffer> {
        entry::check("create_file")?;
        self.open_with_io(|io| Ok((io.create(path.as_ref(), len)?, len)), FileMode::ReadWrite)
    }

    /// Opens a file that exists, and answers a buffer over its present length; read-only if it is
    /// opened so. Two opens never overlap.
    ///
    /// # Errors
    ///
    /// - `Unsupported`: this device has no files, or this file cannot be opened: the system's text.
    /// - `Lost`: the device is lost.
    pub fn open_file(&self, path: impl AsRef<Path>, mode: FileMode) -> Result<Buffer> {
        entry::check("open_file")?;
        self.open_with_io(|io| io.open(path.as_ref(), mode), mode)
    }

    fn open_with_io(
        &self,
        open: impl FnOnce(&dyn FileIo) -> std::result::Result<(Region, u64), crate::driver::FileError>,
        mode: FileMode,
    ) -> Result<Buffer> {
        let owner = &self.owner;
        life::drain(owner);
        life::check_lost(owner)?;
        let call = life::InFlight::new(owner)?;
        let Some(io) = call.driver().file() else {
            let why = Arc::from("this device has no files");
            return Err(Error::Unsupported { device: Arc::clone(&owner.name), why });
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
        Ok(Buffer::whole(Ref::new(record), len))
    }
}
