//! The trait that every kind of hardware implements, and its laws.
//!
//! A driver knows memory and work; it knows no stamps, claims, budgets, caches or losses. The core
//! calls it with no lock held, from any thread, never from a drop and never from a completion
//! callback. A driver answers with three words only: *refused* (no room), *rejected* (this work is
//! wrong, nothing ran) and a [`Fault`] (the device is lost). Only the core turns a fault into a
//! loss.
//!
//! # Laws
//!
//! 1. Values are handed over in order, one caller at a time. A value's work begins when all
//!    earlier values of the device are complete (S2.5).
//! 2. [`Driver::reached`] never falls, and answers a value only once its work and all before it
//!    are complete, their writes are visible, and the driver was found well *after* it saw that
//!    (S2.9).
//! 3. A refused or rejected call changed nothing.
//! 4. [`Driver::free`] and [`Driver::release`] come once for each region, and only once no work
//!    that uses it is left, or after the stop. After the stop nothing else comes but
//!    [`Driver::reached`], [`Driver::poll_stopped`], and drops of what the driver made:
//!    [`Driver::unload`], [`Driver::unprepare`] (S9.6).
//! 5. [`Driver::stop`] comes once, with no other call in progress (S12.1), nor one of another
//!    driver that is given this one.
//! 6. A waker given to a driver is woken at least once after the thing it waits for happened, or
//!    after the next [`Driver::service`] that finds it has.
//! 7. No method but [`Driver::block`] blocks for longer than the hardware makes it.
//!
//! # What each method is on each driver
//!
//! | method | host | memory | file | wgpu | CUDA | browser | scripted |
//! |---|---|---|---|---|---|---|---|
//! | `alloc` | zeroed pages | the same | refused: `FileIo` opens | `create_buffer` in an out-of-memory scope | `cuMemAlloc`, `cuMemHostAlloc` | `createBuffer`, pending until its scope answers | counted pages, knobs |
//! | `poll_alloc` | never pending | the same | the same | natively never | never | the scope's promise | a knob |
//! | `free` | unmaps | the same | closes the file | drops the buffer | `cuMemFree` | `destroy()` | counted, fails on a double |
//! | `bytes` | the pages | the pages | none | none | Pinned only | none | a knob |
//! | `poll_transfer` | unused | at once | unused | a buffer a way, in an out-of-memory scope | at once | at once: a buffer a way comes with its first use | a knob |
//! | `begin_access`, `poll_access`, `end_access` | at once | at once | unused | `map_async`, `unmap` | at once | `mapAsync`, `unmap`, of halves alone | a knob |
//! | `import_host` | unused | the bytes as they are | none | external host memory | `cuMemHostRegister` | none | a knob |
//! | `import_peer` | none | none | none | none | peer access | none | a knob |
//! | `file` | none | none | itself | none | none | none | none |
//! | `load` | rejected | a function | rejected | a shader module | a module, bytes in device memory | rejected: the page's half compiles | a function, bytes by knob |
//! | `prepare` | unused | nothing | unused | nothing | a graph or nothing | nothing | nothing |
//! | `lacks` | nothing | nothing | nothing | a usage | nothing | nothing: the page's half looks | nothing |
//! | `room` | now | now | now | now | the stream's depth | now | a knob |
//! | `hand_over` | unused | runs the work | unused | encodes, then `queue.submit`, or into the batch | launches on the stream | encodes, `queue.submit` | queues it |
//! | `commit` | unused | nothing | unused | `queue.submit` of the batch | nothing | nothing: a microtask ends with a fence | a log line |
//! | `reached` | 0 | last handed over | 0 | last poll's index | the pinned word, then health | last mapped fence | what ran |
//! | `wake_at` | unused | at once | unused | kept for `service` | kept for `service` | kept for the fence's promise | kept for the next run |
//! | `block` | unused | returns | unused | `poll(Wait)` on an index | `cuEventSynchronize` or a spin with sleeps | never called | runs the next work |
//! | `service` | nothing | nothing | nothing | `poll(Poll)`, wakes, submits an old batch | reads the word, wakes | an empty submit every 4 ms | wakes |
//! | `health` | well | a panicked launch | well | the lost flag | `cuStreamQuery` | the lost flag | a knob |
//! | `stop`, `poll_stopped` | never | at once | at once | waits for the queue | synchronizes, drops the context | destroys a device that it opened | a knob |

mod facts;
mod files;
mod work;

use crate::bytes::HostBytes;
use crate::sync::{MaybeSend, MaybeSync};
use std::any::Any;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

pub(crate) use crate::driver::files::HAS_FILES;

pub use crate::driver::facts::{Addressed, Facts, Queue};
pub use crate::driver::files::{FileError, FileIo, FileMode};
pub use crate::driver::work::{Code, CodeSource, Lent, Native, Op, Part, Producer, Span, Work};
pub use crate::timeline::Access;

/// What a kind of hardware can do for the core. The module documentation holds the laws.
pub trait Driver: MaybeSend + MaybeSync + Any {
    /// Returns the driver's name: "memory", "wgpu", "cuda".
    fn kind(&self) -> &'static str;

    /// Returns the facts, which are fixed from the start.
    fn facts(&self) -> Facts;

    /// Allocates a region of `ask.len_bytes` bytes, a multiple of the grain and at least 1.
    fn alloc(&self, ask: Ask) -> Alloc;

    /// Answers a pending allocation: [`Alloc::Ready`] with the same region, refused, or a fault.
    /// A refused region is gone without a [`Driver::free`].
    fn poll_alloc(&self, region: Region, waker: &Waker) -> Poll<Alloc> {
        let _ = waker;
        Poll::Ready(Alloc::Ready(region))
    }

    /// Gives a region back, one whose verdict is pending too.
    fn free(&self, region: Region);

    /// Returns where the host finds a region's bytes, on memory it always addresses.
    fn bytes(&self, region: Region) -> Option<HostBytes> {
        let _ = region;
        None
    }

    /// Returns the driver's own object for a region, for [`crate::Buffer::lend`].
    fn lend(&self, region: Region) -> Option<Lent>;

    /// Whether the program let go of a lent object, or keeps it alive by itself from now on, so
    /// that the driver's part may go; false where the platform cannot tell. The region is freed
    /// next.
    fn let_go(&self, region: Region) -> bool {
        let _ = region;
        false
    }

    /// Makes sure that Transfer memory can be accessed so by the host: written on the way to the
    /// device, or read on the way back. It comes before the first map and the first work of each
    /// way, so that a driver can make the memory of a way when it is first needed (S7.6). A refusal
    /// leaves the region as it was.
    fn poll_transfer(&self, region: Region, access: Access, waker: &Waker) -> Poll<Alloc> {
        let _ = (access, waker);
        Poll::Ready(Alloc::Ready(region))
    }

    /// Starts mapping a region whole, for the host; again while it is mapped does nothing (S1.9).
    /// `access` says what the host is about to do, which Transfer memory may hang on: mapped to be
    /// written it need not show the device's bytes, and mapped to be read it takes none. Other
    /// memory is mapped once for all accesses together.
    fn begin_access(&self, region: Region, access: Access) -> Result<(), Fault> {
        let _ = (region, access);
        Ok(())
    }

    /// Answers where the host finds the bytes once the region is mapped.
    fn poll_access(&self, region: Region, waker: &Waker) -> Poll<Result<HostBytes, Fault>> {
        let _ = (region, waker);
        Poll::Ready(Err(Fault::new("this driver maps nothing")))
    }

    /// Ends or cancels the map; again does nothing.
    fn end_access(&self, region: Region) {
        let _ = region;
    }

    /// Maps host memory for the device. The bytes stay until [`Driver::release`].
    fn import_host(&self, bytes: HostBytes) -> Import {
        let _ = bytes;
        Import::None
    }

    /// Maps a region of another device of the same driver for this one.
    fn import_peer(&self, peer: &dyn Driver, region: Region) -> Import {
        let _ = (peer, region);
        Import::None
    }

    /// Ends a mapping made by an import.
    fn release(&self, mapped: Region) {
        let _ = mapped;
    }

    /// Returns the file operations, on a device whose buffers are files.
    fn file(&self) -> Option<&dyn FileIo> {
        None
    }

    /// Loads code.
    fn load(&self, code: &Code) -> Load;

    /// Answers a pending load. The kernel is unloaded whatever the answer is.
    fn poll_load(&self, kernel: u64, waker: &Waker) -> Poll<Load> {
        let _ = waker;
        Poll::Ready(Load::Ready { kernel, code_bytes: 0 })
    }

    /// Drops loaded code; no work that uses it is left.
    fn unload(&self, kernel: u64) {
        let _ = kernel;
    }

    /// Prepares parts for many hand-overs; answers a number for [`Work::prepared`].
    fn prepare(&self, parts: &[Part]) -> Result<u64, Refusal> {
        let _ = parts;
        Ok(0)
    }

    /// Drops what [`Driver::prepare`] made.
    fn unprepare(&self, prepared: u64) {
        let _ = prepared;
    }

    /// Whether this device's queues can wait for points of `producer` (S8.3).
    fn understands(&self, producer: &dyn Driver) -> bool {
        let _ = producer;
        false
    }

    /// Returns what memory that the program brought lacks for this work, if it lacks something
    /// (S4.4). Asked of work that names such memory, before anything is waited for.
    fn lacks(&self, work: &Work<'_>) -> Option<Arc<str>> {
        let _ = work;
        None
    }

    /// Whether there is room for this work.
    fn room(&self, work: &Work<'_>) -> Room {
        let _ = work;
        Room::Now
    }

    /// Takes the work as `value`, the next one, after the points in `waits`.
    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver;

    /// Returns why a value's work was found wrong after it was taken (browsers only, S8.8). Asked
    /// only where the facts say that this may be.
    fn rejected(&self, value: u64) -> Option<Arc<str>> {
        let _ = value;
        None
    }

    /// Makes sure that the work up to `value` will run without any further call (S2.6).
    fn commit(&self, value: u64) -> Result<(), Fault> {
        let _ = value;
        Ok(())
    }

    /// Returns the last value reached (S2.4, S2.9). Never waits.
    fn reached(&self) -> Result<u64, Fault>;

    /// Keeps a waker until `value` is reached, or the next stop.
    fn wake_at(&self, value: u64, waker: &Waker) {
        let _ = value;
        waker.wake_by_ref();
    }

    /// Blocks until `value` may be reached, for `at_most` at most; it may return early.
    fn block(&self, value: u64, at_most: Duration) -> Result<(), Fault> {
        let _ = (value, at_most);
        Ok(())
    }

    /// Does what has to be done from time to time, and says when it wants to be called again;
    /// none while no waker is kept and nothing is under way.
    fn service(&self) -> Result<Option<Duration>, Fault> {
        Ok(None)
    }

    /// Returns whether the device is well.
    fn health(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Starts the stop: nothing more runs, and what runs comes to an end.
    fn stop(&self);

    /// Answers the last value that completed, once nothing of the device runs any more. A pending
    /// answer wakes the waker, or is asked again by [`Driver::service`].
    fn poll_stopped(&self, waker: &Waker) -> Poll<Stopped>;
}

/// What a stop came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// Nothing runs any more: the device settles (S2.8).
    Settled,
    /// The stop is over, and work may still touch memory: the device never settles.
    Unsettled,
}

/// A device's memory, in two words that only its driver can read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Region(pub u64, pub u64);

/// What device memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(not(rig_loom), derive(serde::Serialize))]
pub enum Kind {
    /// The device's own memory.
    #[default]
    Device,
    /// Page-locked host memory that host and device both address (S10.7).
    Pinned,
    /// Memory a device copies through, where it maps no host memory (S7.7). Only the core asks
    /// for it.
    Transfer,
}

/// What [`Driver::alloc`] is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// What the memory is for.
    pub kind: Kind,
    /// Its bytes.
    pub len_bytes: u64,
    /// Whether it has to start on a page and own whole pages (host memory).
    pub paged: bool,
}

/// The answer to an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Alloc {
    /// There it is.
    Ready(Region),
    /// The verdict comes later, by [`Driver::poll_alloc`]; the region can be used meanwhile.
    Pending(Region),
    /// No room.
    Refused,
    /// The device is lost.
    Fault(Fault),
}

/// The answer to an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Import {
    /// The memory as the device sees it.
    Mapped(Region),
    /// This memory cannot be mapped; nothing happened.
    None,
    /// The device is lost.
    Fault(Fault),
}

/// The answer to a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Load {
    /// Loaded. Above 0, `code_bytes` of device memory are needed, filled by [`Op::Load`].
    Ready {
        /// The kernel's number.
        kernel: u64,
        /// The device memory the code needs.
        code_bytes: u64,
    },
    /// The verdict comes later, by [`Driver::poll_load`].
    Pending(u64),
    /// The code is wrong, or this device runs none.
    Rejected(Arc<str>),
    /// The device is lost.
    Fault(Fault),
}

/// Why work cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The work is wrong; nothing ran.
    Rejected(Arc<str>),
    /// The device is lost.
    Fault(Fault),
}

/// The answer to a hand-over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandOver {
    /// The work is the driver's now.
    Done,
    /// No room for what the driver has to make for the work, such as memory for its arguments;
    /// nothing ran and the value stays free.
    Refused {
        /// The bytes there was no room for.
        asked_bytes: u64,
    },
    /// The work is wrong; nothing ran and the value stays free.
    Rejected(Arc<str>),
    /// The device is lost; whether the work ran is unknown.
    Fault(Fault),
}

/// Whether there is room for work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Now.
    Now,
    /// Once one more value is reached.
    Later,
    /// Never.
    Never,
}

/// Why a device ended, in the driver's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(pub Arc<str>);

impl Fault {
    /// Makes a fault with its reason.
    pub fn new(why: impl AsRef<str>) -> Self {
        Self(Arc::from(why.as_ref()))
    }
}
