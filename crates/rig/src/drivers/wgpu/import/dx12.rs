//! Host memory that a DX12 device maps: a heap over memory that the system allocated as a region of
//! its own, which rig's larger host memory is on Windows, and a buffer placed in it.
//!
//! DX12 says of no device whether it can, and the heap was made for another purpose. So what a
//! device shows in a trial when it is opened decides; where anything of that fails, it maps none.
//! Checked by the compiler, and not run so far.

use crate::bytes::{HostBytes, page_bytes};
use crate::drivers::wgpu::guarded::Guarded;
use crate::drivers::wgpu::probe;
use ::wgpu::hal::api::Dx12;
use ::wgpu::hal::dx12;
use ::wgpu::{Buffer, BufferDescriptor, BufferUsages};
use std::ffi::c_void;
use windows::Win32::Graphics::Direct3D12::{
    D3D12_HEAP_FLAG_SHARED_CROSS_ADAPTER, D3D12_RESOURCE_DESC, D3D12_RESOURCE_DIMENSION_BUFFER,
    D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
    D3D12_RESOURCE_STATE_COMMON, D3D12_TEXTURE_LAYOUT_ROW_MAJOR, ID3D12Device, ID3D12Device3,
    ID3D12Heap, ID3D12Resource,
};
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC};
use windows::Win32::System::Memory::{
    MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_READWRITE, VirtualQuery,
};
use windows::core::{GUID, Interface};

/// Returns the alignment that host memory needs to be mapped; none if the device maps none. A
/// region starts at a multiple of more than that, and only a region is mapped.
pub(crate) fn align_bytes(guarded: &Guarded) -> Option<u64> {
    // SAFETY: the device is asked, and nothing of it is destroyed.
    unsafe { guarded.device.as_hal::<Dx12>() }.map(drop)?;
    let try_import = |bytes, usages| import(bytes, usages, guarded);
    probe::maps(guarded, try_import).then(page_bytes)
}

/// Makes a buffer over host memory; none where DX12 takes it not.
pub(crate) fn import(bytes: HostBytes, usages: BufferUsages, guarded: &Guarded) -> Option<Buffer> {
    let device = &guarded.device;
    let len = bytes.len_bytes();
    // SAFETY: the device is asked, and nothing of it is destroyed.
    let raw = unsafe { device.as_hal::<Dx12>() }?;
    let made = placed(raw.raw_device(), bytes)?;
    drop(raw);
    let label = Some("rig host memory");
    let ask = BufferDescriptor { label, size: len, usage: usages, mapped_at_creation: false };
    // SAFETY: this device made the resource, of that length; host memory is initialised.
    let made = guarded.scoped(|| unsafe {
        let buffer = dx12::Device::buffer_from_raw(made, len);
        device.create_buffer_from_hal::<Dx12>(buffer, &ask)
    });
    made.ok()
}

/// Places a buffer in a heap over the memory, which lives as long as the buffer.
fn placed(device: &ID3D12Device, bytes: HostBytes) -> Option<ID3D12Resource> {
    // SAFETY: only where they are is asked for, and nothing is accessed.
    let start: *const c_void = unsafe { bytes.raw() }.0.cast_const().cast();
    if !is_region(start, bytes.len_bytes()) {
        return None;
    }
    let device: ID3D12Device3 = device.cast().ok()?;
    // SAFETY: a committed region of the system's starts there, which stays until the buffer is
    // released, after all its work.
    let heap: ID3D12Heap = unsafe { device.OpenExistingHeapFromAddress(start) }.ok()?;
    // SAFETY: the heap was just opened.
    let kind = unsafe { heap.GetDesc() };
    let mut flags = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
    if kind.Flags.contains(D3D12_HEAP_FLAG_SHARED_CROSS_ADAPTER) {
        flags |= D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER;
    }
    let ask = D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Alignment: 0,
        Width: bytes.len_bytes(),
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_UNKNOWN,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        Flags: flags,
    };
    // SAFETY: the device is open, and the description is whole.
    let needs = unsafe { device.GetResourceAllocationInfo(0, &[ask]) };
    if needs.SizeInBytes > kind.SizeInBytes {
        return None;
    }
    let mut made: Option<ID3D12Resource> = None;
    let state = D3D12_RESOURCE_STATE_COMMON;
    // SAFETY: the heap is large enough, and it lives as long as the resource by what follows; a
    // resource for which that fails goes before the heap.
    unsafe {
        device.CreatePlacedResource(&heap, 0, &ask, state, None, &mut made).ok()?;
        let made = made?;
        made.SetPrivateDataInterface(&HEAP, &heap).ok()?;
        Some(made)
    }
}

/// Whether a region of the system's own starts there, of at least these bytes, all writable.
fn is_region(start: *const c_void, len: u64) -> bool {
    let mut region = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: the system is asked about an address, and the answer has room.
    let told = unsafe { VirtualQuery(Some(start), &mut region, size_of_val(&region)) };
    told != 0
        && region.AllocationBase.cast_const() == start
        && region.BaseAddress.cast_const() == start
        && region.RegionSize as u64 >= len
        && region.State == MEM_COMMIT
        && region.Protect == PAGE_READWRITE
}

/// By what name a buffer keeps its heap; made up once for this.
const HEAP: GUID = GUID::from_u128(0x5d0c_21f4_7a53_4f0e_9b0a_6f2d_8c41_e7b3);
