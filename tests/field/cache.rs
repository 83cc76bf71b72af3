//! Inputs about the cache: many tiny buffers, and sizes that grow.

use rig::memory;
use rig::{Bins, Buffer, CacheOptions, Device};
use rig_support::drain;
use std::time::{Duration, Instant};

/// What a cache may hold however little was live (S9.10).
const LEAST_CACHED: u64 = 32 << 20;

fn tiny(device: &Device, count: u64) -> Vec<Buffer> {
    (0..count).map(|_| device.create_buffer(1).unwrap()).collect()
}

#[test]
fn s9_10_three_hundred_thousand_one_byte_buffers_stay_in_count_and_bytes() {
    let device = memory::open("tiny ones").unwrap();
    for batch in 1..=300 {
        let live = tiny(&device, 1_000);
        assert_eq!(device.held(), 512_000, "batch {batch}");
        drop(live);
        drain(&device);
        assert_eq!((device.cached(), device.held()), (512_000, 512_000), "batch {batch}");
    }
    assert_eq!(device.stats().kind_counts, [299_000, 1_000, 0, 0]);
    device.close().unwrap();
}

#[test]
fn s9_10_three_hundred_thousand_one_byte_buffers_at_once_take_linear_time() {
    let mut options = CacheOptions::default();
    options.bins = Bins::Pow2;
    let opener = memory::opener(memory::Options::default());
    let device = Device::open_with("tiny ones at once", opener, options).unwrap();
    let timed = |count: u64| {
        let begun = Instant::now();
        let live = tiny(&device, count);
        assert_eq!(device.held(), count);
        drop(live);
        drain(&device);
        assert!(device.cached() <= count);
        device.free_cache().unwrap();
        assert_eq!(device.held(), 0);
        begun.elapsed()
    };
    let few = timed(20_000).max(Duration::from_millis(1));
    let many = timed(300_000);
    // 15 times as many: a quadratic path takes 225 times as long.
    assert!(many < 75 * few, "20,000 took {few:?}, 300,000 took {many:?}");
    device.close().unwrap();
}

#[test]
fn s9_10_sizes_that_grow_by_a_hundredth_hit_the_cache_and_stay_within_the_stated_waste() {
    let device = memory::open("growing").unwrap();
    let (mut len, mut rounds, mut greatest) = (20_u64 << 20, 0, 0);
    while len < 100 << 20 {
        let live = device.create_buffer(len).unwrap();
        let stats = device.stats();
        greatest = greatest.max(stats.live_bytes);
        let most = (greatest / 4 * 5).max(stats.live_bytes + LEAST_CACHED);
        assert!(stats.held_bytes <= most, "{} of {most} held at {len}", stats.held_bytes);
        drop(live);
        drain(&device);
        rounds += 1;
        len += len / 100;
    }
    // From 20 to 100 MiB there are 19 bins.
    let [hits, made, ..] = device.stats().kind_counts;
    assert_eq!(hits + made, rounds);
    assert!(made <= 20, "{made} of {rounds} came from the driver");
    device.close().unwrap();
}
