//! Whether two handles are of one wgpu device. wgpu compares numbers, which each of its instances
//! counts from 1; where the backend's own device lies in memory tells those of two instances apart.

use ::wgpu::Device;
#[cfg(any(windows, target_vendor = "apple", target_os = "linux", target_os = "android"))]
use ::wgpu::hal::{Api, api};

/// Whether two handles are of one device.
pub(crate) fn is_same(one: &Device, other: &Device) -> bool {
    one == other && address(one) == address(other)
}

/// Returns where the backend's device lies; none where that is not known.
#[cfg(any(windows, target_os = "linux", target_os = "android"))]
fn address(device: &Device) -> Option<usize> {
    let found = of::<api::Vulkan>(device).or_else(|| of::<api::Gles>(device));
    #[cfg(windows)]
    let found = found.or_else(|| of::<api::Dx12>(device));
    found
}

#[cfg(target_vendor = "apple")]
fn address(device: &Device) -> Option<usize> {
    of::<api::Metal>(device)
}

#[cfg(not(any(windows, target_vendor = "apple", target_os = "linux", target_os = "android")))]
fn address(_: &Device) -> Option<usize> {
    None
}

#[cfg(any(windows, target_vendor = "apple", target_os = "linux", target_os = "android"))]
fn of<A: Api>(device: &Device) -> Option<usize> {
    // SAFETY: only where it lies is asked, and nothing of it is touched.
    let raw = unsafe { device.as_hal::<A>() }?;
    Some(std::ptr::from_ref(&*raw).addr())
}
