//! What an embedder does for the library where its own means end: no threads, no closures that may
//! run inside a call, and a collector of garbage that takes its time. A browser's page is one.
//!
//! Natively a thread of the library's does what [`pass`] does; an embedder without threads calls
//! it from a timer. Any thread may call anything here.

use crate::access::Claim;
use crate::allocation::{Allocation, Memory, Parts, Ref};
use crate::buffer::{Buffer, Foreign, Use, wrap_foreign};
use crate::bytes::HostBytes;
use crate::collector::{self, Pressure};
use crate::device::Device;
use crate::driver::Region;
use crate::error::Result;
use crate::life;
use crate::sync::MaybeSend;
use crate::tick;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// Does one pass of maintenance (S9.15), and answers when the next one is due; none while no
/// device needs one. Never waits. Waits of the library's make one due at once, as
/// [`take_poke`] tells.
pub fn pass() -> Option<Duration> {
    tick::pass_here()
}

/// Whether a pass is due at once, since somebody waits; forgets it.
pub fn take_poke() -> bool {
    tick::take_poke()
}

/// Sets what rounds two and three ask for more garbage, after the collectors, turn by turn. The
/// first call counts.
pub fn set_pressure(pressure: impl Pressure + 'static) {
    collector::set_pressure(Arc::new(pressure));
}

/// Makes a host buffer over memory of the embedder, without a copy. It is charged to no budget;
/// what keeps the memory is dropped in a drain, once nothing needs the buffer any more.
pub fn wrap(bytes: HostBytes, keeper: impl Any + MaybeSend) -> Buffer {
    wrap_foreign(Foreign { bytes, read_only: false, keeper: Some(Box::new(keeper)) })
}

/// Makes a buffer of a region that the embedder's own driver made of something the program
/// brought. It is charged to no budget, never cached, and goes to the driver's `free` in the end.
///
/// # Errors
///
/// `Lost`.
pub fn wrap_region(device: &Device, region: Region, len: u64) -> Result<Buffer> {
    drop(life::InFlight::new(&device.owner)?);
    let (owner, memory) = (Arc::clone(&device.owner), Memory::Wrapped);
    let record =
        Allocation::new(Parts { owner, region, bytes: None, memory, len, read_only: false });
    tick::arm(&record.owner);
    Ok(Buffer::whole(Ref::new(record), len))
}

/// Returns the region by which a buffer's device names its bytes, for the commands of a submission
/// that names the buffer.
///
/// # Errors
///
/// `Misuse`: the buffer is dead.
pub fn region(buffer: &Buffer) -> Result<Region> {
    buffer.check_live("submit")?;
    Ok(buffer.region())
}

/// Waits like [`Buffer::read_async`] or [`Buffer::write_async`], and answers the access itself
/// instead of running a function in it: for functions that cannot run inside a call. Whoever has
/// one uses the bytes at once and drops it; what conflicts is refused meanwhile.
///
/// # Errors
///
/// Those of [`Buffer::read_async`] and [`Buffer::write_async`].
pub async fn in_place(buffer: &Buffer, what: Use) -> Result<InPlace> {
    let call = match what {
        Use::Read => "read",
        Use::Write => "write",
    };
    let (claim, bytes) = buffer.access(call, what.into()).await?;
    Ok(InPlace { bytes, _claim: claim })
}

/// An access of the host in progress, until it is dropped.
pub struct InPlace {
    bytes: HostBytes,
    _claim: Claim,
}

impl InPlace {
    /// Returns where the bytes are.
    pub fn bytes(&self) -> HostBytes {
        self.bytes
    }
}

impl std::fmt::Debug for InPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InPlace({} bytes)", self.bytes.len_bytes())
    }
}
