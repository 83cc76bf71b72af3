//! S9.1 to S9.6: the way back, from the last handle to the cache or the driver.

use crate::bench::{WATCHDOG, buffer_of, finish, host_buffer_of, own_halves, pattern, poll, soon};
use rig::driver::{Addressed, Queue};
use rig::memory::function;
use rig::{Buffer, Device, FileMode, Hold, Result, Returned, Use, copy, host, wrap_raw};
use rig_support::{Answer, Call, Known, Opened, Scratch, Script, StopEnd, drain};
use std::sync::Arc;
use std::sync::mpsc::channel;

const MIB: u64 = 1 << 20;

/// A device with one queue whose memory the host does not address: queue order covers the next use.
fn ordered(name: &str) -> Opened {
    own_halves(Script::new(name)).open()
}

fn addressed(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

/// What is live, returning and cached.
fn places(device: &Device) -> [u64; 3] {
    let stats = device.stats();
    [stats.live_bytes, stats.returning_bytes, stats.cached_bytes]
}

/// Makes a host buffer over memory whose keeper counts.
fn kept_by(kept: &Arc<()>) -> Buffer {
    let mut bytes = vec![0; 8];
    // SAFETY: the keeper has the bytes until it is dropped, and nobody else reaches them.
    unsafe { wrap_raw(bytes.as_mut_ptr(), 8, (Arc::clone(kept), bytes)) }
}

#[test]
fn s9_1_a_drain_never_waits() {
    let d = addressed("s9.1 waits");
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    drain(&d);
    assert_eq!((places(&d), d.control.count(Call::Block)), ([0, MIB, 0], 0));
    d.control.run_all();
    drain(&d);
    assert_eq!(places(&d), [0, 0, MIB]);
}

#[test]
fn s9_2_each_of_these_calls_drains() {
    let d = Script::new("s9.2").addressed(Addressed::Always).open();
    let x = d.create_buffer(8).unwrap();
    let (y, h) = (d.create_buffer(8).unwrap(), host_buffer_of(&[0; 8]));
    let calls: [(&str, &dyn Fn() -> Result<()>); 11] = [
        ("create", &|| d.create_buffer(8).map(drop)),
        ("create now", &|| d.create_buffer_now(8).map(drop)),
        ("copy from", &|| copy(&x, &h)),
        ("copy into", &|| copy(&h, &x)),
        ("fill", &|| x.fill(1)),
        ("blit out", &|| x.blit_to(0, &mut [0])),
        ("blit in", &|| x.blit_from(0, &[0])),
        ("code load", &|| d.kernel(function("nothing", |_| {})).map(drop)),
        ("set_budget", &|| d.set_budget(u64::MAX)),
        ("free_cache", &|| d.free_cache().map(drop)),
        ("trim", &|| d.trim().map(drop)),
    ];
    for (name, call) in calls {
        d.free_cache().unwrap();
        let live = places(&d)[0];
        drop(d.create_buffer(MIB).unwrap());
        assert!(places(&d)[0] > live);
        call().unwrap();
        assert!(places(&d)[0] <= live + 512, "{name} drains");
    }
    drop(d.create_buffer(MIB).unwrap());
    y.free().unwrap();
    assert_eq!(places(&d)[0], 512, "free drains");
}

#[test]
fn s9_2_opening_and_creating_files_drains() {
    let (files, path) = (rig::file::open("s9.2 files").unwrap(), Scratch::new());
    let open_descriptors = || files.stats().returned_count;
    let first = files.create_file(&path, 8).unwrap();
    let before = open_descriptors();
    drop(first);
    let second = files.create_file(&path, 8).unwrap();
    assert_eq!(open_descriptors(), before + 1);
    drop(second);
    let _third = files.open_file(&path, FileMode::ReadOnly).unwrap();
    assert_eq!(open_descriptors(), before + 2);
}

#[test]
fn s9_2_a_stop_drains_and_so_does_create_on_a_lost_device() {
    let d = addressed("s9.2 stop");
    let (x, y) = (d.create_buffer(MIB).unwrap(), d.create_buffer(MIB).unwrap());
    drop(x);
    d.device_lost("on purpose");
    soon("the stop's drain", || d.held() == MIB);
    drop(y);
    assert!(d.create_buffer(8).is_err());
    soon("the failed create's drain", || d.held() == 0);
}

#[test]
fn s9_2_each_round_drains_all_devices() {
    let [d, e] = ["s9.2 rounds d", "s9.2 rounds e"].map(addressed);
    d.set_budget(MIB).unwrap();
    let _live = d.create_buffer(MIB).unwrap();
    let kept = Arc::new(());
    drop((e.create_buffer(MIB).unwrap(), kept_by(&kept)));
    assert!(d.create_buffer(MIB).is_err());
    assert_eq!((places(&e), Arc::strong_count(&kept)), ([0, 0, MIB], 1));
}

#[test]
fn s9_3_memory_is_cached_once_every_point_is_reached() {
    let [d, e] = ["s9.3 points d", "s9.3 points e"].map(ordered);
    let x = d.create_buffer(MIB).unwrap();
    let b = x.borrow(&e).unwrap();
    assert!(b.is_none(), "e maps no peers");
    let f = own_halves(Script::new("s9.3 points f").peers(Known::Scripted)).open();
    let b = x.borrow(&f).unwrap().unwrap();
    f.record_use(&[&b], &[]).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop((x, b));
    drain(&d);
    drain(&f);
    assert_eq!(places(&d), [0, MIB, 0], "another device's point delays it");
    d.control.run_all();
    drain(&d);
    assert_eq!(places(&d), [0, MIB, 0]);
    f.control.run_all();
    drain(&f);
    drain(&d);
    assert_eq!(places(&d), [0, 0, MIB]);
}

#[test]
fn s9_3_queue_order_covers_the_next_use_and_the_stamps_stay() {
    let d = ordered("s9.3 order");
    let x = d.create_buffer(MIB).unwrap();
    let point = d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    assert_eq!(places(&d), [0, 0, MIB], "its own unreached point does not delay it");
    let y = d.create_buffer(MIB).unwrap();
    assert_eq!((y.stamps().write, y.stamps().uses), (Some(point), vec![point]));
    let mut waiting = Box::pin(y.wait_async(Use::Read));
    assert!(poll(waiting.as_mut()).is_pending(), "the host follows the old points");
    d.control.run_all();
    assert!(poll(waiting.as_mut()).is_ready());
    drop(waiting);
    drop(y);
    drain(&d);
    assert_eq!(d.create_buffer(MIB).unwrap().stamps(), Default::default(), "reached ones go");
}

#[test]
fn s9_3_without_that_order_its_own_points_delay_it_too() {
    let two = Script::new("s9.3 two queues").queues([Queue::ALL, Queue::ALL]).open();
    for d in [&two, &addressed("s9.3 addressed")] {
        let x = d.create_buffer(MIB).unwrap();
        d.record_use(&[&x], &[]).unwrap();
        drop(x);
        drain(d);
        assert_eq!(places(d), [0, MIB, 0]);
        d.control.run_all();
        drain(d);
        assert_eq!(places(d), [0, 0, MIB]);
        assert_eq!(d.create_buffer(MIB).unwrap().stamps(), Default::default());
    }
}

#[test]
fn s9_3_over_budget_memory_skips_the_cache_and_never_the_wait() {
    let d = addressed("s9.3 over");
    let (x, y) = (d.create_buffer(MIB).unwrap(), d.create_buffer(MIB).unwrap());
    d.record_use(&[], &[&x, &y]).unwrap();
    d.set_budget(MIB).unwrap();
    drop((x, y));
    drain(&d);
    assert_eq!((places(&d), d.control.count(Call::Free)), ([0, 2 * MIB, 0], 0));
    d.control.run_all();
    drain(&d);
    assert_eq!((places(&d), d.control.count(Call::Free)), ([0, 0, MIB], 1));
}

#[test]
fn s9_4_cached_memory_goes_to_the_driver_once_all_that_was_submitted_is_reached() {
    let d = ordered("s9.4");
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    d.record_use(&[], &[]).unwrap();
    let answer = d.free_cache().unwrap();
    assert_eq!(answer, Returned { returned_bytes: 0, pending_bytes: MIB });
    d.record_use(&[], &[]).unwrap();
    assert_eq!(places(&d), [0, MIB, 0], "it is returning until then");
    d.control.run(1);
    drain(&d);
    assert_eq!(d.control.count(Call::Free), 0, "its own point is not enough");
    d.control.run(1);
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.held()), (1, 0), "later work does not delay it");
    assert_eq!(d.free_cache().unwrap(), Returned::default());
}

#[test]
fn s9_4_what_is_idle_returns_at_once() {
    let d = ordered("s9.4 idle");
    drop(d.create_buffer(MIB).unwrap());
    let answer = d.free_cache().unwrap();
    assert_eq!(answer, Returned { returned_bytes: MIB, pending_bytes: 0 });
}

#[test]
fn s9_5_a_lost_devices_cache_empties_at_its_stop() {
    let d = Script::new("s9.5 cache").stops(Answer::WhenTold).open();
    drop(d.create_buffer(MIB).unwrap());
    drain(&d);
    d.device_lost("on purpose");
    assert_eq!(places(&d), [0, 0, MIB]);
    d.control.answer_stop();
    d.close().unwrap();
    soon("the stop's drain", || (d.held(), d.control.count(Call::Free)) == (0, 1));
}

#[test]
fn s9_5_memory_that_a_lost_device_used_returns_once_it_settled() {
    for (name, write) in [("read", false), ("write", true)] {
        let d = Script::new(format!("s9.5 {name}")).stops(Answer::WhenTold).open();
        let x = d.create_buffer(MIB).unwrap();
        let kept = Arc::new(());
        let h = host().create_buffer(64 << 10).unwrap();
        let w = kept_by(&kept);
        let b = h.borrow(&d).unwrap().unwrap();
        let (reads, writes): (&[_], &[_]) = if write { (&[], &[&b, &x]) } else { (&[&b, &x], &[]) };
        d.record_use(reads, writes).unwrap();
        d.device_lost("on purpose");
        drop((x, h, b, w));
        drain(&d);
        assert_eq!((d.held(), d.control.mappings_live()), (MIB, 1), "it has not settled");
        soon("other memory goes its way", || Arc::strong_count(&kept) == 1);
        d.control.answer_stop();
        d.close().unwrap();
        soon("the stop's drain", || (d.held(), d.control.mappings_live()) == (0, 0));
    }
}

#[test]
fn s9_5_memory_of_a_device_that_never_settles_never_returns() {
    let d = Script::new("s9.5 never").stop_end(StopEnd::NeverSettles).open();
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    d.device_lost("on purpose");
    drop(x);
    drain(&d);
    assert_eq!((d.held(), d.control.count(Call::Free)), (MIB, 0));
}

#[test]
fn s9_6_each_allocation_goes_back_once_by_whatever_threads() {
    let d = Script::new("s9.6").addressed(Addressed::Always).silent().open();
    std::thread::scope(|threads| {
        for thread in 0..4_u64 {
            let d = &d;
            threads.spawn(move || {
                for turn in 0..200 {
                    let x = d.create_buffer(1000 + 1000 * (turn % 7)).unwrap();
                    let view = x.view(3, 5).unwrap();
                    d.record_use(&[&view], &[]).unwrap();
                    match (turn + thread) % 4 {
                        0 => x.free().unwrap(),
                        1 => drop(d.free_cache().unwrap()),
                        2 => drop((view, d.control.run(3))),
                        _ => drain(d),
                    }
                }
            });
        }
    });
    d.control.run_all();
    drain(&d);
    d.free_cache().unwrap();
    let stats = d.stats();
    assert_eq!((stats.actual_count, stats.held_bytes), (stats.freed_count, 0));
    assert_eq!(d.control.count(Call::Alloc), d.control.count(Call::Free));
    d.control.check_returned();
}

#[test]
fn s9_6_after_a_stop_only_frees_unmappings_drops_and_word_reads_reach_the_driver() {
    let d = Script::new("s9.6 stop").open();
    let x = d.create_buffer(MIB).unwrap();
    let h = host().create_buffer(64 << 10).unwrap();
    let b = h.borrow(&d).unwrap().unwrap();
    let kernel = d.kernel(function("none", |_| {})).unwrap();
    let prepared = d.prepare().launch(&kernel, [1; 3]).build().unwrap();
    d.record_use(&[&b], &[&x]).unwrap();
    d.device_lost("on purpose");
    // A call of the tick's may be in flight.
    d.control.await_calls(Call::Stop, 1);
    d.control.clear_log();
    assert!(d.wait(1).is_err() && d.record_use(&[], &[]).is_err() && x.fill(1).is_err());
    assert_eq!(d.reached(), 0);
    drop((x, b, h, kernel, prepared));
    drain(&d);
    d.control.await_returned();
    let calls = d.control.log();
    let drops = [Call::Unload, Call::Unprepare];
    let allowed = [Call::Free, Call::Release, Call::Reached, Call::PollStopped];
    let is_allowed = |call| allowed.contains(&call) || drops.contains(&call);
    assert!(calls.iter().all(|entry| is_allowed(entry.call)), "{calls:?}");
    assert!(drops.iter().all(|drop| calls.iter().any(|entry| entry.call == *drop)), "{calls:?}");
}

#[test]
fn s9_15_the_tick_gives_back_what_was_dropped_though_nobody_calls() {
    let d = addressed("s9.15 tick");
    let (tell, told) = channel();
    let x = buffer_of(&d, &pattern(1000, 1));
    let empty = d.prepare().build().unwrap();
    empty.submit_holding(&[], &[], &[&Hold::new(move || tell.send(()).unwrap())]).unwrap();
    drop(x);
    d.control.run_all();
    told.recv_timeout(WATCHDOG).unwrap();
    soon("the way home", || places(&d) == [0, 0, 1024]);
}

#[test]
fn s9_15_a_fault_that_the_tick_meets_loses_that_device() {
    let d = addressed("s9.15 fault");
    d.record_use(&[], &[]).unwrap();
    let mut lost = Box::pin(d.device.lost_async());
    assert!(poll(lost.as_mut()).is_pending());
    drop(d.create_buffer(8).unwrap());
    d.control.fault("met by nobody's call");
    assert_eq!(&*finish(lost), "met by nobody's call");
}
