//! Futures, polled when the page says so, each with the ticket of a promise.
//!
//! A task is polled once when it starts, and again in a [`pump`] after its waker was woken. Its end
//! settles its ticket; the page resolves the promise after the call that settled it has returned.

use crate::driver::wake;
use crate::named::told;
use crate::page;
use crate::table::Table;
use crate::told::say_error;
use rig::embed::Outcome;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = Outcome<()>>>>;

/// A future with what wakes it, which is the same as long as it lives.
struct Running {
    task: Task,
    woken: Arc<Woken>,
    waker: Waker,
}

/// A task that has not ended; it runs nowhere while it is polled.
struct Started {
    ticket: f64,
    is_move: bool,
    running: Option<Running>,
}

/// Starts a future whose end settles a ticket, with the number of [`answer`] or 0.
pub(crate) fn start(ticket: f64, future: impl Future<Output = Outcome<()>> + 'static) {
    start_boxed(ticket, false, Box::pin(future));
}

/// Starts a future like [`start`] that moves bytes of buffers, and ends once their work does.
pub(crate) fn start_move(ticket: f64, future: impl Future<Output = Outcome<()>> + 'static) {
    start_boxed(ticket, true, Box::pin(future));
}

fn start_boxed(ticket: f64, is_move: bool, task: Task) {
    if let Some(ended) = begin(ticket, is_move, task) {
        settle(ticket, ended);
    }
}

/// Starts a future that usually ends at once, whose answer is returned then; else 0, and the answer
/// settles the ticket.
pub(crate) fn start_now(ticket: f64, future: impl Future<Output = Outcome<()>> + 'static) -> f64 {
    match begin(ticket, false, Box::pin(future)) {
        Some(ended) => told(ended, |()| ANSWER.take()),
        None => 0.0,
    }
}

/// Sets the number with which the task that is polled settles its ticket; it ends next.
pub(crate) fn answer(number: f64) {
    ANSWER.set(number);
}

/// Whether the task that is polled, itself no move, has to wait for a move that began before it,
/// whose end wakes it.
pub(crate) fn waits_for_moves(waker: &Waker) -> bool {
    let has_to = TASKS.with_borrow(|tasks| {
        let own = tasks.find(POLLED.get()).filter(|own| !own.is_move)?;
        tasks.number(|other| other.is_move && other.ticket < own.ticket)
    });
    if has_to.is_some() {
        ENDS.with_borrow_mut(|waiting| waiting.push(waker.clone()));
    }
    has_to.is_some()
}

fn begin(ticket: f64, is_move: bool, task: Task) -> Option<Outcome<()>> {
    // Owned by nobody while it is polled: what it calls may start others.
    let started = Started { ticket, is_move, running: None };
    let number = TASKS.with_borrow_mut(|tasks| tasks.insert(started));
    let woken = Arc::new(Woken { number, is_listed: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&woken));
    poll(number, Running { task, woken, waker })
}

/// Settles a ticket.
pub(crate) fn settle(ticket: f64, ended: Outcome<()>) {
    match ended {
        Ok(()) => page::settle(ticket, ANSWER.take()),
        Err(error) => {
            say_error(&error);
            page::settle_error(ticket);
        }
    }
}

/// Drops the future of a ticket, if it has not ended: its wait is given up.
pub(crate) fn cancel(ticket: f64) {
    let number = TASKS.with_borrow(|tasks| tasks.number(|started| started.ticket == ticket));
    number.into_iter().for_each(end);
}

/// Drops a task, and wakes who waits for the end of some.
fn end(number: f64) {
    drop(TASKS.with_borrow_mut(|tasks| tasks.remove(number)));
    wake(ENDS.take());
}

/// Polls a future once; answers none if it has to wait, in which case nothing was done.
pub(crate) fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Polls what was woken, until nothing is.
pub(crate) fn pump() {
    for _ in 0..ROUNDS_MAX {
        let woken = WOKEN.take();
        if woken.is_empty() {
            return;
        }
        for number in woken {
            let take = |tasks: &mut Table<Started>| {
                let started = tasks.find_mut(number)?;
                Some((started.ticket, started.running.take()?))
            };
            if let Some((ticket, running)) = TASKS.with_borrow_mut(take) {
                running.woken.is_listed.store(false, Ordering::Relaxed);
                if let Some(ended) = poll(number, running) {
                    settle(ticket, ended);
                }
            }
        }
    }
    page::wants_pump();
}

/// Polls a task; answers what it ends with.
fn poll(number: f64, mut running: Running) -> Option<Outcome<()>> {
    let outer = POLLED.replace(number);
    let polled = running.task.as_mut().poll(&mut Context::from_waker(&running.waker));
    POLLED.set(outer);
    match polled {
        Poll::Ready(ended) => {
            end(number);
            Some(ended)
        }
        Poll::Pending => TASKS.with_borrow_mut(|tasks| {
            if let Some(started) = tasks.find_mut(number) {
                started.running = Some(running);
            }
            None
        }),
    }
}

struct Woken {
    number: f64,
    /// Whether it is in the list of those to be polled.
    is_listed: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_listed.swap(true, Ordering::Relaxed) {
            let is_first = WOKEN.with_borrow_mut(|woken| {
                woken.push(self.number);
                woken.len() == 1
            });
            // The others are polled with it.
            if is_first {
                page::wants_pump();
            }
        }
    }
}

/// A task that always wakes another lets the page go on now and then.
const ROUNDS_MAX: u32 = 1_000;

thread_local! {
    static TASKS: RefCell<Table<Started>> = const { RefCell::new(Table::new()) };
    /// The task that is polled; 0 for none.
    static POLLED: Cell<f64> = const { Cell::new(0.0) };
    /// What the task that ends answers.
    static ANSWER: Cell<f64> = const { Cell::new(0.0) };
    /// Who waits for the end of tasks.
    static ENDS: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
    static WOKEN: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}
