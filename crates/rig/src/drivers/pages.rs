//! Regions of host memory, for drivers over it: the table from a region to its bytes.
//!
//! A region is (number in the table, address). Its memory is zeroed, starts on a page and owns
//! whole pages where that is asked, and else starts at a multiple of 64 bytes, or of 16 below 64.
//! A region that was given back finds nothing. Any thread may call anything. One leaf lock guards
//! the table, for a look-up each; the system allocates and frees outside it.

use crate::bytes::{HostBytes, HostMemory, page_bytes};
use crate::driver::{Ask, Lent, Region, Span};
use crate::drivers::slab::Slab;
use crate::sync::Mutex;
use std::sync::Arc;

/// Regions of host memory: allocated ones, and mapped ones that belong to somebody else.
#[derive(Debug)]
pub struct Pages {
    /// Guards the table from numbers to memory. A leaf lock, held for one look-up.
    table: Mutex<Slab<Page>>,
}

impl Default for Pages {
    fn default() -> Self {
        Self::new()
    }
}

impl Pages {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self { table: Mutex::new(Slab::new()) }
    }

    /// Allocates zeroed memory; none where the system has no room.
    pub fn alloc(&self, ask: Ask) -> Option<Region> {
        let (owned, align) = if ask.paged {
            (ask.len_bytes.checked_next_multiple_of(page_bytes())?, page_bytes())
        } else if ask.len_bytes >= LINE_BYTES {
            (ask.len_bytes, LINE_BYTES)
        } else {
            (ask.len_bytes, SMALL_BYTES)
        };
        let memory = HostMemory::zeroed(owned, align)?;
        let bytes = memory.bytes().range(0, ask.len_bytes);
        Some(self.insert(Page { bytes, memory: Some(memory) }))
    }

    /// Makes a region over memory of somebody else, who keeps it until [`Pages::free`].
    pub fn map(&self, bytes: HostBytes) -> Region {
        self.insert(Page { bytes, memory: None })
    }

    /// Gives a region back, and says whether it was there.
    pub fn free(&self, region: Region) -> bool {
        let page = self.table.lock().remove(region.0);
        page.is_some_and(|page| {
            drop(page.memory);
            true
        })
    }

    /// Returns where the host finds a region's bytes.
    pub fn bytes(&self, region: Region) -> Option<HostBytes> {
        self.table.lock().get(region.0).map(|page| page.bytes)
    }

    /// Returns where the host finds a span's bytes; none if it leaves its region.
    pub fn span(&self, span: &Span) -> Option<HostBytes> {
        if is_nowhere(span) {
            return Some(HostBytes::empty());
        }
        let bytes = self.bytes(span.region)?;
        within(span, bytes).then(|| bytes.range(span.offset, span.len))
    }

    /// Returns the first of these spans that leaves its region, or whose region is gone.
    pub fn first_outside(&self, spans: &[Span]) -> Option<usize> {
        let table = self.table.lock();
        spans
            .iter()
            .enumerate()
            .filter(|(_, span)| !is_nowhere(span))
            .find(|(_, span)| table.get(span.region.0).is_none_or(|page| !within(span, page.bytes)))
            .map(|(at, _)| at)
    }

    /// Returns the object that a program is lent: the region's [`HostBytes`].
    pub fn lend(&self, region: Region) -> Option<Lent> {
        self.bytes(region).map(|bytes| Lent(Arc::new(bytes)))
    }

    /// Returns how many regions there are, mapped ones too.
    pub fn count(&self) -> u64 {
        self.table.lock().count()
    }

    fn insert(&self, page: Page) -> Region {
        let address = page.bytes.address();
        Region(self.table.lock().insert(page), address)
    }
}

#[derive(Debug)]
struct Page {
    bytes: HostBytes,
    /// None where the memory belongs to somebody else.
    memory: Option<HostMemory>,
}

/// Whether a span is that of a buffer of 0 bytes, which has no region.
fn is_nowhere(span: &Span) -> bool {
    span.len == 0 && span.region == Region::default()
}

fn within(span: &Span, bytes: HostBytes) -> bool {
    span.offset.checked_add(span.len).is_some_and(|end| end <= bytes.len_bytes())
}

/// A cache line: no two regions of this size share one.
const LINE_BYTES: u64 = 64;
const SMALL_BYTES: u64 = 16;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bytes::page_bytes;
    use crate::driver::{Access, Ask, Kind, Span};
    use crate::drivers::pages::Pages;

    fn ask(len_bytes: u64, paged: bool) -> Ask {
        Ask { kind: Kind::Device, len_bytes, paged }
    }

    #[test]
    fn s4_2_fresh_memory_is_zero_and_aligned_as_asked() {
        let pages = Pages::new();
        for (len, paged, align) in
            [(1, false, 16), (63, false, 16), (64, false, 64), (1000, false, 64)]
                .into_iter()
                .chain([(1, true, page_bytes()), (page_bytes() + 1, true, page_bytes())])
        {
            let region = pages.alloc(ask(len, paged)).unwrap();
            let bytes = pages.bytes(region).unwrap();
            assert_eq!((bytes.len_bytes(), bytes.address()), (len, region.1));
            assert_eq!(region.1 % align, 0, "{len} bytes start at {:#x}", region.1);
            let mut seen = vec![1; len as usize];
            bytes.copy_out(0, &mut seen);
            assert!(seen.iter().all(|&byte| byte == 0));
            assert!(pages.free(region));
        }
        assert_eq!(pages.count(), 0);
    }

    #[test]
    fn s10_8_a_size_that_no_system_has_is_refused() {
        let pages = Pages::new();
        for len in [u64::MAX, u64::MAX - 1, i64::MAX as u64 + 1, i64::MAX as u64] {
            assert_eq!(pages.alloc(ask(len, true)), None);
            assert_eq!(pages.alloc(ask(len, false)), None);
        }
    }

    #[test]
    fn s16_a_region_given_back_finds_nothing() {
        let pages = Pages::new();
        let region = pages.alloc(ask(100, false)).unwrap();
        let alias = pages.map(pages.bytes(region).unwrap());
        assert!(pages.free(region));
        assert!(!pages.free(region));
        assert!(pages.bytes(region).is_none());
        assert!(pages.lend(region).is_none());
        assert_eq!(pages.count(), 1);
        assert!(pages.free(alias));
    }

    #[test]
    fn s0_4_a_span_past_its_region_is_found() {
        let pages = Pages::new();
        let region = pages.alloc(ask(100, false)).unwrap();
        let span = |offset, len| Span { region, offset, len, access: Access::Read, is_last: false };
        assert_eq!(pages.first_outside(&[span(0, 100), span(100, 0)]), None);
        assert_eq!(pages.first_outside(&[span(0, 100), span(1, 100)]), Some(1));
        assert_eq!(pages.first_outside(&[span(u64::MAX, 2)]), Some(0));
        assert!(pages.span(&span(101, 0)).is_none());
        assert_eq!(pages.span(&span(40, 60)).unwrap().address(), region.1 + 40);
        pages.free(region);
        assert_eq!(pages.first_outside(&[span(0, 0)]), Some(0));
    }
}
