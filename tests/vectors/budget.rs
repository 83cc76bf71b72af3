//! Vectors H and H': a budget of 1 MiB on a memory device.

use crate::scene::alone;
use rig::{Buffer, Device, Error, Report, add_collector, memory};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
const QUARTER: u64 = MIB / 4;

/// Ends a memory device when a vector ends, so that the next one may have its name.
struct Memory(Device);

impl Memory {
    /// Opens M, and runs row 1.
    fn of_1_mib() -> Self {
        let m = memory::open("M").unwrap();
        assert_eq!(m.budget(), u64::MAX);
        m.set_budget(MIB).unwrap();
        assert_eq!(m.budget(), 1_048_576);
        Self(m)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.device_lost("the test is over");
    }
}

/// Takes an OutOfMemory apart: bytes asked, bytes held, the report.
fn out_of_memory(answer: rig::Result<Buffer>) -> (u64, u64, Arc<Report>) {
    match answer {
        Err(Error::OutOfMemory { asked_bytes, held_bytes, report, .. }) => {
            (asked_bytes, held_bytes, report)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn s14_h_a_budget_of_1_mib() {
    let _alone = alone();
    let m = Memory::of_1_mib();
    let create = |bytes| m.0.create_buffer(bytes);

    let (asked, _, report) = out_of_memory(create(2 * MIB));
    assert_eq!((asked, report.rounds.len()), (2_097_152, 0));

    for _ in 0..100 {
        drop(create(QUARTER).unwrap());
    }
    let stats = m.0.stats();
    assert_eq!((stats.kind_counts, stats.actual_count), ([99, 1, 0, 0], 1));

    let live: Vec<Buffer> = (0..4).map(|_| create(QUARTER).unwrap()).collect();
    assert_eq!(m.0.stats().kind_counts, [100, 4, 0, 0], "the first is from the cache");

    let (asked, held, report) = out_of_memory(create(QUARTER));
    assert_eq!((asked, held, report.live_bytes), (262_144, 1_048_576, 1_048_576));
    let returned: Vec<u64> = report.rounds.iter().map(|round| round.returned_bytes).collect();
    assert_eq!(returned, [0, 0, 0]);

    let freed = m.0.stats().freed_count;
    drop(live);
    let whole = create(MIB).unwrap();
    let stats = m.0.stats();
    assert_eq!((stats.kind_counts, stats.freed_count - freed), ([100, 4, 0, 1], 4));
    assert_eq!((whole.len(), m.0.held()), (MIB, MIB));
}

#[test]
fn s14_h_buffers_that_only_a_collector_keeps_come_back_in_rounds() {
    let _alone = alone();
    let m = Memory::of_1_mib();
    let garbage: Arc<Mutex<Vec<Buffer>>> = Arc::default();
    let runs = Arc::new(AtomicU64::new(0));
    let collector = add_collector({
        let (garbage, runs) = (Arc::clone(&garbage), Arc::clone(&runs));
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            garbage.lock().unwrap().clear();
        }
    });
    for _ in 0..100 {
        let forgotten = m.0.create_buffer(QUARTER).unwrap();
        garbage.lock().unwrap().push(forgotten);
        assert!(m.0.held() <= MIB);
    }
    assert!(m.0.stats().peak_held_bytes <= MIB);
    // Each fifth create finds the four before it with the collector alone.
    assert_eq!(runs.swap(0, Ordering::Relaxed), 24);

    garbage.lock().unwrap().clear();
    let live: Vec<Buffer> = (0..4).map(|_| m.0.create_buffer(QUARTER).unwrap()).collect();
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    let (_, held, report) = out_of_memory(m.0.create_buffer(QUARTER));
    assert_eq!((held, report.rounds.len()), (MIB, 3));
    assert_eq!(runs.load(Ordering::Relaxed), 2, "in rounds 2 and 3");
    drop((live, collector));
}
