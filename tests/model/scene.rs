//! Two scripted devices and a device of files, and what an operation of the failure walk has made.

use crate::faulty::{self, Faults};
use crate::operation::Operation;
use rig::driver::Fault;
use rig::{Buffer, Device, FileMode, Kernel, Opener, Point, Prepared, Result, host};
use rig_support::{Call, Opened, Script, drain};
use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The devices that an operation runs on.
pub(crate) struct Scene {
    pub(crate) d: Opened,
    pub(crate) e: Opened,
    /// Opened by the first operation that needs it.
    files: OnceCell<Device>,
    faults: Arc<Faults>,
}

/// Which of the three fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    D,
    E,
    Files,
}

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fails {
    Fault,
    RefuseOnce,
    RefuseFrom,
}

/// What an operation needs and makes.
#[derive(Default)]
pub(crate) struct Things {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) work: Option<Prepared>,
    pub(crate) kernel: Option<Kernel>,
    pub(crate) waits: Vec<Point>,
}

impl Things {
    pub(crate) fn of(buffers: impl Into<Vec<Buffer>>) -> Self {
        Self { buffers: buffers.into(), ..Self::default() }
    }
}

impl Scene {
    pub(crate) fn open(operation: &Operation) -> Self {
        let [d, e] = operation.scripts;
        let small = |script: Script| {
            script.silent().facts(|facts| {
                facts.half_bytes = HALF;
                facts.piece_bytes = HALF;
            })
        };
        Self {
            d: d(small(Script::new("walk d"))).open(),
            e: e(small(Script::new("walk e"))).open(),
            files: OnceCell::new(),
            faults: Arc::default(),
        }
    }

    /// Returns the device of files.
    pub(crate) fn files(&self) -> &Device {
        self.files.get_or_init(|| {
            let driver = faulty::driver(Arc::clone(&self.faults));
            let opener = Opener::new("file", || Ok::<_, Fault>(driver));
            Device::open("walk files", opener).unwrap()
        })
    }

    /// Returns how many devices are open.
    pub(crate) fn devices(&self) -> i64 {
        2 + i64::from(self.files.get().is_some())
    }

    /// Returns how many calls that can fail came to a device.
    pub(crate) fn fallible_calls(&self, which: Which) -> u64 {
        match which {
            Which::D => self.d.control.fallible_calls(),
            Which::E => self.e.control.fallible_calls(),
            Which::Files => self.faults.calls(),
        }
    }

    /// Makes the `nth` call of a device fail. Files are never refused for want of room.
    pub(crate) fn fail(&self, which: Which, fails: Fails, nth: u64) {
        let control = match which {
            Which::D => &self.d.control,
            Which::E => &self.e.control,
            Which::Files => return self.faults.fault_from(nth),
        };
        match fails {
            Fails::Fault => control.fault_from(nth),
            Fails::RefuseOnce => control.refuse_at(nth),
            Fails::RefuseFrom => control.refuse_from(nth),
        }
    }

    pub(crate) fn end_plans(&self) {
        self.d.control.end_plan();
        self.e.control.end_plan();
        self.faults.end_plan();
    }

    pub(crate) fn lost(&self, which: Which) -> Option<Arc<str>> {
        match which {
            Which::D => self.d.lost(),
            Which::E => self.e.lost(),
            Which::Files => self.files.get().and_then(Device::lost),
        }
    }

    /// Looks that everything came back to the devices that are lost.
    pub(crate) fn check_returned(&self) {
        for (which, control) in [(Which::D, &self.d.control), (Which::E, &self.e.control)] {
            if self.lost(which).is_some() {
                control.await_returned();
                control.check_returned();
            }
        }
        if self.lost(Which::Files).is_some() {
            assert_eq!(self.faults.open(), 0, "files that a loss left open");
        }
    }

    /// Returns the most stops that a device saw.
    pub(crate) fn stops(&self) -> u64 {
        let scripted = [&self.d.control, &self.e.control].map(|control| control.count(Call::Stop));
        scripted.into_iter().fold(self.faults.stops(), u64::max)
    }

    /// Makes a file of its own, which is gone from its folder already.
    pub(crate) fn file(&self, len: u64) -> Buffer {
        self.try_file(len).unwrap()
    }

    /// Makes a file, and opens it again read-only.
    pub(crate) fn try_file(&self, len: u64) -> Result<Buffer> {
        let path = path();
        let made = self.files().create_file(&path, len);
        let again = made.is_ok().then(|| self.files().open_file(&path, FileMode::ReadOnly));
        if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
        again.transpose()?;
        made
    }

    pub(crate) fn is_well(&self) -> bool {
        [Which::D, Which::E, Which::Files].iter().all(|which| self.lost(*which).is_none())
    }

    /// Runs what is left to run, and sends everything back that nobody needs.
    pub(crate) fn settle(&self) {
        for device in [&self.d, &self.e] {
            device.set_budget(u64::MAX).unwrap();
            if device.lost().is_none() {
                device.wait(device.submitted()).unwrap();
                device.free_cache().unwrap();
            }
            drain(device);
        }
        if let Some(files) = self.files.get() {
            drain(files);
        }
        drain(&host());
        host().free_cache().unwrap();
        self.d.control.check();
        self.e.control.check();
    }

    /// Returns what is left: regions and mappings of the devices, open files, the host's bytes.
    pub(crate) fn left(&self) -> [u64; 7] {
        let stats = host().stats();
        let (d, e) = (&self.d.control, &self.e.control);
        let lives =
            |control: &rig_support::Control| control.prepared_live() + control.kernels_live();
        [
            d.regions_live() + e.regions_live() + self.faults.open(),
            d.mappings_live() + e.mappings_live(),
            lives(d) + lives(e),
            stats.live_bytes,
            stats.returning_bytes + stats.cached_bytes,
            stats.pinned_bytes,
            stats.staging_bytes,
        ]
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(files) = self.files.get() {
            files.close().unwrap();
        }
    }
}

fn path() -> PathBuf {
    let number = PATHS.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("rig-model-{}-{number}", std::process::id()))
}

/// The bytes that operations move: three pieces.
pub(crate) const BIG: u64 = 2 * HALF + 1_000;

const HALF: u64 = 8_192;

static PATHS: AtomicU64 = AtomicU64::new(0);
