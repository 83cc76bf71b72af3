//! GPUs through wgpu: Vulkan, Metal, DX12 and GL.
//!
//! [`open`] takes the GPU that [`Options`] name, with all the limits it offers. Its code is WGSL:
//! [`wgsl`] makes [`crate::Code`] of it. Memory moves as on every device; what the host does not
//! address passes through staging.

use crate::device::Device;
use crate::drivers::wgpu;
use crate::error::Result;
use crate::open::Opener;

pub use crate::drivers::wgpu::{Options, adapters, wgsl};

/// Returns an opener of a GPU.
pub fn opener(options: Options) -> Opener {
    Opener::future(wgpu::KIND, wgpu::driver(options))
}

/// Opens a GPU, or answers the device that has its name.
///
/// # Errors
///
/// Those of [`Device::open_async`]; `Unsupported` says why where there is no such GPU.
pub async fn open_async(options: Options) -> Result<Device> {
    let name = options.name.clone();
    Device::open_async(&name, opener(options)).await
}

/// Opens a GPU like [`open_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`open_async`].
#[cfg(not(target_family = "wasm"))]
pub fn open(options: Options) -> Result<Device> {
    let name = options.name.clone();
    Device::open(&name, opener(options))
}
