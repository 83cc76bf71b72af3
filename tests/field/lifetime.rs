//! Inputs about what ends when: handles, threads, panics, and callbacks that call again.

use crate::watch::{WATCHDOG, begin, poll, rounds};
use rig::memory;
use rig::{Buffer, Device, Error, Hold, Misuse, Opener, add_collector, copy, host};
use rig_support::{Answer, Opened, Script, drain, until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex, Weak};

fn misuse<T>(answer: rig::Result<T>) -> Option<Misuse> {
    answer.err().and_then(|error| error.misuse().cloned())
}

#[test]
fn s1_6_a_device_dropped_before_its_buffers_is_there_when_its_name_is_opened_again() {
    let d = Script::new("kept open").open();
    for _ in 0..20 {
        let again = || {
            let unused = Opener::new("scripted", || panic!("an open name runs no opener"));
            Device::open("kept open", unused).unwrap()
        };
        let device = again();
        let buffers = [1, 2, 3].map(|pages| device.create_buffer(pages * 4096).unwrap());
        drop(device);
        drop(buffers);
        assert_eq!(again(), d.device);
    }
    assert_eq!((d.control.regions_live(), d.held(), d.stats().actual_count), (3, 6 * 4096, 3));
}

#[test]
fn s1_3_twenty_devices_closed_after_their_buffers_leave_nothing() {
    let mut ended: Vec<Weak<dyn rig::driver::Driver>> = Vec::new();
    for round in 0..20 {
        let (driver, control) = Script::new("reopened").build();
        ended.push(Arc::downgrade(&driver));
        let device = Device::open("reopened", Opener::new("scripted", move || Ok(driver))).unwrap();
        assert_eq!((device.submitted(), device.held()), (0, 0), "round {round}");
        let x = device.create_buffer(4096).unwrap();
        let h = host().create_buffer(64 << 10).unwrap();
        let hb = h.borrow(&device).unwrap().unwrap();
        let prepared = device.prepare().reads(&hb).writes(&x).build().unwrap();
        prepared.submit(&[], &[]).unwrap();
        let closing = device.clone();
        drop(device);
        drop((x, h, hb, prepared));
        closing.close().unwrap();
        drop(closing);
        assert_eq!((control.regions_live(), control.mappings_live()), (0, 0), "round {round}");
        control.check_returned();
    }
    rig::devices();
    drain(&host());
    // The registry forgets a device that nobody names; the tick may name one for a moment.
    until("the end of 20 drivers", || {
        drain(&host());
        ended.iter().all(|driver| driver.upgrade().is_none())
    });
}

#[test]
fn s4_13_a_buffer_dropped_on_a_thread_that_ends_at_once_comes_back() {
    let device = memory::open("dropped elsewhere").unwrap();
    for _ in 0..100 {
        let buffer = device.create_buffer(4096).unwrap();
        std::thread::spawn(move || drop(buffer)).join().unwrap();
    }
    assert_eq!((device.stats().kind_counts, device.held()), ([99, 1, 0, 0], 4096));
    device.close().unwrap();
}

#[test]
fn s6_2_a_panic_inside_a_scoped_access_releases_its_claim_and_others_go_on() {
    let h = host().create_buffer(64).unwrap();
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| h.read(|_| panic!("in a read")).unwrap());
    panics(&|| h.write(|_| panic!("in a write")).unwrap());
    panics(&|| h.read_as::<u32, ()>(|_| panic!("in a read")).unwrap());
    panics(&|| h.write_as::<u32, ()>(|_| panic!("in a write")).unwrap());
    let other = h.clone();
    begin("another thread", move || {
        other.write(|bytes| bytes.fill(1))?;
        other.read(|bytes| assert_eq!(bytes[63], 1))
    })
    .end()
    .unwrap();
    h.free().unwrap();
}

/// What a callback was answered.
type Told = Arc<Mutex<Vec<Option<Misuse>>>>;

/// Calls that a callback makes: all but the drop are reentrant.
fn calls_from(told: &Told, device: &Device, buffer: &Buffer) {
    let answers = [
        misuse(device.create_buffer(16)),
        misuse(copy(buffer, buffer)),
        misuse(buffer.read(|_| ())),
        misuse(device.trim()),
        misuse(device.record_use(&[], &[])),
    ];
    told.lock().unwrap().extend(answers);
    drop(buffer.clone());
}

#[test]
fn s8_9_a_release_that_calls_the_library_again_is_told_so_and_drops_what_it_has() {
    let d = Script::new("release calls").open();
    let (x, told) = (d.create_buffer(4096).unwrap(), Told::default());
    let hold = {
        let (device, told) = (d.device.clone(), Arc::clone(&told));
        Hold::new(move || calls_from(&told, &device, &x))
    };
    d.prepare().build().unwrap().submit_holding(&[], &[], &[&hold]).unwrap();
    d.control.run_all();
    drain(&d);
    // Another thread's drain may have it in its hands.
    until("the release", || told.lock().unwrap().len() == 5);
    let reentrant = Some(Misuse::Reentrant { inside: "a hold's release" });
    assert_eq!(*told.lock().unwrap(), vec![reentrant; 5]);
    // What the release had was dropped with it.
    until("its end", || {
        drain(&d);
        (d.stats().live_bytes, d.cached()) == (0, 4096)
    });
}

#[test]
fn s8_9_a_hold_named_in_work_that_faulted_is_released_when_its_device_settled() {
    let d = Script::new("hold of a fault").stops(Answer::WhenTold).open();
    let (told, ends) = channel();
    let hold = Hold::new(move || told.send(()).unwrap());
    let empty = d.prepare().build().unwrap();
    d.control.fail_next_hand_over("the test says so");
    let refused = empty.submit_holding(&[], &[], &[&hold]);
    assert!(matches!(refused, Err(Error::Lost { .. })));
    // The value counts as submitted (S8.3), so the hold is its submission's.
    assert_eq!(d.submitted(), 1);
    drop(hold);
    assert_eq!(ends.try_recv(), Err(TryRecvError::Empty));
    d.control.answer_stop();
    assert_eq!(ends.recv_timeout(WATCHDOG), Ok(()));
}

#[test]
fn s8_9_a_hold_is_released_with_its_done_work_though_a_later_submission_is_refused() {
    let d = Script::new("hold of a refusal").queue_parts(1).open();
    let (told, ends) = channel();
    let hold = Hold::new(move || told.send(()).unwrap());
    let empty = d.prepare().build().unwrap();
    empty.submit_holding(&[], &[], &[&hold]).unwrap();
    {
        // The queue is full, so this one waits until the first is done, and is then given up.
        let mut waiting = pin!(empty.submit_holding_async(&[], &[], &[]));
        let holds = [&hold];
        let mut holding = pin!(empty.submit_holding_async(&[], &[], &holds));
        assert!(poll(waiting.as_mut()).is_pending() && poll(holding.as_mut()).is_pending());
        d.control.run_all();
        drain(&d);
    }
    assert_eq!(ends.recv_timeout(WATCHDOG), Ok(()));
}

#[test]
fn s4_13_a_drop_inside_a_round_on_its_own_thread_makes_the_room_that_was_asked_for() {
    let _rounds = rounds();
    let device = memory::open("dropped in a round").unwrap();
    device.set_budget(8192).unwrap();
    let kept = Arc::new(Mutex::new(vec![device.create_buffer(8192).unwrap()]));
    let collector = {
        let (kept, here) = (Arc::clone(&kept), std::thread::current().id());
        add_collector(move || {
            if std::thread::current().id() == here {
                kept.lock().unwrap().clear();
            }
        })
    };
    let made = device.create_buffer(8192).unwrap();
    drop(collector);
    assert_eq!(device.stats().kind_counts, [0, 1, 1, 0]);
    drop(made);
    device.close().unwrap();
}

#[test]
fn s0_5_a_collector_that_allocates_is_told_so_and_the_round_goes_on() {
    let _rounds = rounds();
    let device = memory::open("collector allocates").unwrap();
    device.set_budget(8192).unwrap();
    let kept = device.create_buffer(8192).unwrap();
    let (told, answers) = channel();
    let collector = {
        let (device, here) = (device.clone(), std::thread::current().id());
        add_collector(move || {
            if std::thread::current().id() == here {
                told.send(misuse(device.create_buffer(1))).unwrap();
            }
        })
    };
    assert!(matches!(device.create_buffer(1), Err(Error::OutOfMemory { .. })));
    drop(collector);
    let reentrant = Some(Misuse::Reentrant { inside: "a collector" });
    assert_eq!(answers.iter().collect::<Vec<_>>(), vec![reentrant; 2]);
    drop(kept);
    device.close().unwrap();
}

#[test]
fn s6_1_a_scoped_access_may_call_anything_of_other_memory() {
    let d: Opened = Script::new("inside a read").open();
    let (h, x) = (host().create_buffer(4096).unwrap(), d.create_buffer(4096).unwrap());
    let asked = h.read(|_| {
        x.fill(3)?;
        let other = host().create_buffer(4096)?;
        copy(&x, &other)?;
        other.read(|bytes| bytes[4095])
    });
    assert_eq!(asked.unwrap().unwrap(), 3);
}
