//! Submissions: prepared work handed over as the next value (S8.3 to S8.6).
//!
//! Two threads may submit one prepared submission; each gets its value. A submission that does not
//! wait, of up to 32 spans, allocates nothing.

use crate::allocation::owner::Release;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::{Op, Span, Work};
use crate::entry;
use crate::error::{Misuse, Outcome, Result};
use crate::hand::{self, Fixed, Job, Touch, Touches, Use, hand_over, hand_over_now};
use crate::hold::Hold;
use crate::kernel::Kernel;
use crate::life;
use crate::prepare::{
    Builder, Named, Prepared, Slot, check_args, check_copy, check_on, check_usable, span_of,
};
use crate::timeline::{Access, Point};
use smallvec::SmallVec;
use std::sync::Arc;

impl Prepared {
    /// Returns the device.
    pub fn device(&self) -> Device {
        Device::of(&self.inner.owner)
    }

    /// Hands the work over and returns its point; does not wait for the work. `run` gives the run
    /// buffers, in their order; `waits` names further points that the work follows. Waits for
    /// points of other devices that the queue cannot wait for, for claims and for room.
    ///
    /// # Errors
    ///
    /// No value is taken then, no memory tainted and no run buffer kept.
    ///
    /// - `Misuse`: a wrong count of run buffers, a dead, foreign or read-only one, a wait point
    ///   that was not submitted, a running access of the host (`Busy`), work that the driver
    ///   rejects, or that never fits.
    /// - `Lost`: the device is lost, or what the work follows is.
    /// - `OutOfMemory`: the driver has no room for what it makes for the work, the memory of its
    ///   arguments above all, and three rounds of reclaim made none.
    pub async fn submit_async(&self, run: &[&Buffer], waits: &[Point]) -> Result<Point> {
        self.submit_holding_async(run, waits, &[]).await
    }

    /// Submits like [`Prepared::submit_async`], with holds that are kept until the work is done.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::submit_async`].
    pub async fn submit_holding_async(
        &self,
        run: &[&Buffer],
        waits: &[Point],
        holds: &[&Hold],
    ) -> Result<Point> {
        let inner = &*self.inner;
        self.check(run, waits)?;
        let releases = releases(holds);
        if run.is_empty() {
            return Ok(hand_over(&inner.owner, &self.fixed_job(waits, &releases)).await?);
        }
        let (spans, touches) = (self.spans(run), self.touches(run));
        let work = self.work(&spans);
        let (releases, label) = (&releases, inner.label.as_ref());
        let job = Job { waits, releases, label, ..Job::of(CALL, work, &touches) };
        Ok(hand_over(&inner.owner, &job).await?)
    }

    /// Submits without run buffers if that waits for nothing; answers none if it may.
    pub(crate) fn submit_now(&self, holds: &[&Hold]) -> Outcome<Option<Point>> {
        let inner = &*self.inner;
        let is_own = inner.fixed.is_empty() || inner.special.is_all_of(inner.owner.id);
        // The waiting form tells of a loss after a death (S0.3).
        if !(inner.runs.is_empty() && is_own) || inner.owner.track.is_lost() {
            return Ok(None);
        }
        entry::check(CALL)?;
        let done = match holds {
            [] => hand_over_now(&inner.owner, &self.fixed_job(&[], &[])),
            holds => hand_over_now(&inner.owner, &self.fixed_job(&[], &releases(holds))),
        };
        // It tells of a death before other memory's claims, too.
        if done.is_err() && inner.buffers.iter().any(|buffer| buffer.at.claims.is_dead()) {
            return Ok(None);
        }
        done
    }

    fn fixed_job<'a>(
        &'a self,
        waits: &'a [Point],
        releases: &'a [Arc<dyn Release>],
    ) -> Job<'a, Fixed> {
        let (work, touches) = (self.work(&self.inner.spans), &self.inner.fixed);
        let (special, label) = (self.inner.special, self.inner.label.as_ref());
        Job { call: CALL, work, touches, special, waits, releases, label }
    }

    fn work<'a>(&'a self, spans: &'a [Span]) -> Work<'a> {
        Work { prepared: Some(self.inner.keep.number()), parts: &self.inner.parts, spans }
    }

    fn spans(&self, run: &[&Buffer]) -> SmallVec<[Span; hand::INLINE]> {
        let span = |slot: &Slot| match *slot {
            Slot::Fixed(span) => span,
            Slot::Run { index, access } => span_of(run[index], access),
        };
        self.inner.slots.iter().map(span).collect()
    }

    fn touches<'a>(&'a self, run: &[&'a Buffer]) -> Touches<'a> {
        let fixed = self.inner.buffers.iter().zip(&self.inner.fixed);
        let fixed = fixed.map(|(buffer, fixed)| Touch { at: &buffer.at, access: fixed.access() });
        let given = run.iter().zip(&self.inner.runs);
        let given = given.map(|(buffer, access)| Touch { at: &buffer.at, access: *access });
        hand::merge(fixed.chain(given))
    }

    fn check(&self, run: &[&Buffer], waits: &[Point]) -> Outcome<()> {
        let inner = &*self.inner;
        entry::check(CALL)?;
        if run.len() != inner.runs.len() {
            let (given, named) = (run.len() as u64, inner.runs.len() as u64);
            return Misuse::RunBuffers { given, named }.of(CALL);
        }
        for point in waits {
            life::check_submitted(CALL, *point)?;
        }
        for buffer in run {
            check_on(CALL, &inner.owner, buffer.device_owner())?;
        }
        if !run.is_empty() {
            self.check_parts(run)?;
        }
        for fixed in &inner.buffers {
            fixed.check_live(CALL)?;
        }
        check_usable(CALL, run.iter().copied().zip(inner.runs.iter().copied()))?;
        life::check_lost(&inner.owner)?;
        for fixed in &inner.buffers {
            fixed.check_devices()?;
        }
        run.iter().try_for_each(|buffer| buffer.check_devices())
    }

    /// Checks the copies and arguments that name run buffers.
    fn check_parts(&self, run: &[&Buffer]) -> Outcome<()> {
        let inner = &*self.inner;
        let given = |slot: usize| match inner.slots[slot] {
            Slot::Run { index, .. } => Some(run[index]),
            Slot::Fixed(_) => None,
        };
        for part in &inner.parts {
            match &part.op {
                Op::Copy { src, dst } => match (given(*src), given(*dst)) {
                    (Some(src), Some(dst)) => check_copy(CALL, src, dst)?,
                    (Some(src), None) => self.check_against(src, *dst)?,
                    (None, Some(dst)) => self.check_against(dst, *src)?,
                    (None, None) => {}
                },
                Op::Launch { args, args_span: Some(slot), .. } => {
                    check_args(CALL, args, given(*slot))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks a run buffer of a copy against the fixed span on the other side.
    fn check_against(&self, run: &Buffer, slot: usize) -> Outcome<()> {
        let Slot::Fixed(span) = self.inner.slots[slot] else { return Ok(()) };
        if run.len() != span.len {
            let (src_bytes, dst_bytes) = match span.access {
                Access::Write => (run.len(), span.len),
                Access::Read => (span.len, run.len()),
            };
            return Misuse::LengthsDiffer { src_bytes, dst_bytes }.of(CALL);
        }
        // By allocation: dead memory may serve the run buffer by now, and is none of its own.
        let mut fixed = self.inner.buffers.iter();
        let one = fixed.any(|fixed| fixed.region() == span.region && fixed.same_memory(run));
        let meets =
            one && run.offset() < span.offset + span.len && span.offset < run.offset() + run.len();
        if meets { Misuse::Overlap.of(CALL) } else { Ok(()) }
    }
}

/// Returns what the holds of a submission release.
fn releases(holds: &[&Hold]) -> SmallVec<[Arc<dyn Release>; 2]> {
    let mut releases = SmallVec::new();
    // A loop, since collecting nothing costs a hundred instructions.
    for hold in holds {
        releases.push(hold.kept());
    }
    releases
}

/// One launch, put together and submitted at once.
#[derive(Debug)]
#[must_use]
pub struct Launch {
    builder: Builder,
}

impl Kernel {
    /// Starts one launch over `groups` groups. Its buffers follow in the order the kernel takes
    /// them.
    pub fn launch(&self, groups: [u32; 3]) -> Launch {
        Launch { builder: self.device().prepare().launch(self, groups) }
    }
}

impl Launch {
    /// Names a buffer that the launch reads.
    pub fn reads(self, buffer: impl Into<Named>) -> Self {
        Self { builder: self.builder.reads(buffer) }
    }

    /// Names a buffer that the launch writes, and may read.
    pub fn writes(self, buffer: impl Into<Named>) -> Self {
        Self { builder: self.builder.writes(buffer) }
    }

    /// Sets the argument bytes, by value; at most 4,096.
    pub fn args(self, bytes: &[u8]) -> Self {
        Self { builder: self.builder.args(bytes) }
    }

    /// Prepares and submits the launch, and waits as [`Prepared::submit_async`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`] and [`Prepared::submit_async`].
    pub async fn submit_async(self) -> Result<Point> {
        self.builder.build()?.submit_async(&[], &[]).await
    }
}

impl Device {
    /// Notes that work which the program itself put on the device's queue, just before, uses these
    /// buffers: an empty submission that stamps them (S8.6). Waits as [`Prepared::submit_async`]
    /// does.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`] and [`Prepared::submit_async`].
    pub async fn record_use_async(&self, reads: &[&Buffer], writes: &[&Buffer]) -> Result<Point> {
        let mut builder = self.prepare();
        for buffer in reads {
            builder = builder.reads(*buffer);
        }
        for buffer in writes {
            builder = builder.writes(*buffer);
        }
        builder.build()?.submit_async(&[], &[]).await
    }
}

const CALL: &str = "submit";
