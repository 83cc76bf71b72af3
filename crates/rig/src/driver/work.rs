//! Work as drivers take it: code, parts, spans and foreign points. Plain data.

use crate::driver::{Driver, Region};
use crate::sync::{MaybeSend, MaybeSync};
use crate::timeline::Access;
use std::any::Any;
use std::sync::Arc;

/// Code for [`Driver::load`], in a form that its driver knows.
#[derive(Clone)]
pub struct Code {
    /// The driver's own type.
    pub source: Arc<dyn CodeSource>,
    /// The entry point.
    pub entry: Arc<str>,
}

/// A driver's own type: code, an object, encoded work.
pub trait CodeSource: Any + MaybeSend + MaybeSync {}
impl<T: Any + MaybeSend + MaybeSync> CodeSource for T {}

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

/// Work in a form that its driver knows: a function that encodes commands; or
/// [`crate::bytes::HostBytes`], which a driver whose facts have `write_bytes` takes into the one
/// span before the hand-over returns.
#[derive(Clone)]
pub struct Native(pub Arc<dyn CodeSource>);

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Native")
    }
}

/// A range of a region, as work names it. One of 0 bytes may name no region, `Region::default()`.
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
    /// Whether what lies behind it in its region is nobody's.
    pub is_last: bool,
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
