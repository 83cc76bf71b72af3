//! Timelines, values and points (S2).

use crate::bench::{lost, misuse, own_halves, pattern};
use rig::driver::{Addressed, Queue};
use rig::{Claims, Hold, Misuse, Use, copy, host, memory, wrap};
use rig_support::{Answer, Call, Known, Opened, Script, Sleep, StopWord, double, drain, point};

/// Submits a value without work.
fn submit_empty(device: &Opened) -> rig::Result<rig::Point> {
    device.prepare().build()?.submit(&[], &[])
}

#[test]
fn s2_1_each_of_these_takes_one_value() {
    let d = own_halves(Script::new("s2_1 one")).code_bytes(4_096).open();
    let half_bytes = d.facts().half_bytes;
    let h = host().create_buffer(2 * half_bytes).unwrap();
    let (x, y) = (d.create_buffer(h.len()).unwrap(), d.create_buffer(h.len()).unwrap());
    let takes = |what: &str, count: u64, call: &mut dyn FnMut()| {
        let before = d.submitted();
        call();
        assert_eq!(d.submitted() - before, count, "{what}");
    };
    takes("a submission", 1, &mut || _ = submit_empty(&d).unwrap());
    takes("a device copy", 1, &mut || copy(&x, &y).unwrap());
    takes("each leg of a staged copy", 2, &mut || copy(&h, &x).unwrap());
    takes("each leg of a blit", 2, &mut || x.blit_to(0, &mut pattern(h.len(), 0)).unwrap());
    takes("a device fill", 1, &mut || x.fill(1).unwrap());
    takes("a code load into device memory", 1, &mut || drop(double(&d)));
}

#[test]
fn s2_1_nothing_else_takes_a_value() {
    let d = Script::new("s2_1 none").addressed(Addressed::Always).maps_host(Some(1)).open();
    let x = d.create_buffer(64).unwrap();
    let h = host().create_buffer(64).unwrap();
    copy(&h, &x).unwrap();
    x.fill(1).unwrap();
    x.blit_from(0, &[1; 64]).unwrap();
    x.read(|_| x.view(0, 8).unwrap()).unwrap();
    x.write(|_| ()).unwrap();
    x.export().unwrap().copy_out(0, &mut [0; 64]).unwrap();
    h.borrow(&d).unwrap().expect("d maps any host memory");
    wrap(vec![1_u8; 8]).borrow(&d).unwrap().expect("and wrapped memory too");
    x.claim_read().unwrap();
    Claims::with(&[&x], &[], |_| ()).unwrap();
    x.wait(Use::Write).unwrap();
    x.lend().unwrap();
    drop(Hold::keep(1));
    double(&d);
    d.prepare().fill(&x, 1).build().unwrap();
    drain(&d);
    x.free().unwrap();
    d.free_cache().unwrap();
    assert_eq!(d.submitted(), 0);
}

#[test]
fn s2_2_a_point_prints_name_and_value() {
    let d = Script::new("s2_2 printed").open();
    let at = submit_empty(&d).unwrap();
    assert_eq!((at.to_string().as_str(), at.value()), ("s2_2 printed:1", 1));
    assert_eq!(at.word(), d.id().index() << 48 | 1);
}

#[test]
fn s2_2_after_the_last_value_the_next_hand_over_loses_the_device() {
    let last = (1 << 48) - 1;
    let d = Script::new("s2_2 last").first_value(last - 1).open();
    assert_eq!(d.submitted(), last - 1);
    submit_empty(&d).unwrap().wait().unwrap();
    assert_eq!((d.submitted(), d.reached()), (last, last));
    let (device, why) = lost(submit_empty(&d));
    assert_eq!((device.as_str(), why.as_str()), ("s2_2 last", "no values left"));
    assert_eq!(d.submitted(), last);
}

#[test]
fn s2_3_submitted_starts_at_0_and_never_falls() {
    let d = Script::new("s2_3").open();
    assert_eq!((d.submitted(), d.reached()), (0, 0));
    submit_empty(&d).unwrap();
    d.control.reject_next_hand_over("wrong");
    assert!(matches!(misuse(submit_empty(&d)), Misuse::Rejected { .. }));
    assert_eq!(d.submitted(), 1);
    d.device_lost("unplugged");
    assert_eq!(d.submitted(), 1);
}

#[test]
fn s2_4_reached_is_the_word_as_the_driver_shows_it_and_never_waits() {
    let d = Script::new("s2_4 word").open();
    for _ in 0..3 {
        submit_empty(&d).unwrap();
    }
    assert_eq!(d.reached(), 0);
    assert_eq!((d.control.run(2), d.reached()), (2, 2));
    assert_eq!((d.control.run(1), d.reached()), (1, 3));
    assert_eq!(d.control.count(Call::Block), 0);
}

#[test]
fn s2_4_who_saw_the_word_sees_the_writes() {
    let d = Script::new("s2_4 writes").addressed(Addressed::Always).open();
    let x = d.create_buffer(64).unwrap();
    d.prepare().fill(&x, 7).build().unwrap().submit(&[], &[]).unwrap();
    d.control.run_all();
    assert_eq!(d.reached(), 1);
    d.control.clear_log();
    x.read(|bytes| assert_eq!(bytes, [7; 64])).unwrap();
    assert_eq!(d.control.count(Call::Block), 0);
}

#[test]
fn s2_5_no_device_waits_for_its_own_points() {
    let d = Script::new("s2_5 own").understands(Known::Nobody, 0).open();
    let x = d.create_buffer(64).unwrap();
    let work = d.prepare().fill(&x, 1).build().unwrap();
    let first = work.submit(&[], &[]).unwrap();
    work.submit(&[], &[first]).unwrap();
    assert_eq!(d.reached(), 0);
    let waits: Vec<u64> = d.control.calls(Call::HandOver).iter().map(|entry| entry.bytes).collect();
    assert_eq!((waits, d.control.count(Call::Block)), (vec![0, 0], 0));
}

#[test]
fn s2_5_values_run_in_order_on_whatever_queue() {
    let two = Script::new("s2_5 order").queues([Queue::ALL, Queue::ALL]);
    let d = two.addressed(Addressed::Always).open();
    let x = d.create_buffer(64).unwrap();
    let on = |queue, byte| d.prepare().fill(&x, byte).queue(queue).build().unwrap();
    let work = [on(0, 1), on(1, 2), on(0, 3)];
    work.iter().for_each(|work| _ = work.submit(&[], &[]).unwrap());
    for value in 1..=3 {
        assert_eq!((d.control.run(1), d.reached()), (1, value));
    }
    x.read(|bytes| assert_eq!(bytes, [3; 64])).unwrap();
}

#[test]
fn s2_6_a_wait_of_the_host_first_commits_the_awaited_device() {
    let d = Script::new("s2_6 host").batches().open();
    submit_empty(&d).unwrap();
    submit_empty(&d).unwrap();
    assert_eq!(d.control.committed(), 0);
    d.wait(2).unwrap();
    let calls: Vec<Call> = d.control.log().iter().map(|entry| entry.call).collect();
    let at = |call| calls.iter().position(|known| *known == call).unwrap();
    assert!(at(Call::Commit) < at(Call::Block));
}

#[test]
fn s2_6_a_driver_that_keeps_work_back_is_served_soon_without_a_wait() {
    let d = Script::new("s2_6 kept back").batches().open();
    for _ in 0..3 {
        let served = d.control.count(Call::Service);
        submit_empty(&d).unwrap();
        d.control.await_calls(Call::Service, served + 1);
    }
    assert_eq!(d.control.committed(), 0);
}

#[test]
fn s2_6_a_wait_of_another_queue_first_commits_the_awaited_device() {
    let a = Script::new("s2_6 a").batches().open();
    let b = Script::new("s2_6 b").open();
    let first = submit_empty(&a).unwrap();
    b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    assert_eq!((a.control.committed(), a.reached()), (1, 0));
    assert_eq!(b.control.calls(Call::HandOver)[0].bytes, 1, "b's queue waits");
}

#[test]
fn s2_7_a_wait_returns_once_the_value_is_reached() {
    let d = Script::new("s2_7 reached").open();
    let first = submit_empty(&d).unwrap();
    submit_empty(&d).unwrap();
    d.wait(0).unwrap();
    assert_eq!(d.reached(), 0);
    first.wait().unwrap();
    assert_eq!((d.reached(), first.is_reached()), (1, true));
    d.wait(1).unwrap();
    assert_eq!(d.reached(), 1);
}

#[test]
fn s2_7_a_value_not_submitted_is_misuse() {
    let d = Script::new("s2_7 later").open();
    submit_empty(&d).unwrap();
    assert_eq!(misuse(d.wait(2)), Misuse::NotSubmitted { value: 2, submitted: 1 });
    assert_eq!(misuse(point(&d, 2).wait()), Misuse::NotSubmitted { value: 2, submitted: 1 });
    assert_eq!(misuse(d.point(2)), Misuse::NotSubmitted { value: 2, submitted: 1 });
}

#[test]
fn s2_7_on_a_lost_device_every_value_is_lost_however_old() {
    let d = Script::new("s2_7 lost").open();
    let first = submit_empty(&d).unwrap();
    first.wait().unwrap();
    d.device_lost("unplugged");
    assert_eq!(lost(d.wait(1)).1, "unplugged");
    assert_eq!(lost(first.wait()).1, "unplugged");
    assert_eq!(lost(d.wait(0)).1, "unplugged");
    assert!(first.is_reached(), "the fact stays");
}

#[test]
fn s2_8_done_is_what_the_word_had_shown_when_the_loss_was_recorded() {
    let d = Script::new("s2_8 done").addressed(Addressed::Always).maps_host(Some(1)).open();
    let h = [1, 2].map(|_| host().create_buffer(64).unwrap());
    let borrows = h.each_ref().map(|h| h.borrow(&d).unwrap().expect("d maps host memory"));
    for borrow in &borrows {
        d.prepare().fill(borrow, 5).build().unwrap().submit(&[], &[]).unwrap();
    }
    d.wait(1).unwrap();
    d.device_lost("unplugged");
    h[0].read(|bytes| assert_eq!(bytes, [5; 64])).unwrap();
    assert_eq!(lost(h[1].read(|_| ())).0, "s2_8 done");
}

#[test]
fn s2_8_a_stop_that_writes_the_word_makes_nothing_done() {
    let script = Script::new("s2_8 stop").addressed(Addressed::Always).maps_host(Some(1));
    let d = script.stop_word(StopWord::WritesLast).stops(Answer::WhenTold).open();
    let h = host().create_buffer(64).unwrap();
    let borrow = h.borrow(&d).unwrap().expect("d maps host memory");
    d.prepare().fill(&borrow, 5).build().unwrap().submit(&[], &[]).unwrap();
    d.device_lost("unplugged");
    assert_eq!(d.reached(), 0);
    lost(h.read(|_| ()));
    assert!(!d.is_settled(), "the stop is not over");
    d.control.answer_stop();
    d.close().unwrap();
    assert_eq!((d.is_settled(), d.reached()), (true, 0));
    lost(h.read(|_| ()));
}

#[test]
fn s2_9_a_fault_found_with_the_completion_makes_the_value_unreached() {
    let d = Script::new("s2_9").open();
    let x = d.create_buffer(64).unwrap();
    d.prepare().fill(&x, 7).build().unwrap().submit(&[], &[]).unwrap();
    d.control.fault_word("the card fell off");
    d.control.run_all();
    assert_eq!(d.reached(), 0);
    assert_eq!(lost(d.wait(1)).1, "the card fell off");
}

#[test]
fn s2_9_a_word_once_lost_is_never_raised() {
    let d = Script::new("s2_9 lost").open();
    submit_empty(&d).unwrap();
    submit_empty(&d).unwrap();
    d.control.run(1);
    d.reached();
    d.control.sleeps([Sleep::Fault("unplugged".into())]);
    lost(d.wait(2));
    assert_eq!(d.reached(), 1);
}

#[test]
fn s2_7_values_of_a_memory_device_are_reached_when_submit_returns() {
    let m = memory::open("s2_7 memory").unwrap();
    for value in 1..=3 {
        let at = m.prepare().build().unwrap().submit(&[], &[]).unwrap();
        assert_eq!((at.value(), m.reached(), at.is_reached()), (value, value, true));
    }
    m.close().unwrap();
}
