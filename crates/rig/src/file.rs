//! Devices of files: each buffer is a file of fixed length, from [`Device::create_file`] or
//! [`Device::open_file`].
//!
//! Files are reached by copies, blits and fills alone, and the thread that calls these reads and
//! writes. They are charged to no budget, and what moves their bytes leaves no stamps.

use crate::device::Device;
use crate::driver::Fault;
use crate::drivers::file;
use crate::error::Result;
use crate::open::Opener;

/// Returns an opener of a device of files.
pub fn opener() -> Opener {
    Opener::new("file", || Ok::<_, Fault>(file::driver()))
}

/// Opens a device of files, or answers the one that has the name. Waits as [`Device::open_async`]
/// does.
///
/// # Errors
///
/// Those of [`Device::open_async`].
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let disk = rig::file::open("file example")?;
/// let path = std::env::temp_dir().join(format!("rig-doc-{}", std::process::id()));
/// let file = disk.create_file(&path, 4)?;
/// rig::copy(&rig::wrap(vec![1_u8, 2, 3, 4]), &file)?;
///
/// let mut bytes = [0; 2];
/// file.blit_to(2, &mut bytes)?;
/// assert_eq!(bytes, [3, 4]);
/// # drop(std::fs::remove_file(path));
/// # Ok(())
/// # }
/// ```
pub fn open_async(name: &str) -> impl Future<Output = Result<Device>> {
    Device::open_async(name, opener())
}

/// Opens a device like [`open_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`Device::open_async`].
#[cfg(not(target_family = "wasm"))]
pub fn open(name: &str) -> Result<Device> {
    Device::open(name, opener())
}
