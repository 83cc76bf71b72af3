//! Rounds: what reclaim does between a refusal and the next try (S10.9).
//!
//! A round finds what to return without walking what is live. It waits with nothing held, so that
//! one that nobody polls holds up no other.

use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::cache::{Class, HAS_PINNED};
use crate::collector;
use crate::drain::{self, kind_index, with_payer};
use crate::driver::Kind;
use crate::entry;
use crate::life;
use crate::ordered::Ordered;
use crate::profile::{self, Event, What};
use crate::reclaim::{Lack, Plan, Shape, Try, is_roomy, payer_of};
use crate::report::Round;
use crate::sync::{await_native, now_ns};
use crate::timeline::{Fate, Point};
use crate::wait;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// Runs one round for a payer (S10.9), after a try that lacked something. Faults of other devices
/// lose those, and nothing here. All its time counts (S11.2).
pub(crate) async fn reclaim(owner: &Arc<Owner>, plan: &Plan, number: u64, lack: Lack) -> Round {
    let (begun, started) = (profile::begin(), now_ns());
    let mut run = pin!(run(owner, plan, number, lack));
    let round = poll_fn(|cx| entry::timed(|| run.as_mut().poll(cx))).await;
    owner.heap.lock().counters.spent(now_ns() - started);
    let (what, bytes) = (What::Round(number), round.returned_bytes);
    profile::end(begun, what, owner.id, |event| Event { bytes, ..event });
    round
}

async fn run(owner: &Arc<Owner>, plan: &Plan, number: u64, lack: Lack) -> Round {
    let payer = payer_of(owner, plan);
    // Where the driver has no room, the device's own memory makes it, whoever pays.
    let emptied = match lack {
        Lack::Driver if owner.id != payer.id => &[payer, owner][..],
        _ => &[payer],
    };
    await_native!(life::drain_out(), life::drain_all());
    let mut round = Round::default();
    for owner in emptied {
        for (word, bytes) in holding_back(owner).iter() {
            round.waited_bytes += bytes;
            let point = Point::from_word(*word).expect("only points are waited for");
            let _ = wait::reach_point(point).await;
        }
    }
    let before = payer.heap.lock().books.bytes_in(Where::Returning);
    await_native!(life::drain_out(), life::drain_all());
    let nth = Try::after(number);
    if number > 1 {
        collector::run_all();
        await_native!(life::drain_out(), life::drain_all());
        for turn in 0..TURNS_MAX {
            if could_serve(owner, plan, nth, lack) || emptied_serves(owner, plan) {
                break;
            }
            let more = collector::turn(number, turn).await;
            await_native!(life::drain_out(), life::drain_all());
            if !more {
                break;
            }
        }
    }
    let after = payer.heap.lock().books.bytes_in(Where::Returning);
    if could_serve(owner, plan, nth, lack) {
        round.returned_bytes = before.saturating_sub(after);
        return round;
    }
    for owner in emptied {
        round.returned_bytes += empty_caches(owner).await;
    }
    round
}

/// Returns the points that keep memory of a payer from returning, mappings' ends among them, as
/// words, with the bytes of each.
fn holding_back(payer: &Arc<Owner>) -> Ordered<u64> {
    let mut points = Ordered::new();
    let mut add = |point: Point, bytes: u64| {
        if point.fate() == Fate::Unreached {
            *points.or_insert_with(point.word(), || 0) += bytes;
        }
    };
    for device in life::owners() {
        let heap = device.heap.lock();
        for (word, records) in heap.pending.iter() {
            for record in records.iter().filter(|record| record.payer().id == payer.id) {
                let last = Point::from_word(*word).expect("only points are waited for");
                add(last, record.charged());
                record.stamps.for_each_use(|point| add(point, 0));
            }
        }
        for (value, record) in &heap.leaving {
            if record.payer().id == payer.id && *value <= device.track.submitted() {
                add(Point::new(device.id, *value), record.charged());
            }
        }
        for (value, mapping) in &heap.unmapping {
            let root = Arc::clone(&mapping.root.lock());
            if root.payer().id == payer.id && root.is_returning() && *value > 0 {
                add(Point::new(device.id, *value), root.charged());
            }
        }
    }
    points
}

/// Whether a try could be served now: where the driver has no room, by the cache alone.
fn could_serve(owner: &Arc<Owner>, plan: &Plan, nth: Try, lack: Lack) -> bool {
    let mut heap = owner.heap.lock();
    let room = with_payer(&mut heap, owner, plan.kind, |books| books.room_bytes());
    let Shape::Pool(class) = plan.shape else { return lack == Lack::Budget && room >= plan.len };
    let kind = kind_index(plan.kind);
    let exact = Class::Exact { bytes: plan.grained };
    let cached = heap.cache.could_take(kind, class)
        || heap.cache.could_take(kind, exact)
        || is_roomy(&mut heap, owner, plan.kind) && heap.cache.could_take_near(kind, class);
    let fits = room >= class.bytes() || nth == Try::Last && room >= plan.grained;
    cached || lack == Lack::Budget && fits
}

/// Whether a try could be served once what is cached is returned too.
fn emptied_serves(owner: &Arc<Owner>, plan: &Plan) -> bool {
    let mut heap = owner.heap.lock();
    let bytes = with_payer(&mut heap, owner, plan.kind, |books| {
        books.room_bytes() + books.bytes_in(Where::Cached)
    });
    bytes >= plan.bytes()
}

/// Sends what a payer has cached, on every device, to the drivers, and waits until it is there.
/// Answers the bytes returned.
async fn empty_caches(payer: &Arc<Owner>) -> u64 {
    let mut bytes = 0;
    for device in life::owners() {
        let kind = if device.id == payer.id { Kind::Device } else { Kind::Pinned };
        if device.payer(kind).id != payer.id || kind == Kind::Pinned && !HAS_PINNED {
            continue;
        }
        bytes += life::with_after(|after| drain::empty_kind(&device, kind, after));
        // What another round took out of the cache just now is on its way by then too.
        await_native!(device.draining.wait_out(), ());
        if device.heap.lock().leaving_bytes() > 0 {
            let _ = wait::reach(&device, device.track.submitted()).await;
            life::drain(&device);
        }
    }
    bytes
}

/// The most turns that a round asks of an embedder's collector, which bounds them by its own
/// clock: a browser takes tens of thousands a second.
const TURNS_MAX: u64 = 200_000;
