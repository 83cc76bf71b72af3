//! S9.9 and S9.10 on whole devices: when a larger bin serves, and what an allocation pushes out.

use rig::{Buffer, Device};

/// Opens a device whose cache holds one entry of 72 KiB, a near-fit of 64 KiB.
fn with_entry(name: &str) -> Device {
    let device = rig::memory::open(name).unwrap();
    drop(device.create_buffer(72 << 10).unwrap());
    device.set_budget(1 << 20).unwrap();
    device
}

/// Creates 64 KiB and says whether the cache served them.
fn is_served_by_cache(device: &Device) -> bool {
    let before = device.stats().kind_counts[0];
    let _made: Buffer = device.create_buffer(64 << 10).unwrap();
    device.stats().kind_counts[0] > before
}

#[test]
fn s9_9_a_larger_bin_serves_while_at_most_half_the_budget_is_live() {
    let device = with_entry("near fit, half live");
    let _live = device.create_buffer(512 << 10).unwrap();
    assert!(is_served_by_cache(&device));
}

#[test]
fn s9_9_no_larger_bin_serves_once_more_than_half_the_budget_is_live() {
    let device = with_entry("near fit, more than half live");
    let _live = device.create_buffer((512 << 10) + 1).unwrap();
    assert!(!is_served_by_cache(&device));
    assert_eq!(device.cached(), 72 << 10, "the larger entry stays");
}

#[test]
fn s9_10_what_the_driver_makes_pushes_out_what_the_cache_holds_on_top() {
    let device = rig::memory::open("near fit, pushed out").unwrap();
    let mib = |count: u64| device.create_buffer(count << 20).unwrap();
    drop([(); 8].map(|()| mib(16)));
    device.set_budget(u64::MAX).unwrap();
    assert_eq!(device.cached(), 128 << 20, "within 1.15 times the greatest that were live");
    let _other = mib(96);
    assert_eq!(device.cached(), 48 << 20, "the most of 16 MiB each beside 96 of 1.15 times 128");
}
