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
use crate::drain::{self, kind_index, with_payer, with_pool_payer};
use crate::driver::{Alloc, Ask, Kind, Region};
use crate::error::Outcome;
use crate::life;
use crate::reclaim::plan::{Plan, Shape, budget_of, check, payer_of, plan};
use crate::reclaim::round::next_round;
use crate::reclaim::survey::out_of_memory;
use crate::report::{Round, Served};
use crate::sync::now_ns;
use crate::tick;
use crate::timeline::Access;
use crate::wait;
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
    if plan.bytes() > budget_of(owner, &plan) {
        return Err(out_of_memory(owner, &plan, Vec::new(), false));
    }
    let mut rounds = Vec::new();
    let made = loop {
        let nth = Try::after(rounds.len() as u64);
        let lack = match attempt(owner, &plan, nth, &tag)? {
            Tried::Made(made) => break made,
            Tried::Lacks(lack) => lack,
            Tried::Unsure(mut room) => {
                // A refused region is gone.
                let region = room.region;
                match wait::answer(owner, |driver, waker| driver.poll_alloc(region, waker)).await? {
                    Alloc::Ready(_) | Alloc::Pending(_) => break room.fill(),
                    Alloc::Refused => room.stage = Stage::Room,
                    Alloc::Fault(fault) => return Err(life::fault(owner, &fault)),
                }
                Lack::Driver
            }
        };
        next_round(owner, plan, lack, &mut rounds).await?;
    };
    tick::arm(owner);
    Ok(made)
}

/// Makes a staging half's memory, charged to the host, by the same tries and rounds (S7.6).
pub(crate) fn create_half(owner: &Arc<Owner>, len: u64) -> impl Future<Output = Outcome<Ref>> + '_ {
    let kind = if owner.is_host() { Kind::Device } else { Kind::Transfer };
    let plan = Plan { kind, len, grained: len, shape: Shape::Half };
    life::drain(payer_of(owner, &plan));
    climb(owner, Left { plan, tag: Tag::default() })
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
        next_round(owner, plan, Lack::Driver, &mut rounds).await?;
    }
}

/// Makes room at the driver for what it refused to make for work, `asked_bytes` of it, by the next
/// round (S8.3).
pub(crate) fn make_room<'a>(
    owner: &'a Arc<Owner>,
    asked_bytes: u64,
    rounds: &'a mut Vec<Round>,
) -> impl Future<Output = Outcome<()>> + 'a {
    let (kind, len) = (Kind::Device, asked_bytes);
    let plan = Plan { kind, len, grained: len, shape: Shape::Small };
    next_round(owner, plan, Lack::Driver, rounds)
}

/// Makes a buffer's memory by try 1 alone; never waits (S10.12).
pub(crate) fn create_now(owner: &Arc<Owner>, left: Left) -> Outcome<Ref> {
    let Left { plan, tag } = left;
    let tried = if plan.bytes() <= budget_of(owner, &plan) {
        attempt(owner, &plan, Try::First, &tag)?
    } else {
        Tried::Lacks(Lack::Budget)
    };
    let made = match tried {
        Tried::Made(made) => made,
        Tried::Unsure(mut room) => room.fill_unsure(),
        Tried::Lacks(_) => return Err(out_of_memory(owner, &plan, Vec::new(), true)),
    };
    tick::arm(owner);
    Ok(made)
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
    with_pool_payer(heap, owner, kind, |books| {
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
    /// Returns the try that comes after so many rounds.
    fn after(rounds: u64) -> Self {
        match rounds {
            0 => Self::First,
            ROUNDS => Self::Last,
            _ => Self::Later,
        }
    }

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
    if let Some(found) = cached(&mut heap, owner, plan, class)
        && let Some(record) = heap.cache.take(kind_index(plan.kind), found)
    {
        goes_live(&mut heap, owner, plan.kind, found, nth.served(true));
        return Taken::Cached(record);
    }
    let exact = plan.exact();
    with_pool_payer(&mut heap, owner, plan.kind, |books| {
        if books.reserve(class.bytes()) {
            Taken::Room(class)
        } else if nth == Try::Last && class != exact && books.reserve(plan.grained) {
            Taken::Room(exact)
        } else {
            Taken::Nothing
        }
    })
}

/// Returns the class of what the cache serves now for an asked one (S9.9, S10.8).
fn cached(heap: &mut Heap, owner: &Arc<Owner>, plan: &Plan, class: Class) -> Option<Class> {
    let kind = kind_index(plan.kind);
    if heap.cache.could_take(kind, class) {
        return Some(class);
    }
    let roomy = is_roomy(heap, owner, plan.kind);
    let near = if roomy { heap.cache.near(kind, class) } else { None };
    near.or_else(|| Some(plan.exact()).filter(|exact| heap.cache.could_take(kind, *exact)))
}

/// Whether so little of the payer's budget is live that a larger entry may serve (S9.9): what it
/// wastes could be missed once most of the budget is.
fn is_roomy(heap: &mut Heap, owner: &Arc<Owner>, kind: Kind) -> bool {
    with_pool_payer(heap, owner, kind, |books| {
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

/// What a try came to.
enum Tried<'a> {
    Made(Ref),
    Lacks(Lack),
    /// The driver's verdict is still to come.
    Unsure(Reserved<'a>),
}

fn attempt<'a>(
    owner: &'a Arc<Owner>,
    plan: &'a Plan,
    nth: Try,
    tag: &'a Tag,
) -> Outcome<Tried<'a>> {
    let class = match take(owner, plan, nth) {
        Taken::Room(class) => class,
        Taken::Cached(record) => return Ok(Tried::Made(serve(record, plan.len, tag.clone()))),
        Taken::Nothing => return Ok(Tried::Lacks(Lack::Budget)),
    };
    let (stage, region, bytes) = (Stage::Room, Region::default(), None);
    let mut room = Reserved { owner, plan, class, nth, tag, stage, region, bytes };
    match room.ask()? {
        Alloc::Ready(_) => Ok(Tried::Made(room.fill())),
        Alloc::Pending(_) => {
            room.stage = Stage::Unsure;
            Ok(Tried::Unsure(room))
        }
        Alloc::Refused => Ok(Tried::Lacks(Lack::Driver)),
        Alloc::Fault(fault) => Err(life::fault(owner, &fault)),
    }
}

#[inline]
fn serve(record: Arc<Allocation>, len: u64, tag: Tag) -> Ref {
    record.serve(len, tag);
    Ref::from_cache(record)
}

/// Room in the books ahead of a driver's call; handed back unless it is filled.
struct Reserved<'a> {
    owner: &'a Arc<Owner>,
    plan: &'a Plan,
    class: Class,
    nth: Try,
    tag: &'a Tag,
    stage: Stage,
    /// What the driver gave.
    region: Region,
    /// Where the host finds its bytes.
    bytes: Option<HostBytes>,
}

enum Stage {
    Room,
    /// A region waits for its verdict; without one, it goes the way of any buffer's.
    Unsure,
    Filled,
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
            (self.region, self.bytes) = (region, call.driver().bytes(region));
        }
        self.owner.heap.lock().spent_in_driver(spent);
        Ok(answer)
    }

    /// Makes a buffer's memory of the region, which the driver may still refuse.
    fn fill_unsure(&mut self) -> Ref {
        let made = self.fill();
        made.set_unsure();
        made
    }

    fn fill(&mut self) -> Ref {
        self.stage = Stage::Filled;
        let (owner, plan, class) = (self.owner, self.plan, self.class);
        let record = Allocation::new(Parts {
            owner: Arc::clone(owner),
            region: self.region,
            bytes: self.bytes,
            memory: plan.memory(class),
            len: plan.len,
            read_only: false,
        });
        record.serve(plan.len, self.tag.clone());
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
            heap.counters.served(self.nth.served(false));
        }
        drop(heap);
        Ref::new(record)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        match self.stage {
            Stage::Room => {
                let mut heap = payer_of(self.owner, self.plan).heap.lock();
                heap.books.unreserve(self.class.bytes());
            }
            Stage::Unsure => drop(self.fill_unsure()),
            Stage::Filled => {}
        }
    }
}

const ROUNDS: u64 = 3;
