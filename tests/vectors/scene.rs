//! The scene of the vectors: the host's buffer H, device d with its buffer X, and the first half.

use rig::driver::Facts;
use rig::{Buffer, Device, Kernel, Point, Prepared, Stamps, host};
use rig_support::{Call, Opened, Script, double};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of H and X.
pub(crate) const N: u64 = 262_144;

/// The floats of H and X.
pub(crate) const FLOATS: usize = 65_536;

/// Keeps other vectors away: their devices have the same names, and the host counts for all.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    /// Guards the names of devices and the host's counts, while one vector runs.
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device d and its buffers. Fields are dropped in this order, the device last.
pub(crate) struct Scene {
    /// A submission that doubles X in place; made once X is there.
    doubles: Option<Prepared>,
    kernel: Kernel,
    pub(crate) h: Option<Buffer>,
    pub(crate) x: Option<Buffer>,
    pub(crate) d: Opened,
    pub(crate) half_bytes: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// Opens d with halves that no other vector uses.
    pub(crate) fn new(script: impl FnOnce(Script) -> Script) -> Self {
        let alone = alone();
        let half_bytes = fresh_half_bytes();
        let d = script(Script::new("d").facts(|facts| set_half(facts, half_bytes))).open();
        let kernel = double(&d);
        Self { doubles: None, kernel, h: None, x: None, d, half_bytes, _alone: alone }
    }

    /// Opens another device that copies through the same halves.
    pub(crate) fn other(&self, script: Script) -> Opened {
        script.facts(|facts| set_half(facts, self.half_bytes)).open()
    }

    /// Creates H, as the vectors' first rows do.
    pub(crate) fn create_h(&mut self) {
        self.h = Some(host().create_buffer(N).unwrap());
    }

    /// Creates X.
    pub(crate) fn create_x(&mut self) {
        self.x = Some(self.d.create_buffer(N).unwrap());
    }

    /// The host stores a[i] = i into H.
    pub(crate) fn store(&self) {
        let count = |floats: &mut [f32]| {
            floats.iter_mut().enumerate().for_each(|(at, float)| *float = at as f32);
        };
        self.h().write_as::<f32, _>(count).unwrap();
    }

    /// Submits the launch that doubles X.
    pub(crate) fn double(&mut self) -> rig::Result<Point> {
        let x = self.x().clone();
        let launch = || self.d.prepare().launch(&self.kernel, [1; 3]).writes(&x).build();
        if self.doubles.is_none() {
            self.doubles = Some(launch()?);
        }
        self.doubles.as_ref().unwrap().submit(&[], &[])
    }

    /// Drops X, and what names it.
    pub(crate) fn drop_x(&mut self) {
        (self.doubles, self.x) = (None, None);
    }

    pub(crate) fn h(&self) -> &Buffer {
        self.h.as_ref().expect("H is created")
    }

    pub(crate) fn x(&self) -> &Buffer {
        self.x.as_ref().expect("X is created")
    }

    /// Returns the row: H, X, S0 and what is submitted. What is not there is empty.
    pub(crate) fn row(&self) -> [String; 4] {
        let cell_of = |buffer: &Option<Buffer>| buffer.as_ref().map(|buffer| buffer.stamps());
        let records = [cell_of(&self.h), cell_of(&self.x), self.d.half_stamps(0, 0)];
        let cells = records.map(|record| record.map_or_else(String::new, |at| cell(&at, &self.d)));
        let [h, x, half] = cells;
        [h, x, half, self.d.submitted().to_string()]
    }

    /// Returns how many calls of a kind came to d's driver.
    pub(crate) fn count(&self, call: Call) -> u64 {
        self.d.control.count(call)
    }
}

/// Returns the addresses of the host memory that a device mapped, in order.
pub(crate) fn mapped_by(device: &Opened) -> Vec<u64> {
    let calls = device.control.calls(Call::ImportHost);
    calls.iter().map(|entry| entry.region.1).collect()
}

/// Returns a record as the table writes it: `write; use by d`.
pub(crate) fn cell(stamps: &Stamps, device: &Device) -> String {
    let text = |point: Option<Point>| point.map_or_else(|| "-".into(), |point| point.to_string());
    format!("{}; {}", text(stamps.write), text(stamps.use_by(device)))
}

/// Returns where the host finds a buffer's bytes.
pub(crate) fn address(buffer: &Buffer) -> u64 {
    buffer.read(|bytes| bytes.as_ptr() as u64).unwrap()
}

/// Returns the last float of a buffer that the host addresses.
pub(crate) fn last_float(buffer: &Buffer) -> rig::Result<f32> {
    buffer.read_as::<f32, _>(|floats| floats[FLOATS - 1])
}

/// Returns a size of halves that nobody else uses, so that they are made anew.
pub(crate) fn fresh_half_bytes() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 20);
    NEXT.fetch_add(64 << 10, Ordering::Relaxed)
}

/// Sets the bytes of halves, and of pieces.
pub(crate) fn set_half(facts: &mut Facts, half_bytes: u64) {
    (facts.half_bytes, facts.piece_bytes) = (half_bytes, half_bytes);
}
