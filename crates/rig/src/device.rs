//! A device in a program's hands: its facts, its timeline, its budget and its end.
//!
//! Handles are cheap to clone; dropping them closes nothing (S1.6). Any thread may call anything
//! here. Waiting calls have an async form, and a blocking one natively.

mod all;
mod options;
pub(crate) mod totals;

pub use crate::device::all::{devices, host, snapshot, stats};
pub use crate::device::options::CacheOptions;

use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::cache::{HAS_PINNED, Options};
use crate::device::totals::Totals;
use crate::drain::{self, After};
use crate::driver::{Driver, Facts};
use crate::entry;
use crate::error::{Misuse, Outcome, Result};
use crate::life;
use crate::open::{self, Opener, host_owner};
use crate::report::{DeviceStats, LabelTotal, Returned, SiteTotal};
use crate::sync::await_native;
use crate::timeline::{DeviceId, Fate, Point};
use crate::wait;
use std::borrow::Borrow;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A store of bytes, usually with a processor; its work is one ordered sequence.
///
/// Handles are cheap to clone, two of one device are equal, and dropping them closes nothing
/// (S1.6).
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("device example")?;
/// device.set_budget(1 << 20)?;
/// let x = device.buffer(256 << 10).label("x").create()?;
/// assert_eq!((device.held(), device.submitted()), (256 << 10, 0));
///
/// drop(x); // Nobody freed it, and its memory serves the next buffer of that size.
/// let y = device.create_buffer(256 << 10)?;
/// assert_eq!(device.stats().actual_count, 1);
///
/// // A device that is not needed any more is closed; handles tell so from then on.
/// device.close()?;
/// assert_eq!(device.lost().as_deref(), Some("closed"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) owner: Arc<Owner>,
}

impl Device {
    pub(crate) fn of(owner: &Arc<Owner>) -> Self {
        Self { owner: Arc::clone(owner) }
    }

    /// Opens a device under a name; an open name answers the same device, and the opener is not
    /// run. Waits for the opener, or for one of the same name that is at work.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the name belongs to a device of another driver, or this thread is running the
    ///   opener of this name.
    /// - `Unsupported`: the opener's reason; the name's last device has not stopped yet; the
    ///   process opened 65,535 devices; [`crate::fail`] was called.
    pub async fn open_async(name: &str, opener: Opener) -> Result<Self> {
        entry::check("open")?;
        Ok(Self::open_checked(name, opener, Options::default()).await?)
    }

    /// Opens a device like [`Device::open_async`], with options for its cache.
    ///
    /// # Errors
    ///
    /// Those of [`Device::open_async`]; `Misuse` for an option out of its range.
    pub async fn open_with_async(
        name: &str,
        opener: Opener,
        options: CacheOptions,
    ) -> Result<Self> {
        entry::check("open")?;
        Ok(Self::open_checked(name, opener, options.checked("open")?).await?)
    }

    /// Opens a device whose driver `make` makes at once.
    #[cfg(target_family = "wasm")]
    pub(crate) fn open_now(
        name: &str,
        driver: &'static str,
        make: impl FnOnce() -> Arc<dyn Driver>,
    ) -> Outcome<Self> {
        entry::check("open")?;
        host_owner();
        Ok(Self { owner: open::open_now(name, driver, make)? })
    }

    async fn open_checked(name: &str, opener: Opener, options: Options) -> Outcome<Self> {
        all::watch_exit();
        host_owner();
        Ok(Self { owner: open::open(name, opener, options).await? })
    }

    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.owner.name
    }

    /// Returns the device's index, which no other device of the process ever has.
    pub fn id(&self) -> DeviceId {
        self.owner.id
    }

    /// Returns the facts, which were fixed when it opened.
    pub fn facts(&self) -> &Facts {
        &self.owner.facts
    }

    /// Returns the driver, for the interop of driver modules.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.owner.driver
    }

    /// Returns the last value assigned. Never waits; answers after a loss too.
    pub fn submitted(&self) -> u64 {
        self.owner.track.submitted()
    }

    /// Returns the last value reached, as the driver shows it now. Never waits, never falls;
    /// answers after a loss too.
    pub fn reached(&self) -> u64 {
        life::look(&self.owner);
        self.owner.track.reached()
    }

    /// Returns why the device is lost, or none while it lives.
    pub fn lost(&self) -> Option<Arc<str>> {
        self.owner.track.why()
    }

    /// Waits until the device is lost, and returns why. It keeps nothing alive and nothing busy:
    /// the loss is told when something finds it. On the host it never ends.
    pub async fn lost_async(&self) -> Arc<str> {
        let watch = self.owner.loss_watchers.watch();
        poll_fn(|cx| {
            watch.leave(cx.waker());
            self.lost().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Whether nothing of the lost device runs any more (S2.8).
    pub fn is_settled(&self) -> bool {
        self.owner.track.is_settled()
    }

    /// Returns the point of a value. Never waits.
    ///
    /// # Errors
    ///
    /// `Misuse` for 0 and for a value that was not submitted.
    pub fn point(&self, value: u64) -> Result<Point> {
        Ok(self.point_for("point", value)?)
    }

    /// Returns the same for `call`.
    pub(crate) fn point_for(&self, call: &'static str, value: u64) -> Outcome<Point> {
        let submitted = self.submitted();
        if value == 0 || value > submitted {
            return Misuse::NotSubmitted { value, submitted }.of(call);
        }
        Ok(Point::new(self.owner.id, value))
    }

    /// Waits until a value is reached.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the value was not submitted, or the driver found its work wrong later (S8.8).
    /// - `Lost`: the device is lost, however old the value is.
    pub async fn wait_async(&self, value: u64) -> Result<()> {
        Ok(wait_at(self, value).await?)
    }

    /// Goes on where [`Device::wait_now`] found the value unreached.
    pub(crate) async fn wait_on(&self, value: u64) -> Outcome<()> {
        wait::reach_on(&self.owner, value).await?;
        self.check_reached(value)
    }

    /// Answers whether a value is reached, which then was all of the wait.
    pub(crate) fn wait_now(&self, value: u64) -> Outcome<bool> {
        entry::check("wait")?;
        if self.owner.track.is_done(value) {
            return Ok(true);
        }
        let submitted = self.submitted();
        if value > submitted {
            return Misuse::NotSubmitted { value, submitted }.of("wait");
        }
        life::check_lost(&self.owner)?;
        life::look(&self.owner);
        if self.owner.track.fate(value) == Fate::Unreached {
            return Ok(false);
        }
        self.check_reached(value).map(|()| true)
    }

    /// Tells what the end of a wait tells.
    fn check_reached(&self, value: u64) -> Outcome<()> {
        life::check_lost(&self.owner)?;
        wait::check_rejected(&self.owner, value, "wait")
    }

    /// Returns the budget in bytes; `u64::MAX` is unbounded.
    pub fn budget(&self) -> u64 {
        self.owner.heap.lock().books.budget_bytes()
    }

    /// Sets the budget, and returns cached memory to the driver until the rest is within it or
    /// none is cached. Never touches live memory, never waits, tells no loss.
    ///
    /// # Errors
    ///
    /// `Misuse` from inside a callback.
    pub fn set_budget(&self, budget_bytes: u64) -> Result<()> {
        entry::check("set_budget")?;
        self.owner.heap.lock().books.set_budget_bytes(budget_bytes);
        life::drain(&self.owner);
        life::with_after(|after| {
            let mut left = self.owner.heap.lock().books.over_bytes();
            each_cacher(&self.owner, |device, kind| {
                drain::empty_cache(device, after, |heap| {
                    if left == 0 {
                        return None;
                    }
                    let (record, class) = heap.cache.pop_oldest_of(kind)?;
                    left = left.saturating_sub(class.bytes());
                    Some((record, kind, class))
                });
            });
        });
        Ok(())
    }

    /// Returns the bytes that drivers handed out for this device's account: live, returning,
    /// cached, staging and Pinned (S10.2).
    pub fn held(&self) -> u64 {
        self.owner.heap.lock().books.held()
    }

    /// Returns the bytes this device pays for that wait for reuse.
    pub fn cached(&self) -> u64 {
        self.owner.heap.lock().books.bytes_in(Where::Cached)
    }

    /// Returns to the driver what recent usage says is not needed (S9.14), without a new scan.
    /// What its device may still use follows when that is done, and is answered as pending. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// `Misuse` from inside a callback.
    pub fn trim(&self) -> Result<Returned> {
        entry::check("trim")?;
        Ok(self.returning(|after| {
            drain::reclaim(&self.owner, after);
        }))
    }

    /// Returns everything cached to the driver, Pinned too. What its device may still use follows
    /// when that is done, and is answered as pending. Never waits.
    ///
    /// # Errors
    ///
    /// `Misuse` from inside a callback.
    pub fn free_cache(&self) -> Result<Returned> {
        entry::check("free_cache")?;
        Ok(self.returning(|after| drain::empty_all(&self.owner, after)))
    }

    /// Drains, lets `f` take memory out of the cache, and answers what became of it.
    fn returning(&self, f: impl FnOnce(&mut After)) -> Returned {
        let owner = &self.owner;
        let freed_bytes = owner.heap.lock().counters.freed_bytes();
        life::drain(owner);
        life::with_after(f);
        let heap = owner.heap.lock();
        let returned_bytes = heap.counters.freed_bytes().saturating_sub(freed_bytes);
        Returned { returned_bytes, pending_bytes: heap.leaving_bytes() }
    }

    /// Returns the options of the cache.
    pub fn cache_options(&self) -> CacheOptions {
        CacheOptions::of(self.owner.heap.lock().cache.options())
    }

    /// Changes the options of the cache; what is cached stays in its bin. Never waits.
    ///
    /// # Errors
    ///
    /// `Misuse` for an option out of its range, and from inside a callback.
    pub fn set_cache(&self, options: CacheOptions) -> Result<()> {
        entry::check("set_cache")?;
        let options = options.checked("set_cache")?;
        self.owner.heap.lock().cache.set_options(options);
        Ok(())
    }

    /// Returns the statistics.
    pub fn stats(&self) -> DeviceStats {
        all::stats_of(&self.owner)
    }

    /// Returns the 10 greatest live totals by label, greatest first: what is kept that should have
    /// gone. It looks through all that the device pays for.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// let device = rig::memory::open("labels example")?;
    /// let kept = device.buffer(65_536).label("weights").create()?;
    /// let labels = device.labels();
    /// assert_eq!((&*labels[0].label, labels[0].bytes, labels[0].count), ("weights", 65_536, 1));
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    pub fn labels(&self) -> Vec<LabelTotal> {
        Totals::of(&self.owner).labels
    }

    /// Returns the live totals by the place that created them, greatest first; none without
    /// `RIG_TRACE_POOL` (S11.6).
    pub fn sites(&self) -> Vec<SiteTotal> {
        Totals::of(&self.owner).sites
    }

    /// Starts the peaks of the statistics anew.
    pub fn reset_peaks(&self) {
        self.owner.heap.lock().books.reset_peaks();
    }

    /// Closes the device: waits for the work submitted before, loses it as "closed", and waits
    /// for its stop. Two closes stop it once; on a lost device it waits for the stop.
    ///
    /// # Errors
    ///
    /// `Misuse` on the host and from inside a callback.
    pub async fn close_async(&self) -> Result<()> {
        Ok(close_at(self).await?)
    }

    /// Loses the device with a reason that the program learned of (S12.1). On the host it does
    /// nothing.
    pub fn device_lost(&self, why: &str) {
        life::lose(&self.owner, &Arc::from(why));
    }

    /// Drains every device, and waits for the drains that others have begun; for tests.
    #[doc(hidden)]
    pub async fn drain_out() {
        await_native!(life::drain_out(), life::drain_all());
    }

    /// Checks the invariant of the books (S10.2); for tests.
    #[doc(hidden)]
    pub fn check_books(&self) {
        self.owner.heap.lock().books.check();
    }
}

/// Waits for a value of a device that is lent, or given.
pub(crate) async fn wait_at(device: impl Borrow<Device>, value: u64) -> Outcome<()> {
    let device = device.borrow();
    if device.wait_now(value)? { Ok(()) } else { device.wait_on(value).await }
}

/// Closes a device that is lent, or given.
pub(crate) async fn close_at(device: impl Borrow<Device>) -> Outcome<()> {
    let device = device.borrow();
    let owner = &device.owner;
    entry::check("close")?;
    if owner.is_host() {
        return Misuse::HostClose.of("close");
    }
    // A fault meanwhile is the reason of the loss; the close itself still succeeds.
    let _ = wait::reach(owner, device.submitted()).await;
    life::lose(owner, &Arc::from(life::CLOSED));
    poll_fn(|cx| {
        owner.wakers.register(cx.waker());
        if life::poll_stopped(owner, cx.waker()).is_ready() {
            return Poll::Ready(());
        }
        crate::tick::arm(owner);
        crate::tick::poke();
        Poll::Pending
    })
    .await;
    // Whoever saw the end of the stop may still have memory in its hands.
    owner.note_due();
    life::drain(owner);
    await_native!(owner.draining.wait_out(), ());
    Ok(())
}

/// Calls `f` with the devices that cache what `payer` pays for, itself and for the host every
/// other, and with the kind of that memory.
fn each_cacher(payer: &Arc<Owner>, mut f: impl FnMut(&Arc<Owner>, usize)) {
    f(payer, 0);
    if HAS_PINNED && payer.is_host() {
        life::owners().iter().filter(|device| !device.is_host()).for_each(|device| f(device, 1));
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.owner.id == other.owner.id
    }
}

impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (owner, reached, submitted) = (&self.owner, self.reached(), self.submitted());
        write!(f, "Device({}: {}", owner.name, owner.facts.architecture)?;
        if owner.has_timeline() {
            write!(f, ", {reached} of {submitted} reached")?;
        }
        match self.lost() {
            Some(why) => write!(f, ", lost: {why})"),
            None => f.write_str(")"),
        }
    }
}

impl Point {
    /// Whether the point is reached, as the device shows it now. Never waits.
    pub fn is_reached(self) -> bool {
        life::look_at(self) == Fate::Reached
    }

    /// Waits until the point is reached.
    ///
    /// # Errors
    ///
    /// `Lost` if its device is lost, however old the point is.
    pub async fn wait_async(self) -> Result<()> {
        match self.device_to_wait()? {
            Some(device) => device.wait_async(self.value()).await,
            None => Ok(()),
        }
    }

    /// Returns the point's device, for a wait; none if that is over already.
    #[inline]
    pub(crate) fn device_to_wait(self) -> Outcome<Option<Device>> {
        entry::check("wait")?;
        if self.is_done() { Ok(None) } else { self.device_of_present().map(Some) }
    }

    /// Returns the point's device, if the point was submitted and the device is there.
    #[cold]
    fn device_of_present(self) -> Outcome<Device> {
        life::check_submitted("wait", self)?;
        let owner = life::owner_of(self.device_id()).ok_or_else(|| life::lost_point(self))?;
        Ok(Device { owner })
    }
}
