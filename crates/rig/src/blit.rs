//! Blits and fills: a buffer's bytes against the program's own, on any device (S6.6).
//!
//! The host moves them where it addresses the buffer, a file is read or written, and else they
//! pass through staging, or are filled by the device. Any thread may call.

use crate::access::{Side as Claimed, claim_host, part_bytes};
use crate::allocation::Call;
use crate::buffer::Buffer;
use crate::driver::{Access, Op, Part, Work};
use crate::entry;
use crate::error::{Failed, Outcome, Result, check_range};
use crate::files::{fill_file, read_file, write_file};
use crate::hand::{Job, Touch, hand_over};
use crate::life;
use crate::piece::{Sink, Source, part_of};
use crate::share::{shared_in, shared_out};
use crate::wait;

/// What a blit or a fill checks, in the order of S0.3.
fn begin(call: &'static str, buffer: &Buffer, access: Access) -> Outcome<()> {
    entry::check(call)?;
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
        entry::check("blit_to")?;
        check_range("blit_to", offset, out.len() as u64, self.len())?;
        begin("blit_to", self, Access::Read)?;
        if out.is_empty() {
            return Ok(());
        }
        let _call = Call::moving(&self.at);
        let part = self.view(offset, out.len() as u64)?;
        if self.at.is_file() || self.at.is_addressed() {
            let side = Claimed { buffer: &part, access: Access::Read };
            let _held = claim_host("blit_to", &[side]).await?;
            if self.at.is_file() {
                return Ok(read_file(&part, 0, out)?);
            }
            part_bytes(&part, 0, part.len())?.read_slice(out);
            return Ok(());
        }
        Ok(shared_out(&part, &mut Sink::Slice(out)).await?)
    }

    /// Copies bytes into the buffer, from `offset` on; returns with them there. Reaches any
    /// buffer. Waits for every use of its memory, and for the copy.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_to_async`]; `Misuse` for a read-only buffer.
    pub async fn blit_from_async(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        entry::check("blit_from")?;
        check_range("blit_from", offset, bytes.len() as u64, self.len())?;
        begin("blit_from", self, Access::Write)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let _call = Call::moving(&self.at);
        let part = self.view(offset, bytes.len() as u64)?;
        if self.at.is_file() || self.at.is_addressed() {
            let side = Claimed { buffer: &part, access: Access::Write };
            let _held = claim_host("blit_from", &[side]).await?;
            if self.at.is_file() {
                return Ok(write_file(&part, 0, bytes)?);
            }
            part_bytes(&part, 0, part.len())?.write_slice(bytes);
            return Ok(());
        }
        Ok(shared_in(&Source::Slice(bytes), &part).await?)
    }

    /// Sets every byte of the buffer; returns when it is done. Reaches any buffer. Waits for every
    /// use of its memory, and for the fill.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_from_async`].
    pub async fn fill_async(&self, byte: u8) -> Result<()> {
        begin("fill", self, Access::Write)?;
        if self.is_empty() {
            return Ok(());
        }
        let _call = Call::moving(&self.at);
        if self.at.is_file() || self.at.is_addressed() {
            let side = Claimed { buffer: self, access: Access::Write };
            let _held = claim_host("fill", &[side]).await?;
            if self.at.is_file() {
                return Ok(fill_file(self, byte)?);
            }
            part_bytes(self, 0, self.len())?.fill(byte);
            return Ok(());
        }
        Ok(device_fill(self, byte).await?)
    }
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
