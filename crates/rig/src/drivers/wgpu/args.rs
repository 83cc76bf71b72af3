//! Arguments of passes and launches, on their way to the device.
//!
//! They lie in pages, which every submission uses from their start: what a submission copies into a
//! page runs in queue order, behind whoever read it last. The first page stays; those of a
//! submission that needs more go with it. The memory that they are copied from is made before the
//! work is accepted, so that a submission finds no lack of room any more: wgpu's own `write_buffer`
//! ends a device that has none. The hand-over in progress alone uses them.

use crate::drivers::wgpu::edge::Place;
use crate::drivers::wgpu::guarded::{Bad, Guarded};
use ::wgpu::{Buffer, BufferUsages, CommandEncoder};

/// The arguments of what is to be submitted next.
#[derive(Debug)]
pub(crate) struct Args {
    pages: Vec<Page>,
    align: usize,
}

#[derive(Debug)]
struct Page {
    buffer: Buffer,
    bytes: Vec<u8>,
    /// What they are copied from, in this order.
    uploads: Vec<Buffer>,
}

/// Where arguments end, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pages: usize,
    last: usize,
}

/// Whether arguments of later values will come to lie behind these, before any are submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Followed {
    No,
    Yes,
}

impl Page {
    fn new(guarded: &Guarded) -> Result<Self, Bad> {
        let buffer = guarded.buffer("rig arguments", ARGS_BYTES as u64, ARGS_USAGES)?;
        Ok(Self { buffer, bytes: Vec::new(), uploads: Vec::new() })
    }

    fn provide(&mut self, least: usize, guarded: &Guarded) -> Result<(), Bad> {
        let covered: u64 = self.uploads.iter().map(Buffer::size).sum();
        let lacking = self.bytes.len() as u64 - covered.min(self.bytes.len() as u64);
        if lacking > 0 {
            self.uploads.push(guarded.mapped("rig arguments", lacking.max(least as u64))?);
        }
        Ok(())
    }
}

impl Args {
    pub(crate) fn new(guarded: &Guarded) -> Result<Self, Bad> {
        let limits = guarded.device.limits();
        let align = limits
            .min_uniform_buffer_offset_alignment
            .max(limits.min_storage_buffer_offset_alignment);
        let pages = vec![Page::new(guarded)?];
        Ok(Self { pages, align: align.max(16) as usize })
    }

    /// Puts arguments down, and answers where they will be.
    pub(crate) fn put(&mut self, bytes: &[u8], guarded: &Guarded) -> Result<Place, Bad> {
        let len = bytes.len().next_multiple_of(16);
        let has_room = |page: &Page| page.bytes.len() + len <= ARGS_BYTES;
        if !self.pages.last().is_some_and(has_room) {
            self.pages.push(Page::new(guarded)?);
        }
        let page = self.pages.last_mut().expect("there is a page by now");
        let start = page.bytes.len();
        page.bytes.extend_from_slice(bytes);
        page.bytes.resize((start + len).next_multiple_of(self.align).min(ARGS_BYTES), 0);
        Ok(Place { buffer: page.buffer.clone(), offset: start as u64, len: len as u64 })
    }

    /// Makes the memory that all of them are copied from, as far as it is not there.
    pub(crate) fn provide(&mut self, followed: Followed, guarded: &Guarded) -> Result<(), Bad> {
        let least = match followed {
            Followed::No => 0,
            Followed::Yes => UPLOAD_BYTES,
        };
        self.pages.iter_mut().try_for_each(|page| page.provide(least, guarded))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.iter().all(|page| page.bytes.is_empty())
    }

    /// Returns where they end now.
    pub(crate) fn mark(&self) -> Mark {
        let last = self.pages.last().map_or(0, |page| page.bytes.len());
        Mark { pages: self.pages.len(), last }
    }

    /// Forgets what was put down since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.pages.truncate(mark.pages);
        if let Some(page) = self.pages.last_mut() {
            page.bytes.truncate(mark.last);
            if page.bytes.is_empty() {
                page.uploads.clear();
            }
        }
    }

    /// Records the copies of all of them, ahead of what uses them, and forgets them. Their memory
    /// was provided.
    pub(crate) fn record(&mut self, encoder: &mut CommandEncoder) {
        for page in &mut self.pages {
            let mut at = 0;
            for upload in page.uploads.drain(..) {
                let len = (page.bytes.len() - at).min(upload.size() as usize);
                // A device that is lost maps nothing, and its submission says so.
                if let Ok(mut view) = upload.get_mapped_range_mut(..len as u64) {
                    view.copy_from_slice(&page.bytes[at..at + len]);
                }
                upload.unmap();
                encoder.copy_buffer_to_buffer(&upload, 0, &page.buffer, at as u64, len as u64);
                at += len;
            }
        }
        self.clear();
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.back_to(Mark { pages: 1, last: 0 });
    }
}

/// The bytes of a page.
pub(crate) const ARGS_BYTES: usize = 64 << 10;
/// The least that is provided where more is to come.
const UPLOAD_BYTES: usize = 16 << 10;
const ARGS_USAGES: BufferUsages =
    BufferUsages::UNIFORM.union(BufferUsages::STORAGE).union(BufferUsages::COPY_DST);
