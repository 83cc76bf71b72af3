//! A buffer: bytes of one allocation in a caller's hands, its views, its waits and its end.
//!
//! Buffers are cheap to clone, and clones are the same buffer. Any thread may use them. A call on
//! a buffer checks in the order of S0.3: where it was called from, its arguments, death, read-only
//! memory, losses, and claims last.

use crate::allocation::mapping::MapRef;
use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Keeper, Memory, Parts, Pin, Ref};
use crate::bytes::HostBytes;
use crate::claim::{Answer, Ask, Pass};
use crate::device::Device;
use crate::drain;
use crate::driver::{Lent, Region};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, Result, check_range};
use crate::life;
use crate::open::host_owner;
use crate::sync::{HAS_THREADS, await_native};
use crate::tick;
use crate::timeline::{Access, DeviceId, Fate, Point};
use crate::wait;
use std::sync::Arc;

/// Bytes of one allocation, on one device.
///
/// Cheap to clone; clones are the same buffer (S4.1). Dropping one never blocks (S4.13). Once
/// nothing refers to the allocation any more, be it a buffer, a view, a borrow, an export or a
/// prepared submission, its memory goes back by itself (S4.12). It prints its label, its length,
/// its device, its stamps and its death.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let buffer = rig::host().create_buffer(16)?;
/// buffer.write_as::<u32, _>(|numbers| numbers.copy_from_slice(&[1, 2, 3, 4]))?;
///
/// // A view is part of it, a clone is the same buffer.
/// let tail = buffer.view(8, 8)?;
/// let same = buffer.clone();
/// assert_eq!(tail.read_as::<u32, _>(|numbers| numbers.to_vec())?, [3, 4]);
/// assert!(tail.overlaps(&same));
///
/// // Its memory goes back by itself when all three are dropped. To end it earlier is possible:
/// buffer.free()?;
/// assert_eq!(tail.dead().as_deref(), Some("freed"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Buffer {
    pub(crate) on: On,
    pub(crate) at: Ref,
    offset: u64,
    len: u64,
    /// The claims object under whose exclusive claim this buffer acts (S5.5), or 0.
    pub(crate) token: u64,
}

/// How the buffer's device comes to the bytes.
#[derive(Clone)]
pub(crate) enum On {
    /// They are its own memory.
    Owner,
    /// The host addresses them.
    Host,
    /// It maps them.
    Mapped(MapRef),
}

/// What [`Buffer::wait`] prepares for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Read the bytes.
    Read,
    /// Write them.
    Write,
}

impl From<Use> for Access {
    fn from(what: Use) -> Self {
        match what {
            Use::Read => Self::Read,
            Use::Write => Self::Write,
        }
    }
}

/// The stamps of an allocation as they stood at one moment (S3.6): plain data, which later work
/// does not change.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let m = rig::memory::open("M")?;
/// let x = m.create_buffer(4)?;
/// assert_eq!(x.stamps(), rig::Stamps::default());
///
/// let first = m.prepare().fill(&x, 7).build()?.submit(&[], &[])?;
/// let second = m.prepare().reads(&x).build()?.submit(&[], &[])?;
/// let stamps = x.stamps();
/// assert_eq!(stamps.write, Some(first));
/// assert_eq!(stamps.use_by(&m), Some(second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stamps {
    /// The point of the last write; none before any.
    pub write: Option<Point>,
    /// The point of the last use on each device, writes included, in the order of devices.
    pub uses: Vec<Point>,
}

impl Stamps {
    /// Returns the point of the last use on a device.
    pub fn use_by(&self, device: &Device) -> Option<Point> {
        self.uses.iter().copied().find(|point| point.device_id() == device.id())
    }
}

/// What keeps foreign host memory, and where it is.
pub(crate) struct Foreign {
    pub(crate) bytes: HostBytes,
    pub(crate) read_only: bool,
    pub(crate) keeper: Option<Keeper>,
}

/// Makes a host buffer over memory that the program brought (S4.4).
pub(crate) fn wrap_foreign(foreign: Foreign) -> Buffer {
    let len = foreign.bytes.len_bytes();
    let record = Allocation::new(Parts {
        owner: Arc::clone(host_owner()),
        region: Region::default(),
        bytes: Some(foreign.bytes),
        memory: Memory::Wrapped,
        len,
        read_only: foreign.read_only,
    });
    if foreign.keeper.is_some() {
        record.extra.lock().keeper = foreign.keeper;
    }
    tick::arm(host_owner());
    Buffer::whole(Ref::new(record), len)
}

impl Buffer {
    /// Makes the buffer that covers a whole allocation.
    pub(crate) fn whole(at: Ref, len: u64) -> Self {
        Self { on: On::Owner, at, offset: 0, len, token: 0 }
    }

    /// Makes the buffer act under a claims object's exclusive claim.
    pub(crate) fn under(self, token: u64) -> Self {
        Self { token, ..self }
    }

    /// Makes the same buffer as another device comes to it.
    pub(crate) fn through(&self, on: On) -> Self {
        Self { on, at: self.at.clone(), offset: self.offset, len: self.len, token: self.token }
    }

    /// Returns the length in bytes. A fact: it answers for dead and lost buffers too.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns where the buffer starts in its allocation. A fact.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the device the buffer is on. A fact.
    pub fn device(&self) -> Device {
        Device::of(self.device_owner())
    }

    /// Returns the label, if it was given one. A fact.
    pub fn label(&self) -> Option<Arc<str>> {
        self.at.extra.if_made(|extra| extra.tag.label.clone()).flatten()
    }

    /// Whether the buffer is read-only. A fact.
    pub fn is_read_only(&self) -> bool {
        self.at.is_read_only()
    }

    /// Returns why the buffer is dead, or none while it lives. A fact.
    pub fn dead(&self) -> Option<Arc<str>> {
        self.at.claims.is_dead().then(|| self.at.why_dead())
    }

    /// Whether the buffer covers its whole allocation. A fact.
    pub fn spans(&self) -> bool {
        self.offset == 0 && self.len == self.at.len()
    }

    /// Whether two buffers share a byte: by host address if both have one, else by allocation and
    /// range. A fact; empty buffers overlap nothing, and dead ones only what they were made of.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.len == 0 || other.len == 0 {
            return false;
        }
        let meet =
            |a: u64, b: u64| a < b.saturating_add(other.len) && b < a.saturating_add(self.len);
        // Another buffer may have a dead one's address by now.
        let address = |buffer: &Self| buffer.at.bytes.filter(|_| !buffer.at.claims.is_dead());
        match (address(self), address(other)) {
            (Some(a), Some(b)) => meet(a.address() + self.offset, b.address() + other.offset),
            _ => self.same_memory(other) && meet(self.offset, other.offset),
        }
    }

    /// Whether two buffers share their allocation. Dead buffers share what they had.
    pub(crate) fn same_memory(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.at.record(), other.at.record())
    }

    /// Returns the stamps as they are, reached points too. Never waits; a fact.
    pub fn stamps(&self) -> Stamps {
        stamps_now(&self.at.stamps)
    }

    /// Returns a buffer over part of this one, on the same device. Nothing waits.
    ///
    /// # Errors
    ///
    /// `Misuse`: the range ends past the buffer, or the buffer is dead.
    pub fn view(&self, offset: u64, len: u64) -> Result<Self> {
        Ok(self.view_for("view", offset, len)?)
    }

    /// Returns the same for `call`.
    pub(crate) fn view_for(&self, call: &'static str, offset: u64, len: u64) -> Outcome<Self> {
        entry::check(call)?;
        check_range(call, offset, len, self.len)?;
        self.check_live(call)?;
        Ok(self.part(offset, len))
    }

    /// Returns a buffer over a range within this one.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Self {
        Self { offset: self.offset + offset, len, ..self.clone() }
    }

    /// Ends all buffers of the allocation now, on a lost device too; its memory goes the way of
    /// any memory that nothing needs. Exports keep the bytes until they are dropped. It may wait
    /// for the end of a hand-over in progress.
    ///
    /// # Errors
    ///
    /// `Misuse`: the buffer is dead already; a claim is held or a call moves the bytes (`Busy`).
    pub async fn free_async(&self) -> Result<()> {
        // Looked at again after each wait: a call may have begun to move the bytes.
        while !self.free_now()? {
            let (allocation, ask, pass) = (self.at.record(), Ask::Free, Pass::No);
            await_native!(wait::Released { allocation, ask, pass });
        }
        Ok(())
    }

    /// Frees unless that has to wait for the end of a hand-over; answers whether it did.
    pub(crate) fn free_now(&self) -> Outcome<bool> {
        entry::check_free("free")?;
        self.check_live("free")?;
        let record = self.at.record();
        if record.is_moved() {
            return Misuse::Busy.of("free");
        }
        match record.ask(Ask::Free, Pass::No) {
            Answer::Waits if HAS_THREADS => Ok(false),
            answer => {
                wait::judge_claim("free", record, answer)?;
                self.bury();
                Ok(true)
            }
        }
    }

    /// Sends the memory of a dead allocation home, and ends its mappings.
    fn bury(&self) {
        let record = self.at.record();
        let maps: Vec<_> = record.extra.if_made(|extra| extra.maps.to_vec()).unwrap_or_default();
        life::with_after(|after| drain::bury(Arc::clone(record), after));
        maps.iter().for_each(|map| life::drain(&map.device));
        life::drain(&record.owner);
    }

    /// Puts the memory outside the claims for good: it is never exclusive again (S5.7), so no
    /// donation takes it over. For a program that knows of readers which rig does not know.
    ///
    /// # Errors
    ///
    /// `Misuse`: the buffer is dead, or exclusively claimed (`Busy`).
    pub fn share(&self) -> Result<()> {
        entry::check("share")?;
        self.check_live("share")?;
        Ok(self.leave_claims("share")?)
    }

    /// Lends the driver's own object out: from now on the allocation is never cached and never
    /// exclusive; [`Buffer::free`] ends it. Once nobody can reach it, its bytes are charged no
    /// more: a `wgpu::Buffer` is the program's alone then, and what no platform keeps for the
    /// program is given away until the platform tells that the program let go (S4.16).
    ///
    /// # Errors
    ///
    /// - `Misuse`: the buffer is dead, or exclusively claimed (`Busy`).
    /// - `Lost`: the device is lost.
    /// - `Unsupported`: the driver has no such object.
    pub fn lend(&self) -> Result<LentBuffer> {
        Ok(self.lend_now()?)
    }

    pub(crate) fn lend_now(&self) -> Outcome<LentBuffer> {
        entry::check("lend")?;
        self.check_live("lend")?;
        self.check_devices()?;
        let owner = &self.at.owner;
        // Beside a `free`, the driver has the memory until it answered.
        let pinned = Pin::new(self.at.record());
        self.check_live("lend")?;
        let object = life::InFlight::new(owner)?.driver().lend(self.at.region);
        let Some(object) = object.filter(|_| !self.at.is_file()) else {
            return Err(Failed::unsupported(&owner.name, "this memory has no object to lend"));
        };
        self.leave_claims("lend")?;
        pinned.set_lent();
        self.check_live("lend")?;
        Ok(LentBuffer { object, offset: self.offset, len: self.len })
    }

    fn leave_claims(&self, call: &'static str) -> Outcome<()> {
        if self.at.claims.set_outside_unless_exclusive() { Ok(()) } else { Misuse::Busy.of(call) }
    }

    /// Whether the bytes end where those of their memory do.
    pub(crate) fn is_last(&self) -> bool {
        self.offset + self.len == self.at.len()
    }

    pub(crate) fn device_owner(&self) -> &Arc<Owner> {
        match &self.on {
            On::Owner => &self.at.owner,
            On::Host => host_owner(),
            On::Mapped(map) => &map.mapping().device,
        }
    }

    /// Returns the region and offset by which the buffer's device names the bytes.
    pub(crate) fn region(&self) -> Region {
        match &self.on {
            On::Owner | On::Host => self.at.region,
            On::Mapped(map) => map.mapping().region(),
        }
    }

    #[inline]
    pub(crate) fn check_live(&self, call: &'static str) -> Outcome<()> {
        if !self.at.claims.is_dead() {
            return Ok(());
        }
        Misuse::Dead { why: self.at.why_dead() }.of(call)
    }

    pub(crate) fn check_writable(&self, call: &'static str) -> Outcome<()> {
        if self.at.is_read_only() { Misuse::ReadOnly.of(call) } else { Ok(()) }
    }

    /// Tells the loss of the memory's device, and of the one that the buffer is on.
    #[inline]
    pub(crate) fn check_devices(&self) -> Outcome<()> {
        life::check_lost(&self.at.owner)?;
        match &self.on {
            On::Mapped(map) => life::check_lost(&map.mapping().device),
            On::Owner | On::Host => Ok(()),
        }
    }

    /// Tells the losses that an access of the host meets, before it waits for anything: of the
    /// devices, and of what it follows. Claims, exports and borrows meet those of a write (S12.1).
    pub(crate) fn check_losses(&self, access: Access) -> Outcome<()> {
        self.next_point(access).map(drop)
    }

    /// Tells the same losses; answers a point that the access has to wait for.
    pub(crate) fn next_point(&self, access: Access) -> Outcome<Option<Point>> {
        self.check_devices()?;
        wait::next_point(&self.at.stamps, access, DeviceId::HOST)
    }
}

/// An object that [`Buffer::lend`] lent out, and the buffer's range in it.
#[derive(Clone, Debug)]
pub struct LentBuffer {
    /// The driver's own object: host bytes, a pointer, a `wgpu::Buffer`.
    pub object: Lent,
    /// Where the buffer starts in it.
    pub offset: u64,
    /// The buffer's bytes.
    pub len: u64,
}

pub(crate) fn stamps_now(stamps: &crate::stamp::Stamps) -> Stamps {
    let mut uses = Vec::new();
    // The write is read first: its own use is among the uses then.
    let write = stamps.write();
    stamps.for_each_use(|point| {
        if point.fate() != Fate::Dropped || Some(point) == write {
            uses.insert(uses.partition_point(|known| *known < point), point);
        }
    });
    Stamps { write, uses }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let label = self.label().map_or_else(String::new, |label| format!("{label}: "));
        write!(f, "Buffer({label}{} bytes", self.len)?;
        if self.offset > 0 {
            write!(f, " from {}", self.offset)?;
        }
        write!(f, " on {}", self.device_owner().name)?;
        let stamps = self.stamps();
        if let Some(write) = stamps.write {
            write!(f, ", w {write}")?;
        }
        for point in stamps.uses {
            write!(f, ", u {point}")?;
        }
        match self.dead() {
            Some(why) => write!(f, ", dead: {why})"),
            None => f.write_str(")"),
        }
    }
}
