//! What can go wrong, as values.
//!
//! Four variants, because a caller can do four things: make room, reopen, take another path, fix
//! the call. Errors are cheap to clone and keep no buffer alive (S0.1). Any thread may hold one.

use crate::report::{Piece, Report, put};
use std::fmt;
use std::sync::Arc;

pub(crate) use crate::report::text;

/// The result of a call of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of a function in here, or of a call of an embedder: it is told upwards through many,
/// so its error is one word.
pub type Outcome<T> = std::result::Result<T, Failed>;

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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// There was no room within the budget, or the driver had none, after every round.
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
    Lost {
        /// The device lost.
        device: Arc<str>,
        /// The first reason, which is kept.
        why: Arc<str>,
    },
    /// This device, driver or platform cannot do what was asked; another path is needed.
    Unsupported {
        /// The device asked.
        device: Arc<str>,
        /// What is missing, with its numbers.
        why: Arc<str>,
    },
    /// The call was wrong, and changed nothing.
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

/// An error on its way to the caller of a public function, who gets it by value; an embedder passes
/// it on.
#[derive(Clone, Debug)]
pub struct Failed(Box<Error>);

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
    pub fn misuse(call: &'static str, what: Misuse) -> Self {
        Self::from(Error::Misuse { call, what })
    }

    /// Makes it the error of the call that the program made, if a mistake is what went wrong.
    #[cold]
    #[inline(never)]
    pub fn renamed(mut self, of: &'static str) -> Self {
        if let Error::Misuse { call, .. } = &mut *self.0 {
            *call = of;
        }
        self
    }

    /// Whether a device's loss is what went wrong.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(*self.0, Error::Lost { .. })
    }
}

impl std::ops::Deref for Failed {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.0
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// The call came from a place that may only drop and ask facts (S0.5).
    Reentrant {
        /// The place.
        inside: &'static str,
    },
    /// A range ends past its end, or overflows.
    OutOfRange {
        /// Where the range ends; `u64::MAX` where that overflows.
        end_bytes: u64,
        /// The bytes there are.
        len_bytes: u64,
    },
    /// The buffer's bytes are gone.
    Dead {
        /// What ended it.
        why: Arc<str>,
    },
    /// The memory must not be written.
    ReadOnly,
    /// A claim, or a call that moves these bytes, stands in the way.
    Busy,
    /// The name belongs to a device of another driver.
    NameTaken {
        /// The driver of the device that has the name.
        driver: &'static str,
    },
    /// The value has not been assigned.
    NotSubmitted {
        /// The value asked for.
        value: u64,
        /// The last value assigned.
        submitted: u64,
    },
    /// The buffer is not memory of this device, nor a borrow on it.
    WrongDevice {
        /// The device the buffer is on.
        found: Arc<str>,
        /// The device the call is for.
        wanted: Arc<str>,
    },
    /// A copy's two sides differ in length.
    LengthsDiffer {
        /// The source's bytes.
        src_bytes: u64,
        /// The destination's bytes.
        dst_bytes: u64,
    },
    /// A copy's two sides share a byte.
    Overlap,
    /// The bytes do not start at a multiple of the type's alignment.
    Misaligned {
        /// The remainder.
        offset_bytes: u64,
        /// The alignment.
        align_bytes: u64,
    },
    /// The bytes are not a whole number of elements.
    PartialElement {
        /// The bytes there are.
        len_bytes: u64,
        /// The bytes of one element.
        element_bytes: u64,
    },
    /// The host cannot be closed.
    HostClose,
    /// A number that has to be above 0 is 0.
    Zero {
        /// The number.
        what: &'static str,
    },
    /// Something was said of a part that is not there.
    NoPart {
        /// What was said.
        said: &'static str,
        /// What it is said of.
        of: &'static str,
    },
    /// A part comes after one that is not before it.
    After {
        /// The part.
        part: u64,
        /// The part it was said to follow.
        after: u64,
    },
    /// A queue that the device does not have, or that does not run this work.
    Queue {
        /// The queue.
        queue: u64,
        /// The work.
        work: &'static str,
    },
    /// Too few or too many run buffers.
    RunBuffers {
        /// Buffers given.
        given: u64,
        /// Buffers that `prepare` named.
        named: u64,
    },
    /// Launch arguments that no launch can take.
    Arguments {
        /// The bytes given.
        bytes: u64,
        /// The most bytes.
        bytes_max: u64,
    },
    /// Work that the device never has room for.
    TooLarge,
    /// The driver found the work wrong; nothing ran.
    Rejected {
        /// What the driver says.
        why: Arc<str>,
    },
    /// The buffer is not claimed by this object.
    NotClaimed,
    /// The buffer covers only part of its allocation.
    NotSpanning {
        /// The buffer's bytes.
        len_bytes: u64,
        /// The allocation's bytes.
        allocation_bytes: u64,
    },
    /// The claims were released.
    ClaimsEnded,
    /// A donation shares bytes with another donation or with a read.
    DonationOverlaps,
    /// The call would have to wait, and this form never does.
    WouldWait {
        /// What for.
        what: Arc<str>,
    },
    /// An option with a value outside its range.
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

/// Waits for what a public function comes to.
pub(crate) async fn public<T>(outcome: impl Future<Output = Outcome<T>>) -> Result<T> {
    Ok(outcome.await?)
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

impl Piece for &Error {
    fn put(self, text: &mut String) {
        match self {
            Error::OutOfMemory { device, asked_bytes, held_bytes, budget_bytes, report } => {
                put!(text, "out of memory on ", device, ": ", asked_bytes, " bytes asked, ");
                put!(text, held_bytes, " ");
                if *budget_bytes < u64::MAX {
                    put!(text, "of ", budget_bytes, " ");
                }
                put!(text, "held", hint(report));
            }
            Error::Lost { device, why } => put!(text, "device ", device, " is lost: ", why),
            Error::Unsupported { device, why } => {
                put!(text, device, " does not support this: ", why);
            }
            Error::Misuse { call, what } => put!(text, "misuse of ", call, ": ", what),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text!(self))
    }
}

impl std::error::Error for Error {}

impl Piece for &Misuse {
    fn put(self, text: &mut String) {
        match self {
            Misuse::Reentrant { inside } => put!(text, "called from inside ", inside),
            Misuse::OutOfRange { end_bytes, len_bytes } => {
                put!(text, "the range ends at ", end_bytes, " of ", len_bytes, " bytes")
            }
            Misuse::Dead { why } => put!(text, "the buffer is dead: ", why),
            Misuse::ReadOnly => put!(text, "the buffer is read-only"),
            Misuse::Busy => put!(text, "the memory is claimed or being moved"),
            Misuse::NameTaken { driver } => {
                put!(text, "the name is taken by a ", driver, " device")
            }
            Misuse::NotSubmitted { value, submitted } => {
                put!(text, "value ", value, " was not submitted yet, the last is ", submitted)
            }
            Misuse::WrongDevice { found, wanted } => {
                put!(text, "the buffer is on ", found, ", not on ", wanted)
            }
            Misuse::LengthsDiffer { src_bytes, dst_bytes } => {
                put!(text, "the source has ", src_bytes, " bytes, the destination ", dst_bytes)
            }
            Misuse::Overlap => put!(text, "source and destination overlap"),
            Misuse::Misaligned { offset_bytes, align_bytes } => {
                put!(text, "the bytes start ", offset_bytes, " past a multiple of ", align_bytes)
            }
            Misuse::PartialElement { len_bytes, element_bytes } => {
                put!(text, len_bytes, " bytes are not a whole number of elements of ");
                put!(text, element_bytes)
            }
            Misuse::HostClose => put!(text, "the host cannot be closed"),
            Misuse::Zero { what } => put!(text, what, " must not be 0"),
            Misuse::NoPart { said, of } => {
                put!(text, said, " comes behind ", of, ", and there is none")
            }
            Misuse::After { part, after } => {
                put!(text, "part ", part, " cannot come after part ", after)
            }
            Misuse::Queue { queue, work } => put!(text, "queue ", queue, " does not run ", work),
            Misuse::RunBuffers { given, named } => {
                put!(text, given, " run buffers given, ", named, " named")
            }
            Misuse::Arguments { bytes, bytes_max } => {
                put!(text, bytes, " bytes of launch arguments, at most ", bytes_max);
                put!(text, " in memory the host addresses")
            }
            Misuse::TooLarge => put!(text, "the work never fits the device's queue"),
            Misuse::Rejected { why } => put!(text, "the driver rejected the work: ", why),
            Misuse::NotClaimed => put!(text, "the buffer is not claimed exclusively here"),
            Misuse::NotSpanning { len_bytes, allocation_bytes } => {
                put!(text, "the buffer covers ", len_bytes, " of its allocation's ");
                put!(text, allocation_bytes, " bytes")
            }
            Misuse::ClaimsEnded => put!(text, "the claims have ended"),
            Misuse::DonationOverlaps => {
                put!(text, "a donation overlaps another donation or a read")
            }
            Misuse::WouldWait { what } => put!(text, "the call would have to wait for ", what),
            Misuse::Option { option, given, allowed } => {
                put!(text, option, " is ", given, ", which is not ", allowed)
            }
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text!(self))
    }
}

impl std::error::Error for Misuse {}

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
