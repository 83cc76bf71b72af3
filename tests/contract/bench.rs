//! What the laws need to talk to any driver: values in order, bytes in and out by whatever way the
//! facts allow, and waits with a bound.

use rig::bytes::{HostBytes, HostMemory, page_bytes};
use rig::driver::{
    Access, Addressed, Alloc, Ask, Driver, Facts, HandOver, Import, Kind, Op, Part, Region, Span,
    Stopped, Work,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// Opens a fresh device.
pub type Open<'a> = &'a dyn Fn() -> Arc<dyn Driver>;

/// One device under test. It gives back what it made when dropped.
pub struct Bench {
    pub driver: Arc<dyn Driver>,
    pub facts: Facts,
    last: Cell<u64>,
    /// Memory that bytes pass through, where the host does not address the device's.
    side: Option<Side>,
}

struct Side {
    region: Region,
    way: Way,
}

enum Way {
    /// Host memory that the device maps.
    Mapped(HostMemory),
    /// Transfer memory of the device.
    Transfer,
}

impl Bench {
    pub fn new(open: Open<'_>) -> Self {
        let driver = open();
        let facts = driver.facts();
        let last = Cell::new(facts.first_value);
        let mut bench = Self { driver, facts, last, side: None };
        if bench.facts.addressed == Addressed::Never {
            bench.side = Some(bench.open_side());
        }
        bench
    }

    /// Whether the device has a timeline.
    pub fn has_queues(&self) -> bool {
        !self.facts.queues.is_empty()
    }

    /// Allocates Device memory of at least this length.
    pub fn alloc(&self, len: u64) -> Region {
        self.alloc_kind(Kind::Device, len)
    }

    pub fn alloc_kind(&self, kind: Kind, len: u64) -> Region {
        let len_bytes = len.next_multiple_of(self.facts.grain_bytes);
        match self.driver.alloc(Ask { kind, len_bytes, paged: false }) {
            Alloc::Ready(region) => region,
            Alloc::Pending(region) => {
                let answer = self.poll(|waker| self.driver.poll_alloc(region, waker));
                assert_eq!(answer, Alloc::Ready(region), "{len} bytes fit");
                region
            }
            other => panic!("{len} bytes are {other:?}"),
        }
    }

    pub fn free(&self, region: Region) {
        self.driver.free(region);
    }

    /// The next value.
    pub fn next(&self) -> u64 {
        self.last.get() + 1
    }

    /// Hands work over as the next value, and commits it.
    pub fn hand_over(&self, parts: &[Part], spans: &[Span]) -> u64 {
        let value = self.next();
        let work = Work { prepared: None, parts, spans };
        assert_eq!(self.driver.hand_over(value, &work, &[]), HandOver::Done);
        self.last.set(value);
        assert_eq!(self.driver.commit(value), Ok(()));
        value
    }

    /// Runs work to its end.
    pub fn run(&self, parts: &[Part], spans: &[Span]) -> u64 {
        let value = self.hand_over(parts, spans);
        self.wait(value);
        value
    }

    /// Waits until a value is reached.
    pub fn wait(&self, value: u64) {
        for _ in 0..TRIES {
            if self.driver.reached().expect("the device is well") >= value {
                return;
            }
            self.driver.block(value, SLEEP).expect("the device is well");
            turn();
        }
        panic!("value {value} was not reached");
    }

    /// Asks until the answer is ready.
    pub fn poll<T>(&self, ask: impl Fn(&Waker) -> Poll<T>) -> T {
        let woken = Woken::new();
        for _ in 0..TRIES {
            if let Poll::Ready(answer) = ask(&woken.waker()) {
                return answer;
            }
            self.driver.service().expect("the device is well");
            turn();
        }
        panic!("the answer stays pending");
    }

    /// Stops the device, and waits for its end.
    pub fn stop(&self) -> Stopped {
        self.driver.stop();
        let woken = Woken::new();
        for _ in 0..TRIES {
            if let Poll::Ready(end) = self.driver.poll_stopped(&woken.waker()) {
                return end;
            }
            let _ = self.driver.service();
            turn();
        }
        panic!("the stop does not end");
    }

    /// Writes bytes into a region.
    pub fn put(&self, region: Region, offset: u64, from: &[u8]) {
        let len = from.len() as u64;
        self.access(
            region,
            Access::Write,
            |bytes| bytes.copy_in(offset, from),
            |side| {
                self.access_side(side, Access::Write, |bytes| bytes.copy_in(0, from));
                let spans = [span(side.region, 0, len), write(region, offset, len)];
                self.run(&[copy(0, 1)], &spans);
            },
        );
    }

    /// Reads bytes of a region.
    pub fn get(&self, region: Region, offset: u64, len: u64) -> Vec<u8> {
        let into = Cell::new(vec![0; len as usize]);
        let read = |bytes: HostBytes, offset| {
            let mut seen = into.take();
            bytes.copy_out(offset, &mut seen);
            into.set(seen);
        };
        self.access(
            region,
            Access::Read,
            |bytes| read(bytes, offset),
            |side| {
                let spans = [span(region, offset, len), write(side.region, 0, len)];
                self.run(&[copy(0, 1)], &spans);
                self.access_side(side, Access::Read, |bytes| read(bytes, 0));
            },
        );
        into.take()
    }

    /// Reaches a region's bytes in place where the host addresses them, else by the other way.
    fn access(
        &self,
        region: Region,
        access: Access,
        in_place: impl Fn(HostBytes),
        by_side: impl Fn(&Side),
    ) {
        match &self.side {
            Some(side) => by_side(side),
            None if self.facts.addressed == Addressed::Always => {
                in_place(self.driver.bytes(region).expect("always addressed"));
            }
            None => self.while_mapped(region, access, in_place),
        }
    }

    pub fn poll_transfer(&self, region: Region, access: Access) -> Alloc {
        self.poll(|waker| self.driver.poll_transfer(region, access, waker))
    }

    pub fn while_mapped(&self, region: Region, access: Access, f: impl Fn(HostBytes)) {
        self.driver.begin_access(region, access).expect("the device is well");
        let bytes = self.poll(|waker| self.driver.poll_access(region, waker));
        f(bytes.expect("the device is well"));
        self.driver.end_access(region);
    }

    fn access_side(&self, side: &Side, access: Access, f: impl Fn(HostBytes)) {
        match &side.way {
            Way::Mapped(memory) => f(memory.bytes()),
            Way::Transfer => match self.driver.bytes(side.region) {
                Some(bytes) => f(bytes),
                None => self.while_mapped(side.region, access, f),
            },
        }
    }

    fn open_side(&self) -> Side {
        if self.facts.import_align_bytes.is_some() {
            let memory = host_memory(SIDE_BYTES);
            let Import::Mapped(region) = self.driver.import_host(memory.bytes()) else {
                panic!("aligned host memory maps");
            };
            Side { region, way: Way::Mapped(memory) }
        } else {
            let region = self.alloc_kind(Kind::Transfer, SIDE_BYTES);
            for access in [Access::Read, Access::Write] {
                assert_eq!(self.poll_transfer(region, access), Alloc::Ready(region));
            }
            Side { region, way: Way::Transfer }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.side.take() {
            Some(Side { region, way: Way::Mapped(memory) }) => {
                self.driver.release(region);
                drop(memory);
            }
            Some(Side { region, way: Way::Transfer }) => self.driver.free(region),
            None => {}
        }
    }
}

/// Lets a turn pass of what moves the driver, where nothing does while this runs: set by who runs
/// the laws there.
pub static TURN: OnceLock<fn()> = OnceLock::new();

fn turn() {
    if let Some(turn) = TURN.get() {
        turn();
    }
}

/// Whole pages of host memory.
pub fn host_memory(len: u64) -> HostMemory {
    let len = len.next_multiple_of(page_bytes());
    HostMemory::zeroed(len, page_bytes()).expect("the system has a few pages")
}

pub fn span(region: Region, offset: u64, len: u64) -> Span {
    Span { region, offset, len, access: Access::Read, is_last: false }
}

pub fn write(region: Region, offset: u64, len: u64) -> Span {
    Span { region, offset, len, access: Access::Write, is_last: false }
}

pub fn copy(src: usize, dst: usize) -> Part {
    Part { queue: 0, after: vec![], op: Op::Copy { src, dst } }
}

pub fn fill(dst: usize, byte: u8) -> Part {
    Part { queue: 0, after: vec![], op: Op::Fill { dst, byte } }
}

/// Bytes that differ from place to place, and by seed.
pub fn pattern(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + seed * 31 + 1) as u8).collect()
}

/// A waker that counts.
pub struct Woken(AtomicU64);

impl Woken {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0)))
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const SIDE_BYTES: u64 = 1 << 20;
const TRIES: u64 = 10_000;
const SLEEP: Duration = Duration::from_millis(200);
