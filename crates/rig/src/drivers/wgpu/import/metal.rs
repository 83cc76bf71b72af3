//! Host memory that a Metal device maps, by a buffer over bytes without a copy.
//!
//! Checked by the compiler, and not run so far. The memory is shared, so the host sees what the
//! device wrote once the work is complete, and nothing is flushed.

use crate::bytes::{HostBytes, page_bytes};
use crate::driver::Fault;
use crate::drivers::wgpu::guarded::Guarded;
use crate::drivers::wgpu::probe;
use ::wgpu::hal::api::Metal;
use ::wgpu::hal::metal;
use ::wgpu::{Adapter, Buffer, BufferDescriptor, BufferUsages, Device, DeviceDescriptor, Queue};
use objc2_metal::{MTLDevice, MTLResourceOptions};
use std::ptr::NonNull;

/// Opens an adapter so that it maps host memory: every Metal device does, however it was opened.
pub(crate) fn open(
    _: &Adapter,
    _: &DeviceDescriptor<'_>,
) -> Option<Result<(Device, Queue), Fault>> {
    None
}

/// Returns the alignment that host memory needs to be mapped, a page; none if the device shows in a
/// trial that it maps none.
pub(crate) fn align_bytes(guarded: &Guarded) -> Option<u64> {
    // SAFETY: the device is asked, and nothing of it is destroyed.
    unsafe { guarded.device.as_hal::<Metal>() }.map(drop)?;
    let try_import = |bytes, usages| import(bytes, usages, guarded);
    probe::maps(guarded, try_import).then(page_bytes)
}

/// Returns the bytes that the device works well with.
pub(crate) fn memory_bytes(device: &Device) -> Option<u64> {
    // SAFETY: the device is asked, and nothing of it is destroyed.
    let raw = unsafe { device.as_hal::<Metal>() }?;
    Some(raw.raw_device().recommendedMaxWorkingSetSize()).filter(|bytes| *bytes > 0)
}

/// Makes a buffer over host memory; none where Metal takes it not.
pub(crate) fn import(bytes: HostBytes, usages: BufferUsages, guarded: &Guarded) -> Option<Buffer> {
    let device = &guarded.device;
    let len = bytes.len_bytes();
    // SAFETY: only where they are is asked for, and nothing is accessed.
    let start = NonNull::new(unsafe { bytes.raw() }.0)?;
    // SAFETY: the device is asked, and nothing of it is destroyed.
    let raw = unsafe { device.as_hal::<Metal>() }?;
    let options = MTLResourceOptions::StorageModeShared;
    // SAFETY: whole pages from a page's start, which stay until the region is released, after all
    // its work. Nobody is told when the buffer goes.
    let made = unsafe {
        raw.raw_device().newBufferWithBytesNoCopy_length_options_deallocator(
            start.cast(),
            usize::try_from(len).ok()?,
            options,
            None,
        )
    }?;
    drop(raw);
    let label = Some("rig host memory");
    let ask = BufferDescriptor { label, size: len, usage: usages, mapped_at_creation: false };
    // SAFETY: this device made the buffer, of that length; host memory is initialised.
    let made = guarded.scoped(|| unsafe {
        let buffer = metal::Device::buffer_from_raw(made, len);
        device.create_buffer_from_hal::<Metal>(buffer, &ask)
    });
    made.ok()
}
