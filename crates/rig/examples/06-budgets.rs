//! Budgets: a device never holds more than it may, and takes memory back before it gives up.
//!
//! The rules are S10.3, S10.6, S10.8, S10.11, S10.12 and S11.1 of SEMANTICS.md.

use rig::{Buffer, Device, Error, Result};
use std::sync::{Arc, Mutex};

fn main() -> Result<()> {
    // A memory device has no budget of its own, so the program sets one.
    let device = rig::memory::open("M")?;
    assert_eq!(device.budget(), u64::MAX);
    device.set_budget(4 * MIB)?;
    stay_within(&device)?;
    find_no_room(&device)?;

    // Statistics are plain data, for one device or for all. What was just let go of counts as live
    // until a call takes it up, such as a trim.
    device.trim()?;
    let stats = rig::stats();
    let found = stats.devices.iter().find(|found| *found.name == *device.name());
    let found = found.expect("an open device has statistics");
    assert!(found.peak_held_bytes <= 4 * MIB);
    assert_eq!(found.kind_counts.iter().sum::<u64>() + 3, found.requested_count);
    println!("\n{found}");
    Ok(())
}

fn stay_within(device: &Device) -> Result<()> {
    // What is live, on its way back or cached is held, and never more than the budget. Sizes that
    // differ by less than an eighth serve one another.
    for round in 0..1_000 {
        device.create_buffer(MIB - round % 10 * 10_000)?;
        assert!(device.held() <= 4 * MIB);
    }
    assert_eq!(device.stats().actual_count, 1, "one allocation served them all");

    // Cached memory counts as held. A trim gives back what recent use says nobody needs, which is
    // nothing so soon. A lower budget gives back what is above it, and this all of it.
    device.trim()?;
    assert_eq!(device.cached(), MIB);
    device.free_cache()?;
    assert_eq!((device.cached(), device.held()), (0, 0));
    Ok(())
}

fn find_no_room(device: &Device) -> Result<()> {
    // A request that can never fit is refused at once, and costs the cache nothing.
    let refused = device.create_buffer(5 * MIB).expect_err("it can never fit");
    println!("5 MiB: {refused}");
    assert!(matches!(&refused, Error::OutOfMemory { report, .. } if report.rounds.is_empty()));

    // One that could fit is refused only after three rounds. The report says what each returned
    // and what keeps the rest, by the labels that the program gave.
    let _weights = device.buffer(3 * MIB).label("weights").create()?;
    let _scratch = device.buffer(MIB / 2).label("scratch").create()?;
    let Err(Error::OutOfMemory { report, .. }) = device.create_buffer(MIB) else {
        panic!("3.5 of 4 MiB are live, so 1 MiB does not fit");
    };
    println!("\n{report}");
    assert_eq!(report.rounds.len(), 3);
    assert_eq!(&*report.labels[0].label, "weights");

    // A program that keeps memory it could do without registers a collector, which rounds two and
    // three call. Here it is a cache of the program's own, with one entry.
    let entries: Arc<Mutex<Vec<Buffer>>> = Arc::default();
    let spare = device.create_buffer(MIB / 2)?;
    entries.lock().expect("nobody panicked").push(spare);
    let reached = Arc::clone(&entries);
    let collector = rig::add_collector(move || {
        // A collector drops what it can spare. It must not wait for a lock that is held elsewhere.
        if let Ok(mut entries) = reached.try_lock() {
            entries.clear();
        }
    });
    let served = device.create_buffer(MIB / 2)?;
    assert!(entries.lock().expect("nobody panicked").is_empty());
    println!("the collector made room for {served:?}");
    drop(collector);

    // The form that never waits makes one try, and says so.
    let now = device.create_buffer_now(MIB).expect_err("all is in use");
    println!("without waiting: {now}");

    // An error keeps no memory, so once something is let go of, asking again fits.
    drop(served);
    let smaller = device.create_buffer(MIB / 2)?;
    assert_eq!(device.held(), 4 * MIB);
    drop(smaller);
    Ok(())
}

const MIB: u64 = 1 << 20;
