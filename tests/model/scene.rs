//! Two scripted devices and a device of files, and what an operation of the failure walk has made.

use crate::operation::Operation;
use rig::{Buffer, Device, Kernel, Point, Prepared, file, host};
use rig_support::{Opened, Script, drain};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The devices that an operation runs on.
pub(crate) struct Scene {
    pub(crate) d: Opened,
    pub(crate) e: Opened,
    files: Device,
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
            files: file::open("walk files").unwrap(),
        }
    }

    /// Makes a file of its own, which is gone from its folder already.
    pub(crate) fn file(&self, len: u64) -> Buffer {
        let path = path();
        let buffer = self.files.create_file(&path, len).unwrap();
        std::fs::remove_file(path).unwrap();
        buffer
    }

    pub(crate) fn is_well(&self) -> bool {
        self.d.lost().is_none() && self.e.lost().is_none()
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
        drain(&self.files);
        drain(&host());
        host().free_cache().unwrap();
        self.d.control.check();
        self.e.control.check();
    }

    /// Returns what is left: regions and mappings of both devices, and the host's bytes.
    pub(crate) fn left(&self) -> [u64; 7] {
        let stats = host().stats();
        let (d, e) = (&self.d.control, &self.e.control);
        let lives =
            |control: &rig_support::Control| control.prepared_live() + control.kernels_live();
        [
            d.regions_live() + e.regions_live(),
            d.mappings_live() + e.mappings_live(),
            lives(d) + lives(e),
            stats.live_bytes,
            stats.returning_bytes + stats.cached_bytes,
            stats.pinned_bytes,
            stats.staging_bytes,
        ]
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
