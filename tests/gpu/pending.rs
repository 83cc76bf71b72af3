//! GPUs that end while somebody waits for their work, on every way to wait.

use crate::found::{open, open_mapped, options};
use crate::gate::Gate;
use rig::driver::Addressed;
use rig::wgpu::{adopt, handles};
use rig::{Device, Use, copy, host};
use rig_support::uses::{Named, is_lost};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park};
use std::time::{Duration, Instant};

/// Whether the buffer that is waited for has work on it already; else the wait brings its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Nothing,
    Filled,
}

/// Waits for a device that is held up on each of `ways`, destroys the device meanwhile, and asks
/// that the wait is Lost within a second.
fn end(opened: impl Fn(&str) -> Option<Device>, before: Before, ways: &[Named]) {
    for (name, way) in ways {
        let Some(d) = opened(name) else { return };
        let x = d.create_buffer(4096).unwrap();
        let fill = d.prepare().fill(&x, 1).build().unwrap();
        let Some(gate) = Gate::shut(&d) else { return };
        if before == Before::Filled {
            fill.submit(&[], &[]).unwrap();
        }
        let (begin, begun) = channel();
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.send(()).unwrap();
                tell.send(way(&x)).unwrap();
            });
            begun.recv().unwrap();
            let started = Instant::now();
            while d.submitted() == 0 {
                assert!(started.elapsed() < Duration::from_secs(60), "{name} hands nothing over");
                std::thread::yield_now();
            }
            handles(&d).unwrap().0.destroy();
            let since = Instant::now();
            let answer = told.recv_timeout(Duration::from_secs(60));
            let took = since.elapsed();
            gate.open();
            is_lost(name, answer.expect("the wait ends"), d.name());
            assert!(took < Duration::from_secs(1), "{name} ended after {took:?}");
            assert_eq!((d.reached(), d.submitted()), (0, 1), "{name}: it was held up");
        });
        drop((fill, x));
        drop(gate);
        d.close().unwrap();
    }
}

/// Opens a device as a program does, and gives it to rig.
fn open_adopted(name: &str, addressed: Addressed) -> Option<Device> {
    let opened = match addressed {
        Addressed::Never => open(&format!("{name}, opened"))?,
        _ => open_mapped(&format!("{name}, opened"))?,
    };
    let (device, queue) = handles(&opened).unwrap();
    Some(adopt(device, queue, options(name, addressed)?).unwrap())
}

/// Waits by an async form, without a thread that blocks in rig.
fn by_async<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => park(),
        }
    }
}

#[test]
fn s0_7_a_destroyed_device_ends_every_wait_within_a_second() {
    let opened = |way: &str| open(&format!("ends under {way}"));
    end(opened, Before::Nothing, MOVES);
    end(opened, Before::Filled, WAITS);
}

#[test]
fn s0_7_a_destroyed_mapped_device_ends_every_wait_within_a_second() {
    let opened = |way: &str| open_mapped(&format!("mapped, ends under {way}"));
    end(opened, Before::Filled, &[MOVES, WAITS, ACCESSES].concat());
}

#[test]
fn s12_1_an_adopted_device_that_is_destroyed_ends_every_wait_within_a_second() {
    let opened = |way: &str| open_adopted(&format!("adopted, ends under {way}"), Addressed::Never);
    end(opened, Before::Nothing, MOVES);
    end(opened, Before::Filled, WAITS);
}

#[test]
fn s12_1_an_adopted_mapped_device_that_is_destroyed_ends_every_wait_within_a_second() {
    let opened =
        |way: &str| open_adopted(&format!("both, ends under {way}"), Addressed::WhileMapped);
    end(opened, Before::Filled, &[MOVES, WAITS, ACCESSES].concat());
}

/// Calls that move a buffer's bytes.
const MOVES: &[Named] = &[
    ("blit_to", |x| x.blit_to(1, &mut [0; 9])),
    ("blit_to_async", |x| by_async(x.blit_to_async(1, &mut [0; 9]))),
    ("blit_from", |x| x.blit_from(1, &[0; 9])),
    ("copy", |x| copy(x, &host().create_buffer(x.len())?)),
    ("copy_async", |x| {
        let to = host().create_buffer(x.len())?;
        by_async(rig::copy_async(x, &to))
    }),
    ("fill", |x| x.fill(2)),
    ("fill_async", |x| by_async(x.fill_async(2))),
];

/// Calls that wait for work on a buffer.
const WAITS: &[Named] = &[
    ("wait", |x| x.wait(Use::Read)),
    ("wait_async", |x| by_async(x.wait_async(Use::Write))),
    ("a point's wait", |x| x.stamps().write.expect("it was filled").wait()),
    ("a device's wait", |x| x.device().wait(x.device().submitted())),
    ("a device's wait_async", |x| by_async(x.device().wait_async(x.device().submitted()))),
];

/// Calls that reach a buffer's bytes in place.
const ACCESSES: &[Named] = &[
    ("read", |x| x.read(|_| ())),
    ("read_async", |x| by_async(x.read_async(|_| ()))),
    ("write", |x| x.write(|_| ())),
    ("write_async", |x| by_async(x.write_async(|_| ()))),
];
