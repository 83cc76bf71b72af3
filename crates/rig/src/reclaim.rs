//! Allocation, and the rounds of reclaim between a refusal and the next try.
//!
//! ```text
//! try 1 -> round 1 -> try 2 -> round 2 -> try 3 -> round 3 -> try 4 -> OutOfMemory
//! ```
//!
//! A try takes what the cache serves, or reserves room in the payer's books and asks the driver.
//! Room is reserved ahead of the driver's call, so no number of threads takes what is held above
//! the budget (S10.3). No driver call and no wait happens under a lock. A try served by the cache
//! is counted and not timed: reading the clock would cost more than the try.

use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory, Parts, Ref, Tag};
use crate::budget::Where;
use crate::bytes::page_bytes;
use crate::cache::Class;
use crate::collector;
use crate::drain::{self, kind_index, with_payer};
use crate::driver::{Addressed, Alloc, Ask, Kind, Region};
use crate::error::{Error, Result};
use crate::life;
use crate::report::{Kept, LabelTotal, Report, Round, Served, SiteTotal};
use crate::sync::now_ns;
use crate::tick;
use crate::timeline::{Fate, Point};
use crate::wait;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;

/// What is asked for.
pub(crate) struct Want {
    pub(crate) kind: Kind,
    pub(crate) len: u64,
    pub(crate) tag: Tag,
}

/// Checks and rounds what is asked for.
struct Plan {
    kind: Kind,
    len: u64,
    /// The length rounded up to the grain, or to pages.
    grained: u64,
    shape: Shape,
}

#[derive(Clone, Copy)]
enum Shape {
    Pool(Class),
    Small,
}

/// Makes a buffer's memory, reclaiming before it fails (S10.5, S10.8).
pub(crate) async fn create(owner: &Arc<Owner>, want: Want) -> Result<Ref> {
    let plan = match begin(owner, &want)? {
        Begun::Empty(empty) => return Ok(empty),
        Begun::Plan(plan) => plan,
    };
    if plan.bytes() > budget_of(owner, &plan) {
        return Err(out_of_memory(owner, &plan, Vec::new(), false));
    }
    if let Some(made) = attempt(owner, &plan, Try::First, &want.tag).await? {
        return Ok(made);
    }
    let started = now_ns();
    let made = in_rounds(owner, &plan, &want.tag).await;
    owner.heap.lock().counters.spent(now_ns() - started);
    made
}

async fn in_rounds(owner: &Arc<Owner>, plan: &Plan, tag: &Tag) -> Result<Ref> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let mut round = reclaim(owner, plan, number).await;
        life::check_lost(owner)?;
        let nth = if number == ROUNDS { Try::Last } else { Try::Later };
        if let Some(made) = attempt(owner, plan, nth, tag).await? {
            return Ok(made);
        }
        round.kept = survey(payer_of(owner, plan)).kept;
        rounds.push(round);
    }
    Err(out_of_memory(owner, plan, rounds, false))
}

/// Reserves room on a payer, reclaiming before it gives up.
pub(crate) async fn make_room(payer: &Arc<Owner>, len: u64) -> bool {
    life::drain(payer);
    let plan = Plan { kind: Kind::Device, len, grained: len, shape: Shape::Small };
    let reserve = || payer.heap.lock().books.reserve(len);
    if reserve() {
        return true;
    }
    if len > budget_of(payer, &plan) {
        return false;
    }
    for number in 1..=ROUNDS {
        reclaim(payer, &plan, number).await;
        if reserve() {
            return true;
        }
    }
    false
}

/// Makes a buffer's memory by try 1 alone; never waits (S10.12).
pub(crate) fn create_now(owner: &Arc<Owner>, want: Want) -> Result<Ref> {
    let plan = match begin(owner, &want)? {
        Begun::Empty(empty) => return Ok(empty),
        Begun::Plan(plan) => plan,
    };
    if plan.bytes() <= budget_of(owner, &plan) {
        let taken = take(owner, &plan, Try::First);
        if let Some(made) = taken.finish_now(owner, &plan, Try::First, &want.tag)? {
            return Ok(made);
        }
    }
    Err(out_of_memory(owner, &plan, Vec::new(), true))
}

enum Begun {
    Empty(Ref),
    Plan(Plan),
}

/// Does what comes before the first try, in the order of S10.5.
fn begin(owner: &Arc<Owner>, want: &Want) -> Result<Begun> {
    let unsupported =
        |why: String| Error::Unsupported { device: Arc::clone(&owner.name), why: Arc::from(why) };
    if owner.driver.file().is_some() {
        return Err(unsupported("a device of files makes buffers of files only".into()));
    }
    let kind = match want.kind {
        Kind::Pinned if owner.facts.addressed != Addressed::Never => Kind::Device,
        Kind::Pinned if !owner.facts.pinned => {
            return Err(unsupported("this device has no Pinned memory".into()));
        }
        kind => kind,
    };
    let (len, largest) = (want.len, owner.facts.largest_bytes);
    if len > largest {
        let why = format!("{len} bytes asked, the largest allocation is {largest}");
        return Err(unsupported(why));
    }
    life::drain(owner);
    if kind == Kind::Pinned {
        owner.host.iter().for_each(life::drain);
    }
    life::check_lost(owner)?;
    if len == 0 {
        return Ok(Begun::Empty(empty(owner)));
    }
    tick::arm(owner);
    let mut heap = owner.heap.lock();
    heap.counters.requested(len);
    let paged = owner.is_host() && len >= paged_bytes();
    let grain = if paged { page_bytes() } else { owner.facts.grain_bytes.max(1) };
    let grained = len.checked_next_multiple_of(grain).filter(|grained| *grained <= largest);
    let grained = grained.unwrap_or(len);
    let shape = if owner.is_host() && !paged {
        Shape::Small
    } else {
        let class = heap.cache.class(grained);
        let budget = with_payer(&mut heap, owner, kind, |books| books.budget_bytes());
        let fits = class.bytes() <= budget.min(largest);
        Shape::Pool(if fits { class } else { Class::Exact { bytes: grained } })
    };
    Ok(Begun::Plan(Plan { kind, len, grained, shape }))
}

/// Makes the memory of a buffer of 0 bytes: none.
fn empty(owner: &Arc<Owner>) -> Ref {
    Ref::new(Allocation::new(Parts {
        owner: Arc::clone(owner),
        region: Region::default(),
        bytes: None,
        memory: Memory::Empty,
        len: 0,
        read_only: false,
    }))
}

impl Plan {
    /// Returns the bytes that have to fit the budget at least.
    fn bytes(&self) -> u64 {
        match self.shape {
            Shape::Pool(_) => self.grained,
            Shape::Small => self.len,
        }
    }

    fn memory(&self, class: Class) -> Memory {
        match self.shape {
            Shape::Pool(_) => Memory::Pool { kind: self.kind, class },
            Shape::Small => Memory::Small,
        }
    }
}

fn payer_of<'a>(owner: &'a Arc<Owner>, plan: &Plan) -> &'a Arc<Owner> {
    owner.payer(plan.kind)
}

fn budget_of(owner: &Arc<Owner>, plan: &Plan) -> u64 {
    payer_of(owner, plan).heap.lock().books.budget_bytes()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    First,
    Later,
    Last,
}

impl Try {
    fn served(self, from_cache: bool) -> Served {
        match (self, from_cache) {
            (Self::First, true) => Served::Cache,
            (Self::First, false) => Served::Driver,
            (_, true) => Served::CacheLater,
            (_, false) => Served::DriverLater,
        }
    }
}

/// What a try found.
enum Taken {
    Cached(Arc<Allocation>),
    /// Room is reserved for this class.
    Room(Class),
    Nothing,
}

/// Takes from the cache, or reserves room.
fn take(owner: &Arc<Owner>, plan: &Plan, nth: Try) -> Taken {
    let mut heap = owner.heap.lock();
    let class = match plan.shape {
        Shape::Pool(class) => class,
        Shape::Small => {
            let bytes = plan.len;
            let fits = heap.books.reserve(bytes);
            return if fits { Taken::Room(Class::Exact { bytes }) } else { Taken::Nothing };
        }
    };
    let kind = kind_index(plan.kind);
    let exact = Class::Exact { bytes: plan.grained };
    let found = heap
        .cache
        .take(kind, class)
        .or_else(|| if class == exact { None } else { heap.cache.take_exact(kind, plan.grained) });
    let live = if plan.kind == Kind::Pinned { Where::Pinned } else { Where::Live };
    if let Some((record, found)) = found {
        with_payer(&mut heap, owner, plan.kind, |books| {
            books.shift(Where::Cached, live, found.bytes());
        });
        heap.goes_live(found.bytes());
        heap.counters.served(nth.served(true));
        if cfg!(debug_assertions) {
            with_payer(&mut heap, owner, plan.kind, |books| books.check());
        }
        return Taken::Cached(record);
    }
    with_payer(&mut heap, owner, plan.kind, |books| {
        if books.reserve(class.bytes()) {
            Taken::Room(class)
        } else if nth == Try::Last && class != exact && books.reserve(plan.grained) {
            Taken::Room(exact)
        } else {
            Taken::Nothing
        }
    })
}

impl Taken {
    /// Makes the allocation without waiting; a driver's later verdict is its buffer's affair.
    fn finish_now(
        self,
        owner: &Arc<Owner>,
        plan: &Plan,
        nth: Try,
        tag: &Tag,
    ) -> Result<Option<Ref>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Cached(record) => {
                record.serve(plan.len, tag.clone());
                Ok(Some(Ref::from_cache(record)))
            }
            Self::Room(class) => {
                let mut room = Reserved { owner, plan, class, open: true };
                match room.ask()? {
                    Alloc::Ready(region) | Alloc::Pending(region) => {
                        Ok(Some(room.fill(region, nth, tag)))
                    }
                    Alloc::Refused => Ok(None),
                    Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
                }
            }
        }
    }
}

async fn attempt(owner: &Arc<Owner>, plan: &Plan, nth: Try, tag: &Tag) -> Result<Option<Ref>> {
    let taken = take(owner, plan, nth);
    let Taken::Room(class) = taken else {
        return taken.finish_now(owner, plan, nth, tag);
    };
    let mut room = Reserved { owner, plan, class, open: true };
    match room.ask()? {
        Alloc::Ready(region) => Ok(Some(room.fill(region, nth, tag))),
        Alloc::Pending(region) => {
            // Made at once, so that a dropped future gives the region back as any buffer's.
            let made = room.fill(region, nth, tag);
            verdict(owner, made, region).await
        }
        Alloc::Refused => Ok(None),
        Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
    }
}

/// Waits for the driver's verdict on a region that was handed out ahead of it.
async fn verdict(owner: &Arc<Owner>, made: Ref, region: Region) -> Result<Option<Ref>> {
    let answer = poll_fn(|cx| {
        owner.wakers.register(cx.waker());
        match life::InFlight::new(owner) {
            Ok(call) => call.driver().poll_alloc(region, cx.waker()).map(Ok),
            Err(lost) => std::task::Poll::Ready(Err(lost)),
        }
    })
    .await?;
    match answer {
        Alloc::Ready(_) | Alloc::Pending(_) => Ok(Some(made)),
        Alloc::Refused => Ok(None),
        Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
    }
}

/// Room in the books ahead of a driver's call; handed back unless it is filled.
struct Reserved<'a> {
    owner: &'a Arc<Owner>,
    plan: &'a Plan,
    class: Class,
    open: bool,
}

impl Reserved<'_> {
    fn ask(&self) -> Result<Alloc> {
        let call = life::InFlight::new(self.owner)?;
        let started = now_ns();
        let answer = call.driver().alloc(Ask {
            kind: self.plan.kind,
            len_bytes: self.class.bytes(),
            paged: self.owner.is_host() && matches!(self.plan.shape, Shape::Pool(_)),
        });
        let spent = now_ns() - started;
        let mut heap = self.owner.heap.lock();
        heap.counters.spent_in_driver(spent);
        heap.counters.spent(spent);
        Ok(answer)
    }

    fn fill(&mut self, region: Region, nth: Try, tag: &Tag) -> Ref {
        self.open = false;
        let (owner, plan, class) = (self.owner, self.plan, self.class);
        let record = Allocation::new(Parts {
            owner: Arc::clone(owner),
            region,
            bytes: owner.driver.bytes(region),
            memory: plan.memory(class),
            len: plan.len,
            read_only: false,
        });
        record.serve(plan.len, tag.clone());
        let bytes = class.bytes();
        let mut heap = owner.heap.lock();
        if let Shape::Pool(_) = plan.shape {
            heap.cache.used_up(kind_index(plan.kind), class);
            heap.goes_live(bytes);
        }
        let live = record.live_place();
        with_payer(&mut heap, owner, plan.kind, |books| {
            books.shift(Where::Reserved, live, bytes);
        });
        heap.counters.allocated(bytes);
        heap.counters.served(nth.served(false));
        drop(heap);
        Ref::new(record)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.open {
            let mut heap = payer_of(self.owner, self.plan).heap.lock();
            heap.books.unreserve(self.class.bytes());
        }
    }
}

/// Runs one round for a payer (S10.9). Faults of other devices lose those, and nothing here.
async fn reclaim(owner: &Arc<Owner>, plan: &Plan, number: u64) -> Round {
    let payer = payer_of(owner, plan);
    life::drain_all();
    let mut round = Round::default();
    for (point, bytes) in holding_back(payer) {
        round.waited_bytes += bytes;
        let _ = wait::reach_point(point).await;
    }
    let before = payer.heap.lock().books.bytes_in(Where::Returning);
    life::drain_all();
    if number > 1 {
        collector::run_all();
        life::drain_all();
    }
    let after = payer.heap.lock().books.bytes_in(Where::Returning);
    let nth = if number == ROUNDS { Try::Last } else { Try::Later };
    if could_serve(owner, plan, nth) {
        round.returned_bytes = before.saturating_sub(after);
        return round;
    }
    round.returned_bytes = empty_caches(payer).await;
    round
}

/// Returns the points that keep memory of a payer from returning, mappings' ends among them, with
/// the bytes of each.
fn holding_back(payer: &Arc<Owner>) -> BTreeMap<Point, u64> {
    let mut points: BTreeMap<Point, u64> = BTreeMap::new();
    for device in life::owners() {
        let heap = device.heap.lock();
        for (word, records) in &heap.pending {
            for record in records.iter().filter(|record| record.payer().id == payer.id) {
                let last = Point::from_word(*word).expect("only points are waited for");
                *points.entry(last).or_default() += record.charged();
                record.stamps.for_each_use(|point| {
                    points.entry(point).or_default();
                });
            }
        }
        for (value, record) in &heap.leaving {
            if record.payer().id == payer.id && *value <= device.track.submitted() {
                *points.entry(Point::new(device.id, *value)).or_default() += record.charged();
            }
        }
        for (value, mapping) in &heap.unmapping {
            let root = Arc::clone(&mapping.root.lock());
            if root.payer().id == payer.id && root.is_returning() && *value > 0 {
                *points.entry(Point::new(device.id, *value)).or_default() += root.charged();
            }
        }
    }
    points.retain(|point, _| point.fate() == Fate::Unreached);
    points
}

/// Whether a try could be served now.
fn could_serve(owner: &Arc<Owner>, plan: &Plan, nth: Try) -> bool {
    let mut heap = owner.heap.lock();
    let Shape::Pool(class) = plan.shape else { return heap.books.room_bytes() >= plan.len };
    let kind = kind_index(plan.kind);
    let exact = Class::Exact { bytes: plan.grained };
    let cached = heap.cache.could_take(kind, class) || heap.cache.could_take(kind, exact);
    let room = with_payer(&mut heap, owner, plan.kind, |books| books.room_bytes());
    cached || room >= class.bytes() || nth == Try::Last && room >= plan.grained
}

/// Sends what a payer has cached, on every device that no other round is emptying, to the
/// drivers, and waits until it is there. Answers the bytes returned.
async fn empty_caches(payer: &Arc<Owner>) -> u64 {
    let mut bytes = 0;
    for device in life::owners() {
        if std::mem::replace(&mut device.heap.lock().emptying, true) {
            continue;
        }
        let emptying = Emptying(&device);
        let kind = if device.id == payer.id { Kind::Device } else { Kind::Pinned };
        if device.payer(kind).id == payer.id {
            let emptied = life::with_stops(|stops| {
                drain::empty_cache(&device, stops, |heap| {
                    let index = kind_index(kind);
                    heap.cache.pop_oldest_of(index).map(|(record, class)| (record, index, class))
                })
            });
            if emptied.pending_bytes > 0 {
                let _ = wait::reach(&device, device.track.submitted()).await;
                life::drain(&device);
            }
            bytes += emptied.returned_bytes + emptied.pending_bytes;
        }
        drop(emptying);
    }
    bytes
}

/// A device whose cache a round is emptying.
struct Emptying<'a>(&'a Arc<Owner>);

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        self.0.heap.lock().emptying = false;
    }
}

/// What a payer's memory is kept by, and the totals by label and by call site.
struct Survey {
    kept: Kept,
    labels: Vec<LabelTotal>,
    sites: Vec<SiteTotal>,
}

/// Looks through all that a payer pays for; only after a try failed.
fn survey(payer: &Arc<Owner>) -> Survey {
    let records = payer.heap.lock().roster.all();
    let mut kept = Kept::default();
    let mut labels: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
    let mut sites: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for record in &records {
        let bytes = record.charged();
        if record.is_returning() {
            note_returning(record, bytes, &mut kept);
            continue;
        }
        if !record.has_handles() && record.exports.load(crate::sync::Ordering::Relaxed) == 0 {
            continue;
        }
        let place = if record.exports.load(crate::sync::Ordering::Relaxed) > 0 {
            &mut kept.exported_bytes
        } else if record.is_lent() {
            &mut kept.lent_bytes
        } else if record.claims.is_kept() {
            &mut kept.claimed_bytes
        } else {
            &mut kept.live_bytes
        };
        *place += bytes;
        let tag = record.extra.lock().tag.clone();
        let total = labels.entry(tag.label.unwrap_or_default()).or_default();
        *total = (total.0 + bytes, total.1 + 1);
        if let Some(site) = tag.site {
            let total = sites.entry(site.to_string()).or_default();
            *total = (total.0 + bytes, total.1 + 1);
        }
    }
    let mut labels: Vec<_> = labels
        .into_iter()
        .map(|(label, (bytes, count))| LabelTotal { label, bytes, count })
        .collect();
    labels.sort_by_key(|total| std::cmp::Reverse(total.bytes));
    labels.truncate(LABELS_MAX);
    let mut sites: Vec<_> = sites
        .into_iter()
        .map(|(site, (bytes, count))| SiteTotal { site: Arc::from(site), bytes, count })
        .collect();
    sites.sort_by_key(|total| std::cmp::Reverse(total.bytes));
    Survey { kept, labels, sites }
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
            let name = crate::timeline::track(point.device_id()).name();
            match kept.unreached.iter_mut().find(|(known, _)| *known == name) {
                Some((_, total)) => *total += bytes,
                None => kept.unreached.push((name, bytes)),
            }
        }
        Some((_, Fate::Undone)) => kept.lost_bytes += bytes,
        _ if !record.extra.lock().maps.is_empty() => kept.mapped_bytes += bytes,
        _ => {}
    }
}

fn out_of_memory(owner: &Arc<Owner>, plan: &Plan, rounds: Vec<Round>, immediate: bool) -> Error {
    let payer = payer_of(owner, plan);
    let survey = survey(payer);
    let heap = payer.heap.lock();
    let books = &heap.books;
    let report = Report {
        asked_bytes: plan.len,
        bin_bytes: match plan.shape {
            Shape::Pool(class) => class.bytes(),
            Shape::Small => plan.len,
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
        labels: survey.labels,
        sites: survey.sites,
        rounds,
        immediate,
    };
    Error::OutOfMemory {
        device: Arc::clone(&owner.name),
        asked_bytes: plan.len,
        held_bytes: books.held(),
        budget_bytes: books.budget_bytes(),
        report: Arc::new(report),
    }
}

/// Returns the least length of a host buffer that starts on a page and is cached (S9.11).
pub(crate) fn paged_bytes() -> u64 {
    (64 << 10).max(4 * page_bytes())
}

const ROUNDS: u64 = 3;
const LABELS_MAX: usize = 10;
