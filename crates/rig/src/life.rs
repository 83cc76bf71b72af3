//! The life of devices: which there are, what they reached, and how they end.
//!
//! ```text
//! Live --first reason--> Lost --no call in flight--> stopping --driver's stop over--> stopped
//!                                                                    \-> settled (nothing runs)
//! ```
//!
//! A device is lost once and the first reason is kept (S12.1). Its gate lets no driver call in
//! from then on, and whoever leaves the gate last runs the stop. Losses spread to devices whose
//! queues wait for what the lost one left unreached (S8.7). Any thread may call anything; the
//! registry's locks are leaves, and no driver is called under them.

use crate::allocation::owner::{Owner, QUEUES_WAIT};
use crate::budget::Where;
use crate::drain::{self, After};
use crate::driver::{Driver, Fault, Stopped};
use crate::error::{Error, Failed, Misuse, Outcome, text};
use crate::gate::Duty;
use crate::global::Global;
use crate::profile::{self, Event, What};
use crate::report::Usage;
use crate::sync::Ordering;
use crate::sync::plain::{Mutex, RwLock};
use crate::timeline::{DeviceId, Fate, Point, track};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// Returns the device of an index, while it lives or still holds something.
pub(crate) fn owner_of(id: DeviceId) -> Option<Arc<Owner>> {
    OWNERS.read().iter().find(|owner| owner.id == id).cloned()
}

/// Returns the device that has a name, which is its own until it stopped.
pub(crate) fn named(name: &str) -> Option<Arc<Owner>> {
    let has_name = |owner: &&Arc<Owner>| *owner.name == *name && !owner.is_stopped();
    OWNERS.read().iter().find(has_name).cloned()
}

/// Returns every device that lives or is still named, the host first.
pub(crate) fn owners() -> Vec<Arc<Owner>> {
    OWNERS.read().clone()
}

/// Enters a device that is open now.
pub(crate) fn enter(owner: Arc<Owner>) {
    OWNERS.write().push(owner);
}

/// A call of a device's driver in flight; the stop waits for its end.
pub(crate) struct InFlight<'a> {
    owner: &'a Arc<Owner>,
}

impl<'a> InFlight<'a> {
    /// Enters the gate, or tells the loss.
    pub(crate) fn new(owner: &'a Arc<Owner>) -> Outcome<Self> {
        if owner.gate.enter() { Ok(Self { owner }) } else { Err(lost(owner)) }
    }

    /// Returns the driver.
    pub(crate) fn driver(&self) -> &'a Arc<dyn Driver> {
        &self.owner.driver
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.owner.gate.leave() == Duty::Stop {
            stop(self.owner);
        }
    }
}

/// Returns the error of a lost device.
#[cold]
pub(crate) fn lost(owner: &Owner) -> Failed {
    let why = owner.track.why().unwrap_or_else(|| Arc::from("lost"));
    Failed::from(Error::Lost { device: Arc::clone(&owner.name), why })
}

/// Returns the error of a point whose device was lost before it was reached.
pub(crate) fn lost_point(point: Point) -> Failed {
    lost_id(point.device_id())
}

/// Returns the error of a device that is gone.
pub(crate) fn lost_id(id: DeviceId) -> Failed {
    let track = track(id);
    let why = track.why().unwrap_or_else(|| Arc::from("lost"));
    Failed::from(Error::Lost { device: track.name(), why })
}

/// Tells the loss of a lost device.
#[inline]
pub(crate) fn check_lost(owner: &Owner) -> Outcome<()> {
    if owner.track.is_lost() { Err(lost(owner)) } else { Ok(()) }
}

/// Looks at the word, and raises what everybody sees. A fault loses the device.
#[inline]
pub(crate) fn look(owner: &Arc<Owner>) {
    if owner.track.reached() < owner.track.submitted() {
        look_now(owner);
    }
}

fn look_now(owner: &Arc<Owner>) {
    if !owner.gate.enter() {
        return;
    }
    let call = InFlight { owner };
    let reached = call.driver().reached();
    // Whoever is woken may do anything: the call is over by then.
    drop(call);
    match reached {
        Ok(value) => {
            if owner.track.raise(value) {
                owner.note_due();
                owner.wakers.wake_all();
            }
        }
        Err(fault) => lose(owner, &fault.0),
    }
}

/// Looks at the word of a point's device.
pub(crate) fn look_at(point: Point) -> Fate {
    let fate = point.fate();
    if fate != Fate::Unreached {
        return fate;
    }
    if let Some(owner) = owner_of(point.device_id()) {
        look(&owner);
    }
    point.fate()
}

/// Turns a driver's fault into the loss of its device, and answers the error to tell.
pub(crate) fn fault(owner: &Arc<Owner>, fault: &Fault) -> Failed {
    lose(owner, &fault.0);
    lost(owner)
}

/// Loses a device; the first reason is kept, and later calls do nothing.
pub(crate) fn lose(owner: &Arc<Owner>, why: &Arc<str>) {
    if mark(owner, why) {
        end(owner, why);
    }
}

/// Marks a device lost; true for the first reason alone.
fn mark(owner: &Owner, why: &Arc<str>) -> bool {
    !owner.is_host() && owner.track.lose(why)
}

/// Tells everybody that a device is lost now, and stops it.
fn end(owner: &Arc<Owner>, why: &Arc<str>) {
    tracing::debug!(device = %owner.name, %why, "device lost");
    if profile::active() {
        profile::record(&Event::now(What::Loss(Arc::clone(why)), owner.id));
    }
    if **why != *CLOSED {
        let mut failure = FAILURE.lock();
        failure.get_or_insert_with(|| (Arc::clone(&owner.name), Arc::clone(why)));
    }
    LOST_LEFT.fetch_add(1, Ordering::Relaxed);
    owner.wakers.wake_all();
    owner.loss_watchers.wake_all();
    owner.claim_wakers.wake_all();
    if owner.gate.close() == Duty::Stop {
        stop(owner);
    }
    if let Some(f) = AT_LOSS.get() {
        f(owner);
    }
    spread(owner);
}

/// Loses the devices whose queues wait for what this loss leaves unreached.
fn spread(owner: &Arc<Owner>) {
    if !QUEUES_WAIT {
        return;
    }
    let why: Arc<str> = Arc::from(text!(owner.name, " lost"));
    for other in owners() {
        let waits = || {
            other.ends.lock().foreign.iter().any(|(value, point)| {
                point.device_id() == owner.id
                    && point.fate() != Fate::Reached
                    && *value > other.track.reached()
            })
        };
        if waits() {
            // What ran before the loss waits for nothing.
            look(&other);
            if waits() {
                lose(&other, &why);
            }
        }
    }
}

/// Starts the stop of a device, once, with no call in flight.
pub(crate) fn stop(owner: &Arc<Owner>) {
    owner.driver.stop();
    // ORDERING: pairs with the load in `poll_stopped`.
    owner.stop_begun.store(true, Ordering::Release);
    let _ = poll_stopped(owner, Waker::noop());
}

/// Asks whether the stop is over, and settles the device when it is.
pub(crate) fn poll_stopped(owner: &Arc<Owner>, waker: &Waker) -> Poll<()> {
    if owner.is_stopped() {
        return Poll::Ready(());
    }
    // ORDERING: pairs with the store in `stop`: the driver was told.
    if !owner.stop_begun.load(Ordering::Acquire) {
        return Poll::Pending;
    }
    let Poll::Ready(how) = owner.driver.poll_stopped(waker) else { return Poll::Pending };
    // Who sees the end of the stop can wait for what it brings home.
    let draining = owner.draining.begin();
    if how == Stopped::Settled {
        owner.track.settle();
    }
    // ORDERING: pairs with the load in `is_stopped`; the driver runs nothing any more.
    if !owner.stopped.swap(true, Ordering::SeqCst) {
        if let Some(f) = AT_STOP.get() {
            f(owner.id);
        }
        owner.note_due();
        drain_one(owner);
        // What others hold back because of this device can go on now.
        for other in &owners() {
            other.note_due();
            drain_one(other);
        }
        drop(draining);
        owner.wakers.wake_all();
        owner.claim_wakers.wake_all();
        forget();
    }
    Poll::Ready(())
}

/// Takes the stopped devices that nobody else names out of the registry: nothing comes back to
/// them any more.
pub(crate) fn forget() {
    let is_gone = |known: &Arc<Owner>| known.is_stopped() && Arc::strong_count(known) == 1;
    let mut owners = OWNERS.write();
    let mut gone = Vec::new();
    while let Some(at) = owners.iter().position(is_gone) {
        gone.push(owners.remove(at));
    }
    for owner in &gone {
        // Nobody else names it, so its lock is free.
        let mut sum = GONE.lock();
        *sum = sum.plus(owner.heap.lock().counters.usage());
    }
    // Their drivers end after the lock.
    drop(owners);
    LOST_LEFT.fetch_sub(gone.len() as u32, Ordering::Relaxed);
}

/// What was asked of rig since the process began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usages {
    /// On the host.
    pub(crate) host: Usage,
    /// On all other devices, those among them that are gone.
    pub(crate) devices: Usage,
}

/// Returns what was asked of rig so far.
pub(crate) fn usages() -> Usages {
    let (owners, gone) = {
        let owners = OWNERS.read();
        (owners.clone(), *GONE.lock())
    };
    let mut usages = Usages { host: Usage::default(), devices: gone };
    for owner in owners {
        let usage = owner.heap.lock().counters.usage();
        let sum = if owner.is_host() { &mut usages.host } else { &mut usages.devices };
        *sum = sum.plus(usage);
    }
    usages
}

/// Drains a device, the host, and lost devices that still hold something; never waits (S9.1).
pub(crate) fn drain(owner: &Arc<Owner>) {
    serve(owner);
    if let Some(host) = owner.host.as_ref().filter(|host| host.has_work()) {
        serve(host);
    }
    if LOST_LEFT.load(Ordering::Relaxed) > 0 {
        serve_lost();
    }
}

fn serve_lost() {
    let waits = |other: &Arc<Owner>| other.track.is_lost() && other.has_work();
    owners().iter().filter(|other| waits(other)).for_each(serve);
}

/// Looks at what a device's memory waits for, and drains it.
#[inline]
fn serve(owner: &Arc<Owner>) {
    look(owner);
    // ORDERING: a hint; the drain itself takes it with the right order.
    if owner.due.load(Ordering::Relaxed) {
        look_at_waited(owner);
    }
    let begun = profile::begin();
    drain_one(owner);
    if begun.is_some() && profile::active() {
        note_drain(owner, begun);
    }
}

/// Looks at the devices whose points keep memory of this one from returning.
fn look_at_waited(owner: &Arc<Owner>) {
    let mut from = Some(0);
    while let Some(word) = from {
        let first = owner.heap.lock().pending.first_from(word).map(|(word, _)| *word);
        let Some(point) = first.and_then(Point::from_word) else { return };
        if let Some(other) = owner_of(point.device_id()).filter(|other| other.id != owner.id) {
            look(&other);
        }
        from = point.next_device();
    }
}

#[cold]
fn note_drain(owner: &Arc<Owner>, begun: Option<u64>) {
    profile::end(begun, What::Drain, owner.id, |event| event);
    profile::record(&Event::now(holdings(owner), owner.id));
}

/// Returns what a device's account holds, for a profile.
fn holdings(owner: &Owner) -> What {
    let heap = owner.heap.lock();
    What::Held {
        held_bytes: heap.books.held(),
        cached_bytes: heap.books.bytes_in(Where::Cached),
        live_bytes: heap.books.bytes_in(Where::Live),
    }
}

/// Drains every device; lost ones that still hold something among them.
pub(crate) fn drain_all() {
    owners().iter().for_each(serve);
    forget();
}

fn drain_one(owner: &Arc<Owner>) {
    with_after(|after| drain::drain(owner, after));
    if cfg!(debug_assertions) {
        owner.heap.lock().books.check();
    }
}

/// Runs what a drain or its helper does, and then what falls to it with nothing in its hands.
#[inline]
pub(crate) fn with_after<R>(f: impl FnOnce(&mut After) -> R) -> R {
    let mut after = After::default();
    let answer = f(&mut after);
    if after.is_some() {
        do_rest(after);
    }
    answer
}

#[cold]
fn do_rest(after: After) {
    let Some(rest) = after.rest() else { return };
    rest.keepers.into_iter().for_each(drain::drop_keeper);
    rest.stops.iter().for_each(stop);
}

/// Drains every device, and waits for the drains that others have begun: what they took off a
/// list is at home then, or waits for its point.
pub(crate) async fn drain_out() {
    // Twice: a drain that began before a point was reached leaves what waits for it to the next.
    for _ in 0..2 {
        drain_all();
        for owner in owners() {
            owner.draining.wait_out().await;
        }
    }
}

/// Calls `f` with each device that stops from now on; the first who asks is called.
pub(crate) fn at_stop(f: fn(DeviceId)) {
    let _ = AT_STOP.set(f);
}

/// Calls `f` with each device that is lost from now on; the first who asks is called.
pub(crate) fn at_loss(f: fn(&Owner)) {
    let _ = AT_LOSS.set(f);
}

/// Loses every device but the host, and refuses every later open until the process ends (S12.6);
/// the first call acts. For a program that found its state broken and wants no more work done: all
/// that waits ends with `why`.
pub fn fail(why: &str) {
    let why: Arc<str> = Arc::from(why);
    if FAILED.set(Arc::clone(&why)).is_err() {
        return;
    }
    {
        let mut failure = FAILURE.lock();
        failure.get_or_insert_with(|| (Arc::from("every device"), Arc::clone(&why)));
    }
    // All are marked before one ends: its end takes others along, which have this reason too.
    let lost: Vec<_> = owners().into_iter().filter(|owner| mark(owner, &why)).collect();
    lost.iter().for_each(|owner| end(owner, &why));
}

/// Returns the first loss of the process that was no close, or the reason of an earlier [`fail`]:
/// the device and why. None while all went well.
pub fn failure() -> Option<(Arc<str>, Arc<str>)> {
    FAILURE.lock().clone()
}

/// Returns the reason of [`fail`], if it was called.
pub(crate) fn failed() -> Option<Arc<str>> {
    // Made here, by code that goes where nothing calls `fail`.
    let why = FAILED.get()?;
    Some(Arc::clone(why))
}

/// Checks that a wait point was assigned; no device assigns value 0.
pub(crate) fn check_submitted(call: &'static str, point: Point) -> Outcome<()> {
    let submitted = track(point.device_id()).submitted();
    if point.value() == 0 || point.value() > submitted {
        return Misuse::NotSubmitted { value: point.value(), submitted }.of(call);
    }
    Ok(())
}

/// The reason of a close.
pub(crate) const CLOSED: &str = "closed";

/// How many lost devices still stand in the registry; a hint.
static LOST_LEFT: AtomicU32 = AtomicU32::new(0);
/// Guards the devices that live or still hold something. A leaf lock.
static OWNERS: Global<RwLock<Vec<Arc<Owner>>>> = Global::new(RwLock::new(Vec::new()));
/// Guards what was asked of the devices that are gone from the registry. Under `OWNERS`.
static GONE: Global<Mutex<Usage>> = Global::new(Mutex::new(Usage::NONE));
/// Guards the first loss that was no close. A leaf lock.
static FAILURE: Mutex<Option<(Arc<str>, Arc<str>)>> = Mutex::new(None);
static AT_STOP: OnceLock<fn(DeviceId)> = OnceLock::new();
static AT_LOSS: OnceLock<fn(&Owner)> = OnceLock::new();
static FAILED: OnceLock<Arc<str>> = OnceLock::new();
