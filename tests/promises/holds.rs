//! S8.9: holds.

use crate::bench::{WATCHDOG, misuse, soon};
use rig::driver::Addressed;
use rig::{Hold, Prepared};
use rig_support::{Answer, Call, Opened, Script, StopEnd, drain};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

fn open(name: &str) -> (Opened, Prepared) {
    let d = Script::new(name).addressed(Addressed::Always).open();
    let empty = d.prepare().build().unwrap();
    (d, empty)
}

/// A hold, and how often it was released.
fn counted() -> (Hold, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&count);
    let hold = Hold::new(move || {
        told.fetch_add(1, Ordering::Relaxed);
    });
    (hold, count)
}

fn times(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[test]
fn s8_9_a_hold_is_released_once_in_a_drain_after_its_submission_is_done() {
    let (d, empty) = open("s8.9 once");
    let (hold, count) = counted();
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    drain(&d);
    drop(hold);
    assert_eq!(times(&count), 0);
    d.control.run_all();
    drain(&d);
    soon("the release", || times(&count) == 1);
    drain(&d);
    assert_eq!(times(&count), 1);
}

#[test]
fn s8_9_a_hold_is_released_after_each_of_its_submissions() {
    let ((d, on_d), (e, on_e)) = (open("s8.9 each d"), open("s8.9 each e"));
    let (hold, count) = counted();
    for prepared in [&on_d, &on_e, &on_d] {
        prepared.submit_holding(&[], &[], &[&hold]).unwrap();
    }
    e.control.run_all();
    d.control.run(1);
    drain(&d);
    drain(&e);
    assert_eq!(times(&count), 0);
    d.control.run_all();
    drain(&d);
    soon("the release", || times(&count) == 1);
    drop(hold);
    assert_eq!(times(&count), 1);
}

#[test]
fn s8_9_a_hold_named_after_its_release_keeps_nothing() {
    let (d, empty) = open("s8.9 named later");
    let (hold, count) = counted();
    for _ in 0..2 {
        empty.submit_holding(&[], &[], &[&hold]).unwrap();
        d.control.run_all();
        drain(&d);
        soon("the release", || times(&count) == 1);
    }
    drop(hold);
    assert_eq!(times(&count), 1);
}

#[test]
fn s8_9_a_hold_is_released_when_its_device_settled() {
    let d = Script::new("s8.9 settled").stops(Answer::WhenTold).open();
    let (hold, count) = counted();
    let empty = d.prepare().build().unwrap();
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    d.device_lost("on purpose");
    drain(&d);
    assert_eq!(times(&count), 0, "the stop is not over");
    d.control.answer_stop();
    d.close().unwrap();
    soon("the release", || times(&count) == 1);
}

#[test]
fn s8_9_a_hold_of_a_device_that_never_settles_is_kept_unless_done() {
    let d = Script::new("s8.9 unsettled").stop_end(StopEnd::NeverSettles).open();
    let ((done, one), (undone, other)) = (counted(), counted());
    let empty = d.prepare().build().unwrap();
    empty.submit_holding(&[], &[], &[&done]).unwrap().wait().unwrap();
    empty.submit_holding(&[], &[], &[&undone]).unwrap();
    d.device_lost("on purpose");
    drain(&d);
    soon("the release", || times(&one) == 1);
    drop((done, undone));
    assert_eq!((times(&one), times(&other)), (1, 0));
}

#[test]
fn s8_9_an_unused_hold_is_released_when_dropped() {
    let (hold, count) = counted();
    assert_eq!(times(&count), 0);
    drop(hold);
    assert_eq!(times(&count), 1);
    let (d, empty) = open("s8.9 unused");
    let (refused, count) = counted();
    d.control.reject_next_hand_over("not today");
    assert!(empty.submit_holding(&[], &[], &[&refused]).is_err());
    drain(&d);
    assert_eq!(times(&count), 0, "a refused submit names it not");
    drop(refused);
    assert_eq!(times(&count), 1);
}

#[test]
fn s8_9_a_hold_keeps_a_value_and_orders_nothing() {
    let (d, empty) = open("s8.9 keeps");
    let x = d.create_buffer(64).unwrap();
    let kept = Arc::new(());
    let hold = Hold::keep((Arc::clone(&kept), x.clone()));
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    assert_eq!(x.stamps(), Default::default());
    x.write(|_| ()).expect("nothing waits for it");
    assert_eq!(Arc::strong_count(&kept), 2);
    d.control.run_all();
    drain(&d);
    soon("the release", || Arc::strong_count(&kept) == 1);
}

#[test]
fn s8_9_a_release_runs_with_no_lock_and_a_panic_in_it_is_caught() {
    let (d, empty) = open("s8.9 panic");
    let (after, count) = counted();
    let inner = d.device.clone();
    let x = d.create_buffer(64).unwrap();
    let hold = Hold::new(move || {
        assert!(inner.stats().live_bytes > 0 && inner.held() > 0);
        drop(x);
        panic!("on purpose");
    });
    empty.submit_holding(&[], &[], &[&hold, &after]).unwrap();
    d.control.run_all();
    drain(&d);
    soon("the next release", || times(&count) == 1);
    drain(&d);
    assert_eq!(d.stats().live_bytes, 0);
    empty.submit(&[], &[]).unwrap();
}

#[test]
fn s8_9_no_stop_runs_beside_a_release() {
    let (d, empty) = open("s8.9 beside");
    let ((entered, inside), (go, gate)) = (channel(), channel::<()>());
    let hold = Hold::new(move || {
        entered.send(()).unwrap();
        gate.recv_timeout(WATCHDOG).unwrap();
    });
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    d.control.run_all();
    std::thread::scope(|threads| {
        let draining = threads.spawn(|| drain(&d));
        inside.recv_timeout(WATCHDOG).unwrap();
        d.device_lost("on purpose");
        assert_eq!(d.control.count(Call::Stop), 0);
        go.send(()).unwrap();
        draining.join().unwrap();
    });
    // Whoever leaves the device last runs its stop.
    d.control.await_calls(Call::Stop, 1);
}

#[test]
fn s8_9_a_release_that_is_due_waits_while_its_device_stops() {
    // Another test's drain may release it ahead of the stop, which says nothing.
    let tries = (0..100).find(|at| waits_while_its_device_stops(*at));
    assert!(tries.is_some(), "it was always released ahead of the stop");
}

/// Whether a release was still due when its device began to stop; it has to wait for the end then.
fn waits_while_its_device_stops(at: u64) -> bool {
    let d = Script::new(format!("s8.9 stops {at}")).stops(Answer::WhenTold).open();
    let (work, count) = (d.prepare().build().unwrap(), Arc::new(AtomicU64::new(0)));
    let (device, control) = (d.device.clone(), d.control.clone());
    // Released first, it makes the other due and loses the device.
    let one = Hold::new(move || {
        control.run(1);
        assert_eq!(device.reached(), 2);
        device.device_lost("on purpose");
    });
    let (control, counted) = (d.control.clone(), Arc::clone(&count));
    let other = Hold::new(move || {
        counted.store(1 + control.count(Call::Stop), Ordering::SeqCst);
    });
    for hold in [&one, &other] {
        work.submit_holding(&[], &[], &[hold]).unwrap();
    }
    d.control.run(1);
    drain(&d);
    d.control.await_calls(Call::Stop, 1);
    drain(&d);
    let before = times(&count);
    assert!(before < 2, "the stop is not over");
    d.control.answer_stop();
    soon("the other release", || times(&count) > 0);
    before == 0
}

#[test]
fn s8_9_the_tick_releases_holds_though_nobody_calls() {
    let (d, empty) = open("s8.9 tick");
    let (tell, told) = channel();
    let hold = Hold::new(move || tell.send(()).unwrap());
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    drop(hold);
    d.control.run_all();
    told.recv_timeout(WATCHDOG).expect("the tick drains");
    assert!(misuse(d.wait(9)) != misuse(d.wait(8)));
}
