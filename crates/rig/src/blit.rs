//! Blits and fills: a buffer's bytes against the program's own, on any device (S6.6).
//!
//! The host moves them where it addresses the buffer, a file is read or written, and else they
//! pass through staging, or are filled by the device. Any thread may call.

use crate::access::{Side as Claimed, claim_host, part_bytes};
use crate::allocation::Call;
use crate::buffer::{Buffer, Use};
use crate::bytes::HostBytes;
use crate::driver::{Access, Op, Part, Work};
use crate::entry;
use crate::error::{Failed, Outcome, Result, check_range};
use crate::files::{fill_file, read_file, write_file};
use crate::hand::{Job, Touch, hand_over};
use crate::life;
use crate::piece::{End, part_of, staged};
use crate::wait;
use std::borrow::Borrow;

/// Copies between a buffer, from `offset` on, and host bytes, which stay until this is over or
/// dropped: out for a read, like [`Buffer::blit_to_async`], else in, like
/// [`Buffer::blit_from_async`]. A driver that takes so many bytes as they are has all of them
/// after the first poll that waits for nothing else, so that they need not stay longer.
///
/// # Errors
///
/// Those of [`Buffer::blit_to_async`] and [`Buffer::blit_from_async`].
pub fn blit(
    buffer: &Buffer,
    offset: u64,
    bytes: HostBytes,
    what: Use,
) -> impl Future<Output = Outcome<()>> {
    blit_at(buffer, offset, bytes, what.into())
}

async fn blit_at(buffer: &Buffer, offset: u64, bytes: HostBytes, access: Access) -> Outcome<()> {
    let call = if access == Access::Read { "blit_to" } else { "blit_from" };
    entry::check(call)?;
    check_range(call, offset, bytes.len_bytes(), buffer.len())?;
    begin(call, buffer, access)?;
    if bytes.len_bytes() == 0 {
        return Ok(());
    }
    let _call = Call::moving(&buffer.at);
    let part = buffer.part(offset, bytes.len_bytes());
    if !part.at.is_file() && !part.at.is_addressed() {
        return staged(&part, &End::Bytes(bytes), access).await;
    }
    let _held = claim_host(call, &[Claimed { buffer: &part, access }]).await?;
    match access {
        Access::Read if part.at.is_file() => bytes.with_mut(|out| read_file(&part, 0, out))?,
        Access::Write if part.at.is_file() => bytes.with(|bytes| write_file(&part, 0, bytes))?,
        Access::Read => part_bytes(&part, 0, part.len())?.copy_to(bytes),
        Access::Write => bytes.copy_to(part_bytes(&part, 0, part.len())?),
    }
    Ok(())
}

/// What a blit or a fill checks, in the order of S0.3.
fn begin(call: &'static str, buffer: &Buffer, access: Access) -> Outcome<()> {
    buffer.check_live(call)?;
    if access == Access::Write {
        buffer.check_writable(call)?;
    }
    buffer.check_losses(access)?;
    life::drain(&buffer.at.owner);
    Ok(())
}

impl Buffer {
    /// Copies bytes out of the buffer, from `offset` on; returns with them in `out`. Reaches any
    /// buffer. Waits for the last write of its memory, and for the copy.
    ///
    /// # Errors
    ///
    /// `Misuse` for a range past the end, a dead buffer, a conflict (`Busy`); `Lost`;
    /// `OutOfMemory` of the host for staging; `Unsupported` on a device without copies.
    pub async fn blit_to_async(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        Ok(blit_at(self, offset, HostBytes::lent_mut(out), Access::Read).await?)
    }

    /// Copies bytes into the buffer, from `offset` on; returns with them there. Reaches any
    /// buffer. Waits for every use of its memory, and for the copy.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_to_async`]; `Misuse` for a read-only buffer.
    pub async fn blit_from_async(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(blit_at(self, offset, HostBytes::lent(bytes), Access::Write).await?)
    }

    /// Sets every byte of the buffer; returns when it is done. Reaches any buffer. Waits for every
    /// use of its memory, and for the fill.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_from_async`].
    pub async fn fill_async(&self, byte: u8) -> Result<()> {
        Ok(fill_at(self, byte).await?)
    }
}

/// Fills a buffer that is lent, or given.
pub(crate) async fn fill_at(buffer: impl Borrow<Buffer>, byte: u8) -> Outcome<()> {
    let buffer = buffer.borrow();
    entry::check("fill")?;
    begin("fill", buffer, Access::Write)?;
    if buffer.is_empty() {
        return Ok(());
    }
    let _call = Call::moving(&buffer.at);
    if buffer.at.is_file() || buffer.at.is_addressed() {
        let side = Claimed { buffer, access: Access::Write };
        let _held = claim_host("fill", &[side]).await?;
        if buffer.at.is_file() {
            return fill_file(buffer, byte);
        }
        part_bytes(buffer, 0, buffer.len())?.fill(byte);
        return Ok(());
    }
    device_fill(buffer, byte).await
}
async fn device_fill(buffer: &Buffer, byte: u8) -> Outcome<()> {
    let device = &buffer.at.owner;
    let queues = &device.facts.queues;
    let fills = |at: &usize| queues.get(*at).is_some_and(|queue| queue.fills);
    let queue = device.copy_queue.filter(fills).or_else(|| (0..queues.len()).find(fills));
    let Some(queue) = queue else {
        return Err(Failed::unsupported(&device.name, "this device runs no fills"));
    };
    let parts = [Part { queue, after: Vec::new(), op: Op::Fill { dst: 0, byte } }];
    let spans = [part_of(buffer, 0, buffer.len(), Access::Write)];
    let work = Work { prepared: None, parts: &parts, spans: &spans };
    let touches = [Touch { at: &buffer.at, access: Access::Write }];
    let job = Job::of("fill", work, &touches);
    let point = hand_over(device, &job).await?;
    wait::finish(device, point.value(), "fill").await
}
