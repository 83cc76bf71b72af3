//! S5: claims, through the calls that take them, and kept ones beside device work.

use crate::bench::{
    WATCHDOG, buffer_of, bytes_of, finish, host_buffer_of, lost, misuse, own_halves, pattern, poll,
};
use rig::driver::Addressed;
use rig::embed;
use rig::memory::{Call as Launched, function};
use rig::{Buffer, Claims, Misuse, Prepared, Result, Use, copy, host, run};
use rig_support::{Answer as Answered, Call, Known, Opened, Script};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

/// What is held: the columns of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    KeptRead,
    KeptExclusive,
    ReadClosure,
    WriteClosure,
    MomentaryRead,
    MomentaryWrite,
}

/// What is asked: its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    KeptRead,
    KeptExclusive,
    Read,
    Write,
    DeviceRead,
    DeviceWrite,
    Export,
    Free,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Granted,
    AsRead,
    Busy,
    Waits,
}

impl Answer {
    fn of<T: std::fmt::Debug>(answer: Result<T>) -> Self {
        match answer {
            Ok(_) => Self::Granted,
            refused => {
                assert_eq!(misuse(refused), Misuse::Busy);
                Self::Busy
            }
        }
    }

    fn of_poll<T: std::fmt::Debug>(answer: Poll<Result<T>>) -> Self {
        match answer {
            Poll::Ready(answer) => Self::of(answer),
            Poll::Pending => Self::Waits,
        }
    }
}

/// Host memory, and two devices that map it: one holds, the other asks.
struct Scene {
    holder: Opened,
    asker: Opened,
}

/// The memory of one cell, and work of each device that reads and writes it.
struct Cell<'a> {
    scene: &'a Scene,
    h: Buffer,
    holds: [Prepared; 2],
    asks: [Prepared; 2],
}

impl Scene {
    fn new(name: &str) -> Self {
        let open = |side: &str| Script::new(format!("{name}, {side}")).open();
        Self { holder: open("holder"), asker: open("asker") }
    }

    fn cell(&self) -> Cell<'_> {
        let h = host().create_buffer(64 << 10).unwrap();
        let uses = |device: &Opened| {
            let b = h.borrow(device).unwrap().unwrap();
            let reads = device.prepare().reads(&b).build().unwrap();
            [reads, device.prepare().writes(&b).build().unwrap()]
        };
        Cell { scene: self, holds: uses(&self.holder), asks: uses(&self.asker), h }
    }
}

impl Cell<'_> {
    fn holding<R: Send>(&self, held: Held, f: impl FnOnce() -> R + Send) -> R {
        let h = &self.h;
        match held {
            Held::KeptRead => {
                let _claim = h.claim_read().unwrap();
                f()
            }
            Held::KeptExclusive => Claims::with(&[], &[&[h]], |claims| {
                assert!(claims.is_exclusive(h));
                f()
            })
            .unwrap(),
            Held::ReadClosure => h.read(|_| f()).unwrap(),
            Held::WriteClosure => h.write(|_| f()).unwrap(),
            Held::MomentaryRead => self.handing_over(&self.holds[0], f),
            Held::MomentaryWrite => self.handing_over(&self.holds[1], f),
        }
    }

    fn handing_over<R: Send>(&self, work: &Prepared, f: impl FnOnce() -> R + Send) -> R {
        let control = &self.scene.holder.control;
        control.clear_log();
        control.gate_calls(Call::HandOver);
        std::thread::scope(|threads| {
            let submitting = threads.spawn(|| work.submit(&[], &[]));
            control.await_calls(Call::HandOver, 1);
            let answer = f();
            control.open_calls(Call::HandOver);
            submitting.join().unwrap().unwrap();
            answer
        })
    }

    fn ask(&self, asked: Asked) -> Answer {
        let h = &self.h;
        match asked {
            Asked::KeptRead => Answer::of(h.claim_read()),
            Asked::KeptExclusive => {
                match Claims::with(&[], &[&[h]], |claims| claims.is_exclusive(h)) {
                    Ok(false) => Answer::AsRead,
                    other => Answer::of(other),
                }
            }
            Asked::Read => Answer::of_poll(poll(pin!(h.read_async(|_| ())))),
            Asked::Write => Answer::of_poll(poll(pin!(h.write_async(|_| ())))),
            Asked::DeviceRead => Answer::of_poll(poll(pin!(self.asks[0].submit_async(&[], &[])))),
            Asked::DeviceWrite => Answer::of_poll(poll(pin!(self.asks[1].submit_async(&[], &[])))),
            Asked::Export => Answer::of_poll(poll(pin!(h.export_async()))),
            Asked::Free => Answer::of_poll(poll(pin!(h.free_async()))),
        }
    }
}

const HELD: [Held; 6] = [
    Held::KeptRead,
    Held::KeptExclusive,
    Held::ReadClosure,
    Held::WriteClosure,
    Held::MomentaryRead,
    Held::MomentaryWrite,
];

/// `.` granted, `r` as read, `w` waits, `B` busy; accesses are running closures.
const TABLE: [(Asked, [char; 6]); 8] = [
    (Asked::KeptRead, ['.', 'B', '.', 'B', '.', '.']),
    (Asked::KeptExclusive, ['r', 'B', 'r', 'B', 'r', 'r']),
    (Asked::Read, ['.', 'B', '.', 'B', '.', 'w']),
    (Asked::Write, ['B', 'B', 'B', 'B', 'w', 'w']),
    (Asked::DeviceRead, ['.', '.', '.', 'B', '.', 'w']),
    (Asked::DeviceWrite, ['.', '.', 'B', 'B', 'w', 'w']),
    (Asked::Export, ['.', 'B', 'B', 'B', 'w', 'w']),
    (Asked::Free, ['B', 'B', 'B', 'B', 'w', 'w']),
];

#[test]
fn s5_1_each_cell_of_the_table_is_what_a_call_answers() {
    let scene = Scene::new("s5.1 table");
    for (asked, row) in TABLE {
        assert_eq!(scene.cell().ask(asked), Answer::Granted, "{asked:?} beside nothing");
        for (held, cell) in HELD.into_iter().zip(row) {
            let wanted = match cell {
                '.' => Answer::Granted,
                'r' => Answer::AsRead,
                'w' => Answer::Waits,
                _ => Answer::Busy,
            };
            let memory = scene.cell();
            let answer = memory.holding(held, || memory.ask(asked));
            assert_eq!(answer, wanted, "{asked:?} beside {held:?}");
        }
    }
}

#[test]
fn s5_1_who_meets_a_momentary_claim_goes_on_when_the_hand_over_ends() {
    let scene = Scene::new("s5.1 momentary");
    let cell = scene.cell();
    let mut freeing = Box::pin(cell.h.free_async());
    let mut writing = Box::pin(cell.h.write_async(|bytes| bytes.fill(1)));
    let mut submitting = Box::pin(cell.asks[1].submit_async(&[], &[]));
    cell.holding(Held::MomentaryRead, || {
        assert!(poll(freeing.as_mut()).is_pending());
        assert!(poll(writing.as_mut()).is_pending());
        assert!(poll(submitting.as_mut()).is_pending());
    });
    scene.holder.control.run_all();
    finish(writing).unwrap();
    assert_eq!(finish(submitting).unwrap().value(), 1);
    finish(freeing).unwrap();
    assert_eq!(&*cell.h.dead().unwrap(), "freed");
}

#[test]
fn s5_1_claims_count_per_allocation() {
    let x = host_buffer_of(&pattern(100, 1));
    let (left, right) = (x.view(0, 50).unwrap(), x.view(50, 50).unwrap());
    let claim = left.claim_read().unwrap();
    assert_eq!(misuse(right.write(|_| ())), Misuse::Busy);
    assert_eq!(misuse(x.free()), Misuse::Busy);
    drop(claim);
    right.write(|_| assert_eq!(misuse(left.read(|_| ())), Misuse::Busy)).unwrap();
}

#[test]
fn s5_1_claims_of_one_call_never_refuse_each_other() {
    let x = host_buffer_of(&pattern(100, 1));
    let (left, right) = (x.view(0, 50).unwrap(), x.view(50, 50).unwrap());
    copy(&left, &right).unwrap();
    assert_eq!(bytes_of(&right), pattern(50, 1));
    Claims::with(&[&x, &left, &right, &x], &[], |_| ()).unwrap();
    let device = Script::new("s5.1 one call").addressed(Addressed::Always).open();
    let y = buffer_of(&device, &pattern(100, 2));
    let (left, right) = (y.view(0, 50).unwrap(), y.view(50, 50).unwrap());
    device.prepare().copy(&left, run(0)).build().unwrap().submit(&[&right], &[]).unwrap();
    device.control.run_all();
    assert_eq!(bytes_of(&right), pattern(50, 2));
}

/// A device whose memory the host maps when the test says so.
fn mapped(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::WhileMapped).maps(Answered::WhenTold).open()
}

#[test]
fn s5_1_device_work_waits_for_a_blocking_access_that_waits_outside_the_turn() {
    let device = mapped("s5.1 mover");
    let (x, y) = (device.create_buffer(64).unwrap(), device.create_buffer(64).unwrap());
    device.control.gate();
    std::thread::scope(|threads| {
        let reading = threads.spawn(|| x.read(|bytes| bytes.len()));
        device.control.await_calls(Call::PollAccess, 1);
        // Its claim is taken while it waits for the map; work on other memory passes.
        device.record_use(&[], &[&y]).unwrap();
        let reads = [&x];
        let mut submitting = Box::pin(device.record_use_async(&reads, &[]));
        assert!(poll(submitting.as_mut()).is_pending(), "reading too, on such memory");
        let passed = device.record_use(&[], &[&y]).unwrap();
        device.control.run_all();
        device.control.answer_maps();
        device.control.open_gate();
        assert_eq!(reading.join().unwrap().unwrap(), 64);
        assert_eq!(finish(submitting).unwrap().value(), passed.value() + 1);
    });
}

#[test]
fn s5_1_a_submit_takes_all_its_claims_or_none() {
    let scene = Scene::new("s5.1 all");
    let (one, other) = (scene.cell(), scene.cell());
    let b = |h: &Buffer| h.borrow(&scene.asker).unwrap().unwrap();
    let both = scene.asker.prepare().writes(&b(&other.h)).writes(&b(&one.h)).build().unwrap();
    let mut submitting = Box::pin(both.submit_async(&[], &[]));
    one.holding(Held::MomentaryRead, || {
        assert!(poll(submitting.as_mut()).is_pending());
        assert_eq!(other.ask(Asked::KeptExclusive), Answer::Granted, "nothing is kept meanwhile");
        assert_eq!(other.ask(Asked::DeviceRead), Answer::Granted, "nor is the turn");
    });
    scene.holder.control.run_all();
    assert_eq!(finish(submitting).unwrap().value(), 2);
}

#[test]
fn s5_1_a_submit_that_met_a_hand_over_follows_what_that_handed_over() {
    let scene = Scene::new("s5.1 follow");
    let deaf = Script::new("s5.1 deaf").understands(Known::Nobody, 64).open();
    let cell = scene.cell();
    let b = cell.h.borrow(&deaf).unwrap().unwrap();
    let writes = deaf.prepare().writes(&b).build().unwrap();
    let mut submitting = Box::pin(writes.submit_async(&[], &[]));
    cell.holding(Held::MomentaryWrite, || assert!(poll(submitting.as_mut()).is_pending()));
    assert!(poll(submitting.as_mut()).is_pending(), "the host waits for it now");
    assert_eq!(deaf.submitted(), 0);
    scene.holder.control.run_all();
    assert_eq!(finish(submitting).unwrap().value(), 1);
}

#[test]
fn s5_2_a_read_claim_ends_on_drop() {
    let x = host_buffer_of(&[1; 64]);
    let claims = [x.claim_read().unwrap(), x.view(0, 1).unwrap().claim_read().unwrap()];
    let [one, other] = claims;
    drop(one);
    assert_eq!(misuse(x.write(|_| ())), Misuse::Busy);
    drop(other);
    x.write(|_| ()).unwrap();
}

#[test]
fn s5_2_a_reader_claims_first_and_waits_then() {
    let scene = Scene::new("s5.2 first");
    let cell = scene.cell();
    cell.holds[1].submit(&[], &[]).unwrap();
    let claim = cell.h.claim_read().unwrap();
    let mut waiting = Box::pin(cell.h.wait_async(Use::Read));
    assert!(poll(waiting.as_mut()).is_pending());
    scene.holder.control.run_all();
    finish(waiting).unwrap();
    drop(claim);
}

#[test]
fn s5_2_a_read_claim_raises_death_and_every_loss_that_is_not_done() {
    let x = host_buffer_of(&[1; 64]);
    x.free().unwrap();
    assert!(matches!(misuse(x.claim_read()), Misuse::Dead { .. }));
    let device = Script::new("s5.2 loss").open();
    let x = device.create_buffer(64).unwrap();
    let (read, done) = [(); 2].map(|()| host().create_buffer(64 << 10).unwrap()).into();
    let b = |h: &Buffer| h.borrow(&device).unwrap().unwrap();
    device.record_use(&[], &[&b(&done)]).unwrap();
    device.control.run_all();
    assert_eq!(device.reached(), 1);
    device.record_use(&[&b(&read)], &[]).unwrap();
    device.control.clear_log();
    device.control.gate_calls(Call::Stop);
    std::thread::scope(|threads| {
        threads.spawn(|| device.device_lost("on purpose"));
        device.control.await_calls(Call::Stop, 1);
        for h in [&read, &x] {
            assert_eq!(lost(h.claim_read()).1, "on purpose");
        }
        drop(done.claim_read().unwrap());
        device.control.open_calls(Call::Stop);
    });
    device.close().expect("a close waits for the stop");
    drop(read.claim_read().expect("the settled device's read is dropped"));
    assert_eq!(lost(x.claim_read()).1, "on purpose");
}

#[test]
fn s5_5_consume_waits_for_the_end_of_a_hand_over_and_the_embedders_form_never_does() {
    let scene = Scene::new("s5.5 hand-over");
    let cell = scene.cell();
    let control = &scene.holder.control;
    Claims::with(&[], &[&[&cell.h]], |claims| {
        control.gate_calls(Call::HandOver);
        std::thread::scope(|threads| {
            let submitting = threads.spawn(|| cell.holds[1].submit(&[], &[]));
            control.await_calls(Call::HandOver, 1);
            let now = embed::consume_now(claims, &cell.h, "donated").unwrap_err();
            assert!(matches!(now.misuse(), Some(Misuse::WouldWait { .. })));
            let consuming = threads.spawn(|| claims.consume(&cell.h, "donated"));
            assert!(cell.h.dead().is_none());
            control.open_calls(Call::HandOver);
            let point = submitting.join().unwrap().unwrap();
            let new = consuming.join().unwrap().unwrap();
            assert_eq!(new.stamps().write, Some(point), "the new buffer has its stamps");
        });
    })
    .unwrap();
    control.run_all();
}

#[test]
fn s5_6_the_holder_submits_under_its_claims() {
    let scene = Scene::new("s5.6");
    let cell = scene.cell();
    let _claim = cell.h.claim_read().unwrap();
    cell.holds[0].submit(&[], &[]).unwrap();
    cell.holds[1].submit(&[], &[]).unwrap();
    let other = scene.cell();
    Claims::with(&[], &[&[&other.h]], |claims| {
        assert!(claims.is_exclusive(&other.h));
        other.holds[1].submit(&[], &[]).unwrap();
        other.asks[0].submit(&[], &[]).unwrap();
    })
    .unwrap();
    scene.holder.control.run_all();
    scene.asker.control.run_all();
}

#[test]
fn s15_claims_no_interleaving_gives_host_bytes_beside_device_writes() {
    let device = rig::memory::open("s15 claims").unwrap();
    let x = device.create_buffer(4096).unwrap();
    // Who is inside the bytes: accesses count 1, device work 1,000.
    let inside = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&inside);
    let code = function("writes", move |call: &Launched<'_>| {
        assert_eq!(seen.fetch_add(1000, Ordering::SeqCst), 0, "device work beside an access");
        call.update::<u8>(0, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0xFF));
        seen.fetch_sub(1000, Ordering::SeqCst);
    });
    let kernel = device.kernel(code).unwrap();
    let flips = device.prepare().launch(&kernel, [1; 3]).writes(&x).build().unwrap();
    let half = x.view(0, 2048).unwrap();
    let enter = |f: &mut dyn FnMut()| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "an access beside device work");
        f();
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    // Each side goes on until it was let in that often; refused calls do not count.
    let until_allowed = |turn: &dyn Fn(u64) -> Result<()>| {
        let (started, mut allowed) = (Instant::now(), 0);
        while allowed < ROUNDS {
            assert!(started.elapsed() < WATCHDOG);
            match turn(allowed) {
                Ok(()) => allowed += 1,
                refused => assert_eq!(misuse(refused), Misuse::Busy),
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| until_allowed(&|_| flips.submit(&[], &[]).map(drop)));
        threads.spawn(|| {
            until_allowed(&|at| match at % 3 {
                0 => x.write(|bytes| enter(&mut || bytes.fill(0))),
                1 => half.read(|bytes| enter(&mut || assert!(uniform(bytes)))),
                _ => half.write(|bytes| enter(&mut || assert!(uniform(bytes)))),
            });
        });
    });
    assert_eq!(device.submitted(), ROUNDS);
}

fn uniform(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

const ROUNDS: u64 = 1_000;

#[test]
fn s15_claims_a_view_hides_no_overlap() {
    let device = own_halves(Script::new("s15 views")).open();
    let x = device.create_buffer(100).unwrap();
    let inner = x.view(10, 80).unwrap().view(10, 10).unwrap();
    let meets = [x.view(20, 10), x.view(29, 10), x.view(11, 10)].map(Result::unwrap);
    for other in &meets {
        assert!(inner.overlaps(other) && other.overlaps(&inner));
        assert_eq!(misuse(copy(&inner, other)), Misuse::Overlap);
        let refused = device.prepare().copy(other, &inner).build();
        assert_eq!(misuse(refused), Misuse::Overlap);
        let late = device.prepare().copy(run(0), &inner).build().unwrap();
        assert_eq!(misuse(late.submit(&[other], &[])), Misuse::Overlap);
    }
    let beside = x.view(30, 10).unwrap();
    assert!(!inner.overlaps(&beside));
    copy(&inner, &beside).unwrap();
    assert_eq!(device.submitted(), 1);
}
