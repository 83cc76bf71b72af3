//! S10: budgets, and the ladder of tries and rounds.

use crate::bench::{WATCHDOG, finish, lost, own_halves, poll, soon, unsupported};
use rig::driver::Addressed;
use rig::{Buffer, Device, Error, Kind, Profile, Report, Result, What, add_collector, host};
use rig_support::{Answer, Call, Known, Opened, SCRIPTED_FAULT, Script, Sleep, drain};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

const MIB: u64 = 1 << 20;

fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

/// A device that holds one live buffer of its whole budget, used by work that is not reached.
fn full(name: &str) -> (Opened, Buffer) {
    let d = open(name);
    d.set_budget(MIB).unwrap();
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    (d, x)
}

/// Returns the report of a create that found no room.
fn report(answer: Result<Buffer>) -> Arc<Report> {
    match answer {
        Err(Error::OutOfMemory { report, .. }) => report,
        other => panic!("{other:?} found room"),
    }
}

#[test]
fn s10_3_room_that_the_driver_refuses_is_handed_back() {
    let d = open("s10.3 refused");
    d.set_budget(MIB).unwrap();
    d.control.refuse_from(1);
    for _ in 0..3 {
        report(d.create_buffer(MIB));
        assert_eq!(d.held(), 0);
    }
    d.control.end_plan();
    d.create_buffer(MIB).unwrap();
    assert_eq!(d.stats().actual_count, 1);
}

#[test]
fn s10_3_a_dropped_create_hands_its_room_back() {
    let d = Script::new("s10.3 dropped").allocs(Answer::WhenTold).open();
    d.set_budget(MIB).unwrap();
    let mut creating = Box::pin(d.create_buffer_async(MIB));
    assert!(poll(creating.as_mut()).is_pending());
    drop(creating);
    d.control.answer_allocs();
    drain(&d);
    let mut again = Box::pin(d.create_buffer_async(MIB));
    let made = poll(again.as_mut());
    assert!(made.is_ready(), "what the dropped one made serves");
    assert_eq!(d.control.bytes_peak(), MIB);
}

#[test]
fn s10_8_a_pending_refusal_is_a_refusal() {
    let d = Script::new("s10.8 pending").heap_bytes(MIB).allocs(Answer::AtService).open();
    let x = d.create_buffer(MIB).unwrap();
    report(d.create_buffer(512));
    assert_eq!((d.held(), d.stats().actual_count), (MIB, 1));
    drop(x);
    d.create_buffer(2048).expect("the cached MiB makes room at the driver");
    d.control.check();
}

#[test]
fn s15_budget_8_threads_never_pass_it() {
    let d = Script::new("s15 budget threads").addressed(Addressed::Always).silent().open();
    d.set_budget(16 * MIB).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..8_u64 {
            let d = &d;
            threads.spawn(move || {
                let mut state = 0x9E37_79B9_7F4A_7C15 ^ (thread + 1);
                let mut live: Vec<Buffer> = Vec::new();
                for _ in 0..200 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    match d.create_buffer(1 + state % (3 * MIB)) {
                        Ok(buffer) => live.push(buffer),
                        Err(error) => assert_eq!(error.code(), "OutOfMemory"),
                    }
                    if live.len() > 2 {
                        live.remove(0);
                    }
                    assert!(d.held() <= 16 * MIB);
                }
            });
        }
    });
    assert!(d.control.bytes_peak() <= 16 * MIB, "{}", d.control.bytes_peak());
    assert!(d.stats().peak_held_bytes <= 16 * MIB);
    d.check_books();
}

#[test]
fn s10_4_set_budget_returns_cached_memory_in_trim_order_and_no_live_memory() {
    let d = open("s10.4");
    let made: Vec<Buffer> = (1..=4).map(|at| d.create_buffer(at * MIB).unwrap()).collect();
    let [a, b, c, live] = made.try_into().unwrap();
    for buffer in [b, a, c] {
        drop(buffer);
        drain(&d);
    }
    d.set_budget(8 * MIB).unwrap();
    let freed = |d: &Opened| -> Vec<u64> {
        d.control.calls(Call::Free).iter().map(|entry| entry.bytes / MIB).collect()
    };
    assert_eq!((freed(&d), d.held()), (vec![2], 8 * MIB));
    d.set_budget(0).unwrap();
    assert_eq!((freed(&d), d.held(), d.cached()), (vec![2, 1, 3], 4 * MIB, 0));
    assert_eq!(d.budget(), 0);
    drop(live);
    drain(&d);
    assert_eq!(d.held(), 0, "over budget it skips the cache");
}

#[test]
fn s10_4_set_budget_neither_waits_nor_raises_a_loss() {
    let d = own_halves(Script::new("s10.4 waits")).open();
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    d.set_budget(0).unwrap();
    assert_eq!((d.held(), d.control.count(Call::Block)), (MIB, 0), "it goes when it may");
    d.control.run_all();
    drain(&d);
    assert_eq!(d.held(), 0);
    d.device_lost("on purpose");
    d.set_budget(7).unwrap();
    assert_eq!(d.budget(), 7);
}

#[test]
fn s10_5_create_checks_arguments_drains_raises_lost_and_answers_an_empty_buffer() {
    let script = Script::new("s10.5").facts(|facts| facts.largest_bytes = MIB);
    let d = script.addressed(Addressed::Always).open();
    let empty = d.create_buffer(0).unwrap();
    assert_eq!((empty.len(), d.held(), d.stats().requested_count), (0, 0, 0));
    let x = d.create_buffer(MIB).unwrap();
    d.device_lost("on purpose");
    assert!(unsupported(d.create_buffer(MIB + 1)).contains("1048577"), "arguments come first");
    drop(x);
    assert_eq!(lost(d.create_buffer(0)).1, "on purpose");
    soon("its drain", || d.held() == 0);
}

#[test]
fn s10_6_a_budget_below_the_request_is_out_of_memory_at_once() {
    let d = open("s10.6");
    drop(d.create_buffer(1000).unwrap());
    d.set_budget(2000).unwrap();
    d.control.clear_log();
    let report = report(d.create_buffer(2001));
    assert_eq!((report.rounds.len(), report.cached_bytes, d.cached()), (0, 1024, 1024));
    assert_eq!(d.control.count(Call::Alloc), 0, "the driver is not asked");
    assert!(report.to_string().contains("more was asked for than the whole budget"));
}

#[test]
fn s10_6_a_budget_below_the_bin_only_gives_exactly_the_request() {
    let d = open("s10.6 exact");
    d.set_budget(2000).unwrap();
    let x = d.create_buffer(2000).unwrap();
    assert_eq!((d.held(), d.stats().kind_counts), (2000, [0, 1, 0, 0]));
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), 2000);
    d.create_buffer(2000).unwrap();
    assert_eq!(d.stats().kind_counts, [1, 1, 0, 0]);
}

#[test]
fn s10_7_pinned_memory_is_addressed_by_both_and_device_memory_where_that_is_addressed() {
    let d = Script::new("s10.7 pinned").facts(|facts| facts.pinned = true).open();
    let pinned = d.create_buffer_in(Kind::Pinned, 100).unwrap();
    pinned.write(|bytes| bytes.fill(3)).unwrap();
    let x = d.create_buffer(100).unwrap();
    d.prepare().copy(&pinned, &x).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!(d.control.calls(Call::Alloc)[0].value, Kind::Pinned as u64);
    assert!(
        unsupported(open("s10.7 none").create_buffer_in(Kind::Transfer, 8)).contains("staging")
    );
    let none = Script::new("s10.7 without").open();
    assert!(unsupported(none.create_buffer_in(Kind::Pinned, 8)).contains("Pinned"));
    for addressed in [Addressed::Always, Addressed::WhileMapped] {
        let script = Script::new(format!("s10.7 {addressed:?}")).addressed(addressed);
        let e = script.facts(|facts| facts.pinned = true).open();
        let y = e.create_buffer_in(Kind::Pinned, 8).unwrap();
        assert_eq!((e.held(), e.stats().pinned_bytes), (512, 0));
        assert_eq!(e.control.calls(Call::Alloc)[0].value, Kind::Device as u64);
        y.read(|_| ()).unwrap();
    }
}

#[test]
fn s10_8_a_round_that_waits_for_work_serves_the_next_try() {
    let (d, x) = full("s10.8 waits");
    drop(x);
    let y = d.create_buffer(MIB).unwrap();
    assert_eq!((d.stats().kind_counts, d.reached()), ([0, 1, 1, 0], 1));
    drop(y);
}

#[test]
fn s10_8_after_three_rounds_it_is_out_of_memory_with_the_payers_numbers() {
    let (d, _x) = full("s10.8 rounds");
    let Error::OutOfMemory { device, asked_bytes, held_bytes, budget_bytes, report } =
        d.create_buffer(1000).unwrap_err()
    else {
        panic!("there is no room");
    };
    assert_eq!((&*device, asked_bytes), ("s10.8 rounds", 1000));
    assert_eq!((held_bytes, budget_bytes), (MIB, MIB));
    assert_eq!((report.rounds.len(), &*report.payer, report.live_bytes), (3, "s10.8 rounds", MIB));
    assert!(report.rounds.iter().all(|round| round.returned_bytes == 0));
}

#[test]
fn s10_8_the_fourth_try_takes_exactly_the_request_where_its_bin_finds_no_room() {
    let d = open("s10.8 fourth");
    d.set_budget(2000).unwrap();
    let _live = d.create_buffer(960).unwrap();
    let x = d.create_buffer(1030).unwrap();
    assert_eq!((d.held(), d.stats().kind_counts), (1990, [0, 1, 0, 1]));
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), 1030);
    d.create_buffer(1030).unwrap();
    assert_eq!(d.stats().kind_counts, [1, 1, 0, 1], "an entry of exactly that size serves");
    let text = report(d.create_buffer(1041)).to_string();
    assert!(text.contains("as an allocation of 1152 bytes"), "{text}");
}

/// A collector's runs on this thread: rounds of other tests run it too.
fn counted(thread: ThreadId) -> (Arc<AtomicU64>, impl Fn() + Send + Sync) {
    let count = Arc::new(AtomicU64::new(0));
    let runs = Arc::clone(&count);
    let count_one = move || {
        if thread::current().id() == thread {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    };
    (count, count_one)
}

#[test]
fn s10_9_collectors_run_in_rounds_two_and_three() {
    let (count, count_one) = counted(thread::current().id());
    let _collector = add_collector(count_one);
    let (d, x) = full("s10.9 collectors");
    report(d.create_buffer(MIB));
    assert_eq!(count.load(Ordering::Relaxed), 2);
    drop(x);
    d.create_buffer(MIB).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2, "a round that served needs none");
}

#[test]
fn s10_9_what_a_collector_drops_is_drained_and_serves() {
    let (d, x) = full("s10.9 drops");
    let slot = Arc::new(Mutex::new(Some(x)));
    let inner = Arc::clone(&slot);
    let _collector = add_collector(move || drop(inner.lock().unwrap().take()));
    d.create_buffer(MIB).unwrap();
    assert_eq!(d.stats().kind_counts, [0, 1, 1, 0]);
    assert!(slot.lock().unwrap().is_none());
}

#[test]
fn s10_9_a_round_waits_for_due_unmappings_and_other_devices() {
    let e = Script::new("s10.9 borrower").peers(Known::Scripted).open();
    let m = Script::new("s10.9 unaddressed").open();
    m.set_budget(MIB).unwrap();
    let x = m.create_buffer(MIB).unwrap();
    let b = x.borrow(&e).unwrap().unwrap();
    e.record_use(&[&b], &[]).unwrap();
    drop((x, b));
    let y = m.create_buffer(MIB).unwrap();
    assert_eq!((m.stats().kind_counts, e.reached()), ([0, 1, 1, 0], 1));
    assert_eq!(e.control.mappings_live(), 0);
    drop(y);
}

#[test]
fn s10_9_a_round_takes_the_payers_cached_memory_and_awaits_it_back() {
    let d = own_halves(Script::new("s10.9 cached")).open();
    d.set_budget(2 * MIB).unwrap();
    let x = d.create_buffer(MIB).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), MIB, "queue order covers it");
    let y = d.create_buffer(2 * MIB).unwrap();
    assert_eq!((d.stats().kind_counts, d.reached()), ([0, 1, 0, 1], 1));
    assert_eq!((d.control.count(Call::Free), d.held()), (1, 2 * MIB));
    drop(y);
}

#[test]
fn s10_10_a_foreign_devices_fault_in_a_round_loses_that_device_only() {
    for served in [false, true] {
        let d = own_halves(Script::new(format!("s10.10 {served} asked"))).open();
        let script = Script::new(format!("s10.10 {served} foreign"));
        let e = script.peers(Known::Scripted).stops(Answer::WhenTold).open();
        d.set_budget(MIB).unwrap();
        let x = d.create_buffer(MIB).unwrap();
        let b = x.borrow(&e).unwrap().unwrap();
        e.record_use(&[], &[&b]).unwrap();
        drop((x, b));
        e.control.sleeps([Sleep::Fault("on purpose".into())]);
        if served {
            e.control.answer_stop();
        }
        let answer = d.create_buffer(MIB);
        assert_eq!(e.lost().as_deref(), Some("on purpose"));
        assert!(d.lost().is_none());
        if served {
            // Where the timer's thread was in a call of it, its stop may end after the rounds.
            let again = |_| {
                e.close().unwrap();
                d.create_buffer(MIB)
            };
            answer.or_else(again).expect("the settled device keeps nothing back");
        } else {
            let report = report(answer);
            assert!(report.rounds.iter().all(|round| round.kept.lost_bytes == MIB), "{report}");
        }
    }
}

#[test]
fn s10_10_a_fault_of_the_device_asked_is_its_loss() {
    let (d, x) = full("s10.10 own");
    drop(x);
    d.control.sleeps([Sleep::Fault("on purpose".into())]);
    assert_eq!(lost(d.create_buffer(MIB)), ("s10.10 own".into(), "on purpose".into()));
    let e = open("s10.10 alloc");
    e.control.fault_from(1);
    assert_eq!(lost(e.create_buffer(8)).1, SCRIPTED_FAULT);
    e.control.end_plan();
}

#[test]
fn s10_11_collectors_run_with_no_lock_and_may_drop_and_free() {
    let (d, x) = full("s10.11");
    let y = host().create_buffer(8).unwrap();
    let (tell, told) = channel();
    let slot = Mutex::new(Some((x, y, tell)));
    let inner = d.device.clone();
    let collector = add_collector(move || {
        if let Some((x, y, tell)) = slot.lock().unwrap().take() {
            assert!(inner.held() > 0 && !rig::stats().devices.is_empty());
            tell.send((x.free(), y.free(), inner.trim().is_err())).unwrap();
        }
    });
    d.create_buffer(MIB).unwrap();
    let (x, y, refused) = told.recv_timeout(WATCHDOG).unwrap();
    assert!(x.is_ok() && y.is_ok() && refused);
    drop(collector);
}

#[test]
fn s10_12_create_now_drains_and_makes_the_first_try_only() {
    let (d, x) = full("s10.12");
    let refused = report(d.create_buffer_now(MIB));
    assert_eq!((refused.rounds.len(), refused.immediate), (0, true));
    assert!(refused.to_string().contains("create_buffer reclaims before it fails"));
    let error = d.create_buffer_now(MIB).unwrap_err().to_string();
    assert!(error.ends_with("create_buffer reclaims before it fails"), "{error}");
    drop(x);
    report(d.create_buffer_now(MIB));
    assert_eq!(d.control.count(Call::Block), 0, "it never waits");
    d.control.run_all();
    // Another thread's drain may have it in its hands for a moment.
    soon("its drain", || d.create_buffer_now(MIB).is_ok());
    assert_eq!(d.stats().kind_counts, [1, 1, 0, 0]);
    d.set_budget(2 * MIB).unwrap();
    drop(d.create_buffer_now(MIB + 1).unwrap_err());
    assert_eq!(d.cached(), MIB, "it empties no cache");
}

#[test]
fn s15_budget_a_drop_inside_a_round_on_its_thread_is_found() {
    let d = open("s15 inside");
    d.set_budget(2 * MIB).unwrap();
    let [x, y] = [(); 2].map(|()| d.create_buffer(MIB).unwrap());
    d.record_use(&[], &[&x, &y]).unwrap();
    drop(y);
    let (thread, slot) = (thread::current().id(), Mutex::new(Some(x)));
    let profile = Profile::with_sink(move |event| {
        // The round waits for the work on y, and tells so before it drains.
        if event.what == What::Wait && thread::current().id() == thread {
            drop(slot.lock().unwrap().take());
        }
    });
    let (count, count_one) = counted(thread);
    let collector = add_collector(count_one);
    d.create_buffer(2 * MIB).unwrap();
    assert_eq!((d.stats().kind_counts, count.load(Ordering::Relaxed)), ([0, 2, 0, 1], 0));
    drop((profile, collector));
}

#[test]
fn s15_budget_after_a_caught_error_and_drops_asking_again_fits() {
    let (d, x) = full("s15 again");
    let error = d.create_buffer(MIB).unwrap_err();
    drop(x);
    d.create_buffer(MIB).unwrap();
    assert_eq!(error.code(), "OutOfMemory");
}

#[test]
fn s15_budget_memory_that_another_thread_dropped_is_found() {
    let (d, x) = full("s15 thread");
    thread::spawn(move || drop(x)).join().unwrap();
    d.create_buffer(MIB).unwrap();
}

#[test]
fn s15_budget_memory_of_another_bin_is_found() {
    let d = open("s15 bins");
    d.set_budget(MIB).unwrap();
    let quarters: Vec<Buffer> = (0..4).map(|_| d.create_buffer(MIB / 4).unwrap()).collect();
    drop(quarters);
    d.create_buffer(MIB).unwrap();
    assert_eq!((d.stats().kind_counts, d.stats().freed_count), ([0, 4, 0, 1], 4));
}

#[test]
fn s15_budget_a_create_that_waits_in_a_round_blocks_no_other() {
    let (d, x) = full("s15 beside");
    drop(x);
    let waiting: &Device = &d;
    let mut creating = Box::pin(waiting.create_buffer_async(MIB));
    assert!(poll(creating.as_mut()).is_pending());
    let e = open("s15 beside other");
    e.create_buffer(MIB).unwrap();
    d.control.run_all();
    finish(creating).unwrap();
}

#[test]
fn s10_9_a_round_that_nobody_polls_keeps_no_other_from_the_cache() {
    let d = Script::new("s10.9 unpolled").open();
    d.set_budget(2 * MIB).unwrap();
    let (p, q) = (d.create_buffer(MIB).unwrap(), d.create_buffer(MIB).unwrap());
    d.record_use(&[], &[&p]).unwrap();
    drop(p);
    let device: &Device = &d;
    let mut creating = Box::pin(device.create_buffer_async(MIB / 2));
    assert!(poll(creating.as_mut()).is_pending(), "the round waits for the work");
    d.control.run_all();
    drop(q);
    let all = d.create_buffer(2 * MIB).unwrap();
    drop(all);
    finish(creating).unwrap();
}
