//! What an embedder does for the library (`rig::embed`). Its collector of garbage is set once in a
//! process, so this is a binary of its own.

#![cfg(test)]

use rig::bytes::HostMemory;
use rig::driver::{Access, Region};
use rig::embed::{InPlace, Submission, blit, end, pass, set_pressure, wrap, wrap_region};
use rig::{Buffer, Device, Error, Misuse, Pressure, Use, host, memory, wrap_shared};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Garbage of the embedder's: one buffer is let go in each turn. The tests share it.
#[derive(Default)]
struct Garbage {
    buffers: VecDeque<Buffer>,
    turns: Vec<(u64, u64)>,
}

/// Guards the garbage.
static GARBAGE: LazyLock<Arc<Mutex<Garbage>>> = LazyLock::new(|| {
    let garbage = Arc::new(Mutex::new(Garbage::default()));
    set_pressure(Turns(Arc::clone(&garbage)));
    garbage
});

/// Guards the garbage, which is dropped while it is not held.
struct Turns(Arc<Mutex<Garbage>>);

impl Pressure for Turns {
    fn poll_turn(&self, round: u64, turn: u64, _: &mut Context<'_>) -> Poll<bool> {
        let mut garbage = self.0.lock().unwrap();
        garbage.turns.push((round, turn));
        let gone = garbage.buffers.pop_front();
        let more = !garbage.buffers.is_empty();
        drop(garbage);
        drop(gone);
        Poll::Ready(more)
    }
}

/// Polls a future that has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn s10_9_rounds_two_and_three_take_turns_until_the_try_can_be_served() {
    let m = memory::open("turns").unwrap();
    m.set_budget(4 << 20).unwrap();
    let mine: Vec<_> = (0..4).map(|_| m.create_buffer(1 << 20).unwrap()).collect();
    GARBAGE.lock().unwrap().buffers.extend(mine);
    let served = m.create_buffer(3 << 20).unwrap();
    let turns = std::mem::take(&mut GARBAGE.lock().unwrap().turns);
    assert_eq!(turns, [(2, 0), (2, 1), (2, 2)], "the fourth is not asked for");
    GARBAGE.lock().unwrap().buffers.clear();
    drop(served);
    // Without garbage, each of the two rounds takes one turn.
    let full = m.create_buffer(4 << 20).unwrap();
    let refused = m.create_buffer(1 << 20);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
    assert_eq!(std::mem::take(&mut GARBAGE.lock().unwrap().turns), [(2, 0), (3, 0)]);
    drop(full);
}

#[test]
fn s5_1_an_access_in_place_is_a_running_closure_until_it_is_dropped() {
    let x = host().create_buffer(8).unwrap();
    let access = now(InPlace::begin(&x, Use::Write)).unwrap();
    assert_eq!(access.bytes().len_bytes(), 8);
    access.bytes().copy_in(0, &[7; 8]);
    for refused in [x.read(|_| ()).unwrap_err(), x.free().unwrap_err()] {
        assert_eq!(refused.misuse(), Some(&Misuse::Busy));
    }
    drop(access);
    assert_eq!(x.read(|bytes| bytes[7]).unwrap(), 7);
}

#[test]
fn s6_6_bytes_of_the_embedder_are_blitted_like_slices() {
    let m = memory::open("blits of the embedder").unwrap();
    for device in [host(), m.clone()] {
        let x = device.create_buffer(9).unwrap();
        x.fill(1).unwrap();
        let memory = HostMemory::zeroed(5, 1).unwrap();
        memory.bytes().copy_in(0, &[7, 8, 9, 10, 11]);
        now(blit(&x, 3, memory.bytes(), Use::Write)).unwrap();
        assert_eq!(x.read(<[u8]>::to_vec).unwrap(), [1, 1, 1, 7, 8, 9, 10, 11, 1]);
        now(blit(&x, 1, memory.bytes(), Use::Read)).unwrap();
        let mut found = [0; 5];
        memory.bytes().copy_out(0, &mut found);
        assert_eq!(found, [1, 1, 7, 8, 9]);
        let past = now(blit(&x, 5, memory.bytes(), Use::Read)).unwrap_err();
        let wanted = Misuse::OutOfRange { end_bytes: 10, len_bytes: 9 };
        assert_eq!(past.misuse(), Some(&wanted));
        x.free().unwrap();
        let dead = now(blit(&x, 0, memory.bytes(), Use::Write)).unwrap_err();
        assert!(matches!(dead.misuse(), Some(Misuse::Dead { .. })));
    }
    let x = wrap_shared(&[1_u8, 2][..]);
    let refused = now(blit(&x, 0, HostMemory::zeroed(2, 1).unwrap().bytes(), Use::Write));
    assert_eq!(refused.unwrap_err().misuse(), Some(&Misuse::ReadOnly));
}

#[test]
fn s4_4_memory_of_the_embedder_is_wrapped_and_its_keeper_dropped_after_it() {
    let own = host().create_buffer(8).unwrap();
    let bytes = now(InPlace::begin(&own, Use::Read)).unwrap().bytes();
    let (keeper, kept) = (Arc::new(own), Arc::new(()));
    let held = host().held();
    let x = wrap(bytes, (Arc::clone(&keeper), Arc::clone(&kept)));
    assert_eq!((x.len(), host().held()), (8, held));
    x.fill(3).unwrap();
    assert_eq!(keeper.read(|bytes| bytes[0]).unwrap(), 3);
    x.free().unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn s4_14_an_embedder_ends_buffers_with_a_reason_of_its_own() {
    let x = host().create_buffer(8).unwrap();
    let view = x.view(4, 4).unwrap();
    let claim = x.claim_read().unwrap();
    let refused = end(&x, "taken away").unwrap_err();
    assert_eq!((refused.misuse(), x.dead()), (Some(&Misuse::Busy), None));
    drop(claim);
    end(&view, "taken away").unwrap();
    for buffer in [&x, &view] {
        assert_eq!(buffer.dead().as_deref(), Some("taken away"));
    }
    let again = end(&x, "again").unwrap_err();
    assert_eq!(again.misuse(), Some(&Misuse::Dead { why: "taken away".into() }));
    assert_eq!(x.dead().as_deref(), Some("taken away"));
}

#[test]
fn s12_1_a_region_is_wrapped_on_a_device_that_lives() {
    let m = memory::open("regions").unwrap();
    m.close().unwrap();
    let refused = wrap_region(&m, Region::default(), 8).unwrap_err();
    assert!(matches!(*refused, Error::Lost { .. }));
}

#[test]
fn s9_15_a_pass_lets_go_of_a_closed_device_that_nobody_names() {
    let m = memory::open("forgotten").unwrap();
    let driver = Arc::downgrade(m.driver());
    m.close().unwrap();
    drop(m);
    let began = Instant::now();
    // The library's own thread may name it for a moment.
    while driver.strong_count() > 0 {
        pass();
        assert!(began.elapsed() < Duration::from_secs(10), "it is named still");
    }
}

#[test]
fn s8_6_what_an_embedder_submits_takes_a_value_and_stamps_its_buffers() {
    let m = memory::open("submitted at once").unwrap();
    let [x, y] = [m.create_buffer(8).unwrap(), m.create_buffer(8).unwrap()];
    let uses = [(x.clone(), Access::Read), (y.clone(), Access::Write)];
    let work = |waits| Submission { device: m.clone(), native: None, uses: uses.to_vec(), waits };
    let point = now(work(vec![]).submit()).unwrap();
    assert_eq!((point.value(), m.submitted()), (1, 1));
    assert_eq!((x.stamps().write, x.stamps().uses), (None, vec![point]));
    assert_eq!(y.stamps().write, Some(point));
    let ahead = now(work(vec![(m.clone(), 2)]).submit());
    assert_eq!(ahead.unwrap_err().misuse().map(Misuse::name), Some("NotSubmitted"));
    assert_eq!(m.submitted(), 1);
}

#[test]
fn s8_4_what_an_embedder_may_not_submit_takes_no_value() {
    let [m, other] = ["refused at once", "another"].map(|name| memory::open(name).unwrap());
    let [dead, foreign] = [m.create_buffer(8).unwrap(), other.create_buffer(8).unwrap()];
    dead.free().unwrap();
    let read_only = wrap_shared(Arc::<[u8]>::from(vec![0; 8]));
    let work = |device: &Device, uses| {
        let work = Submission { device: device.clone(), native: None, uses, waits: vec![] };
        now(work.submit()).unwrap_err()
    };
    let dead = work(&m, vec![(dead, Access::Read)]);
    assert_eq!(dead.misuse().map(Misuse::name), Some("Dead"));
    let foreign = work(&m, vec![(foreign, Access::Read)]);
    assert_eq!(foreign.misuse().map(Misuse::name), Some("WrongDevice"));
    let refused = work(&host(), vec![(read_only, Access::Write)]);
    assert!(matches!(*refused, Error::Unsupported { .. }));
    m.close().unwrap();
    let refused = work(&m, vec![]);
    assert!(matches!(*refused, Error::Lost { .. }));
    assert_eq!((m.submitted(), other.submitted()), (0, 0));
}

#[test]
fn s9_15_a_pass_says_when_the_next_is_due() {
    let m = memory::open("passes").unwrap();
    let x = m.create_buffer(8).unwrap();
    assert!(pass().is_some_and(|next| next.as_secs() < 6));
    drop(x);
}
