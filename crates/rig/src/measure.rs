//! Measures of a piece of a program: the memory that it asked for, and its time (S11.4, S11.5).
//!
//! What other threads ask for meanwhile counts too, as the counters are of devices. Any thread may
//! measure, also inside a measure; nothing is held meanwhile.

use crate::life::{self, Usages};
use crate::report::time_line;
use crate::sync::now_ns;

/// Runs an expression and answers the bytes requested meanwhile on all devices but the host, frees
/// not subtracted (S11.4). The expression's value is dropped.
///
/// # Examples
///
/// ```
/// let device = rig::memory::open("allocated example")?;
/// let bytes = rig::allocated!({
///     device.create_buffer(1_000)?;
///     device.create_buffer(24)?
/// });
/// assert!(bytes >= 1_024); // Other threads may have asked for more.
/// # Ok::<(), rig::Error>(())
/// ```
#[macro_export]
macro_rules! allocated {
    ($piece:expr $(,)?) => {{
        let measure = $crate::Measure::start();
        let _ = $piece;
        measure.allocated_bytes()
    }};
}

/// Runs an expression, prints the time it took, and what it requested on the host and on devices
/// (S11.5), and answers its value.
///
/// # Examples
///
/// ```
/// let device = rig::memory::open("time example")?;
/// let buffer = rig::time!(device.create_buffer(1 << 20)?);
/// // Prints such as: 0.000031 seconds (1 device allocation: 1 MiB, 83.87% rig time ..)
/// assert_eq!(buffer.len(), 1 << 20);
/// # Ok::<(), rig::Error>(())
/// ```
#[macro_export]
macro_rules! time {
    ($piece:expr $(,)?) => {{
        let measure = $crate::Measure::start();
        let value = $piece;
        println!("{}", measure.line());
        value
    }};
}

/// What [`allocated!`] and [`time!`] look at before and after.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    started_ns: u64,
    before: Usages,
}

impl Measure {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { before: life::usages(), started_ns: now_ns() }
    }

    /// Returns the bytes requested since on all devices but the host.
    pub fn allocated_bytes(self) -> u64 {
        life::usages().devices.since(self.before.devices).bytes
    }

    /// Returns the line about what happened since.
    pub fn line(self) -> String {
        let wall_ns = now_ns().saturating_sub(self.started_ns);
        let now = life::usages();
        let (host, devices) =
            (now.host.since(self.before.host), now.devices.since(self.before.devices));
        time_line(wall_ns, host, devices)
    }
}
