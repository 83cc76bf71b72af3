//! Copies and fills of any bytes at any offset (S6.7).
//!
//! WebGPU copies whole words between different buffers. The rest goes through the rows of a texture
//! where that is the better way, for few bytes above all, else through a small compute pass, which
//! makes whole words of the destination and keeps the bytes around: the words at the edges of a
//! copy whose ends agree modulo 4, and the whole of one whose ends do not. What such a pass cannot
//! bind, the buffers of a half and a source within the destination's own buffer, goes through a
//! scratch buffer first. All of it is encoded in the order it has to run in; one hand-over at a
//! time uses the scratch buffer, and queue order keeps the next one behind.

use crate::drivers::wgpu::args::{ARGS_BYTES, Args};
use crate::drivers::wgpu::commands::{Command, Commands};
use crate::drivers::wgpu::guarded::{Bad, Guarded};
use crate::drivers::wgpu::memory::made;
use crate::drivers::wgpu::rows::{self, Rows};
use ::wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindingResource, Buffer, BufferBinding,
    BufferUsages, ComputePipeline, ComputePipelineDescriptor, ShaderModule, ShaderModuleDescriptor,
    ShaderSource,
};
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

/// Bytes of rig's as wgpu names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The buffer.
    pub buffer: Buffer,
    /// Where the bytes start in it.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

impl Place {
    /// Returns a part of these bytes.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Self {
        Self { buffer: self.buffer.clone(), offset: self.offset + offset, len }
    }

    fn can_bind(&self) -> bool {
        self.buffer.usage().contains(BufferUsages::STORAGE)
    }

    /// The words that these bytes are part of.
    fn words(&self) -> Self {
        let start = self.offset / WORD * WORD;
        let end = (self.offset + self.len).next_multiple_of(WORD).min(self.buffer.size());
        Self { buffer: self.buffer.clone(), offset: start, len: end - start }
    }
}

/// The passes of a device, made when first needed.
#[derive(Debug)]
pub(crate) struct Edges {
    move_bytes: OnceLock<Pass>,
    move_words: OnceLock<Pass>,
    fill_bytes: OnceLock<Pass>,
    fill_words: OnceLock<Pass>,
    scratch: Buffer,
    rows: Option<Rows>,
    /// The multiple that a binding starts at.
    align: u64,
    /// The most bytes that one dispatch works on.
    stretch: u64,
}

/// What a pass does with the bytes of its destination.
#[derive(Clone, Copy)]
enum Job<'a> {
    /// Takes them from there.
    Move(&'a Place),
    /// Sets each to this.
    Fill(u8),
}

/// Which words of its destination a pass makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// All, and it keeps the bytes of them that are not the destination's.
    All,
    /// The first and the last, in the same way.
    Ends,
    /// Those between, which are the destination's alone.
    Whole,
}

#[derive(Clone, Debug)]
struct Pass {
    label: Arc<str>,
    pipeline: ComputePipeline,
    layout: BindGroupLayout,
}

/// What one part's commands are added to.
pub(crate) struct Encoding<'a> {
    pub(crate) guarded: &'a Guarded,
    pub(crate) commands: &'a mut Commands,
    pub(crate) args: &'a mut Args,
}

impl Edges {
    pub(crate) fn new(guarded: &Guarded) -> Result<Self, Bad> {
        let usages = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let scratch = guarded.buffer("rig scratch", SCRATCH_LEN, usages)?;
        let limits = guarded.device.limits();
        let align = u64::from(limits.min_storage_buffer_offset_alignment).max(WORD);
        let bound = limits.max_storage_buffer_binding_size.saturating_sub(2 * align);
        Ok(Self {
            move_bytes: OnceLock::new(),
            move_words: OnceLock::new(),
            fill_bytes: OnceLock::new(),
            fill_words: OnceLock::new(),
            scratch,
            rows: Rows::of(guarded),
            align,
            stretch: bound.min(STRETCH_MAX) / WORD * WORD,
        })
    }

    /// Returns a place of no bytes.
    pub(crate) fn nothing(&self) -> Place {
        Place { buffer: self.scratch.clone(), offset: 0, len: 0 }
    }

    /// Copies between places of one length.
    pub(crate) fn copy(&self, src: &Place, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        let (len, odd) = (src.len, src.offset % WORD != dst.offset % WORD);
        if odd && let Some(rows) = self.rows_for(len) {
            return rows.moves(src, dst, to);
        }
        if src.buffer == dst.buffer {
            return self.through_scratch(src, dst, to);
        }
        let whole = !dst.can_bind() && dst.offset.is_multiple_of(WORD);
        if whole && src.offset.is_multiple_of(WORD) {
            // What lies behind the bytes in a half is nobody's.
            let words = src.words().len;
            let (src, dst) = (src.clone(), dst.clone());
            to.commands.push(Command::Copy { src: Place { len: words, ..src }, dst });
            return Ok(());
        }
        if whole && src.can_bind() {
            return self.to_half(src, dst, to);
        }
        if !dst.can_bind() {
            return Err(Bad::Wrong(Arc::from("a copy to memory that no pass can write")));
        }
        let head = dst.offset.wrapping_neg() % WORD;
        if odd || len < head + WORD {
            return self.moved(src, dst, to);
        }
        let (head, middle, tail) = parted(dst);
        let (from, into) = (src.part(head, middle), dst.part(head, middle));
        to.commands.push(Command::Copy { src: from, dst: into });
        if head + tail == 0 {
            return Ok(());
        }
        if let Some(rows) = self.rows_for(head + tail) {
            let part = |at, len| (src.part(at, len), dst.part(at, len));
            let ends = [part(0, head), part(head + middle, tail)];
            return rows.moves_together(&ends, to);
        }
        if src.can_bind() && len <= self.stretch {
            return self.dispatch(Job::Move(src), dst, Which::Ends, to);
        }
        if head > 0 {
            self.moved(&src.part(0, head), &dst.part(0, head), to)?;
        }
        if tail > 0 {
            let at = head + middle;
            self.moved(&src.part(at, tail), &dst.part(at, tail), to)?;
        }
        Ok(())
    }

    /// Sets every byte of a place.
    pub(crate) fn fill(&self, dst: &Place, byte: u8, to: &mut Encoding<'_>) -> Result<(), Bad> {
        if byte == 0 && is_whole(dst) {
            to.commands.push(Command::Clear(dst.clone()));
            return Ok(());
        }
        self.stretches(dst.len, |at, len| self.pass(Job::Fill(byte), &dst.part(at, len), to))
    }

    /// Moves bytes by the pass, from wherever they are.
    fn moved(&self, src: &Place, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        if let Some(rows) = self.rows_for(src.len) {
            return rows.moves(src, dst, to);
        }
        if !src.can_bind() {
            return self.through_scratch(src, dst, to);
        }
        self.stretches(src.len, |at, len| {
            self.pass(Job::Move(&src.part(at, len)), &dst.part(at, len), to)
        })
    }

    /// Copies the words around the bytes into the scratch buffer, and moves the bytes from there.
    fn through_scratch(&self, src: &Place, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        let scratch = &self.scratch;
        self.pieces(src.len, |at, len| {
            let (part, into) = (src.part(at, len), dst.part(at, len));
            let words = part.words();
            let at = words.offset;
            let dst = Place { buffer: scratch.clone(), offset: 0, len: words.len };
            to.commands.push(Command::Copy { src: words, dst });
            let staged = Place { buffer: scratch.clone(), offset: part.offset - at, len };
            self.copy(&staged, &into, to)
        })
    }

    /// Moves the bytes to the scratch buffer's start, and copies its words to a half.
    fn to_half(&self, src: &Place, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        let scratch = &self.scratch;
        self.pieces(src.len, |at, len| {
            let staged = Place { buffer: scratch.clone(), offset: 0, len };
            self.moved(&src.part(at, len), &staged, to)?;
            self.copy(&staged, &dst.part(at, len), to)
        })
    }

    fn rows_for(&self, len: u64) -> Option<&Rows> {
        self.rows.as_ref().filter(|rows| rows.suits(len))
    }

    fn stretches(
        &self,
        len: u64,
        mut f: impl FnMut(u64, u64) -> Result<(), Bad>,
    ) -> Result<(), Bad> {
        let starts = (0..len).step_by(usize::try_from(self.stretch).unwrap_or(usize::MAX));
        starts.into_iter().try_for_each(|at| f(at, self.stretch.min(len - at)))
    }

    fn pieces(&self, len: u64, mut f: impl FnMut(u64, u64) -> Result<(), Bad>) -> Result<(), Bad> {
        let starts = (0..len).step_by(SCRATCH_BYTES as usize);
        starts.into_iter().try_for_each(|at| f(at, SCRATCH_BYTES.min(len - at)))
    }

    /// Encodes a pass over a stretch.
    fn pass(&self, job: Job<'_>, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        if dst.len < SPLIT_BYTES {
            return self.dispatch(job, dst, Which::All, to);
        }
        self.dispatch(job, dst, Which::Whole, to)?;
        let (head, middle, tail) = parted(dst);
        if head + tail == 0 {
            return Ok(());
        }
        let copied = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        match (job, self.rows_for(head + tail)) {
            // The words that were filled just now have the bytes of the ends.
            (Job::Fill(_), Some(rows)) if dst.buffer.usage().contains(copied) => {
                let from = |len| dst.part(head, len);
                let ends =
                    [(from(head), dst.part(0, head)), (from(tail), dst.part(head + middle, tail))];
                rows.moves_together(&ends, to)
            }
            _ => self.dispatch(job, dst, Which::Ends, to),
        }
    }

    /// Encodes one dispatch.
    fn dispatch(
        &self,
        job: Job<'_>,
        dst: &Place,
        which: Which,
        to: &mut Encoding<'_>,
    ) -> Result<(), Bad> {
        let (src, byte) = match job {
            Job::Move(src) => (Some(src), 0),
            Job::Fill(byte) => (None, byte),
        };
        let (cell, entry) = match (job, which) {
            (Job::Move(_), Which::Whole) => (&self.move_words, "move_words"),
            (Job::Move(_), _) => (&self.move_bytes, "move_bytes"),
            (Job::Fill(_), Which::Whole) => (&self.fill_words, "fill_words"),
            (Job::Fill(_), _) => (&self.fill_bytes, "fill_bytes"),
        };
        let pass = made(cell, || pass(to.guarded, entry))?;
        let (words, target_at) = self.bind(dst);
        let (source, source_at) = src.map(|src| self.bind(src)).unzip();
        let len = in_stretch(dst.len);
        let count = (target_at % 4 + len).div_ceil(4);
        let (count, skip) = match which {
            Which::Ends => (2, count - 2),
            Which::All | Which::Whole => (count, 0),
        };
        let value = u32::from_ne_bytes([byte; 4]);
        let args = [source_at.unwrap_or(0), target_at, len, value, skip];
        let args = to.args.put(bytemuck::cast_slice(&args), to.guarded)?;
        let entry = |binding, resource| BindGroupEntry { binding, resource };
        let mut entries = vec![
            entry(0, BindingResource::Buffer(words)),
            entry(1, BindingResource::Buffer(bound(&args))),
        ];
        entries.extend(source.map(|source| entry(2, BindingResource::Buffer(source))));
        let ask = BindGroupDescriptor { label: None, layout: &pass.layout, entries: &entries };
        let group = to.guarded.device.create_bind_group(&ask);
        to.commands.push(Command::Pass {
            label: Arc::clone(&pass.label),
            pipeline: pass.pipeline.clone(),
            group: Some(group),
            counts: [count.div_ceil(GROUP), 1, 1],
        });
        Ok(())
    }

    /// Returns a binding around a place, and where in it the place starts.
    fn bind<'a>(&self, place: &'a Place) -> (BufferBinding<'a>, u32) {
        let offset = place.offset / self.align * self.align;
        let words = place.words();
        let size = NonZeroU64::new(words.offset + words.len - offset);
        let binding = BufferBinding { buffer: &place.buffer, offset, size };
        (binding, in_stretch(place.offset - offset))
    }
}

/// Returns the binding of a place that starts where a binding may.
pub(crate) fn bound(place: &Place) -> BufferBinding<'_> {
    let size = NonZeroU64::new(place.len);
    BufferBinding { buffer: &place.buffer, offset: place.offset, size }
}

/// Returns how many bytes lie before the whole words of a place, in them, and behind. It has one.
fn parted(place: &Place) -> (u64, u64, u64) {
    let head = place.offset.wrapping_neg() % WORD;
    let tail = (place.len - head) % WORD;
    (head, place.len - head - tail, tail)
}

/// Whether the bytes of a place are whole words.
fn is_whole(place: &Place) -> bool {
    place.offset.is_multiple_of(WORD) && place.len.is_multiple_of(WORD)
}

fn in_stretch(bytes: u64) -> u32 {
    u32::try_from(bytes).expect("a stretch has fewer than 2^32 bytes")
}

fn pass(guarded: &Guarded, entry: &str) -> Result<Pass, Bad> {
    guarded.scoped(|| {
        let device = &guarded.device;
        let source = ShaderSource::Wgsl(
            concat!(include_str!("edge.wgsl"), include_str!("words.wgsl")).into(),
        );
        let module: ShaderModule =
            device.create_shader_module(ShaderModuleDescriptor { label: Some(entry), source });
        let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(entry),
            layout: None,
            module: &module,
            entry_point: Some(entry),
            compilation_options: Default::default(),
            cache: None,
        });
        let layout = pipeline.get_bind_group_layout(0);
        Pass { label: Arc::from(entry), pipeline, layout }
    })
}

/// The unit of WebGPU's own copies.
pub(crate) const WORD: u64 = 4;
/// The invocations of a workgroup of the passes.
const GROUP: u32 = 256;
/// The most bytes one dispatch reaches: 65,535 groups of 256 words are just below 64 MiB.
const STRETCH_MAX: u64 = 32 << 20;
/// The least bytes whose whole words have a dispatch of their own, which reads none of them and
/// asks of none what belongs to it: on a software GPU, from here on that is worth more than a
/// dispatch costs.
const SPLIT_BYTES: u64 = 64 << 10;
const SCRATCH_BYTES: u64 = 1 << 20;
/// The words around the bytes come along.
const SCRATCH_LEN: u64 = SCRATCH_BYTES + 2 * WORD;
/// What a device's driver keeps for itself.
pub(crate) const INTERNAL_BYTES: u64 = SCRATCH_LEN + rows::BYTES + ARGS_BYTES as u64;
