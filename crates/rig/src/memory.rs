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
pub async fn open_async(name: &str) -> Result<Device> {
    Device::open_async(name, opener(Options::default())).await
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
mod tests {
    use crate::buffer::Buffer;
    use crate::device::host;
    use crate::error::Result;
    use crate::life;
    use crate::wrap::wrap;
    use std::sync::Arc;
    use std::thread;

    /// Writes in place and by bytes, and reads both back; whole, in part, and typed.
    fn goes_there_and_back(buffer: &Buffer) -> Result<()> {
        buffer.write(|bytes| bytes.fill(1))?;
        buffer.write_as::<u32, _>(|words| words[1] = 7)?;
        let part = buffer.view(4, 5)?;
        assert_eq!(part.read(<[u8]>::to_vec)?, [7, 0, 0, 0, 1]);
        buffer.blit_from(3, &[9; 3])?;
        let mut seen = [0; 8];
        buffer.blit_to(0, &mut seen)?;
        assert_eq!(seen, [1, 1, 1, 9, 9, 9, 0, 0]);
        let export = part.export()?;
        part.fill(5)?;
        let mut out = [0; 5];
        export.copy_out(0, &mut out)?;
        assert_eq!(out, [5; 5]);
        Ok(())
    }

    #[test]
    fn s6_1_the_host_reads_and_writes_in_place_whatever_memory_it_addresses() {
        goes_there_and_back(&host().create_buffer(64).unwrap()).unwrap();
        goes_there_and_back(&wrap(vec![0_u64; 8])).unwrap();
        let device = crate::memory::open("s6_1 in place").unwrap();
        goes_there_and_back(&device.create_buffer(64).unwrap()).unwrap();
        device.close().unwrap();
    }

    #[test]
    fn s9_5_what_a_drain_had_in_its_hands_at_a_loss_enters_no_cache() {
        let device = crate::memory::open("s9_5 in hands").unwrap();
        let owner = &device.owner;
        let buffer = device.create_buffer(4096).unwrap();
        let record = Arc::clone(buffer.at.record());
        thread::scope(|threads| {
            let heap = owner.heap.lock();
            drop(buffer);
            let draining = threads.spawn(|| life::drain(owner));
            // It waits for the heap soon after that.
            while !record.is_returning() {
                thread::yield_now();
            }
            (0..100).for_each(|_| thread::yield_now());
            assert!(owner.track.lose(&Arc::from("unplugged")));
            owner.track.settle();
            drop(heap);
            draining.join().unwrap();
        });
        assert_eq!((device.cached(), device.held()), (0, 0));
    }
}
