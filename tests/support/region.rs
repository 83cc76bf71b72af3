//! The regions of a scripted device: its own memory and its mappings, and what the core may do to
//! them.

use crate::log::{Call, Entry};
use crate::script::{Answer, StopEnd};
use crate::state::{Inside, Outcome, Shared, State};
use rig::bytes::HostBytes;
use rig::driver::{Access, Addressed, Alloc, Ask, Import, Kind, Region};
use std::sync::Arc;

/// A region that the core has.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) bytes: u64,
    /// What it was allocated for; none for a mapping.
    pub(crate) kind: Option<Kind>,
    /// Whether it takes room of the device's heap.
    pub(crate) heap: bool,
    pub(crate) addressed: Addressed,
    pub(crate) origin: Origin,
    pub(crate) verdict: Verdict,
    pub(crate) map: Map,
    /// Of Transfer memory: the ways that were asked for and had room, read and written.
    pub(crate) ways: [bool; 2],
    /// The last value that names it.
    pub(crate) last_use: u64,
    /// How many mappings of it other devices have.
    pub(crate) mapped_by: u64,
    pub(crate) lent: bool,
    pub(crate) let_go: bool,
}

/// Where a region's memory is from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Allocated,
    Host,
    Peer(Arc<Shared>, Region),
}

/// What became of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Given,
    /// Asked for, and there is room.
    Pending,
    /// Asked for, and there is no room.
    PendingRefusal,
    Refused,
}

/// A region's map for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Map {
    Off,
    Asked,
    Granted,
}

impl Live {
    fn new(bytes: u64, addressed: Addressed, origin: Origin) -> Self {
        Self {
            bytes,
            kind: None,
            heap: false,
            addressed,
            origin,
            verdict: Verdict::Given,
            map: Map::Off,
            ways: [false; 2],
            last_use: 0,
            mapped_by: 0,
            lent: false,
            let_go: false,
        }
    }

    /// Whether it is Transfer memory that was not asked for this access of the host.
    pub(crate) fn lacks_way(&self, access: Access) -> bool {
        self.kind == Some(Kind::Transfer) && !self.ways[access as usize]
    }

    /// Whether it is a mapping of memory that belongs to somebody else.
    pub(crate) fn is_mapping(&self) -> bool {
        !matches!(self.origin, Origin::Allocated)
    }
}

impl std::fmt::Display for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match &self.origin {
            Origin::Allocated => "memory",
            Origin::Host => "a mapping of host memory",
            Origin::Peer(..) => "a mapping of a peer's memory",
        };
        write!(f, "{what} of {} bytes, last used by value {}", self.bytes, self.last_use)
    }
}

impl Shared {
    /// Allocates, after the failure plan let the call pass.
    pub(crate) fn alloc(&self, ask: Ask) -> Alloc {
        let facts = &self.script.facts;
        let heap = ask.kind == Kind::Device;
        let fits = {
            let mut state = self.lock();
            if ask.len_bytes == 0 || !ask.len_bytes.is_multiple_of(facts.grain_bytes) {
                state.violate(format!("{ask:?}: not a multiple of {} above 0", facts.grain_bytes));
            }
            if ask.len_bytes > facts.largest_bytes {
                state.violate(format!("{ask:?}: the largest is {}", facts.largest_bytes));
            }
            if ask.kind == Kind::Pinned && !facts.pinned {
                state.violate(format!("{ask:?}: there is no such memory"));
            }
            let fits = !heap || ask.len_bytes <= self.script.heap_bytes - state.heap_used;
            // Room is taken before the system is asked, so that no other thread takes it too.
            state.heap_used += if heap && fits { ask.len_bytes } else { 0 };
            fits
        };
        let at_once = self.script.allocs == Answer::AtOnce;
        let region = if fits || !at_once { self.pages.alloc(ask) } else { None };
        let mut state = self.lock();
        let Some(region) = region else {
            state.heap_used -= if heap && fits { ask.len_bytes } else { 0 };
            return Alloc::Refused;
        };
        let addressed = match ask.kind {
            Kind::Device => facts.addressed,
            Kind::Pinned => Addressed::Always,
            Kind::Transfer => self.script.transfer,
        };
        let verdict = match (at_once, fits) {
            (true, _) => Verdict::Given,
            (false, true) => Verdict::Pending,
            (false, false) => Verdict::PendingRefusal,
        };
        let live = Live::new(ask.len_bytes, addressed, Origin::Allocated);
        state
            .regions
            .insert(region, Live { kind: Some(ask.kind), heap: heap && fits, verdict, ..live });
        state.bytes_live += ask.len_bytes;
        state.bytes_peak = state.bytes_peak.max(state.bytes_live);
        if at_once { Alloc::Ready(region) } else { Alloc::Pending(region) }
    }

    /// Maps memory of somebody else.
    pub(crate) fn map(&self, bytes: HostBytes, origin: Origin) -> Import {
        let region = self.pages.map(bytes);
        let live = Live::new(bytes.len_bytes(), Addressed::Never, origin);
        self.lock().regions.insert(region, live);
        Import::Mapped(region)
    }

    /// Maps a region of `owner`, if that has it.
    pub(crate) fn map_peer(&self, owner: &Arc<Self>, region: Region) -> Import {
        let known = owner.lock().regions.get_mut(&region).map(|live| live.mapped_by += 1);
        match known.and_then(|()| owner.pages.bytes(region)) {
            Some(bytes) => self.map(bytes, Origin::Peer(Arc::clone(owner), region)),
            None => {
                let what = format!("import of {region:?}, which {} lacks", owner.script.name);
                self.lock().violate(what);
                Import::None
            }
        }
    }

    /// Ends a region: `free` of memory, `release` of a mapping.
    pub(crate) fn give_back(&self, call: Call, region: Region) {
        let bytes = self.lock().regions.get(&region).map_or(0, |live| live.bytes);
        let (_inside, _) = self.enter(Entry::new(call).region(region).bytes(bytes));
        let live = self.change(|state| {
            let live = state.forget(region);
            state.look_at_return(call, region, live.as_ref());
            live
        });
        self.pages.free(region);
        if let Some(Live { origin: Origin::Peer(owner, theirs), .. }) = live
            && let Some(theirs) = owner.lock().regions.get_mut(&theirs)
        {
            theirs.mapped_by -= 1;
        }
    }

    /// Enters a call that names a region.
    pub(crate) fn enter_region(&self, call: Call, region: Region) -> (Inside<'_>, Outcome) {
        self.enter(Entry::new(call).region(region))
    }
}

impl State {
    /// Removes a region and what it takes.
    pub(crate) fn forget(&mut self, region: Region) -> Option<Live> {
        let live = self.regions.remove(&region)?;
        if !live.is_mapping() {
            self.bytes_live -= live.bytes;
            self.heap_used -= if live.heap { live.bytes } else { 0 };
        }
        Some(live)
    }

    /// Returns what is not back, lent memory apart, in words.
    pub(crate) fn left(&self) -> Vec<String> {
        let regions = self.regions.iter().filter(|(_, live)| !live.lent);
        let regions = regions.map(|(region, live)| format!("{region:?}, {live}"));
        let kernels = self.kernels.keys().map(|kernel| format!("kernel {kernel:#x}"));
        let prepared = self.prepared.iter().map(|number| format!("prepared {number}"));
        regions.chain(kernels).chain(prepared).collect()
    }

    /// Notes what never came back, but for lent memory and that of a device that never settles.
    pub(crate) fn look_at_drop(&mut self, end: StopEnd) {
        if self.stopped && end == StopEnd::NeverSettles {
            return;
        }
        let left = self.regions.iter().filter(|(_, live)| !live.lent);
        let left = left.map(|(region, live)| format!("{region:?} never came back: {live}"));
        self.violations.extend(left);
    }

    fn look_at_return(&mut self, call: Call, region: Region, live: Option<&Live>) {
        let Some(live) = live else {
            self.violate(format!("{call:?} of {region:?}, which is gone: a second time?"));
            return;
        };
        if live.is_mapping() != (call == Call::Release) {
            self.violate(format!("{call:?} of {region:?}, which is {live}"));
        }
        if live.last_use > self.answered && !self.settled {
            let answered = self.answered;
            self.violate(format!(
                "{call:?} of {region:?} under work, {answered} was reached: {live}"
            ));
        }
        if live.mapped_by > 0 {
            let count = live.mapped_by;
            self.violate(format!("{call:?} of {region:?} under {count} mappings of it: {live}"));
        }
    }
}
