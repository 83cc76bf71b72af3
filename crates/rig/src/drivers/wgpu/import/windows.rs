//! Host memory that a device maps on Windows: by Vulkan, or by DX12.
//!
//! DX12 tells its budget through DXGI. Checked by the compiler, and not run so far.

#[path = "dx12.rs"]
mod dx12;
#[path = "vulkan.rs"]
mod vulkan;

use crate::bytes::HostBytes;
use crate::drivers::wgpu::guarded::Guarded;
use ::wgpu::hal::api::Dx12;
use ::wgpu::{Backend, Buffer, BufferUsages, Device};
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_QUERY_VIDEO_MEMORY_INFO,
    IDXGIAdapter3, IDXGIFactory4,
};

pub(crate) use crate::drivers::wgpu::import::vulkan::open;

/// Returns the alignment that host memory needs to be mapped; none if the device maps none.
pub(crate) fn align_bytes(guarded: &Guarded) -> Option<u64> {
    vulkan::align_bytes(guarded).or_else(|| dx12::align_bytes(guarded))
}

/// Makes a buffer over host memory; none where the device takes it not.
pub(crate) fn import(bytes: HostBytes, usages: BufferUsages, guarded: &Guarded) -> Option<Buffer> {
    match guarded.device.adapter_info().backend {
        Backend::Dx12 => dx12::import(bytes, usages, guarded),
        _ => vulkan::import(bytes, usages, guarded),
    }
}

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
