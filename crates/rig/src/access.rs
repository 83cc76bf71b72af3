//! The host's access to bytes: in place by read and write, for good by export.
//!
//! An access waits for what it follows, then claims, then looks at the stamps again: work may have
//! come in between. An async form that finds new work releases its claim and waits anew, so that a
//! future nobody polls holds nothing up; a blocking form keeps its claim over one more wait, so
//! that a stream of submissions cannot starve it (S5). Any thread may call anything; claims end on
//! drop, after a panic too.

use crate::allocation::{Allocation, Call, MAPS_BUFFERS, Pin, Ref};
use crate::buffer::{Buffer, Use};
use crate::bytes::HostBytes;
use crate::claim::{Answer, Ask, Pass};
use crate::driver::{Driver, Fault, Region};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, Result};
use crate::export::Export;
use crate::life;
use crate::sync::{HAS_THREADS, await_native};
use crate::timeline::{Access, DeviceId, Point};
use crate::wait;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A claim of the host on one allocation, released on drop.
pub(crate) struct Claim {
    pub(crate) at: Ref,
    ask: Ask,
}

impl Claim {
    /// Makes the claim a running closure's, beside which conflicting work is refused.
    fn run_closure(&mut self) {
        let (ask, waited) = self.at.claims.run_closure(self.ask);
        self.ask = ask;
        if waited {
            self.at.owner.claim_wakers.wake_all();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.at.release(self.ask);
    }
}

/// One side of an access: which memory, and what for.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) access: Access,
}

impl Side<'_> {
    fn ask(self) -> Ask {
        match self.access {
            Access::Read => Ask::MoverRead,
            Access::Write => Ask::MoverWrite,
        }
    }

    fn pass(self) -> Pass {
        self.buffer.at.pass(self.buffer.token)
    }
}

/// Refuses what a held claim refuses now, before work is handed over whose bytes the claim would
/// then keep from their place (S0.2).
pub(crate) fn check_claim(call: &'static str, side: Side<'_>) -> Outcome<()> {
    let at = &side.buffer.at;
    match at.would(side.ask(), side.pass()) {
        Answer::Waits => Ok(()),
        answer => wait::judge_claim(call, at, answer).map(drop),
    }
}

/// Waits for all that the sides follow, and claims them all, or none.
pub(crate) async fn claim_host(call: &'static str, sides: &[Side<'_>]) -> Outcome<Sides<Claim>> {
    // One claim an allocation: claims of one call never refuse each other (S5.1).
    let merged = merged(sides);
    let _calls = merged.map(|side| side.map(|side| Call::new(&side.buffer.at)));
    loop {
        if !follow_present(&merged).await? && !wait::is_blocking() {
            continue;
        }
        let held = match try_claim(call, &merged)? {
            Tried::Held(held) => held,
            Tried::Waits(side) => {
                let (allocation, ask, pass) = (side.buffer.at.record(), side.ask(), side.pass());
                await_native!(wait::Released { allocation, ask, pass });
                continue;
            }
        };
        if !wait::is_blocking() {
            if HAS_THREADS && !unreached(&merged)?.is_empty() {
                continue;
            }
            // A buffer's memory is mapped once for all accesses together.
            if let Some(at) = unmapped(&merged)? {
                drop(held);
                await_native!(own_bytes(at, Access::Write))?;
                continue;
            }
            return Ok(held);
        }
        // The claims keep conflicting work away, so these waits are the last.
        for side in merged.iter().flatten() {
            await_native!(wait::follow(&side.buffer.at.stamps, side.access))?;
            side.buffer.check_devices()?;
        }
        while let Some(at) = unmapped(&merged)? {
            await_native!(own_bytes(at, Access::Write))?;
        }
        return Ok(held);
    }
}

/// Moves bytes from one allocation to another, about which nothing was found to be waited for, if
/// the host addresses both, or has them mapped, and that is still so under its claims; answers
/// whether it did.
pub(crate) fn move_now(call: &'static str, src: &Buffer, dst: &Buffer) -> Outcome<bool> {
    let addressed = |at: &Allocation| at.bytes.is_some() || at.is_mapped_buffer();
    // Claims of one call never refuse each other, so one memory needs one claim.
    if !addressed(&src.at) || !addressed(&dst.at) || src.same_memory(dst) {
        return Ok(false);
    }
    let (src, dst) =
        (Side { buffer: src, access: Access::Read }, Side { buffer: dst, access: Access::Write });
    let Some((_reads, from)) = claim_now(call, src)? else { return Ok(false) };
    let Some((_writes, into)) = claim_now(call, dst)? else { return Ok(false) };
    from.copy_to(into);
    Ok(true)
}

/// Claims a side that the host addresses, or has mapped, and finds its bytes, if nothing has to be
/// waited for.
pub(crate) fn claim_now<'a>(
    call: &'static str,
    side: Side<'a>,
) -> Outcome<Option<(Moving<'a>, HostBytes)>> {
    let Some(claim) = Moving::claim(call, side)? else { return Ok(None) };
    if side.buffer.next_point(side.access)?.is_some() {
        return Ok(None);
    }
    match bytes_now(side.buffer)? {
        Poll::Ready(bytes) => Ok(Some((claim, bytes))),
        Poll::Pending => Ok(None),
    }
}

/// Returns a buffer's bytes if they are mapped, or need no map. The caller has its claim.
fn bytes_now(buffer: &Buffer) -> Outcome<Poll<HostBytes>> {
    let all = match buffer.at.bytes {
        Some(bytes) => Poll::Ready(bytes),
        None if MAPS_BUFFERS => poll_map(&buffer.at, Access::Write)?,
        None => Poll::Pending,
    };
    Ok(all.map(|bytes| bytes.range(buffer.offset(), buffer.len())))
}

/// The claim of a side whose bytes move at once, released on drop.
pub(crate) struct Moving<'a>(Side<'a>);

impl<'a> Moving<'a> {
    /// Takes it; none if it has to be waited for.
    fn claim(call: &'static str, side: Side<'a>) -> Outcome<Option<Self>> {
        let at = &side.buffer.at;
        match at.ask(side.ask(), side.pass()) {
            Answer::Granted => Ok(Some(Self(side))),
            Answer::Waits if HAS_THREADS => Ok(None),
            answer => wait::judge_claim(call, at, answer).map(|_| None),
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.buffer.at.release(self.0.ask());
    }
}

/// What a call has of each of its sides, of which there are at most two.
pub(crate) type Sides<T> = [Option<T>; 2];

/// Merges the sides that are of one allocation.
fn merged<'a>(sides: &[Side<'a>]) -> Sides<Side<'a>> {
    let mut sides = sides.iter().copied();
    match (sides.next(), sides.next()) {
        (Some(one), Some(other)) if one.buffer.same_memory(other.buffer) => {
            [Some(Side { access: one.access.max(other.access), ..one }), None]
        }
        (one, other) => [one, other],
    }
}

enum Tried<'a> {
    Held(Sides<Claim>),
    Waits(Side<'a>),
}

fn try_claim<'a>(call: &'static str, sides: &Sides<Side<'a>>) -> Outcome<Tried<'a>> {
    let mut held = [None, None];
    for (held, side) in held.iter_mut().zip(sides) {
        let Some(side) = side else { continue };
        let at = &side.buffer.at;
        match at.ask(side.ask(), side.pass()) {
            Answer::Granted => *held = Some(Claim { at: at.clone(), ask: side.ask() }),
            Answer::Waits if HAS_THREADS => return Ok(Tried::Waits(*side)),
            answer => wait::judge_claim(call, at, answer).map(drop)?,
        }
    }
    Ok(Tried::Held(held))
}

/// Waits for what accesses of the host follow now, and not for what comes meanwhile, so that a
/// stream of submissions ends; tells losses before and after. Answers whether nothing came.
pub(crate) async fn follow_present(sides: &Sides<Side<'_>>) -> Outcome<bool> {
    let mut present = unreached(sides)?;
    if present.is_empty() {
        return Ok(true);
    }
    while let Some(point) = present.pop() {
        wait::reach_or_lose(point).await?;
    }
    Ok(unreached(sides)?.is_empty())
}

/// Returns what is left to wait for; tells losses.
fn unreached(sides: &Sides<Side<'_>>) -> Outcome<Vec<Point>> {
    let mut points = Vec::new();
    for side in sides {
        let Some(side) = side else { continue };
        let (stamps, keep) = (&side.buffer.at.stamps, &mut |point| points.push(point));
        side.buffer.check_devices()?;
        wait::each_unreached(stamps, side.access, DeviceId::HOST, keep)?;
    }
    Ok(points)
}

/// Returns an allocation of the sides that the host addresses only while it is mapped, and that
/// is not mapped yet (S1.9); its map is asked for.
fn unmapped<'a>(sides: &Sides<Side<'a>>) -> Outcome<Option<&'a Allocation>> {
    for side in sides.iter().flatten().filter(|_| MAPS_BUFFERS) {
        let at: &Allocation = &side.buffer.at;
        if at.is_mapped_buffer() && poll_map(at, Access::Write)?.is_pending() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Returns the bytes of an allocation for the host; waits until they are mapped where they have to
/// be, for what the host is about to do where that matters. Whoever has no claim looks again: a
/// hand-over may have ended the map.
pub(crate) async fn own_bytes(at: &Allocation, access: Access) -> Outcome<HostBytes> {
    if let Some(bytes) = at.bytes {
        return Ok(bytes);
    }
    let owner = &at.owner;
    let asked = |driver: &Arc<dyn Driver>, waker: &Waker| ask_map(driver, at.region, access, waker);
    let mapped = wait::answer(owner, asked).await?;
    mapped.map_err(|fault| life::fault(owner, &fault))
}

/// Looks for the bytes of an allocation that has to be mapped, which is asked for.
pub(crate) fn poll_map(at: &Allocation, access: Access) -> Outcome<Poll<HostBytes>> {
    let owner = &at.owner;
    let call = life::InFlight::new(owner)?;
    let asked = ask_map(call.driver(), at.region, access, Waker::noop());
    drop(call);
    match asked {
        Poll::Pending => Ok(Poll::Pending),
        Poll::Ready(Ok(bytes)) => Ok(Poll::Ready(bytes)),
        Poll::Ready(Err(fault)) => Err(life::fault(owner, &fault)),
    }
}

fn ask_map(
    driver: &Arc<dyn Driver>,
    region: Region,
    access: Access,
    waker: &Waker,
) -> Poll<std::result::Result<HostBytes, Fault>> {
    match driver.begin_access(region, access) {
        Ok(()) => driver.poll_access(region, waker),
        Err(fault) => Poll::Ready(Err(fault)),
    }
}

/// Returns part of a claimed buffer's bytes, for the host.
pub(crate) fn part_bytes(buffer: &Buffer, offset: u64, len: u64) -> Outcome<HostBytes> {
    let at = &buffer.at;
    if at.bytes.is_none() && !at.is_mapped_buffer() {
        return Ok(HostBytes::empty());
    }
    match bytes_now(buffer)? {
        Poll::Ready(bytes) => Ok(bytes.range(offset, len)),
        Poll::Pending => {
            let why = Fault::new("the driver ended a map beside an access");
            Err(life::fault(&at.owner, &why))
        }
    }
}

/// Waits for what an access in place follows, of a buffer that is given; it is refused what the
/// access would be.
pub(crate) async fn ready(buffer: Buffer, call: &'static str, access: Access) -> Outcome<()> {
    buffer.check_access(call, access)?;
    let side = Side { buffer: &buffer, access };
    follow_present(&[Some(side), None]).await?;
    check_claim(call, side)
}

impl Buffer {
    /// Waits until the host may read the bytes, or write them: for the last write, or for every
    /// use (S3.7). A loss already present is told before anything is waited for.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead, or read-only and to be written.
    /// - `Lost`: the memory is a lost device's, or work that the access follows is lost.
    pub async fn wait_async(&self, what: Use) -> Result<()> {
        if !self.wait_now(what)? {
            follow_present(&[Some(Side { buffer: self, access: what.into() }), None]).await?;
        }
        Ok(())
    }

    /// Answers whether there is nothing to wait for, which then was all of the wait.
    #[inline]
    pub(crate) fn wait_now(&self, what: Use) -> Outcome<bool> {
        entry::check("wait")?;
        self.check_live("wait")?;
        if what == Use::Write {
            self.check_writable("wait")?;
        }
        self.check_devices()?;
        if what == Use::Read && self.at.stamps.is_written() {
            return Ok(true);
        }
        let next = wait::next_point(&self.at.stamps, what.into(), DeviceId::HOST)?;
        Ok(next.is_none())
    }

    /// Gives `f` the bytes in place, and answers its value. Waits for the last write; work
    /// that would write meanwhile is refused, other readers go on.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead; something that conflicts is running (`Busy`).
    /// - `Unsupported`: the host does not address the memory.
    /// - `Lost`: the memory is a lost device's, or its last write is lost.
    pub async fn read_async<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let (_claim, bytes) = self.access("read", Access::Read).await?;
        Ok(bytes.with(f))
    }

    /// Gives `f` the bytes in place to change, and answers its value. Waits for every use;
    /// nothing else reaches the bytes meanwhile.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead or read-only; something that conflicts is running (`Busy`).
    /// - `Unsupported`: the host does not address the memory.
    /// - `Lost`: the memory is a lost device's, or a use is lost.
    pub async fn write_async<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let (_claim, bytes) = self.access("write", Access::Write).await?;
        Ok(bytes.with_mut(f))
    }

    /// Waits for every use once, puts the memory outside the claims for good, and hands the bytes
    /// out (S6.5). An export keeps them alive, past a free too, and is no longer ordered by
    /// anything.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead; something conflicts (`Busy`).
    /// - `Unsupported`: the host does not always address the memory.
    /// - `Lost`: the memory is a lost device's, or any point of it is lost.
    pub async fn export_async(&self) -> Result<Export> {
        Ok(self.export_at().await?)
    }

    pub(crate) async fn export_at(&self) -> Outcome<Export> {
        entry::check("export")?;
        self.check_live("export")?;
        if self.at.is_mapped_buffer() {
            let why = "the host addresses this memory only while it is mapped";
            return Err(self.unaddressed(why));
        }
        self.check_addressed()?;
        self.check_losses(Access::Write)?;
        let _call = Call::new(&self.at);
        let (record, ask) = (self.at.record(), Ask::Export);
        let sides = [Some(Side { buffer: self, access: Access::Write }), None];
        let pinned = loop {
            follow_present(&sides).await?;
            let pass = self.at.pass(self.token);
            // An export holds no claim: only the pin keeps the bytes beside a `free`.
            let pin = Pin::new(record);
            match record.ask(ask, pass) {
                Answer::Waits if HAS_THREADS => {
                    drop(pin);
                    await_native!(wait::Released { allocation: record, ask, pass });
                }
                answer => {
                    wait::judge_claim("export", record, answer)?;
                    // Work that came meanwhile is ordered by nothing, as all work from now on.
                    unreached(&sides)?;
                    break pin;
                }
            }
        };
        let bytes = self.at.bytes.unwrap_or_else(HostBytes::empty);
        let offset = if self.at.bytes.is_some() { self.offset() } else { 0 };
        Ok(Export::new(pinned, bytes.range(offset, self.len())))
    }

    /// Checks what an access in place does ahead of its waits.
    fn check_access(&self, call: &'static str, access: Access) -> Outcome<()> {
        entry::check(call)?;
        self.check_live(call)?;
        if access == Access::Write {
            self.check_writable(call)?;
        }
        self.check_addressed()?;
        self.check_devices()
    }

    /// Checks, waits, claims as a running closure, and finds the bytes.
    pub(crate) async fn access(
        &self,
        call: &'static str,
        access: Access,
    ) -> Outcome<(Claim, HostBytes)> {
        self.check_access(call, access)?;
        let [claim, _] = claim_host(call, &[Side { buffer: self, access }]).await?;
        let Some(mut claim) = claim else {
            return Misuse::Busy.of(call);
        };
        let bytes = part_bytes(self, 0, self.len())?;
        claim.run_closure();
        Ok((claim, bytes))
    }

    fn check_addressed(&self) -> Outcome<()> {
        if self.at.is_addressed() {
            return Ok(());
        }
        Err(self.unaddressed("the host does not address this memory; use blits or a copy"))
    }

    fn unaddressed(&self, why: &str) -> Failed {
        Failed::unsupported(&self.at.owner.name, why)
    }
}
