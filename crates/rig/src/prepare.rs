//! Prepared work: parts and the buffers they name, checked once, submitted many times (S8.1, S8.2).
//!
//! Fixed buffers are named here and kept alive; run buffers come with each submission. Changing a
//! caller's lists later changes nothing. A builder belongs to one thread; what it builds may be
//! used by any.

use crate::allocation::owner::{Keep, Made, Owner};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::{Access, Native, Op, Part, Queue, Refusal, Span};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, Result};
use crate::hand::{Fixed, Special, Touch, merge};
use crate::kernel::{Kernel, Loaded};
use crate::life;
use crate::tick;
use std::sync::Arc;

/// A buffer that a part names.
#[derive(Clone, Debug)]
pub enum Named {
    /// This one, kept alive by the prepared submission.
    Fixed(Buffer),
    /// The one that each submission gives at this index.
    Run(usize),
}

/// Names the run buffer that each submission gives at `index`.
pub fn run(index: usize) -> Named {
    Named::Run(index)
}

impl From<&Buffer> for Named {
    fn from(buffer: &Buffer) -> Self {
        Self::Fixed(buffer.clone())
    }
}

/// Work being put together for a device; see [`Device::prepare`]. What is wrong with it is told by
/// [`Builder::build`].
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::memory::function;
///
/// let device = rig::memory::open("builder of work example")?;
/// let add = device.kernel(function("add", |call| {
///     let amount = call.args()[0];
///     call.update::<u8>(0, |bytes| bytes.iter_mut().for_each(|byte| *byte += amount));
/// }))?;
/// let [x, y] = [device.create_buffer(4)?, device.create_buffer(4)?];
///
/// // Buffers of a launch follow it, in the order that its code takes them.
/// let work = device
///     .prepare()
///     .label("step")
///     .fill(&x, 1)
///     .launch(&add, [1, 1, 1])
///     .writes(&x)
///     .args(&[5])
///     .after(0)
///     .copy(&x, &y)
///     .after(1)
///     .build()?;
/// work.submit(&[], &[])?;
/// assert_eq!(y.read(|bytes| bytes[0])?, 6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder {
    device: Device,
    label: Option<Arc<str>>,
    drafts: Vec<Draft>,
    kernels: Vec<Kernel>,
    named: Vec<(Named, Access)>,
    wrong: Option<Misuse>,
}

#[derive(Debug)]
struct Draft {
    op: Op,
    queue: Option<usize>,
    after: Vec<usize>,
}

/// A prepared submission.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::run;
///
/// let device = rig::memory::open("prepared example")?;
/// let total = device.create_buffer(8)?;
///
/// // The buffer to copy from comes with each submission, the one to copy to is fixed.
/// let keep = device.prepare().copy(run(0), &total).build()?;
/// for byte in 1..=3 {
///     let batch = device.create_buffer(8)?;
///     batch.fill(byte)?;
///     keep.submit(&[&batch], &[])?; // The batch may be dropped at once: its memory waits.
/// }
/// assert_eq!(total.read(|bytes| bytes[0])?, 3);
/// assert_eq!(device.submitted(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) owner: Arc<Owner>,
    pub(crate) label: Option<Arc<str>>,
    /// What the driver made of it.
    pub(crate) keep: Keep,
    pub(crate) parts: Vec<Part>,
    pub(crate) slots: Vec<Slot>,
    /// The spans, where no run buffer is named.
    pub(crate) spans: Vec<Span>,
    /// The fixed buffers, each allocation once, and what the work does to each.
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) fixed: Vec<Fixed>,
    pub(crate) special: Special,
    /// The access of each run buffer, all parts together.
    pub(crate) runs: Vec<Access>,
    /// Keeps the kernels' code.
    pub(crate) _kernels: Vec<Arc<Loaded>>,
}

/// A span of the work: known, or a run buffer's.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    Fixed(Span),
    Run { index: usize, access: Access },
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let label = self.label.as_deref().unwrap_or("unnamed");
        write!(f, "{label}: {} parts on {}", self.parts.len(), self.owner.name)
    }
}

impl Device {
    /// Starts work for this device: parts, each with its buffers. Without parts a submission
    /// takes a value and stamps the buffers it names (S8.6).
    pub fn prepare(&self) -> Builder {
        Builder {
            device: self.clone(),
            label: None,
            drafts: Vec::new(),
            kernels: Vec::new(),
            named: Vec::new(),
            wrong: None,
        }
    }
}

impl Builder {
    /// Sets the label, under which profiles show the submissions.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Adds a launch over `groups` groups. Its buffers follow, in the order the kernel takes them,
    /// by [`Builder::reads`] and [`Builder::writes`].
    pub fn launch(mut self, kernel: &Kernel, groups: [u32; 3]) -> Self {
        let number = kernel.loaded.keep.number();
        let (args, buffers) = (Vec::new(), Vec::new());
        let op = Op::Launch { kernel: number, groups, args, args_span: None, buffers };
        self.kernels.push(kernel.clone());
        self.part(op)
    }

    /// Adds a copy of all of one buffer to another of the same length.
    pub fn copy(mut self, src: impl Into<Named>, dst: impl Into<Named>) -> Self {
        let src = self.name(src.into(), Access::Read);
        let dst = self.name(dst.into(), Access::Write);
        self.part(Op::Copy { src, dst })
    }

    /// Adds a fill of every byte of a buffer.
    pub fn fill(mut self, dst: impl Into<Named>, byte: u8) -> Self {
        let dst = self.name(dst.into(), Access::Write);
        self.part(Op::Fill { dst, byte })
    }

    /// Adds work in the driver's own form, over the buffers named before and after it.
    pub fn native(self, native: Native) -> Self {
        self.part(Op::Native(native))
    }

    /// Names a buffer that the last part reads; without a part, that the submission reads.
    pub fn reads(self, buffer: impl Into<Named>) -> Self {
        self.uses(buffer.into(), Access::Read)
    }

    /// Names a buffer that the last part writes, and may read; without a part, that the submission
    /// does.
    pub fn writes(self, buffer: impl Into<Named>) -> Self {
        self.uses(buffer.into(), Access::Write)
    }

    /// Sets the argument bytes of the last part, a launch, by value; at most 4,096.
    pub fn args(mut self, bytes: &[u8]) -> Self {
        match self.drafts.last_mut() {
            Some(Draft { op: Op::Launch { args, .. }, .. }) => *args = bytes.to_vec(),
            _ => self.lacks("args", "a launch"),
        }
        self
    }

    /// Sets the argument bytes of the last part, a launch, in memory that the host addresses; at
    /// most 4,096. They are read when the work runs.
    pub fn args_in(mut self, buffer: impl Into<Named>) -> Self {
        let index = self.name(buffer.into(), Access::Read);
        match self.drafts.last_mut() {
            Some(Draft { op: Op::Launch { args_span, .. }, .. }) => *args_span = Some(index),
            _ => self.lacks("args_in", "a launch"),
        }
        self
    }

    /// Sets the last part's queue; by default the first that runs such work.
    pub fn queue(mut self, queue: usize) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.queue = Some(queue),
            None => self.lacks("queue", "a part"),
        }
        self
    }

    /// Makes the last part follow an earlier one, by its number from 0. Parts that do not follow
    /// one another may run side by side.
    pub fn after(mut self, part: usize) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.after.push(part),
            None => self.lacks("after", "a part"),
        }
        self
    }

    fn part(mut self, op: Op) -> Self {
        self.drafts.push(Draft { op, queue: None, after: Vec::new() });
        self
    }

    /// Notes the first thing that was said of a part that is not there.
    fn lacks(&mut self, said: &'static str, of: &'static str) {
        self.wrong.get_or_insert(Misuse::NoPart { said, of });
    }

    fn uses(mut self, buffer: Named, access: Access) -> Self {
        let index = self.name(buffer, access);
        if let Some(Draft { op: Op::Launch { buffers, .. }, .. }) = self.drafts.last_mut() {
            buffers.push(index);
        }
        self
    }

    fn name(&mut self, buffer: Named, access: Access) -> usize {
        self.named.push((buffer, access));
        self.named.len() - 1
    }

    /// Checks the work and prepares it. Never waits for work.
    ///
    /// # Errors
    ///
    /// - `Misuse`: something said of a part that is not there, a part after one that is not before
    ///   it, a queue unknown or unfit, a buffer not on the device, read-only memory to be written,
    ///   a dead buffer, copies of two lengths or overlapping, launch arguments above 4,096 bytes or
    ///   not host-addressed, an index of a run buffer above 65,535, work that the driver rejects.
    /// - `Unsupported`: the host and devices of files take no submissions.
    /// - `Lost`: the device is lost, or the one whose memory a fixed buffer is.
    pub fn build(self) -> Result<Prepared> {
        entry::check(CALL)?;
        let owner = Arc::clone(&self.device.owner);
        if !owner.has_timeline() {
            return Err(Failed::unsupported(&owner.name, "this device takes no submissions").into());
        }
        if let Some(wrong) = &self.wrong {
            return wrong.clone().of(CALL);
        }
        if let Some(index) = self.run_indices().find(|index| *index >= RUNS_MAX) {
            let option = "the index of a run buffer";
            let given = Arc::from(index.to_string());
            return Misuse::Option { option, given, allowed: "0 to 65,535" }.of(CALL);
        }
        for kernel in &self.kernels {
            check_on(CALL, &owner, &kernel.loaded.owner)?;
        }
        for (buffer, _) in self.fixed() {
            check_on(CALL, &owner, buffer.device_owner())?;
        }
        for (index, draft) in self.drafts.iter().enumerate() {
            self.check_part(&owner, index, draft)?;
        }
        check_usable(CALL, self.fixed())?;
        life::check_lost(&owner)?;
        for (named, _) in &self.named {
            if let Named::Fixed(buffer) = named {
                buffer.check_devices()?;
            }
        }
        Ok(self.finish(owner)?)
    }

    fn run_indices(&self) -> impl Iterator<Item = usize> {
        self.named.iter().filter_map(|(named, _)| match named {
            Named::Run(index) => Some(*index),
            Named::Fixed(_) => None,
        })
    }

    /// Returns the buffers that are named here, with the access of the part that names each.
    fn fixed(&self) -> impl Iterator<Item = (&Buffer, Access)> + Clone {
        self.named.iter().filter_map(|(named, access)| match named {
            Named::Fixed(buffer) => Some((buffer, *access)),
            Named::Run(_) => None,
        })
    }

    fn check_part(&self, owner: &Owner, index: usize, draft: &Draft) -> Outcome<()> {
        if let Some(after) = draft.after.iter().find(|after| **after >= index) {
            return Misuse::After { part: index as u64, after: *after as u64 }.of(CALL);
        }
        let (work, runs) = work_of(&draft.op);
        let queues = &owner.facts.queues;
        if let Some(queue) = draft.queue
            && !queues.get(queue).is_some_and(runs)
        {
            return Misuse::Queue { queue: queue as u64, work }.of(CALL);
        }
        if !queues.iter().any(runs) {
            return Misuse::Queue { queue: 0, work }.of(CALL);
        }
        match &draft.op {
            Op::Copy { src, dst } => {
                let (Named::Fixed(src), Named::Fixed(dst)) =
                    (&self.named[*src].0, &self.named[*dst].0)
                else {
                    return Ok(());
                };
                check_copy(CALL, src, dst)
            }
            Op::Launch { args, args_span, .. } => {
                let in_memory = args_span.and_then(|index| match &self.named[index].0 {
                    Named::Fixed(buffer) => Some(buffer),
                    Named::Run(_) => None,
                });
                check_args(CALL, args, in_memory)
            }
            _ => Ok(()),
        }
    }

    fn finish(self, owner: Arc<Owner>) -> Outcome<Prepared> {
        let mut runs: Vec<Access> = Vec::new();
        let mut slots = Vec::new();
        for (named, access) in &self.named {
            slots.push(match named {
                Named::Fixed(buffer) => Slot::Fixed(span_of(buffer, *access)),
                Named::Run(index) => {
                    if *index >= runs.len() {
                        runs.resize(index + 1, Access::Read);
                    }
                    runs[*index] = runs[*index].max(*access);
                    Slot::Run { index: *index, access: *access }
                }
            });
        }
        let known = |slot: &Slot| match slot {
            Slot::Fixed(span) => Some(*span),
            Slot::Run { .. } => None,
        };
        let spans = slots.iter().filter_map(known).collect();
        let (mut buffers, mut fixed) = (Vec::new(), Vec::new());
        let code = self.kernels.iter().filter_map(|kernel| kernel.loaded.memory.as_ref());
        let all: Vec<_> = self.fixed().chain(code.map(|code| (code, Access::Read))).collect();
        for touch in merge(all.iter().map(|(b, access)| Touch { at: &b.at, access: *access })) {
            let same = |b: &&(&Buffer, Access)| std::ptr::eq(&*b.0.at, &**touch.at);
            if let Some((buffer, _)) = all.iter().find(same) {
                buffers.push((*buffer).clone());
                fixed.push(Fixed::new(touch));
            }
        }
        let queues = &owner.facts.queues;
        let parts: Vec<_> = self.drafts.into_iter().map(|draft| draft.into_part(queues)).collect();
        let prepared = life::InFlight::new(&owner)?.driver().prepare(&parts);
        let number = prepared.map_err(|refusal| match refusal {
            Refusal::Rejected(why) => Failed::misuse(CALL, Misuse::Rejected { why }),
            Refusal::Fault(fault) => life::fault(&owner, &fault),
        })?;
        let keep = Keep::new(&owner, Made::Prepared(number));
        tick::arm(&owner);
        let special = Special::of(&fixed);
        Ok(Prepared {
            inner: Arc::new(Inner {
                owner,
                label: self.label,
                keep,
                parts,
                slots,
                spans,
                buffers,
                fixed,
                special,
                runs,
                _kernels: self.kernels.into_iter().map(|kernel| kernel.loaded).collect(),
            }),
        })
    }
}

impl Draft {
    fn into_part(self, queues: &[Queue]) -> Part {
        let (_, runs) = work_of(&self.op);
        let first = queues.iter().position(runs).unwrap_or(0);
        Part { queue: self.queue.unwrap_or(first), after: self.after, op: self.op }
    }
}

/// Returns the name of an op's work, and whether a queue runs it.
fn work_of(op: &Op) -> (&'static str, fn(&Queue) -> bool) {
    match op {
        Op::Launch { .. } => ("launches", |queue| queue.launches),
        Op::Copy { .. } | Op::Load { .. } => ("copies", |queue| queue.copies),
        Op::Fill { .. } => ("fills", |queue| queue.fills),
        Op::Native(_) => ("native work", |_| true),
    }
}

/// Returns a buffer's bytes as the device it is on names them.
pub(crate) fn span_of(buffer: &Buffer, access: Access) -> Span {
    let (offset, len, is_last) = (buffer.offset(), buffer.len(), buffer.is_last());
    Span { region: buffer.region(), offset, len, access, is_last }
}

/// Checks that work can use its buffers: death first, then read-only memory (S0.3).
pub(crate) fn check_usable<'a>(
    call: &'static str,
    named: impl Iterator<Item = (&'a Buffer, Access)> + Clone,
) -> Outcome<()> {
    for (buffer, _) in named.clone() {
        buffer.check_live(call)?;
    }
    let mut written = named.filter(|(_, access)| *access == Access::Write);
    written.try_for_each(|(buffer, _)| buffer.check_writable(call))
}

/// Checks that a buffer, or code, is on the device that the work is for.
pub(crate) fn check_on(call: &'static str, owner: &Owner, found: &Owner) -> Outcome<()> {
    if owner.id == found.id {
        return Ok(());
    }
    let (found, wanted) = (Arc::clone(&found.name), Arc::clone(&owner.name));
    Misuse::WrongDevice { found, wanted }.of(call)
}

/// Checks the two sides of a copy part.
pub(crate) fn check_copy(call: &'static str, src: &Buffer, dst: &Buffer) -> Outcome<()> {
    if src.len() != dst.len() {
        let what = Misuse::LengthsDiffer { src_bytes: src.len(), dst_bytes: dst.len() };
        return what.of(call);
    }
    if src.overlaps(dst) {
        return Misuse::Overlap.of(call);
    }
    Ok(())
}

/// Checks the arguments of a launch: by value, and in memory.
pub(crate) fn check_args(
    call: &'static str,
    args: &[u8],
    in_memory: Option<&Buffer>,
) -> Outcome<()> {
    let bytes = (args.len() as u64).saturating_add(in_memory.map_or(0, Buffer::len));
    let addressed = in_memory.is_none_or(|buffer| buffer.at.is_addressed());
    if bytes > ARGS_MAX || !addressed {
        return Misuse::Arguments { bytes, bytes_max: ARGS_MAX }.of(call);
    }
    Ok(())
}

const CALL: &str = "prepare";
/// Above the greatest index of a run buffer.
const RUNS_MAX: usize = 1 << 16;
/// The most bytes of a launch's arguments.
const ARGS_MAX: u64 = 4_096;
