//! Staging: host memory that copies pass through, in two slots of two halves (S7.5 to S7.9).
//!
//! A half is an allocation with stamps of its own, made when first needed, charged to the host as
//! staging and kept; a device maps it once. A copy's pieces alternate the halves of one slot, so
//! that host and device work on different ones. A half is held for one piece only and given back
//! by drop on every exit; then its stamps order the next user. Devices that map no host memory
//! have slots of their own. Any thread may take halves. `SLOTS` ranks ahead of a slot's lock, which
//! is a leaf lock.

use crate::allocation::Ref;
use crate::allocation::mapping::MapRef;
use crate::allocation::owner::Owner;
use crate::borrow;
use crate::budget::Where;
use crate::buffer::{Stamps, stamps_now};
use crate::bytes::page_bytes;
use crate::device::Device;
use crate::driver::{Access, Span};
use crate::error::Outcome;
use crate::global::Global;
use crate::life;
use crate::open::host_owner;
use crate::reclaim;
use crate::sync::plain::Mutex;
use crate::sync::{HAS_THREADS, Wakers, now_ns};
use crate::tick;
use crate::timeline::{DeviceId, Fate};
use crate::wait;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A half in a copy's hands.
pub(crate) struct Half {
    /// Its seat, given back with it; none for a transient one.
    seat: Option<Seated>,
    pub(crate) at: Ref,
    /// Keeps the device's mapping of a host half.
    map: Option<MapRef>,
}

/// Which halves a device's copies use: those of the host, which it maps, or its own transfer
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// Whose they are.
    of: DeviceId,
    /// The bytes of each.
    half_bytes: u64,
}

/// The two slots of one key.
struct Set {
    key: Key,
    slots: [Arc<Slot>; 2],
}

/// Two halves, which one call's pieces alternate.
#[derive(Default)]
struct Slot {
    /// Guards the halves. A leaf lock but for `SLOTS`, under which it is taken.
    seats: Mutex<[Seat; 2]>,
}

#[derive(Default)]
struct Seat {
    /// The half's memory, once it was needed.
    at: Option<Ref>,
    map: Vec<MapRef>,
    taken: bool,
}

/// The slot that one call's pieces alternate in.
#[derive(Default)]
pub(crate) struct Lane {
    /// Whether its pieces join those of other calls.
    pub(crate) joins: bool,
    /// Whether it takes its device's own halves, which did not map one of the host's.
    is_own: bool,
    slot: Option<Arc<Slot>>,
    next: usize,
    /// Whether no half was free for so long that the call takes transient ones.
    starved: bool,
}

/// Returns the key of the halves that a device copies through.
pub(crate) fn key_of(device: &Owner) -> Key {
    let of = match device.facts.import_align_bytes {
        Some(align) if MAPS_HOST && align <= page_bytes() => DeviceId::HOST,
        _ => device.id,
    };
    Key { of, half_bytes: device.facts.half_bytes }
}

/// Whether two devices copy through halves of the host's, by their facts.
pub(crate) fn share_halves(one: &Owner, other: &Owner) -> bool {
    MAPS_HOST && [one, other].map(|device| key_of(device).of) == [DeviceId::HOST; 2]
}

/// Returns the bytes of a device's pieces.
pub(crate) fn piece_bytes(device: &Owner) -> u64 {
    device.facts.piece_bytes.min(device.facts.half_bytes)
}

impl Device {
    /// Returns the stamps of a staging half that this device's copies use, or none before it is
    /// made; for tests.
    #[doc(hidden)]
    pub fn half_stamps(&self, slot: usize, half: usize) -> Option<Stamps> {
        let sets = SLOTS.lock();
        let set = sets.iter().find(|set| set.key == key_of(&self.owner))?;
        let seats = set.slots.get(slot)?.seats.lock();
        Some(stamps_now(&seats.get(half)?.at.as_ref()?.stamps))
    }
}

/// Takes the lane's next half, whose device is `device`, once `by`, which fills it, may: the host,
/// or the device itself. Waits for one at most 200 ms, and where no thread may block only without
/// room, then makes a transient one of at most 1 MiB, so that a future nobody polls starves no copy
/// (S7.8). A device that does not map a host half copies through its own, made ready for what the
/// host does with it. The host waits for what others left on it, so that no other device's loss
/// reaches this copy: a half that meets one is replaced (S7.9).
pub(crate) async fn take(device: &Arc<Owner>, lane: &mut Lane, by: DeviceId) -> Outcome<Half> {
    loop {
        life::check_lost(device)?;
        let own = Key { of: device.id, half_bytes: device.facts.half_bytes };
        let key = if lane.is_own { own } else { key_of(device) };
        let asked_ns = now_ns();
        // Given back on every exit from here on.
        let seat = poll_fn(|cx| poll_seat(device, key, lane, asked_ns, cx)).await;
        let known = seat.as_ref().and_then(|seat| seat.with(|seat| seat.at.clone()));
        // One that a lost device left undone serves nobody any more.
        let at = match known.filter(|at| !(MAPS_HOST && is_spoiled(at))) {
            Some(at) => at,
            None => {
                let len_max = if seat.is_some() { u64::MAX } else { TRANSIENT_BYTES };
                let at = make(device, key, len_max).await?;
                if let Some(seat) = &seat {
                    seat.with(|seat| seat.renew(&at));
                }
                at
            }
        };
        let mut half = Half { seat, at, map: None };
        if MAPS_HOST && !half.reaches(device)? {
            // Found at the second time: a device's own half needs no mapping.
            *lane = Lane { is_own: true, joins: lane.joins, ..Lane::default() };
            continue;
        }
        if !half.at.owner.is_host() {
            // What the device fills is read by the host.
            let host = if by == DeviceId::HOST { Access::Write } else { Access::Read };
            reclaim::ready_half(&half.at, host).await?;
        }
        match wait::follow_by(&half.at.stamps, Access::Write, by).await {
            Err(failed) if MAPS_HOST && failed.is_lost() && is_spoiled(&half.at) => {}
            ready => return ready.map(|()| half),
        }
    }
}

/// Takes a seat, or answers none where a transient half serves, or leaves a waker.
fn poll_seat(
    device: &Owner,
    key: Key,
    lane: &mut Lane,
    asked_ns: u64,
    cx: &Context<'_>,
) -> Poll<Option<Seated>> {
    if let Some(seat) = try_seat(key, lane) {
        return Poll::Ready(Some(seat));
    }
    lane.starved |= now_ns() - asked_ns >= tick::WAIT.as_nanos() as u64;
    // Where no thread may block, a leg that waits comes behind what is asked for after it.
    if lane.starved || !device.facts.may_block && has_room() {
        return Poll::Ready(None);
    }
    WAITERS.get_or_init(Wakers::new).register(cx.waker());
    if !wait::is_blocking() {
        tick::wake_later(cx.waker());
    }
    let seat = if HAS_THREADS { try_seat(key, lane) } else { None };
    seat.map_or(Poll::Pending, |seat| Poll::Ready(Some(seat)))
}

/// Whether there is room for a transient half beside all staging that there is.
fn has_room() -> bool {
    let books = &host_owner().heap.lock().books;
    let left = STAGING_BYTES.saturating_sub(books.bytes_in(Where::Staging));
    books.room_bytes().min(left) >= TRANSIENT_BYTES
}

/// Takes the next seat of the lane's slot, or of a slot nobody holds a half of.
fn try_seat(key: Key, lane: &mut Lane) -> Option<Seated> {
    let is_free = |slot: &Slot, half: usize| !slot.seats.lock()[half].taken;
    let mut sets = SLOTS.lock();
    let own = lane.slot.clone().filter(|slot| is_free(slot, lane.next));
    let (slot, half) = match own {
        Some(slot) => (slot, lane.next),
        // The first piece starts with a slot's first half (S7.5); so does one whose slot another
        // call came into between two pieces.
        None => {
            let at = sets.iter().position(|set| set.key == key).unwrap_or_else(|| {
                sets.push(Set { key, slots: Default::default() });
                sets.len() - 1
            });
            let free = |slot: &&Arc<Slot>| is_free(slot, 0) && is_free(slot, 1);
            (Arc::clone(sets[at].slots.iter().find(free)?), 0)
        }
    };
    slot.seats.lock()[half].taken = true;
    drop(sets);
    lane.slot = Some(Arc::clone(&slot));
    lane.next = 1 - half;
    Some(Seated { slot, half })
}

impl Seat {
    /// Gives it other memory.
    fn renew(&mut self, at: &Ref) {
        if MAPS_HOST {
            self.map.clear();
        }
        self.at = Some(at.clone());
    }

    /// Returns a device's mapping of the half.
    fn map_of(&self, device: &Owner) -> Option<MapRef> {
        self.map.iter().find(|map| map.mapping().device.id == device.id).cloned()
    }

    /// Keeps a device's mapping of the half, so that it is made once.
    fn keep_map(&mut self, map: &MapRef) {
        let device = &map.mapping().device;
        // Looked at under the lock that `forget` takes: no mapping comes after it.
        if device.track.is_lost() {
            return;
        }
        if !self.map.iter().any(|known| known.mapping().device.id == device.id) {
            self.map.push(map.clone());
        }
    }
}

/// A seat that is taken, given back on drop.
struct Seated {
    slot: Arc<Slot>,
    half: usize,
}

impl Seated {
    fn with<R>(&self, f: impl FnOnce(&mut Seat) -> R) -> R {
        f(&mut self.slot.seats.lock()[self.half])
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.with(|seat| seat.taken = false);
        wake();
    }
}

/// Makes everybody who waits for a half look again.
pub(crate) fn wake() {
    WAITERS.get_or_init(Wakers::new).wake_all();
}

/// Whether a lost device left work on this half undone, or the half is a lost device's own.
fn is_spoiled(at: &Ref) -> bool {
    let mut spoiled = at.owner.track.is_lost();
    at.stamps.for_each_use(|point| {
        spoiled |= matches!(point.fate(), Fate::Undone | Fate::Dropped);
    });
    spoiled
}

/// Makes a half's memory of at most `len_max` bytes, charged to the host as staging.
fn make(device: &Arc<Owner>, key: Key, len_max: u64) -> impl Future<Output = Outcome<Ref>> {
    life::at_stop(forget);
    let owner = if key.of == DeviceId::HOST { host_owner() } else { device };
    reclaim::create_half(owner, key.half_bytes.min(len_max))
}

impl Half {
    /// Returns the most bytes a piece through this half may have.
    pub(crate) fn len(&self) -> u64 {
        self.at.len()
    }

    /// Whether the device reaches it, by a mapping if it is the host's.
    fn reaches(&mut self, device: &Arc<Owner>) -> Outcome<bool> {
        if device.is_host() || !self.at.owner.is_host() {
            return Ok(true);
        }
        let known = self.seat.as_ref().and_then(|seat| seat.with(|seat| seat.map_of(device)));
        self.map = if known.is_some() { known } else { self.map_on(device)? };
        Ok(self.map.is_some())
    }

    /// Maps a half of the host's for a device; none if that does not map it.
    fn map_on(&self, device: &Arc<Owner>) -> Outcome<Option<MapRef>> {
        let bytes = self.at.bytes.expect("the host always finds the bytes of its own halves");
        let map = borrow::share(device, self.at.record(), &|driver| driver.import_host(bytes))?;
        if let (Some(seat), Some(map)) = (&self.seat, &map) {
            seat.with(|seat| seat.keep_map(map));
        }
        Ok(map)
    }

    /// Returns the first `len` bytes as the half's device sees them.
    pub(crate) fn span(&self, len: u64, access: Access) -> Span {
        span_of(&self.at, self.map.as_ref(), len, access)
    }

    /// Lets another device reach a host half too; none if it does not map it. The mapping lives as
    /// long as what is answered with the span.
    pub(crate) fn span_on(
        &self,
        device: &Arc<Owner>,
        len: u64,
        access: Access,
    ) -> Outcome<Option<(Span, MapRef)>> {
        if !MAPS_HOST || !self.at.owner.is_host() || key_of(device).of != DeviceId::HOST {
            return Ok(None);
        }
        let Some(map) = self.map_on(device)? else { return Ok(None) };
        Ok(Some((span_of(&self.at, Some(&map), len, access), map)))
    }
}

fn span_of(at: &Ref, map: Option<&MapRef>, len: u64, access: Access) -> Span {
    let region = map.map_or(at.region, |map| map.mapping().region());
    Span { region, offset: 0, len, access, is_last: false }
}

/// Gives up the halves that a lost device maps or owns, so that they return with it.
fn forget(device: DeviceId) {
    let mut sets = SLOTS.lock();
    let own = |set: &Set| set.key.of == device;
    let of_device = |map: &MapRef| map.mapping().device.id == device;
    let (mut dropped, mut maps) = (Vec::new(), Vec::new());
    while let Some(at) = sets.iter().position(own) {
        // A copy that nobody goes on with may keep a slot, but none of its memory.
        for slot in sets.remove(at).slots {
            dropped.push(std::mem::take(&mut *slot.seats.lock()));
        }
    }
    for set in sets.iter().filter(|_| MAPS_HOST) {
        for slot in &set.slots {
            for seat in &mut *slot.seats.lock() {
                while let Some(at) = seat.map.iter().position(of_device) {
                    maps.push(seat.map.remove(at));
                }
            }
        }
    }
    drop(sets);
    drop((dropped, maps));
}

/// Whether devices may copy through halves of the host's: those of browsers have their own.
pub(crate) const MAPS_HOST: bool = cfg!(not(target_family = "wasm"));
const TRANSIENT_BYTES: u64 = 1 << 20;
/// The most bytes of staging beside which a transient half is taken without a wait.
const STAGING_BYTES: u64 = 256 << 20;

/// Guards which slots there are. Ranks ahead of a slot's lock.
static SLOTS: Global<Mutex<Vec<Set>>> = Global::new(Mutex::new(Vec::new()));
static WAITERS: std::sync::OnceLock<Wakers> = std::sync::OnceLock::new();
