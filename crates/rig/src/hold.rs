//! Holds: a program's value, kept until the submissions made with it are done (S8.9).
//!
//! A hold orders nothing. Its release runs once, in a drain, with no lock held and no stop of the
//! device beside it; a panic in it is caught and told to `tracing`. Any thread may use it.

use crate::allocation::owner::{Release, will_release};
use crate::entry;
use crate::sync::{AtomicU32, BoxOnce, MaybeSend, Mutex, Ordering};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Keeps a value until each submission that names it is done, or its device settled. Named after
/// that, it keeps nothing: work that comes later takes a hold of its own.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use std::sync::Arc;
///
/// let device = rig::memory::open("hold example")?;
/// let x = device.create_buffer(4)?;
/// let table = Arc::new([1_u8, 2, 3]); // Something that the work is to find in place.
/// let hold = rig::Hold::keep(Arc::clone(&table));
///
/// let fill = device.prepare().fill(&x, 1).build()?;
/// fill.submit_holding(&[], &[], &[&hold])?.wait()?;
/// device.create_buffer(4)?; // Any call that drains lets go of it.
/// assert_eq!(Arc::strong_count(&table), 1);
/// # Ok(())
/// # }
/// ```
pub struct Hold {
    kept: Arc<Kept>,
}

struct Kept {
    /// Submissions that named it and are not done.
    pending: AtomicU32,
    /// Guards the release, which is taken once. A leaf lock.
    release: Mutex<Option<BoxOnce>>,
}

impl Hold {
    /// Makes a hold that calls `release` once the submissions that name it are done; when it is
    /// dropped, if none named it.
    pub fn new(release: impl FnOnce() + MaybeSend + 'static) -> Self {
        will_release();
        let release: BoxOnce = Box::new(release);
        let release = Mutex::new(Some(release));
        Self { kept: Arc::new(Kept { pending: AtomicU32::new(0), release }) }
    }

    /// Makes a hold that keeps a value and drops it then.
    pub fn keep(value: impl MaybeSend + 'static) -> Self {
        Self::new(move || drop(value))
    }

    /// Returns what the end of a submission calls that names the hold.
    pub(crate) fn kept(&self) -> Arc<dyn Release> {
        Arc::clone(&self.kept) as Arc<dyn Release>
    }
}

impl Release for Kept {
    fn named(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    fn done(&self) {
        // ORDERING: the last submission's end sees what the others' ends did.
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.run();
        }
    }
}

impl Kept {
    fn run(&self) {
        let release = self.release.lock().take();
        let Some(release) = release else { return };
        let ran = AssertUnwindSafe(|| entry::inside("a hold's release", release));
        if std::panic::catch_unwind(ran).is_err() {
            tracing::error!("a hold's release panicked");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // ORDERING: as in `done`.
        if self.kept.pending.load(Ordering::Acquire) == 0 {
            self.kept.run();
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pending = self.kept.pending.load(Ordering::Relaxed);
        write!(f, "Hold({pending} submissions not done)")
    }
}
