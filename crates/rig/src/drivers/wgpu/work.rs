//! The work of one value, made into commands.
//!
//! All of them are made before any is recorded or submitted, so work that is wrong leaves nothing
//! behind. One hand-over at a time does this; what it uses is its own.

use crate::driver::{Access, HandOver, Native, Op, Span, Work};
use crate::drivers::slab::Slab;
use crate::drivers::wgpu::args::{Args, Followed};
use crate::drivers::wgpu::commands::{Command, Commands, encoder};
use crate::drivers::wgpu::edge::{Edges, Encoding, Place, WORD};
use crate::drivers::wgpu::guarded::{Bad, Guarded};
use crate::drivers::wgpu::kernel::{Given, Kernel, Named};
use crate::drivers::wgpu::memory::Table;
use crate::sync::{MaybeSend, MaybeSync, Mutex};
use ::wgpu::{Buffer, BufferUsages, CommandBuffer, CommandEncoder, SubmissionIndex};
use std::any::Any;
use std::sync::Arc;

/// What encodes the work of a device.
#[derive(Debug)]
pub(crate) struct Encoder {
    edges: Edges,
    /// Guards the loaded kernels.
    pub(crate) kernels: Mutex<Slab<Kernel>>,
    /// Guards the arguments; only the hand-over in progress uses them.
    args: Mutex<Args>,
}

/// Whether the program may do something to the memory or the commands of this work that makes wgpu
/// refuse them later, or count on their place in the queue.
pub(crate) fn is_open(work: &Work<'_>, table: &Table) -> bool {
    let own = |part: &crate::driver::Part| matches!(part.op, Op::Native(_));
    let open = |span: &Span| table.find(span.region).is_some_and(|memory| memory.is_outside());
    work.parts.iter().any(own) || work.spans.iter().any(open)
}

/// Returns the usage that a buffer which the program brought lacks for this work. What its own
/// functions encode is wgpu's to judge.
pub(crate) fn lacks(work: &Work<'_>, table: &Table) -> Option<Arc<str>> {
    let span = |at: usize| work.spans.get(at).filter(|span| span.len > 0);
    let lacking = |at: usize, needed: BufferUsages| {
        let memory = table.find(span(at)?.region)?;
        let missing = needed - memory.own()?.usage();
        (!missing.is_empty()).then(|| Arc::from(format!("the wgpu::Buffer has no {missing:?}")))
    };
    // What no pass binds is a half, which takes whole words.
    let is_half =
        |at| span(at).and_then(|span| table.find(span.region)).is_some_and(|m| m.is_half());
    work.parts.iter().find_map(|part| match &part.op {
        Op::Copy { src, dst } => {
            let by_copy = is_whole(span(*src)) && is_whole(span(*dst));
            let by_pass = if by_copy { BufferUsages::empty() } else { BufferUsages::STORAGE };
            let odd = span(*src).is_some_and(|span| !span.offset.is_multiple_of(WORD));
            let from = if odd && is_half(*dst) { by_pass } else { BufferUsages::empty() };
            lacking(*src, from | BufferUsages::COPY_SRC)
                .or_else(|| lacking(*dst, by_pass | BufferUsages::COPY_DST))
        }
        Op::Fill { dst, byte: 0 } if is_whole(span(*dst)) => lacking(*dst, BufferUsages::COPY_DST),
        Op::Fill { dst, .. } => lacking(*dst, BufferUsages::STORAGE),
        Op::Launch { buffers, .. } => {
            buffers.iter().find_map(|at| lacking(*at, BufferUsages::STORAGE))
        }
        Op::Load { .. } | Op::Native(_) => None,
    })
}

/// Whether wgpu copies these bytes without a pass.
fn is_whole(span: Option<&Span>) -> bool {
    span.is_none_or(|span| span.offset.is_multiple_of(WORD) && span.len.is_multiple_of(WORD))
}

/// Makes native work of a function that encodes commands: passes, copies, anything.
///
/// It runs inside each submission, on the calling thread, with the submission's buffers in the
/// order in which they were named. What it encodes wrongly is `Misuse` of that submission, of which
/// nothing runs then. The buffers are lent to it for that submission alone (S4.16): what it keeps
/// of memory of the device's own may serve other buffers by then, and what it keeps of a borrow
/// ends, as if it were destroyed, with the last borrow. What it submits itself with that it tells
/// by [`Device::record_use`](crate::Device::record_use) while the borrow is there: nothing else
/// keeps the host's memory until such work is done.
pub fn encode(
    f: impl Fn(&mut CommandEncoder, &[Place]) + MaybeSend + MaybeSync + 'static,
) -> Native {
    Native(Arc::new(Encode(Box::new(f))))
}

/// A value's commands.
#[derive(Debug)]
pub(crate) enum Encoded {
    /// Those that may be recorded among others.
    Sure(Commands),
    /// Those that wgpu could have refused, finished.
    Alone(CommandBuffer),
}

/// A program's own encoding.
struct Encode(Box<dyn Encodes>);

impl Encode {
    /// Returns the function of native work, if it is one of these.
    fn of(native: &Native) -> Option<&Self> {
        let source: &dyn Any = &*native.0;
        source.downcast_ref()
    }
}

/// Encodes native work, which was found to be a function that does.
pub(crate) fn encode_native(native: &Native, encoder: &mut CommandEncoder, places: &[Place]) {
    if let Some(Encode(encode)) = Encode::of(native) {
        encode(encoder, places);
    }
}

trait Encodes: Fn(&mut CommandEncoder, &[Place]) + MaybeSend + MaybeSync {}
impl<T: Fn(&mut CommandEncoder, &[Place]) + MaybeSend + MaybeSync> Encodes for T {}

impl Encoder {
    pub(crate) fn new(guarded: &Guarded) -> Result<Self, Bad> {
        Ok(Self {
            edges: Edges::new(guarded)?,
            kernels: Mutex::new(Slab::new()),
            args: Mutex::new(Args::new(guarded)?),
        })
    }

    /// Makes a value's commands, with all that its submission needs room for, for a batch; none
    /// where it has no parts.
    pub(crate) fn encode(
        &self,
        work: &Work<'_>,
        table: &Table,
        guarded: &Guarded,
    ) -> Result<Option<Encoded>, Bad> {
        if work.parts.is_empty() {
            return Ok(None);
        }
        let mut args = self.args.lock();
        let before = args.mark();
        let made = guarded.scoped(|| {
            let commands = self.commands(work, table, &mut args, guarded)?;
            args.provide(Followed::Yes, guarded)?;
            Ok(match commands.is_sure() {
                true => Encoded::Sure(commands),
                false => Encoded::Alone(commands.finish(guarded)),
            })
        });
        // What a part said of itself is clearer than what wgpu made of it.
        let encoded = made.unwrap_or_else(Err);
        if encoded.is_err() {
            args.back_to(before);
        }
        encoded.map(Some)
    }

    /// Makes a value's commands and submits them. Nothing waits to be submitted before it.
    pub(crate) fn submit(
        &self,
        work: &Work<'_>,
        table: &Table,
        guarded: &Guarded,
    ) -> Result<SubmissionIndex, HandOver> {
        if work.parts.is_empty() {
            return guarded.submit(None);
        }
        // Unlocked before the submission itself, which runs a program's callbacks.
        let submitted = guarded.submit_made(|| {
            let mut args = self.args.lock();
            let commands = self.commands(work, table, &mut args, guarded)?;
            args.provide(Followed::No, guarded)?;
            Ok(recorded([Encoded::Sure(commands)], &mut args, guarded))
        });
        self.args.lock().clear();
        submitted
    }

    /// Submits values that were encoded before.
    pub(crate) fn submit_all(
        &self,
        values: Vec<Encoded>,
        guarded: &Guarded,
    ) -> Result<SubmissionIndex, HandOver> {
        guarded.submit_made(|| Ok(recorded(values, &mut self.args.lock(), guarded)))
    }

    fn commands(
        &self,
        work: &Work<'_>,
        table: &Table,
        args: &mut Args,
        guarded: &Guarded,
    ) -> Result<Commands, Bad> {
        let mut commands = Commands::default();
        let mut to = Encoding { guarded, commands: &mut commands, args };
        let mut parts = work.parts.iter();
        parts.try_for_each(|part| self.part(&part.op, work.spans, table, &mut to))?;
        commands.show(imported(work.spans, table));
        Ok(commands)
    }

    fn part(
        &self,
        op: &Op,
        spans: &[Span],
        table: &Table,
        to: &mut Encoding<'_>,
    ) -> Result<(), Bad> {
        let place = |at: usize, access| self.place(spans, at, access, table);
        match op {
            Op::Copy { src, dst } => {
                let (src, dst) = (place(*src, Access::Read)?, place(*dst, Access::Write)?);
                match src.len {
                    0 => Ok(()),
                    _ => self.edges.copy(&src, &dst, to),
                }
            }
            Op::Fill { dst, byte } => {
                let dst = place(*dst, Access::Write)?;
                match dst.len {
                    0 => Ok(()),
                    _ => self.edges.fill(&dst, *byte, to),
                }
            }
            Op::Launch { kernel, groups, args, args_span, buffers } => {
                let known = self.kernels.lock().get(*kernel).cloned();
                let kernel = known.ok_or_else(|| wrong("the kernel is not loaded"))?;
                let of = |at: &usize| {
                    let span = spans.get(*at).ok_or_else(|| wrong("there is no such span"))?;
                    let Span { access, is_last, .. } = *span;
                    Ok(Named { place: place(*at, access)?, access, is_last })
                };
                let buffers = buffers.iter().map(of).collect::<Result<Vec<_>, _>>()?;
                let args = match (args.is_empty(), args_span) {
                    (true, None) => None,
                    (true, Some(at)) => Some(place(*at, Access::Read)?),
                    (false, None) => Some(to.args.put(args, to.guarded)?),
                    (false, Some(_)) => {
                        return Err(wrong("arguments are given by value or in memory, not both"));
                    }
                };
                kernel.launch(&Given { groups: *groups, buffers: &buffers, args }, to)
            }
            Op::Native(native) => {
                if Encode::of(native).is_none() {
                    return Err(wrong("this device runs no such native work"));
                }
                let of = |at: usize| place(at, spans[at].access);
                let places = (0..spans.len()).map(of).collect::<Result<Vec<_>, _>>()?;
                // The program may keep what it is shown.
                let shown = spans.iter().filter_map(|span| table.find(span.region));
                shown.filter(|memory| memory.imported().is_some()).for_each(|m| m.set_lent());
                to.commands.push(Command::Own { native: native.clone(), places });
                Ok(())
            }
            Op::Load { .. } => Err(wrong("this device's code lies in no memory of rig's")),
        }
    }

    /// Returns a span's bytes as wgpu names them. An empty buffer, which has no memory, is none of
    /// the scratch buffer's.
    fn place(
        &self,
        spans: &[Span],
        at: usize,
        access: Access,
        table: &Table,
    ) -> Result<Place, Bad> {
        let span = spans.get(at).ok_or_else(|| wrong("there is no such span"))?;
        let memory = match table.find(span.region) {
            Some(memory) => memory,
            None if span.len == 0 => return Ok(self.edges.nothing()),
            None => return Err(wrong("a span's region is gone")),
        };
        let unready = || wrong("a half is used before it is ready");
        let buffer = memory.buffer(access).ok_or_else(unready)?;
        let end = span.offset.checked_add(span.len);
        if end.is_none_or(|end| end > buffer.size()) {
            return Err(wrong("a span ends past its region"));
        }
        Ok(Place { buffer, offset: span.offset, len: span.len })
    }
}

/// Records values behind the arguments that they use.
fn recorded(
    values: impl IntoIterator<Item = Encoded>,
    args: &mut Args,
    guarded: &Guarded,
) -> Vec<CommandBuffer> {
    let mut open = None;
    if !args.is_empty() {
        args.record(open.get_or_insert_with(|| encoder(guarded)));
    }
    let mut finished = Vec::new();
    for value in values {
        match value {
            Encoded::Sure(commands) => {
                commands.record(open.get_or_insert_with(|| encoder(guarded)));
            }
            Encoded::Alone(commands) => {
                finished.extend(open.take().map(CommandEncoder::finish));
                finished.push(commands);
            }
        }
    }
    finished.extend(open.map(CommandEncoder::finish));
    finished
}

/// Returns the host memory that work writes.
fn imported(spans: &[Span], table: &Table) -> Vec<Buffer> {
    let written = spans.iter().filter(|span| span.access == Access::Write);
    let found = written.filter_map(|span| table.find(span.region));
    found.filter_map(|memory| memory.imported().cloned()).collect()
}

fn wrong(why: &str) -> Bad {
    Bad::Wrong(Arc::from(why))
}
