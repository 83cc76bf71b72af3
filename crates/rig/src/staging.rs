//! Staging: host memory that copies pass through, in two slots of two halves (S7.5 to S7.9).
//!
//! A half is an allocation with stamps of its own, made when first needed, charged to the host as
//! staging and kept; a device maps it once. A copy's pieces alternate the halves of one slot, so
//! that host and device work on different ones. A half is held for one piece only and given back
//! by drop on every exit; then its stamps order the next user. Devices that map no host memory
//! have slots of their own. Any thread may take halves. `SLOTS` is a leaf lock.

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
use crate::sync::{Wakers, now_ns};
use crate::tick;
use crate::timeline::{DeviceId, Fate};
use crate::wait;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A half in a copy's hands.
pub(crate) struct Half {
    /// Its seat, given back with it; none for a transient one.
    seat: Option<Seated>,
    pub(crate) at: Ref,
    /// Keeps the device's mapping of a host half.
    map: Option<MapRef>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    set: Key,
    slot: usize,
    half: usize,
}

/// Which halves a device's copies use: those of the host, by size, or its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// The host's halves of a size, mapped by whoever copies through them.
    Host(u64),
    /// A device's own transfer memory.
    Own(DeviceId, u64),
}

/// The two slots of one key.
struct Set {
    key: Key,
    slots: [[Seat; 2]; 2],
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
    /// The halves it takes: those of its device's key, until that does not map one.
    key: Option<Key>,
    slot: Option<usize>,
    next: usize,
    /// Whether no half was free for so long that the call takes transient ones.
    starved: bool,
}

/// Returns the key of the halves that a device copies through.
pub(crate) fn key_of(device: &Owner) -> Key {
    let half_bytes = device.facts.half_bytes;
    match device.facts.import_align_bytes {
        _ if device.is_host() => Key::Host(half_bytes),
        Some(align) if MAPS_HOST && align <= page_bytes() => Key::Host(half_bytes),
        _ => Key::Own(device.id, half_bytes),
    }
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
        let at = set.slots.get(slot)?.get(half)?.at.as_ref()?;
        Some(stamps_now(&at.stamps))
    }
}

/// Takes the lane's next half, whose device is `device`; waits for one at most 200 ms, and where no
/// thread may block only without room, then makes a transient one of at most 1 MiB, so that a
/// future nobody polls starves no copy (S7.8). A device that does not map a host half copies
/// through its own, made ready for what the host does with it.
pub(crate) async fn take(device: &Arc<Owner>, lane: &mut Lane, host: Access) -> Outcome<Half> {
    let mut key = *lane.key.get_or_insert(key_of(device));
    let half = loop {
        if let Some(half) = take_of(device, lane, key).await? {
            break half;
        }
        // Found at the second time: a device's own half needs no mapping.
        key = Key::Own(device.id, half_bytes(key));
        *lane = Lane { key: Some(key), ..Lane::default() };
    };
    if !half.at.owner.is_host() {
        reclaim::ready_half(&half.at, host).await?;
    }
    Ok(half)
}

/// Takes a half of a key, and makes sure that it has memory that the device reaches; none if the
/// device does not map it.
async fn take_of(device: &Arc<Owner>, lane: &mut Lane, key: Key) -> Outcome<Option<Half>> {
    life::check_lost(device)?;
    let asked_ns = now_ns();
    let place = poll_fn(|cx| {
        if let Some(place) = try_seat(key, lane) {
            return Poll::Ready(Some(place));
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
        try_seat(key, lane).map_or(Poll::Pending, |place| Poll::Ready(Some(place)))
    })
    .await;
    // Given back on every exit from here on.
    let seat = place.map(Seated);
    let (known, map) =
        place.and_then(|place| with_seat(place, |seat| seat.of(device))).unwrap_or_default();
    // One that a lost device left undone serves nobody any more (S7.9).
    let usable = known.filter(|at| !is_spoiled(at));
    let (at, map) = match usable {
        Some(at) => (at, map),
        None => {
            let len_max = if seat.is_some() { u64::MAX } else { TRANSIENT_BYTES };
            let at = make(device, key, half_bytes(key).min(len_max)).await?;
            if let Some(place) = place {
                with_seat(place, |seat| {
                    seat.map.clear();
                    seat.at = Some(at.clone());
                });
            }
            (at, None)
        }
    };
    let map = match (map, key) {
        (None, Key::Host(_)) if MAPS_HOST && !device.is_host() => match map_half(device, &at)? {
            Some(map) => Some(map),
            None => return Ok(None),
        },
        (map, _) => map,
    };
    if let Some(place) = place.filter(|_| MAPS_HOST) {
        with_seat(place, |seat| seat.keep_map(map.as_ref()));
    }
    Ok(Some(Half { at, seat, map }))
}

/// Whether there is room for a transient half beside all staging that there is.
fn has_room() -> bool {
    let books = &host_owner().heap.lock().books;
    let left = STAGING_BYTES.saturating_sub(books.bytes_in(Where::Staging));
    books.room_bytes().min(left) >= TRANSIENT_BYTES
}

/// Takes the next seat of the lane's slot, or of a slot nobody holds a half of.
fn try_seat(key: Key, lane: &mut Lane) -> Option<Place> {
    let mut sets = SLOTS.lock();
    let set = match sets.iter().position(|set| set.key == key) {
        Some(at) => &mut sets[at],
        None => {
            sets.push(Set { key, slots: Default::default() });
            sets.last_mut()?
        }
    };
    let free = |slot: &[Seat; 2]| slot.iter().all(|seat| !seat.taken);
    let own = lane.slot.filter(|slot| !set.slots[*slot][lane.next].taken);
    let (slot, half) = match own {
        Some(slot) => (slot, lane.next),
        // The first piece starts with a slot's first half (S7.5); so does one whose slot another
        // call came into between two pieces.
        None => (set.slots.iter().position(free)?, 0),
    };
    set.slots[slot][half].taken = true;
    lane.slot = Some(slot);
    lane.next = 1 - half;
    Some(Place { set: key, slot, half })
}

impl Seat {
    /// Returns the half's memory, and a device's mapping of it.
    fn of(&self, device: &Owner) -> (Option<Ref>, Option<MapRef>) {
        let mut maps = self.map.iter().filter(|_| MAPS_HOST);
        let map = maps.find(|map| map.mapping().device.id == device.id).cloned();
        (self.at.clone(), map)
    }

    /// Keeps a device's mapping of the half, so that it is made once.
    fn keep_map(&mut self, map: Option<&MapRef>) {
        let Some(map) = map else { return };
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
struct Seated(Place);

impl Drop for Seated {
    fn drop(&mut self) {
        with_seat(self.0, |seat| seat.taken = false);
        wake();
    }
}

/// Gives `f` a seat; none where the device that its set was of is lost.
fn with_seat<R>(place: Place, f: impl FnOnce(&mut Seat) -> R) -> Option<R> {
    let mut sets = SLOTS.lock();
    let set = sets.iter_mut().find(|set| set.key == place.set)?;
    Some(f(&mut set.slots[place.slot][place.half]))
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

fn half_bytes(key: Key) -> u64 {
    match key {
        Key::Host(bytes) | Key::Own(_, bytes) => bytes,
    }
}

/// Makes a half's memory, charged to the host as staging.
fn make(device: &Arc<Owner>, key: Key, len: u64) -> impl Future<Output = Outcome<Ref>> {
    life::at_stop(forget);
    let owner = match key {
        Key::Host(_) => host_owner(),
        Key::Own(..) => device,
    };
    reclaim::create_half(owner, len)
}

fn map_half(device: &Arc<Owner>, at: &Ref) -> Outcome<Option<MapRef>> {
    let bytes = at.bytes.expect("the host always finds the bytes of its own halves");
    borrow::share(device, at.record(), &|driver| driver.import_host(bytes))
}

impl Half {
    /// Returns the most bytes a piece through this half may have.
    pub(crate) fn len(&self) -> u64 {
        self.at.len()
    }

    /// Whether a loss of a device that used it, or owns it, has spoiled it (S7.9).
    pub(crate) fn is_spoiled(&self) -> bool {
        is_spoiled(&self.at)
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
        if !MAPS_HOST || !self.at.owner.is_host() || !matches!(key_of(device), Key::Host(_)) {
            return Ok(None);
        }
        let Some(map) = map_half(device, &self.at)? else { return Ok(None) };
        if let Some(Seated(place)) = self.seat {
            with_seat(place, |seat| seat.keep_map(Some(&map)));
        }
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
    let own = |set: &Set| matches!(set.key, Key::Own(id, _) if id == device);
    let of_device = |map: &MapRef| map.mapping().device.id == device;
    let (mut dropped, mut maps) = (Vec::new(), Vec::new());
    while let Some(at) = sets.iter().position(own) {
        dropped.push(sets.remove(at));
    }
    for set in sets.iter_mut().filter(|_| MAPS_HOST) {
        for seat in set.slots.as_flattened_mut() {
            while let Some(at) = seat.map.iter().position(of_device) {
                maps.push(seat.map.remove(at));
            }
        }
    }
    drop(sets);
    drop((dropped, maps));
}

/// Whether devices may copy through halves of the host's: those of browsers have their own.
const MAPS_HOST: bool = cfg!(not(target_family = "wasm"));
const TRANSIENT_BYTES: u64 = 1 << 20;
/// The most bytes of staging beside which a transient half is taken without a wait.
const STAGING_BYTES: u64 = 256 << 20;

/// Guards which halves there are and which are taken. A leaf lock.
static SLOTS: Global<Mutex<Vec<Set>>> = Global::new(Mutex::new(Vec::new()));
static WAITERS: std::sync::OnceLock<Wakers> = std::sync::OnceLock::new();
