//! Host memory that a Vulkan device maps, by `VK_EXT_external_memory_host`.
//!
//! wgpu knows nothing of it: the extension is added while the device is opened, the memory is
//! imported by Vulkan itself, and wgpu is handed the buffer, which it owns from then on. The
//! memory's type is always one that needs no flush.

use crate::bytes::HostBytes;
use crate::driver::Fault;
use crate::drivers::wgpu::guarded::Guarded;
use ::wgpu::hal::api::Vulkan;
use ::wgpu::hal::vulkan;
use ::wgpu::{Adapter, Buffer, BufferDescriptor, BufferUsages, Device, DeviceDescriptor, Queue};
use ash::ext::{external_memory_host, memory_budget};
use ash::vk;

/// Opens an adapter so that it maps host memory, if it can.
pub(crate) fn open(
    adapter: &Adapter,
    ask: &DeviceDescriptor<'_>,
) -> Option<Result<(Device, Queue), Fault>> {
    // SAFETY: the adapter is asked, and nothing of it is destroyed.
    let raw = unsafe { adapter.as_hal::<Vulkan>() }?;
    let (instance, physical) = (raw.shared_instance().raw_instance(), raw.raw_physical_device());
    // SAFETY: the instance and its physical device live as long as the adapter.
    let (properties, extensions) = unsafe {
        let properties = instance.get_physical_device_properties(physical);
        (properties, instance.enumerate_device_extension_properties(physical).ok()?)
    };
    let is_it = |extension: &vk::ExtensionProperties| {
        extension.extension_name_as_c_str() == Ok(external_memory_host::NAME)
    };
    if properties.api_version < vk::API_VERSION_1_1 || !extensions.iter().any(is_it) {
        return None;
    }
    let (features, limits) = (ask.required_features, &ask.required_limits);
    // SAFETY: the callback adds an extension that the device offers, which needs Vulkan 1.1 alone;
    // the features and limits are the adapter's own.
    let opened = unsafe {
        raw.open_with_callback(
            features,
            limits,
            &ask.memory_hints,
            Some(Box::new(|args| args.extensions.push(external_memory_host::NAME))),
        )
    };
    drop(raw);
    Some(match opened {
        // SAFETY: the device was just opened by this adapter, with the features asked for.
        Ok(opened) => unsafe { adapter.create_device_from_hal(opened, ask) }
            .map_err(|error| Fault::new(error.to_string())),
        Err(error) => Err(Fault::new(error.to_string())),
    })
}

/// Returns the alignment that host memory needs to be mapped; none if the device maps none.
pub(crate) fn align_bytes(guarded: &Guarded) -> Option<u64> {
    // SAFETY: the device is asked, and nothing of it is destroyed.
    let raw = unsafe { guarded.device.as_hal::<Vulkan>() }?;
    if !raw.enabled_device_extensions().contains(&external_memory_host::NAME) {
        return None;
    }
    let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
    let (instance, physical) = (raw.shared_instance().raw_instance(), raw.raw_physical_device());
    // SAFETY: the instance and its physical device live as long as the device.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    Some(host.min_imported_host_pointer_alignment)
}

/// Returns the bytes of the device's own memory that this process may use, or that there are where
/// the driver does not say more.
pub(crate) fn memory_bytes(device: &Device) -> Option<u64> {
    // SAFETY: as in `align_bytes`.
    let raw = unsafe { device.as_hal::<Vulkan>() }?;
    let (instance, physical) = (raw.shared_instance().raw_instance(), raw.raw_physical_device());
    let says_budget = raw.enabled_device_extensions().contains(&memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut asked = vk::PhysicalDeviceMemoryProperties2::default();
    if says_budget {
        asked = asked.push_next(&mut budget);
    }
    let properties = match says_budget {
        // SAFETY: the instance and its physical device live as long as the device, whose extension
        // needs a version that has this call.
        true => unsafe {
            instance.get_physical_device_memory_properties2(physical, &mut asked);
            asked.memory_properties
        },
        // SAFETY: as above.
        false => unsafe { instance.get_physical_device_memory_properties(physical) },
    };
    let heaps = properties.memory_heaps_as_slice().iter().zip(budget.heap_budget);
    let own = heaps.filter(|(heap, _)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    own.map(|(heap, budget)| if budget > 0 { budget.min(heap.size) } else { heap.size }).max()
}

fn memory_properties(device: &Device) -> Option<vk::PhysicalDeviceMemoryProperties> {
    // SAFETY: as in `align_bytes`.
    let raw = unsafe { device.as_hal::<Vulkan>() }?;
    let (instance, physical) = (raw.shared_instance().raw_instance(), raw.raw_physical_device());
    // SAFETY: the instance and its physical device live as long as the device.
    Some(unsafe { instance.get_physical_device_memory_properties(physical) })
}

/// Makes a buffer over host memory; none where Vulkan takes it not.
pub(crate) fn import(bytes: HostBytes, usages: BufferUsages, guarded: &Guarded) -> Option<Buffer> {
    let device = &guarded.device;
    let types = memory_properties(device)?;
    // SAFETY: as in `align_bytes`; what is made below is handed to wgpu, or destroyed here.
    let raw = unsafe { device.as_hal::<Vulkan>() }?;
    let imported = Imported::new(bytes, usages, &raw, &types)?;
    drop(raw);
    let len = bytes.len_bytes();
    let ask = BufferDescriptor {
        label: Some("rig host memory"),
        size: len,
        usage: usages,
        mapped_at_creation: false,
    };
    // SAFETY: the buffer covers the memory, which both are wgpu's from here on. Both were made by
    // this device for these usages; host memory is initialised.
    let made = guarded.scoped(|| unsafe {
        let buffer = vulkan::Buffer::from_raw_managed(imported.buffer, imported.memory, 0, len);
        device.create_buffer_from_hal::<Vulkan>(buffer, &ask)
    });
    made.ok()
}

/// A Vulkan buffer over imported memory.
struct Imported {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
}

impl Imported {
    fn new(
        bytes: HostBytes,
        usages: BufferUsages,
        raw: &vulkan::Device,
        types: &vk::PhysicalDeviceMemoryProperties,
    ) -> Option<Self> {
        let (device, len) = (raw.raw_device(), bytes.len_bytes());
        let instance = raw.shared_instance().raw_instance();
        // SAFETY: only where they are is asked for, and nothing is accessed.
        let start = unsafe { bytes.raw() }.0.cast();
        let host = external_memory_host::Device::new(instance, device);
        let mut pointer = vk::MemoryHostPointerPropertiesEXT::default();
        let ask = host.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the extension is enabled, and the pointer is a multiple of its alignment.
        let asked = unsafe { ask(device.handle(), HOST, start, &mut pointer) };
        asked.result().ok()?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HOST);
        let ask = vk::BufferCreateInfo::default()
            .size(len)
            .usage(usage_flags(usages))
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .push_next(&mut external);
        // SAFETY: the device is open.
        let buffer = unsafe { device.create_buffer(&ask, None) }.ok()?;
        // SAFETY: the buffer was just made.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer) };
        let bits = needs.memory_type_bits & pointer.memory_type_bits;
        let memory = pick(types, bits).filter(|_| needs.size <= len).and_then(|index| {
            let mut import =
                vk::ImportMemoryHostPointerInfoEXT::default().handle_type(HOST).host_pointer(start);
            let ask = vk::MemoryAllocateInfo::default()
                .allocation_size(len)
                .memory_type_index(index)
                .push_next(&mut import);
            // SAFETY: the memory stays until the region is released, after all its work.
            unsafe { device.allocate_memory(&ask, None) }.ok()
        });
        let Some(memory) = memory else {
            // SAFETY: nobody has the buffer yet.
            unsafe { device.destroy_buffer(buffer, None) };
            return None;
        };
        // SAFETY: both were just made, and the memory is as large as the buffer needs.
        if unsafe { device.bind_buffer_memory(buffer, memory, 0) }.is_err() {
            // SAFETY: nobody has them yet.
            unsafe {
                device.destroy_buffer(buffer, None);
                device.free_memory(memory, None);
            }
            return None;
        }
        Some(Self { buffer, memory })
    }
}

/// Picks a memory type of those in `bits` that needs no flush.
fn pick(types: &vk::PhysicalDeviceMemoryProperties, bits: u32) -> Option<u32> {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let fits = |(index, kind): &(u32, &vk::MemoryType)| {
        bits & (1 << index) != 0 && kind.property_flags.contains(coherent)
    };
    (0..).zip(types.memory_types_as_slice()).find(fits).map(|(index, _)| index)
}

fn usage_flags(usages: BufferUsages) -> vk::BufferUsageFlags {
    let known = [
        (BufferUsages::COPY_SRC, vk::BufferUsageFlags::TRANSFER_SRC),
        (BufferUsages::COPY_DST, vk::BufferUsageFlags::TRANSFER_DST),
        (BufferUsages::STORAGE, vk::BufferUsageFlags::STORAGE_BUFFER),
    ];
    let has = |(usage, _): &(BufferUsages, _)| usages.contains(*usage);
    known
        .into_iter()
        .filter(has)
        .map(|(_, flag)| flag)
        .fold(vk::BufferUsageFlags::empty(), |all, flag| all | flag)
}

const HOST: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
