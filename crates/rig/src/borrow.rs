//! Borrows: a buffer on another device over the same bytes, without a copy (S4.7 to S4.11).
//!
//! The first row of the table of S4.7 that fits decides. A mapping covers the whole allocation and
//! is shared by all borrows of it on that device. Any thread may borrow; of two racing first
//! borrows one mapping stays. The root's `extra` lock orders borrows against releases; no driver
//! is called under it.

use crate::allocation::mapping::{MapRef, MapState, Mapping};
use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory};
use crate::buffer::{Buffer, On};
use crate::bytes::HostBytes;
use crate::device::Device;
use crate::drain;
use crate::driver::{Access, Driver, Import};
use crate::entry;
use crate::error::{Misuse, Outcome, Result};
use crate::life;
use crate::sync::{HAS_THREADS, Ordering};
use crate::tick;
use std::sync::Arc;

/// Returns a buffer on `device` over the same bytes, or none where that takes a copy (S4.7). It
/// shares stamps, claims and access with the original; borrowing a borrow maps the same memory.
/// Never waits for work.
///
/// # Errors
///
/// - `Misuse`: the buffer is dead.
/// - `Lost`: either device is lost, or a point of the memory is a lost device's and not done.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("borrow example")?;
/// let buffer = rig::host().create_buffer(4)?;
/// let there = rig::borrow(&device, &buffer)?.expect("a memory device reaches the host's bytes");
/// let point = device.prepare().fill(&there, 7).build()?.submit(&[], &[])?;
///
/// // They are the same bytes with the same stamps, so the host's read waits for the device.
/// assert_eq!(buffer.stamps().write, Some(point));
/// assert_eq!(buffer.read(|bytes| bytes[0])?, 7);
/// # Ok(())
/// # }
/// ```
pub fn borrow(device: &Device, buffer: &Buffer) -> Result<Option<Buffer>> {
    Ok(borrow_on(device, buffer)?)
}

pub(crate) fn borrow_on(device: &Device, buffer: &Buffer) -> Outcome<Option<Buffer>> {
    entry::check("borrow")?;
    buffer.check_live("borrow")?;
    life::check_lost(&device.owner)?;
    buffer.check_losses(Access::Write)?;
    let (target, root) = (&device.owner, buffer.at.record());
    if target.id == root.owner.id {
        return Ok(Some(buffer.through(On::Owner)));
    }
    if target.has_files || root.is_file() {
        return Ok(None);
    }
    if root.memory == Memory::Empty {
        return Ok(Some(empty_on(target, buffer)));
    }
    if root.is_mapped_buffer() {
        return Ok(target.is_host().then(|| buffer.through(On::Host)));
    }
    match root.bytes {
        Some(_) if target.is_host() => Ok(Some(buffer.through(On::Host))),
        Some(bytes) if target.facts.import_align_bytes.is_some() => {
            Ok(on(buffer, map_host(target, root, bytes)?))
        }
        _ => Ok(on(buffer, map_peer(target, root)?)),
    }
}

fn on(buffer: &Buffer, map: Option<MapRef>) -> Option<Buffer> {
    map.map(|map| buffer.through(On::Mapped(map)))
}

/// A buffer of 0 bytes borrows anywhere without a mapping (S4.3).
fn empty_on(target: &Arc<Owner>, buffer: &Buffer) -> Buffer {
    let made = Mapping::new(target, buffer.at.record());
    *made.state.lock() = MapState::Released;
    target.heap.lock().maps.leave(made.place.load(Ordering::Relaxed));
    buffer.through(On::Mapped(MapRef::new(made)))
}

fn map_host(
    target: &Arc<Owner>,
    root: &Arc<Allocation>,
    bytes: HostBytes,
) -> Outcome<Option<MapRef>> {
    let Some(align) = target.facts.import_align_bytes else { return Ok(None) };
    let len = match root.memory {
        Memory::Pool { class, .. } => class.bytes(),
        _ => bytes.len_bytes(),
    };
    let whole = bytes.address().is_multiple_of(align) && len.is_multiple_of(align);
    if !whole || root.memory == Memory::Small && align > 1 {
        return Ok(None);
    }
    share(target, root, &|driver| driver.import_host(bytes))
}

pub(crate) fn map_peer(target: &Arc<Owner>, root: &Arc<Allocation>) -> Outcome<Option<MapRef>> {
    let owner = &root.owner;
    if !MAPS_PEERS || target.driver.kind() != owner.driver.kind() {
        return Ok(None);
    }
    share(target, root, &|driver| match life::InFlight::new(owner) {
        Ok(peer) => driver.import_peer(&**peer.driver(), root.region),
        Err(_) => Import::None,
    })
}

/// Joins the mapping there is, or makes one. From before the import on, the mapping stands in the
/// record, so that the bytes outlive it and nobody imports them twice.
pub(crate) fn share(
    target: &Arc<Owner>,
    root: &Arc<Allocation>,
    import: &dyn Fn(&Arc<dyn Driver>) -> Import,
) -> Outcome<Option<MapRef>> {
    let made = match join(target, root)? {
        Joined::There(map) => return Ok(Some(map)),
        Joined::Made(made) => made,
    };
    // What was borrowed before may be waiting for just this.
    life::drain(target);
    // The memory has one more device now, whose submissions allocate nothing (S0.8).
    root.stamps.make_room();
    let answer = life::InFlight::new(target).map(|call| import(call.driver()));
    let Ok(Import::Mapped(region)) = answer else {
        life::with_after(|after| {
            let _draining = target.draining.begin();
            drain::forget_mapping(&made, after);
        });
        return match answer? {
            Import::Fault(fault) => Err(life::fault(target, &fault)),
            Import::Mapped(_) | Import::None => Ok(None),
        };
    };
    made.imported(region);
    tick::arm(target);
    let map = made.with_root(|_, _| revive(Arc::clone(&made)));
    if HAS_THREADS && root.claims.is_dead() {
        drop(map);
        life::drain(target);
        return Misuse::Dead { why: root.why_dead() }.of("borrow");
    }
    Ok(Some(map))
}

enum Joined {
    There(MapRef),
    /// It stands in the record, and is to be imported.
    Made(Arc<Mapping>),
}

/// Joins the mapping that exists, reviving one that is due, or enters a new one; waits out one
/// that the driver is making or releasing.
fn join(target: &Arc<Owner>, root: &Arc<Allocation>) -> Outcome<Joined> {
    loop {
        {
            let mut extra = root.extra.lock();
            if root.claims.is_dead() {
                drop(extra);
                return Misuse::Dead { why: root.why_dead() }.of("borrow");
            }
            let Some(map) = extra.maps.iter().find(|map| map.device.id == target.id) else {
                let made = Mapping::new(target, root);
                extra.maps.push(Arc::clone(&made));
                return Ok(Joined::Made(made));
            };
            let state = *map.state.lock();
            if matches!(state, MapState::Live | MapState::Due(_)) {
                return Ok(Joined::There(revive(Arc::clone(map))));
            }
        }
        std::thread::yield_now();
    }
}

/// Takes a share of a mapping that is live, due or imported; the caller holds the root's `extra`.
fn revive(map: Arc<Mapping>) -> MapRef {
    *map.state.lock() = MapState::Live;
    MapRef::new(map)
}

impl Buffer {
    /// Returns a buffer on `device` over the same bytes; see [`borrow`].
    ///
    /// # Errors
    ///
    /// Those of [`borrow`].
    pub fn borrow(&self, device: &Device) -> Result<Option<Self>> {
        borrow(device, self)
    }
}

/// Whether a device may map another's memory: a browser's never does.
pub(crate) const MAPS_PEERS: bool = cfg!(not(target_family = "wasm"));
