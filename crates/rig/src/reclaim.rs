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

mod plan;
#[cfg(not(target_family = "wasm"))]
mod quick;
mod round;
mod survey;

#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::reclaim::quick::quick;

use crate::allocation::heap::Heap;
use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Memory, Parts, Ref, Tag};
use crate::budget::{Budget, Where};
use crate::bytes::HostBytes;
use crate::cache::{Class, HAS_PINNED};
use crate::drain::{self, kind_index, with_payer};
use crate::driver::{Alloc, Ask, Kind, Region};
use crate::entry;
use crate::error::Outcome;
use crate::life;
use crate::reclaim::plan::{Plan, Shape, budget_of, check, payer_of, plan};
use crate::reclaim::round::reclaim;
use crate::reclaim::survey::{out_of_memory, survey};
use crate::report::{Round, Served};
use crate::sync::now_ns;
use crate::tick;
use crate::timeline::Access;
use crate::wait;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// What is asked for.
pub(crate) struct Want {
    pub(crate) kind: Kind,
    pub(crate) len: u64,
    pub(crate) tag: Tag,
}

/// What the first look came to.
pub(crate) enum First {
    /// The asked bin served, or nothing was asked for.
    Made(Ref),
    /// What has to be tried.
    Left(Left),
}

/// A buffer to be made by tries and rounds.
pub(crate) struct Left {
    plan: Plan,
    tag: Tag,
}

/// Makes memory, reclaiming before it fails (S10.5, S10.8).
pub(crate) async fn create(owner: &Arc<Owner>, want: Want) -> Outcome<Ref> {
    match first(owner, want)? {
        First::Made(made) => Ok(made),
        First::Left(left) => climb(owner, left).await,
    }
}

/// Tries and reclaims until a buffer's memory is there (S10.8).
pub(crate) async fn climb(owner: &Arc<Owner>, left: Left) -> Outcome<Ref> {
    let Left { plan, tag } = left;
    let made = climb_plan(owner, &plan, &tag).await?;
    tick::arm(owner);
    Ok(made)
}

/// Makes a staging half's memory, charged to the host, by the same tries and rounds (S7.6).
pub(crate) async fn create_half(owner: &Arc<Owner>, len: u64) -> Outcome<Ref> {
    let kind = if owner.is_host() { Kind::Device } else { Kind::Transfer };
    let plan = Plan { kind, len, grained: len, shape: Shape::Half };
    life::drain(payer_of(owner, &plan));
    let made = climb_plan(owner, &plan, &Tag::default()).await?;
    tick::arm(owner);
    Ok(made)
}

/// Makes sure that the driver has what the host's access of a half needs, by the same rounds where
/// it has no room (S7.6).
pub(crate) async fn ready_half(at: &Ref, access: Access) -> Outcome<()> {
    let (owner, region, len) = (&at.owner, at.region, at.len());
    let mut rounds = Vec::new();
    loop {
        let asked =
            wait::answer(owner, |driver, waker| driver.poll_transfer(region, access, waker));
        match asked.await? {
            Alloc::Ready(_) | Alloc::Pending(_) => return Ok(()),
            Alloc::Fault(fault) => return Err(life::fault(owner, &fault)),
            Alloc::Refused => {}
        }
        let plan = Plan { kind: Kind::Transfer, len, grained: len, shape: Shape::Half };
        next_round(owner, &plan, &mut rounds).await?;
    }
}

/// Makes room at the driver for what it refused to make for work, `asked_bytes` of it, by the next
/// round (S8.3).
pub(crate) async fn make_room(
    owner: &Arc<Owner>,
    asked_bytes: u64,
    rounds: &mut Vec<Round>,
) -> Outcome<()> {
    let (kind, len) = (Kind::Device, asked_bytes);
    next_round(owner, &Plan { kind, len, grained: len, shape: Shape::Small }, rounds).await
}

/// Runs the next round after the driver had no room; after the last one that is `OutOfMemory`.
async fn next_round(owner: &Arc<Owner>, plan: &Plan, rounds: &mut Vec<Round>) -> Outcome<()> {
    if let Some(round) = rounds.last_mut() {
        note_kept(owner, plan, round);
    }
    let number = rounds.len() as u64 + 1;
    if number > ROUNDS {
        return Err(out_of_memory(owner, plan, std::mem::take(rounds), false));
    }
    rounds.push(reclaim(owner, plan, number, Lack::Driver).await);
    life::check_lost(owner)
}

/// Notes what a round could not return, after a try failed.
fn note_kept(owner: &Arc<Owner>, plan: &Plan, round: &mut Round) {
    round.kept = survey(payer_of(owner, plan));
}

async fn climb_plan(owner: &Arc<Owner>, plan: &Plan, tag: &Tag) -> Outcome<Ref> {
    if plan.bytes() > budget_of(owner, plan) {
        return Err(out_of_memory(owner, plan, Vec::new(), false));
    }
    let lack = match attempt(owner, plan, Try::First, tag).await? {
        Ok(made) => return Ok(made),
        Err(lack) => lack,
    };
    let started = now_ns();
    let mut rounds = pin!(in_rounds(owner, plan, tag, lack));
    let made = poll_fn(|cx| entry::timed(|| rounds.as_mut().poll(cx))).await;
    owner.heap.lock().counters.spent(now_ns() - started);
    made
}

async fn in_rounds(owner: &Arc<Owner>, plan: &Plan, tag: &Tag, mut lack: Lack) -> Outcome<Ref> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let mut round = reclaim(owner, plan, number, lack).await;
        life::check_lost(owner)?;
        let nth = if number == ROUNDS { Try::Last } else { Try::Later };
        lack = match attempt(owner, plan, nth, tag).await? {
            Ok(made) => return Ok(made),
            Err(lack) => lack,
        };
        note_kept(owner, plan, &mut round);
        rounds.push(round);
    }
    Err(out_of_memory(owner, plan, rounds, false))
}

/// Makes a buffer's memory by try 1 alone; never waits (S10.12).
pub(crate) fn create_now(owner: &Arc<Owner>, left: Left) -> Outcome<Ref> {
    let Left { plan, tag } = left;
    if plan.bytes() <= budget_of(owner, &plan)
        && let Some(made) = attempt_now(owner, &plan, &tag)?
    {
        tick::arm(owner);
        return Ok(made);
    }
    Err(out_of_memory(owner, &plan, Vec::new(), true))
}

/// Does what comes before the first try, in the order of S10.5, and looks into the asked bin.
#[cfg_attr(not(target_family = "wasm"), inline)] // The package would have it twice.
pub(crate) fn first(owner: &Arc<Owner>, want: Want) -> Outcome<First> {
    let kind = check(owner, &want)?;
    life::drain(owner);
    if HAS_PINNED && kind == Kind::Pinned {
        owner.host.iter().for_each(life::drain);
    }
    life::check_lost(owner)?;
    let (len, tag) = (want.len, want.tag);
    if len == 0 {
        let made = empty(owner);
        tick::arm(owner);
        return Ok(First::Made(made));
    }
    let mut heap = owner.heap.lock();
    heap.counters.requested(len);
    let (plan, budget) = plan(&mut heap, owner, kind, len);
    if let Shape::Pool(class) = plan.shape
        && class.bytes() <= budget
        && let Some(record) = heap.cache.take(kind_index(kind), class)
    {
        goes_live(&mut heap, owner, kind, class, Served::Cache);
        drop(heap);
        let made = serve(record, len, tag);
        tick::arm(owner);
        return Ok(First::Made(made));
    }
    Ok(First::Left(Left { plan, tag }))
}

/// Notes that a cached entry serves.
#[inline]
fn goes_live(heap: &mut Heap, owner: &Arc<Owner>, kind: Kind, class: Class, served: Served) {
    let live = if HAS_PINNED && kind == Kind::Pinned { Where::Pinned } else { Where::Live };
    with_payer(heap, owner, kind, |books| {
        books.shift(Where::Cached, live, class.bytes());
        if cfg!(debug_assertions) {
            books.check();
        }
    });
    heap.goes_live(class.bytes());
    heap.counters.served(served);
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
        Shape::Small | Shape::Half => {
            let bytes = plan.len;
            let reserve = |books: &mut Budget| books.reserve(bytes);
            let fits = with_payer(&mut heap, owner, plan.kind, reserve);
            return if fits { Taken::Room(Class::Exact { bytes }) } else { Taken::Nothing };
        }
    };
    let kind = kind_index(plan.kind);
    let exact = Class::Exact { bytes: plan.grained };
    let found = match heap.cache.take(kind, class) {
        Some(record) => Some((record, class)),
        None if class == exact => None,
        None if is_roomy(&mut heap, owner, plan.kind) => {
            heap.cache.take_near(kind, class).or_else(|| heap.cache.take_exact(kind, plan.grained))
        }
        None => heap.cache.take_exact(kind, plan.grained),
    };
    if let Some((record, found)) = found {
        goes_live(&mut heap, owner, plan.kind, found, nth.served(true));
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

/// Whether so little of the payer's budget is live that a larger entry may serve (S9.9): what it
/// wastes could be missed once most of the budget is.
fn is_roomy(heap: &mut Heap, owner: &Arc<Owner>, kind: Kind) -> bool {
    with_payer(heap, owner, kind, |books| {
        let live_bytes = books.bytes_in(Where::Live) + books.bytes_in(Where::Pinned);
        live_bytes <= books.budget_bytes() / 2
    })
}

/// What a try lacked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Room in the payer's budget.
    Budget,
    /// Room at the driver.
    Driver,
}

/// What a try came to before anything was waited for.
enum Tried<'a> {
    Made(Ref),
    Lacks(Lack),
    /// The driver handed this region out ahead of its verdict.
    Pending(Reserved<'a>, Region),
}

fn begin<'a>(owner: &'a Arc<Owner>, plan: &'a Plan, nth: Try, tag: &Tag) -> Outcome<Tried<'a>> {
    let class = match take(owner, plan, nth) {
        Taken::Room(class) => class,
        Taken::Cached(record) => return Ok(Tried::Made(serve(record, plan.len, tag.clone()))),
        Taken::Nothing => return Ok(Tried::Lacks(Lack::Budget)),
    };
    let mut room = Reserved { owner, plan, class, open: true, bytes: None };
    match room.ask()? {
        Alloc::Ready(region) => Ok(Tried::Made(room.fill(region, nth, tag))),
        Alloc::Pending(region) => Ok(Tried::Pending(room, region)),
        Alloc::Refused => Ok(Tried::Lacks(Lack::Driver)),
        Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
    }
}

async fn attempt(
    owner: &Arc<Owner>,
    plan: &Plan,
    nth: Try,
    tag: &Tag,
) -> Outcome<std::result::Result<Ref, Lack>> {
    let (room, region) = match begin(owner, plan, nth, tag)? {
        Tried::Made(made) => return Ok(Ok(made)),
        Tried::Lacks(lack) => return Ok(Err(lack)),
        Tried::Pending(room, region) => (room, region),
    };
    let mut pending = Pending { room, region: Some(region), nth, tag };
    let given = verdict(owner, region).await?;
    let region = pending.region.take().filter(|_| given).ok_or(Lack::Driver);
    Ok(region.map(|region| pending.room.fill(region, nth, tag)))
}

/// Try 1 without waiting: a driver's later verdict is its buffer's affair.
fn attempt_now(owner: &Arc<Owner>, plan: &Plan, tag: &Tag) -> Outcome<Option<Ref>> {
    Ok(match begin(owner, plan, Try::First, tag)? {
        Tried::Made(made) => Some(made),
        Tried::Lacks(_) => None,
        Tried::Pending(mut room, region) => {
            let made = room.fill(region, Try::First, tag);
            made.set_unsure();
            Some(made)
        }
    })
}

#[inline]
fn serve(record: Arc<Allocation>, len: u64, tag: Tag) -> Ref {
    record.serve(len, tag);
    Ref::from_cache(record)
}

/// Waits for the driver's verdict on a region that it handed out ahead of it; a refused region is
/// gone.
async fn verdict(owner: &Arc<Owner>, region: Region) -> Outcome<bool> {
    let answer = wait::answer(owner, |driver, waker| driver.poll_alloc(region, waker)).await?;
    match answer {
        Alloc::Ready(_) | Alloc::Pending(_) => Ok(true),
        Alloc::Refused => Ok(false),
        Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
    }
}

/// A region that waits for its verdict; without one, it goes the way of any buffer's.
struct Pending<'a> {
    room: Reserved<'a>,
    region: Option<Region>,
    nth: Try,
    tag: &'a Tag,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.room.fill(region, self.nth, self.tag).set_unsure();
        }
    }
}

/// Room in the books ahead of a driver's call; handed back unless it is filled.
struct Reserved<'a> {
    owner: &'a Arc<Owner>,
    plan: &'a Plan,
    class: Class,
    open: bool,
    /// Where the host finds the bytes of what the driver gave.
    bytes: Option<HostBytes>,
}

impl Reserved<'_> {
    fn ask(&mut self) -> Outcome<Alloc> {
        if let Shape::Pool(_) = self.plan.shape {
            let bytes = self.class.bytes();
            life::with_after(|after| drain::make_way(self.owner, bytes, after));
        }
        let call = life::InFlight::new(self.owner)?;
        let started = now_ns();
        let answer = call.driver().alloc(Ask {
            kind: self.plan.kind,
            len_bytes: self.class.bytes(),
            paged: self.plan.is_paged(self.owner),
        });
        let spent = now_ns() - started;
        if let Alloc::Ready(region) | Alloc::Pending(region) = answer {
            self.bytes = call.driver().bytes(region);
        }
        let mut heap = self.owner.heap.lock();
        heap.counters.spent_in_driver(spent);
        if !entry::is_timed() {
            heap.counters.spent(spent);
        }
        Ok(answer)
    }

    fn fill(&mut self, region: Region, nth: Try, tag: &Tag) -> Ref {
        self.open = false;
        let (owner, plan, class) = (self.owner, self.plan, self.class);
        let record = Allocation::new(Parts {
            owner: Arc::clone(owner),
            region,
            bytes: self.bytes,
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
        if !matches!(plan.shape, Shape::Half) {
            heap.counters.served(nth.served(false));
        }
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

const ROUNDS: u64 = 3;
