//! S9.7 to S9.15, and S15 "Cache": bins, what serves, what goes first, and what steady use costs.

use crate::bench::misuse;
use rig::driver::Addressed;
use rig::{Bins, Buffer, CacheOptions, Device, Misuse};
use rig_support::{Call, Opened, Script, drain};

const MIB: u64 = 1 << 20;

fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

fn options(change: impl FnOnce(&mut CacheOptions)) -> CacheOptions {
    let mut options = CacheOptions::default();
    change(&mut options);
    options
}

/// What a buffer of this length is charged.
fn charged(device: &Device, len: u64) -> u64 {
    let before = device.held();
    let buffer = device.create_buffer(len).unwrap();
    let bytes = device.held() - before;
    buffer.free().unwrap();
    device.free_cache().unwrap();
    bytes
}

#[test]
fn s9_7_bins_waste_less_than_an_eighth() {
    let d = open("s9.7 eighths");
    for (len, bytes) in [
        (1, 512),
        (512, 512),
        (513, 576),
        (576, 576),
        (577, 640),
        (1025, 1152),
        (65_537, 73_728),
        (1_000_000, 1_048_576),
        ((1 << 26) + 1, 75_497_472),
        (104_857_600, 109_051_904),
        (104_857_601, 104_857_601),
    ] {
        assert_eq!(charged(&d, len), bytes, "{len}");
    }
    let mut len = 513;
    while len < 1 << 24 {
        let waste = charged(&d, len) - len;
        assert!(waste * 8 < len, "{len} bytes waste {waste}");
        len += len / 7 + 1;
    }
}

#[test]
fn s9_7_bins_may_be_powers_of_two_from_1_byte() {
    let d = open("s9.7 powers");
    d.set_cache(options(|options| options.bins = Bins::Pow2)).unwrap();
    for (len, bytes) in [(1, 1), (3, 4), (512, 512), (1025, 2048), (104_857_600, 134_217_728)] {
        assert_eq!(charged(&d, len), bytes, "{len}");
    }
}

#[test]
fn s9_8_lengths_are_rounded_to_the_drivers_grain() {
    let script = Script::new("s9.8 grain").facts(|facts| facts.grain_bytes = 256);
    let d = script.addressed(Addressed::Always).open();
    d.set_cache(options(|options| options.bin_max_bytes = 1000)).unwrap();
    assert_eq!(charged(&d, 1001), 1024, "exact sizes are multiples of the grain");
    assert_eq!(charged(&d, 2049), 2304);
    assert_eq!(charged(&d, 600), 768);
}

#[test]
fn s9_8_above_the_bin_maximum_a_request_gets_just_that_and_serves_only_that() {
    let d = open("s9.8 exact");
    d.set_cache(options(|options| options.bin_max_bytes = MIB)).unwrap();
    drop(d.create_buffer(MIB + 77).unwrap());
    drain(&d);
    assert_eq!(d.cached(), MIB + 77);
    for other in [MIB + 76, MIB + 78, MIB] {
        d.create_buffer(other).unwrap();
        assert_eq!(d.stats().kind_counts[0], 0, "{other}");
    }
    d.create_buffer(MIB + 77).unwrap();
    assert_eq!(d.stats().kind_counts[0], 1);
}

#[test]
fn s9_8_an_exact_size_is_cached_only_within_budget() {
    let d = open("s9.8 budget");
    d.set_cache(options(|options| options.bin_max_bytes = 1000)).unwrap();
    let (x, y) = (d.create_buffer(5000).unwrap(), d.create_buffer(6000).unwrap());
    d.set_budget(10_999).unwrap();
    drop(x);
    drain(&d);
    assert_eq!((d.cached(), d.held()), (0, 6000));
    drop(y);
    drain(&d);
    assert_eq!(d.cached(), 6000);
}

/// Where the host finds a buffer's bytes: which allocation serves.
fn address(buffer: &Buffer) -> u64 {
    buffer.read(|bytes| bytes.as_ptr() as u64).unwrap()
}

#[test]
fn s9_9_a_bin_serves_newest_first() {
    let d = open("s9.9 newest");
    let made: Vec<Buffer> = (0..3).map(|_| d.create_buffer(MIB).unwrap()).collect();
    let at: Vec<u64> = made.iter().map(address).collect();
    for buffer in made {
        drop(buffer);
        drain(&d);
    }
    let again: Vec<Buffer> = (0..3).map(|_| d.create_buffer(MIB).unwrap()).collect();
    let again: Vec<u64> = again.iter().map(address).collect();
    assert_eq!(again, [at[2], at[1], at[0]]);
}

#[test]
fn s9_9_an_empty_bin_is_served_by_the_nearest_larger_one_within_a_quarter() {
    let d = open("s9.9 near");
    let keep = |len: u64| {
        let buffer = d.create_buffer(len).unwrap();
        let at = address(&buffer);
        drop(buffer);
        drain(&d);
        at
    };
    d.set_cache(options(|options| options.near_fit = 1.0)).unwrap();
    let (_large, near) = (keep(1280), keep(1152));
    d.set_cache(options(|_| ())).unwrap();
    let held = d.held();
    let x = d.create_buffer(1024).unwrap();
    assert_eq!((address(&x), d.held(), d.stats().live_bytes), (near, held, 1152));
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), held, "it goes back to its own bin");
    drop(d.create_buffer(896).unwrap());
    assert_eq!(d.stats().kind_counts[0], 1, "1,152 is more than a quarter above 896");
    d.free_cache().unwrap();
    d.set_cache(options(|options| options.near_fit = 1.0)).unwrap();
    keep(1152);
    d.create_buffer(1024).unwrap();
    assert_eq!(d.stats().kind_counts[0], 1, "1 is the own bin only");
}

#[test]
fn s9_9_a_larger_bin_serves_only_while_half_the_budget_is_free() {
    let d = open("s9.9 half");
    drop(d.create_buffer(1152).unwrap());
    d.set_budget(4096).unwrap();
    let live = d.create_buffer(2048).unwrap();
    let near = d.create_buffer(1024).unwrap();
    assert_eq!(d.stats().kind_counts, [1, 2, 0, 0], "2,048 are half of the budget");
    drop(near);
    drop(live);
    drain(&d);
    let _live = d.create_buffer(2049).unwrap();
    assert_eq!(d.create_buffer(1024).map(drop).map(|()| d.stats().kind_counts[0]).unwrap(), 1);
}

/// Keeps the order in which the driver gets regions back, by their bytes.
fn freed(device: &Opened) -> Vec<u64> {
    device.control.calls(Call::Free).iter().map(|entry| entry.bytes).collect()
}

#[test]
fn s9_10_exact_sizes_go_first_then_the_others_each_oldest_first() {
    let d = open("s9.10 order");
    d.set_cache(options(|options| options.bin_max_bytes = 8192)).unwrap();
    let lens = [4096, 9001, 512, 9002, 8192];
    let made: Vec<Buffer> = lens.iter().map(|len| d.create_buffer(*len).unwrap()).collect();
    for buffer in made {
        drop(buffer);
        drain(&d);
    }
    for budget in [20_000, 12_800, 12_000, 8_192, 0] {
        d.set_budget(budget).unwrap();
        assert!(d.held() <= budget);
    }
    assert_eq!(freed(&d), [9001, 9002, 4096, 512, 8192]);
}

#[test]
fn s9_10_a_cache_holds_32_mib_or_a_share_above_the_greatest_live_bytes() {
    let d = open("s9.10 bytes");
    let spike: Vec<Buffer> = (0..100).map(|_| d.create_buffer(MIB).unwrap()).collect();
    drop(spike);
    drain(&d);
    assert_eq!(d.cached(), 100 * MIB, "within the greatest live bytes");
    let others: Vec<Buffer> = (0..25).map(|_| d.create_buffer(2 * MIB).unwrap()).collect();
    assert_eq!(d.held(), 115 * MIB, "what the driver makes pushes out too");
    drop(others);
    drain(&d);
    assert_eq!(d.held(), 115 * MIB, "0.15 above 100 MiB");
    d.set_cache(options(|options| options.cache_share = 0.0)).unwrap();
    drop(d.create_buffer(MIB).unwrap());
    drain(&d);
    assert_eq!(d.held(), 100 * MIB);
    let small = open("s9.10 little");
    for len in 1..200 {
        drop(small.create_buffer(len * 300_000).unwrap());
        drain(&small);
        assert!(small.cached() <= (32 * MIB).max(70_000_000), "{}", small.cached());
    }
}

#[test]
fn s9_10_a_cache_holds_4_096_entries_or_the_greatest_live_count() {
    let d = Script::new("s9.10 count").addressed(Addressed::Always).silent().open();
    // Each bin once, so that no entry serves another length: the count alone grows.
    let hold =
        |count: u64| -> Vec<Buffer> { (0..count).map(|_| d.create_buffer(1).unwrap()).collect() };
    drop(hold(5000));
    drain(&d);
    assert_eq!(d.cached(), 5000 * 512, "as many as were live");
    let some = hold(4000);
    let other: Vec<Buffer> = (0..1500).map(|_| d.create_buffer(600).unwrap()).collect();
    drop(other);
    drain(&d);
    drop(some);
    drain(&d);
    let entries = d.stats().actual_count - d.stats().freed_count;
    assert!(entries <= 5500, "{entries} entries");
    d.check_books();
}

#[test]
fn s9_14_trim_returns_what_six_scans_did_not_need_without_a_scan_of_its_own() {
    let d = open("s9.14");
    let spike: Vec<Buffer> = (0..4).map(|_| d.create_buffer(MIB).unwrap()).collect();
    drop(spike);
    drain(&d);
    for _ in 0..10 {
        assert_eq!(d.trim().unwrap(), Default::default(), "nothing goes before six scans");
    }
    assert_eq!(d.cached(), 4 * MIB);
}

#[test]
fn s9_15_the_options_are_those_of_open_and_set_cache_changes_them() {
    let (driver, _control) = Script::new("s9.15 options").addressed(Addressed::Always).build();
    let given = options(|options| {
        options.bins = Bins::Pow2;
        options.bin_max_bytes = 4096;
        options.near_fit = 2.0;
        options.cache_share = 0.5;
    });
    let opener = rig::Opener::new("scripted", move || Ok(driver));
    let d = Device::open_with("s9.15 options", opener, given).unwrap();
    assert_eq!(d.cache_options(), given);
    assert_eq!(charged(&d, 4097), 4097);
    assert_eq!(charged(&d, 3000), 4096);
    d.set_cache(CacheOptions::default()).unwrap();
    assert_eq!((charged(&d, 3000), d.cache_options()), (3072, CacheOptions::default()));
    for wrong in
        [options(|options| options.near_fit = 0.9), options(|options| options.cache_share = -1.0)]
    {
        assert!(matches!(misuse(d.set_cache(wrong)), Misuse::Option { .. }));
    }
    d.close().unwrap();
}

/// What the driver made.
fn made(device: &Device) -> u64 {
    device.stats().actual_count
}

#[test]
fn s15_cache_sizes_growing_by_1_reuse_bins() {
    let d = open("s15 growing");
    for len in 100_000..101_000 {
        drop(d.create_buffer(len).unwrap());
    }
    assert!(made(&d) <= 2, "{} allocations for 1,000 lengths", made(&d));
}

#[test]
fn s15_cache_random_sizes_in_a_band_converge() {
    let d = Script::new("s15 band").addressed(Addressed::Always).silent().open();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut live = std::collections::VecDeque::new();
    let mut turn = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        live.push_back(d.create_buffer(100_000 + state % 100_000).unwrap());
        if live.len() > 20 {
            live.pop_front();
        }
    };
    (0..2000).for_each(|_| turn());
    let before = made(&d);
    (0..2000).for_each(|_| turn());
    assert!(made(&d) - before <= 20, "{} more of 2,000", made(&d) - before);
}

#[test]
fn s15_cache_600_000_one_byte_buffers_stay_in_count() {
    let d = rig::memory::open("s15 one byte").unwrap();
    for _ in 0..600 {
        let some: Vec<Buffer> = (0..1000).map(|_| d.create_buffer(1).unwrap()).collect();
        drop(some);
    }
    drain(&d);
    let stats = d.stats();
    assert_eq!(stats.requested_count, 600_000);
    assert!(stats.actual_count <= 2000, "{} allocations", stats.actual_count);
    assert_eq!(stats.held_bytes, stats.cached_bytes);
}

#[test]
fn s15_cache_a_working_set_and_a_twentieth_causes_no_steady_driver_calls() {
    let d = Script::new("s15 steady").addressed(Addressed::Always).silent().open();
    d.set_budget(105 * MIB).unwrap();
    let mut set: Vec<Buffer> = (0..100).map(|_| d.create_buffer(MIB).unwrap()).collect();
    let turn = |set: &mut Vec<Buffer>, at: usize| {
        let at = at % set.len();
        set.swap_remove(at);
        set.push(d.create_buffer(MIB - at as u64).unwrap());
    };
    (0..300).for_each(|at| turn(&mut set, at));
    let before = (made(&d), d.stats().freed_count);
    (0..3000).for_each(|at| turn(&mut set, at));
    assert_eq!((made(&d), d.stats().freed_count), before);
}
