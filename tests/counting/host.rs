//! What the host pays for: staging, Pinned memory, host buffers.

use crate::meter::Alone;
use rig::driver::{Addressed, Kind};
use rig::{Buffer, Device, DeviceStats, Error, copy_async, host};
use rig_support::{Call, Opened, Script, drain};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

fn stats() -> DeviceStats {
    drain(&host());
    host().stats()
}

/// A script with halves that no other test uses: they stay for ever.
fn own_halves(script: Script) -> (Script, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 20);
    let half = NEXT.fetch_add(64 << 10, Ordering::Relaxed);
    (script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)), half)
}

fn staged(name: &str) -> (Opened, Buffer, u64) {
    let (script, half) = own_halves(Script::new(name));
    let d = script.open();
    let x = d.create_buffer(4 * half).expect("there is room");
    (d, x, half)
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The sum of S10.2 against what the host's driver handed out.
fn assert_sum(stats: &DeviceStats) {
    let sum = stats.live_bytes
        + stats.returning_bytes
        + stats.cached_bytes
        + stats.staging_bytes
        + stats.pinned_bytes;
    assert_eq!(sum, stats.held_bytes, "{stats:?}");
}

#[test]
fn s7_6_halves_are_charged_to_the_host_as_staging_and_kept() {
    let _alone = Alone::new();
    let before = stats();
    let (d, x, half) = staged("s7.6 charged");
    assert_eq!(stats().staging_bytes, before.staging_bytes);
    x.blit_from(0, &[1]).unwrap();
    assert_eq!(stats().staging_bytes, before.staging_bytes + half);
    x.blit_from(0, &vec![1; 4 * half as usize]).unwrap();
    let after = stats();
    assert_eq!(after.staging_bytes, before.staging_bytes + 2 * half);
    assert_eq!(after.actual_count, before.actual_count + 2);
    assert_eq!(d.stats().staging_bytes, 0);
    assert_sum(&after);
    host().trim().unwrap();
    host().free_cache().unwrap();
    assert_eq!(stats().staging_bytes, after.staging_bytes, "nothing trims them");
}

#[test]
fn s7_6_a_half_that_the_hosts_budget_refuses_is_out_of_memory_of_the_host() {
    let _alone = Alone::new();
    let (d, x, half) = staged("s7.6 refused");
    host().set_budget(stats().held_bytes + half - 1).unwrap();
    let refused = x.blit_from(0, &[1]).unwrap_err();
    let Error::OutOfMemory { device, asked_bytes, .. } = refused else { panic!("{refused}") };
    assert_eq!((&*device, asked_bytes), ("CPU", half));
    assert_eq!((d.submitted(), stats().held_bytes), (0, host().budget() + 1 - half));
    host().set_budget(u64::MAX).unwrap();
    x.blit_from(0, &[1]).expect("the half is usable");
}

#[test]
fn s7_7_a_devices_own_halves_are_charged_to_the_host_until_it_is_lost() {
    let _alone = Alone::new();
    let before = stats();
    let (script, half) = own_halves(Script::new("s7.7 charged").maps_host(None));
    let d = script.open();
    let x = d.create_buffer(2 * half).unwrap();
    x.fill(1).unwrap();
    x.blit_to(0, &mut vec![0; 2 * half as usize]).unwrap();
    assert_eq!(stats().staging_bytes, before.staging_bytes + 2 * half);
    assert_eq!((d.stats().staging_bytes, d.held()), (0, d.stats().live_bytes));
    d.device_lost("on purpose");
    drain(&d);
    let after = stats();
    assert_eq!((after.staging_bytes, after.held_bytes), (before.staging_bytes, before.held_bytes));
    let device = d.stats();
    assert_eq!(device.actual_count - device.freed_count, 1, "x is left");
}

#[test]
fn s7_8_a_transient_half_is_charged_to_the_host_and_goes_after_its_piece() {
    let _alone = Alone::new();
    let (d, x, half) = staged("s7.8 charged");
    let sinks = [(); 2].map(|()| host().create_buffer(4 * half).unwrap());
    let mut abandoned: Vec<_> = sinks.iter().map(|sink| Box::pin(copy_async(&x, sink))).collect();
    for copying in &mut abandoned {
        assert!(poll(copying).is_pending());
    }
    let before = stats();
    let y = d.create_buffer(8).unwrap();
    y.blit_from(0, &[1; 8]).unwrap();
    assert!(stats().peak_held_bytes >= before.held_bytes + half.min(1 << 20));
    drain(&d);
    assert_eq!(stats().held_bytes, before.held_bytes);
    drop(abandoned);
    d.control.run_all();
}

#[test]
fn s10_1_pinned_memory_is_paid_by_the_host() {
    let _alone = Alone::new();
    let before = stats();
    let d = Script::new("s10.1 pinned").facts(|facts| facts.pinned = true).open();
    let pinned = d.create_buffer_in(Kind::Pinned, 1 << 20).unwrap();
    let after = stats();
    assert_eq!(
        (after.pinned_bytes, after.live_bytes),
        (before.pinned_bytes + (1 << 20), before.live_bytes)
    );
    assert_eq!((d.held(), d.stats().pinned_bytes), (0, 0));
    assert_sum(&after);
    drop(pinned);
    drain(&d);
    let cached = stats();
    assert_eq!(
        (cached.pinned_bytes, cached.cached_bytes),
        (before.pinned_bytes, before.cached_bytes + (1 << 20))
    );
    assert_sum(&cached);
    assert_eq!(d.free_cache().unwrap().returned_bytes, 1 << 20);
    assert_eq!(stats().held_bytes, before.held_bytes);
}

#[test]
fn s10_1_wrapped_memory_mappings_and_files_are_charged_to_nobody() {
    let _alone = Alone::new();
    let before = stats().held_bytes;
    let d = Script::new("s10.1 nobody").open();
    let h = host().create_buffer(64 << 10).unwrap();
    let path = rig_support::Scratch::new();
    let files = rig::file::open("s10.1 files").unwrap();
    let held = stats().held_bytes;
    let _kept = (
        rig::wrap(vec![0_u8; 1 << 20]),
        h.borrow(&d).unwrap().unwrap(),
        files.create_file(&path, 1 << 20).unwrap(),
    );
    assert_eq!((stats().held_bytes, d.held(), files.held()), (held, 0, 0));
    assert_eq!(held, before + (64 << 10));
}

#[test]
fn s15_budget_pinned_cached_by_one_device_makes_room_for_anothers() {
    let _alone = Alone::new();
    let open = |name: &str| Script::new(name).facts(|facts| facts.pinned = true).open();
    let [d, e] = ["s15 pinned d", "s15 pinned e"].map(open);
    drop(d.create_buffer_in(Kind::Pinned, 1 << 20).unwrap());
    drain(&d);
    host().set_budget(stats().held_bytes).unwrap();
    let other = e.create_buffer_in(Kind::Pinned, 1 << 20).unwrap();
    assert_eq!((d.control.count(Call::Free), stats().cached_bytes), (1, 0));
    assert_eq!(e.stats().kind_counts, [0, 0, 0, 1]);
    drop(other);
}

#[test]
fn s10_8_out_of_memory_names_the_device_asked_with_the_payers_numbers() {
    let _alone = Alone::new();
    let d = Script::new("s10.8 pinned").facts(|facts| facts.pinned = true).open();
    let _live = d.create_buffer_in(Kind::Pinned, 1 << 20).unwrap();
    let held = stats().held_bytes;
    host().set_budget(held).unwrap();
    let refused = d.create_buffer_in(Kind::Pinned, 4096).unwrap_err();
    let Error::OutOfMemory { device, held_bytes, budget_bytes, report, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!((&*device, held_bytes, budget_bytes), ("s10.8 pinned", held, held));
    assert_eq!((&*report.payer, report.pinned_bytes >= 1 << 20), ("CPU", true));
}

#[test]
fn s10_9_cached_host_memory_makes_room_for_staging() {
    let _alone = Alone::new();
    let (_d, x, half) = staged("s10.9 staging");
    drop(host().create_buffer(4 << 20).unwrap());
    let held = stats().held_bytes;
    host().set_budget(held + half - 1).unwrap();
    x.blit_from(0, &[1]).unwrap();
    assert!(stats().held_bytes <= host().budget());
}

#[test]
fn s9_11_small_host_buffers_are_charged_exactly_and_not_cached() {
    let _alone = Alone::new();
    let before = stats();
    let small = host().create_buffer(1001).unwrap();
    assert_eq!(stats().live_bytes, before.live_bytes + 1001);
    let large = host().create_buffer(64 << 10).unwrap();
    assert_eq!(stats().live_bytes, before.live_bytes + 1001 + (64 << 10));
    assert!(large.read(|bytes| (bytes.as_ptr() as u64).is_multiple_of(4096)).unwrap());
    drop(small);
    assert_eq!(
        (stats().cached_bytes, stats().held_bytes),
        (before.cached_bytes, before.held_bytes + (64 << 10))
    );
    drop(large);
    assert_eq!(stats().cached_bytes, before.cached_bytes + (64 << 10));
}

#[test]
fn s9_11_a_host_buffer_that_was_cached_serves_the_next() {
    let _alone = Alone::new();
    let address = |buffer: &Buffer| buffer.read(|bytes| bytes.as_ptr() as u64).unwrap();
    let first = host().create_buffer(100_000).unwrap();
    let at = address(&first);
    drop(first);
    let served = stats().kind_counts;
    let next = host().create_buffer(100_001).unwrap();
    assert_eq!((address(&next), host().stats().kind_counts[0]), (at, served[0] + 1));
}

#[test]
fn s9_1_a_drain_serves_the_host_and_lost_devices_that_still_hold_something() {
    let _alone = Alone::new();
    let open = |name: &str| Script::new(name).addressed(Addressed::Always).open();
    let [d, e] = ["s9.1 lost", "s9.1 other"].map(open);
    let x = d.create_buffer(1 << 20).unwrap();
    d.device_lost("on purpose");
    let kept = Arc::new(());
    let mut bytes = vec![0; 8];
    // SAFETY: the keeper has the bytes until it is dropped, and nobody else reaches them.
    let h = unsafe { rig::wrap_raw(bytes.as_mut_ptr(), 8, (Arc::clone(&kept), bytes)) };
    drop((x, h));
    assert_eq!((d.held(), Arc::strong_count(&kept)), (1 << 20, 2));
    e.trim().unwrap();
    assert_eq!((d.held(), Arc::strong_count(&kept)), (0, 1));
}

/// What is held for devices of S10.2, from what their driver handed out.
fn handed_out(device: &Device) -> u64 {
    let stats = device.stats();
    stats.actual_bytes - stats.freed_bytes
}

#[test]
fn s10_2_after_every_call_the_places_sum_up_to_what_drivers_handed_out() {
    let _alone = Alone::new();
    let (script, half) = own_halves(Script::new("s10.2").facts(|facts| facts.pinned = true));
    let d = script.open();
    let check = |what: &str| {
        let (of_host, of_device) = (host().stats(), d.stats());
        assert_sum(&of_host);
        assert_sum(&of_device);
        assert_eq!(of_device.held_bytes, handed_out(&d) - of_host.pinned_bytes, "{what}");
        assert_eq!(d.control.bytes_live(), of_device.held_bytes + of_host.pinned_bytes, "{what}");
        (host().check_books(), d.check_books())
    };
    check("open");
    let x = d.create_buffer(3000).unwrap();
    check("create");
    let pinned = d.create_buffer_in(Kind::Pinned, 700).unwrap();
    check("create Pinned");
    x.blit_from(0, &[1; 3000]).unwrap();
    check("blit");
    let view = x.view(0, 10).unwrap();
    drop(x);
    check("drop, a view is left");
    let h = host().create_buffer(half).unwrap();
    let b = h.borrow(&d).unwrap().unwrap();
    check("borrow");
    d.record_use(&[&b], &[&view]).unwrap();
    view.free().unwrap();
    check("free under work");
    drop((b, h));
    d.set_budget(1 << 20).unwrap();
    check("set_budget");
    assert!(d.create_buffer(2 << 20).is_err());
    check("a create that fails");
    d.control.run_all();
    drain(&d);
    check("drain");
    pinned.free().unwrap();
    // Freed Pinned memory is cached: the host pays for it still.
    assert_eq!(host().stats().pinned_bytes, 0);
    d.free_cache().unwrap();
    check("free_cache");
    assert_eq!(d.held(), 0);
}

#[test]
fn s1_13_the_hosts_budget_is_unbounded() {
    let _alone = Alone::new();
    assert_eq!(host().budget(), u64::MAX);
    assert_eq!(host().facts().addressed, Addressed::Always);
}
