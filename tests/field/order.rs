//! Inputs about order: readers, writers and movers of the same memory on several devices.

use crate::watch::{Running, begin, poll};
use rig::driver::Facts;
use rig::memory::{self, function};
use rig::{Buffer, Device, Misuse, Point, Prepared, Use, copy, copy_async, host};
use rig_support::{Known, Opened, Script};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

const PAGED: u64 = 65_536;

/// Halves that no other test here has.
const HALF: u64 = 208 << 10;

/// Two devices that read one host buffer: the first still runs, the second is done.
struct Readers {
    h: Buffer,
    _borrows: [Buffer; 2],
    runs: Opened,
    done: Opened,
}

impl Readers {
    fn new(name: &str) -> Self {
        let runs = Script::new(format!("{name}, runs")).open();
        let done = Script::new(format!("{name}, done")).open();
        let h = host().create_buffer(PAGED).unwrap();
        let borrows = [&runs, &done].map(|device| {
            let borrow = h.borrow(device).unwrap().unwrap();
            device.record_use(&[&borrow], &[]).unwrap();
            borrow
        });
        done.control.run_all();
        runs.control.gate();
        Self { h, _borrows: borrows, runs, done }
    }

    fn reached(&self) -> [u64; 2] {
        [self.runs.reached(), self.done.reached()]
    }
}

#[test]
fn s3_7_a_write_of_the_host_waits_for_both_readers_though_the_second_is_done() {
    let readers = Readers::new("host writes");
    let h = readers.h.clone();
    let writing = begin("a write", move || h.write(|bytes| bytes.fill(7)));
    readers.runs.control.await_sleeper();
    assert!(writing.runs());
    assert_eq!(readers.reached(), [0, 1]);
    readers.runs.control.open_gate();
    writing.end().unwrap();
    assert_eq!(readers.reached(), [1, 1]);
}

#[test]
fn s3_7_a_write_of_a_third_device_waits_for_both_readers_though_the_second_is_done() {
    let readers = Readers::new("device writes");
    let third = Script::new("third").understands(Known::Nobody, 0).open();
    let h = readers.h.borrow(&third).unwrap().unwrap();
    let writing = {
        let (device, h) = (third.device.clone(), h.clone());
        begin("a submit", move || device.record_use(&[], &[&h]))
    };
    readers.runs.control.await_sleeper();
    assert!(writing.runs());
    assert_eq!((readers.reached(), third.submitted()), ([0, 1], 0));
    readers.runs.control.open_gate();
    assert_eq!(writing.end().unwrap().value(), 1);
    assert_eq!(readers.reached(), [1, 1]);
    third.control.run_all();
}

#[test]
fn s7_8_two_futures_of_staged_copies_that_nobody_polls_stop_no_blocking_copy() {
    begin("a blocking copy beside parked ones", || {
        let d = Script::new("parked").facts(set_half).open();
        let pair = || {
            let x = d.create_buffer(2 * HALF).unwrap();
            x.fill(1).unwrap();
            (x, host().create_buffer(2 * HALF).unwrap())
        };
        let [one, two, three] = [(); 3].map(|()| pair());
        let mut parked = [&one, &two].map(|(x, h)| Box::pin(copy_async(x, h)));
        // Each has handed over the legs of both its pieces, and holds the halves they write.
        parked.iter_mut().for_each(|future| assert!(poll(future.as_mut()).is_pending()));
        copy(&three.0, &three.1).unwrap();
        for mut future in parked {
            while poll(future.as_mut()).is_pending() {
                d.wait(d.submitted()).unwrap();
            }
        }
        for pair in [&one, &two, &three] {
            pair.1.read(|bytes| assert!(bytes.iter().all(|byte| *byte == 1))).unwrap();
        }
    })
    .end();
}

fn set_half(facts: &mut Facts) {
    (facts.half_bytes, facts.piece_bytes) = (HALF, HALF);
}

/// A memory device, and a prepared submission that adds 1 to a number in `h`.
fn counter(name: &str, h: &Buffer) -> (Device, Prepared) {
    let device = memory::open(name).unwrap();
    let add = function("add", |call| call.update::<u64>(0, |numbers| numbers[0] += 1));
    let add = device.kernel(add).unwrap();
    let h = h.borrow(&device).unwrap().unwrap();
    let adds = device.prepare().launch(&add, [1; 3]).writes(&h).build().unwrap();
    (device, adds)
}

#[test]
fn s3_2_two_devices_that_write_one_allocation_at_once_lose_neither_order_nor_stamp() {
    const EACH: u64 = 100_000;
    let h = host().create_buffer(PAGED).unwrap();
    h.write(|bytes| bytes.fill(0)).unwrap();
    let counters = [counter("writer one", &h), counter("writer two", &h)];
    let running = counters.each_ref().map(|(_, adds)| {
        let adds = adds.clone();
        begin("100,000 submissions", move || {
            for value in 1..=EACH {
                assert_eq!(adds.submit(&[], &[]).unwrap().value(), value);
            }
        })
    });
    running.into_iter().for_each(Running::end);
    h.read_as::<u64, _>(|numbers| assert_eq!(numbers[0], 2 * EACH)).unwrap();
    let stamps = h.stamps();
    let last = counters.each_ref().map(|(device, _)| device.point(EACH).unwrap());
    assert_eq!(last.map(|point: Point| stamps.uses.contains(&point)), [true; 2]);
    assert!(stamps.write.is_some_and(|write| last.contains(&write)));
    counters.iter().for_each(|(device, _)| device.close().unwrap());
}

/// What the host does in a loop while another thread submits.
type Reads = fn(&Buffer) -> rig::Result<()>;

/// Submits 2,000 uses of `x` while the host reads it in a loop; answers the submissions refused.
fn reads_beside(
    name: &str,
    reads: Reads,
    submits: fn(&Device, &Buffer) -> rig::Result<Point>,
) -> u64 {
    let device = memory::open(name).unwrap();
    let x = device.create_buffer(4096).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let reading = {
        let (x, over) = (x.clone(), Arc::clone(&over));
        begin("reads", move || {
            let mut count = 0_u64;
            while !over.load(Ordering::Relaxed) || count == 0 {
                reads(&x).unwrap();
                count += 1;
            }
        })
    };
    let submitting = {
        let device = device.clone();
        begin("submissions", move || {
            let refused = (0..2_000).filter_map(|_| submits(&device, &x).err());
            refused.map(|error| assert_eq!(error.misuse(), Some(&Misuse::Busy))).count() as u64
        })
    };
    let refused = submitting.end();
    over.store(true, Ordering::Relaxed);
    reading.end();
    device.close().unwrap();
    refused
}

#[test]
fn s5_1_neither_reads_of_the_host_nor_reading_work_are_ever_refused() {
    let read: Reads = |x| x.read(|bytes| assert_eq!(bytes.len(), 4096));
    assert_eq!(reads_beside("reading", read, |d, x| d.record_use(&[x], &[])), 0);
}

#[test]
fn s5_1_neither_moves_of_the_host_nor_writing_work_are_ever_refused() {
    let moves: Reads = |x| x.blit_to(0, &mut [0; 4096]);
    assert_eq!(reads_beside("moving", moves, |d, x| d.record_use(&[], &[x])), 0);
    let waits: Reads = |x| x.wait(Use::Read);
    assert_eq!(reads_beside("waiting", waits, |d, x| d.record_use(&[], &[x])), 0);
}

#[test]
fn s5_1_a_read_of_the_host_beside_writing_work_waits_and_is_never_refused() {
    // What may be refused is work that would write under a closure that runs.
    let read: Reads = |x| x.read(|bytes| assert_eq!(bytes.len(), 4096));
    reads_beside("closures", read, |d, x| d.record_use(&[], &[x]));
}

#[test]
fn s5_1_a_future_of_a_read_beside_writing_work_is_never_refused() {
    let read: Reads = |x| {
        let mut reading = pin!(x.read_async(|bytes| assert_eq!(bytes.len(), 4096)));
        loop {
            if let Poll::Ready(answer) = poll(reading.as_mut()) {
                return answer;
            }
            std::thread::yield_now();
        }
    };
    reads_beside("polled closures", read, |d, x| d.record_use(&[], &[x]));
}
