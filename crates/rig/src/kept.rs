//! Kept claims: the caller's right to read, and to take a buffer's bytes over (S5.2 to S5.6).
//!
//! Kept claims never wait and refuse no device work. They end on drop, after a panic too. Any
//! thread may hold one. No lock is held while a caller's function runs.

use crate::allocation::{Allocation, Ref};
use crate::buffer::Buffer;
use crate::claim::{Answer, Ask, Pass};
use crate::claimed::Claimed;
use crate::driver::Access;
use crate::entry;
use crate::error::{Misuse, Outcome, Result};
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::wait;
use std::borrow::Borrow;
use std::sync::Arc;

/// The right to read a buffer's memory; it ends on drop.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let buffer = rig::host().create_buffer(4)?;
/// let claim = buffer.claim_read()?;
/// assert!(buffer.read(|_| ()).is_ok());
/// assert!(buffer.write(|_| ()).is_err(), "it is claimed");
/// drop(claim);
/// assert!(buffer.write(|_| ()).is_ok());
/// # Ok(())
/// # }
/// ```
pub struct ReadClaim {
    _claimed: Claimed,
}

impl Buffer {
    /// Claims the memory for reading: the host cannot write it, take it over or free it meanwhile.
    /// Never waits; a reader claims first and waits then.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead, or claimed to be written (`Busy`).
    /// - `Lost`: the memory is a lost device's, or a point of it is a lost device's and not done.
    pub fn claim_read(&self) -> Result<ReadClaim> {
        entry::check("claim_read")?;
        self.check_live("claim_read")?;
        self.check_losses(Access::Write)?;
        let claimed = Claimed::new(&self.at, self.at.pass(self.token));
        let claimed = claimed.map_err(|answer| wait::refused_claim("claim_read", &self.at, answer));
        Ok(ReadClaim { _claimed: claimed? })
    }
}

impl std::fmt::Debug for ReadClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadClaim")
    }
}

/// The claims of one call of [`Claims::with`].
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::{Buffer, Claims, Result};
///
/// /// Adds 1 to each byte: in place if nobody else can notice, else in new memory.
/// fn increment(argument: &Buffer) -> Result<Buffer> {
///     Claims::with(&[], &[&[argument]], |claims| {
///         let answer = if claims.is_exclusive(argument) {
///             claims.consume(argument, "incremented in place")?
///         } else {
///             let fresh = argument.device().create_buffer(argument.len())?;
///             rig::copy(argument, &fresh)?;
///             fresh
///         };
///         answer.write(|bytes| bytes.iter_mut().for_each(|byte| *byte += 1))?;
///         Ok(answer)
///     })?
/// }
///
/// let first = rig::host().create_buffer(4)?;
/// first.fill(1)?;
/// let second = increment(&first)?;
/// assert_eq!(first.dead().as_deref(), Some("incremented in place"));
///
/// let claim = second.claim_read()?; // Somebody notices this time.
/// let third = increment(&second)?;
/// assert!(second.dead().is_none());
/// assert_eq!(third.read(|bytes| bytes[0])?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Claims {
    inner: Arc<Inner>,
}

struct Inner {
    /// Which object holds an exclusive claim; never 0.
    token: u64,
    /// Guards what is held. A leaf lock.
    held: Mutex<Vec<Held>>,
    ended: AtomicBool,
}

struct Held {
    at: Ref,
    ask: Ask,
}

impl Claims {
    /// Claims everything for reading, each donation exclusively where that can be, and calls `f`.
    /// A donation (one or more buffers) becomes exclusive only if each of its buffers spans a
    /// writable allocation inside the claims with no other claim and no call in progress; else all
    /// of it stays read. After `f`, or its panic, everything is released. Never waits.
    ///
    /// # Errors
    ///
    /// Before `f`, everything released: `Misuse` for a dead buffer, one exclusively claimed
    /// (`Busy`), a donation that overlaps another or a read; `Lost` as [`Buffer::claim_read`].
    pub fn with<R>(
        reads: &[&Buffer],
        donations: &[&[&Buffer]],
        f: impl FnOnce(&Self) -> R,
    ) -> Result<R> {
        let claims = Self::begin_with(reads, donations)?;
        let _end = End(&claims);
        Ok(f(&claims))
    }

    /// Claims like [`Claims::with`], for a function that waits.
    ///
    /// # Errors
    ///
    /// Those of [`Claims::with`].
    pub async fn with_async<R>(
        reads: &[&Buffer],
        donations: &[&[&Buffer]],
        f: impl AsyncFnOnce(&Self) -> R,
    ) -> Result<R> {
        let claims = Self::begin_with(reads, donations)?;
        let _end = End(&claims);
        Ok(f(&claims).await)
    }

    fn begin_with(reads: &[&Buffer], donations: &[&[&Buffer]]) -> Outcome<Self> {
        let mut all = reads.to_vec();
        for donation in donations {
            all.extend_from_slice(donation);
        }
        Self::begin(&all, reads.len(), donations.iter().map(|donation| donation.len()))
    }

    /// Claims everything, until [`Claims::end`]: so many reads, then donations of so many buffers.
    pub(crate) fn begin<B: Borrow<Buffer>>(
        all: &[B],
        reads: usize,
        donations: impl Iterator<Item = usize>,
    ) -> Outcome<Self> {
        entry::check(CALL)?;
        check_overlaps(all, reads)?;
        for buffer in all {
            buffer.borrow().check_live(CALL)?;
        }
        for buffer in all {
            buffer.borrow().check_losses(Access::Write)?;
        }
        let inner = Inner {
            token: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            held: Mutex::new(Vec::new()),
            ended: AtomicBool::new(false),
        };
        let claims = Self { inner: Arc::new(inner) };
        let end = End(&claims);
        for buffer in all {
            claims.claim(buffer.borrow())?;
        }
        let mut left = &all[reads..];
        for count in donations {
            let (donation, after) = left.split_at(count);
            claims.donate(donation);
            left = after;
        }
        std::mem::forget(end);
        Ok(claims)
    }

    /// Claims a buffer's memory for reading, once an allocation.
    fn claim(&self, buffer: &Buffer) -> Outcome<()> {
        let mut held = self.inner.held.lock();
        if held.iter().any(|held| Arc::ptr_eq(held.at.record(), buffer.at.record())) {
            return Ok(());
        }
        match buffer.at.claims.ask(Ask::KeptRead, Pass::No) {
            Answer::Granted => {
                held.push(Held { at: buffer.at.clone(), ask: Ask::KeptRead });
                Ok(())
            }
            answer => {
                drop(held);
                wait::judge_claim(CALL, &buffer.at, answer).map(drop)
            }
        }
    }

    /// Makes all buffers of a donation exclusive, or none.
    fn donate<B: Borrow<Buffer>>(&self, donation: &[B]) {
        let mut held = self.inner.held.lock();
        let mut raised = 0;
        for buffer in donation {
            let buffer = buffer.borrow();
            let at = &buffer.at;
            let fits = buffer.spans() && !at.is_read_only() && at.len() > 0;
            if !fits || !at.claims.make_exclusive_beside(&at.owner.marks) {
                break;
            }
            at.extra.lock().holder = self.inner.token;
            raised += 1;
            // A call that came before the claim still means to use the bytes.
            if at.is_called() {
                break;
            }
        }
        let (raised, rest) = donation.split_at(raised);
        let raised = raised.iter().map(|buffer| &buffer.borrow().at);
        let whole = rest.is_empty() && !raised.clone().any(|at| at.is_called());
        for at in raised {
            if whole {
                let same = |held: &&mut Held| Arc::ptr_eq(held.at.record(), at.record());
                if let Some(held) = held.iter_mut().find(same) {
                    held.ask = Ask::KeptExclusive;
                }
            } else {
                at.extra.lock().holder = 0;
                at.claims.make_read();
            }
        }
    }

    /// Whether a buffer is claimed exclusively by this object.
    pub fn is_exclusive(&self, buffer: &Buffer) -> bool {
        self.inner.held.lock().iter().any(|held| {
            held.ask == Ask::KeptExclusive && Arc::ptr_eq(held.at.record(), buffer.at.record())
        })
    }

    /// Takes the bytes of a buffer over: answers a new buffer and makes all earlier ones dead with
    /// `why`. Accesses and exports through the new one pass under this object's claim. It may wait
    /// for the end of a hand-over in progress.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the claims have ended; the buffer is dead, does not span its allocation, is not
    ///   claimed exclusively here, or was exported meanwhile (`Busy`).
    /// - `Lost`: as [`Buffer::claim_read`].
    pub fn consume(&self, buffer: &Buffer, why: &str) -> Result<Buffer> {
        let block = |released: wait::Released<'_>| {
            wait::block_on(released);
            Ok(())
        };
        Ok(self.consume_by(buffer, why, block)?)
    }

    /// Takes over like [`Self::consume`], with this way to wait.
    pub(crate) fn consume_by(
        &self,
        buffer: &Buffer,
        why: &str,
        wait: impl Fn(wait::Released<'_>) -> Outcome<()>,
    ) -> Outcome<Buffer> {
        self.check_consume(buffer)?;
        let record = buffer.at.record();
        let at = loop {
            match self.take_over(record, why)? {
                Some(at) => break at,
                None => {
                    let (allocation, ask, pass) = (record, Ask::Free, Pass::Exclusive);
                    wait(wait::Released { allocation, ask, pass })?;
                }
            }
        };
        Ok(Buffer::whole(at, buffer.len()).under(self.inner.token))
    }

    fn check_consume(&self, buffer: &Buffer) -> Outcome<()> {
        entry::check("consume")?;
        // ORDERING: pairs with the store in `end`.
        if self.inner.ended.load(Ordering::Acquire) {
            return Misuse::ClaimsEnded.of("consume");
        }
        buffer.check_live("consume")?;
        if !buffer.spans() {
            let (len_bytes, allocation_bytes) = (buffer.len(), buffer.at.len());
            return Misuse::NotSpanning { len_bytes, allocation_bytes }.of("consume");
        }
        if !self.is_exclusive(buffer) {
            return Misuse::NotClaimed.of("consume");
        }
        buffer.check_losses(Access::Write)
    }

    /// Makes a record dead and its memory a new one's, under the same claim; none while a
    /// hand-over is in progress. The lock on what is held keeps the end of the claims away.
    fn take_over(&self, record: &Arc<Allocation>, why: &str) -> Outcome<Option<Ref>> {
        let mut held = self.inner.held.lock();
        let Some(held) = held.iter_mut().find(|held| Arc::ptr_eq(held.at.record(), record)) else {
            return Misuse::ClaimsEnded.of("consume");
        };
        record.extra.lock().why = Some(Arc::from(why));
        record.prepare_move();
        let answer = record.ask(Ask::Free, Pass::Exclusive);
        if answer != Answer::Granted {
            record.extra.lock().why = None;
            record.cancel_move();
        }
        match answer {
            Answer::Waits => return Ok(None),
            answer => wait::judge_claim("consume", record, answer)?,
        };
        if !record.start_move() {
            return Misuse::Dead { why: record.why_dead() }.of("consume");
        }
        let at = record.taken_over();
        at.claims.ask(Ask::KeptExclusive, Pass::No);
        at.extra.lock().holder = self.inner.token;
        held.at = at.clone();
        Ok(Some(at))
    }

    /// Releases everything; again does nothing.
    pub(crate) fn end(&self) {
        // ORDERING: pairs with the load in `consume`.
        self.inner.ended.store(true, Ordering::Release);
        let held = std::mem::take(&mut *self.inner.held.lock());
        for held in held {
            if held.ask == Ask::KeptExclusive {
                held.at.extra.lock().holder = 0;
            }
            held.at.release(held.ask);
        }
    }
}

/// Ends the claims of a call, after a panic too.
struct End<'a>(&'a Claims);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Claims({} allocations)", self.inner.held.lock().len())
    }
}

/// Checks what is donated, which comes after the reads.
fn check_overlaps<B: Borrow<Buffer>>(all: &[B], reads: usize) -> Outcome<()> {
    for at in reads..all.len() {
        for other in (0..reads).chain(at + 1..all.len()) {
            if all[at].borrow().overlaps(all[other].borrow()) {
                return Misuse::DonationOverlaps.of(CALL);
            }
        }
    }
    Ok(())
}

const CALL: &str = "Claims::with";

static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
