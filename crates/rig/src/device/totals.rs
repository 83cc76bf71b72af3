//! What is live of a payer's memory, by label and by call site.
//!
//! It walks all that the payer pays for. Any thread may ask; the payer's heap is locked for the
//! list alone.

use crate::allocation::Allocation;
use crate::allocation::owner::Owner;
use crate::report::{LabelTotal, SiteTotal};
use std::cmp::Reverse;
use std::collections::BTreeMap;
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
        let mut labels: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
        let mut sites: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for record in records.iter().filter(|record| record.is_live()) {
            let add = |total: &mut (u64, u64)| {
                *total = (total.0 + record.charged(), total.1 + 1);
            };
            let tag = record.extra.if_made(|extra| extra.tag.clone()).unwrap_or_default();
            add(labels.entry(tag.label.unwrap_or_default()).or_default());
            if let Some(site) = tag.site {
                add(sites.entry(site.to_string()).or_default());
            }
        }
        let label = |(label, (bytes, count))| LabelTotal { label, bytes, count };
        let mut labels: Vec<_> = labels.into_iter().map(label).collect();
        labels.sort_by_key(|total| Reverse(total.bytes));
        labels.truncate(LABELS_MAX);
        let site = |(site, (bytes, count))| SiteTotal { site: Arc::from(site), bytes, count };
        let mut sites: Vec<_> = sites.into_iter().map(site).collect();
        sites.sort_by_key(|total| Reverse(total.bytes));
        Self { labels, sites }
    }
}

impl Allocation {
    /// Whether somebody can reach it.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_returning() && (self.has_handles() || self.has_exports())
    }
}

const LABELS_MAX: usize = 10;
