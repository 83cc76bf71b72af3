//! What the scripted driver's knobs and scripts do (S15.1 to S15.3).

use crate::bench::{Woken, fill, host_memory, write};
use crate::device::Device;
use rig::bytes::page_bytes;
use rig::driver::{
    Access, Addressed, Alloc, Ask, Fault, HandOver, Import, Kind, Producer, Room, Stopped, Work,
};
use rig_support::{
    Answer, Call, Completion, Entry, Known, SCRIPTED_FAULT, Script, Sleep, StopEnd, StopWord,
};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

#[test]
fn s15_1_work_runs_only_when_told_or_when_a_wait_sleeps() {
    let device = Device::plain();
    let region = device.alloc(4);
    let spans = [write(region, 1, 2)];
    let values: Vec<u64> = (1..4).map(|byte| device.hand_over(&[fill(0, byte)], &spans)).collect();
    assert_eq!((values, device.reached()), (vec![1, 2, 3], 0));
    assert_eq!(device.control.peek(region), Some(vec![0; 4]));
    assert_eq!(device.control.run(1), 1);
    assert_eq!((device.reached(), device.control.peek(region)), (1, Some(vec![0, 1, 1, 0])));
    assert_eq!(device.block(3), Ok(()));
    assert_eq!((device.reached(), device.control.peek(region)), (2, Some(vec![0, 2, 2, 0])));
    assert_eq!((device.control.run_all(), device.reached()), (1, 3));
    assert_eq!(device.control.run(1), 0);
    device.driver.free(region);
    drop(device.driver);
    device.control.check();
    device.control.check_returned();
}

#[test]
fn s15_1_every_call_is_logged_with_its_numbers() {
    let device = Device::plain();
    let region = device.alloc(40);
    device.hand_over(&[], &[]);
    device.driver.commit(1).unwrap();
    device.driver.free(region);
    let entry = |call| Entry::new(call);
    let expected = [
        entry(Call::Alloc).bytes(40),
        entry(Call::HandOver).value(1),
        entry(Call::Commit).value(1),
        entry(Call::Free).region(region).bytes(40),
    ];
    assert_eq!(device.control.log(), expected);
    device.control.log_off();
    device.reached();
    assert_eq!((device.control.count(Call::Reached), device.control.log().len()), (1, 4));
    device.control.clear_log();
    assert_eq!(device.control.count(Call::Alloc), 0);
}

#[test]
fn s15_3_sleeps_gate_fault_and_stall_in_order() {
    let device = Device::plain();
    (1..6).for_each(|value| assert_eq!(device.hand_over(&[], &[]), value));
    let fault = Sleep::Fault("on purpose".to_owned());
    device.control.sleeps([Sleep::Stall(2), Sleep::Gate, fault]);
    for _ in 0..2 {
        assert_eq!((device.block(5), device.reached()), (Ok(()), 0));
    }
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            // Each sleep comes back to the gate until it is opened, and then to the fault.
            (0..1000).find_map(|_| device.block(5).err())
        });
        device.control.await_sleeper();
        assert_eq!(device.driver.reached(), Ok(0));
        device.control.open_gate();
        assert_eq!(sleeper.join().unwrap(), Some(Fault::new("on purpose")));
    });
    assert_eq!(device.driver.health(), Err(Fault::new("on purpose")));
    assert_eq!(device.control.run_all(), 0);
}

#[test]
fn s15_3_a_shut_gate_holds_every_sleep_until_it_opens() {
    let device = Device::plain();
    device.hand_over(&[], &[]);
    device.control.gate();
    assert_eq!(device.driver.block(1, Duration::from_millis(1)), Ok(()));
    assert_eq!(device.reached(), 0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while device.reached() < 1 {
                device.block(1).unwrap();
            }
        });
        device.control.await_sleeper();
        device.control.open_gate();
        sleeper.join().unwrap();
    });
    device.control.check();
}

#[test]
fn s8_3_a_sleep_runs_the_producers_first_as_their_scripts_say() {
    let (a, b, c) = (Device::plain(), Device::plain(), Device::plain());
    a.hand_over(&[], &[]);
    b.hand_over(&[], &[]);
    let waits =
        [Producer { driver: &*a.driver, value: 1 }, Producer { driver: &*b.driver, value: 1 }];
    assert!(c.driver.understands(&*a.driver) && !c.driver.understands(&*c.driver));
    assert_eq!(c.offer(&[], &[], &waits), HandOver::Done);
    assert_eq!(c.control.run_all(), 0);
    b.control.gate();
    assert_eq!(c.driver.block(1, Duration::from_millis(1)), Ok(()));
    assert_eq!((a.reached(), b.reached(), c.reached()), (1, 0, 0));
    b.control.open_gate();
    assert_eq!(c.block(1), Ok(()));
    assert_eq!((b.reached(), c.reached()), (1, 1));
    [a, b, c].iter().for_each(|device| device.control.check());
}

#[test]
fn s15_3_the_next_hand_over_faults_or_is_rejected_once() {
    let device = Device::plain();
    device.control.fail_next_hand_over("broken");
    assert_eq!(device.offer(&[], &[], &[]), HandOver::Fault(Fault::new("broken")));
    device.control.reject_next_hand_over("wrong");
    assert_eq!(device.offer(&[], &[], &[]), HandOver::Rejected(Arc::from("wrong")));
    assert_eq!(device.control.handed(), 0);
    device.control.reject_next_hand_over_later("late");
    assert_eq!(device.hand_over(&[], &[]), 1);
    assert_eq!(device.driver.rejected(1).as_deref(), Some("late"));
    assert_eq!((device.hand_over(&[], &[]), device.driver.rejected(2)), (2, None));
    device.control.fault_word("gone");
    assert_eq!(device.driver.reached(), Err(Fault::new("gone")));
    assert_eq!(device.driver.health(), Ok(()));
}

#[test]
fn s15_4_a_plan_faults_or_refuses_the_nth_fallible_call_once_or_for_good() {
    let device = Device::plain();
    let fault = Fault::new(SCRIPTED_FAULT);
    let ask = Ask { kind: Kind::Device, len_bytes: 4, paged: false };
    let before = device.control.fallible_calls();
    device.control.refuse_at(2);
    let regions: Vec<Alloc> = (0..3).map(|_| device.driver.alloc(ask)).collect();
    assert_eq!(regions.iter().position(|answer| *answer == Alloc::Refused), Some(1));
    assert_eq!(device.control.fallible_calls() - before, 3);
    device.control.refuse_from(1);
    assert_eq!(device.driver.health(), Ok(()));
    let memory = host_memory(page_bytes());
    assert_eq!(device.driver.import_host(memory.bytes()), Import::None);
    assert_eq!(device.driver.alloc(ask), Alloc::Refused);
    device.control.fault_at(1);
    assert_eq!(device.driver.alloc(ask), Alloc::Fault(fault.clone()));
    assert_eq!(device.driver.health(), Ok(()));
    device.control.fault_from(2);
    assert_eq!(device.driver.health(), Ok(()));
    assert_eq!(device.driver.reached(), Err(fault.clone()));
    assert_eq!(device.offer(&[], &[], &[]), HandOver::Fault(fault.clone()));
    assert_eq!(device.driver.import_host(memory.bytes()), Import::Fault(fault));
    device.control.end_plan();
    assert_eq!(device.hand_over(&[], &[]), 1);
    assert_eq!(device.control.regions_live(), 2);
    device.control.check();
}

#[test]
fn s15_2_a_stop_drops_what_did_not_run_and_may_write_the_last_value() {
    for (word, shown) in [(StopWord::Stays, 1), (StopWord::WritesLast, 3)] {
        let device = Device::new(Script::new("stop").stop_word(word));
        let region = device.alloc(1);
        let spans = [write(region, 0, 1)];
        for byte in 1..4 {
            device.hand_over(&[fill(0, byte)], &spans);
        }
        device.control.run(1);
        let woken = Woken::new();
        device.driver.wake_at(3, &woken.waker());
        device.driver.stop();
        assert!(woken.count() > 0);
        assert_eq!((device.reached(), device.control.run_all()), (shown, 0));
        assert_eq!(device.control.peek(region), Some(vec![1]));
        let poll = device.driver.poll_stopped(&woken.waker());
        assert_eq!(poll, Poll::Ready(Stopped::Settled));
        device.driver.free(region);
        device.control.check_returned();
    }
}

#[test]
fn s15_2_a_device_that_never_settles_may_run_on_and_its_memory_never_returns() {
    let script = Script::new("wild").stop_end(StopEnd::NeverSettles).stops(Answer::WhenTold);
    let device = Device::new(script);
    let region = device.alloc(1);
    device.hand_over(&[fill(0, 5)], &[write(region, 0, 1)]);
    device.driver.stop();
    let woken = Woken::new();
    assert_eq!(device.driver.poll_stopped(&woken.waker()), Poll::Pending);
    device.control.answer_stop();
    assert!(woken.count() > 0);
    let poll = device.driver.poll_stopped(&woken.waker());
    assert_eq!(poll, Poll::Ready(Stopped::Unsettled));
    assert_eq!((device.control.run_all(), device.reached()), (1, 0));
    assert_eq!(device.control.peek(region), Some(vec![5]));
    let Device { driver, control } = device;
    drop(driver);
    control.check();
}

#[test]
fn s15_2_the_queue_holds_so_many_parts() {
    let device = Device::new(Script::new("full").queue_parts(3));
    let region = device.alloc(1);
    let (part, spans) = (fill(0, 1), [write(region, 0, 1)]);
    let parts = vec![part; 4];
    let room = |count: usize| {
        device.driver.room(&Work { prepared: None, parts: &parts[..count], spans: &spans })
    };
    assert_eq!((room(3), room(4)), (Room::Now, Room::Never));
    device.hand_over(&parts[..2], &spans);
    assert_eq!((room(1), room(2)), (Room::Now, Room::Later));
    device.hand_over(&parts[..1], &spans);
    assert_eq!((room(0), room(1)), (Room::Later, Room::Later));
    device.control.run(1);
    assert_eq!(room(2), Room::Now);
    device.control.check();
    device.hand_over(&parts[..3], &spans);
    device.broke("without room");
}

#[test]
fn s15_2_the_heap_holds_so_many_bytes_of_device_memory() {
    let device = Device::new(Script::new("small").heap_bytes(100));
    let region = device.alloc(60);
    let ask = |len_bytes, kind| Ask { kind, len_bytes, paged: false };
    assert_eq!(device.driver.alloc(ask(41, Kind::Device)), Alloc::Refused);
    assert!(matches!(device.driver.alloc(ask(100, Kind::Transfer)), Alloc::Ready(_)));
    let other = device.alloc(40);
    assert_eq!(device.driver.alloc(ask(1, Kind::Device)), Alloc::Refused);
    device.driver.free(region);
    device.driver.free(other);
    assert_eq!(device.control.bytes_live(), 100);
    assert_eq!(device.control.bytes_peak(), 200);
    device.alloc(100);
    device.control.check();
}

#[test]
fn s10_12_a_pending_allocation_is_given_or_refused_when_told() {
    let device = Device::new(Script::new("late").allocs(Answer::WhenTold).heap_bytes(100));
    let woken = Woken::new();
    let poll = |region| device.driver.poll_alloc(region, &woken.waker());
    let (fits, not) = (device.alloc(100), device.alloc(1));
    device.driver.service().unwrap();
    assert_eq!((poll(fits), poll(not)), (Poll::Pending, Poll::Pending));
    device.control.answer_allocs();
    assert!(woken.count() > 0);
    assert_eq!(poll(fits), Poll::Ready(Alloc::Ready(fits)));
    assert_eq!(poll(not), Poll::Ready(Alloc::Refused));
    device.driver.free(fits);
    let again = device.alloc(10);
    device.control.refuse_allocs();
    assert_eq!(poll(again), Poll::Ready(Alloc::Refused));
    device.control.check_returned();
}

#[test]
fn s1_9_a_map_waits_for_the_uses_of_its_memory_and_stands_in_the_way_of_work() {
    let device = Device::new(Script::new("mapped").addressed(Addressed::WhileMapped));
    let region = device.alloc(4);
    let (woken, spans) = (Woken::new(), [write(region, 0, 4)]);
    device.hand_over(&[fill(0, 7)], &spans);
    device.driver.begin_access(region, Access::Write).unwrap();
    assert!(device.driver.poll_access(region, &woken.waker()).is_pending());
    device.control.run_all();
    assert!(woken.count() > 0);
    let Poll::Ready(Ok(bytes)) = device.driver.poll_access(region, &woken.waker()) else {
        panic!("the map is granted");
    };
    let mut seen = [0; 4];
    bytes.copy_out(0, &mut seen);
    assert_eq!(seen, [7; 4]);
    device.driver.end_access(region);
    device.driver.end_access(region);
    device.hand_over(&[fill(0, 8)], &spans);
    device.control.check();
    device.driver.begin_access(region, Access::Write).unwrap();
    device.hand_over(&[fill(0, 9)], &spans);
    device.broke("mapped for the host");
}

#[test]
fn s2_9_with_service_completion_the_word_rises_and_wakes_only_when_served() {
    let device = Device::new(Script::new("polled").completion(Completion::Service));
    let woken = Woken::new();
    device.hand_over(&[], &[]);
    device.driver.wake_at(1, &woken.waker());
    assert_eq!((device.control.run_all(), device.reached(), woken.count()), (1, 0, 0));
    assert_eq!(device.driver.service(), Ok(None));
    assert_eq!((device.reached(), woken.count()), (1, 1));
    device.hand_over(&[], &[]);
    device.control.run_all();
    device.control.fault("ill");
    assert!(device.driver.service().is_err());
    device.driver.stop();
    assert_eq!(device.reached(), 1);
}

#[test]
fn s4_7_a_peer_s_memory_is_mapped_and_freed_only_after_its_mapping() {
    let owner = Device::new(Script::new("owner"));
    let user = Device::new(Script::new("user").peers(Known::Named(vec!["owner".to_owned()])));
    let region = owner.alloc(4);
    assert_eq!(owner.driver.import_peer(&*user.driver, region), Import::None);
    let Import::Mapped(mapped) = user.driver.import_peer(&*owner.driver, region) else {
        panic!("a known peer is mapped");
    };
    user.hand_over(&[fill(0, 6)], &[write(mapped, 0, 4)]);
    user.control.run_all();
    assert_eq!((user.reached(), owner.control.peek(region)), (1, Some(vec![6; 4])));
    user.driver.release(mapped);
    owner.driver.free(region);
    owner.control.check_returned();
    user.control.check_returned();
    let region = owner.alloc(4);
    let Import::Mapped(_) = user.driver.import_peer(&*owner.driver, region) else { panic!() };
    owner.driver.free(region);
    owner.broke("under 1 mappings");
}

#[test]
fn s15_2_service_may_run_the_next_value() {
    let device = Device::new(Script::new("async").service_runs());
    let woken = Woken::new();
    device.hand_over(&[], &[]);
    device.driver.wake_at(1, &woken.waker());
    assert_eq!(device.driver.service(), Ok(None));
    assert_eq!((device.reached(), woken.count()), (1, 1));
}
