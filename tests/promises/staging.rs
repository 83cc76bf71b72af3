//! S7.5 to S7.9: the halves that copies pass through.

use crate::bench::{
    WATCHDOG, buffer_of, bytes_of, finish, fresh_half_bytes, host_buffer_of, lost, own_halves,
    pattern, poll, soon,
};
use rig::driver::{Access, Addressed, Kind};
use rig::{Buffer, Device, Error, copy, copy_async, host, wrap};
use rig_support::{Call, Known, Opened, SCRIPTED_FAULT, Script, drain};
use std::sync::Arc;
use std::time::Instant;

/// Returns the value that last used each half of a slot on a device, 0 for none.
fn used(device: &Device, slot: usize) -> [u64; 2] {
    [0, 1].map(|half| {
        let stamps = device.half_stamps(slot, half).unwrap_or_default();
        stamps.use_by(device).map_or(0, rig::Point::value)
    })
}

/// A device with halves of its own name, and a buffer of this many pieces on it.
fn staged(name: &str, pieces: u64) -> (Opened, Buffer) {
    let device = own_halves(Script::new(name)).open();
    let x = device.create_buffer(pieces * device.facts().half_bytes).unwrap();
    (device, x)
}

fn zeros(len: u64) -> Buffer {
    wrap(vec![0_u8; len as usize])
}

#[test]
fn s7_5_a_half_is_4_mib_where_device_memory_is_host_memory() {
    let memory = rig::memory::open("s7.5 memory").unwrap();
    for device in [&host(), &memory] {
        let facts = device.facts();
        assert_eq!((facts.half_bytes, facts.piece_bytes), (4 << 20, 4 << 20));
    }
}

#[test]
fn s7_5_pieces_alternate_the_halves_of_the_first_slot_from_its_first() {
    let (d, x) = staged("s7.5 alternate", 3);
    x.blit_from(0, &vec![1; x.len() as usize]).unwrap();
    assert_eq!((used(&d, 0), used(&d, 1)), ([3, 2], [0, 0]));
    x.blit_to(0, &mut vec![0; x.len() as usize]).unwrap();
    assert_eq!((used(&d, 0), used(&d, 1)), ([6, 5], [0, 0]));
    x.blit_from(0, &[1]).unwrap();
    assert_eq!(used(&d, 0), [7, 5], "each copy starts with the first half");
}

#[test]
fn s7_5_another_call_uses_the_second_slot_while_one_holds_the_first() {
    let (d, x) = staged("s7.5 second", 2);
    let h = zeros(x.len());
    let mut copying = Box::pin(copy_async(&x, &h));
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!((used(&d, 0), used(&d, 1)), ([1, 2], [0, 0]), "both halves are held");
    let y = d.create_buffer(10).unwrap();
    y.blit_from(0, &[1; 10]).unwrap();
    assert_eq!((used(&d, 0), used(&d, 1)), ([1, 2], [3, 0]));
    finish(copying).unwrap();
    y.blit_from(0, &[1; 10]).unwrap();
    assert_eq!((used(&d, 0), used(&d, 1)), ([4, 2], [3, 0]));
}

#[test]
fn s7_5_a_driver_may_state_less_than_a_half_for_a_piece() {
    let script = own_halves(Script::new("s7.5 less")).facts(|facts| facts.piece_bytes = 1000);
    let d = script.open();
    let bytes = pattern(2500, 1);
    let x = buffer_of(&d, &bytes);
    assert_eq!(d.submitted(), 3);
    assert_eq!(bytes_of(&x), bytes);
    assert_eq!(d.submitted(), 6);
}

#[test]
fn s7_5_host_and_device_work_on_different_halves() {
    let (d, x) = staged("s7.5 different", 3);
    let h = host_buffer_of(&pattern(x.len(), 2));
    let mut copying = Box::pin(copy_async(&h, &x));
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!((d.submitted(), d.control.ran()), (2, 0), "the host filled the second meanwhile");
    d.control.run(1);
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!((d.submitted(), d.control.ran()), (3, 1));
    d.control.run_all();
    finish(copying).unwrap();
    assert!(bytes_of(&x) == pattern(x.len(), 2));
}

#[test]
fn s7_6_a_half_is_made_when_first_needed_kept_and_mapped_once() {
    let (d, x) = staged("s7.6", 2);
    assert!(d.half_stamps(0, 0).is_none());
    x.blit_from(0, &[1; 10]).unwrap();
    assert!(d.half_stamps(0, 0).is_some() && d.half_stamps(0, 1).is_none());
    assert_eq!(d.control.count(Call::ImportHost), 1);
    x.blit_from(0, &vec![1; x.len() as usize]).unwrap();
    for _ in 0..10 {
        x.blit_to(0, &mut vec![0; x.len() as usize]).unwrap();
        d.trim().unwrap();
    }
    assert_eq!(d.control.count(Call::ImportHost), 2);
    assert!(d.half_stamps(1, 0).is_none());
    assert_eq!(d.control.mappings_live(), 2);
}

#[test]
fn s7_6_devices_with_halves_of_one_size_share_them() {
    let (d, x) = staged("s7.6 d", 1);
    let half = d.facts().half_bytes;
    let script = Script::new("s7.6 e");
    let e = script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)).open();
    let y = e.create_buffer(half).unwrap();
    x.blit_from(0, &[1]).unwrap();
    let address = |device: &Opened| device.control.calls(Call::ImportHost)[0].region.1;
    y.blit_from(0, &[1]).unwrap();
    assert_eq!(address(&d), address(&e));
    assert_eq!(d.half_stamps(0, 0).unwrap().uses.len(), 2);
}

#[test]
fn s7_7_a_device_that_maps_no_host_memory_has_halves_of_its_own_until_lost() {
    for (name, transfer) in
        [("s7.7 always", Addressed::Always), ("s7.7 mapped", Addressed::WhileMapped)]
    {
        let d = own_halves(Script::new(name).maps_host(None).transfer(transfer)).open();
        let bytes = pattern(3 * d.facts().half_bytes, 7);
        let x = buffer_of(&d, &bytes);
        assert!(bytes_of(&x) == bytes);
        assert_eq!(d.submitted(), 6);
        let made = d.control.calls(Call::Alloc);
        let transfers: Vec<_> =
            made.iter().filter(|made| made.value == Kind::Transfer as u64).collect();
        assert_eq!(transfers.len(), 2, "two halves of its own");
        assert!(transfers.iter().all(|made| made.bytes == d.facts().half_bytes));
        assert_eq!(d.held(), d.stats().live_bytes, "they are not charged to the device");
        d.device_lost("on purpose");
        // They go with it.
        d.control.await_calls(Call::Free, 2);
    }
}

#[test]
fn s7_7_its_halves_go_with_a_lost_device_though_nobody_goes_on_with_a_copy() {
    let d = own_halves(Script::new("s7.7 abandoned").maps_host(None)).open();
    let x = d.create_buffer(2 * d.facts().half_bytes).unwrap();
    let h = zeros(x.len());
    let mut copying = Box::pin(copy_async(&h, &x));
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!(d.submitted(), 2, "it waits for its legs, and holds no half");
    d.device_lost("on purpose");
    d.control.await_calls(Call::Free, 2);
    assert_eq!(lost(finish(copying)).1, "on purpose");
}

#[test]
fn s7_6_copies_share_a_half_of_any_size() {
    let script = Script::new("s7.6 any size").maps_host(None).facts(|facts| {
        (facts.half_bytes, facts.piece_bytes, facts.may_block) = (100, 100, false);
    });
    let d = script.open();
    let x = [100, 100, 3].map(|len| d.create_buffer(len).unwrap());
    let bytes = [1, 2, 3].map(|seed| pattern(100, seed));
    let part = |at: usize| &bytes[at][..x[at].len() as usize];
    let mut writes = [0, 1, 2].map(|at| Box::pin(x[at].blit_from_async(0, part(at))));
    writes.iter_mut().for_each(|write| assert!(poll(write.as_mut()).is_pending()));
    d.control.run_all();
    writes.into_iter().for_each(|write| finish(write).unwrap());
    for at in [0, 1, 2] {
        let mut seen = vec![0; part(at).len()];
        let mut read = Box::pin(x[at].blit_to_async(0, &mut seen));
        assert!(poll(read.as_mut()).is_pending());
        d.control.run_all();
        finish(read).unwrap();
        assert_eq!(seen, part(at));
    }
}

#[test]
fn s7_6_a_way_that_the_driver_has_no_room_for_is_out_of_memory_after_rounds_that_make_room() {
    let bytes_back = |name: &str, refuse_at: Option<u64>| {
        let d = own_halves(Script::new(name).maps_host(None)).open();
        let x = buffer_of(&d, &[1; 64]);
        d.create_buffer(4096).unwrap();
        drain(&d);
        assert!(d.cached() > 0);
        d.control.clear_log();
        refuse_at.iter().for_each(|nth| d.control.refuse_at(*nth));
        assert_eq!(bytes_of(&x), [1; 64]);
        (d, x)
    };
    // The half is there, by the way up: only the way back has to be asked for.
    let (d, _) = bytes_back("s7.6 a way, first", None);
    let calls = d.control.log().into_iter().map(|made| made.call);
    let nth = calls.filter(|call| call.is_fallible()).position(|call| call == Call::PollTransfer);
    let (d, x) = bytes_back("s7.6 a way", nth.map(|nth| nth as u64 + 1));
    let ways = d.control.calls(Call::PollTransfer);
    assert!(ways.len() == 2 && ways.iter().all(|way| way.value == Access::Read as u64));
    assert_eq!(d.cached(), 0, "a round gave the device's own memory back");
    d.control.refuse_from(1);
    let refused = x.blit_to(0, &mut [0; 64]).unwrap_err();
    let Error::OutOfMemory { device, report, .. } = refused else { panic!("{refused}") };
    assert_eq!((&*device, report.rounds.len()), ("CPU", 3));
    d.control.end_plan();
    assert_eq!((d.lost(), d.submitted()), (None, 2));
    assert_eq!(bytes_of(&x), [1; 64]);
}

#[test]
fn s7_7_between_halves_of_two_kinds_the_host_moves_the_piece() {
    let d = own_halves(Script::new("s7.7 d").maps_host(None)).open();
    let e = own_halves(Script::new("s7.7 e")).open();
    let f = own_halves(Script::new("s7.7 f").maps_host(None)).open();
    let len = 2 * f.facts().half_bytes + 77;
    let bytes = pattern(len, 3);
    let x = buffer_of(&d, &bytes);
    let [y, z] = [&e, &f].map(|device| device.create_buffer(len).unwrap());
    for (src, dst) in [(&x, &y), (&y, &z), (&z, &x)] {
        dst.fill(0).unwrap();
        copy(src, dst).unwrap();
        assert!(bytes_of(dst) == bytes);
    }
}

/// Starts copies that nobody goes on with, until both slots are held.
fn abandon<'a>(
    x: &'a Buffer,
    sinks: &'a [Buffer; 2],
) -> Vec<impl Future<Output = rig::Result<()>>> {
    sinks
        .iter()
        .map(|sink| {
            let mut copying = Box::pin(copy_async(x, sink));
            assert!(poll(copying.as_mut()).is_pending());
            copying
        })
        .collect()
}

#[test]
fn s7_8_a_call_that_finds_no_half_takes_a_transient_one_of_at_most_1_mib() {
    let half = (2 << 20) + fresh_half_bytes();
    let script = Script::new("s7.8 transient");
    let d = script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)).open();
    let x = d.create_buffer(2 * half).unwrap();
    let sinks = [zeros(2 * half), zeros(2 * half)];
    let abandoned = abandon(&x, &sinks);
    assert_eq!(d.submitted(), 4);
    let bytes = pattern((2 << 20) + 5, 8);
    let y = d.create_buffer(bytes.len() as u64).unwrap();
    let asked = Instant::now();
    y.blit_from(0, &bytes).unwrap();
    assert!(asked.elapsed().as_millis() >= 200);
    assert_eq!(d.submitted(), 7, "pieces of 1 MiB");
    let mapped = d.control.calls(Call::ImportHost);
    assert!(mapped[4..].iter().all(|map| map.bytes == 1 << 20), "{mapped:?}");
    assert!(bytes_of(&y) == bytes);
    drop(abandoned);
    let before = d.control.count(Call::ImportHost);
    y.blit_from(0, &bytes).unwrap();
    assert_eq!(d.control.count(Call::ImportHost), before, "the slots serve again");
    drain(&d);
    drain(&host());
    assert_eq!(d.control.mappings_live(), 4, "transient halves are gone");
}

#[test]
fn s7_8_an_async_copy_that_finds_no_half_goes_on_too() {
    let still = own_halves(Script::new("s7.8 still")).open();
    let half = still.facts().half_bytes;
    let script = Script::new("s7.8 async").service_runs();
    let d = script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)).open();
    let x = still.create_buffer(2 * half).unwrap();
    let sinks = [zeros(2 * half), zeros(2 * half)];
    let _abandoned = abandon(&x, &sinks);
    let y = d.create_buffer(100).unwrap();
    finish(y.blit_from_async(0, &[7; 100])).unwrap();
    let mut seen = [0; 100];
    finish(y.blit_to_async(0, &mut seen)).unwrap();
    assert_eq!(seen, [7; 100]);
}

#[test]
fn s7_8_every_exit_gives_a_half_back() {
    let (d, x) = staged("s7.8 exits", 2);
    let h = zeros(x.len());
    let first_is_free = |what: &str| {
        let (before, next) = (used(&d, 1), d.submitted() + 1);
        x.blit_from(0, &[1]).unwrap();
        assert_eq!((used(&d, 0)[0], used(&d, 1)), (next, before), "after {what}");
    };
    copy(&h, &x).unwrap();
    first_is_free("success");
    let mut copying = Box::pin(copy_async(&x, &h));
    assert!(poll(copying.as_mut()).is_pending());
    drop(copying);
    first_is_free("a dropped future");
    h.read(|_| assert!(copy(&x, &h).is_err())).unwrap();
    first_is_free("an error of the host's move");
    d.control.reject_next_hand_over("on purpose");
    assert!(copy(&h, &x).is_err());
    first_is_free("a rejected leg");
    let mut inward = Box::pin(copy_async(&h, &x));
    assert!(poll(inward.as_mut()).is_pending());
    first_is_free("its leg was handed over");
    finish(inward).unwrap();
}

#[test]
fn s7_8_a_half_is_held_until_the_other_devices_leg_is_handed_over() {
    let d = own_halves(Script::new("s7.8 through d")).open();
    let half = d.facts().half_bytes;
    let script = Script::new("s7.8 through e").understands(Known::Scripted, 64);
    let e = script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)).open();
    let (x, y) = (d.create_buffer(half).unwrap(), e.create_buffer(half).unwrap());
    let mut copying = Box::pin(copy_async(&x, &y));
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!((d.submitted(), e.submitted()), (1, 1), "e's queue waits for d's leg");
    let stamps = d.half_stamps(0, 0).unwrap();
    assert_eq!((stamps.write.unwrap().device_id(), stamps.uses.len()), (d.id(), 2));
    let z = d.create_buffer(10).unwrap();
    let mut next = Box::pin(z.blit_from_async(0, &[1]));
    assert!(poll(next.as_mut()).is_pending(), "the first half is free, and its stamps order");
    assert_eq!((d.submitted(), used(&d, 1)), (1, [0, 0]));
    d.control.run_all();
    e.control.run_all();
    finish(copying).unwrap();
    assert!(poll(next.as_mut()).is_pending());
    d.control.run_all();
    finish(next).unwrap();
}

/// Two devices that share halves; a leg of the first is handed over and not reached.
fn spoiling(name: &str) -> ([Opened; 2], [Buffer; 2]) {
    let d = own_halves(Script::new(format!("{name}, d"))).open();
    let half = d.facts().half_bytes;
    let script = Script::new(format!("{name}, e"));
    let e = script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half, half)).open();
    let (x, y) = (d.create_buffer(100).unwrap(), buffer_of(&e, &pattern(100, 4)));
    ([d, e], [x, y])
}

#[test]
fn s7_9_a_half_with_a_lost_devices_undone_point_is_replaced_at_its_next_use() {
    let ([d, e], [x, y]) = spoiling("s7.9 replaced");
    {
        let mut copying = Box::pin(x.blit_from_async(0, &[1; 100]));
        assert!(poll(copying.as_mut()).is_pending());
        d.device_lost("on purpose");
        assert_eq!(lost(finish(copying)).1, "on purpose");
    }
    let spoilt = e.half_stamps(0, 0).unwrap();
    assert_eq!(spoilt.uses.last().map(|point| point.device_id()), Some(e.id()));
    let imports = e.control.count(Call::ImportHost);
    assert_eq!(bytes_of(&y), pattern(100, 4));
    assert_eq!(e.control.count(Call::ImportHost), imports + 1, "another half is mapped");
    let stamps = e.half_stamps(0, 0).unwrap();
    assert_eq!(stamps.uses.iter().map(|point| point.device_id()).collect::<Vec<_>>(), [e.id()]);
}

#[test]
fn s7_9_no_copy_that_waits_for_a_half_meets_another_devices_loss() {
    for (name, spoils_by_writing, outward) in [
        ("read, in", false, false),
        ("read, out", false, true),
        ("written, in", true, false),
        ("written, out", true, true),
    ] {
        let ([d, e], [x, y]) = spoiling(&format!("s7.9 {name}"));
        let (h, sink) = (zeros(100), zeros(100));
        let mut abandoned = Box::pin(async {
            if spoils_by_writing {
                copy_async(&x, &sink).await
            } else {
                copy_async(&sink, &x).await
            }
        });
        assert!(poll(abandoned.as_mut()).is_pending());
        // An outward copy holds its half; given back, its stamps stay.
        drop(abandoned);
        let mut copying = Box::pin(async {
            if outward { copy_async(&y, &h).await } else { copy_async(&h, &y).await }
        });
        assert!(poll(copying.as_mut()).is_pending(), "it waits for the half that d uses");
        assert_eq!(e.submitted(), 1);
        d.device_lost("on purpose");
        assert!(poll(copying.as_mut()).is_pending(), "{name}: it goes on with another");
        assert_eq!(e.submitted(), 2);
        e.control.run_all();
        finish(copying).unwrap();
        e.wait(2).expect("no queue was taken along");
    }
}

#[test]
fn s7_9_a_half_whose_points_were_done_serves_on() {
    let ([d, e], [x, y]) = spoiling("s7.9 done");
    x.blit_from(0, &[1; 100]).unwrap();
    d.device_lost("on purpose");
    let imports = e.control.count(Call::ImportHost);
    assert_eq!(bytes_of(&y), pattern(100, 4));
    assert_eq!(e.control.count(Call::ImportHost), imports);
}

#[test]
fn s15_staging_odd_offsets_of_large_copies() {
    let len = (100 << 20) + 4096;
    let d = Script::new("s15 staging large").silent().open();
    let x = d.create_buffer(len + 3).unwrap();
    let bytes = pattern(len, 6);
    let part = x.view(1, len).unwrap();
    part.blit_from(0, &bytes).unwrap();
    let pieces = len.div_ceil(4 << 20);
    assert_eq!(d.submitted(), pieces);
    let out = wrap(vec![0_u8; len as usize + 7]);
    copy(&part, &out.view(7, len).unwrap()).unwrap();
    assert_eq!(d.submitted(), 2 * pieces);
    assert!(out.read(|out| out[7..] == bytes[..] && out[..7] == [0; 7]).unwrap());
}

#[test]
fn s15_staging_a_loss_inside_leaves_others_working() {
    let ([d, e], [x, y]) = spoiling("s15 staging loss");
    d.control.fault_from(1);
    assert_eq!(lost(x.blit_from(0, &[1; 100])).1, SCRIPTED_FAULT);
    for _ in 0..3 {
        assert_eq!(bytes_of(&y), pattern(100, 4));
    }
    drop(x);
    d.control.end_plan();
    drain(&e);
    d.control.await_returned();
}

#[test]
fn s15_staging_three_refusals_leave_the_halves_usable() {
    let (d, x) = staged("s15 staging maps", 1);
    for _ in 0..3 {
        d.control.refuse_at(1);
        d.control.refuse_from(1);
        let refused = x.blit_from(0, &[1]).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    }
    d.control.end_plan();
    x.blit_from(0, &[1]).unwrap();
    let own = own_halves(Script::new("s15 staging own").maps_host(None)).open();
    let y = own.create_buffer(10).unwrap();
    for _ in 0..3 {
        own.control.refuse_from(1);
        let refused = y.blit_from(0, &[1]).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    }
    own.control.end_plan();
    y.blit_from(0, &[1]).unwrap();
    assert_eq!((used(&d, 0), used(&own, 0)), ([1, 0], [1, 0]), "no half was left taken");
}

#[test]
fn s15_staging_100_000_uploads_stay_in_the_halves() {
    let script = own_halves(Script::new("s15 staging uploads")).silent();
    let d = script.open();
    let x = d.create_buffer(64).unwrap();
    let started = Instant::now();
    for turn in 0..100_000_u64 {
        x.blit_from(0, &turn.to_ne_bytes()).unwrap();
        assert!(started.elapsed() < WATCHDOG);
    }
    assert_eq!((d.submitted(), d.control.count(Call::ImportHost)), (100_000, 1));
    assert!(d.half_stamps(0, 1).is_none());
}

#[test]
fn s15_opening_a_device_lost_while_it_maps_a_half_leaves_nothing() {
    let (d, x) = staged("s15 lost in a map", 1);
    let driver = Arc::downgrade(d.driver());
    d.control.gate_calls(Call::ImportHost);
    std::thread::scope(|threads| {
        let moving = threads.spawn(|| x.blit_from(0, &[1; 64]));
        d.control.await_calls(Call::ImportHost, 1);
        d.device_lost("unplugged");
        d.control.open_calls(Call::ImportHost);
        assert_eq!(lost(moving.join().unwrap()).1, "unplugged");
    });
    drop((x, d));
    soon("the end of the driver", || {
        drain(&host());
        driver.strong_count() == 0
    });
}
