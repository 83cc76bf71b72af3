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
//!    [`Driver::reached`] and drops of what the driver made (S9.6).
//! 5. [`Driver::stop`] comes once, with no other call in progress (S12.1).
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
//! | `bytes` | the pages | the pages | none | none, or while mapped | Pinned only | none | a knob |
//! | `begin_access`, `poll_access`, `end_access` | at once | at once | unused | `map_async`, `unmap` | at once | unused | a knob |
//! | `import_host` | unused | unused | none | external host memory | `cuMemHostRegister` | none | a knob |
//! | `import_peer` | none | none | none | none | peer access | none | a knob |
//! | `file` | none | none | itself | none | none | none | none |
//! | `load` | rejected | a function | rejected | a shader module | a module, bytes in device memory | a shader module, pending | a function, bytes by knob |
//! | `prepare` | unused | nothing | unused | pipelines, bind layouts | a graph or nothing | bind layouts | nothing |
//! | `room` | now | now | now | now | the stream's depth | now | a knob |
//! | `hand_over` | unused | runs the work | unused | encodes into the batch | launches on the stream | encodes, `queue.submit` | queues it |
//! | `commit` | unused | nothing | unused | `queue.submit` of the batch | nothing | fence copy, `mapAsync` | a log line |
//! | `reached` | 0 | last handed over | 0 | last poll's index | the pinned word, then health | last mapped fence | what ran |
//! | `wake_at` | unused | at once | unused | kept for `service` | kept for `service` | kept for the fence's promise | kept for the next run |
//! | `block` | unused | returns | unused | `poll(Wait)` on an index | `cuEventSynchronize` or a spin with sleeps | never called | runs the next work |
//! | `service` | nothing | nothing | nothing | `poll(Poll)`, wakes | reads the word, wakes | an empty submit every 4 ms | wakes |
//! | `health` | well | a panicked launch | well | the lost flag | `cuStreamQuery` | the lost flag | a knob |
//! | `stop`, `poll_stopped` | never | at once | at once | destroys what it made, waits for the queue | synchronizes, drops the context | destroys what it made | a knob |

use crate::bytes::HostBytes;
use crate::sync::{MaybeSend, MaybeSync};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

pub use crate::timeline::Access;

/// What a kind of hardware can do for the core. The module documentation holds the laws.
pub trait Driver: MaybeSend + MaybeSync + Any {
    /// Returns the driver's name: "memory", "wgpu", "cuda".
    fn kind(&self) -> &'static str;

    /// Returns the facts, which are fixed from the start.
    fn facts(&self) -> Facts;

    /// Allocates a region of `ask.bytes` bytes, a multiple of the grain and at least 1.
    fn alloc(&self, ask: Ask) -> Alloc;

    /// Answers a pending allocation: [`Alloc::Ready`] with the same region, refused, or a fault.
    /// A refused region is gone without a [`Driver::free`].
    fn poll_alloc(&self, region: Region, waker: &Waker) -> Poll<Alloc> {
        let _ = waker;
        Poll::Ready(Alloc::Ready(region))
    }

    /// Gives a region back.
    fn free(&self, region: Region);

    /// Returns where the host finds a region's bytes, on memory it always addresses.
    fn bytes(&self, region: Region) -> Option<HostBytes> {
        let _ = region;
        None
    }

    /// Returns the driver's own object for a region, for [`crate::Buffer::lend`].
    fn lend(&self, region: Region) -> Option<Lent>;

    /// Whether the program let go of a lent object; false where the platform cannot tell.
    fn let_go(&self, region: Region) -> bool {
        let _ = region;
        false
    }

    /// Starts mapping a region whole, for the host; again while it is mapped does nothing (S1.9).
    fn begin_access(&self, region: Region) -> Result<(), Fault> {
        let _ = region;
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

    /// Answers a pending load.
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

    /// Whether there is room for this work.
    fn room(&self, work: &Work<'_>) -> Room {
        let _ = work;
        Room::Now
    }

    /// Takes the work as `value`, the next one, after the points in `waits`.
    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver;

    /// Returns why a value's work was found wrong after it was taken (browsers only, S8.8).
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
    /// The most foreign points one submission can wait for; below 0 counts as 0.
    pub waits_max: i64,
    /// Whether a thread may block on this device.
    pub may_block: bool,
    /// How long the word may stand still under committed work, in milliseconds; none is for ever.
    pub hang_ms: Option<u64>,
    /// When the host addresses its memory.
    pub addressed: Addressed,
    /// The alignment host memory needs to be mapped; none if the device maps none.
    pub import_align_bytes: Option<u64>,
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
            largest_bytes: i64::MAX as u64,
            pinned: false,
            queues: Vec::new(),
            piece_bytes: 4 << 20,
            half_bytes: 4 << 20,
            waits_max: 0,
            may_block: true,
            hang_ms: None,
            addressed: Addressed::Always,
            import_align_bytes: None,
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

/// Code for [`Driver::load`], in a form that its driver knows.
#[derive(Clone)]
pub struct Code {
    /// The driver's own type.
    pub source: Arc<dyn CodeSource>,
    /// The entry point.
    pub entry: Arc<str>,
}

/// A driver's own type of code.
#[cfg(not(target_family = "wasm"))]
pub trait CodeSource: Any + Send + Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Any + Send + Sync> CodeSource for T {}

/// A driver's own type of code.
#[cfg(target_family = "wasm")]
pub trait CodeSource: Any {}
#[cfg(target_family = "wasm")]
impl<T: Any> CodeSource for T {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({})", self.entry)
    }
}

/// The driver's own object for lent memory: a `wgpu::Buffer`, a pointer.
#[derive(Clone)]
pub struct Lent(pub Arc<dyn CodeSource>);

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lent")
    }
}

/// One part of a submission. Spans are named by their index in [`Work::spans`].
#[derive(Clone, Debug)]
pub struct Part {
    /// The queue that runs it.
    pub queue: usize,
    /// The earlier parts that it follows.
    pub after: Vec<usize>,
    /// What it does.
    pub op: Op,
}

/// What a part does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Launches a kernel over `groups` groups.
    Launch {
        /// The kernel.
        kernel: u64,
        /// Groups in x, y and z.
        groups: [u32; 3],
        /// Argument bytes given by value.
        args: Vec<u8>,
        /// Argument bytes in memory the host addresses.
        args_span: Option<usize>,
        /// The buffers, in the order the kernel takes them.
        buffers: Vec<usize>,
    },
    /// Copies all of one span to another of the same length.
    Copy {
        /// From.
        src: usize,
        /// To.
        dst: usize,
    },
    /// Sets each byte of a span.
    Fill {
        /// The span.
        dst: usize,
        /// The byte.
        byte: u8,
    },
    /// Writes a kernel's code into device memory.
    Load {
        /// The kernel.
        kernel: u64,
        /// Where to.
        dst: usize,
    },
    /// Work in a form that the driver knows, over all spans of the submission.
    Native(Native),
}

/// Work in a form that its driver knows: a function that encodes commands.
#[derive(Clone)]
pub struct Native(pub Arc<dyn CodeSource>);

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Native")
    }
}

/// A range of a region, as work names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The region: the device's own, or one that an import answered.
    pub region: Region,
    /// Where the range starts.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// What the work does to it.
    pub access: Access,
}

/// The work of one value.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What [`Driver::prepare`] answered for these parts.
    pub prepared: Option<u64>,
    /// The parts; none for a value that only stamps (S8.6).
    pub parts: &'a [Part],
    /// The memory that the parts name.
    pub spans: &'a [Span],
}

/// A foreign point that a hand-over follows.
#[derive(Clone, Copy)]
pub struct Producer<'a> {
    /// The device that runs it.
    pub driver: &'a dyn Driver,
    /// Its value.
    pub value: u64,
}

impl std::fmt::Debug for Producer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.driver.kind(), self.value)
    }
}

/// What a device of files can do. Errors here concern one file and lose nothing (S1.11).
pub trait FileIo: MaybeSend + MaybeSync {
    /// Creates a file of `len` bytes, or cuts one that exists to that length.
    fn create(&self, path: &Path, len: u64) -> Result<Region, FileError>;

    /// Opens a file that exists; answers its length.
    fn open(&self, path: &Path, mode: FileMode) -> Result<(Region, u64), FileError>;

    /// Reads at an offset until `into` is full.
    fn read_at(&self, file: Region, offset: u64, into: &mut [u8]) -> Result<(), FileError>;

    /// Writes all of `from` at an offset.
    fn write_at(&self, file: Region, offset: u64, from: &[u8]) -> Result<(), FileError>;
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileMode {
    /// The buffer is read-only.
    ReadOnly,
    /// The buffer can be written.
    ReadWrite,
}

/// Why a file operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileError {
    /// This file cannot; the text is the system's.
    Failed(Arc<str>),
    /// The device is lost.
    Fault(Fault),
}
