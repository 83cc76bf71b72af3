//! What an embedder does for the library where its own means end: no threads, no closures that may
//! run inside a call, and a collector of garbage that takes its time. A browser's page is one.
//!
//! Natively a thread of the library's does what [`pass`] does; an embedder without threads calls
//! it from a timer. What fails here does with [`Failed`], an [`Error`] in one word, which costs an
//! embedder little to pass on. Any thread may call anything here.

use crate::access::{Claim, ready};
use crate::allocation::{Allocation, Memory, Parts, Ref, Site};
use crate::blit::fill_at;
use crate::borrow::borrow_on;
use crate::buffer::{Buffer, Foreign, LentBuffer, Use, wrap_foreign};
use crate::bytes::HostBytes;
use crate::collector::{self, Pressure};
use crate::copy::copy_at;
use crate::create::BufferBuilder;
use crate::device::{Device, close_at, wait_at};
use crate::driver::{Access, Native, Op, Part, Region, Work};
use crate::entry;
use crate::error::{Error, Misuse};
use crate::export::Export;
use crate::hand::{Job, Touch, hand_over, merge};
use crate::kept::Claims;
use crate::life;
use crate::prepare::{check_on, check_usable, span_of};
use crate::report::{DeviceStats, Report, text};
use crate::settings;
use crate::sync::MaybeSend;
use crate::tick;
use crate::timeline::Point;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

pub use crate::blit::blit;
pub use crate::create::{Begun, Rest};
pub use crate::error::{Failed, Outcome};
#[cfg(target_family = "wasm")]
pub use crate::tick::set_poked;

/// Opens a device like [`Device::open_async`], whose driver `make` makes at once: for a program
/// that has no openers.
///
/// # Errors
///
/// Those of [`Device::open_async`].
#[cfg(target_family = "wasm")]
pub fn open_now(
    name: &str,
    driver: &'static str,
    make: impl FnOnce() -> Arc<dyn crate::driver::Driver>,
) -> Outcome<Device> {
    Device::open_now(name, driver, make)
}

/// Does one pass of maintenance (S9.15), and answers when the next one is due; none while no
/// device needs one. Never waits. Waits of the library's make one due at once, as
/// [`take_poke`] tells.
pub fn pass() -> Option<Duration> {
    tick::pass_here().map(Duration::from_nanos)
}

/// Takes back what was dropped, on every device (S9.1): for numbers that tell of it. Never waits.
pub fn drain() {
    life::drain_all();
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

/// What the environment says where there is one (S11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether caches shrink by themselves: `RIG_MANAGED_POOL`.
    pub managed_pool: bool,
    /// Whether the call sites of live allocations are kept: `RIG_TRACE_POOL`.
    pub trace_pool: bool,
}

/// Sets what the environment would say. It comes before anything else, once.
pub fn set_settings(settings: Settings) {
    settings::set(settings.managed_pool, settings.trace_pool);
}

/// Says where in the program a buffer is made, for reports; where call sites are kept.
pub fn at_site<'a>(mut builder: BufferBuilder<'a>, site: &str) -> BufferBuilder<'a> {
    if settings::trace() {
        builder.tag.site = Some(Site::Told(Arc::from(site)));
    }
    builder
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
pub fn wrap_region(device: &Device, region: Region, len: u64) -> Outcome<Buffer> {
    drop(life::InFlight::new(&device.owner)?);
    let (owner, memory) = (Arc::clone(&device.owner), Memory::Wrapped);
    let record =
        Allocation::new(Parts { owner, region, bytes: None, memory, len, read_only: false });
    tick::arm(&record.owner);
    Ok(Buffer::whole(Ref::new(record), len))
}

/// Ends all buffers of an allocation like [`Buffer::free_async`], and never waits.
///
/// # Errors
///
/// As there, and `Misuse::WouldWait` while a hand-over of the buffer is in progress.
pub fn free_now(buffer: &Buffer) -> Outcome<()> {
    if buffer.free_now()? { Ok(()) } else { hand_over_runs("free") }
}

/// Ends all buffers of an allocation like [`free_now`], but dead with `why`.
///
/// # Errors
///
/// Those of [`free_now`].
pub fn end(buffer: &Buffer, why: &str) -> Outcome<()> {
    buffer.check_live("free")?;
    let record = buffer.at.record();
    record.extra.lock().why = Some(Arc::from(why));
    let ended = free_now(buffer);
    if ended.is_err() {
        record.extra.lock().why = None;
    }
    ended
}

/// Makes the error of a call that never waits, beside a hand-over.
fn hand_over_runs<T>(call: &'static str) -> Outcome<T> {
    Misuse::WouldWait { what: Arc::from("a hand-over in progress") }.of(call)
}

/// Makes a buffer like [`BufferBuilder::create_async`], as far as that never waits.
///
/// # Errors
///
/// Those of [`BufferBuilder::create_async`].
pub fn create(builder: BufferBuilder<'_>) -> Outcome<Begun> {
    builder.begin("create_buffer")
}

/// Makes a buffer like [`BufferBuilder::create_now`].
///
/// # Errors
///
/// Those of [`BufferBuilder::create_now`].
pub fn create_now(builder: BufferBuilder<'_>) -> Outcome<Buffer> {
    builder.create_at_once()
}

/// Returns a view like [`Buffer::view`], for `call`.
///
/// # Errors
///
/// Those of [`Buffer::view`].
pub fn view(call: &'static str, buffer: &Buffer, offset: u64, len: u64) -> Outcome<Buffer> {
    buffer.view_for(call, offset, len)
}

/// Borrows like [`rig::borrow`](crate::borrow).
///
/// # Errors
///
/// Those of [`rig::borrow`](crate::borrow).
pub fn borrow(device: &Device, buffer: &Buffer) -> Outcome<Option<Buffer>> {
    borrow_on(device, buffer)
}

/// Lends like [`Buffer::lend`].
///
/// # Errors
///
/// Those of [`Buffer::lend`].
pub fn lend(buffer: &Buffer) -> Outcome<LentBuffer> {
    buffer.lend_now()
}

/// Copies like [`copy_async`](crate::copy_async). This and what follows keep what they are given.
///
/// # Errors
///
/// Those of [`copy_async`](crate::copy_async).
pub fn copy(src: Buffer, dst: Buffer) -> impl Future<Output = Outcome<()>> {
    copy_at(src, dst)
}

/// Fills like [`Buffer::fill_async`].
///
/// # Errors
///
/// Those of [`Buffer::fill_async`].
pub fn fill(buffer: Buffer, byte: u8) -> impl Future<Output = Outcome<()>> {
    fill_at(buffer, byte)
}

/// Exports like [`Buffer::export_async`].
///
/// # Errors
///
/// Those of [`Buffer::export_async`].
pub fn export(buffer: &Buffer) -> impl Future<Output = Outcome<Export>> {
    buffer.export_at()
}

/// Waits for a value like [`Device::wait_async`].
///
/// # Errors
///
/// Those of [`Device::wait_async`].
pub fn wait(device: Device, value: u64) -> impl Future<Output = Outcome<()>> {
    wait_at(device, value)
}

/// Closes like [`Device::close_async`].
///
/// # Errors
///
/// Those of [`Device::close_async`].
pub fn close(device: Device) -> impl Future<Output = Outcome<()>> {
    close_at(device)
}

/// Returns the region by which a buffer's device names its bytes, for the commands of a submission
/// that names the buffer.
///
/// # Errors
///
/// `Misuse`: the buffer is dead.
pub fn region(buffer: &Buffer) -> Outcome<Region> {
    buffer.check_live("submit")?;
    Ok(buffer.region())
}

/// Returns the text of an error.
///
/// This and what follows say what `Display` does, without the code of formatters.
pub fn text_of(error: &Error) -> String {
    text!(error)
}

/// Returns the text of what was wrong with a call.
pub fn text_of_misuse(what: &Misuse) -> String {
    text!(what)
}

/// Returns the text of a report.
pub fn text_of_report(report: &Report) -> String {
    text!(report)
}

/// Returns all numbers of statistics, in the order of the fields; the counts of the kinds are the
/// last.
pub fn numbers(stats: &mut DeviceStats) -> [&mut u64; 24] {
    stats.numbers()
}

/// What an embedder submits at once: work in its driver's own form, or none, and the buffers that
/// it uses.
pub struct Submission {
    /// The device.
    pub device: Device,
    /// The work; none for what is on the device's queue already (S8.6).
    pub native: Option<Native>,
    /// What it uses, and how; what it writes it may read.
    pub uses: Vec<(Buffer, Access)>,
    /// Further values that it follows, each of a device.
    pub waits: Vec<(Device, u64)>,
}

impl Submission {
    /// Hands work over and returns its point, as if it had been prepared first; does not wait for
    /// the work. Waits as [`Prepared::submit_async`](crate::Prepared::submit_async) does.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`](crate::Builder::build) and of `submit_async`.
    pub async fn submit(self) -> Outcome<Point> {
        let owner = &self.device.owner;
        entry::check(SUBMIT)?;
        if !owner.has_timeline() {
            return Err(Failed::unsupported(&owner.name, "this device takes no submissions"));
        }
        let mut points = Vec::with_capacity(self.waits.len());
        for (device, value) in &self.waits {
            points.push(device.point_for(SUBMIT, *value)?);
        }
        for (buffer, _) in &self.uses {
            check_on(SUBMIT, owner, buffer.device_owner())?;
        }
        let uses = self.uses.iter().map(|(buffer, access)| (buffer, *access));
        check_usable(SUBMIT, uses.clone())?;
        life::check_lost(owner)?;
        for (buffer, _) in uses.clone() {
            buffer.check_devices()?;
        }
        let parts =
            self.native.map(|native| Part { queue: 0, after: Vec::new(), op: Op::Native(native) });
        let spans: Vec<_> = uses.clone().map(|(buffer, access)| span_of(buffer, access)).collect();
        let touches = merge(uses.map(|(buffer, access)| Touch { at: &buffer.at, access }));
        let work = Work { prepared: None, parts: parts.as_slice(), spans: &spans };
        hand_over(owner, &Job { waits: &points, ..Job::of(SUBMIT, work, &touches) }).await
    }
}

/// An access of the host in progress, until it is dropped.
pub struct InPlace {
    bytes: HostBytes,
    _claim: Claim,
}

impl InPlace {
    /// Waits like [`Buffer::read_async`] or [`Buffer::write_async`], and answers the access itself
    /// instead of running a function in it: for functions that cannot run inside a call. Whoever
    /// has one uses the bytes at once and drops it; what conflicts is refused meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::read_async`] and [`Buffer::write_async`].
    pub async fn begin(buffer: &Buffer, what: Use) -> Outcome<Self> {
        let (claim, bytes) = buffer.access(name_of(what), what.into()).await?;
        Ok(Self { bytes, _claim: claim })
    }

    /// Waits for the work that [`InPlace::begin`] waits for, and claims nothing.
    ///
    /// # Errors
    ///
    /// Those of [`InPlace::begin`].
    pub fn ready(buffer: Buffer, what: Use) -> impl Future<Output = Outcome<()>> {
        ready(buffer, name_of(what), what.into())
    }

    /// Returns where the bytes are.
    pub fn bytes(&self) -> HostBytes {
        self.bytes
    }
}

fn name_of(access: Use) -> &'static str {
    match access {
        Use::Read => "read",
        Use::Write => "write",
    }
}

/// Claims like [`Claims::with`], until the answer is dropped: for functions that cannot run inside
/// a call. Among all are so many reads, then donations of so many buffers.
///
/// # Errors
///
/// Those of [`Claims::with`].
pub fn claim(
    all: &[Buffer],
    reads: usize,
    donations: impl Iterator<Item = usize>,
) -> Outcome<Claimed> {
    Ok(Claimed(Claims::begin(all, reads, donations)?))
}

/// Claims of a call in progress; they end when this is dropped.
#[derive(Debug)]
pub struct Claimed(Claims);

impl std::ops::Deref for Claimed {
    type Target = Claims;

    fn deref(&self) -> &Claims {
        &self.0
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Takes a buffer over like [`Claims::consume`], and never waits.
///
/// # Errors
///
/// As there, and `Misuse::WouldWait` while a hand-over of the buffer is in progress.
pub fn consume_now(claims: &Claims, buffer: &Buffer, why: &str) -> Outcome<Buffer> {
    claims.consume_by(buffer, why, |_| hand_over_runs("consume"))
}

/// Returns where the bytes of an export are, for a copy that the embedder does at once, before
/// anything else can run.
///
/// # Errors
///
/// `Misuse`: read-only memory; something that conflicts is running (`Busy`).
pub fn exported(export: &Export, what: Use) -> Outcome<HostBytes> {
    let call = match what {
        Use::Read => "copy_out",
        Use::Write => "copy_in",
    };
    export.place(call, what.into())
}

/// Returns the value of a buffer's last write, if its own device wrote last.
pub fn own_write(buffer: &Buffer) -> Option<u64> {
    let own = |point: &Point| point.device_id() == buffer.device_owner().id;
    buffer.at.stamps.write().filter(own).map(Point::value)
}

/// Returns where the host finds the bytes of a buffer; none where it does not.
pub fn place(buffer: &Buffer) -> Option<HostBytes> {
    let at = buffer.at.bytes?;
    Some(at.range(buffer.offset(), buffer.len()))
}

impl std::fmt::Debug for InPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InPlace({} bytes)", self.bytes.len_bytes())
    }
}

const SUBMIT: &str = "submit";
