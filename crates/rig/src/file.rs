//! Devices of files: each buffer is a file of fixed length; see [`Device::open_file`].

use crate::device::Device;
use crate::driver::Fault;
use crate::drivers::file;
use crate::error::Result;
use crate::open::Opener;

/// Returns an opener of a device of files.
pub fn opener() -> Opener {
    Opener::new("file", || Ok::<_, Fault>(file::driver()))
}

/// Opens a device of files, or answers the one that has the name.
///
/// # Errors
///
/// Those of [`Device::open_async`].
#[cfg(not(target_family = "wasm"))]
pub fn open(name: &str) -> Result<Device> {
    Device::open(name, opener())
}
