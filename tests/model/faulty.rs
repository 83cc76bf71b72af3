//! A device of files whose calls fault when told: files have no scripted driver of their own.

use rig::driver::{
    Alloc, Ask, Code, Driver, Facts, Fault, FileError, FileIo, FileMode, HandOver, Lent, Load,
    Producer, Region, Stopped, Work,
};
use rig::drivers::file;
use rig_support::SCRIPTED_FAULT;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// When the calls of such a device fault, and how often it was stopped.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    calls: AtomicU64,
    /// The first call that faults, and 0 for none.
    from: AtomicU64,
    stops: AtomicU64,
    /// Files that are open.
    open: AtomicU64,
}

impl Faults {
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The `nth` call from now on, and all after it, fault.
    pub(crate) fn fault_from(&self, nth: u64) {
        self.from.store(self.calls() + nth, Ordering::Relaxed);
    }

    pub(crate) fn end_plan(&self) {
        self.from.store(0, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    /// Returns how many files are open.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    fn call(&self) -> Result<(), FileError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let from = self.from.load(Ordering::Relaxed);
        let faults = from > 0 && call >= from;
        if faults { Err(FileError::Fault(Fault::new(SCRIPTED_FAULT))) } else { Ok(()) }
    }
}

/// Makes the driver of one such device.
pub(crate) fn driver(faults: Arc<Faults>) -> Arc<dyn Driver> {
    Arc::new(Faulty { files: file::driver(), faults })
}

struct Faulty {
    files: Arc<dyn Driver>,
    faults: Arc<Faults>,
}

impl Faulty {
    fn io(&self) -> Result<&dyn FileIo, FileError> {
        self.faults.call()?;
        Ok(self.files.file().expect("a device of files has them"))
    }
}

impl FileIo for Faulty {
    fn create(&self, path: &Path, len: u64) -> Result<Region, FileError> {
        let made = self.io()?.create(path, len);
        self.faults.open.fetch_add(u64::from(made.is_ok()), Ordering::Relaxed);
        made
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<(Region, u64), FileError> {
        let made = self.io()?.open(path, mode);
        self.faults.open.fetch_add(u64::from(made.is_ok()), Ordering::Relaxed);
        made
    }

    fn read_at(&self, file: Region, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.io()?.read_at(file, offset, into)
    }

    fn write_at(&self, file: Region, offset: u64, from: &[u8]) -> Result<(), FileError> {
        self.io()?.write_at(file, offset, from)
    }
}

impl Driver for Faulty {
    fn kind(&self) -> &'static str {
        self.files.kind()
    }

    fn facts(&self) -> Facts {
        self.files.facts()
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        self.files.alloc(ask)
    }

    fn free(&self, region: Region) {
        self.faults.open.fetch_sub(1, Ordering::Relaxed);
        self.files.free(region);
    }

    fn lend(&self, region: Region) -> Option<Lent> {
        self.files.lend(region)
    }

    fn file(&self) -> Option<&dyn FileIo> {
        Some(self)
    }

    fn load(&self, code: &Code) -> Load {
        self.files.load(code)
    }

    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver {
        self.files.hand_over(value, work, waits)
    }

    fn reached(&self) -> Result<u64, Fault> {
        self.files.reached()
    }

    fn stop(&self) {
        self.faults.stops.fetch_add(1, Ordering::Relaxed);
        self.files.stop();
    }

    fn poll_stopped(&self, waker: &Waker) -> Poll<Stopped> {
        self.files.poll_stopped(waker)
    }
}
