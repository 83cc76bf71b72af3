//! The end of buffers: references, drops, frees and what is dead (S4.12 to S4.15).

use crate::bench::{bytes_of, finish, lost, misuse, own_halves};
use rig::driver::Addressed;
use rig::memory::function;
use rig::{
    Buffer, Claims, Device, Error, Hold, Misuse, Profile, Use, add_collector, copy, host, memory,
    wrap_raw,
};
use rig_support::{Answer, Call, Known, Opened, Script, drain, look};
use std::any::Any;
use std::pin::pin;
use std::sync::{Arc, Mutex};

const LEN: u64 = 64 << 10;

/// Returns the live bytes of a device, once it was drained.
fn live(device: &Device) -> u64 {
    drain(device);
    device.stats().live_bytes
}

/// Makes a reference to a buffer's memory.
type MakeReference = fn(&Opened, &Buffer) -> Box<dyn Any>;

/// What keeps an allocation reachable, by name.
const REFERENCES: [(&str, MakeReference); 7] = [
    ("a buffer", |_, x| Box::new(x.clone())),
    ("a view", |_, x| Box::new(x.view(7, 1).unwrap())),
    ("a borrow", |_, x| Box::new(x.borrow(&host()).unwrap().unwrap())),
    ("an export", |_, x| Box::new(x.export().unwrap())),
    ("a prepared submission", |d, x| Box::new(d.prepare().reads(x).build().unwrap())),
    ("a kept claim", |_, x| Box::new(x.claim_read().unwrap())),
    ("a lent object", |_, x| {
        x.lend().unwrap();
        Box::new(x.clone())
    }),
];

#[test]
fn s4_12_references_keep_an_allocation() {
    for (number, (what, reference)) in REFERENCES.iter().enumerate() {
        let script = Script::new(format!("s4_12 {number}")).addressed(Addressed::Always);
        let d = script.open();
        let x = d.create_buffer(LEN).unwrap();
        let reference = reference(&d, &x);
        drop(x);
        assert_eq!(live(&d), LEN, "{what} keeps it");
        drop(reference);
        assert_eq!(live(&d), 0, "{what} was the last");
    }
}

#[test]
fn s4_12_a_call_in_progress_keeps_its_allocations() {
    let d = own_halves(Script::new("s4_12 call")).open();
    let (x, mut out) = (d.create_buffer(LEN).unwrap(), [0; 8]);
    x.fill(3).unwrap();
    {
        let owned = x.clone();
        let mut reading = pin!(async move { owned.blit_to_async(0, &mut out).await });
        assert!(look(reading.as_mut()).is_pending());
        drop(x);
        assert_eq!(live(&d), LEN);
    }
    assert_eq!(live(&d), 0, "the dropped future was the last");
}

#[test]
fn s4_12_unreachable_memory_goes_home_once() {
    let d = Script::new("s4_12 once").open();
    for _ in 0..3 {
        let x = d.create_buffer(LEN).unwrap();
        let (view, clone) = (x.view(0, 1).unwrap(), x.clone());
        drop((x, view, clone));
        drain(&d);
        assert_eq!((d.cached(), d.held()), (LEN, LEN));
    }
    assert_eq!(d.stats().returned_count, 3);
}

/// A buffer whose return would call the driver, since its device may hold no byte.
fn costly(device: &Opened) -> Buffer {
    let x = device.create_buffer(LEN).unwrap();
    device.set_budget(0).unwrap();
    x
}

#[test]
fn s4_13_a_drop_calls_no_driver() {
    let d = Script::new("s4_13 driver").open();
    let h = host().create_buffer(LEN).unwrap();
    let (x, borrow) = (costly(&d), h.borrow(&d).unwrap());
    let work = d.prepare().build().unwrap();
    let calls = [Call::Free, Call::Release, Call::Unprepare];
    d.control.clear_log();
    // A call would stand at its gate for ever.
    calls.iter().for_each(|call| d.control.gate_calls(*call));
    drop((x, borrow, work));
    calls.iter().for_each(|call| d.control.open_calls(*call));
    drain(&d);
    d.control.await_returned();
    assert_eq!(calls.map(|call| d.control.count(call)), [1, 1, 1]);
}

#[test]
fn s4_13_a_drop_never_blocks_though_the_driver_does() {
    let d = Script::new("s4_13 blocked").open();
    let (x, y) = (d.create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
    d.set_budget(0).unwrap();
    d.control.gate_calls(Call::Free);
    std::thread::scope(|threads| {
        drop(x);
        threads.spawn(|| drain(&d));
        d.control.await_calls(Call::Free, 1);
        drop(y);
        d.control.open_calls(Call::Free);
    });
    assert_eq!((live(&d), d.held()), (0, 0));
}

#[test]
fn s4_13_a_drop_beside_a_round_never_blocks() {
    let d = Script::new("s4_13 round").open();
    let e = Script::new("s4_13 slow").peers(Known::Scripted).open();
    d.set_budget(2 * LEN).unwrap();
    let (x, y) = (d.create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
    let borrow = x.borrow(&e).unwrap().unwrap();
    e.prepare().reads(&borrow).build().unwrap().submit(&[], &[]).unwrap();
    drop((x, borrow));
    e.control.gate();
    std::thread::scope(|threads| {
        let creating = threads.spawn(|| d.create_buffer(2 * LEN));
        e.control.await_sleeper();
        drop(y);
        e.control.open_gate();
        creating.join().unwrap().unwrap();
    });
}

#[test]
fn s4_13_buffers_are_dropped_inside_every_callback() {
    let d = Script::new("s4_13 inside").addressed(Addressed::Always).open();
    let m = memory::open("s4_13 memory").unwrap();
    let dropped: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let trap = |inside: &'static str| {
        let (x, dropped) = (d.create_buffer(LEN).unwrap(), Arc::clone(&dropped));
        move || {
            drop(x);
            dropped.lock().unwrap().push(inside);
        }
    };
    let hold = Hold::new(trap("hold"));
    d.prepare().build().unwrap().submit_holding(&[], &[], &[&hold]).unwrap().wait().unwrap();
    drop(hold);
    drain(&d);
    // SAFETY: no byte is named.
    drop(unsafe {
        wrap_raw(std::ptr::NonNull::dangling().as_ptr(), 0, OnDrop::new(trap("keeper")))
    });
    drain(&host());
    let once = Mutex::new(Some(trap("launch")));
    let launch = function("drops", move |_| once.lock().unwrap().take().unwrap()());
    m.kernel(launch).unwrap().launch([1; 3]).submit().unwrap();
    let once = Mutex::new(Some(trap("sink")));
    let profile = Profile::with_sink(move |_| {
        if let Some(trap) = once.lock().unwrap().take() {
            trap();
        }
    });
    m.prepare().build().unwrap().submit(&[], &[]).unwrap();
    profile.stop();
    let y = d.create_buffer(8).unwrap();
    let (read, written) = (trap("read"), trap("write"));
    y.read(|_| read()).unwrap();
    y.write(|_| written()).unwrap();
    let once = Mutex::new(Some(trap("collector")));
    let collector = add_collector(move || {
        if let Some(trap) = once.lock().unwrap().take() {
            trap();
        }
    });
    m.set_budget(512).unwrap();
    let _full = m.create_buffer(512).unwrap();
    assert!(matches!(m.create_buffer(512), Err(Error::OutOfMemory { .. })));
    drop((collector, y));
    assert_eq!(live(&d), 0);
    let all = ["hold", "keeper", "launch", "sink", "read", "write", "collector"];
    assert_eq!(*dropped.lock().unwrap(), all);
    m.close().unwrap();
}

/// Calls a function when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

impl OnDrop {
    fn new(f: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(f)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

#[test]
fn s4_14_free_ends_all_buffers_of_the_allocation() {
    let d = Script::new("s4_14 all").addressed(Addressed::Always).open();
    let ends: [fn(&Buffer) -> Buffer; 3] =
        [|x| x.clone(), |x| x.view(3, 1).unwrap(), |x| x.borrow(&host()).unwrap().unwrap()];
    for end in ends {
        let x = d.create_buffer(LEN).unwrap();
        let all = [x.clone(), x.view(1, 2).unwrap(), x.borrow(&host()).unwrap().unwrap()];
        end(&x).free().unwrap();
        for buffer in &all {
            assert_eq!(buffer.dead().as_deref(), Some("freed"));
        }
        assert_eq!((d.stats().live_bytes, d.cached()), (0, LEN), "its memory is back");
    }
}

#[test]
fn s4_14_free_works_on_a_lost_device() {
    let d = Script::new("s4_14 lost").open();
    let x = d.create_buffer(LEN).unwrap();
    d.device_lost("unplugged");
    x.free().unwrap();
    assert_eq!((x.dead().as_deref(), d.held()), (Some("freed"), 0));
}

#[test]
fn s4_14_a_claim_makes_free_busy() {
    let x = host().create_buffer(64).unwrap();
    let claim = x.claim_read().unwrap();
    assert_eq!(misuse(x.free()), Misuse::Busy);
    drop(claim);
    Claims::with(&[], &[&[&x]], |_| assert_eq!(misuse(x.free()), Misuse::Busy)).unwrap();
    x.read(|_| assert_eq!(misuse(x.free()), Misuse::Busy)).unwrap();
    x.write(|_| assert_eq!(misuse(x.free()), Misuse::Busy)).unwrap();
    assert_eq!(x.dead(), None);
    x.free().unwrap();
}

#[test]
fn s4_14_a_call_that_moves_the_bytes_makes_free_busy() {
    let d = own_halves(Script::new("s4_14 moving")).open();
    let (x, h) = (d.create_buffer(LEN).unwrap(), host().create_buffer(LEN).unwrap());
    let mut copying = Box::pin(rig::copy_async(&x, &h));
    assert!(look(copying.as_mut()).is_pending());
    assert_eq!(misuse(x.free()), Misuse::Busy);
    assert_eq!(misuse(h.free()), Misuse::Busy);
    drop(copying);
    x.free().unwrap();
    h.free().unwrap();
}

#[test]
fn s4_14_free_waits_for_the_end_of_a_hand_over() {
    let d = Script::new("s4_14 momentary").open();
    let x = d.create_buffer(LEN).unwrap();
    let work = d.prepare().writes(&x).build().unwrap();
    d.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| work.submit(&[], &[]));
        d.control.await_calls(Call::HandOver, 1);
        let mut freeing = pin!(x.free_async());
        assert!(look(freeing.as_mut()).is_pending());
        d.control.open_calls(Call::HandOver);
        submitting.join().unwrap().unwrap();
    });
    x.free().unwrap();
    assert_eq!(x.dead().as_deref(), Some("freed"));
}

#[test]
fn s4_14_a_dead_buffer_cannot_be_freed() {
    let x = host().create_buffer(64).unwrap();
    let y = x.clone();
    x.free().unwrap();
    assert_eq!(misuse(x.free()), Misuse::Dead { why: "freed".into() });
    assert_eq!(misuse(y.free()), Misuse::Dead { why: "freed".into() });
}

#[test]
fn s4_14_exports_keep_the_bytes_of_freed_memory() {
    let m = memory::open("s4_14 export").unwrap();
    let x = m.create_buffer(64).unwrap();
    x.fill(5).unwrap();
    let export = x.export().unwrap();
    x.free().unwrap();
    let other = m.create_buffer(64).unwrap();
    other.fill(6).unwrap();
    let mut seen = [0; 64];
    export.copy_out(0, &mut seen).unwrap();
    assert_eq!(seen, [5; 64]);
    export.copy_in(0, &[7; 64]).unwrap();
    assert_eq!((bytes_of(&other), m.held()), (vec![6; 64], 1_024));
    drop(export);
    drain(&m);
    assert_eq!(m.cached(), 512);
    m.close().unwrap();
}

#[test]
fn s4_14_freed_memory_waits_for_its_work_like_any() {
    let d = Script::new("s4_14 work").addressed(Addressed::Always).open();
    let x = d.create_buffer(LEN).unwrap();
    d.prepare().fill(&x, 1).build().unwrap().submit(&[], &[]).unwrap();
    x.free().unwrap();
    assert_eq!((d.stats().returning_bytes, d.cached(), d.reached()), (LEN, 0, 0));
    d.wait(1).unwrap();
    drain(&d);
    assert_eq!((d.stats().returning_bytes, d.cached()), (0, LEN));
}

/// Calls that reach a buffer's bytes.
fn reaching(x: &Buffer, other: &Buffer) -> Vec<(&'static str, rig::Result<()>)> {
    let device = x.device();
    vec![
        ("view", x.view(0, 1).map(drop)),
        ("borrow", x.borrow(&host()).map(drop)),
        ("read", x.read(|_| ())),
        ("write", x.write(|_| ())),
        ("export", x.export().map(drop)),
        ("blit to", x.blit_to(0, &mut [0])),
        ("blit to nothing", x.blit_to(0, &mut [])),
        ("blit from", x.blit_from(0, &[0])),
        ("fill", x.fill(0)),
        ("copy from", copy(x, other)),
        ("copy to", copy(other, x)),
        ("wait", x.wait(Use::Read)),
        ("claim", x.claim_read().map(drop)),
        ("claims", Claims::with(&[x], &[], |_| ())),
        ("donation", Claims::with(&[], &[&[x]], |_| ())),
        ("share", x.share()),
        ("lend", x.lend().map(drop)),
        ("free", x.free()),
        ("prepare", device.prepare().reads(x).build().map(drop)),
        ("record", device.record_use(&[x], &[]).map(drop)),
    ]
}

#[test]
fn s4_15_a_call_that_reaches_a_dead_buffers_bytes_is_misuse() {
    let m = memory::open("s4_15").unwrap();
    let (x, other) = (m.create_buffer(64).unwrap(), m.create_buffer(64).unwrap());
    let (work, run) =
        (m.prepare().reads(&x).build().unwrap(), m.prepare().reads(rig::run(0)).build().unwrap());
    x.free().unwrap();
    let prepared = [
        ("submit", work.submit(&[], &[]).map(drop)),
        ("submit run", run.submit(&[&x], &[]).map(drop)),
    ];
    for (call, answer) in reaching(&x, &other).into_iter().chain(prepared) {
        assert_eq!(misuse(answer), Misuse::Dead { why: "freed".into() }, "{call}");
    }
    assert_eq!(m.submitted(), 0);
    m.close().unwrap();
}

#[test]
fn s4_15_dead_buffers_hold_nothing_and_stay_dead_when_the_memory_serves_another() {
    let m = memory::open("s4_15 stays").unwrap();
    let x = m.create_buffer(64).unwrap();
    let view = x.view(0, 8).unwrap();
    x.free().unwrap();
    let next = m.create_buffer(64).unwrap();
    next.fill(9).unwrap();
    assert_eq!(m.stats().kind_counts, [1, 1, 0, 0], "it has the dead buffer's memory");
    for dead in [&x, &view] {
        assert_eq!(misuse(dead.read(|_| ())), Misuse::Dead { why: "freed".into() });
    }
    drop((x, view));
    drain(&m);
    assert_eq!((m.stats().live_bytes, bytes_of(&next)), (512, vec![9; 64]));
    m.close().unwrap();
}

#[test]
fn s4_15_claims_on_dead_buffers_still_release() {
    let m = memory::open("s4_15 claims").unwrap();
    let x = m.create_buffer(64).unwrap();
    let old = Claims::with(&[], &[&[&x]], |claims| {
        let taken = claims.consume(&x, "donated").unwrap();
        assert_eq!(misuse(x.claim_read()), Misuse::Dead { why: "donated".into() });
        taken
    });
    let taken = old.unwrap();
    taken.write(|bytes| bytes.fill(1)).unwrap();
    taken.claim_read().unwrap();
    taken.free().unwrap();
    let next = m.create_buffer(64).unwrap();
    next.write(|_| ()).unwrap();
    m.close().unwrap();
}

#[test]
fn s4_9_a_freed_buffer_of_a_lost_device_is_dead_first() {
    let d = Script::new("s4_9 order").stops(Answer::WhenTold).open();
    let (x, y) = (d.create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
    x.free().unwrap();
    d.device_lost("unplugged");
    assert!(matches!(misuse(x.wait(Use::Read)), Misuse::Dead { .. }));
    lost(y.wait(Use::Read));
}

#[test]
fn s4_14_a_call_that_began_to_move_the_bytes_makes_a_free_that_waits_busy() {
    let d = own_halves(Script::new("s4_14 began")).open();
    let x = d.create_buffer(LEN).unwrap();
    let work = d.prepare().writes(&x).build().unwrap();
    d.control.gate();
    d.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| work.submit(&[], &[]));
        d.control.await_calls(Call::HandOver, 1);
        let mut freeing = pin!(x.free_async());
        assert!(look(freeing.as_mut()).is_pending());
        let moving = threads.spawn(|| x.blit_from(0, &[7; 64]));
        d.control.await_calls(Call::ImportHost, 1);
        d.control.open_calls(Call::HandOver);
        submitting.join().unwrap().unwrap();
        assert_eq!(misuse(finish(freeing)), Misuse::Busy);
        d.control.open_gate();
        moving.join().unwrap().unwrap();
    });
    x.free().unwrap();
}
