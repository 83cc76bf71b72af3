//! Rounds: what reclaim does between a refusal and the next try (S10.9).
//!
//! A round finds what to return without walking what is live. It waits with nothing held, so that
//! one that nobody polls holds up no other.

use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::collector;
use crate::drain::{self, KINDS, with_payer};
use crate::entry;
use crate::error::Outcome;
use crate::life;
use crate::profile::{self, Event, What};
use crate::reclaim::survey::{out_of_memory, survey};
use crate::reclaim::{Lack, Plan, ROUNDS, Shape, Try, cached, payer_of};
use crate::report::{Kept, Round};
use crate::sync::{await_native, now_ns};
use crate::timeline::{DeviceId, Fate, Point};
use crate::wait;
use std::future::poll_fn;
use std::sync::Arc;

/// Runs the next round after a try that lacked something (S10.9); after the last one that is
/// `OutOfMemory`. Faults of other devices lose those, and nothing here. All its time counts
/// (S11.2).
pub(crate) fn next_round<'a>(
    owner: &'a Arc<Owner>,
    plan: Plan,
    lack: Lack,
    rounds: &'a mut Vec<Round>,
) -> impl Future<Output = Outcome<()>> + 'a {
    // In a box: few calls ever need one.
    let mut run = Box::pin(run(owner, plan, lack, rounds));
    poll_fn(move |cx| entry::timed(|| run.as_mut().poll(cx)))
}

async fn run(owner: &Arc<Owner>, plan: Plan, lack: Lack, rounds: &mut Vec<Round>) -> Outcome<()> {
    let payer = payer_of(owner, &plan);
    if let Some(round) = rounds.last_mut() {
        survey(payer, &mut round.kept);
    }
    let number = rounds.len() as u64 + 1;
    if number > ROUNDS {
        return Err(out_of_memory(owner, &plan, std::mem::take(rounds), false));
    }
    let (begun, started) = (profile::begin(), now_ns());
    let (nth, payers) = (Try::after(number), Payers::of(owner, payer, lack));
    await_native!(life::drain_out(), life::drain_all());
    let held = payers.held_back();
    let waited_bytes = held.bytes;
    held.passed().await;
    let before = returning_bytes(payer);
    await_native!(life::drain_out(), life::drain_all());
    if number > 1 {
        collector::run_all();
        for turn in 0..TURNS_MAX {
            await_native!(life::drain_out(), life::drain_all());
            if could_serve(owner, &plan, nth, lack) || emptied_serves(owner, &plan) {
                break;
            }
            if !collector::turn(number, turn).await {
                break;
            }
        }
        await_native!(life::drain_out(), life::drain_all());
    }
    let returned_bytes = if could_serve(owner, &plan, nth, lack) {
        before.saturating_sub(returning_bytes(payer))
    } else {
        let emptied_bytes = payers.empty_caches();
        // What another round took out of a cache just now is on its way by then too.
        await_native!(life::drain_out(), ());
        payers.leaving().passed().await;
        life::drain_all();
        emptied_bytes
    };
    rounds.push(Round { returned_bytes, waited_bytes, kept: Kept::default() });
    owner.heap.lock().counters.spent(now_ns() - started);
    let (what, bytes) = (What::Round(number), returned_bytes);
    profile::end(begun, what, owner.id, |event| Event { bytes, ..event });
    life::check_lost(owner)
}

/// Returns a payer's bytes on their way back.
fn returning_bytes(payer: &Owner) -> u64 {
    payer.heap.lock().books.bytes_in(Where::Returning)
}

/// Who pays for what a round empties: the payer, and where the driver has no room also the device
/// asked, whose own memory makes it.
#[derive(Clone, Copy)]
struct Payers([DeviceId; 2]);

impl Payers {
    fn of(owner: &Owner, payer: &Owner, lack: Lack) -> Self {
        Self([payer.id, if lack == Lack::Driver { owner.id } else { payer.id }])
    }

    fn has(self, payer: &Owner) -> bool {
        self.0.contains(&payer.id)
    }

    /// Returns what keeps memory from returning, mappings' ends among it.
    fn held_back(self) -> Held {
        let mut held = self.leaving();
        for device in &life::owners() {
            let heap = device.heap.lock();
            for (word, records) in heap.pending.iter() {
                let point = Point::from_word(*word).expect("only points are waited for");
                for record in records.iter().filter(|record| self.has(record.payer())) {
                    held.add(point, record.charged());
                    record.stamps.for_each_use(|point| held.add(point, 0));
                }
            }
            for (value, mapping) in &heap.unmapping {
                let root = mapping.root.lock();
                if self.has(root.payer()) && root.is_returning() && *value > 0 {
                    held.add(Point::new(device.id, *value), root.charged());
                }
            }
        }
        held
    }

    /// Returns what keeps memory from its driver.
    fn leaving(self) -> Held {
        let mut held = Held::default();
        for device in &life::owners() {
            let submitted = device.track.submitted();
            for (value, record) in &device.heap.lock().leaving {
                if self.has(record.payer()) && *value <= submitted {
                    held.add(Point::new(device.id, *value), record.charged());
                }
            }
        }
        held
    }

    /// Sends what is cached, on every device, to the drivers. Answers its bytes.
    fn empty_caches(self) -> u64 {
        let mut bytes = 0;
        for device in &life::owners() {
            for kind in KINDS {
                if self.has(device.payer(*kind)) {
                    bytes += life::with_after(|after| drain::empty_kind(device, *kind, after));
                }
            }
        }
        bytes
    }
}

/// What keeps memory from returning: the last point of each device, and the bytes it keeps.
#[derive(Default)]
struct Held {
    points: Vec<Point>,
    bytes: u64,
}

impl Held {
    fn add(&mut self, point: Point, bytes: u64) {
        if point.fate() != Fate::Unreached {
            return;
        }
        self.bytes += bytes;
        let mut points = self.points.iter_mut();
        match points.find(|known| known.device_id() == point.device_id()) {
            Some(known) => *known = point.max(*known),
            None => self.points.push(point),
        }
    }

    /// Waits until each is over, one way or another.
    async fn passed(self) {
        for point in self.points {
            let _ = wait::reach_point(point).await;
        }
    }
}

/// Whether a try could be served now: where the driver has no room, by the cache alone.
fn could_serve(owner: &Arc<Owner>, plan: &Plan, nth: Try, lack: Lack) -> bool {
    let mut heap = owner.heap.lock();
    let room = with_payer(&mut heap, owner, plan.kind, |books| books.room_bytes());
    let Shape::Pool(class) = plan.shape else { return lack == Lack::Budget && room >= plan.len };
    let fits = room >= class.bytes() || nth == Try::Last && room >= plan.grained;
    lack == Lack::Budget && fits || cached(&mut heap, owner, plan, class).is_some()
}

/// Whether a try could be served once what is cached is returned too.
fn emptied_serves(owner: &Arc<Owner>, plan: &Plan) -> bool {
    let mut heap = owner.heap.lock();
    let bytes = with_payer(&mut heap, owner, plan.kind, |books| {
        books.room_bytes() + books.bytes_in(Where::Cached)
    });
    bytes >= plan.bytes()
}

/// The most turns that a round asks of an embedder's collector, which bounds them by its own
/// clock: a browser takes tens of thousands a second.
const TURNS_MAX: u64 = 200_000;
