//! Opening devices: one opener a name, shared by everybody who asks for that name meanwhile.
//!
//! No lock is held while an opener runs, so a blocked one delays no other name (S1.4). Whoever
//! waits for the name drives the opener; when all of them are gone, the name is free again. Any
//! thread may open. `OPENING` is a leaf lock; each opening's own future is polled by one thread at
//! a time, under its own lock, which only other openers of that name can meet.

use crate::allocation::heap::Heap;
use crate::allocation::owner::{Ends, Owner};
use crate::cache::Options as CacheOptions;
use crate::claim::Marks;
use crate::draining::Draining;
use crate::driver::{Driver, Facts, Fault, HAS_FILES, Op, Part, Refusal};
use crate::drivers::host;
use crate::error::{Failed, Misuse, Outcome, text};
use crate::gate::Gate;
use crate::global::Global;
use crate::life;
use crate::list::List;
use crate::sync::plain::Mutex;
use crate::sync::{AtomicBool, BoxFuture, MaybeSend, Wakers, Watchers};
use crate::tick;
use crate::timeline::{DeviceId, track};
use crate::turn::Turn;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};

/// How a device is opened: by which driver, and what makes it. The module of each driver answers
/// one, such as [`crate::memory::opener`]; [`crate::Device::open`] takes it.
///
/// The driver's name tells two openers of one device's name apart: with the same one they share
/// the device, with another the second is `Misuse::NameTaken` (S1.2).
pub struct Opener {
    driver: &'static str,
    future: Opening,
}

/// What makes a driver.
type Opening = BoxFuture<'static, Opened>;
/// A driver, or why there is none.
type Opened = std::result::Result<Arc<dyn Driver>, Fault>;

impl Opener {
    /// Makes an opener of a function. It runs on the thread of whoever opens, and may block.
    pub fn new(driver: &'static str, open: impl FnOnce() -> Opened + MaybeSend + 'static) -> Self {
        Self::future(driver, async move { open() })
    }

    /// Makes an opener of a future.
    pub fn future(
        driver: &'static str,
        open: impl Future<Output = Opened> + MaybeSend + 'static,
    ) -> Self {
        Self { driver, future: Box::pin(open) }
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opener({})", self.driver)
    }
}

/// An opener at work, shared by all who ask for its name.
struct Shared {
    name: Arc<str>,
    driver: &'static str,
    /// Guards the opener's future while one of them polls it, and its answer afterwards.
    state: Mutex<State>,
    waiters: Arc<Wakers>,
}

enum State {
    Running(Opening),
    Done(Outcome<Arc<Owner>>),
}

/// Opens a device, or answers the one that has the name.
pub(crate) async fn open(name: &str, opener: Opener, options: CacheOptions) -> Outcome<Arc<Owner>> {
    if OPENED_HERE.with_borrow(|names| names.iter().any(|known| &**known == name)) {
        return Misuse::Reentrant { inside: "the opener of this name" }.of("open");
    }
    let shared = match find_or_start(name, opener)? {
        Found::Open(owner) => return Ok(owner),
        Found::Opening(shared) => shared,
    };
    let asked = Asked(shared);
    poll_fn(|cx| poll_shared(&asked.0, options, cx)).await
}

/// One who asks for a name. Gone, it wakes the others: a wake of the opener may have been meant for
/// it.
struct Asked(Arc<Shared>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.waiters.wake_all();
    }
}

enum Found {
    Open(Arc<Owner>),
    Opening(Arc<Shared>),
}

fn find_or_start(name: &str, opener: Opener) -> Outcome<Found> {
    check_name(name)?;
    // Declared ahead of the lock: an opener that ends here is dropped after it.
    let mut known: Vec<Arc<Shared>> = Vec::new();
    let mut opening = OPENING.lock();
    if let Some(owner) = find(name, opener.driver)? {
        return Ok(Found::Open(owner));
    }
    opening.retain(|shared| shared.strong_count() > 0);
    known.extend(opening.iter().filter_map(Weak::upgrade));
    if let Some(shared) = known.iter().find(|shared| *shared.name == *name) {
        return if shared.driver == opener.driver {
            Ok(Found::Opening(Arc::clone(shared)))
        } else {
            Misuse::NameTaken { driver: shared.driver }.of("open")
        };
    }
    let shared = Arc::new(Shared {
        name: intern(name),
        driver: opener.driver,
        state: Mutex::new(State::Running(opener.future)),
        waiters: Arc::new(Wakers::new()),
    });
    opening.push(Arc::downgrade(&shared));
    Ok(Found::Opening(shared))
}

/// Refuses the host's name, and any once everything failed.
fn check_name(name: &str) -> Outcome<()> {
    if let Some(why) = life::failed() {
        return Err(refused(name, &text!("everything failed: ", why)));
    }
    if name == HOST_NAME {
        return Misuse::NameTaken { driver: host_owner().driver.kind() }.of("open");
    }
    // Whoever asks for a lost name may be the first to find its stop over.
    if let Some(owner) = life::named(name)
        && owner.track.is_lost()
    {
        let _ = life::poll_stopped(&owner, Waker::noop());
    }
    Ok(())
}

/// Finds the open device that has a name; it has to be the driver's.
fn find(name: &str, driver: &'static str) -> Outcome<Option<Arc<Owner>>> {
    let Some(owner) = life::named(name) else { return Ok(None) };
    if owner.driver.kind() != driver {
        return Misuse::NameTaken { driver: owner.driver.kind() }.of("open");
    }
    if owner.track.is_lost() {
        let why = "the device of this name is lost and has not stopped yet";
        return Err(refused(name, why));
    }
    Ok(Some(owner))
}

/// Opens a device whose driver is made at once, where there is one thread and no opener.
#[cfg(target_family = "wasm")]
pub(crate) fn open_now(
    name: &str,
    driver: &'static str,
    make: impl FnOnce() -> Arc<dyn Driver>,
) -> Outcome<Arc<Owner>> {
    check_name(name)?;
    match find(name, driver)? {
        Some(owner) => Ok(owner),
        None => start(&intern(name), make(), CacheOptions::default()),
    }
}

fn poll_shared(
    shared: &Arc<Shared>,
    options: CacheOptions,
    cx: &mut Context<'_>,
) -> Poll<Outcome<Arc<Owner>>> {
    shared.waiters.register(cx.waker());
    let Some(mut state) = shared.state.try_lock() else { return Poll::Pending };
    let answer = match &mut *state {
        State::Done(answer) => return Poll::Ready(answer.clone()),
        State::Running(future) => {
            let _here = OpenedHere::enter(&shared.name);
            // Wakes all who ask for the name: the one who polls now may be gone by then.
            let waker = Waker::from(Arc::clone(&shared.waiters));
            let mut cx = Context::from_waker(&waker);
            let poll = std::panic::AssertUnwindSafe(|| future.as_mut().poll(&mut cx));
            match std::panic::catch_unwind(poll) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Ok(driver))) => start(&shared.name, driver, options),
                Ok(Poll::Ready(Err(fault))) => Err(refused(&shared.name, &fault.0)),
                Err(panic) => {
                    let why = panic
                        .downcast_ref::<&str>()
                        .map(|text| (*text).to_owned())
                        .or_else(|| panic.downcast_ref::<String>().cloned())
                        .unwrap_or_default();
                    Err(refused(&shared.name, &text!("the opener panicked: ", why)))
                }
            }
        }
    };
    OPENING.lock().retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(shared)));
    *state = State::Done(answer.clone());
    drop(state);
    shared.waiters.wake_all();
    Poll::Ready(answer)
}

fn refused(name: &str, why: &str) -> Failed {
    Failed::unsupported(name, why)
}

fn lost_opening(name: &Arc<str>, fault: &Fault) -> Failed {
    refused(name, &text!("lost while it opened: ", fault.0))
}

/// Makes the device of a driver, unless its facts do not hold or it is lost already.
fn start(name: &Arc<str>, driver: Arc<dyn Driver>, options: CacheOptions) -> Outcome<Arc<Owner>> {
    let facts = driver.facts();
    check_facts(&facts)?;
    check_copies(name, &driver, &facts)?;
    let first = driver.health().and_then(|()| driver.reached());
    let first = first.map_err(|fault| lost_opening(name, &fault))?;
    let id = next_id(name)?;
    track(id).start(name, first, facts.rejects_later);
    let owner = new_owner(id, name, driver, facts, options, Some(Arc::clone(host_owner())));
    life::enter(Arc::clone(&owner));
    tick::arm(&owner);
    if let Some(why) = life::failed() {
        // `fail` came in between: whoever entered the registry last sees the other (S12.6).
        life::lose(&owner, &why);
        return Err(life::lost(&owner));
    }
    Ok(owner)
}

fn check_facts(facts: &Facts) -> Outcome<()> {
    let zero = |what: &'static str| Misuse::Zero { what }.of("open");
    if facts.hang_ms == Some(0) {
        return zero("the hang bound");
    }
    if facts.grain_bytes == 0 {
        return zero("the grain");
    }
    if facts.piece_bytes == 0 || facts.half_bytes == 0 {
        return zero("the piece");
    }
    if facts.import_align_bytes == Some(0) {
        return zero("the import alignment");
    }
    Ok(())
}

/// Asks each queue that claims copies to prepare one (S1.8).
fn check_copies(name: &Arc<str>, driver: &Arc<dyn Driver>, facts: &Facts) -> Outcome<()> {
    let queues = facts.queues.iter().enumerate().filter(|(_, queue)| queue.copies);
    for (queue, _) in queues {
        let op = Op::Copy { src: 0, dst: 1 };
        match driver.prepare(&[Part { queue, after: Vec::new(), op }]) {
            Ok(number) => driver.unprepare(number),
            Err(Refusal::Fault(fault)) => return Err(lost_opening(name, &fault)),
            Err(Refusal::Rejected(why)) => {
                let queue = queue as u64;
                let why = text!("queue ", queue, " claims copies and runs none: ", why);
                return Err(refused(name, &why));
            }
        }
    }
    Ok(())
}

fn next_id(name: &Arc<str>) -> Outcome<DeviceId> {
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        (next <= u32::from(u16::MAX)).then_some(next + 1)
    });
    match next.map(u16::try_from) {
        Ok(Ok(id)) => Ok(DeviceId(id)),
        _ => Err(refused(name, "this process has opened 65,535 devices")),
    }
}

fn new_owner(
    id: DeviceId,
    name: &Arc<str>,
    driver: Arc<dyn Driver>,
    facts: Facts,
    options: CacheOptions,
    host: Option<Arc<Owner>>,
) -> Arc<Owner> {
    Arc::new(Owner {
        id,
        name: Arc::clone(name),
        copy_queue: facts.copy_queue(),
        has_files: HAS_FILES && driver.file().is_some(),
        track: track(id),
        gate: Gate::new(),
        turn: Turn::new(),
        marks: Marks::new(),
        draining: Draining::new(),
        wakers: Wakers::new(),
        waits: crate::sync::AtomicU32::new(0),
        loss_watchers: Watchers::new(),
        claim_wakers: Wakers::new(),
        returns: List::new(),
        unmaps: List::new(),
        leftovers: List::new(),
        heap: crate::sync::Mutex::new(Heap::new(facts.default_budget_bytes, options)),
        due: AtomicBool::new(false),
        ends: crate::sync::Mutex::new(Ends::default()),
        stop_begun: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        ticking: AtomicBool::new(false),
        kept_back: AtomicBool::new(false),
        host,
        driver,
        facts,
    })
}

/// Returns the host, which is always open and never lost (S1.1).
pub(crate) fn host_owner() -> &'static Arc<Owner> {
    static HOST: Global<OnceLock<Arc<Owner>>> = Global::new(OnceLock::new());
    HOST.get_or_init(|| {
        let name = intern(HOST_NAME);
        let driver = host::driver();
        let facts = driver.facts();
        track(DeviceId::HOST).start(&name, 0, false);
        let options = CacheOptions::default();
        let owner = new_owner(DeviceId::HOST, &name, driver, facts, options, None);
        life::enter(Arc::clone(&owner));
        owner
    })
}

/// Returns the one shared text of a name, so that opening it often keeps it once.
fn intern(name: &str) -> Arc<str> {
    let mut names = NAMES.lock();
    if let Some(known) = names.iter().find(|known| &***known == name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = Arc::from(name);
    names.push(Arc::clone(&name));
    name
}

/// Marks that this thread runs the opener of a name.
struct OpenedHere;

impl OpenedHere {
    fn enter(name: &Arc<str>) -> Self {
        OPENED_HERE.with_borrow_mut(|names| names.push(Arc::clone(name)));
        Self
    }
}

impl Drop for OpenedHere {
    fn drop(&mut self) {
        OPENED_HERE.with_borrow_mut(Vec::pop);
    }
}

thread_local! {
    static OPENED_HERE: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// The host's name.
pub(crate) const HOST_NAME: &str = "CPU";
/// The index of the next device; the host has 0.
static NEXT: AtomicU32 = AtomicU32::new(1);
/// Guards the openers at work. A leaf lock.
static OPENING: Global<Mutex<Vec<Weak<Shared>>>> = Global::new(Mutex::new(Vec::new()));
/// Guards the texts of names. A leaf lock.
static NAMES: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());
