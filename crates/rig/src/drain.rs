//! The way back: from the return list through waiting to the cache, the driver or the keeper.
//!
//! A drain takes what its list held at its start, runs what is due and never waits (S9.1). Any
//! thread may drain, several at once; each record is taken home by whoever wins
//! `Allocation::start_return`. Drivers and keepers are called with no lock held.
//!
//! ```text
//! unreachable -> returning --every point reached, mappings released--> cache, within budget
//!                                                                  \-> leaving -> driver, keeper
//! ```

mod cached;
#[cfg(all(test, rig_loom))]
mod loom_tests;
mod unmap;

pub(crate) use crate::drain::cached::{
    KINDS, empty_all, empty_cache, empty_kind, kind_index, make_way, reclaim, with_payer,
    with_pool_payer,
};
pub(crate) use crate::drain::unmap::forget_mapping;

use crate::allocation::mapping::MapState;
use crate::allocation::owner::{Owner, has_releases};
use crate::allocation::{Allocation, Extra, Keeper, Memory};
use crate::budget::Where;
use crate::cache::Class;
use crate::drain::cached::{Door, Home, keep};
use crate::drain::unmap::{end_mapping, release_mapping};
use crate::draining::Drain;
use crate::driver::{Alloc, Kind, Region};
use crate::entry;
use crate::gate::Duty;
use crate::list::{Items, Linked, List};
use crate::sync::{Ordering, now_ns};
use crate::timeline::{Fate, Point, Track, VALUE_MAX};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What a drain leaves for the time when it has nothing in its hands any more: nothing, in most
/// drains, which stand on every creation's path.
#[derive(Default)]
pub(crate) struct After(Option<Box<Rest>>);

/// What is left to do.
#[derive(Default)]
pub(crate) struct Rest {
    /// Keepers of memory that is back, whose destructors may be anything.
    pub(crate) keepers: Vec<Keeper>,
    /// Devices whose stop the caller has to run, since a drain left their gates last.
    pub(crate) stops: Vec<Arc<Owner>>,
}

impl After {
    /// Leaves the gate of a device, whose stop may fall to the caller.
    pub(crate) fn leave_gate(&mut self, owner: &Arc<Owner>) {
        if owner.gate.leave() == Duty::Stop {
            self.0.get_or_insert_default().stops.push(Arc::clone(owner));
        }
    }

    fn drop_later(&mut self, keeper: Keeper) {
        self.0.get_or_insert_default().keepers.push(keeper);
    }

    /// Whether anything is left to do.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Returns what is left to do.
    pub(crate) fn rest(self) -> Option<Box<Rest>> {
        self.0
    }
}

/// Takes back what callers dropped, and runs what is due.
#[inline]
pub(crate) fn drain(owner: &Arc<Owner>, after: &mut After) {
    if !owner.has_work() {
        return;
    }
    let draining = owner.draining.begin();
    if !owner.returns.is_empty() {
        take_home(owner, after);
    }
    if !owner.unmaps.is_empty() {
        owner.unmaps.take_all().for_each(end_mapping);
    }
    if !owner.leftovers.is_empty() && has_releases() {
        let (left, submitted) = take_used(&owner.leftovers, owner.track);
        let mut ends = owner.ends.lock();
        left.for_each(|left| ends.releases.push_back((submitted, left as _)));
        drop(ends);
        owner.note_due();
    }
    // ORDERING: pairs with `note_due`: what was put there before is found by what follows.
    if owner.due.load(Ordering::Relaxed) && owner.due.swap(false, Ordering::AcqRel) {
        end_due(owner, draining, after);
    }
}

/// Runs what is due, and ends the drain.
fn end_due(owner: &Arc<Owner>, draining: Drain<'_>, after: &mut After) {
    run_due(owner, after);
    // Noted before this drain is over: who waited for it looks again.
    if owner.heap.lock().has_due() {
        owner.note_due();
    }
    drop(draining);
    if has_releases() {
        run_releases(owner, after);
        if !owner.ends.lock().releases.is_empty() {
            owner.note_due();
        }
    }
}

/// Takes what is on a list, and answers a value that no work which uses it comes after.
fn take_used<T: Linked>(list: &List<T>, track: &Track) -> (Items<T>, u64) {
    let taken = list.take_all();
    // Looked at afterwards: the take acquired the pushes, and what was submitted before each.
    (taken, track.submitted())
}

/// Starts the way back of a dead record.
pub(crate) fn bury(record: Arc<Allocation>, after: &mut After) {
    let owner = Arc::clone(&record.owner);
    let _draining = owner.draining.begin();
    // An export may keep the bytes; the borrows are dead all the same.
    end_mappings(&record);
    if record.start_return() {
        set_out(&owner, record, after);
    }
}

/// Takes home what callers dropped. What nothing keeps from the cache enters it, many under one
/// lock; everything else goes its way alone, with no lock held.
fn take_home(owner: &Arc<Owner>, after: &mut After) {
    let mut door = Door::new(owner);
    for record in owner.returns.take_all() {
        if let Some(class) = plain_class(&record, owner) {
            door.enter(record, class, after);
        } else if !record.start_return() {
            // Its end may be here, with no lock held.
            door.close(after);
        } else if let Some(class) = ready_class(&record) {
            door.enter(record, class, after);
        } else {
            door.close(after);
            set_out(owner, record, after);
        }
    }
    door.close(after);
}

/// Claims the way back of a record about whose buffer there is nothing to know or to wait for, as
/// is usual; returns the class in which it may enter its device's cache at once.
#[inline]
fn plain_class(record: &Allocation, owner: &Owner) -> Option<Class> {
    let Memory::Pool { kind: Kind::Device, class } = record.memory else { return None };
    let passes = record.is_plain() && !owner.track.is_lost() && record.start_plain_return();
    passes.then_some(class)
}

/// Returns the class of a record that may enter its device's cache at once.
fn ready_class(record: &Allocation) -> Option<Class> {
    let Memory::Pool { kind: Kind::Device, class } = record.memory else { return None };
    let is_plain = !record.is_lent()
        && !record.is_unsure()
        && !record.claims.is_dead()
        && record.extra.if_made(|extra| extra.maps.is_empty()) != Some(false);
    if !is_plain || blocker(record).is_some() {
        return None;
    }
    record.retire();
    Some(class)
}

/// Makes the mappings due that only dead borrows name: those hold nothing (S4.15). What no borrow
/// names is due since the last one went (S4.10).
fn end_mappings(record: &Allocation) {
    for map in record.extra.if_made(|extra| extra.maps.clone()).unwrap_or_default() {
        let is_named = map.live.load(Ordering::Relaxed) > 0;
        if is_named && *map.state.lock() == MapState::Live {
            map.note_due();
            List::push(map);
        }
    }
}

/// Sets out on the way back. The caller has won [`Allocation::start_return`].
fn set_out(owner: &Arc<Owner>, record: Arc<Allocation>, after: &mut After) {
    let given = record.is_lent() && !record.claims.is_dead();
    let record = record.homeward();
    end_mappings(&record);
    if record.memory == Memory::Empty {
        return record.leave_roster();
    }
    {
        let mut heap = owner.heap.lock();
        // Nobody asked for a half, or for what the program brought.
        if !matches!(record.memory, Memory::Half | Memory::Wrapped) {
            heap.counters.returned(record.len());
        }
        if let Memory::Pool { class, .. } = record.memory {
            heap.leaves_live(class.bytes());
        }
        let (place, bytes) = (record.live_place(), record.charged());
        with_payer(&mut heap, owner, record.kind(), |books| {
            if given {
                books.give_away(place, bytes);
            } else {
                books.shift(place, Where::Returning, bytes);
            }
        });
    }
    if given {
        record.set_given();
        owner.heap.lock().given.push(record);
        owner.note_due();
    } else {
        come_home(owner, record, after);
    }
}

/// Takes a returning allocation as far as it can go.
fn come_home(owner: &Arc<Owner>, record: Arc<Allocation>, after: &mut After) {
    if let Some(point) = blocker(&record) {
        let mut heap = owner.heap.lock();
        heap.pending_bytes += record.charged();
        heap.pending.or_insert_with(point.word(), Vec::new).push(record);
        drop(heap);
        return owner.note_due();
    }
    let park = |extra: &mut Extra| {
        extra.parked = !extra.maps.is_empty();
        extra.parked
    };
    if record.extra.if_made(park) == Some(true) {
        return;
    }
    let verdict = verdict(owner, &record, after);
    if let Memory::Pool { kind, class } = record.memory {
        if verdict == Verdict::Given && !record.is_lent() {
            return keep(owner, Home { record, kind, class, from: Where::Returning }, after);
        }
        owner.heap.lock().cache.freed_from(kind_index(kind), class);
    }
    if verdict == Verdict::Refused {
        // Its driver has it already.
        forget(owner, &record);
    } else {
        leave(owner, record, after);
    }
}

/// What a driver says of a region that it handed out ahead of its verdict.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Given,
    Refused,
    /// Nothing yet: the region goes back, and is not cached.
    None,
}

/// Returns the driver's verdict on memory that is on its way home.
fn verdict(owner: &Arc<Owner>, record: &Allocation, after: &mut After) -> Verdict {
    if !record.is_unsure() {
        return Verdict::Given;
    }
    if !owner.gate.enter() {
        return Verdict::None;
    }
    let answer = owner.driver.poll_alloc(record.region, Waker::noop());
    after.leave_gate(owner);
    match answer {
        Poll::Ready(Alloc::Ready(_)) => Verdict::Given,
        Poll::Ready(Alloc::Refused) => Verdict::Refused,
        _ => Verdict::None,
    }
}

/// Sends an allocation to its driver once its device reached all it has submitted now (S9.4).
fn leave(owner: &Arc<Owner>, record: Arc<Allocation>, after: &mut After) {
    let submitted = owner.track.submitted();
    if owner.has_timeline() && owner.track.reached() < submitted && !owner.track.is_settled() {
        owner.heap.lock().leaving.push((submitted, record));
        return owner.note_due();
    }
    give_back(owner, record, after);
}

/// Gives an allocation back to its driver or keeper, with no call beside the driver's stop.
fn give_back(owner: &Arc<Owner>, record: Arc<Allocation>, after: &mut After) {
    let entered = owner.gate.enter();
    if !entered && !owner.track.is_settled() {
        owner.heap.lock().leaving.push((VALUE_MAX, record));
        return owner.note_due();
    }
    let started = now_ns();
    if record.region != Region::default() {
        owner.driver.free(record.region);
    }
    if record.charged() > 0 {
        owner.heap.lock().spent_in_driver(now_ns() - started);
    }
    if let Some(keeper) = record.extra.if_made(|extra| extra.keeper.take()).flatten() {
        after.drop_later(keeper);
    }
    forget(owner, &record);
    if entered {
        after.leave_gate(owner);
    }
}

/// Takes memory off the books that its driver has.
fn forget(owner: &Arc<Owner>, record: &Allocation) {
    let bytes = record.charged();
    if bytes > 0 {
        let mut heap = owner.heap.lock();
        heap.counters.freed(bytes);
        with_payer(&mut heap, owner, record.kind(), |books| match record.is_given() {
            true => books.given_back(bytes),
            false => books.gone(Where::Returning, bytes),
        });
    }
    record.leave_roster();
}

/// Drops what kept wrapped memory alive, with nothing in a drain's hands.
pub(crate) fn drop_keeper(keeper: Keeper) {
    let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| {
        entry::inside("a keeper's destructor", || drop(keeper));
    }));
    if dropped.is_err() {
        tracing::error!("a keeper's destructor panicked");
    }
}

/// Returns a point that keeps the memory from the cache (S9.3).
fn blocker(record: &Allocation) -> Option<Point> {
    let owner = &record.owner;
    if owner.track.is_lost() && !owner.track.is_settled() {
        return Some(Point::new(owner.id, VALUE_MAX));
    }
    if record.stamps.is_empty() {
        return None;
    }
    let mut found = None;
    record.stamps.for_each_use(|point| {
        let passes = match point.fate() {
            Fate::Reached | Fate::Dropped => true,
            Fate::Unreached => point.device_id() == owner.id && owner.is_ordered(),
            Fate::Undone => false,
        };
        if !passes {
            found = found.max(Some(point));
        }
    });
    found
}

fn run_due(owner: &Arc<Owner>, after: &mut After) {
    let stopped = owner.is_stopped();
    if stopped {
        empty_all(owner, after);
    }
    if owner.track.is_settled() {
        let maps = owner.heap.lock().maps.all();
        maps.iter().for_each(|mapping| release_mapping(mapping, u64::MAX, after));
    }
    passed_points(owner).into_iter().for_each(|record| come_home(owner, record, after));
    let settled = owner.track.is_settled();
    let reached = owner.track.reached();
    let gone = |value: u64| settled || (!owner.track.is_lost() && value <= reached);
    let most = if settled { u64::MAX } else { reached };
    let unmapping = take_due(&mut owner.heap.lock().unmapping, gone);
    unmapping.iter().for_each(|(_, mapping)| release_mapping(mapping, most, after));
    let leaving = take_due(&mut owner.heap.lock().leaving, gone);
    leaving.into_iter().for_each(|(_, record)| give_back(owner, record, after));
    take_given(owner, after);
}

/// Takes the first of a queue whose values pass.
fn take_due<T>(queue: &mut Vec<(u64, T)>, passes: impl Fn(u64) -> bool) -> Vec<(u64, T)> {
    let count = queue.iter().take_while(|(value, _)| passes(*value)).count();
    if count == 0 {
        return Vec::new();
    }
    let rest = queue.split_off(count);
    std::mem::replace(queue, rest)
}

/// Takes what waits for points that are reached or dropped now, one look a device.
fn passed_points(owner: &Owner) -> Vec<Arc<Allocation>> {
    let mut heap = owner.heap.lock();
    let mut passed = Vec::new();
    let point = |word| Point::from_word(word).expect("only points are waited for");
    let passes = |word| matches!(point(word).fate(), Fate::Reached | Fate::Dropped);
    let mut next = Some(0);
    while let Some(from) = next {
        heap.pending.take_row(from, passes).for_each(|records| passed.extend(records));
        next = heap.pending.first_from(from).and_then(|(word, _)| point(*word).next_device());
    }
    heap.pending_bytes -=
        passed.iter().map(|record: &Arc<Allocation>| record.charged()).sum::<u64>();
    passed
}

/// Takes back lent memory that the program let go of, or whose device is gone.
fn take_given(owner: &Arc<Owner>, after: &mut After) {
    let given = std::mem::take(&mut owner.heap.lock().given);
    for record in given {
        let settled = owner.track.is_settled();
        let entered = owner.gate.enter();
        let gone = settled || entered && owner.driver.let_go(record.region);
        if entered {
            after.leave_gate(owner);
        }
        if gone {
            come_home(owner, record, after);
        } else {
            owner.heap.lock().given.push(record);
        }
    }
}

/// Runs the releases of values that are done, or of a settled device.
fn run_releases(owner: &Arc<Owner>, after: &mut After) {
    let settled = owner.track.is_settled();
    let reached = owner.track.reached();
    loop {
        // No stop runs beside a release (S8.9).
        let entered = owner.gate.enter();
        if !entered && !owner.is_stopped() {
            return;
        }
        let is_done = |(value, _): &mut (u64, _)| settled || *value <= reached;
        let release = owner.ends.lock().releases.pop_front_if(is_done);
        let ran = release.map(|(_, release)| release.done());
        if entered {
            after.leave_gate(owner);
        }
        if ran.is_none() {
            return;
        }
    }
}
