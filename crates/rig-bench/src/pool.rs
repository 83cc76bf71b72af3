//! CubeCL's pools over a storage that allocates nothing, as rig's benches run over a driver that
//! does nothing. Without the lock or channel through which CubeCL reaches them.

use cubecl_runtime::memory_management::{
    MemoryConfiguration, MemoryDeviceProperties, MemoryManagement, SliceHandle,
};
use cubecl_runtime::storage::{ComputeStorage, StorageHandle, StorageId, StorageUtilization};
use std::collections::HashMap;

/// A pool.
pub(crate) struct Pool {
    management: MemoryManagement<Counted>,
    reserved_count: u64,
}

impl Pool {
    /// Makes a pool in which each buffer has pages of its own.
    pub(crate) fn exclusive() -> Self {
        Self::new(MemoryConfiguration::ExclusivePages)
    }

    /// Makes a pool in which buffers share pages, in sizes that CubeCL chooses.
    pub(crate) fn adaptive() -> Self {
        Self::new(MemoryConfiguration::SubSlices)
    }

    fn new(configuration: MemoryConfiguration) -> Self {
        let properties = MemoryDeviceProperties { max_page_size: PAGE_MAX_BYTES, alignment: 256 };
        let storage = Counted::default();
        let management = MemoryManagement::from_configuration(storage, &properties, configuration);
        Self { management, reserved_count: 0 }
    }

    /// Reserves memory, and lets the pool return what it no longer needs every 32 times: about
    /// once a submission of CubeCL, which is 32 tasks.
    pub(crate) fn reserve(&mut self, len: u64) -> SliceHandle {
        self.reserved_count += 1;
        if self.reserved_count.is_multiple_of(32) {
            self.management.cleanup(false);
        }
        self.management.reserve(len, None)
    }

    /// Returns the most bytes that it held at once.
    pub(crate) fn peak_held_bytes(&mut self) -> u64 {
        self.management.storage().peak_bytes
    }
}

/// A storage of numbers.
#[derive(Default)]
struct Counted {
    sizes: HashMap<StorageId, u64>,
    held_bytes: u64,
    peak_bytes: u64,
}

impl ComputeStorage for Counted {
    type Resource = ();

    fn alignment(&self) -> usize {
        256
    }

    fn get(&mut self, _: &StorageHandle) {}

    fn alloc(&mut self, size: u64) -> StorageHandle {
        let id = StorageId::new();
        self.sizes.insert(id, size);
        self.held_bytes += size;
        self.peak_bytes = self.peak_bytes.max(self.held_bytes);
        StorageHandle::new(id, StorageUtilization { offset: 0, size })
    }

    fn dealloc(&mut self, id: StorageId) {
        self.held_bytes -= self.sizes.remove(&id).unwrap_or_default();
    }
}

/// The largest page, of which the adaptive pool derives its others: above the largest allocation
/// of the traces.
pub(crate) const PAGE_MAX_BYTES: u64 = 1 << 31;
