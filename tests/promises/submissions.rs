//! S8.3 to S8.6, S8.8: the hand-over of prepared work.

use crate::bench::{finish, lost, misuse, own_halves, poll};
use rig::driver::{Addressed, Native};
use rig::{Buffer, Error, Misuse, Point, Use, host, run};
use rig_support::{Call, Known, Opened, Script, drain, point};
use std::sync::Arc;

/// A device whose memory the host addresses, so that tests see and set its bytes.
fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

/// How many foreign points each hand-over so far waits for in the queue.
fn queued_waits(device: &Opened) -> Vec<u64> {
    device.control.calls(Call::HandOver).iter().map(|entry| entry.bytes).collect()
}

#[test]
fn s8_3_submit_refuses_wrong_run_buffers_and_points() {
    let d = open("s8.3 refuses");
    let e = open("s8.3 other");
    let prepared = d.prepare().fill(run(0), 1).fill(run(1), 2).build().unwrap();
    let (x, y) = (d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    let (dead, foreign) = (d.create_buffer(8).unwrap(), e.create_buffer(8).unwrap());
    dead.free().unwrap();
    let of = |run: &[&Buffer]| misuse(prepared.submit(run, &[]));
    assert_eq!(of(&[&x]), Misuse::RunBuffers { given: 1, named: 2 });
    assert_eq!(of(&[&x, &y, &y]), Misuse::RunBuffers { given: 3, named: 2 });
    assert_eq!(of(&[&x, &dead]), Misuse::Dead { why: "freed".into() });
    assert!(matches!(of(&[&foreign, &y]), Misuse::WrongDevice { .. }));
    for device in [&d, &e] {
        let late = Misuse::NotSubmitted { value: 1, submitted: 0 };
        assert_eq!(misuse(prepared.submit(&[&x, &y], &[point(device, 1)])), late);
    }
    assert_eq!(d.submitted(), 0);
    prepared.submit(&[&x, &y], &[]).unwrap();
}

#[test]
fn s8_3_a_queue_waits_for_the_greatest_value_of_each_device_but_its_own() {
    let [a, b] = ["s8.3 greatest a", "s8.3 greatest b"].map(open);
    let c = open("s8.3 greatest c");
    for _ in 0..3 {
        for device in [&a, &b, &c] {
            device.record_use(&[], &[]).unwrap();
        }
    }
    let waits =
        [point(&a, 1), point(&a, 3), point(&a, 2), point(&b, 2), point(&c, 3), point(&c, 1)];
    let empty = c.prepare().build().unwrap();
    c.control.clear_log();
    empty.submit(&[], &waits).unwrap();
    assert_eq!(queued_waits(&c), [2]);
    c.control.run_all();
    assert_eq!(c.reached(), 3);
    a.control.run(2);
    b.control.run(2);
    c.control.run_all();
    assert_eq!(c.reached(), 3, "a:3 is the greatest of a");
    a.control.run(1);
    c.control.run_all();
    assert_eq!(c.reached(), 4);
}

#[test]
fn s8_3_what_is_reached_is_not_waited_for() {
    let [a, c] = ["s8.3 reached a", "s8.3 reached c"].map(open);
    a.record_use(&[], &[]).unwrap();
    a.control.run_all();
    let empty = c.prepare().build().unwrap();
    empty.submit(&[], &[point(&a, 1)]).unwrap();
    assert_eq!(queued_waits(&c), [0]);
}

#[test]
fn s8_3_what_the_queue_cannot_wait_for_the_host_waits_for() {
    for (name, known, waits_max, queued) in [
        ("one", Known::Scripted, 1, 1),
        ("none", Known::Scripted, 0, 0),
        ("negative", Known::Scripted, i64::MIN, 0),
        ("deaf", Known::Nobody, 64, 0),
        ("many", Known::Scripted, 64, 2),
    ] {
        let [a, b] = ["a", "b"].map(|side| open(&format!("s8.3 {name} {side}")));
        let c = Script::new(format!("s8.3 {name} c")).understands(known, waits_max).open();
        let waits = [&a, &b].map(|device| device.record_use(&[], &[]).unwrap());
        let empty = c.prepare().build().unwrap();
        let mut submitting = Box::pin(empty.submit_async(&[], &waits));
        let mut running = [&a, &b].into_iter();
        while poll(submitting.as_mut()).is_pending() {
            assert_eq!(c.submitted(), 0);
            // The points are in the order of what names them; the last ones are the host's.
            running.next_back().expect("two producers").control.run_all();
        }
        assert_eq!((c.submitted(), queued_waits(&c)), (1, vec![queued]), "{name}");
        a.control.run_all();
        b.control.run_all();
        assert_eq!(c.control.run_all(), 1);
    }
}

#[test]
fn s8_3_producers_are_committed_before_the_turn_is_taken() {
    let a = Script::new("s8.3 batches a").batches().open();
    let c = open("s8.3 batches c");
    let first = a.record_use(&[], &[]).unwrap();
    assert_eq!(a.control.committed(), 0);
    let empty = c.prepare().build().unwrap();
    c.control.gate_calls(Call::Room);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| empty.submit(&[], &[first]));
        c.control.await_calls(Call::Room, 1);
        assert_eq!(a.control.committed(), 1);
        c.control.open_calls(Call::Room);
        submitting.join().unwrap().unwrap();
    });
    c.wait(1).unwrap();
}

#[test]
fn s8_3_a_point_of_a_lost_device_that_is_not_done_is_lost() {
    let [a, c] = ["s8.3 lost a", "s8.3 lost c"].map(open);
    let done = a.record_use(&[], &[]).unwrap();
    a.control.run_all();
    assert!(done.is_reached());
    let undone = a.record_use(&[], &[]).unwrap();
    a.device_lost("on purpose");
    let empty = c.prepare().build().unwrap();
    assert_eq!(lost(empty.submit(&[], &[done, undone])).0, "s8.3 lost a");
    assert_eq!(empty.submit(&[], &[done]).unwrap().value(), 1);
}

#[test]
fn s8_3_without_room_a_submit_commits_and_waits_for_one_more_value() {
    let d = Script::new("s8.3 room").addressed(Addressed::Always).batches().queue_parts(2).open();
    let x = d.create_buffer(8).unwrap();
    let one = d.prepare().fill(&x, 1).build().unwrap();
    one.submit(&[], &[]).unwrap();
    one.submit(&[], &[]).unwrap();
    let mut submitting = Box::pin(one.submit_async(&[], &[]));
    assert!(poll(submitting.as_mut()).is_pending());
    assert_eq!((d.submitted(), d.control.committed()), (2, 1));
    drop(x.claim_read().unwrap());
    d.control.run(1);
    assert_eq!(finish(submitting).unwrap().value(), 3);
    one.submit(&[], &[]).expect("a blocking submit makes room");
    assert_eq!((d.submitted(), d.control.ran()), (4, 2));
}

#[test]
fn s8_3_a_submit_that_waits_for_room_holds_no_claim() {
    let d = Script::new("s8.3 claims").addressed(Addressed::Always).queue_parts(1).open();
    let (x, y) = (d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    d.record_use(&[], &[&y]).unwrap();
    let fill = d.prepare().fill(&x, 1).build().unwrap();
    let mut submitting = Box::pin(fill.submit_async(&[], &[]));
    assert!(poll(submitting.as_mut()).is_pending());
    x.write(|_| ()).unwrap();
    x.free().unwrap();
    d.control.run_all();
    assert!(matches!(misuse(finish(submitting)), Misuse::Dead { .. }));
    assert_eq!(d.submitted(), 1);
}

#[test]
fn s8_3_parts_that_never_fit_are_too_large() {
    let d = Script::new("s8.3 large").queue_parts(2).open();
    let x = d.create_buffer(8).unwrap();
    let three = d.prepare().fill(&x, 1).fill(&x, 2).fill(&x, 3).build().unwrap();
    assert_eq!(misuse(three.submit(&[], &[])), Misuse::TooLarge);
    d.record_use(&[], &[]).unwrap();
    assert_eq!(misuse(three.submit(&[], &[])), Misuse::TooLarge);
    assert_eq!((d.submitted(), x.stamps()), (1, Default::default()));
}

#[test]
fn s8_3_what_the_driver_rejects_takes_no_value() {
    let d = open("s8.3 rejected");
    let x = d.create_buffer(8).unwrap();
    let native = d.prepare().writes(&x).native(Native(Arc::new(()))).build().unwrap();
    assert!(matches!(misuse(native.submit(&[], &[])), Misuse::Rejected { .. }));
    let fill = d.prepare().fill(&x, 1).build().unwrap();
    d.control.reject_next_hand_over("not today");
    assert_eq!(misuse(fill.submit(&[], &[])), Misuse::Rejected { why: "not today".into() });
    assert_eq!((d.submitted(), x.stamps()), (0, Default::default()));
    assert_eq!(fill.submit(&[], &[]).unwrap().value(), 1);
}

#[test]
fn s8_3_work_that_the_driver_refuses_is_offered_again_after_a_round() {
    let d = open("s8.3 refused once");
    let (x, cached) = (d.create_buffer(8).unwrap(), d.create_buffer(8192).unwrap());
    let prepared = d.prepare().fill(run(0), 7).build().unwrap();
    drop(cached);
    drain(&d);
    assert_eq!(d.cached(), 8192);
    d.control.clear_log();
    d.control.refuse_next_hand_over(64);
    let point = prepared.submit(&[&x], &[]).unwrap();
    assert_eq!((point.value(), d.submitted(), d.cached()), (1, 1, 0));
    assert_eq!(d.control.calls(Call::HandOver).len(), 2, "the same value is offered twice");
    d.control.run_all();
    assert_eq!(x.read(|bytes| bytes.to_vec()).unwrap(), [7; 8]);
    d.control.check();
}

#[test]
fn s8_3_work_that_the_driver_refuses_after_three_rounds_is_out_of_memory_and_takes_no_value() {
    let d = open("s8.3 refused for good");
    let x = d.create_buffer(512).unwrap();
    let prepared = d.prepare().fill(run(0), 7).build().unwrap();
    d.control.refuse_from(1);
    let Err(Error::OutOfMemory { device, asked_bytes, held_bytes, report, .. }) =
        prepared.submit(&[&x], &[])
    else {
        panic!("there is no room");
    };
    assert_eq!((&*device, asked_bytes, held_bytes), (d.name(), 4096, 512));
    assert_eq!((report.rounds.len(), report.live_bytes, report.immediate), (3, 512, false));
    assert_eq!((d.submitted(), x.stamps().write, d.lost()), (0, None, None));
    // It holds no claim, and no other work up.
    x.write(|bytes| bytes.fill(1)).unwrap();
    d.control.end_plan();
    assert_eq!(prepared.submit(&[&x], &[]).unwrap().value(), 1);
    d.control.check();
}

#[test]
fn s8_3_a_fault_in_the_hand_over_loses_the_device_and_counts_the_value() {
    let d = open("s8.3 fault");
    let x = d.create_buffer(8).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    d.control.run_all();
    assert_eq!(d.reached(), 1);
    d.control.fail_next_hand_over("on purpose");
    assert_eq!(lost(d.record_use(&[], &[&x])), ("s8.3 fault".into(), "on purpose".into()));
    assert_eq!((d.submitted(), d.reached()), (2, 1));
    assert_eq!(x.stamps().write, Some(point(&d, 2)));
    assert_eq!(d.control.count(Call::Stop), 1);
}

#[test]
fn s8_3_a_producer_lost_during_the_hand_over_is_lost() {
    let [a, c] = ["s8.3 producer a", "s8.3 producer c"].map(open);
    let first = a.record_use(&[], &[]).unwrap();
    let empty = c.prepare().build().unwrap();
    c.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| empty.submit(&[], &[first]));
        c.control.await_calls(Call::HandOver, 1);
        a.device_lost("on purpose");
        c.control.open_calls(Call::HandOver);
        let told = lost(submitting.join().unwrap());
        assert_eq!(told, ("s8.3 producer c".into(), "s8.3 producer a lost".into()));
    });
}

#[test]
fn s8_4_a_refused_submit_taints_no_memory_and_keeps_no_run_buffer() {
    let d = own_halves(Script::new("s8.4")).open();
    let x = d.create_buffer(1 << 20).unwrap();
    let fill = d.prepare().fill(run(0), 1).build().unwrap();
    d.control.reject_next_hand_over("not today");
    assert!(fill.submit(&[&x], &[]).is_err());
    assert_eq!((d.submitted(), x.stamps()), (0, Default::default()));
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), 1 << 20);
}

#[test]
fn s8_4_a_run_buffer_lives_until_its_stamps_are_up() {
    let d = open("s8.4 run");
    let fill = d.prepare().fill(run(0), 1).build().unwrap();
    let x = d.create_buffer(1 << 20).unwrap();
    fill.submit(&[&x], &[]).unwrap();
    drop(x);
    drain(&d);
    assert_eq!((d.cached(), d.stats().returning_bytes), (0, 1 << 20));
    d.control.run_all();
    drain(&d);
    assert_eq!(d.cached(), 1 << 20);
}

#[test]
fn s8_5_two_threads_may_submit_one_prepared_submission() {
    let d = open("s8.5 two");
    let x = d.create_buffer(8).unwrap();
    let prepared = d.prepare().fill(run(0), 1).writes(&x).build().unwrap();
    let (y, z) = (d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    let submit = |run: &Buffer| -> Vec<Point> {
        (0..100).map(|_| prepared.submit(&[run], &[]).unwrap()).collect()
    };
    let values = std::thread::scope(|threads| {
        let other = threads.spawn(|| submit(&y));
        [submit(&z), other.join().unwrap()].concat()
    });
    let mut values: Vec<u64> = values.into_iter().map(Point::value).collect();
    values.sort_unstable();
    assert_eq!(values, (1..=200).collect::<Vec<_>>());
}

#[test]
fn s8_5_while_a_hand_over_blocks_other_devices_turns_are_free() {
    let [a, b] = ["s8.5 blocks", "s8.5 free"].map(open);
    let prepared = a.prepare().build().unwrap();
    a.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| prepared.submit(&[], &[]));
        a.control.await_calls(Call::HandOver, 1);
        let x = b.create_buffer(8).unwrap();
        assert_eq!(b.record_use(&[], &[&x]).unwrap().value(), 1);
        let mut second = Box::pin(prepared.submit_async(&[], &[]));
        assert!(poll(second.as_mut()).is_pending(), "its own turn is taken");
        a.control.open_calls(Call::HandOver);
        assert_eq!(submitting.join().unwrap().unwrap().value(), 1);
        assert_eq!(finish(second).unwrap().value(), 2);
    });
}

#[test]
fn s8_6_an_empty_submission_takes_a_value_and_stamps_what_it_names() {
    let d = open("s8.6");
    let (x, y) = (d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    let none = d.prepare().build().unwrap();
    assert_eq!(none.submit(&[], &[]).unwrap().value(), 1);
    let uses = d.prepare().reads(&x).writes(run(0)).build().unwrap();
    let point = uses.submit(&[&y], &[]).unwrap();
    assert_eq!((x.stamps().write, x.stamps().uses), (None, vec![point]));
    assert_eq!((y.stamps().write, y.stamps().uses), (Some(point), vec![point]));
    let told = d.record_use(&[&y], &[&x]).unwrap();
    assert_eq!((x.stamps().write, y.stamps().uses), (Some(told), vec![told]));
    assert_eq!(told.value(), 3);
}

#[test]
fn s8_6_memory_named_twice_is_stamped_with_the_greater_use() {
    let d = open("s8.6 twice");
    let x = d.create_buffer(100).unwrap();
    let (left, right) = (x.view(0, 50).unwrap(), x.view(50, 50).unwrap());
    let point =
        d.prepare().copy(&left, &right).reads(&x).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!((x.stamps().write, x.stamps().uses), (Some(point), vec![point]));
    d.control.check();
}

#[test]
fn s8_6_empty_buffers_may_be_named() {
    let d = open("s8.6 empty");
    let (e, f) = (d.create_buffer(0).unwrap(), host().create_buffer(0).unwrap());
    let b = f.borrow(&d).unwrap().unwrap();
    let prepared = d.prepare().copy(&e, &b).fill(run(0), 1).build().unwrap();
    prepared.submit(&[&e], &[]).unwrap();
    d.control.run_all();
    d.control.check();
    assert_eq!(d.reached(), 1);
}

#[test]
fn s8_8_a_value_found_wrong_later_is_told_by_its_own_wait_alone() {
    let d = open("s8.8");
    let x = d.create_buffer(8).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    d.control.reject_next_hand_over_later("a bad encoding");
    let wrong = d.record_use(&[], &[&x]).unwrap();
    let after = d.record_use(&[], &[&x]).unwrap();
    after.wait().unwrap();
    assert_eq!(misuse(wrong.wait()), Misuse::Rejected { why: "a bad encoding".into() });
    assert_eq!(
        misuse(finish(wrong.wait_async())),
        Misuse::Rejected { why: "a bad encoding".into() }
    );
    d.wait(1).unwrap();
    x.wait(Use::Write).unwrap();
}
