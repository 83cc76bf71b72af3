//! The instance: its start, its turns, and the engine's collector of garbage.

use crate::driver::{SERVICE, Told, wake};
use crate::named::{NAMED, web};
use crate::page;
use crate::task;
use rig::Pressure;
use rig::embed::{self, Settings};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Gets ready; called once, before anything else. The settings are those of S11.6.
#[unsafe(no_mangle)]
extern "C" fn start(managed_pool: u32, trace_pool: u32) {
    let flags = (managed_pool != 0, trace_pool != 0);
    embed::set_settings(Settings { managed_pool: flags.0, trace_pool: flags.1 });
    rig::set_clock(page::now_ns);
    rig::bytes::set_arrays(page::ARRAYS);
    embed::set_pressure(Engine);
    embed::set_poked(|| {
        if !is_soon() {
            page::wants_pump();
        }
    });
    NAMED.with_borrow_mut(|named| named.devices.push(rig::host()));
}

/// The engine's collector of garbage, whose turns the page takes.
struct Engine;

thread_local! {
    static TURN: RefCell<Turn> = const { RefCell::new(Turn::new()) };
}

/// The turn in progress, and the one before it. Who comes meanwhile waits for the same turn.
struct Turn {
    /// Whether another turn may help after the one in progress, if one is.
    running: Option<bool>,
    /// The round that turns are taken for.
    round: u64,
    /// Who waits for its end, and who does to begin a round that presses harder.
    waiting: Vec<Waker>,
    harder: Vec<Waker>,
    /// The answer of the one before, and who has not taken it yet.
    more: bool,
    woken: Vec<Waker>,
}

impl Turn {
    const fn new() -> Self {
        Self {
            running: None,
            round: 0,
            waiting: Vec::new(),
            harder: Vec::new(),
            more: false,
            woken: Vec::new(),
        }
    }
}

impl Pressure for Engine {
    fn poll_turn(&self, round: u64, turn: u64, cx: &mut Context<'_>) -> Poll<bool> {
        // What calls in progress hold comes back by itself.
        if turn == 0 && task::waits_for_moves(cx.waker()) {
            return Poll::Pending;
        }
        let is_own = |waker: &Waker| waker.will_wake(cx.waker());
        TURN.with_borrow_mut(|at| {
            if let Some(place) = at.woken.iter().position(is_own) {
                at.woken.swap_remove(place);
                return Poll::Ready(at.more);
            }
            if at.running.is_none() {
                at.round = if turn == 0 { round } else { at.round };
                at.running = Some(page::collects(round, turn));
            }
            let is_harder = turn == 0 && round > at.round;
            let list = if is_harder { &mut at.harder } else { &mut at.waiting };
            if !list.iter().any(is_own) {
                list.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// Ends the turn of the collector that is in progress, for all who wait.
#[unsafe(no_mangle)]
extern "C" fn turn_over() {
    TURN.with_borrow_mut(|at| {
        let Some(more) = at.running.take() else { return };
        at.more = more;
        at.woken = std::mem::take(&mut at.waiting);
        // Waking only lists who is polled next.
        at.woken.iter().for_each(Waker::wake_by_ref);
        wake(std::mem::take(&mut at.harder));
    });
}

/// Polls what was woken, does the maintenance if its time has come or somebody asks for it, and
/// answers in how many milliseconds the next is; -1 if that is as it was, or never.
#[unsafe(no_mangle)]
extern "C" fn pump(is_due: u32) -> f64 {
    task::pump();
    let mut next = -1.0;
    let mut is_due = is_due != 0;
    for _ in 0..PASSES_MAX {
        // Most calls leave nothing to look after, or what the next maintenance sees to soon.
        let is_poked = embed::take_poke() && !is_soon();
        if !(is_poked | std::mem::take(&mut is_due)) {
            break;
        }
        let wait = embed::pass();
        NEXT_NS.set(wait.map_or(0, |wait| page::now_ns() + wait.as_nanos() as u64));
        next = page::in_ms(wait);
        task::pump();
    }
    next
}

/// Whether the next maintenance is as near as the first look at a new wait has to be. One that is
/// late may be a timer that a page in the background gets late.
fn is_soon() -> bool {
    let (next, now) = (NEXT_NS.get(), page::now_ns());
    now <= next && next <= now + SERVICE.as_nanos() as u64
}

/// Takes what the page tells of a GPU device, and wakes who waits for something of it; a loss is
/// told at once.
#[unsafe(no_mangle)]
extern "C" fn gpu_woke(gpu: u32, reached: f64, is_lost: u32, has_rejected: u32) {
    let found = NAMED.with_borrow(|named| {
        named.devices.iter().find(|device| web(device).is_some_and(|web| web.gpu() == gpu)).cloned()
    });
    let Some(device) = found else { return };
    let Some(web) = web(&device) else { return };
    let (is_lost, has_rejected) = (is_lost != 0, has_rejected != 0);
    web.tell(Told { reached: reached as u64, is_lost, has_rejected });
    if is_lost {
        device.device_lost(&page::text(gpu, page::About::Loss, 0.0));
    }
    web.wake_all();
}

/// Gives up the wait of a ticket. What it handed over runs on.
#[unsafe(no_mangle)]
extern "C" fn cancel(ticket: f64) {
    task::cancel(ticket);
}

thread_local! {
    /// When the maintenance that was asked for last is due; 0 for none.
    static NEXT_NS: Cell<u64> = const { Cell::new(0) };
}

/// The wakers of one pass may make another due; what is left comes with the next timer.
const PASSES_MAX: u32 = 2;
