//! What is live of a payer's memory, by label and by call site.
//!
//! It walks all that the payer pays for. Any thread may ask; the payer's heap is locked for the
//! list alone.

use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory};
use crate::report::{LabelTotal, SiteTotal};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
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
            labels.push((0, Reverse(tag.label.unwrap_or_default()), record.charged()));
            if let Some(site) = tag.site {
                sites.push((0, Reverse(site.text()), record.charged()));
            }
        }
        let mut all = Self::default();
        each_total(labels, &mut |bytes, label, count| {
            if all.labels.len() < LABELS_MAX {
                all.labels.push(LabelTotal { label, bytes, count });
            }
        });
        each_total(sites, &mut |bytes, site, count| {
            all.sites.push(SiteTotal { site, bytes, count });
        });
        all
    }
}

/// Adds up what has one name, and calls `f` with the bytes, the name and the count of each,
/// greatest first, by name where the bytes are equal. Heaps sort here, since their code is small.
fn each_total(named: Named, f: &mut dyn FnMut(u64, Arc<str>, u64)) {
    let mut heap = BinaryHeap::from(named);
    let mut totals = Named::new();
    while let Some((_, Reverse(name), mut bytes)) = heap.pop() {
        let mut count = 1;
        while let Some(at) = heap.peek_mut().filter(|at| at.1.0 == name) {
            bytes += PeekMut::pop(at).2;
            count += 1;
        }
        totals.push((bytes, Reverse(name), count));
    }
    let mut totals = BinaryHeap::from(totals);
    while let Some((bytes, Reverse(name), count)) = totals.pop() {
        f(bytes, name, count);
    }
}

/// Names between numbers, so that the greatest is the one with the greatest first number, or of
/// these the first name. Before they are added up the first number is 0, the other the bytes.
type Named = Vec<(u64, Reverse<Arc<str>>, u64)>;

impl Allocation {
    /// Whether somebody pays for it and the program can reach it, as it never can a half.
    pub(crate) fn is_live(&self) -> bool {
        let is_kept = self.has_handles() || self.has_exports() || self.claims.is_kept();
        let is_made = matches!(self.memory, Memory::Pool { .. } | Memory::Small);
        is_kept && is_made && !self.is_returning()
    }
}

const LABELS_MAX: usize = 10;
