//! The driver over the page's GPU objects.
//!
//! Buffers, maps, fences and what was found wrong are kept in the page's half, by number; here is
//! what the library asks, and who waits. Every event of the page wakes all who wait on its device,
//! each of whom looks again. Values run in the order of the device's one queue, a submission each.
//! The word is raised by a mapped fence buffer alone, since work-done promises and error scopes
//! also resolve on a lost device (S13.12).

use crate::page::{self, About};
use rig::bytes::{HostBytes, InArray};
use rig::driver::{
    Access, Addressed, Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Kind, Lent, Load, Op,
    Producer, Queue, Region, Span, Stopped, Work,
};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The driver's name.
pub(crate) const KIND: &str = "web";

/// Commands that the page encoded, by number.
pub(crate) struct Commands(pub(crate) f64);

/// A GPU device of the page.
pub(crate) struct Web {
    gpu: u32,
    wakers: RefCell<Vec<Waker>>,
    /// What the page told last.
    told: Cell<Told>,
    /// The word when the stop began.
    stopped: Cell<Option<u64>>,
}

/// What the page tells of a GPU device with each event.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    /// The word.
    pub(crate) reached: u64,
    pub(crate) is_lost: bool,
    /// Whether some work was found wrong after it was taken.
    pub(crate) has_rejected: bool,
}

impl Web {
    pub(crate) fn new(gpu: u32) -> Self {
        let (wakers, told, stopped) = (RefCell::default(), Cell::default(), Cell::new(None));
        Self { gpu, wakers, told, stopped }
    }

    /// Returns the page's number of this device.
    pub(crate) fn gpu(&self) -> u32 {
        self.gpu
    }

    /// Takes what the page tells.
    pub(crate) fn tell(&self, told: Told) {
        self.told.set(told);
    }

    /// Wakes everybody who waits for something of this device.
    pub(crate) fn wake_all(&self) {
        wake(self.wakers.take());
    }

    fn keep(&self, waker: &Waker) {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn check(&self) -> Result<(), Fault> {
        if self.told.get().is_lost { Err(self.fault()) } else { Ok(()) }
    }

    fn fault(&self) -> Fault {
        Fault::new(page::text(self.gpu, About::Loss, 0.0))
    }

    fn encode(&self, op: &Op, spans: &[Span]) -> Result<(), &'static str> {
        let span = |at: usize| spans.get(at).ok_or("there is no such span");
        match op {
            Op::Copy { src, dst } => {
                let (src, dst) = (span(*src)?, span(*dst)?);
                let (from, to) = (number(src.region), number(dst.region));
                let (from_at, to_at) = (src.offset as f64, dst.offset as f64);
                if src.len > 0 {
                    page::gpu_copy(self.gpu, from, from_at, to, to_at, src.len as f64);
                }
                Ok(())
            }
            Op::Fill { dst, byte } => {
                let dst = span(*dst)?;
                if dst.len > 0 {
                    let (to, at, len) = (number(dst.region), dst.offset as f64, dst.len as f64);
                    page::gpu_fill(self.gpu, to, at, len, u32::from(*byte));
                }
                Ok(())
            }
            Op::Native(native) => {
                let source: &dyn Any = &*native.0;
                if let Some(bytes) = source.downcast_ref::<HostBytes>() {
                    let (dst, from) = (span(0)?, bytes.array().ok_or("it takes arrays alone")?);
                    let (at, to_at) = (from.offset as f64, dst.offset as f64);
                    let (to, len) = (number(dst.region), dst.len as f64);
                    page::gpu_write(self.gpu, from.array, at, to, to_at, len);
                    return Ok(());
                }
                let commands = source.downcast_ref::<Commands>();
                let commands = commands.ok_or("this device runs commands of the page only")?;
                page::gpu_native(self.gpu, commands.0);
                Ok(())
            }
            Op::Launch { .. } | Op::Load { .. } => Err("kernels are encoded by the page"),
        }
    }
}

impl Driver for Web {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts::host(&page::text(self.gpu, About::Architecture, 0.0));
        facts.default_budget_bytes = BUDGET_BYTES;
        facts.largest_bytes = page::gpu_largest(self.gpu) as u64 / WORD * WORD;
        facts.queues = vec![Queue::ALL];
        facts.piece_bytes = HALF_BYTES;
        facts.half_bytes = HALF_BYTES;
        facts.write_bytes = WRITE_BYTES;
        facts.may_block = false;
        facts.addressed = Addressed::Never;
        facts.grain_bytes = WORD;
        facts.rejects_later = true;
        facts
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        if let Err(fault) = self.check() {
            return Alloc::Fault(fault);
        }
        let len = ask.len_bytes as f64;
        match ask.kind {
            Kind::Pinned => Alloc::Refused,
            Kind::Transfer => Alloc::Ready(region(page::gpu_half(self.gpu, len))),
            Kind::Device => match page::gpu_alloc(self.gpu, len) {
                0.0 => Alloc::Refused,
                buffer => Alloc::Pending(region(buffer)),
            },
        }
    }

    fn poll_alloc(&self, given: Region, waker: &Waker) -> Poll<Alloc> {
        match page::gpu_verdict(self.gpu, number(given)) {
            0 => {
                self.keep(waker);
                Poll::Pending
            }
            1 => Poll::Ready(Alloc::Ready(given)),
            2 => Poll::Ready(Alloc::Refused),
            _ => Poll::Ready(Alloc::Fault(self.fault())),
        }
    }

    fn free(&self, region: Region) {
        page::gpu_free(self.gpu, number(region));
    }

    fn lend(&self, _: Region) -> Option<Lent> {
        // The page has the object, by the number that the region is.
        Some(Lent(Arc::new(())))
    }

    fn let_go(&self, region: Region) -> bool {
        // The page keeps a GPU buffer for whoever has it.
        page::gpu_let_go(self.gpu, number(region));
        true
    }

    fn begin_access(&self, region: Region, access: Access) -> Result<(), Fault> {
        self.check()?;
        let write = u32::from(access == Access::Write);
        // The page ends a map where work that uses the memory goes to the queue.
        match page::gpu_map(self.gpu, number(region), write) {
            0 => Ok(()),
            _ => Err(Fault::new("only transfer memory is mapped")),
        }
    }

    fn poll_access(&self, region: Region, waker: &Waker) -> Poll<Result<HostBytes, Fault>> {
        self.check()?;
        match page::gpu_mapped(self.gpu, number(region)) {
            0 => {
                self.keep(waker);
                Poll::Pending
            }
            u32::MAX => Poll::Ready(Err(Fault::new("only transfer memory is mapped"))),
            array => {
                let at = InArray { array, offset: 0 };
                Poll::Ready(Ok(HostBytes::in_array(at, page::array_len(array) as u64)))
            }
        }
    }

    fn load(&self, _: &Code) -> Load {
        Load::Rejected(Arc::from("kernels are loaded by the page"))
    }

    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver {
        debug_assert!(waits.is_empty(), "a page's queue understands no producer");
        if let Err(fault) = self.check() {
            return HandOver::Fault(fault);
        }
        for part in work.parts {
            if let Err(why) = self.encode(&part.op, work.spans) {
                page::gpu_end(self.gpu, 0.0);
                return HandOver::Rejected(Arc::from(why));
            }
        }
        match page::gpu_end(self.gpu, value as f64) {
            0 => HandOver::Done,
            1 => HandOver::Rejected(Arc::from(page::text(self.gpu, About::Rejection, 0.0))),
            _ => HandOver::Fault(self.fault()),
        }
    }

    fn rejected(&self, value: u64) -> Option<Arc<str>> {
        if !self.told.get().has_rejected {
            return None;
        }
        let why = page::text(self.gpu, About::Rejection, value as f64);
        (!why.is_empty()).then(|| Arc::from(why))
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        // The page puts a fence behind all work by itself.
        self.check()
    }

    fn reached(&self) -> Result<u64, Fault> {
        match self.stopped.get() {
            Some(word) => Ok(word),
            None => self.check().map(|()| self.told.get().reached),
        }
    }

    fn wake_at(&self, value: u64, waker: &Waker) {
        // What was reached before has no event any more.
        match self.reached() {
            Ok(reached) if reached < value => self.keep(waker),
            _ => waker.wake_by_ref(),
        }
    }

    fn service(&self) -> Result<Option<Duration>, Fault> {
        self.check()?;
        if self.wakers.borrow().is_empty() {
            return Ok(None);
        }
        page::gpu_nudge(self.gpu);
        Ok(Some(SERVICE))
    }

    fn health(&self) -> Result<(), Fault> {
        self.check()
    }

    fn stop(&self) {
        let told = self.told.get();
        self.stopped.set(Some(told.reached));
        self.told.set(Told { is_lost: true, ..told });
        page::gpu_stop(self.gpu);
        self.wake_all();
    }

    fn poll_stopped(&self, _: &Waker) -> Poll<Stopped> {
        // What runs on touches buffers of the page, which lets no one else have them.
        Poll::Ready(Stopped::Settled)
    }
}

/// Wakes all, by code that stands once.
#[inline(never)]
pub(crate) fn wake(all: Vec<Waker>) {
    all.into_iter().for_each(Waker::wake);
}

/// Returns the region of a GPU buffer of the page.
pub(crate) fn region(buffer: f64) -> Region {
    Region(buffer as u64, 0)
}

fn number(region: Region) -> f64 {
    region.0 as f64
}

const WORD: u64 = 4;
const HALF_BYTES: u64 = 4 << 20;
/// What a blit has taken by one write: a copy of the array costs more up to here.
const WRITE_BYTES: u64 = 256 << 20;
const BUDGET_BYTES: u64 = 512 << 20;
/// How soon those who wait are looked after again: so often an engine has to be nudged.
pub(crate) const SERVICE: Duration = Duration::from_millis(4);
