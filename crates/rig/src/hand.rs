//! The hand-over of work to a device, with its waits, its turn, its claims and its stamps (S8.3).
//!
//! Nothing waits in the turn but the driver's own hand-over. Claims are taken all or none, and the
//! stamps are looked at again under them: what grew meanwhile sends the caller back to gather
//! again. The value is assigned and the stamps are raised in one turn, so that what is handed over
//! has its stamps, or the device is lost (S3.3). A hand-over that waits for nothing allocates
//! nothing. Any thread may call it.

use crate::allocation::owner::{Owner, Release};
use crate::allocation::{Allocation, Ref};
use crate::claim::{Answer, Ask, Pass};
use crate::driver::{HandOver, Producer, Room, Work};
use crate::entry;
use crate::error::{Misuse, Result};
use crate::life::{self, InFlight};
use crate::profile::{self, Event, What};
use crate::sync::{Ordering, fence};
use crate::tick;
use crate::timeline::{Access, Fate, Point, VALUE_MAX};
use crate::wait;
use smallvec::SmallVec;
use std::sync::Arc;

/// An allocation that work uses, each once.
#[derive(Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub(crate) at: &'a Ref,
    pub(crate) access: Access,
}

/// Work to be handed over.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) call: &'static str,
    pub(crate) work: Work<'a>,
    /// What the work uses, each allocation once.
    pub(crate) touches: &'a [Touch<'a>],
    /// Further points that it follows.
    pub(crate) waits: &'a [Point],
    /// What is released once the value is done.
    pub(crate) releases: &'a [Arc<dyn Release>],
}

/// Hands work over and returns its point. Waits for foreign points that the queue cannot wait for,
/// for claims, and for room.
///
/// # Errors
///
/// `Lost`, `Misuse::Busy` beside a running closure, `Misuse::Dead`, `Misuse::Rejected`,
/// `Misuse::TooLarge`.
pub(crate) async fn hand_over(owner: &Arc<Owner>, job: &Job<'_>) -> Result<Point> {
    let begun = profile::begin();
    loop {
        life::check_lost(owner)?;
        let foreign = gather(owner, job)?;
        let queued = wait_or_queue(owner, &foreign).await?;
        let turn = owner.turn.take().await;
        let held = match Held::take(owner, job)? {
            Ok(held) => held,
            Err(conflict) => {
                drop(turn);
                let (allocation, ask) = (conflict.at.record(), momentary(conflict));
                wait::Released { allocation, ask, pass: Pass::No }.await;
                continue;
            }
        };
        if !is_covered(&gather(owner, job)?, &queued) {
            continue;
        }
        let call = InFlight::new(owner)?;
        // Looked at first: if nothing is left to be reached now, room never comes.
        let value = owner.track.reached() + 1;
        match call.driver().room(&job.work) {
            Room::Now => {}
            Room::Never => return Misuse::TooLarge.of(job.call),
            Room::Later => {
                drop((call, held, turn));
                if value > owner.track.submitted() {
                    return Misuse::TooLarge.of(job.call);
                }
                wait::reach(owner, value).await?;
                continue;
            }
        }
        let point = offer(owner, job, &queued, &call)?;
        // Whoever is woken may do anything: the call is over by then.
        drop((call, held, turn));
        // ORDERING: the value stands before the look of `arm`, for the tick's second look.
        fence(Ordering::SeqCst);
        tick::arm(owner);
        follow_losses(owner, &queued)?;
        if begun.is_some() {
            note(owner, job, point, begun);
        }
        return Ok(point);
    }
}

/// Offers the work as the next value, and assigns it. The caller has the turn and the claims.
fn offer(owner: &Arc<Owner>, job: &Job<'_>, queued: &Points, call: &InFlight<'_>) -> Result<Point> {
    let value = owner.track.submitted() + 1;
    if value > VALUE_MAX {
        life::lose(owner, &Arc::from("no values left"));
        return Err(life::lost(owner));
    }
    let mapped = |touch: &&Touch<'_>| touch.at.is_mapped_access();
    for touch in job.touches.iter().filter(mapped) {
        call.driver().end_access(touch.at.region);
    }
    let producers = Producers::of(queued);
    let answer =
        entry::inside("a launch", || call.driver().hand_over(value, &job.work, &producers.named()));
    if let HandOver::Rejected(why) = answer {
        return Misuse::Rejected { why }.of(job.call);
    }
    owner.track.assign(value);
    let point = Point::new(owner.id, value);
    for touch in job.touches {
        touch.at.stamps.raise(point, touch.access);
    }
    if !queued.is_empty() || !job.releases.is_empty() {
        let mut ends = owner.ends.lock();
        let reached = owner.track.reached();
        while ends.foreign.front().is_some_and(|(value, _)| *value <= reached) {
            ends.foreign.pop_front();
        }
        ends.foreign.extend(queued.iter().map(|point| (value, *point)));
        for release in job.releases {
            release.named();
            ends.releases.push_back((value, Arc::clone(release)));
        }
        drop(ends);
        if !job.releases.is_empty() {
            owner.note_due();
        }
    }
    match answer {
        HandOver::Fault(fault) => Err(life::fault(owner, &fault)),
        HandOver::Done | HandOver::Rejected(_) => Ok(point),
    }
}

/// Takes the device along if a producer that its queue waits for was lost meanwhile (S8.7).
fn follow_losses(owner: &Arc<Owner>, queued: &Points) -> Result<()> {
    for point in queued {
        if matches!(point.fate(), Fate::Undone | Fate::Dropped) {
            let name = crate::timeline::track(point.device_id()).name();
            life::lose(owner, &Arc::from(format!("{name} lost")));
            return Err(life::lost(owner));
        }
    }
    Ok(())
}

type Points = SmallVec<[Point; 4]>;

/// Gathers the unreached foreign points that the work follows, the greatest of each device; tells
/// losses.
fn gather(owner: &Owner, job: &Job<'_>) -> Result<Points> {
    let mut points = Points::new();
    for touch in job.touches {
        let stamps = &touch.at.stamps;
        if stamps.is_empty() {
            continue;
        }
        let keep = |point| keep_greatest(&mut points, point);
        wait::each_unreached(stamps, touch.access, owner.id, keep)?;
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

/// Splits the points into those that the queue waits for, which are committed and answered, and
/// those that the host waits for now (S8.3).
async fn wait_or_queue(owner: &Arc<Owner>, points: &Points) -> Result<Points> {
    let mut queued = Points::new();
    let waits_max = usize::try_from(owner.facts.waits_max).unwrap_or(0);
    for point in points {
        let producer = life::owner_of(point.device_id());
        let understood = queued.len() < waits_max
            && producer.as_ref().is_some_and(|other| owner.driver.understands(&*other.driver));
        match producer {
            Some(producer) if understood => {
                wait::commit(&producer, point.value())?;
                queued.push(*point);
            }
            _ => wait::reach_point(*point).await?,
        }
    }
    Ok(queued)
}

fn is_covered(now: &Points, queued: &Points) -> bool {
    now.iter().all(|point| {
        queued.iter().any(|known| known.device_id() == point.device_id() && *known >= *point)
    })
}

/// The momentary claim that a touch takes. Memory that is addressed only while mapped cannot be
/// used by its device beside any access of the host (S1.9).
fn momentary(touch: Touch<'_>) -> Ask {
    match touch.access {
        Access::Read if !touch.at.is_mapped_access() => Ask::MomentaryRead,
        _ => Ask::MomentaryWrite,
    }
}

/// The momentary claims of one hand-over, all of them; released on drop.
struct Held<'a> {
    touches: &'a [Touch<'a>],
    count: usize,
}

impl<'a> Held<'a> {
    /// Takes all claims, or none and the touch that has to be waited for.
    fn take(owner: &Owner, job: &Job<'a>) -> Result<std::result::Result<Self, Touch<'a>>> {
        let mut held = Self { touches: job.touches, count: 0 };
        for touch in job.touches {
            match touch.at.claims.ask(momentary(*touch), Pass::No) {
                Answer::Granted => held.count += 1,
                Answer::Waits => return Ok(Err(*touch)),
                answer => {
                    wait::judge_claim(job.call, touch.at, answer)?;
                }
            }
        }
        life::check_lost(owner)?;
        Ok(Ok(held))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for touch in &self.touches[..self.count] {
            touch.at.release(momentary(*touch));
        }
    }
}

/// The drivers behind foreign points, kept while they are named.
struct Producers {
    owners: SmallVec<[(Arc<Owner>, u64); 2]>,
}

impl Producers {
    fn of(points: &Points) -> Self {
        let owners = points.iter().filter_map(|point| {
            life::owner_of(point.device_id()).map(|owner| (owner, point.value()))
        });
        Self { owners: owners.collect() }
    }

    fn named(&self) -> SmallVec<[Producer<'_>; 2]> {
        self.owners
            .iter()
            .map(|(owner, value)| Producer { driver: &*owner.driver, value: *value })
            .collect()
    }
}

/// Merges what work uses into one touch an allocation.
pub(crate) fn merge<'a>(
    touches: impl IntoIterator<Item = Touch<'a>>,
) -> SmallVec<[Touch<'a>; INLINE]> {
    let mut merged: SmallVec<[Touch<'a>; INLINE]> = SmallVec::new();
    for touch in touches {
        match merged.iter_mut().find(|known| same(known.at, touch.at)) {
            Some(known) => known.access = known.access.max(touch.access),
            None => merged.push(touch),
        }
    }
    merged
}

fn same(one: &Ref, other: &Ref) -> bool {
    std::ptr::eq::<Allocation>(&**one, &**other)
}

fn note(owner: &Owner, job: &Job<'_>, point: Point, begun: Option<u64>) {
    let (value, bytes) = (Some(point.value()), job.work.spans.iter().map(|span| span.len).sum());
    profile::end(begun, What::Submission, owner.id, |event| Event { value, bytes, ..event });
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

/// The touches that a hand-over keeps off the heap.
pub(crate) const INLINE: usize = 32;
