//! A driver that does nothing: regions are numbers, work is done when it is handed over.
//!
//! What a bench measures over it is rig alone. It allocates no memory, so that a million buffers
//! and traces of any size fit any machine. It counts its calls.

use rig::driver::{
    Addressed, Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Lent, Load, Producer, Queue,
    Region, Stopped, Work,
};
use rig::{CacheOptions, Device, Opener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The driver.
#[derive(Debug)]
pub(crate) struct Null {
    word: AtomicU64,
    regions: AtomicU64,
    /// Calls of `alloc` and `free`, refused ones too.
    pub(crate) allocs: AtomicU64,
    pub(crate) frees: AtomicU64,
    /// Passes of the tick.
    pub(crate) services: AtomicU64,
    held_bytes: AtomicU64,
    heap_bytes: u64,
}

impl Null {
    /// Makes a driver whose heap has `heap_bytes` bytes; more it refuses.
    pub(crate) fn new(heap_bytes: u64) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self {
            word: zero(),
            regions: zero(),
            allocs: zero(),
            frees: zero(),
            services: zero(),
            held_bytes: zero(),
            heap_bytes,
        })
    }

    /// Opens a device over it, under a name of its own.
    pub(crate) fn open(self: &Arc<Self>, options: CacheOptions) -> Device {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("null {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let driver: Arc<dyn Driver> = Arc::clone(self) as Arc<dyn Driver>;
        let opener = Opener::new("null", move || Ok(driver));
        Device::open_with(&name, opener, options).expect("a null device opens")
    }
}

/// Opens a null device without a bound.
pub(crate) fn device() -> Device {
    Null::new(u64::MAX).open(CacheOptions::default())
}

impl Driver for Null {
    fn kind(&self) -> &'static str {
        "null"
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts::host("null");
        facts.queues = vec![Queue::ALL];
        facts.addressed = Addressed::Never;
        facts
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        self.allocs.fetch_add(1, Ordering::Relaxed);
        let held_bytes = self.held_bytes.fetch_add(ask.len_bytes, Ordering::Relaxed);
        if held_bytes.saturating_add(ask.len_bytes) > self.heap_bytes {
            self.held_bytes.fetch_sub(ask.len_bytes, Ordering::Relaxed);
            return Alloc::Refused;
        }
        Alloc::Ready(Region(self.regions.fetch_add(1, Ordering::Relaxed) + 1, ask.len_bytes))
    }

    fn free(&self, region: Region) {
        self.frees.fetch_add(1, Ordering::Relaxed);
        self.held_bytes.fetch_sub(region.1, Ordering::Relaxed);
    }

    fn lend(&self, _: Region) -> Option<Lent> {
        None
    }

    fn load(&self, _: &Code) -> Load {
        Load::Ready { kernel: 1, code_bytes: 0 }
    }

    fn hand_over(&self, value: u64, _: &Work<'_>, _: &[Producer<'_>]) -> HandOver {
        // ORDERING: releases what the work wrote, as a real driver's word does.
        self.word.store(value, Ordering::Release);
        HandOver::Done
    }

    fn reached(&self) -> Result<u64, Fault> {
        // ORDERING: pairs with the store in `hand_over`.
        Ok(self.word.load(Ordering::Acquire))
    }

    fn service(&self) -> Result<Option<std::time::Duration>, Fault> {
        self.services.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    fn stop(&self) {}

    fn poll_stopped(&self, _: &Waker) -> Poll<Stopped> {
        Poll::Ready(Stopped::Settled)
    }
}
