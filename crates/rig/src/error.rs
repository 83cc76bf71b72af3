//! What can go wrong, as values.
//!
//! Four variants, because a caller can do four things: make room, reopen, take another path, fix
//! the call. Errors are cheap to clone and keep no buffer alive (S0.1). Any thread may hold one.

use crate::report::Report;
use std::fmt;
use std::sync::Arc;

/// The result of a call of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of a function in here: it is told upwards through many, so its error is one word.
pub(crate) type Outcome<T> = std::result::Result<T, Failed>;

/// Why a call failed. A failed call changed nothing, unless its documentation says so.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::{Error, Misuse};
///
/// let device = rig::memory::open("error example")?;
/// device.set_budget(1_024)?;
/// match device.create_buffer(4_096) {
///     Err(Error::OutOfMemory { asked_bytes, budget_bytes, report, .. }) => {
///         assert_eq!((asked_bytes, budget_bytes), (4_096, 1_024));
///         println!("{report}"); // What is held, by what, and what each round returned.
///     }
///     other => panic!("{other:?}"),
/// }
///
/// let misuse = device.create_buffer(4)?.view(2, 3);
/// let what = Misuse::OutOfRange { end_bytes: 5, len_bytes: 4 };
/// assert_eq!(misuse.unwrap_err().misuse(), Some(&what));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no room within the budget, or the driver had none, after every round.
    #[error(
        "out of memory on {device}: {asked_bytes} bytes asked, {held_bytes} {}held{}",
        OfBudget(*.budget_bytes),
        hint(.report)
    )]
    OutOfMemory {
        /// The device asked.
        device: Arc<str>,
        /// The bytes asked for.
        asked_bytes: u64,
        /// The bytes that the payer held.
        held_bytes: u64,
        /// The payer's budget.
        budget_bytes: u64,
        /// What each round returned, and why the rest could not be.
        report: Arc<Report>,
    },
    /// The device ended for good. A new one can be opened once its stop returned.
    #[error("device {device} is lost: {why}")]
    Lost {
        /// The device lost.
        device: Arc<str>,
        /// The first reason, which is kept.
        why: Arc<str>,
    },
    /// This device, driver or platform cannot do what was asked; another path is needed.
    #[error("{device} does not support this: {why}")]
    Unsupported {
        /// The device asked.
        device: Arc<str>,
        /// What is missing, with its numbers.
        why: Arc<str>,
    },
    /// The call was wrong, and changed nothing.
    #[error("misuse of {call}: {what}")]
    Misuse {
        /// The call.
        call: &'static str,
        /// What was wrong.
        what: Misuse,
    },
}

impl Error {
    /// Returns the variant's name, the same word as in JavaScript.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfMemory { .. } => "OutOfMemory",
            Self::Lost { .. } => "Lost",
            Self::Unsupported { .. } => "Unsupported",
            Self::Misuse { .. } => "Misuse",
        }
    }

    /// Returns what was wrong with the call, if that is what went wrong.
    pub fn misuse(&self) -> Option<&Misuse> {
        match self {
            Self::Misuse { what, .. } => Some(what),
            _ => None,
        }
    }
}

/// An error on its way to the caller of a public function, who gets it by value.
#[derive(Clone, Debug)]
pub(crate) struct Failed(Box<Error>);

impl Failed {
    /// Makes the error of a device that cannot do what was asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn unsupported(device: &str, why: &str) -> Self {
        Self::from(Error::Unsupported { device: Arc::from(device), why: Arc::from(why) })
    }

    /// Makes a mistake the error of `call`.
    #[cold]
    #[inline(never)]
    pub(crate) fn misuse(call: &'static str, what: Misuse) -> Self {
        Self::from(Error::Misuse { call, what })
    }

    /// Whether a device's loss is what went wrong.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(*self.0, Error::Lost { .. })
    }
}

impl From<Error> for Failed {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<Failed> for Error {
    #[cold]
    #[inline(never)]
    fn from(failed: Failed) -> Self {
        *failed.0
    }
}

/// What was wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// The call came from a place that may only drop and ask facts (S0.5).
    #[error("called from inside {inside}")]
    Reentrant {
        /// The place.
        inside: &'static str,
    },
    /// A range ends past its end, or overflows.
    #[error("the range ends at {end_bytes} of {len_bytes} bytes")]
    OutOfRange {
        /// Where the range ends; `u64::MAX` where that overflows.
        end_bytes: u64,
        /// The bytes there are.
        len_bytes: u64,
    },
    /// The buffer's bytes are gone.
    #[error("the buffer is dead: {why}")]
    Dead {
        /// What ended it.
        why: Arc<str>,
    },
    /// The memory must not be written.
    #[error("the buffer is read-only")]
    ReadOnly,
    /// A claim, or a call that moves these bytes, stands in the way.
    #[error("the memory is claimed or being moved")]
    Busy,
    /// The name belongs to a device of another driver.
    #[error("the name is taken by a {driver} device")]
    NameTaken {
        /// The driver of the device that has the name.
        driver: &'static str,
    },
    /// The value has not been assigned.
    #[error("value {value} was not submitted yet, the last is {submitted}")]
    NotSubmitted {
        /// The value asked for.
        value: u64,
        /// The last value assigned.
        submitted: u64,
    },
    /// The buffer is not memory of this device, nor a borrow on it.
    #[error("the buffer is on {found}, not on {wanted}")]
    WrongDevice {
        /// The device the buffer is on.
        found: Arc<str>,
        /// The device the call is for.
        wanted: Arc<str>,
    },
    /// A copy's two sides differ in length.
    #[error("the source has {src_bytes} bytes, the destination {dst_bytes}")]
    LengthsDiffer {
        /// The source's bytes.
        src_bytes: u64,
        /// The destination's bytes.
        dst_bytes: u64,
    },
    /// A copy's two sides share a byte.
    #[error("source and destination overlap")]
    Overlap,
    /// The bytes do not start at a multiple of the type's alignment.
    #[error("the bytes start {offset_bytes} past a multiple of {align_bytes}")]
    Misaligned {
        /// The remainder.
        offset_bytes: u64,
        /// The alignment.
        align_bytes: u64,
    },
    /// The bytes are not a whole number of elements.
    #[error("{len_bytes} bytes are not a whole number of elements of {element_bytes}")]
    PartialElement {
        /// The bytes there are.
        len_bytes: u64,
        /// The bytes of one element.
        element_bytes: u64,
    },
    /// The host cannot be closed.
    #[error("the host cannot be closed")]
    HostClose,
    /// A number that has to be above 0 is 0.
    #[error("{what} must not be 0")]
    Zero {
        /// The number.
        what: &'static str,
    },
    /// Something was said of a part that is not there.
    #[error("{said} comes behind {of}, and there is none")]
    NoPart {
        /// What was said.
        said: &'static str,
        /// What it is said of.
        of: &'static str,
    },
    /// A part comes after one that is not before it.
    #[error("part {part} cannot come after part {after}")]
    After {
        /// The part.
        part: u64,
        /// The part it was said to follow.
        after: u64,
    },
    /// A queue that the device does not have, or that does not run this work.
    #[error("queue {queue} does not run {work}")]
    Queue {
        /// The queue.
        queue: u64,
        /// The work.
        work: &'static str,
    },
    /// Too few or too many run buffers.
    #[error("{given} run buffers given, {named} named")]
    RunBuffers {
        /// Buffers given.
        given: u64,
        /// Buffers that `prepare` named.
        named: u64,
    },
    /// Launch arguments that no launch can take.
    #[error("{bytes} bytes of launch arguments, at most {bytes_max} in memory the host addresses")]
    Arguments {
        /// The bytes given.
        bytes: u64,
        /// The most bytes.
        bytes_max: u64,
    },
    /// Work that the device never has room for.
    #[error("the work never fits the device's queue")]
    TooLarge,
    /// The driver found the work wrong; nothing ran.
    #[error("the driver rejected the work: {why}")]
    Rejected {
        /// What the driver says.
        why: Arc<str>,
    },
    /// The buffer is not claimed by this object.
    #[error("the buffer is not claimed exclusively here")]
    NotClaimed,
    /// The buffer covers only part of its allocation.
    #[error("the buffer covers {len_bytes} of its allocation's {allocation_bytes} bytes")]
    NotSpanning {
        /// The buffer's bytes.
        len_bytes: u64,
        /// The allocation's bytes.
        allocation_bytes: u64,
    },
    /// The claims were released.
    #[error("the claims have ended")]
    ClaimsEnded,
    /// A donation shares bytes with another donation or with a read.
    #[error("a donation overlaps another donation or a read")]
    DonationOverlaps,
    /// The call would have to wait, and this form never does.
    #[error("the call would have to wait for {what}")]
    WouldWait {
        /// What for.
        what: Arc<str>,
    },
    /// An option with a value outside its range.
    #[error("{option} is {given}, which is not {allowed}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given, as text.
        given: Arc<str>,
        /// The values allowed.
        allowed: &'static str,
    },
}

impl Misuse {
    /// Returns the variant's name, the same word as in JavaScript.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reentrant { .. } => "Reentrant",
            Self::OutOfRange { .. } => "OutOfRange",
            Self::Dead { .. } => "Dead",
            Self::ReadOnly => "ReadOnly",
            Self::Busy => "Busy",
            Self::NameTaken { .. } => "NameTaken",
            Self::NotSubmitted { .. } => "NotSubmitted",
            Self::WrongDevice { .. } => "WrongDevice",
            Self::LengthsDiffer { .. } => "LengthsDiffer",
            Self::Overlap => "Overlap",
            Self::Misaligned { .. } => "Misaligned",
            Self::PartialElement { .. } => "PartialElement",
            Self::HostClose => "HostClose",
            Self::Zero { .. } => "Zero",
            Self::NoPart { .. } => "NoPart",
            Self::After { .. } => "After",
            Self::Queue { .. } => "Queue",
            Self::RunBuffers { .. } => "RunBuffers",
            Self::Arguments { .. } => "Arguments",
            Self::TooLarge => "TooLarge",
            Self::Rejected { .. } => "Rejected",
            Self::NotClaimed => "NotClaimed",
            Self::NotSpanning { .. } => "NotSpanning",
            Self::ClaimsEnded => "ClaimsEnded",
            Self::DonationOverlaps => "DonationOverlaps",
            Self::WouldWait { .. } => "WouldWait",
            Self::Option { .. } => "Option",
        }
    }

    /// Makes this the error of `call`.
    pub(crate) fn of<T, E: From<Failed>>(self, call: &'static str) -> std::result::Result<T, E> {
        Err(E::from(Failed::misuse(call, self)))
    }
}

/// Checks that `offset..offset + len` lies within `len_bytes` (S0.4).
pub(crate) fn check_range(
    call: &'static str,
    offset: u64,
    len: u64,
    len_bytes: u64,
) -> Outcome<()> {
    let end_bytes = offset.saturating_add(len);
    if end_bytes > len_bytes || offset.checked_add(len).is_none() {
        return Misuse::OutOfRange { end_bytes, len_bytes }.of(call);
    }
    Ok(())
}

/// What a payer may hold, where it is bounded.
struct OfBudget(u64);

impl fmt::Display for OfBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { Ok(()) } else { write!(f, "of {} ", self.0) }
    }
}

fn hint(report: &Report) -> &'static str {
    if report.immediate { "; create_buffer reclaims before it fails" } else { "" }
}

#[cfg(test)]
mod tests {
    use crate::error::Misuse;
    use std::sync::Arc;

    #[test]
    fn s13_3_the_name_of_a_misuse_is_that_of_its_variant() {
        let wrong = [
            Misuse::Busy,
            Misuse::Dead { why: Arc::from("freed") },
            Misuse::OutOfRange { end_bytes: 5, len_bytes: 4 },
            Misuse::Option { option: "near_fit", given: Arc::from("0"), allowed: "1 or more" },
        ];
        for what in wrong {
            let shown = format!("{what:?}");
            assert_eq!(shown.split(' ').next(), Some(what.name()));
        }
    }
}
