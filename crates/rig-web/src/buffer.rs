//! What the page calls of buffers. Each handle is a number of a table.

use crate::named::{
    Kept, NAMED, buffer_of, buffers_of, device_of, enter, failed, keep, list, text, told, web,
};
use crate::page::{Array, say};
use crate::task;
use crate::told::say_numbers;
use rig::bytes::{HostBytes, InArray};
use rig::embed::{self, Failed, InPlace};
use rig::{Buffer, Claims, Device, Misuse, Point, Use};

/// Makes a host buffer over part of an array of the page.
#[unsafe(no_mangle)]
extern "C" fn wrap(array: u32, offset: f64, len: f64) -> f64 {
    let at = InArray { array, offset: offset as u64 };
    enter(embed::wrap(HostBytes::in_array(at, len as u64), Array(array)))
}

/// Drops what was listed, whatever the sign of its number.
#[unsafe(no_mangle)]
extern "C" fn drop_listed() {
    list().into_iter().for_each(|number| drop_kept(number.abs()));
}

/// Drops a handle, or ends an access, a claim, the claims of a call, or an export; 0 is none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn drop_kept(number: f64) {
    drop(NAMED.with_borrow_mut(|named| named.kept.remove(number)));
}

/// Returns the number of the page's array that holds a buffer's bytes; 0 for none.
#[unsafe(no_mangle)]
extern "C" fn array_of(buffer: f64) -> f64 {
    let place = embed::place(&buffer_of(buffer)).and_then(HostBytes::array);
    place.map_or(0.0, |at| f64::from(at.array))
}

/// Ends all buffers of an allocation.
#[unsafe(no_mangle)]
extern "C" fn free(buffer: f64) -> f64 {
    told(embed::free_now(&buffer_of(buffer)), |()| 0.0)
}

/// Ends all buffers of memory whose bytes the page took away.
#[unsafe(no_mangle)]
extern "C" fn lose(buffer: f64) -> f64 {
    told(embed::end(&buffer_of(buffer), "transferred"), |()| 0.0)
}

/// Makes another handle of a buffer.
#[unsafe(no_mangle)]
extern "C" fn again(buffer: f64) -> f64 {
    enter(buffer_of(buffer))
}

/// Answers the number of the GPU buffer that a submission's commands use, without lending it; 0
/// for memory that is none.
#[unsafe(no_mangle)]
extern "C" fn region_of(buffer: f64) -> f64 {
    let buffer = buffer_of(buffer);
    let is_gpu = web(&buffer.device()).is_some();
    told(embed::region(&buffer), |region| if is_gpu { region.0 as f64 } else { 0.0 })
}

/// Whether a buffer is dead.
#[unsafe(no_mangle)]
extern "C" fn is_dead(buffer: f64) -> u32 {
    u32::from(buffer_of(buffer).dead().is_some())
}

/// Says the stamps of a buffer: the count of its writes, at most 1, the device and the value of
/// each; then the same of its uses.
#[unsafe(no_mangle)]
extern "C" fn stamps(buffer: f64) {
    let stamps = buffer_of(buffer).stamps();
    points(stamps.write.as_slice());
    points(&stamps.uses);
}

fn points(all: &[Point]) {
    say(all.len() as f64);
    for point in all {
        let of_point = |device: &Device| device.id() == point.device_id();
        let index = NAMED.with_borrow(|named| named.devices.iter().position(of_point));
        say(index.unwrap_or_default() as f64);
        say(point.value() as f64);
    }
}

/// Makes a view.
#[unsafe(no_mangle)]
extern "C" fn view(buffer: f64, offset: f64, len: f64) -> f64 {
    told(embed::view("view", &buffer_of(buffer), offset as u64, len as u64), enter)
}

/// Borrows a buffer on a device; 0 for none.
#[unsafe(no_mangle)]
extern "C" fn borrow(device: u32, buffer: f64) -> f64 {
    let borrowed = embed::borrow(&device_of(device), &buffer_of(buffer));
    told(borrowed, |buffer| buffer.map_or(0.0, enter))
}

/// Waits until an access in place may start.
#[unsafe(no_mangle)]
extern "C" fn ready(ticket: f64, buffer: f64, write: u32) {
    task::start(ticket, InPlace::ready(buffer_of(buffer), use_of(write)));
}

/// Starts an access in place that waits for nothing; answers its handle, or 0 if it would wait, and
/// says where the bytes are.
#[unsafe(no_mangle)]
extern "C" fn access(buffer: f64, write: u32) -> f64 {
    let buffer = buffer_of(buffer);
    let Some(access) = task::once(InPlace::begin(&buffer, use_of(write))) else { return 0.0 };
    told(access, |access| {
        say_place(access.bytes());
        keep(Kept::Access(access))
    })
}

/// Says where bytes are: their array, the offset in it, their length.
fn say_place(bytes: HostBytes) {
    let (array, offset) = bytes.array().map_or((0, 0), |at| (at.array, at.offset));
    say_numbers(&[array.into(), offset, bytes.len_bytes()]);
}

/// Copies all of a buffer to another; answers what [`written`] does of the source.
#[unsafe(no_mangle)]
extern "C" fn copy(ticket: f64, src: f64, dst: f64) -> f64 {
    let (src, dst) = (buffer_of(src), buffer_of(dst));
    let written = written(&src);
    task::start_move(ticket, embed::copy(src, dst));
    written
}

/// Copies between a buffer and an array of the page, which is let go in the end: out for calls 0
/// and 2, in for call 1. Answers what [`written`] does of the buffer.
#[unsafe(no_mangle)]
extern "C" fn blit(ticket: f64, buffer: f64, offset: f64, array: u32, len: f64, call: u32) -> f64 {
    let buffer = buffer_of(buffer);
    let written = written(&buffer);
    let bytes = HostBytes::in_array(InArray { array, offset: 0 }, len as u64);
    task::start_move(ticket, async move {
        let _array = Array(array);
        let done = embed::blit(&buffer, offset as u64, bytes, use_of(u32::from(call == 1))).await;
        let call = ["blit_to", "blit_from", "to_array"][call as usize];
        done.map_err(|error| error.renamed(call))
    });
    written
}

/// Returns the value of a buffer's last write, if its own device wrote last; else 0.
fn written(buffer: &Buffer) -> f64 {
    embed::own_write(buffer).map_or(0.0, |value| value as f64)
}

/// Fills part of a buffer.
#[unsafe(no_mangle)]
extern "C" fn fill(ticket: f64, buffer: f64, offset: f64, len: f64, byte: u32) {
    let part = embed::view("fill", &buffer_of(buffer), offset as u64, len as u64);
    match part {
        Ok(part) => task::start_move(ticket, embed::fill(part, byte as u8)),
        Err(error) => task::settle(ticket, Err(error)),
    }
}

/// Claims a buffer for reading.
#[unsafe(no_mangle)]
extern "C" fn claim_read(buffer: f64) -> f64 {
    let claim = buffer_of(buffer).claim_read();
    told(claim, |claim| keep(Kept::Read(claim)))
}

/// Claims the buffers that were listed: how many groups they are, the count of each, then these.
/// The first group is read, each of the others donated. Answers the number of the claims.
#[unsafe(no_mangle)]
extern "C" fn claim_all() -> f64 {
    let list = list();
    let (counts, numbers) = list[1..].split_at(list[0] as usize);
    let mut counts = counts.iter().map(|count| *count as usize);
    let claims = embed::claim(&buffers_of(numbers), counts.next().unwrap_or(0), counts);
    let claims = claims.map_err(|error| error.renamed("with_claims"));
    told(claims, |claims| keep(Kept::Claims(claims)))
}

/// Whether claims hold a buffer exclusively.
#[unsafe(no_mangle)]
extern "C" fn is_exclusive(claims: f64, buffer: f64) -> u32 {
    let claims = claims_of(claims);
    u32::from(claims.is_some_and(|claims| claims.is_exclusive(&buffer_of(buffer))))
}

/// Takes over a buffer under claims that hold it exclusively, for the reason that was put in;
/// answers the new buffer.
#[unsafe(no_mangle)]
extern "C" fn consume(claims: f64, buffer: f64) -> f64 {
    let why = text();
    match claims_of(claims) {
        Some(claims) => told(embed::consume_now(&claims, &buffer_of(buffer), &why), enter),
        None => failed(Failed::misuse("consume", Misuse::ClaimsEnded)),
    }
}

fn claims_of(number: f64) -> Option<Claims> {
    NAMED.with_borrow(|named| match named.kept.find(number) {
        Some(Kept::Claims(claims)) => Some(Claims::clone(claims)),
        _ => None,
    })
}

/// Exports a buffer, once every use is over; settles with the export's number, and says where the
/// bytes are.
#[unsafe(no_mangle)]
extern "C" fn export(ticket: f64, buffer: f64) {
    let buffer = buffer_of(buffer);
    task::start(ticket, async move {
        let export = embed::export(&buffer).await?;
        embed::exported(&export, Use::Read).map(say_place)?;
        task::answer(keep(Kept::Export(export)));
        Ok(())
    });
}

/// Says whether the bytes of an export can be copied now: out, or in where `write` is above 0.
#[unsafe(no_mangle)]
extern "C" fn may_copy(export: f64, write: u32) -> f64 {
    let what = use_of(write);
    NAMED.with_borrow(|named| match named.kept.find(export) {
        Some(Kept::Export(export)) => told(embed::exported(export, what), |_| 0.0),
        _ => 0.0,
    })
}

/// Lends the GPU buffer of a buffer for good; answers its number.
#[unsafe(no_mangle)]
extern "C" fn lend(buffer: f64) -> f64 {
    let buffer = buffer_of(buffer);
    let region = embed::lend(&buffer).and_then(|_| embed::region(&buffer));
    told(region, |region| region.0 as f64)
}

fn use_of(write: u32) -> Use {
    if write == 0 { Use::Read } else { Use::Write }
}
