//! The maintenance tick: an idle program gives memory back (S9.15).
//!
//! One thread natively, started with the first device, and asleep while none is ticking: a device
//! ticks from its open until it stopped and nothing comes back to it any more, the host while it
//! holds something. Each pass looks at the devices that tick: it serves drivers that keep wakers,
//! finds losses and hangs, and, at the pace of the device's own bins, drains, scans the usage
//! windows and returns what they say. It raises nothing and keeps no process alive; a fault it
//! meets loses that device.

use crate::allocation::owner::{Owner, QUEUES_WAIT, Still};
use crate::drain;
use crate::error::text;
use crate::life;
use crate::settings;
use crate::sync::plain::Mutex;
use crate::sync::{Ordering, fence, now_ns};
use crate::timeline::{DeviceId, Fate, Point};
use crate::window::Pace;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

#[cfg(not(target_family = "wasm"))]
mod thread;
#[cfg(target_family = "wasm")]
#[path = "tick/none.rs"]
mod thread;

#[cfg(target_family = "wasm")]
pub use thread::set_poked;
pub(crate) use thread::take_poke;

/// Makes the tick look at a device from now on. The caller left something for it before, under a
/// lock that `is_quiet` takes, or ahead of a fence.
#[inline]
pub(crate) fn arm(owner: &Owner) {
    // A plain look first: this stands on every creation's path.
    if !owner.ticking.load(Ordering::Relaxed) && !owner.ticking.swap(true, Ordering::Relaxed) {
        poke();
    }
}

/// Makes the tick serve a driver that may have kept the work back that was just handed over
/// (S2.6).
pub(crate) fn serve_soon(owner: &Owner) {
    // The driver's own lock stands between: either its look found the work, or this one finds that
    // it has looked.
    let kept_back = &owner.kept_back;
    if !kept_back.load(Ordering::Relaxed) && !kept_back.swap(true, Ordering::Relaxed) {
        poke();
    }
}

/// Makes the tick pass now, since somebody left a waker with a driver.
pub(crate) fn poke() {
    if thread::poke() {
        life::at_loss(see_to_stop);
        thread::start();
    }
}

/// Makes the tick look after the stop of a device that was lost, a quiet one too.
fn see_to_stop(owner: &Owner) {
    owner.ticking.store(true, Ordering::Relaxed);
    poke();
}

/// Wakes a waker once, between 200 and 400 ms from now.
pub(crate) fn wake_later(waker: &Waker) {
    LATER.get_or_init(Later::default).new.lock().push(waker.clone());
    poke();
}

/// Wakers to be woken: those left since the last turn, and those before.
#[derive(Default)]
struct Later {
    /// Guards the wakers left since the last turn. A leaf lock.
    new: Mutex<Vec<Waker>>,
    /// Guards the wakers due at the next turn, and when that is. A leaf lock.
    old: Mutex<(Vec<Waker>, u64)>,
}

/// Wakes what is due; answers whether something is left.
fn turn_later() -> bool {
    let Some(later) = LATER.get() else { return false };
    let now = now_ns();
    let due = {
        let mut old = later.old.lock();
        if now < old.1 {
            return true;
        }
        let new = std::mem::take(&mut *later.new.lock());
        old.1 = now + WAIT_NS;
        std::mem::replace(&mut old.0, new)
    };
    due.into_iter().for_each(Waker::wake);
    !(later.old.lock().0.is_empty() && later.new.lock().is_empty())
}

/// Passes on this thread, for an embedder that has no other.
pub(crate) fn pass_here() -> Option<u64> {
    PACES.with_borrow_mut(pass)
}

thread_local! {
    /// The paces of those who call `pass_here`.
    static PACES: RefCell<Vec<Paced>> = const { RefCell::new(Vec::new()) };
}

/// When a device is scanned next.
pub(crate) struct Paced {
    id: DeviceId,
    pace: Pace,
    next_ns: u64,
}

/// Looks at every ticking device; answers in how many nanoseconds to look again, none if no device
/// needs it.
pub(crate) fn pass(paces: &mut Vec<Paced>) -> Option<u64> {
    // First: what is listed here is named.
    life::forget();
    let owners = life::owners();
    let is_ticking = |owner: &&Arc<Owner>| owner.ticking.load(Ordering::Relaxed);
    let ticking = owners.iter().filter(is_ticking);
    paces.retain(|paced| ticking.clone().any(|owner| owner.id == paced.id));
    let mut next = turn_later().then_some(WAIT_NS);
    for owner in ticking {
        let at = match paces.iter().position(|paced| paced.id == owner.id) {
            Some(at) => at,
            None => {
                let next_ns = now_ns() + FIRST_NS;
                paces.push(Paced { id: owner.id, pace: Pace::default(), next_ns });
                paces.len() - 1
            }
        };
        let wait = look_after(owner, &mut paces[at]);
        next = sooner(next, wait);
    }
    next
}

fn sooner(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map_or(one.or(other), |(one, other)| Some(one.min(other)))
}

/// Looks at one device; answers in how many nanoseconds to look again.
fn look_after(owner: &Arc<Owner>, paced: &mut Paced) -> Option<u64> {
    let wait = serve(owner);
    let now = now_ns();
    if now >= paced.next_ns {
        life::drain(owner);
        let changed = settings::managed() && scan(owner);
        if is_quiet(owner) {
            owner.ticking.store(false, Ordering::Relaxed);
            // ORDERING: pairs with the locks and fences of those who arm: either what they left
            // is seen by this second look, or they see the store.
            fence(Ordering::SeqCst);
            if is_quiet(owner) {
                return wait;
            }
            owner.ticking.store(true, Ordering::Relaxed);
        }
        let pace = &mut paced.pace;
        let wait_ms = if changed { pace.after_changes() } else { pace.after_none() };
        paced.next_ns = now + wait_ms * 1_000_000;
    }
    sooner(wait, Some(paced.next_ns.saturating_sub(now)))
}

/// Serves the wakers that a driver keeps, and finds losses, hangs and stops that are over.
fn serve(owner: &Arc<Owner>) -> Option<u64> {
    if owner.track.is_lost() {
        let over = life::poll_stopped(owner, Waker::noop()).is_ready();
        return (!over).then_some(WAIT_NS);
    }
    let service = {
        let call = life::InFlight::new(owner).ok()?;
        owner.kept_back.store(false, Ordering::Relaxed);
        let service = call.driver().service();
        // What it waits for needs no further call.
        owner.kept_back.store(matches!(service, Ok(Some(_))), Ordering::Relaxed);
        service
    };
    let wait = match service {
        Ok(wait) => wait.map(|wait| wait.as_nanos() as u64),
        Err(fault) => {
            life::lose(owner, &fault.0);
            return Some(0);
        }
    };
    life::look(owner);
    if owner.is_waited_for() {
        check_still(owner);
    }
    if owner.wakers.any() { sooner(wait, Some(WAIT_NS)) } else { wait }
}

/// Loses the device if its word has stood still for the hang bound under committed work while
/// somebody waited, time excepted in which it was idle or waited for another device (S12.1).
pub(crate) fn check_still(owner: &Arc<Owner>) {
    let Some(bound_ms) = owner.facts.hang_ms.filter(|_| HANGS) else { return };
    let word = owner.track.reached();
    let now = now_ns();
    let hung = {
        let mut ends = owner.ends.lock();
        let is_next = |(value, point): &(u64, Point)| {
            *value == word + 1 && matches!(point.fate(), Fate::Unreached)
        };
        let foreign = QUEUES_WAIT && ends.foreign.iter().any(is_next);
        let waits = word >= owner.track.submitted() || foreign;
        let still = &mut ends.still;
        let slice = still.looked_ns.map_or(0, |at| now.saturating_sub(at)).min(SLICE_NS);
        let kept = if still.word == word { still.still_ns } else { 0 };
        let still_ns = if waits { kept } else { kept + slice };
        *still = Still { word, looked_ns: Some(now), still_ns };
        still_ns >= bound_ms.saturating_mul(1_000_000)
    };
    if hung {
        life::lose(owner, &Arc::from(text!("no progress for ", bound_ms, " ms")));
    }
}

/// Starts the count of standing still anew, when the first waiter comes.
pub(crate) fn start_still(owner: &Owner) {
    if owner.facts.hang_ms.is_some() {
        owner.ends.lock().still.looked_ns = Some(now_ns());
    }
}

/// Scans the windows of a device's bins and returns what they say; answers whether they changed.
fn scan(owner: &Arc<Owner>) -> bool {
    let changed = {
        let mut heap = owner.heap.lock();
        let live = heap.live;
        heap.cache.scan(live)
    };
    life::with_after(|after| {
        drain::reclaim(owner, after);
        drain::make_way(owner, 0, after);
    });
    changed
}

/// Whether nothing of the device can change by itself, and nothing comes back to it.
fn is_quiet(owner: &Owner) -> bool {
    let idle = owner.track.reached() >= owner.track.submitted() && !owner.track.is_lost();
    (idle || owner.is_stopped()) && !owner.wakers.any() && owner.holds_nothing()
}

/// Whether what stands still is lost: a browser sees to that by itself (S13.13).
pub(crate) const HANGS: bool = cfg!(not(target_family = "wasm"));
/// No wait sleeps longer without looking for losses (S0.7).
pub(crate) const WAIT: Duration = Duration::from_nanos(WAIT_NS);
pub(crate) const WAIT_NS: u64 = 200_000_000;
/// The most that one look adds to a hang, so that clocks that jump lose no device (S13.13).
const SLICE_NS: u64 = 250_000_000;
const FIRST_NS: u64 = 1_000_000_000;

static LATER: OnceLock<Later> = OnceLock::new();
