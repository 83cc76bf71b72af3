//! How devices are lost, and what is left in order then (S12.1, S12.8, and Loss of S15).

use crate::bench::{lost, own_halves, soon};
use rig::driver::Addressed;
use rig::{Buffer, Device, Point, Use, copy, host, memory};
use rig_support::{
    Answer, Call, Known, Opened, SCRIPTED_FAULT, Script, Sleep, StopEnd, double, drain, point,
};

const LEN: u64 = 64 << 10;

fn submit_empty(device: &Opened) -> rig::Result<Point> {
    device.prepare().build()?.submit(&[], &[])
}

/// A call on a device.
type CallOn = fn(&Opened) -> rig::Result<()>;

/// Device d reads host memory as its next value.
fn read_by(d: &Opened) -> Buffer {
    let h = host().create_buffer(LEN).unwrap();
    let on_d = h.borrow(d).unwrap().unwrap();
    d.prepare().reads(&on_d).build().unwrap().submit(&[], &[]).unwrap();
    h
}

#[test]
fn s12_1_a_fault_of_any_driver_call_loses_the_device_with_its_reason() {
    let calls: [(&str, CallOn); 6] = [
        ("allocation", |d| d.create_buffer(8).map(drop)),
        ("mapping", |d| host().create_buffer(LEN)?.borrow(d).map(drop)),
        ("load", |d| d.kernel(rig::memory::function("none", |_| ())).map(drop)),
        ("prepare", |d| d.prepare().build().map(drop)),
        ("hand-over", |d| submit_empty(d).map(drop)),
        ("wait", |d| d.wait(1)),
    ];
    for (what, call) in calls {
        let name = format!("s12_1 fault {what}");
        let d = Script::new(&name).open();
        submit_empty(&d).unwrap();
        d.control.fault_from(1);
        assert_eq!(lost(call(&d)), (name, SCRIPTED_FAULT.to_owned()), "{what}");
        assert_eq!(d.lost().as_deref(), Some(SCRIPTED_FAULT));
    }
}

#[test]
fn s12_1_a_failed_hand_over_loses_the_device_and_counts_its_value() {
    let d = Script::new("s12_1 hand-over").open();
    d.control.fail_next_hand_over("the wire broke");
    assert_eq!(lost(submit_empty(&d)).1, "the wire broke");
    assert_eq!((d.submitted(), d.reached()), (1, 0));
}

#[test]
fn s12_1_a_failed_commit_loses_the_device() {
    let d = Script::new("s12_1 commit").batches().open();
    submit_empty(&d).unwrap();
    d.control.fault("the queue is gone");
    assert_eq!(lost(d.wait(1)).1, "the queue is gone");
}

#[test]
fn s12_1_a_word_that_stands_still_under_a_waiter_loses_the_device() {
    let d = Script::new("s12_1 hangs").facts(|facts| facts.hang_ms = Some(30)).open();
    submit_empty(&d).unwrap();
    d.control.gate();
    assert_eq!(lost(d.wait(1)).1, "no progress for 30 ms");
    assert_eq!(d.control.count(Call::Stop), 1);
}

/// Lets two sleeps of 200 ms pass, on a device of its own.
fn let_time_pass(name: &str) {
    let slow = Script::new(name).open();
    submit_empty(&slow).unwrap();
    slow.control.gate();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| slow.wait(1));
        slow.control.await_calls(Call::Block, 3);
        slow.control.open_gate();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn s12_1_idle_time_does_not_count_for_the_hang_bound() {
    let d = Script::new("s12_1 idle").facts(|facts| facts.hang_ms = Some(150)).open();
    submit_empty(&d).unwrap().wait().unwrap();
    let_time_pass("s12_1 idle clock");
    submit_empty(&d).unwrap();
    d.control.sleeps([Sleep::Stall(3)]);
    d.wait(2).unwrap();
    submit_empty(&d).unwrap();
    let_time_pass("s12_1 unwatched clock");
    d.control.sleeps([Sleep::Stall(3)]);
    // Nobody waited meanwhile.
    d.wait(3).unwrap();
    assert_eq!(d.lost(), None);
}

#[test]
fn s12_1_waiting_for_another_device_does_not_count_for_the_hang_bound() {
    let slow = Script::new("s12_1 slow").open();
    let d = Script::new("s12_1 patient").facts(|facts| facts.hang_ms = Some(50)).open();
    let first = submit_empty(&slow).unwrap();
    slow.control.gate();
    d.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| d.wait(1));
        d.control.await_calls(Call::Block, 3);
        slow.control.open_gate();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn s12_1_the_stop_runs_once_with_no_call_in_flight() {
    let d = Script::new("s12_1 flight").open();
    d.control.gate_calls(Call::Alloc);
    std::thread::scope(|threads| {
        let creating = threads.spawn(|| d.create_buffer(LEN));
        d.control.await_calls(Call::Alloc, 1);
        d.device_lost("unplugged");
        assert_eq!(d.control.count(Call::Stop), 0, "an allocation is in flight");
        d.control.open_calls(Call::Alloc);
        let _ = creating.join().unwrap();
    });
    d.close().unwrap();
    d.device_lost("again");
    assert_eq!((d.control.count(Call::Stop), d.lost().as_deref()), (1, Some("unplugged")));
}

#[test]
fn s12_3_a_settled_devices_unfinished_uses_are_dropped() {
    let d = Script::new("s12_3 dropped").stops(Answer::WhenTold).open();
    let h = read_by(&d);
    assert_eq!(h.stamps().uses, [point(&d, 1)]);
    d.device_lost("unplugged");
    assert_eq!(h.stamps().uses, [point(&d, 1)]);
    d.control.answer_stop();
    d.close().unwrap();
    assert_eq!(h.stamps().uses, []);
}

#[test]
fn s12_8_memory_of_a_stopped_device_goes_back_after_others_unmapped_it() {
    let d = Script::new("s12_8 d").open();
    let e = Script::new("s12_8 e").peers(Known::Scripted).open();
    let x = d.create_buffer(LEN).unwrap();
    let on_e = x.borrow(&e).unwrap().unwrap();
    e.prepare().reads(&on_e).build().unwrap().submit(&[], &[]).unwrap();
    drop(x);
    d.close().unwrap();
    drain(&d);
    assert_eq!((d.is_settled(), d.control.count(Call::Free)), (true, 0));
    drop(on_e);
    drain(&e);
    drain(&d);
    assert_eq!(d.control.count(Call::Free), 0, "e:1 is not reached");
    e.wait(1).unwrap();
    drain(&e);
    drain(&d);
    assert_eq!((e.control.count(Call::Release), d.control.count(Call::Free)), (1, 1));
}

#[test]
fn s12_8_memory_of_a_device_that_never_settles_never_goes_back() {
    let d = Script::new("s12_8 never").stop_end(StopEnd::NeverSettles).open();
    let x = d.create_buffer(LEN).unwrap();
    d.prepare().fill(&x, 1).build().unwrap().submit(&[], &[]).unwrap();
    let h = read_by(&d);
    drop((x, h));
    d.device_lost("unplugged");
    d.close().unwrap();
    assert!(!d.is_settled());
    drain(&d);
    drain(&host());
    assert_eq!((d.control.count(Call::Free), d.control.mappings_live()), (0, 1));
    assert_eq!(d.stats().returning_bytes, LEN);
}

#[test]
fn s15_loss_every_call_after_it_answers_and_everything_balances() {
    let d = own_halves(Script::new("s15 loss balance")).open();
    let kernel = double(&d);
    let (x, y) = (d.create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
    let h = host().create_buffer(LEN).unwrap();
    let on_d = h.borrow(&d).unwrap().unwrap();
    let work = d.prepare().launch(&kernel, [1; 3]).writes(&x).build().unwrap();
    work.submit(&[], &[]).unwrap();
    let back = d.prepare().copy(&x, &on_d).build().unwrap();
    back.submit(&[], &[]).unwrap();
    drop(y);
    d.control.fault("unplugged");
    lost(d.wait(2));
    lost(work.submit(&[], &[]));
    lost(copy(&x, &h));
    lost(x.fill(1));
    lost(d.create_buffer(1));
    x.free().unwrap();
    drop((work, back, kernel, on_d, h));
    drain(&d);
    drain(&host());
    d.control.await_returned();
    assert_eq!((d.held(), d.control.count(Call::Stop)), (0, 1));
}

#[test]
fn s15_loss_spreads_through_three_devices() {
    let [a, b, c] = ["a", "b", "c"].map(|name| Script::new(format!("s15 spread {name}")).open());
    let other = Script::new("s15 spread other").open();
    let first = submit_empty(&a).unwrap();
    let second = b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    c.prepare().build().unwrap().submit(&[], &[second]).unwrap();
    submit_empty(&other).unwrap();
    a.control.fault("unplugged");
    assert_eq!(lost(a.wait(1)).1, "unplugged");
    // Whoever met the fault spreads it.
    let why = |device: &Device| device.lost().map(|why| why.to_string());
    soon("the loss of b", || why(&b).as_deref() == Some("s15 spread a lost"));
    soon("the loss of c", || why(&c).as_deref() == Some("s15 spread b lost"));
    other.wait(1).unwrap();
}

#[test]
fn s15_loss_does_not_spread_to_who_waited_for_a_reached_value() {
    let (a, b) = (Script::new("s15 reached a").open(), Script::new("s15 reached b").open());
    let first = submit_empty(&a).unwrap();
    b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    first.wait().unwrap();
    a.device_lost("unplugged");
    b.wait(1).unwrap();
}

#[test]
fn s15_loss_of_two_sleepers_is_one() {
    let d = Script::new("s15 sleepers").open();
    submit_empty(&d).unwrap();
    d.control.gate();
    std::thread::scope(|threads| {
        let waiting = [(); 2].map(|()| threads.spawn(|| d.wait(1)));
        d.control.await_calls(Call::Block, 2);
        d.control.fault("unplugged");
        for thread in waiting {
            assert_eq!(lost(thread.join().unwrap()).1, "unplugged");
        }
    });
    // Whoever leaves the device last runs its stop.
    d.control.await_calls(Call::Stop, 1);
}

#[test]
fn s15_loss_found_in_a_drain_is_not_blamed_on_the_next_caller() {
    let d = Script::new("s15 drain").open();
    let e = Script::new("s15 drain other").open();
    drop(read_by(&d));
    d.control.fault("unplugged");
    // These calls drain the host, whose memory waits for d:1.
    host().create_buffer(LEN).unwrap();
    e.create_buffer(LEN).unwrap();
    drain(&host());
    assert_eq!((d.lost().as_deref(), e.lost()), (Some("unplugged"), None));
}

#[test]
fn s15_loss_reused_memory_waits_for_nothing_of_a_settled_device() {
    let e = Script::new("s15 reuse other").addressed(Addressed::Always).open();
    let d = Script::new("s15 reuse user").maps_host(Some(64)).stops(Answer::WhenTold).open();
    let x = e.create_buffer(LEN).unwrap();
    let on_d = x.borrow(&d).unwrap().unwrap();
    d.prepare().writes(&on_d).build().unwrap().submit(&[], &[]).unwrap();
    d.device_lost("unplugged");
    drop((x, on_d));
    drain(&e);
    assert_eq!(e.cached(), 0, "work of the lost device may still run");
    d.control.answer_stop();
    d.close().unwrap();
    drain(&e);
    assert_eq!(e.cached(), LEN);
    let again = e.create_buffer(LEN).unwrap();
    assert_eq!((again.stamps().write, again.stamps().uses.len()), (None, 0));
    again.write(|bytes| bytes.fill(1)).unwrap();
    again.wait(Use::Write).unwrap();
}

#[test]
fn s0_5_a_panic_of_a_launch_inside_submit_is_a_fault_of_its_device() {
    let m = memory::open("s0_5 launch").unwrap();
    let bad = rig::memory::function("bad", |_| panic!("on purpose"));
    let kernel = m.kernel(bad).unwrap();
    let (device, why) = lost(kernel.launch([1; 3]).submit());
    assert_eq!(device, "s0_5 launch");
    assert!(why.contains("on purpose"), "{why}");
}

#[test]
fn s8_7_a_value_that_ran_before_the_loss_takes_no_device_along() {
    let (a, b) = (Script::new("s8_7 ran a").open(), Script::new("s8_7 ran b").open());
    let first = submit_empty(&a).unwrap();
    b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    // Nobody has looked at either word yet.
    assert_eq!((a.control.run_all(), b.control.run_all()), (1, 1));
    a.device_lost("unplugged");
    assert_eq!(b.lost(), None);
    b.wait(1).unwrap();
}

#[test]
fn s12_1_no_stop_comes_beside_a_question_about_a_rejection() {
    let d = Script::new("s12_1 rejected").open();
    submit_empty(&d).unwrap();
    d.control.run_all();
    d.control.gate_calls(Call::Rejected);
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| d.wait(1));
        d.control.await_calls(Call::Rejected, 1);
        d.device_lost("unplugged");
        d.control.open_calls(Call::Rejected);
        let _ = waiting.join().unwrap();
    });
    d.control.check();
}

#[test]
fn s12_1_no_stop_comes_beside_a_hand_over_that_names_the_device_as_producer() {
    let (a, b) = (Script::new("s12_1 named a").open(), Script::new("s12_1 named b").open());
    let first = submit_empty(&a).unwrap();
    b.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| b.prepare().build()?.submit(&[], &[first]));
        b.control.await_calls(Call::HandOver, 1);
        a.device_lost("unplugged");
        assert!(!a.control.is_stopped());
        b.control.open_calls(Call::HandOver);
        assert_eq!(lost(submitting.join().unwrap()).1, "s12_1 named a lost");
    });
    a.control.await_calls(Call::Stop, 1);
}
