//! What a payer's memory is kept by: the reasons of the out-of-memory report (S11.1).
//!
//! It walks all that the payer pays for, so it runs only after a try failed.

use crate::allocation::Allocation;
use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::device::totals::Totals;
use crate::drain::kind_index;
use crate::error::{Error, Failed};
use crate::reclaim::{Plan, Shape, payer_of};
use crate::report::{Kept, Report, Round};
use crate::timeline::{Fate, Point, track};
use std::sync::Arc;

/// Adds up what a payer's memory is kept by; only after a try failed.
pub(crate) fn survey(payer: &Owner, kept: &mut Kept) {
    let records = payer.heap.lock().roster.all();
    for record in &records {
        let bytes = record.charged();
        if record.is_returning() {
            note_returning(record, bytes, kept);
            continue;
        }
        if !record.is_live() {
            continue;
        }
        let place = if record.has_exports() {
            &mut kept.exported_bytes
        } else if record.is_lent() {
            &mut kept.lent_bytes
        } else if record.claims.is_kept() {
            &mut kept.claimed_bytes
        } else {
            &mut kept.live_bytes
        };
        *place += bytes;
    }
}

fn note_returning(record: &Allocation, bytes: u64, kept: &mut Kept) {
    let mut blocked: Option<Point> = None;
    record.stamps.for_each_use(|point| {
        if point.fate() != Fate::Reached {
            blocked = blocked.max(Some(point));
        }
    });
    match blocked.map(|point| (point, point.fate())) {
        Some((point, Fate::Unreached)) => {
            let name = track(point.device_id()).name();
            match kept.unreached.iter_mut().find(|(known, _)| *known == name) {
                Some((_, total)) => *total += bytes,
                None => kept.unreached.push((name, bytes)),
            }
        }
        Some((_, Fate::Undone)) => kept.lost_bytes += bytes,
        _ if record.extra.if_made(|extra| !extra.maps.is_empty()) == Some(true) => {
            kept.mapped_bytes += bytes
        }
        _ => {}
    }
}

pub(crate) fn out_of_memory(
    owner: &Arc<Owner>,
    plan: &Plan,
    rounds: Vec<Round>,
    immediate: bool,
) -> Failed {
    let payer = payer_of(owner, plan);
    let Totals { labels, sites } = Totals::of(payer);
    let heap = payer.heap.lock();
    let books = &heap.books;
    let report = Report {
        asked_bytes: plan.len,
        bin_bytes: match plan.shape {
            Shape::Pool(class) => class.bytes(),
            Shape::Small | Shape::Half => plan.len,
        },
        payer: Arc::clone(&payer.name),
        budget_bytes: books.budget_bytes(),
        live_bytes: books.bytes_in(Where::Live),
        returning_bytes: books.bytes_in(Where::Returning),
        cached_bytes: books.bytes_in(Where::Cached),
        staging_bytes: books.bytes_in(Where::Staging),
        pinned_bytes: books.bytes_in(Where::Pinned),
        given_away_bytes: books.given_away_bytes(),
        largest_cached_bytes: heap.cache.largest_bytes(kind_index(plan.kind)),
        labels,
        sites,
        rounds,
        immediate,
    };
    // A half is the host's affair, whichever device copies through it (S7.6).
    let asked = if matches!(plan.shape, Shape::Half) { payer } else { owner };
    Failed::from(Error::OutOfMemory {
        device: Arc::clone(&asked.name),
        asked_bytes: plan.len,
        held_bytes: books.held(),
        budget_bytes: books.budget_bytes(),
        report: Arc::new(report),
    })
}
