//! Copies by the route that facts choose (S7.1 to S7.3).
//!
//! A copy returns with the bytes in its destination. Any thread may copy; claims are held only
//! while bytes move.

use crate::access::{Side as Claimed, check_claim, claim_host, move_now, part_bytes};
use crate::allocation::mapping::MapRef;
use crate::allocation::owner::Owner;
use crate::allocation::{Call, Extra, Memory};
use crate::borrow::{self, MAPS_PEERS};
use crate::buffer::{Buffer, On};
use crate::driver::{Access, Region, Span};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, Result, public};
use crate::files::{read_file, write_file};
use crate::life;
use crate::piece::{End, device_copy, file_to_file, note, staged, staged_through};
use crate::profile::{self, What};
use crate::route::{Peer, Peers, Place, Route, Side, route};
use crate::staging::share_halves;
use crate::sync::await_native;
use crate::timeline::{DeviceId, track};
use crate::wait;
use std::borrow::Borrow;
use std::sync::Arc;

/// Copies all of `src` to `dst`, which are of one length, and returns with the bytes there. The
/// host moves them where it addresses both sides; a device where it reaches both; else they pass
/// through staging. Waits for what the copy follows, and for the copy.
///
/// # Errors
///
/// In this order (S7.1): `Misuse` for a dead source, a dead destination, lengths that differ,
/// overlap, a read-only destination; `Lost` for the source's devices, the destination's; then what
/// the moves meet: `Lost`, `Misuse::Busy`, `OutOfMemory` of the host for staging, `Unsupported` on
/// a device that runs no copies.
///
/// # Examples
///
/// ```
/// async fn upload(src: &rig::Buffer) -> rig::Result<rig::Buffer> {
///     let device = rig::memory::open("copy_async example")?;
///     let dst = device.create_buffer_async(src.len()).await?;
///     rig::copy_async(src, &dst).await?;
///     Ok(dst)
/// }
///
/// # let mut future = std::pin::pin!(async {
/// let there = upload(&rig::wrap(vec![1_u8, 2, 3, 4])).await.unwrap();
/// assert_eq!(there.read_async(|bytes| bytes.to_vec()).await.unwrap(), [1, 2, 3, 4]);
/// # });
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # while future.as_mut().poll(&mut context).is_pending() {
/// #     std::thread::yield_now();
/// # }
/// ```
// Not async itself: of a public async function the compiler makes all code here, and once more in
// the program that calls it, which keeps parts of both.
pub fn copy_async(src: &Buffer, dst: &Buffer) -> impl Future<Output = Result<()>> {
    public(copy_at(src, dst))
}

/// Copies between buffers that are lent, or given.
pub(crate) async fn copy_at(src: impl Borrow<Buffer>, dst: impl Borrow<Buffer>) -> Outcome<()> {
    let (src, dst) = (src.borrow(), dst.borrow());
    if copy_now(src, dst)? { Ok(()) } else { copy_on(src, dst).await }
}

/// Checks a copy, and makes it if the host does that and waits for nothing; answers whether it did.
pub(crate) fn copy_now(src: &Buffer, dst: &Buffer) -> Outcome<bool> {
    entry::check("copy")?;
    src.check_live("copy")?;
    dst.check_live("copy")?;
    if src.len() != dst.len() {
        let what = Misuse::LengthsDiffer { src_bytes: src.len(), dst_bytes: dst.len() };
        return what.of("copy");
    }
    if src.overlaps(dst) {
        return Misuse::Overlap.of("copy");
    }
    dst.check_writable("copy")?;
    let waits = [src.next_point(Access::Read)?, dst.next_point(Access::Write)?];
    life::drain(&src.at.owner);
    if dst.at.owner.id != src.at.owner.id {
        life::drain(&dst.at.owner);
    }
    if src.is_empty() {
        return Ok(true);
    }
    if waits == [None, None] { move_now("copy", src, dst) } else { Ok(false) }
}

/// Makes a copy that was checked.
pub(crate) async fn copy_on(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let _calls = [Call::moving(&src.at), Call::moving(&dst.at)];
    let (route, _peer) = choose(src, dst)?;
    run(route, src, dst).await
}

async fn run(route: Route, src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let (buffer, end, access) = match route {
        _ if src.at.is_file() && dst.at.is_file() => {
            return await_native!(file_to_file(src, dst));
        }
        Route::HostCopy | Route::FileRead | Route::FileWrite | Route::FileToFile => {
            return by_host(src, dst).await;
        }
        Route::Direct { by } => return direct(by, src, dst).await,
        Route::StagedIn { .. } | Route::FileToDevice { .. } => {
            (dst, End::Buffer(src), Access::Write)
        }
        Route::StagedOut { .. } | Route::DeviceToFile { .. } => {
            check_claim("copy", Claimed { buffer: dst, access: Access::Write })?;
            (src, End::Buffer(dst), Access::Read)
        }
        Route::StagedThrough { .. } if share_halves(&src.at.owner, &dst.at.owner) => {
            return await_native!(staged_through(src, dst));
        }
        // Between halves of two kinds the host moves the pieces (S7.7).
        Route::StagedThrough { .. } => (src, End::Device(dst), Access::Read),
        Route::WantsPeer { by } | Route::Unsupported { device: by } => {
            return Err(Failed::unsupported(&track(by).name(), "this device runs no copies"));
        }
    };
    staged(buffer, &end, access).await
}

/// Chooses the route, asking for a peer mapping where a row hangs on it; the mapping is kept while
/// the copy runs.
fn choose(src: &Buffer, dst: &Buffer) -> Outcome<(Route, Option<MapRef>)> {
    let kind = |buffer: &Buffer| buffer.at.owner.driver.kind();
    let is_one_kind = MAPS_PEERS && kind(src) == kind(dst);
    let mut peers = if is_one_kind { Peers::UNASKED } else { Peers::NONE };
    let mut kept = None;
    loop {
        let chosen = route(side(src), side(dst), peers);
        let Route::WantsPeer { by } = chosen else { return Ok((chosen, kept)) };
        let (asker, other) = if by == dst.at.owner.id { (dst, src) } else { (src, dst) };
        let map = borrow::map_peer(&asker.at.owner, other.at.record())?;
        let answer = if map.is_some() { Peer::Maps } else { Peer::Cannot };
        if by == dst.at.owner.id {
            peers.dst_maps_src = answer;
        } else {
            peers.src_maps_dst = answer;
        }
        // A route hangs on the last answer alone.
        kept = map;
    }
}

fn side(buffer: &Buffer) -> Side {
    let owner = &buffer.at.owner;
    let place = match buffer.at.memory {
        _ if buffer.at.is_file() => Place::File,
        Memory::Pool { kind, .. } => Place::of_memory(kind, owner.facts.addressed),
        _ if buffer.at.is_addressed() => Place::Addressed,
        _ => Place::Unaddressed,
    };
    Side {
        place,
        device: buffer.device_owner().id,
        owner: owner.id,
        copies: owner.copy_queue.is_some(),
    }
}

/// The host moves all of it, under claims.
async fn by_host(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let sides = [
        Claimed { buffer: src, access: Access::Read },
        Claimed { buffer: dst, access: Access::Write },
    ];
    let _held = claim_host("copy", &sides).await?;
    let bytes = |buffer: &Buffer| part_bytes(buffer, 0, buffer.len());
    if src.at.is_file() {
        return bytes(dst)?.with_mut(|into| read_file(src, 0, into));
    }
    if dst.at.is_file() {
        return bytes(src)?.with(|from| write_file(dst, 0, from));
    }
    bytes(src)?.copy_to(bytes(dst)?);
    Ok(())
}

/// One device moves all of it, and is waited for.
async fn direct(by: DeviceId, src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let device = life::owner_of(by).ok_or_else(|| life::lost_id(by))?;
    let started = profile::begin();
    let from = span_on(&device, src, Access::Read);
    let to = span_on(&device, dst, Access::Write);
    let point = device_copy(&device, (&src.at, from), (&dst.at, to)).await?;
    wait::finish(&device, point.value(), "copy").await?;
    note(started, What::DirectCopy, by, src.len());
    Ok(())
}

/// Returns the range by which `device` names a buffer's bytes.
fn span_on(device: &Arc<Owner>, buffer: &Buffer, access: Access) -> Span {
    let region = if buffer.at.owner.id == device.id {
        buffer.at.region
    } else {
        match &buffer.on {
            On::Mapped(map) if map.mapping().device.id == device.id => map.mapping().region(),
            _ => mapped_region(device, buffer),
        }
    };
    let (offset, len, is_last) = (buffer.offset(), buffer.len(), buffer.is_last());
    Span { region, offset, len, access, is_last }
}

/// Returns the region of the mapping that the route asked for.
fn mapped_region(device: &Arc<Owner>, buffer: &Buffer) -> Region {
    let find = |extra: &mut Extra| {
        extra.maps.iter().find(|map| map.device.id == device.id).map(|map| map.region())
    };
    buffer.at.extra.if_made(find).flatten().unwrap_or(buffer.at.region)
}
