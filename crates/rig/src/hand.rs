//! The hand-over of work to a device, with its waits, its turn, its claims and its stamps (S8.3).
//!
//! Nothing waits in the turn but the driver's own hand-over. Claims are taken all or none, and the
//! stamps are looked at again under them: what grew meanwhile sends the caller back to gather
//! again. The value is assigned and the stamps are raised in one turn, so that what is handed over
//! has its stamps, or the device is lost (S3.3). A hand-over that waits for nothing allocates
//! nothing. Any thread may call it.

mod producers;
mod touch;

pub(crate) use crate::hand::touch::{Fixed, INLINE, Touch, Touches, Use, merge};

use crate::allocation::owner::{Owner, QUEUES_WAIT, Release, has_releases};
use crate::allocation::{Allocation, Memory};
use crate::claim::{Answer, Marking, Pass};
use crate::driver::{HandOver, Producer, Room, Work};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, text};
use crate::hand::producers::Producers;
use crate::life::{self, InFlight};
use crate::profile::{self, Event, What};
use crate::reclaim;
use crate::sync::{HAS_THREADS, Ordering, await_native, fence};
use crate::tick;
use crate::timeline::{DeviceId, Fate, Point, VALUE_MAX};
use crate::turn::Taken;
use crate::wait;
use std::sync::Arc;

/// Work to be handed over.
pub(crate) struct Job<'a, T> {
    pub(crate) call: &'static str,
    pub(crate) work: Work<'a>,
    /// What the work uses, each allocation once.
    pub(crate) touches: &'a [T],
    pub(crate) special: Special,
    /// Further points that it follows.
    pub(crate) waits: &'a [Point],
    /// What is released once the value is done.
    pub(crate) releases: &'a [Arc<dyn Release>],
    /// How profiles show it.
    pub(crate) label: Option<&'a Arc<str>>,
}

/// What is special about the memory that work uses, which never changes.
#[derive(Clone, Copy)]
pub(crate) struct Special {
    /// Whether the program brought some of it.
    wrapped: bool,
    /// Whether the host addresses some of it only while it is mapped.
    mapped: bool,
    /// The device whose memory all of it is, if it is one's.
    one: Option<DeviceId>,
}

impl Special {
    pub(crate) fn of<T: Use>(touches: &[T]) -> Self {
        Self {
            wrapped: touches.iter().any(|touch| touch.at().memory == Memory::Wrapped),
            mapped: touches.iter().any(|touch| touch.at().is_mapped_access()),
            one: one_of(touches.iter().map(|touch| touch.at().owner.id)),
        }
    }

    /// Whether all is memory of this device.
    pub(crate) fn is_all_of(self, device: DeviceId) -> bool {
        self.one == Some(device)
    }
}

/// Returns what all are, if they are one.
fn one_of(mut all: impl Iterator<Item = DeviceId>) -> Option<DeviceId> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

impl<'a, T: Use> Job<'a, T> {
    /// Makes a job without a label that follows no further points and releases nothing.
    pub(crate) fn of(call: &'static str, work: Work<'a>, touches: &'a [T]) -> Self {
        let special = Special::of(touches);
        Self { call, work, touches, special, waits: &[], releases: &[], label: None }
    }
}

/// Hands work over and returns its point. Waits for foreign points that the queue cannot wait for,
/// for claims, and for room.
///
/// # Errors
///
/// `Lost`, `Unsupported` for wrapped memory that lacks something, `Misuse::Busy` beside a running
/// closure, `Misuse::Dead`, `Misuse::Rejected`, `Misuse::TooLarge`, `OutOfMemory` where the driver
/// has no room for what the work needs beside its buffers.
pub(crate) async fn hand_over<T: Use>(owner: &Arc<Owner>, job: &Job<'_, T>) -> Outcome<Point> {
    let begun = profile::begin();
    check_wrapped(owner, job)?;
    let mut rounds = Vec::new();
    loop {
        life::check_lost(owner)?;
        let step = {
            let foreign = gather(owner, job)?;
            let queued = queued(owner, &foreign)?;
            if let Some(next) = foreign.get(queued.len()) {
                Step::Waits { next: *next }
            } else {
                let turn = await_native!(
                    owner.turn.take(),
                    owner.turn.try_take().expect("of one thread, no turn is left")
                );
                offered(owner, job, queued, turn, begun)?
            }
        };
        match step {
            Step::Done(point) => return Ok(point),
            Step::Conflict(touch) => {
                let (allocation, ask, pass) = (touch.at(), touch.ask(), Pass::No);
                await_native!(wait::Released { allocation, ask, pass });
            }
            Step::Grew => {}
            Step::Waits { next } => wait::reach_point(next).await?,
            Step::Refused { asked_bytes } => {
                reclaim::make_room(owner, asked_bytes, &mut rounds).await?;
            }
        }
    }
}

/// Hands work over if that waits for nothing; answers none, and did nothing, if it may. It waits
/// for no other device's work, so it may where that has used the memory.
pub(crate) fn hand_over_now<T: Use>(
    owner: &Arc<Owner>,
    job: &Job<'_, T>,
) -> Outcome<Option<Point>> {
    let begun = profile::begin();
    check_wrapped(owner, job)?;
    let Some(turn) = owner.turn.try_take() else { return Ok(None) };
    match offered(owner, job, &[], turn, begun)? {
        Step::Done(point) => Ok(Some(point)),
        _ => Ok(None),
    }
}

/// Offers work whose points the queue waits for, and does what follows.
#[cfg_attr(not(target_family = "wasm"), inline)] // The package would have it twice.
fn offered<'a, T: Use>(
    owner: &'a Arc<Owner>,
    job: &Job<'a, T>,
    queued: &[Point],
    turn: Taken<'_>,
    begun: Option<u64>,
) -> Outcome<Step<'a, T>> {
    let queued = if QUEUES_WAIT { queued } else { &[] };
    let step = if queued.is_empty() {
        in_turn(owner, job, &[], &[], turn)?
    } else if let Some(producers) = Producers::of(queued) {
        in_turn(owner, job, queued, &producers.named(), turn)?
    } else {
        // Lost meanwhile, a producer's point is no longer what was gathered.
        Step::Grew
    };
    if let Step::Done(point) = step {
        end(owner, job, queued, point, begun)?;
    }
    Ok(step)
}

/// Refuses work that memory which the program brought cannot serve (S4.4).
#[inline]
fn check_wrapped<T: Use>(owner: &Arc<Owner>, job: &Job<'_, T>) -> Outcome<()> {
    if !job.special.wrapped {
        return Ok(());
    }
    let lacks = InFlight::new(owner)?.driver().lacks(&job.work);
    match lacks {
        Some(why) => Err(Failed::unsupported(&owner.name, &why)),
        None => Ok(()),
    }
}

/// What one turn came to.
enum Step<'a, T> {
    Done(Point),
    /// A claim stands in the way of this touch.
    Conflict(&'a T),
    /// There are points that were not gathered before.
    Grew,
    /// The host waits for this point first: the queue cannot, or has no room before.
    Waits {
        next: Point,
    },
    /// The driver has no room for what it makes for this work.
    Refused {
        asked_bytes: u64,
    },
}

/// Takes the claims, looks at the stamps again and offers the work, in one turn.
fn in_turn<'a, T: Use>(
    owner: &'a Arc<Owner>,
    job: &Job<'a, T>,
    queued: &[Point],
    producers: &[Producer<'_>],
    turn: Taken<'_>,
) -> Outcome<Step<'a, T>> {
    let held = match Held::take(owner, job)? {
        Ok(held) => held,
        Err(conflict) => return Ok(Step::Conflict(conflict)),
    };
    if held.follows_others && !is_covered(&gather(owner, job)?, queued) {
        return Ok(Step::Grew);
    }
    let call = InFlight::new(owner)?;
    // Looked at first: if nothing is left to be reached now, room never comes.
    let next = owner.track.reached() + 1;
    match call.driver().room(&job.work) {
        Room::Now => {}
        Room::Never => return Misuse::TooLarge.of(job.call),
        Room::Later if next > owner.track.submitted() => return Misuse::TooLarge.of(job.call),
        Room::Later => return Ok(Step::Waits { next: Point::new(owner.id, next) }),
    }
    let step = offer(owner, job, queued, producers)?;
    // Whoever is woken may do anything: the call is over by then.
    drop(call);
    drop(held);
    drop(turn);
    Ok(step)
}

/// Does what follows a turn that handed the work over.
#[inline]
fn end<T>(
    owner: &Arc<Owner>,
    job: &Job<'_, T>,
    queued: &[Point],
    point: Point,
    begun: Option<u64>,
) -> Outcome<()> {
    // ORDERING: the value stands before the look of `arm`, for the tick's second look.
    fence(Ordering::SeqCst);
    tick::arm(owner);
    if owner.facts.batches {
        tick::serve_soon(owner);
    }
    follow_losses(owner, queued, point.value())?;
    if begun.is_some() && profile::active() {
        note(owner, job, point, begun);
    }
    Ok(())
}

/// Offers the work as the next value, and assigns it. The caller has the turn, the claims and a
/// call in flight.
fn offer<'a, T: Use>(
    owner: &Arc<Owner>,
    job: &Job<'_, T>,
    queued: &[Point],
    producers: &[Producer<'_>],
) -> Outcome<Step<'a, T>> {
    let value = owner.track.submitted() + 1;
    if value > VALUE_MAX {
        life::lose(owner, &Arc::from("no values left"));
        return Err(life::lost(owner));
    }
    if job.special.mapped {
        for touch in job.touches.iter().filter(|touch| touch.at().is_mapped_access()) {
            owner.driver.end_access(touch.at().region);
        }
    }
    let answer = entry::inside("a launch", || owner.driver.hand_over(value, &job.work, producers));
    let fault = match answer {
        HandOver::Rejected(why) => return Misuse::Rejected { why }.of(job.call),
        HandOver::Refused { asked_bytes } => return Ok(Step::Refused { asked_bytes }),
        HandOver::Fault(fault) => Some(fault),
        HandOver::Done => None,
    };
    owner.track.assign(value);
    let point = Point::new(owner.id, value);
    raise(job.touches, point);
    let releases = if has_releases() { job.releases } else { &[] };
    if !queued.is_empty() || !releases.is_empty() {
        let mut ends = owner.ends.lock();
        let reached = owner.track.reached();
        while ends.foreign.front().is_some_and(|(value, _)| *value <= reached) {
            ends.foreign.pop_front();
        }
        for point in queued {
            ends.foreign.push_back((value, *point));
        }
        for release in releases {
            release.named();
            ends.releases.push_back((value, Arc::clone(release)));
        }
        drop(ends);
        if !releases.is_empty() {
            owner.note_due();
        }
    }
    fault.map_or(Ok(Step::Done(point)), |fault| Err(life::fault(owner, &fault)))
}

/// Raises the stamps of all that work uses. Apart, so that the loop keeps its words in registers.
#[inline(never)]
fn raise<T: Use>(touches: &[T], point: Point) {
    for touch in touches {
        touch.at().stamps.raise(point, touch.access());
    }
}

/// Takes the device along if a producer that its queue waits for was lost meanwhile, and the value
/// has not run (S8.7).
#[inline]
fn follow_losses(owner: &Arc<Owner>, queued: &[Point], value: u64) -> Outcome<()> {
    for point in queued {
        if matches!(point.fate(), Fate::Undone | Fate::Dropped) {
            life::look(owner);
            if owner.track.fate(value) == Fate::Reached {
                return Ok(());
            }
            let name = crate::timeline::track(point.device_id()).name();
            life::lose(owner, &Arc::from(text!(name, " lost")));
            return Err(life::lost(owner));
        }
    }
    Ok(())
}

type Points = Vec<Point>;

/// Gathers the unreached foreign points that the work follows, the greatest of each device; tells
/// losses.
fn gather<T: Use>(owner: &Owner, job: &Job<'_, T>) -> Outcome<Points> {
    let mut points = Points::new();
    for touch in job.touches {
        let stamps = &touch.at().stamps;
        // Queue order covers the device's own points.
        if stamps.is_only_of(owner.id) {
            continue;
        }
        let keep = &mut |point| keep_greatest(&mut points, point);
        wait::each_unreached(stamps, touch.access(), owner.id, keep)?;
    }
    for point in job.waits {
        if point.device_id() != owner.id {
            match life::look_at(*point) {
                Fate::Reached => {}
                Fate::Unreached => keep_greatest(&mut points, *point),
                Fate::Undone | Fate::Dropped => return Err(life::lost_point(*point)),
            }
        }
    }
    Ok(points)
}

fn keep_greatest(points: &mut Points, point: Point) {
    match points.iter_mut().find(|known| known.device_id() == point.device_id()) {
        Some(known) => *known = (*known).max(point),
        None => points.push(point),
    }
}

/// Returns the points, from the first on, that the queue waits for, which are committed; the host
/// waits for the next (S8.3).
fn queued<'a>(owner: &Arc<Owner>, points: &'a [Point]) -> Outcome<&'a [Point]> {
    let waits_max = usize::try_from(owner.facts.waits_max).unwrap_or(0);
    let mut count = 0;
    for point in points.iter().take(waits_max) {
        match life::owner_of(point.device_id()) {
            Some(producer) if QUEUES_WAIT && understands(owner, &producer)? => {
                wait::commit(&producer, point.value())?;
            }
            _ => break,
        }
        count += 1;
    }
    Ok(&points[..count])
}

/// Whether a device's queues can wait for points of another, which is not lost.
fn understands(owner: &Arc<Owner>, producer: &Arc<Owner>) -> Outcome<bool> {
    let call = InFlight::new(owner)?;
    let other = InFlight::new(producer);
    Ok(other.is_ok_and(|other| call.driver().understands(&**other.driver())))
}

fn is_covered(now: &[Point], queued: &[Point]) -> bool {
    now.iter().all(|point| {
        queued.iter().any(|known| known.device_id() == point.device_id() && *known >= *point)
    })
}

/// The momentary claims of one hand-over, all of them; released on drop.
struct Held<'a, T: Use> {
    how: How<'a, T>,
    /// Whether another device has left a point, so that the stamps have to be gathered again.
    follows_others: bool,
}

/// How they are held.
enum How<'a, T: Use> {
    /// As marks on the device's own memory.
    Marked(#[expect(dead_code, reason = "it ends on drop")] Marking<'a>),
    /// Counted, each released by itself.
    Counted(&'a [T]),
}

impl<'a, T: Use> Held<'a, T> {
    /// Takes all claims, or none and the touch that has to be waited for.
    fn take(owner: &'a Owner, job: &Job<'a, T>) -> Outcome<std::result::Result<Self, &'a T>> {
        let held = match Self::mark(owner, job) {
            Some(held) => Ok(held),
            None => Self::count(owner, job)?,
        };
        life::check_lost(owner)?;
        Ok(held)
    }

    /// Takes all claims as marks, if it is sure that nothing stands in the way of any: no point of
    /// another device is on marked memory.
    #[inline]
    fn mark(owner: &'a Owner, job: &Job<'a, T>) -> Option<Self> {
        if !HAS_THREADS || !job.special.is_all_of(owner.id) {
            return None;
        }
        let marking = owner.marks.begin();
        let used = job.touches.iter().map(|touch| (&touch.at().claims, touch.mark()));
        let how = marking.mark(used).then_some(How::Marked(marking))?;
        Some(Self { how, follows_others: !job.waits.is_empty() })
    }

    fn count(owner: &Owner, job: &Job<'a, T>) -> Outcome<std::result::Result<Self, &'a T>> {
        let mut follows_others = !job.waits.is_empty();
        for (index, touch) in job.touches.iter().enumerate() {
            let at: &Allocation = touch.at();
            if at.owner.id != owner.id {
                at.claims.count();
            }
            let answer = at.ask(touch.ask(), Pass::No);
            if answer != Answer::Granted {
                let how = How::Counted(&job.touches[..index]);
                let _taken = Self { how, follows_others };
                return match answer {
                    Answer::Waits if HAS_THREADS => Ok(Err(touch)),
                    answer => wait::judge_claim(job.call, at, answer).map(|_| Err(touch)),
                };
            }
            follows_others |= !at.stamps.is_only_of(owner.id);
        }
        Ok(Ok(Self { how: How::Counted(job.touches), follows_others }))
    }
}

impl<T: Use> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let How::Counted(touches) = self.how else { return };
        for touch in touches {
            let at: &Allocation = touch.at();
            at.release(touch.ask());
        }
    }
}

fn note<T>(owner: &Owner, job: &Job<'_, T>, point: Point, begun: Option<u64>) {
    let (value, bytes) = (Some(point.value()), job.work.spans.iter().map(|span| span.len).sum());
    let label = job.label.cloned().unwrap_or_default();
    profile::end(begun, What::Submission, owner.id, |event| Event { value, bytes, label, ..event });
    for part in job.work.parts {
        let (what, queue) = (What::Part(name_of(&part.op)), Some(part.queue as u64));
        profile::end(begun, what, owner.id, |event| Event { value, queue, ..event });
    }
}

fn name_of(op: &crate::driver::Op) -> &'static str {
    use crate::driver::Op;
    match op {
        Op::Launch { .. } => "launch",
        Op::Copy { .. } => "copy",
        Op::Fill { .. } => "fill",
        Op::Load { .. } => "load",
        Op::Native(_) => "native",
    }
}
