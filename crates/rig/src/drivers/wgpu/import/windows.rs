//! Host memory that a device maps on Windows: by Vulkan. What DX12 has for it asks for memory that
//! the system allocated just so, which rig's host memory is not.
//!
//! DX12 tells its budget through DXGI. Checked by the compiler, and not run so far.

#[path = "vulkan.rs"]
mod vulkan;

use ::wgpu::Device;
use ::wgpu::hal::api::Dx12;
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_QUERY_VIDEO_MEMORY_INFO,
    IDXGIAdapter3, IDXGIFactory4,
};

pub(crate) use crate::drivers::wgpu::import::vulkan::{align_bytes, import, open};

/// Returns the bytes of the device's own memory that this process may use.
pub(crate) fn memory_bytes(device: &Device) -> Option<u64> {
    vulkan::memory_bytes(device).or_else(|| dxgi_bytes(device))
}

fn dxgi_bytes(device: &Device) -> Option<u64> {
    // SAFETY: the device is asked, and nothing of it is destroyed.
    let raw = unsafe { device.as_hal::<Dx12>() }?;
    let mut info = DXGI_QUERY_VIDEO_MEMORY_INFO::default();
    // SAFETY: the device is open, so its adapter is there; the answer has room.
    unsafe {
        let luid = raw.raw_device().GetAdapterLuid();
        let factory: IDXGIFactory4 = CreateDXGIFactory1().ok()?;
        let adapter: IDXGIAdapter3 = factory.EnumAdapterByLuid(luid).ok()?;
        adapter.QueryVideoMemoryInfo(0, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, &mut info).ok()?;
    }
    Some(info.Budget).filter(|bytes| *bytes > 0)
}
