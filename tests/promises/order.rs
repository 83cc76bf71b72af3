//! S8.5, S8.7, and S15 "Order" and "Turn": what waits for what, and who may hand over.

use crate::bench::{WATCHDOG, bytes_of, finish, lost, misuse, own_halves, poll};
use rig::driver::Addressed;
use rig::{Buffer, Device, Misuse, Point, Prepared, host, run};
use rig_support::{Call, Known, Opened, Script, Sleep, point};
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Wake, Waker};

fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

/// Host memory, and its borrow on each device.
fn shared<const N: usize>(devices: [&Device; N]) -> (Buffer, [Buffer; N]) {
    let h = host().create_buffer(64 << 10).unwrap();
    let borrows = devices.map(|device| h.borrow(device).unwrap().unwrap());
    (h, borrows)
}

#[test]
fn s15_order_a_writer_waits_for_two_readers_of_which_one_is_gated() {
    for (name, waits_max) in [("in its queue", 64), ("on the host", 0)] {
        let [a, b] = ["a", "b"].map(|side| open(&format!("s15 readers {name} {side}")));
        let script = Script::new(format!("s15 writer {name}"));
        let c = script.understands(Known::Scripted, waits_max).open();
        let (h, [on_a, on_b, on_c]) = shared([&a, &b, &c]);
        h.write(|bytes| bytes.fill(1)).unwrap();
        let sinks = [&a, &b].map(|device| device.create_buffer(64 << 10).unwrap());
        for (device, (from, to)) in
            [&a, &b].into_iter().zip([(&on_a, &sinks[0]), (&on_b, &sinks[1])])
        {
            device.prepare().copy(from, to).build().unwrap().submit(&[], &[]).unwrap();
        }
        let fills = c.prepare().fill(&on_c, 2).build().unwrap();
        let mut writing = Box::pin(fills.submit_async(&[], &[]));
        a.control.run_all();
        let pending = poll(writing.as_mut()).is_pending();
        assert_eq!(pending, waits_max == 0);
        c.control.run_all();
        assert_eq!(
            (c.control.ran(), h.view(0, 1).unwrap().stamps().uses.len()),
            (0, 2 + usize::from(!pending))
        );
        b.control.run_all();
        if pending {
            finish(writing).unwrap();
        }
        c.control.run_all();
        assert_eq!(c.control.ran(), 1);
        for sink in &sinks {
            assert!(bytes_of(sink).iter().all(|byte| *byte == 1), "readers saw what was before");
        }
        assert!(bytes_of(&h).iter().all(|byte| *byte == 2));
    }
}

#[test]
fn s15_order_copy_then_fill_and_fill_then_copy_keep_their_order() {
    let d = own_halves(Script::new("s15 order")).open();
    let (x, y) = (d.create_buffer(1000).unwrap(), d.create_buffer(1000).unwrap());
    x.fill(1).unwrap();
    let copies = d.prepare().copy(&x, &y).build().unwrap();
    let fills = d.prepare().fill(&x, 2).build().unwrap();
    copies.submit(&[], &[]).unwrap();
    fills.submit(&[], &[]).unwrap();
    assert_eq!((bytes_of(&y), bytes_of(&x)), (vec![1; 1000], vec![2; 1000]));
    fills.submit(&[], &[]).unwrap();
    copies.submit(&[], &[]).unwrap();
    assert_eq!(bytes_of(&y), [2; 1000]);
    let (h, [b]) = shared([&d.device]);
    let part = b.view(0, 1000).unwrap();
    d.prepare().copy(&x, &part).build().unwrap().submit(&[], &[]).unwrap();
    h.fill(3).unwrap();
    assert_eq!(bytes_of(&h)[..1000], [3; 1000], "the host's fill waits for the device's copy");
    let back = d.prepare().copy(&part, &y).build().unwrap();
    back.submit(&[], &[]).unwrap();
    h.fill(4).unwrap();
    assert_eq!(bytes_of(&y), [3; 1000], "and for the device's read");
}

#[test]
fn s15_order_65_waits_for_one_producer_hide_no_fault_of_another() {
    let [a, b, c] = ["a", "b", "c"].map(|side| open(&format!("s15 65 waits {side}")));
    let mut waits: Vec<Point> = (0..65).map(|_| a.record_use(&[], &[]).unwrap()).collect();
    let last = b.record_use(&[], &[]).unwrap();
    let empty = c.prepare().build().unwrap();
    waits.push(last);
    c.control.clear_log();
    empty.submit(&[], &waits).unwrap();
    assert_eq!(c.control.calls(Call::HandOver)[0].bytes, 2);
    let undone = b.record_use(&[], &[]).unwrap();
    b.control.run(1);
    b.wait(1).unwrap();
    b.control.fault("on purpose");
    *waits.last_mut().unwrap() = undone;
    assert_eq!(lost(empty.submit(&[], &waits)), ("s15 65 waits b".into(), "on purpose".into()));
    assert!(c.lost().is_none());
    assert_eq!(c.submitted(), 1);
}

#[test]
fn s15_order_a_full_queue_waits_for_one_value_while_a_fitting_submit_passes() {
    let d = Script::new("s15 full").queue_parts(3).open();
    let x = d.create_buffer(8).unwrap();
    let of = |parts: usize| -> Prepared {
        let builder = (0..parts).fold(d.prepare(), |builder, at| builder.fill(&x, at as u8));
        builder.build().unwrap()
    };
    let (one, two) = (of(1), of(2));
    one.submit(&[], &[]).unwrap();
    one.submit(&[], &[]).unwrap();
    let mut waiting = Box::pin(two.submit_async(&[], &[]));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(one.submit(&[], &[]).unwrap().value(), 3, "what fits passes");
    d.control.run(1);
    assert!(poll(waiting.as_mut()).is_pending(), "one value made too little room");
    d.control.run(1);
    assert_eq!(finish(waiting).unwrap().value(), 4);
    assert_eq!(d.control.ran(), 2, "it waited for no more than it needs");
}

#[test]
fn s8_7_a_queue_that_waits_for_what_a_loss_leaves_unreached_takes_its_device_along() {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|side| open(&format!("s8.7 {side}")));
    let first = a.record_use(&[], &[]).unwrap();
    let empty = |device: &Device| device.prepare().build().unwrap();
    let second = empty(&b).submit(&[], &[first]).unwrap();
    empty(&c).submit(&[], &[second]).unwrap();
    let apart = d.record_use(&[], &[]).unwrap();
    a.device_lost("on purpose");
    let why = |device: &Device| device.lost().map(|why| why.to_string());
    assert_eq!(why(&b).as_deref(), Some("s8.7 a lost"));
    assert_eq!(why(&c).as_deref(), Some("s8.7 b lost"));
    assert_eq!(lost(c.wait(1)), ("s8.7 c".into(), "s8.7 b lost".into()));
    d.control.run_all();
    apart.wait().unwrap();
}

#[test]
fn s8_7_a_queue_whose_producer_is_reached_lives_on() {
    let [a, b] = ["s8.7 reached a", "s8.7 reached b"].map(open);
    let first = a.record_use(&[], &[]).unwrap();
    let second = b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    a.control.run_all();
    assert!(first.is_reached());
    a.device_lost("on purpose");
    second.wait().unwrap();
    let waits = b.record_use(&[], &[]).unwrap();
    waits.wait().unwrap();
    assert!(b.lost().is_none());
}

#[test]
fn s8_7_a_value_that_ran_before_the_loss_lives_on() {
    let [a, b] = ["s8.7 ran a", "s8.7 ran b"].map(open);
    let first = a.record_use(&[], &[]).unwrap();
    b.prepare().build().unwrap().submit(&[], &[first]).unwrap();
    a.control.run_all();
    b.control.run_all();
    // Nobody looked at b's word since; the loss of a later value of a does.
    a.record_use(&[], &[]).unwrap();
    assert!(first.is_reached());
    a.control.fault("on purpose");
    assert!(a.wait(2).is_err());
    assert_eq!(b.reached(), 1);
    assert!(b.lost().is_none());
}

#[test]
fn s15_turn_two_threads_give_2_000_submits_2_000_values() {
    let d = Script::new("s15 turn").addressed(Addressed::Always).silent().open();
    let (x, y) = (d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    let prepared = d.prepare().fill(&x, 1).fill(run(0), 2).build().unwrap();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let values: Vec<u64> =
                    (0..1000).map(|_| prepared.submit(&[&y], &[]).unwrap().value()).collect();
                assert!(values.is_sorted_by(|one, next| one < next));
            });
        }
    });
    assert_eq!((d.submitted(), x.stamps().write), (2000, Some(point(&d, 2000))));
    d.control.run_all();
    d.wait(2000).unwrap();
}

#[test]
fn s15_turn_a_loss_in_a_blocked_submit_stops_once() {
    let d = open("s15 blocked submit");
    let x = d.create_buffer(8).unwrap();
    let prepared = d.prepare().fill(&x, 1).build().unwrap();
    d.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let first = threads.spawn(|| prepared.submit(&[], &[]));
        d.control.await_calls(Call::HandOver, 1);
        let second = threads.spawn(|| prepared.submit(&[], &[]));
        let losing = threads.spawn(|| d.device_lost("told by the program"));
        losing.join().unwrap();
        assert_eq!(d.control.count(Call::Stop), 0, "no stop runs beside the hand-over");
        d.control.open_calls(Call::HandOver);
        // The work was the driver's already: its value counts, and is never reached.
        let first = first.join().unwrap().unwrap();
        assert_eq!(lost(first.wait()).1, "told by the program");
        assert_eq!(lost(second.join().unwrap()).1, "told by the program");
    });
    assert_eq!((d.control.count(Call::Stop), d.submitted()), (1, 1));
}

/// Submits once when it is woken, and tells what came of it.
struct Submits {
    prepared: Prepared,
    /// Guards the way out, which any thread may take.
    tell: Mutex<Sender<rig::Result<Point>>>,
}

impl Wake for Submits {
    fn wake(self: Arc<Self>) {
        let answer = self.prepared.submit(&[], &[]);
        let _ = self.tell.lock().unwrap().send(answer);
    }
}

#[test]
fn s15_turn_a_completion_callback_may_submit() {
    let d = open("s15 callback");
    let x = d.create_buffer(8).unwrap();
    let prepared = d.prepare().fill(&x, 1).build().unwrap();
    let (tell, told) = channel();
    let waker =
        Waker::from(Arc::new(Submits { prepared: prepared.clone(), tell: Mutex::new(tell) }));
    let first = prepared.submit(&[], &[]).unwrap();
    let mut waiting = pin!(first.wait_async());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    d.control.run_all();
    let second = told.recv_timeout(WATCHDOG).unwrap().unwrap();
    assert!(second.value() > first.value());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn s6_1_a_stream_of_submissions_starves_no_blocking_access() {
    let d = open("s6.1 stream");
    let (h, [b]) = shared([&d.device]);
    let writes = d.prepare().writes(&b).build().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match writes.submit(&[], &[]) {
                    Ok(_) => {}
                    refused => assert_eq!(misuse(refused), Misuse::Busy),
                }
                // A queue of bounded length that is never empty, so that the word never catches up.
                while d.submitted() > d.control.ran() + 8 {
                    d.control.run(1);
                }
            }
            d.control.run_all();
        });
        for _ in 0..20 {
            h.blit_from(0, &[2]).unwrap();
            h.read(|bytes| assert_eq!(bytes[0], 2)).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn s8_3_a_sleep_of_the_host_for_a_producer_that_faults_tells_its_loss() {
    let a = open("s8.3 sleeps a");
    let c = Script::new("s8.3 sleeps c").understands(Known::Nobody, 64).open();
    let first = a.record_use(&[], &[]).unwrap();
    a.control.sleeps([Sleep::Fault("on purpose".into())]);
    let empty = c.prepare().build().unwrap();
    assert_eq!(lost(empty.submit(&[], &[first])), ("s8.3 sleeps a".into(), "on purpose".into()));
    assert_eq!((c.submitted(), c.lost()), (0, None));
}
