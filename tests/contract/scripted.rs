//! The scripted driver tells what breaks a law (S15.1).

use crate::bench::{Woken, copy, fill, host_memory, span, write};
use crate::device::Device;
use rig::bytes::page_bytes;
use rig::driver::{Import, Part, Producer, Queue, Stopped, Work};
use rig_support::{Call, Control, Known, Script};
use std::task::Poll;

#[test]
fn s15_1_a_double_free_is_told() {
    let device = Device::plain();
    let region = device.alloc(4);
    device.driver.free(region);
    device.control.check();
    device.driver.free(region);
    device.broke("which is gone");
    let told = device.panic_of(Control::check);
    assert!(told.contains("which is gone") && told.contains("Free region"), "{told}");
}

#[test]
fn s15_1_a_free_under_unreached_work_is_told() {
    let device = Device::plain();
    let (early, late) = (device.alloc(4), device.alloc(4));
    for region in [early, late] {
        device.hand_over(&[fill(0, 1)], &[write(region, 0, 4)]);
    }
    device.control.run_all();
    device.driver.free(early);
    device.broke("under work, 0 was reached");
    assert_eq!(device.reached(), 2);
    device.driver.free(late);
    assert_eq!(device.control.violations().len(), 1);
}

#[test]
fn s15_1_a_release_under_unreached_work_is_told() {
    let device = Device::plain();
    let memory = host_memory(page_bytes());
    let Import::Mapped(mapped) = device.driver.import_host(memory.bytes()) else { panic!() };
    assert_eq!(device.control.mappings_live(), 1);
    device.hand_over(&[fill(0, 1)], &[write(mapped, 0, 4)]);
    device.control.run_all();
    device.driver.release(mapped);
    device.broke("Release of");
    assert_eq!(device.control.mappings_live(), 0);
}

#[test]
fn s15_1_a_call_after_the_stop_is_told() {
    let device = Device::plain();
    let region = device.alloc(4);
    device.driver.stop();
    assert_eq!(device.driver.poll_stopped(&Woken::new().waker()), Poll::Ready(Stopped::Settled));
    device.driver.free(region);
    device.reached();
    device.control.check();
    device.driver.health().unwrap();
    device.broke("after the stop");
}

#[test]
fn s15_1_a_hand_over_out_of_order_is_told() {
    let device = Device::plain();
    device.driver.hand_over(2, &EMPTY, &[]);
    device.broke("value 2 was handed over after 0");
}

#[test]
fn s15_1_two_hand_overs_at_once_are_told() {
    let device = Device::plain();
    device.control.gate_calls(Call::HandOver);
    std::thread::scope(|scope| {
        scope.spawn(|| device.driver.hand_over(1, &EMPTY, &[]));
        device.control.await_calls(Call::HandOver, 1);
        scope.spawn(|| device.driver.reached());
        device.control.await_calls(Call::Reached, 1);
        device.control.check();
        let second = scope.spawn(|| device.driver.hand_over(2, &EMPTY, &[]));
        device.control.await_calls(Call::HandOver, 2);
        device.control.open_calls(Call::HandOver);
        second.join().unwrap();
    });
    let violations = device.control.violations();
    assert!(violations.contains(&"two hand-overs at once".to_owned()), "{violations:?}");
}

#[test]
fn s12_1_a_stop_beside_another_call_is_told() {
    let device = Device::plain();
    let region = device.alloc(4);
    device.control.gate_calls(Call::Free);
    std::thread::scope(|scope| {
        scope.spawn(|| device.driver.free(region));
        device.control.await_calls(Call::Free, 1);
        device.driver.stop();
        device.control.open_calls(Call::Free);
    });
    device.broke("1 other calls in progress");
}

#[test]
fn s15_1_a_region_that_never_came_back_is_told_when_the_driver_is_dropped() {
    let device = Device::plain();
    let (left, lent) = (device.alloc(4), device.alloc(8));
    assert!(device.driver.lend(lent).is_some() && !device.driver.let_go(lent));
    device.control.let_go(lent);
    assert!(device.driver.let_go(lent));
    assert_eq!((device.control.regions_live(), device.control.bytes_live()), (2, 12));
    device.control.check();
    assert!(device.panic_of(Control::check_returned).contains("left on plain"));
    let Device { driver, control } = device;
    drop(driver);
    let violations = control.violations();
    assert!(violations.len() == 1 && violations[0].contains(&format!("{left:?}")));
}

#[test]
fn s15_1_work_on_a_queue_that_runs_none_of_it_is_told() {
    let copies = Queue { launches: false, copies: true, fills: false };
    let device = Device::new(Script::new("two").queues([Queue::ALL, copies]));
    let region = device.alloc(4);
    let spans = [write(region, 0, 2), span(region, 2, 2)];
    device.hand_over(&[Part { queue: 1, ..copy(1, 0) }], &spans);
    device.control.check();
    device.hand_over(&[Part { queue: 1, ..fill(0, 1) }], &spans);
    device.broke("runs no such work");
}

#[test]
fn s8_3_waits_that_the_queue_does_not_understand_are_told() {
    let other = Device::new(Script::new("other"));
    other.hand_over(&[], &[]);
    let wait = Producer { driver: &*other.driver, value: 1 };
    let names = Known::Named(vec!["another".to_owned()]);
    let deaf = Device::new(Script::new("deaf").understands(names, -1));
    assert!(!deaf.driver.understands(&*other.driver));
    deaf.offer(&[], &[], &[wait]);
    let violations = deaf.control.violations();
    assert!(violations[0].contains("waits for 1 points"), "{violations:?}");
    assert!(violations[1].contains("not understood"), "{violations:?}");
}

#[test]
fn s2_6_a_sleep_on_what_was_not_committed_runs_nothing_and_is_told() {
    let device = Device::new(Script::new("batch").batches());
    device.hand_over(&[], &[]);
    device.hand_over(&[], &[]);
    device.driver.commit(1).unwrap();
    assert_eq!((device.block(1), device.reached()), (Ok(()), 1));
    device.control.check();
    assert_eq!((device.block(2), device.reached()), (Ok(()), 1));
    device.broke("committed are 1");
}

const EMPTY: Work<'_> = Work { prepared: None, parts: &[], spans: &[] };
