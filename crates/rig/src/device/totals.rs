//! What is live of a payer's memory, by label and by call site.
//!
//! It walks all that the payer pays for. Any thread may ask; the payer's heap is locked for the
//! list alone.

use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory};
use crate::report::{LabelTotal, SiteTotal};
use std::cmp::Reverse;
use std::sync::Arc;

/// The 10 greatest live totals by label, and all by call site where these are kept; the greatest
/// first.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) labels: Vec<LabelTotal>,
    pub(crate) sites: Vec<SiteTotal>,
}

impl Totals {
    pub(crate) fn of(payer: &Owner) -> Self {
        let records = payer.heap.lock().roster.all();
        let (mut labels, mut sites) = (Vec::new(), Vec::new());
        for record in records.iter().filter(|record| record.is_live()) {
            let tag = record.extra.if_made(|extra| extra.tag.clone()).unwrap_or_default();
            labels.push((Reverse(0), tag.label.unwrap_or_default(), record.charged()));
            if let Some(site) = tag.site {
                sites.push((Reverse(0), site.text(), record.charged()));
            }
        }
        let mut all = Self::default();
        each_total(labels, LABELS_MAX, &mut |bytes, label, count| {
            all.labels.push(LabelTotal { label, bytes, count });
        });
        each_total(sites, usize::MAX, &mut |bytes, site, count| {
            all.sites.push(SiteTotal { site, bytes, count });
        });
        all
    }
}

/// Adds up what has one name, and calls `f` with the bytes, the name and the count of each,
/// greatest first, by name where the bytes are equal; at most `count_max` times.
fn each_total(mut named: Named, count_max: usize, f: &mut dyn FnMut(u64, Arc<str>, u64)) {
    sort(&mut named);
    let mut totals = Named::new();
    for (_, name, bytes) in named {
        match totals.last_mut() {
            Some((total, last, count)) if *last == name => {
                total.0 += bytes;
                *count += 1;
            }
            _ => totals.push((Reverse(bytes), name, 1)),
        }
    }
    sort(&mut totals);
    for (Reverse(bytes), name, count) in totals.into_iter().take(count_max) {
        f(bytes, name, count);
    }
}

/// Sorts by Shell's method, since its code is small.
fn sort(named: &mut Named) {
    let mut gap = named.len();
    while gap > 1 {
        gap = (gap * 4 / 9).max(1);
        for end in gap..named.len() {
            let mut at = end;
            while at >= gap && named[at] < named[at - gap] {
                named.swap(at, at - gap);
                at -= gap;
            }
        }
    }
}

/// Names between numbers, of which the first, the greatest of them first, comes before the name in
/// their order. Before they are added up it is 0, and the other the bytes.
type Named = Vec<(Reverse<u64>, Arc<str>, u64)>;

impl Allocation {
    /// Whether somebody pays for it and the program can reach it, as it never can a half.
    pub(crate) fn is_live(&self) -> bool {
        let is_kept = self.has_handles() || self.has_exports() || self.claims.is_kept();
        let is_made = matches!(self.memory, Memory::Pool { .. } | Memory::Small);
        is_kept && is_made && !self.is_returning()
    }
}

const LABELS_MAX: usize = 10;
