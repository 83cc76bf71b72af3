//! Facts: what a device is, fixed when it opens (S1.7). Plain data.

use std::sync::Arc;

/// When the host addresses a device's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressed {
    /// Never; bytes go through staging.
    Never,
    /// While it is mapped, which the device has to allow each time (S1.9).
    WhileMapped,
    /// Always.
    Always,
}

/// What a device is, fixed when it opens (S1.7).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The hardware's name, for people.
    pub architecture: Arc<str>,
    /// The budget a device starts with; `u64::MAX` is unbounded (S1.13).
    pub default_budget_bytes: u64,
    /// What the driver keeps of the device's memory for itself, from the open to the stop, beside
    /// all that it hands out. Where the platform says what there is, the default budget is without
    /// it.
    pub internal_bytes: u64,
    /// The largest allocation.
    pub largest_bytes: u64,
    /// Whether there is Pinned memory.
    pub pinned: bool,
    /// The queues and the work each runs; none where there is no timeline (host, files).
    pub queues: Vec<Queue>,
    /// The most bytes of one piece of a staged copy.
    pub piece_bytes: u64,
    /// The bytes of one staging half (S7.5).
    pub half_bytes: u64,
    /// The most host bytes of whole grains that one hand-over takes as they are, without a half, in
    /// a [`crate::driver::Native`] (S7.6); any others come in pieces. 0 where it takes none.
    pub write_bytes: u64,
    /// The most foreign points one submission can wait for; below 0 counts as 0, and so does any
    /// number in a browser.
    pub waits_max: i64,
    /// Whether a thread may block on this device.
    pub may_block: bool,
    /// How long the word may stand still under committed work, in milliseconds; none is for ever,
    /// and so is any number in a browser.
    pub hang_ms: Option<u64>,
    /// When the host addresses its memory.
    pub addressed: Addressed,
    /// The alignment host memory needs to be mapped; none if the device maps none.
    pub import_align_bytes: Option<u64>,
    /// Whether a value's work may wait for a commit, or for a service, before it runs (S8.8).
    pub batches: bool,
    /// Whether a value's work may be found wrong after it was taken (S8.8).
    pub rejects_later: bool,
    /// The multiple that its bytes are allocated and copied in.
    pub grain_bytes: u64,
    /// The last value of the timeline before the first submission; 0 but in tests.
    pub first_value: u64,
}

impl Facts {
    /// Facts of memory that the host always addresses, with no queue and no bound.
    pub fn host(architecture: &str) -> Self {
        Self {
            architecture: Arc::from(architecture),
            default_budget_bytes: u64::MAX,
            internal_bytes: 0,
            largest_bytes: i64::MAX as u64,
            pinned: false,
            queues: Vec::new(),
            piece_bytes: 4 << 20,
            half_bytes: 4 << 20,
            write_bytes: 0,
            waits_max: 0,
            may_block: true,
            hang_ms: None,
            addressed: Addressed::Always,
            import_align_bytes: None,
            batches: false,
            rejects_later: false,
            grain_bytes: 1,
            first_value: 0,
        }
    }

    /// The copy queue: the first after the first queue that runs copies, else the first (S1.8).
    pub fn copy_queue(&self) -> Option<usize> {
        let later = self.queues.iter().skip(1).position(|queue| queue.copies).map(|at| at + 1);
        later.or_else(|| self.queues.first().is_some_and(|queue| queue.copies).then_some(0))
    }
}

/// The work that a queue runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Launches.
    pub launches: bool,
    /// Copies.
    pub copies: bool,
    /// Fills.
    pub fills: bool,
}

impl Queue {
    /// A queue that runs everything.
    pub const ALL: Self = Self { launches: true, copies: true, fills: true };
}
