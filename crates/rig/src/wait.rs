//! Waiting: for values, points, stamps and claims, and the blocking form of every waiting call.
//!
//! A wait holds no lock and no turn (S0.7). The blocking form polls the same future as the async
//! one; where the future waits for a device, it blocks in that device's driver, at most 200 ms at
//! a time, and looks for losses in between. A first poll that finds nothing to wait for allocates
//! nothing (S0.8).

use crate::allocation::Allocation;
use crate::allocation::owner::Owner;
use crate::claim::{Answer, Ask, Pass};
use crate::driver::Driver;
use crate::error::{Failed, Misuse, Outcome};
use crate::life;
use crate::profile::{self, Event, What};
use crate::stamp::Stamps;
use crate::sync::{HAS_THREADS, Ordering};
use crate::tick::{self, HANGS};
use crate::timeline::{Access, DeviceId, Fate, Point};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let _blocking = Blocking::enter();
    SLEEP.take();
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    // A sleep in a driver ends without a waker.
    if let Some((owner, value)) = SLEEP.take() {
        block(&owner, value);
    }
    let waker = THREAD.with(Waker::clone);
    let mut context = Context::from_waker(&waker);
    loop {
        SLEEP.take();
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        match SLEEP.take() {
            Some((owner, value)) => block(&owner, value),
            None => std::thread::park_timeout(tick::WAIT),
        }
    }
}

/// Blocks in a device's driver for a while, and takes what it says.
fn block(owner: &Arc<Owner>, value: u64) {
    let Ok(call) = life::InFlight::new(owner) else { return };
    let blocked = call.driver().block(value, tick::WAIT);
    drop(call);
    match blocked {
        Ok(()) => {
            life::look(owner);
            tick::check_still(owner);
        }
        Err(fault) => life::lose(owner, &fault.0),
    }
}

/// Whether this thread runs a blocking form, which may hold a claim over one more wait (S5).
pub(crate) fn is_blocking() -> bool {
    cfg!(not(target_family = "wasm")) && BLOCKING.get() > 0
}

struct Blocking;

impl Blocking {
    fn enter() -> Self {
        BLOCKING.set(BLOCKING.get() + 1);
        Self
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        BLOCKING.set(BLOCKING.get() - 1);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static BLOCKING: Cell<u32> = const { Cell::new(0) };
    /// What the future polled last waits for, if that is a device.
    static SLEEP: RefCell<Option<(Arc<Owner>, u64)>> = const { RefCell::new(None) };
    static THREAD: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

/// Waits for an answer of a driver that may be pending: a blocking form sleeps in the driver
/// meanwhile if work is under way there; else the tick serves the driver.
pub(crate) fn answer<T>(
    owner: &Arc<Owner>,
    mut ask: impl FnMut(&Arc<dyn Driver>, &Waker) -> Poll<T>,
) -> impl Future<Output = Outcome<T>> {
    poll_fn(move |cx| {
        let mut answer = Poll::Pending;
        let asked = poll_answer(owner, cx.waker(), &mut |driver, waker| {
            answer = ask(driver, waker);
            answer.is_pending()
        });
        match asked {
            Ok(()) => answer.map(Ok),
            Err(failed) => Poll::Ready(Err(failed)),
        }
    })
}

/// Asks a driver, which says whether its answer is pending.
fn poll_answer(
    owner: &Arc<Owner>,
    waker: &Waker,
    is_pending: &mut dyn FnMut(&Arc<dyn Driver>, &Waker) -> bool,
) -> Outcome<()> {
    owner.wakers.register(waker);
    let asked = life::InFlight::new(owner).map(|call| is_pending(call.driver(), waker));
    if matches!(asked, Ok(true)) {
        return unanswered(owner);
    }
    // Nobody keeps the tick awake for a waker that waits for nothing any more.
    owner.wakers.wake_all();
    asked.map(drop)
}

/// Sees to it that a device's driver is asked again.
fn unanswered(owner: &Arc<Owner>) -> Outcome<()> {
    // The answer may come behind work that was only handed over (S2.6).
    let submitted = owner.track.submitted();
    let works = owner.track.reached() < submitted;
    if works {
        commit(owner, submitted)?;
    }
    if works && is_blocking() && owner.facts.may_block {
        SLEEP.set(Some((Arc::clone(owner), submitted)));
    } else {
        tick::arm(owner);
        tick::poke();
    }
    Ok(())
}

/// Waits until a value is reached; Lost if it never will be. Looks at the device at once.
pub(crate) fn reach(owner: &Arc<Owner>, value: u64) -> Reach<'_> {
    life::look(owner);
    reach_on(owner, value)
}

/// Goes on with a wait for a value whose device was just looked at.
pub(crate) fn reach_on(owner: &Arc<Owner>, value: u64) -> Reach<'_> {
    Reach { owner, value, begun: None }
}

/// Waits until the work of a call is over; Misuse where a driver found it wrong meanwhile (S8.8).
pub(crate) async fn finish(owner: &Arc<Owner>, value: u64, call: &'static str) -> Outcome<()> {
    reach(owner, value).await?;
    check_rejected(owner, value, call)
}

/// Tells whether the work of a value was found wrong after it was taken.
pub(crate) fn check_rejected(owner: &Arc<Owner>, value: u64, call: &'static str) -> Outcome<()> {
    if !owner.facts.rejects_later {
        return Ok(());
    }
    let rejected = life::InFlight::new(owner)?.driver().rejected(value);
    rejected.map_or(Ok(()), |why| Misuse::Rejected { why }.of(call))
}

/// Waits until a point is reached; Lost if it never will be.
pub(crate) async fn reach_point(point: Point) -> Outcome<()> {
    match point.fate() {
        Fate::Reached => Ok(()),
        Fate::Undone | Fate::Dropped => Err(life::lost_point(point)),
        Fate::Unreached => match life::owner_of(point.device_id()) {
            Some(owner) => reach(&owner, point.value()).await,
            None => Err(life::lost_point(point)),
        },
    }
}

/// A wait for a value that goes on; the first starts the count of standing still anew.
struct Waits<'a> {
    owner: &'a Owner,
    /// Since when, for a profile.
    since_ns: Option<u64>,
}

impl<'a> Waits<'a> {
    fn start(owner: &'a Owner) -> Self {
        if HANGS && owner.waits.fetch_add(1, Ordering::Relaxed) == 0 {
            tick::start_still(owner);
        }
        Self { owner, since_ns: profile::begin() }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if HANGS {
            self.owner.waits.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A wait for a value.
pub(crate) struct Reach<'a> {
    owner: &'a Arc<Owner>,
    value: u64,
    /// Once it was polled and found the value unreached.
    begun: Option<Waits<'a>>,
}

impl Future for Reach<'_> {
    type Output = Outcome<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<()>> {
        let (owner, value) = (self.owner, self.value);
        let is_first = self.begun.is_none();
        // Whoever began the wait has just looked.
        if !is_first {
            life::look(owner);
        }
        let mut answer = judge(owner, value);
        if answer.is_pending() {
            self.begun.get_or_insert_with(|| Waits::start(owner));
            let committed = if is_first { commit(owner, value) } else { Ok(()) };
            answer = match committed {
                Ok(()) => sleep(owner, value, cx),
                Err(lost) => Poll::Ready(Err(lost)),
            };
        }
        if answer.is_ready()
            && let Some(waits) = self.begun.take()
        {
            let (since, value) = (waits.since_ns, Some(value));
            profile::end(since, What::Wait, owner.id, |event| Event { value, ..event });
        }
        answer
    }
}

/// Tells whether a wait is over.
fn judge(owner: &Arc<Owner>, value: u64) -> Poll<Outcome<()>> {
    match owner.track.fate(value) {
        Fate::Reached => Poll::Ready(Ok(())),
        Fate::Unreached => Poll::Pending,
        Fate::Undone | Fate::Dropped => Poll::Ready(Err(life::lost(owner))),
    }
}

/// Leaves a waker for a value, unless it was reached just now.
fn sleep(owner: &Arc<Owner>, value: u64, cx: &Context<'_>) -> Poll<Outcome<()>> {
    owner.wakers.register(cx.waker());
    if is_blocking() && owner.facts.may_block {
        // The driver looks by itself before it sleeps; a look may cost as much as the wait.
        SLEEP.set(Some((Arc::clone(owner), value)));
        return Poll::Pending;
    }
    life::InFlight::new(owner)?.driver().wake_at(value, cx.waker());
    tick::arm(owner);
    tick::poke();
    life::look(owner);
    let answer = judge(owner, value);
    if answer.is_ready() {
        // Reached just before the waker was there: nobody keeps the tick awake for it.
        owner.wakers.wake_all();
    }
    answer
}

/// Makes sure that the work up to a value runs by itself.
pub(crate) fn commit(owner: &Arc<Owner>, value: u64) -> Outcome<()> {
    let committed = life::InFlight::new(owner)?.driver().commit(value);
    committed.map_err(|fault| life::fault(owner, &fault))
}

/// Checks, before anything is waited for, that no point an access follows is lost (S3.8, S12.1);
/// then answers one that is still unreached.
pub(crate) fn next_point(stamps: &Stamps, access: Access, by: DeviceId) -> Outcome<Option<Point>> {
    let mut next = None;
    each_unreached(stamps, access, by, &mut |point| next = Some(point))?;
    Ok(next)
}

/// Calls `f` with each point that an access follows and that is still unreached; tells losses.
#[inline]
pub(crate) fn each_unreached(
    stamps: &Stamps,
    access: Access,
    by: DeviceId,
    f: &mut dyn FnMut(Point),
) -> Outcome<()> {
    if stamps.is_empty() {
        return Ok(());
    }
    // The usual case, and all that a reader follows.
    if access == Access::Read && stamps.is_written() {
        return Ok(());
    }
    each_of_some(stamps, access, by, f)
}

fn each_of_some(
    stamps: &Stamps,
    access: Access,
    by: DeviceId,
    f: &mut dyn FnMut(Point),
) -> Outcome<()> {
    let mut lost = None;
    stamps.for_each_followed(access, by, &mut |point| match life::look_at(point) {
        // What a settled device left undone is dropped, but for the last write (S12.3).
        Fate::Reached | Fate::Dropped => {}
        Fate::Unreached => f(point),
        Fate::Undone => lost = Some(point),
    });
    // Judged last: a look may just have lost the device, and settled it.
    let undone = |point: &Point| matches!(point.fate(), Fate::Undone | Fate::Dropped);
    let lost = stamps.write().filter(undone).or(lost);
    lost.map_or(Ok(()), |point| Err(life::lost_point(point)))
}

/// Waits for all that an access of the host follows, under a claim that keeps more away.
pub(crate) async fn follow(stamps: &Stamps, access: Access) -> Outcome<()> {
    follow_by(stamps, access, DeviceId::HOST).await
}

/// Waits on the host for all that an access by `by` follows.
pub(crate) async fn follow_by(stamps: &Stamps, access: Access, by: DeviceId) -> Outcome<()> {
    while let Some(point) = next_point(stamps, access, by)? {
        reach_or_lose(point).await?;
    }
    Ok(())
}

/// Waits for a point's end: a lost one is judged by what the access needs, not by itself.
pub(crate) async fn reach_or_lose(point: Point) -> Outcome<()> {
    match reach_point(point).await {
        Err(failed) if failed.is_lost() => Ok(()),
        other => other,
    }
}

/// Turns an answer that grants nothing into its error.
pub(crate) fn judge_claim(
    call: &'static str,
    allocation: &Allocation,
    answer: Answer,
) -> Outcome<Answer> {
    match answer {
        Answer::Granted | Answer::AsRead => Ok(answer),
        refused => Err(refused_claim(call, allocation, refused)),
    }
}

/// Returns the error of an answer that grants nothing.
#[cold]
pub(crate) fn refused_claim(call: &'static str, allocation: &Allocation, answer: Answer) -> Failed {
    match answer {
        Answer::Dead => Failed::misuse(call, Misuse::Dead { why: allocation.why_dead() }),
        _ => Failed::misuse(call, Misuse::Busy),
    }
}

/// Waits until a claim that stands in the way of `ask` may be gone.
pub(crate) struct Released<'a> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) ask: Ask,
    pub(crate) pass: Pass,
}

impl Future for Released<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waits = || self.allocation.would(self.ask, self.pass) == Answer::Waits;
        if !waits() {
            return Poll::Ready(());
        }
        let owner = &self.allocation.owner;
        owner.claim_wakers.register(cx.waker());
        self.allocation.claims.wait_for_release();
        // Marks are released by the end of their turn.
        owner.turn.wake_at_end(cx.waker());
        if !HAS_THREADS || waits() { Poll::Pending } else { Poll::Ready(()) }
    }
}
