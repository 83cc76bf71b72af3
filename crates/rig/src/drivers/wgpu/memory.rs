//! Regions: buffers of the device, and halves of an upload and a readback buffer (S7.6).
//!
//! A region is one buffer of the driver's, by number. The host addresses one only while wgpu maps
//! it: the device's own where it was opened so, and transfer memory always. A half has two buffers,
//! each made when first needed, since WebGPU lets no buffer be mapped both ways. Any thread may
//! call anything; the table's lock is a leaf, and each region's own lock orders its maps.

use crate::bytes::HostBytes;
use crate::driver::{Access, Alloc, Ask, Fault, Kind, Region};
use crate::drivers::slab::Slab;
use crate::drivers::wgpu::guarded::{Bad, Guarded, Verdict};
use crate::drivers::wgpu::import;
use crate::drivers::wgpu::line::{ASKS_EARLY, DESTROYS};
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};
use ::wgpu::{Buffer, BufferUsages, BufferView, BufferViewMut, MapMode};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// The regions of a device.
#[derive(Debug)]
pub(crate) struct Table {
    /// Guards the table from numbers to regions.
    regions: Mutex<Slab<Arc<Memory>>>,
    /// What the device's own buffers can be used for.
    usages: BufferUsages,
    /// The most bytes that pass through a half's buffer at once.
    piece_bytes: u64,
}

/// A region.
#[derive(Debug)]
pub(crate) struct Memory {
    store: Store,
    /// Whether the program has the buffer too.
    lent: AtomicBool,
    /// Whether the buffer is the program's alone from now on.
    left: AtomicBool,
    /// Guards the map for the host, if there is one.
    map: Mutex<Option<Map>>,
    /// Guards what wgpu says of the buffer that was made last.
    verdict: Mutex<Verdict>,
}

#[derive(Debug)]
enum Store {
    /// A buffer of the device's own.
    Own(Buffer),
    /// A buffer that the program brought.
    Wrapped(Buffer),
    /// Host memory that the device maps.
    Imported(Buffer),
    /// Transfer memory.
    Half(Half),
}

/// The two buffers of transfer memory, made when first needed.
#[derive(Debug)]
struct Half {
    len: u64,
    /// Guards the buffer on the way up.
    upload: Mutex<Option<Buffer>>,
    /// Guards the buffer on the way back.
    readback: Mutex<Option<Buffer>>,
}

/// A map of one buffer for the host.
#[derive(Debug)]
struct Map {
    buffer: Buffer,
    told: Arc<Told>,
    view: Option<View>,
}

/// What became of a map, and who waits for it.
#[derive(Debug)]
struct Told {
    answer: AtomicU32,
    /// Guards who waits. A leaf lock.
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug)]
enum View {
    Read(BufferView),
    Write(BufferViewMut),
}

impl Table {
    pub(crate) fn new(usages: BufferUsages, piece_bytes: u64) -> Self {
        Self { regions: Mutex::new(Slab::new()), usages, piece_bytes }
    }

    pub(crate) fn alloc(&self, ask: Ask, guarded: &Guarded) -> Alloc {
        if let Err(fault) = guarded.check() {
            return Alloc::Fault(fault);
        }
        let (store, mut verdict) = match ask.kind {
            Kind::Pinned => return Alloc::Refused,
            Kind::Transfer => {
                let len = ask.len_bytes.min(self.piece_bytes);
                let half = Half { len, upload: Mutex::new(None), readback: Mutex::new(None) };
                (Store::Half(half), Verdict::Given(Ok(())))
            }
            Kind::Device => {
                let (buffer, verdict) = guarded.buffer_judged("rig", ask.len_bytes, self.usages);
                (Store::Own(buffer), verdict)
            }
        };
        match verdict.poll(Waker::noop()) {
            Poll::Ready(Ok(())) => Alloc::Ready(self.enter(store, verdict)),
            Poll::Ready(Err(_)) => Alloc::Refused,
            Poll::Pending => Alloc::Pending(self.enter(store, verdict)),
        }
    }

    /// Answers whether there was room for a region; one that is refused is gone.
    pub(crate) fn poll_alloc(
        &self,
        region: Region,
        waker: &Waker,
        guarded: &Guarded,
    ) -> Poll<Alloc> {
        if let Err(fault) = guarded.check() {
            return Poll::Ready(Alloc::Fault(fault));
        }
        let Some(memory) = self.find(region) else { return Poll::Ready(Alloc::Refused) };
        let verdict = memory.verdict.lock().poll(waker);
        verdict.map(|verdict| match verdict {
            Ok(()) => Alloc::Ready(region),
            Err(_) => {
                self.free(region);
                Alloc::Refused
            }
        })
    }

    /// Maps host memory for the device; none where it does not map it.
    pub(crate) fn import(&self, bytes: HostBytes, guarded: &Guarded) -> Option<Region> {
        let buffer = import::import(bytes, IMPORT_USAGES, guarded)?;
        Some(self.enter(Store::Imported(buffer), Verdict::Given(Ok(()))))
    }

    /// Takes in a buffer that the program brought.
    pub(crate) fn wrap(&self, buffer: Buffer) -> Region {
        self.enter(Store::Wrapped(buffer), Verdict::Given(Ok(())))
    }

    fn enter(&self, store: Store, verdict: Verdict) -> Region {
        let (lent, left) = (AtomicBool::new(false), AtomicBool::new(false));
        let (map, verdict) = (Mutex::new(None), Mutex::new(verdict));
        let memory = Memory { store, lent, left, map, verdict };
        Region(self.regions.lock().insert(Arc::new(memory)), 0)
    }

    /// Drops a region, and says whether it was there.
    pub(crate) fn free(&self, region: Region) -> bool {
        let memory = self.regions.lock().remove(region.0);
        memory.iter().for_each(|memory| memory.destroy());
        memory.is_some()
    }

    pub(crate) fn find(&self, region: Region) -> Option<Arc<Memory>> {
        self.regions.lock().get(region.0).cloned()
    }
}

impl Memory {
    /// Returns the buffer of the device's own, if it is one.
    pub(crate) fn own(&self) -> Option<&Buffer> {
        match &self.store {
            Store::Own(buffer) | Store::Wrapped(buffer) => Some(buffer),
            Store::Imported(_) | Store::Half(_) => None,
        }
    }

    /// Notes that the program has the buffer too.
    pub(crate) fn set_lent(&self) {
        self.lent.store(true, Ordering::Relaxed);
    }

    /// Leaves the buffer to the program.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether the program has the buffer too.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(self.store, Store::Wrapped(_)) || self.lent.load(Ordering::Relaxed)
    }

    /// Gives the memory back at once, where dropping the buffers does not. What the program brought
    /// stays, and what was left to it; host memory that it was shown ends for it here.
    fn destroy(&self) {
        match &self.store {
            Store::Imported(buffer) if DESTROYS || self.is_outside() => buffer.destroy(),
            Store::Own(buffer) if DESTROYS && !self.left.load(Ordering::Relaxed) => {
                buffer.destroy()
            }
            Store::Half(half) if DESTROYS => {
                half.upload.lock().iter().for_each(Buffer::destroy);
                half.readback.lock().iter().for_each(Buffer::destroy);
            }
            _ => {}
        }
    }

    /// Whether it is transfer memory.
    pub(crate) fn is_half(&self) -> bool {
        matches!(self.store, Store::Half(_))
    }

    /// Returns the buffer over host memory, if it is one.
    pub(crate) fn imported(&self) -> Option<&Buffer> {
        match &self.store {
            Store::Imported(buffer) => Some(buffer),
            Store::Own(_) | Store::Wrapped(_) | Store::Half(_) => None,
        }
    }

    /// Returns the buffer that work reads or writes.
    pub(crate) fn buffer(&self, access: Access) -> Option<Buffer> {
        match (&self.store, access) {
            (Store::Own(buffer) | Store::Wrapped(buffer) | Store::Imported(buffer), _) => {
                Some(buffer.clone())
            }
            (Store::Half(half), Access::Read) => half.upload.lock().clone(),
            (Store::Half(half), Access::Write) => half.readback.lock().clone(),
        }
    }

    /// Makes a half's buffer for an access of the host, where it is not there yet; answers whether
    /// there was room.
    pub(crate) fn ready(
        &self,
        access: Access,
        waker: &Waker,
        guarded: &Guarded,
    ) -> Poll<Result<(), Bad>> {
        let Store::Half(half) = &self.store else { return Poll::Ready(Ok(())) };
        let (buffer, label, usages) = match access {
            Access::Write => {
                (&half.upload, "rig upload", BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC)
            }
            Access::Read => {
                (&half.readback, "rig readback", BufferUsages::MAP_READ | BufferUsages::COPY_DST)
            }
        };
        let (mut buffer, mut verdict) = (buffer.lock(), self.verdict.lock());
        if buffer.is_none() {
            let (made, of_it) = guarded.buffer_judged(label, half.len, usages);
            (*buffer, *verdict) = (Some(made), of_it);
        }
        let given = verdict.poll(waker);
        if let Poll::Ready(Err(_)) = given {
            (*buffer, *verdict) = (None, Verdict::Given(Ok(())));
        }
        given
    }

    /// Starts a map for the host; does nothing where there is one.
    pub(crate) fn begin(&self, access: Access, guarded: &Guarded) -> Result<(), Fault> {
        guarded.check()?;
        let (buffer, mode) = match (&self.store, access) {
            (Store::Own(buffer) | Store::Wrapped(buffer), _) => {
                (Some(buffer.clone()), MapMode::Write)
            }
            (Store::Imported(_), _) => (None, MapMode::Write),
            (Store::Half(half), Access::Write) => (half.upload.lock().clone(), MapMode::Write),
            (Store::Half(half), Access::Read) => (half.readback.lock().clone(), MapMode::Read),
        };
        let buffer =
            buffer.ok_or_else(|| guarded.lose("memory was to be mapped that cannot be"))?;
        let mut map = self.map.lock();
        if map.as_ref().is_some_and(|map| map.buffer == buffer) {
            return Ok(());
        }
        end(&mut map, guarded);
        let told = Arc::new(Told { answer: AtomicU32::new(PENDING), waker: Mutex::new(None) });
        let tell = Arc::clone(&told);
        let asked = guarded.scoped(|| {
            buffer.map_async(mode, .., move |mapped| {
                let answer = if mapped.is_ok() { MAPPED } else { FAILED };
                // ORDERING: pairs with the load in `poll`.
                tell.answer.store(answer, Ordering::Release);
                let waker = tell.waker.lock().take();
                waker.into_iter().for_each(Waker::wake);
            });
        });
        *map = Some(Map { buffer, told, view: None });
        drop(map);
        match asked {
            Ok(()) => Ok(()),
            Err(bad) => Err(guarded.lose(&format!("a map was refused: {bad}"))),
        }
    }

    /// Answers where the host finds the bytes, once they are mapped.
    pub(crate) fn poll(&self, waker: &Waker, guarded: &Guarded) -> Poll<Result<HostBytes, Fault>> {
        guarded.check()?;
        let mut map = self.map.lock();
        let Some(map) = map.as_mut() else {
            return Poll::Ready(Err(guarded.lose("a map was asked for that nobody began")));
        };
        if let Some(view) = &mut map.view {
            return Poll::Ready(Ok(view.bytes()));
        }
        *map.told.waker.lock() = Some(waker.clone());
        // ORDERING: pairs with the store in the callback.
        let answer = map.told.answer.load(Ordering::Acquire);
        if answer == PENDING && !ASKS_EARLY {
            return Poll::Pending;
        }
        if answer == FAILED {
            return Poll::Ready(Err(guarded.lose("a map failed")));
        }
        let readable = map.buffer.usage() & BufferUsages::MAP_WRITE == BufferUsages::empty();
        let view = match readable {
            true => map.buffer.get_mapped_range(..).map(View::Read),
            false => map.buffer.get_mapped_range_mut(..).map(View::Write),
        };
        match view {
            Ok(view) => Poll::Ready(Ok(map.view.insert(view).bytes())),
            // Asked all the same: a panic in another thread's poll may have lost the callback.
            Err(_) if answer == PENDING => Poll::Pending,
            Err(error) => Poll::Ready(Err(guarded.lose(&format!("a map failed: {error}")))),
        }
    }

    /// Ends or cancels the map.
    pub(crate) fn end(&self, guarded: &Guarded) {
        end(&mut self.map.lock(), guarded);
    }
}

fn end(map: &mut Option<Map>, guarded: &Guarded) {
    let Some(Map { buffer, view, .. }) = map.take() else { return };
    drop(view);
    // On a device that is lost there is nothing to unmap.
    let _ = guarded.scoped(|| buffer.unmap());
}

/// Returns what is there, or makes it; of two makers at once, one keeps.
pub(crate) fn made<T: Clone>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, Bad>,
) -> Result<T, Bad> {
    match cell.get() {
        Some(made) => Ok(made.clone()),
        None => make().map(|made| cell.get_or_init(|| made).clone()),
    }
}

impl View {
    fn bytes(&mut self) -> HostBytes {
        let (start, len) = match self {
            Self::Read(view) => (view.as_ptr().cast_mut(), view.len()),
            Self::Write(view) => (view.slice(..).as_raw_element_ptr().as_ptr(), view.len()),
        };
        // SAFETY: wgpu keeps the range mapped and initialised until the view is dropped, which is
        // at the end of the access; nobody writes through a map that was made to be read.
        unsafe { HostBytes::new(start, len as u64) }
    }
}

const PENDING: u32 = 0;
const MAPPED: u32 = 1;
const FAILED: u32 = 2;

/// What host memory can be used for.
const IMPORT_USAGES: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);
