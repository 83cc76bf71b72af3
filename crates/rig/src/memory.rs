//! Memory devices: a device over host memory with a timeline, whose work runs inside `submit`.
//!
//! They need no hardware, and obey every rule that hardware does: for tests, for programs that run
//! without a GPU, and to learn on. Their code is Rust: [`function`] makes [`crate::Code`] of a
//! closure, which gets a [`Call`] with the buffers of each launch. A panic in it is to the device
//! what a fault is to a GPU.

use crate::device::Device;
use crate::driver::Fault;
use crate::drivers::memory;
use crate::error::Result;
use crate::open::Opener;

pub use crate::drivers::memory::{Call, Options, function};

/// Returns an opener of a memory device.
pub fn opener(options: Options) -> Opener {
    Opener::new("memory", move || Ok::<_, Fault>(memory::driver(options)))
}

/// Opens a memory device, or answers the one that has the name. Its budget is unbounded. Waits as
/// [`Device::open_async`] does.
///
/// # Errors
///
/// Those of [`Device::open_async`].
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("memory example")?;
/// assert_eq!(device, rig::memory::open("memory example")?);
/// assert_eq!(device.budget(), u64::MAX);
/// # Ok(())
/// # }
/// ```
pub fn open_async(name: &str) -> impl Future<Output = Result<Device>> {
    Device::open_async(name, opener(Options::default()))
}

/// Opens a device like [`open_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`Device::open_async`].
#[cfg(not(target_family = "wasm"))]
pub fn open(name: &str) -> Result<Device> {
    Device::open(name, opener(Options::default()))
}

#[cfg(all(test, not(rig_loom)))]
mod tests;
