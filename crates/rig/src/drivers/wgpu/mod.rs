//! GPUs through wgpu: Vulkan, Metal, DX12 and GL.
//!
//! | file | is |
//! |---|---|
//! | `adapter` | which GPUs there are, and which one is opened |
//! | `guarded` | a wgpu device and queue, with every way in which they tell of an error or an end |
//! | `batch` | values that wait to be submitted together |
//! | `line` | what was submitted and is not known to be complete; of its own in a browser |
//! | `poll` | polls for one submission |
//! | `import` | host memory that the device maps, by the platform's own way |
//! | `probe` | a trial of such memory, where nothing is promised |
//! | `memory` | regions, and their maps for the host |
//! | `work` | the work of one value, encoded |
//! | `edge` | copies and fills of any bytes |
//! | `rows` | moves of any bytes without a pass |
//! | `args` | arguments of passes and launches |
//! | `kernel` | WGSL and its launches |
//! | `same` | whether two handles are of one device |
//!
//! Values run in the order of wgpu's one queue, a submission each where they are not batched. The
//! host addresses no memory, or addresses it while it is mapped, as the options say. Metal counts
//! failed work as complete, so a fault there is found late, or never (S2.9). wgpu refuses a buffer
//! that finds no room, but ends a device that has none for its own commands. Any thread may call
//! anything, hand-overs one at a time. A free drops the buffer; nothing is destroyed that somebody
//! else may have.

mod adapter;
mod args;
mod batch;
mod commands;
mod edge;
mod guarded;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "import/vulkan.rs"]
mod import;
#[cfg(windows)]
#[path = "import/windows.rs"]
mod import;
#[cfg(target_vendor = "apple")]
#[path = "import/metal.rs"]
mod import;
#[cfg(not(any(windows, target_vendor = "apple", target_os = "linux", target_os = "android")))]
#[path = "import/none.rs"]
mod import;
mod kernel;
#[cfg(not(target_family = "wasm"))]
mod line;
#[cfg(target_family = "wasm")]
#[path = "line/web.rs"]
mod line;
mod memory;
#[cfg(not(target_family = "wasm"))]
mod poll;
#[cfg(any(windows, target_vendor = "apple", test))]
mod probe;
mod rows;
mod same;
mod work;

use crate::bytes::HostBytes;
use crate::driver::{
    Access, Addressed, Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Import, Lent as Object,
    Load, Producer, Queue, Region, Stopped, Work,
};
use crate::drivers::wgpu::adapter::shares_memory;
use crate::drivers::wgpu::batch::{Batch, Through};
use crate::drivers::wgpu::edge::{INTERNAL_BYTES, WORD};
use crate::drivers::wgpu::guarded::Guarded;
use crate::drivers::wgpu::kernel::Kernel;
use crate::drivers::wgpu::line::{BUDGET_BYTES, Line, MAY_BLOCK, REJECTS_LATER, SERVICE};
use crate::drivers::wgpu::memory::Table;
use crate::drivers::wgpu::work::Encoder;
use ::wgpu::{AdapterInfo, Buffer, BufferUsages, Device, Features, Queue as WgpuQueue};
use std::any::Any;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

pub use crate::drivers::wgpu::adapter::{MapsHost, Options, adapters};
pub use crate::drivers::wgpu::batch::Batching;
pub use crate::drivers::wgpu::edge::Place as Lent;
pub use crate::drivers::wgpu::kernel::wgsl;
pub use crate::drivers::wgpu::work::encode;

pub(crate) use crate::drivers::wgpu::same::is_same;

/// Opens a GPU by its options and makes its driver.
///
/// # Errors
///
/// Why there is none: no such adapter, one without compute, a feature or memory it does not have.
pub async fn driver(options: Options) -> Result<Arc<dyn Driver>, Fault> {
    check(&options)?;
    let opened = adapter::open(&options).await?;
    let info = opened.adapter.get_info();
    let guarded = Guarded::opened(opened.device, opened.queue);
    Ok(Arc::new(Gpu::new(guarded, &info, &options)?))
}

/// Makes the driver of a wgpu device that a program opened. What of the options chooses and opens
/// an adapter does not count.
///
/// # Errors
///
/// Where the device lacks what the options ask for.
pub fn adopt(
    device: Device,
    wgpu_queue: WgpuQueue,
    options: &Options,
) -> Result<Arc<dyn Driver>, Fault> {
    check(options)?;
    let mappable = device.features().contains(Features::MAPPABLE_PRIMARY_BUFFERS);
    if options.addressed != Addressed::Never && !mappable {
        return Err(Fault::new("the device was opened without MAPPABLE_PRIMARY_BUFFERS"));
    }
    let info = device.adapter_info();
    Ok(Arc::new(Gpu::new(Guarded::adopted(device, wgpu_queue), &info, options)?))
}

/// Refuses options that no device of wgpu can have.
fn check(options: &Options) -> Result<(), Fault> {
    match options.addressed {
        Addressed::Always => Err(Fault::new("the host addresses wgpu's memory while it is mapped")),
        Addressed::Never | Addressed::WhileMapped => Ok(()),
    }
}

/// Returns the wgpu device and queue of a driver of this kind.
pub fn handles(driver: &dyn Driver) -> Option<(Device, WgpuQueue)> {
    gpu(driver).map(|gpu| (gpu.guarded.device.clone(), gpu.guarded.queue.clone()))
}

/// Finds out whether the wgpu device of a driver of this kind was destroyed, or is lost.
pub(crate) fn find_out(driver: &dyn Driver) -> Result<(), Fault> {
    gpu(driver).map_or(Ok(()), |gpu| gpu.guarded.find_out())
}

/// Takes in a buffer that the program brought, of the driver's own wgpu device.
///
/// # Errors
///
/// Why not: another driver, or a buffer that cannot be mapped where all others can.
pub fn wrap(driver: &dyn Driver, buffer: Buffer) -> Result<Region, &'static str> {
    let gpu = gpu(driver).ok_or("this is no device of wgpu")?;
    let mapped = BufferUsages::MAP_READ | BufferUsages::MAP_WRITE;
    if gpu.facts.addressed != Addressed::Never && !buffer.usage().contains(mapped) {
        return Err("the host maps this device's memory, and cannot map that buffer");
    }
    Ok(gpu.table.wrap(buffer))
}

fn gpu(driver: &dyn Driver) -> Option<&Gpu> {
    let any: &dyn Any = driver;
    any.downcast_ref()
}

/// A GPU. What it lends is a `wgpu::Buffer`.
#[derive(Debug)]
struct Gpu {
    facts: Facts,
    guarded: Guarded,
    line: Line,
    batch: Batch,
    table: Table,
    encoder: Encoder,
}

impl Gpu {
    fn new(guarded: Guarded, info: &AdapterInfo, options: &Options) -> Result<Self, Fault> {
        let largest_bytes = guarded.device.limits().max_buffer_size / WORD * WORD;
        let half_bytes = if shares_memory(info) { 4 << 20 } else { 32 << 20 }.min(largest_bytes);
        let memory = import::memory_bytes(&guarded.device);
        let import_align_bytes = match options.maps_host {
            MapsHost::WhereItCan => import::align_bytes(&guarded),
            MapsHost::Never => None,
        };
        let architecture = format!("{} ({})", info.name, info.backend);
        let facts = Facts {
            default_budget_bytes: memory.map_or(BUDGET_BYTES, |all| all - INTERNAL_BYTES.min(all)),
            internal_bytes: INTERNAL_BYTES,
            largest_bytes,
            queues: vec![Queue::ALL],
            // A half of the device's own has two buffers, within it together (S7.6).
            piece_bytes: if import_align_bytes.is_some() { half_bytes } else { half_bytes / 2 },
            half_bytes,
            may_block: MAY_BLOCK,
            addressed: options.addressed,
            import_align_bytes,
            batches: options.batching == Batching::On,
            rejects_later: REJECTS_LATER,
            grain_bytes: WORD,
            ..Facts::host(&architecture)
        };
        let mut usages = USAGES | options.usages;
        if options.addressed != Addressed::Never {
            usages |= BufferUsages::MAP_READ | BufferUsages::MAP_WRITE;
        }
        // From here on, a buffer that cannot be made is one too many. This one goes at once.
        if let Err(bad) = guarded.buffer("rig", WORD, usages) {
            return Err(Fault::new(format!("buffers of {usages:?} cannot be made: {bad}")));
        }
        let no_room = |bad| Fault::new(format!("the driver's own buffers cannot be made: {bad}"));
        Ok(Self {
            line: Line::new(&guarded),
            batch: Batch::new(options.batching),
            table: Table::new(usages, half_bytes / 2),
            encoder: Encoder::new(&guarded).map_err(no_room)?,
            facts,
            guarded,
        })
    }
}

impl Gpu {
    fn through(&self) -> Through<'_> {
        Through { encoder: &self.encoder, line: &self.line, guarded: &self.guarded }
    }

    /// Takes a value's work: submits it, or lets it wait for others.
    fn take(&self, value: u64, work: &Work<'_>) -> HandOver {
        let waits = self.batch.is_on() && !work::is_open(work, &self.table);
        let _order = waits.then(|| self.batch.in_order());
        // Nobody else hands anything over meanwhile, so nothing comes to wait.
        if !waits && let Err(fault) = self.batch.send(self.through()) {
            return HandOver::Fault(fault);
        }
        if waits {
            let encoded = match self.encoder.encode(work, &self.table, &self.guarded) {
                Ok(encoded) => encoded,
                Err(bad) => return bad.answer(),
            };
            let added = self.batch.add(value, encoded, self.through());
            return added.map_or_else(HandOver::Fault, |()| HandOver::Done);
        }
        match self.encoder.submit(work, &self.table, &self.guarded) {
            Ok(index) => {
                self.line.handed_over(value, index, &self.guarded);
                HandOver::Done
            }
            Err(bad) => bad,
        }
    }
}

impl Driver for Gpu {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        self.table.alloc(ask, &self.guarded)
    }

    fn poll_alloc(&self, region: Region, waker: &Waker) -> Poll<Alloc> {
        self.table.poll_alloc(region, waker, &self.guarded)
    }

    fn free(&self, region: Region) {
        let there = self.table.free(region);
        debug_assert!(there, "a region is freed once");
    }

    fn lend(&self, region: Region) -> Option<Object> {
        let memory = self.table.find(region)?;
        memory.set_lent();
        // What waits is ahead of all that the program does with it. A fault is found by the next.
        let _ = self.batch.send(self.through());
        memory.own().map(|buffer| Object(Arc::new(buffer.clone())))
    }

    fn let_go(&self, region: Region) -> bool {
        // wgpu keeps the buffer for whoever has it.
        self.table.find(region).is_some_and(|memory| {
            memory.leave();
            true
        })
    }

    fn poll_transfer(&self, region: Region, access: Access, waker: &Waker) -> Poll<Alloc> {
        if let Err(fault) = self.guarded.check() {
            return Poll::Ready(Alloc::Fault(fault));
        }
        let Some(memory) = self.table.find(region) else {
            let why = "a region that is gone was to be readied";
            return Poll::Ready(Alloc::Fault(self.guarded.lose(why)));
        };
        memory.ready(access, waker, &self.guarded).map(|ready| match ready {
            Ok(()) => Alloc::Ready(region),
            Err(_) => Alloc::Refused,
        })
    }

    fn begin_access(&self, region: Region, access: Access) -> Result<(), Fault> {
        // A submission of what waits could not name memory that is being mapped.
        self.batch.send(self.through())?;
        match self.table.find(region) {
            Some(memory) => memory.begin(access, &self.guarded),
            None => Err(self.guarded.lose("a region that is gone was to be mapped")),
        }
    }

    fn poll_access(&self, region: Region, waker: &Waker) -> Poll<Result<HostBytes, Fault>> {
        let Some(memory) = self.table.find(region) else {
            return Poll::Ready(Err(self.guarded.lose("a region that is gone was mapped")));
        };
        if let Poll::Ready(answer) = memory.poll(waker, &self.guarded) {
            return Poll::Ready(answer);
        }
        self.guarded.look()?;
        let answer = memory.poll(waker, &self.guarded);
        if answer.is_pending() {
            self.guarded.probe()?;
            self.line.wake_mapped(waker);
        }
        answer
    }

    fn end_access(&self, region: Region) {
        if let Some(memory) = self.table.find(region) {
            memory.end(&self.guarded);
        }
    }

    fn import_host(&self, bytes: HostBytes) -> Import {
        match self.guarded.check() {
            Ok(()) => self.table.import(bytes, &self.guarded).map_or(Import::None, Import::Mapped),
            Err(fault) => Import::Fault(fault),
        }
    }

    fn release(&self, mapped: Region) {
        self.free(mapped);
    }

    fn load(&self, code: &Code) -> Load {
        match Kernel::load(code, &self.guarded) {
            Ok(kernel) => {
                let number = self.encoder.kernels.lock().insert(kernel);
                match self.poll_load(number, Waker::noop()) {
                    Poll::Ready(Load::Ready { kernel, code_bytes }) => {
                        Load::Ready { kernel, code_bytes }
                    }
                    Poll::Ready(other) => {
                        self.unload(number);
                        other
                    }
                    Poll::Pending => Load::Pending(number),
                }
            }
            Err(why) => self.guarded.find_out().map_or_else(Load::Fault, |()| Load::Rejected(why)),
        }
    }

    fn poll_load(&self, kernel: u64, waker: &Waker) -> Poll<Load> {
        if let Err(fault) = self.guarded.check() {
            return Poll::Ready(Load::Fault(fault));
        }
        let known = self.encoder.kernels.lock().get(kernel).cloned();
        let Some(known) = known else {
            return Poll::Ready(Load::Rejected(Arc::from("the kernel is gone")));
        };
        known.poll(waker).map(|loaded| match (loaded, self.guarded.find_out()) {
            (_, Err(fault)) => Load::Fault(fault),
            (Ok(()), Ok(())) => Load::Ready { kernel, code_bytes: 0 },
            (Err(why), Ok(())) => Load::Rejected(why),
        })
    }

    fn unload(&self, kernel: u64) {
        let kernel = self.encoder.kernels.lock().remove(kernel);
        debug_assert!(kernel.is_some(), "code is unloaded once");
    }

    fn lacks(&self, work: &Work<'_>) -> Option<Arc<str>> {
        work::lacks(work, &self.table)
    }

    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver {
        debug_assert!(waits.is_empty(), "wgpu's queue understands no producer");
        if let Err(fault) = self.guarded.check() {
            return HandOver::Fault(fault);
        }
        drop(self.guarded.take_unsaid());
        let answer = self.take(value, work);
        match &answer {
            HandOver::Done => self.line.judge(value, self.guarded.take_unsaid()),
            HandOver::Rejected(_) | HandOver::Refused { .. } => {
                if let Err(fault) = self.guarded.find_out() {
                    return HandOver::Fault(fault);
                }
            }
            HandOver::Fault(_) => {}
        }
        answer
    }

    fn rejected(&self, value: u64) -> Option<Arc<str>> {
        self.line.rejected(value)
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        self.batch.send(self.through())?;
        self.line.commit(&self.guarded)
    }

    fn reached(&self) -> Result<u64, Fault> {
        // After the end nothing is raised any more.
        match self.guarded.check() {
            Ok(()) => {
                self.batch.send_old(self.through())?;
                self.line.look(&self.guarded)
            }
            Err(_) if self.line.is_stopped() => Ok(self.line.word()),
            Err(fault) => Err(fault),
        }
    }

    fn wake_at(&self, value: u64, waker: &Waker) {
        self.line.wake_at(value, waker);
    }

    fn block(&self, value: u64, at_most: Duration) -> Result<(), Fault> {
        if self.batch.is_on() && !self.line.runs(value) {
            self.batch.note_sending(self.through())?;
        }
        self.line.block(value, at_most, &self.guarded)
    }

    fn service(&self) -> Result<Option<Duration>, Fault> {
        let waits = self.batch.send_old(self.through())?;
        if !self.line.is_awaited() {
            return Ok(waits);
        }
        self.guarded.look()?;
        self.line.look(&self.guarded)?;
        if !self.line.wake(&self.guarded) {
            return Ok(waits);
        }
        self.guarded.probe()?;
        Ok(Some(SERVICE))
    }

    fn health(&self) -> Result<(), Fault> {
        self.guarded.look().map(drop)
    }

    fn stop(&self) {
        self.batch.stop();
        self.line.stop(&self.guarded);
    }

    fn poll_stopped(&self, waker: &Waker) -> Poll<Stopped> {
        if self.line.is_over(&self.guarded) {
            return Poll::Ready(Stopped::Settled);
        }
        self.line.wake_mapped(waker);
        Poll::Pending
    }
}

/// The driver's name.
pub(crate) const KIND: &str = "wgpu";
/// What every buffer can be used for.
const USAGES: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);
