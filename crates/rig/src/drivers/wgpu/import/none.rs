//! Host memory that a device maps: none, on platforms where wgpu offers no way.

use crate::bytes::HostBytes;
use crate::driver::Fault;
use crate::drivers::wgpu::guarded::Guarded;
use ::wgpu::{Adapter, Buffer, BufferUsages, Device, DeviceDescriptor, Queue};

/// Opens an adapter so that it maps host memory, if it can.
pub(crate) fn open(
    _: &Adapter,
    _: &DeviceDescriptor<'_>,
) -> Option<Result<(Device, Queue), Fault>> {
    None
}

/// Returns the alignment that host memory needs to be mapped; none if the device maps none.
pub(crate) fn align_bytes(_: &Guarded) -> Option<u64> {
    None
}

/// Returns the bytes of the device's own memory, if the platform says.
pub(crate) fn memory_bytes(_: &Device) -> Option<u64> {
    None
}

/// Makes a buffer over host memory.
pub(crate) fn import(_: HostBytes, _: BufferUsages, _: &Guarded) -> Option<Buffer> {
    None
}
