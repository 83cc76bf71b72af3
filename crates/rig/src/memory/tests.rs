//! Promises of the host's accesses, small enough for a checker of memory: every way to bytes in
//! place, alone and beside others.

use crate::borrow::borrow;
use crate::buffer::Buffer;
use crate::device::host;
use crate::error::Outcome;
use crate::hold::Hold;
use crate::life;
use crate::memory::function;
use crate::wrap::{wrap, wrap_shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

/// Writes in place and by bytes, and reads both back; whole, in part, and typed.
fn goes_there_and_back(buffer: &Buffer) -> Outcome<()> {
    buffer.write(|bytes| bytes.fill(1))?;
    buffer.write_as::<u32, _>(|words| words[1] = 7)?;
    let part = buffer.view(4, 5)?;
    assert_eq!(part.read(<[u8]>::to_vec)?, [7, 0, 0, 0, 1]);
    buffer.blit_from(3, &[9; 3])?;
    let mut seen = [0; 8];
    buffer.blit_to(0, &mut seen)?;
    assert_eq!(seen, [1, 1, 1, 9, 9, 9, 0, 0]);
    let export = part.export()?;
    part.fill(5)?;
    let mut out = [0; 5];
    export.copy_out(0, &mut out)?;
    assert_eq!(out, [5; 5]);
    Ok(())
}

#[test]
fn s6_1_the_host_reads_and_writes_in_place_whatever_memory_it_addresses() {
    goes_there_and_back(&host().create_buffer(64).unwrap()).unwrap();
    goes_there_and_back(&wrap(vec![0_u64; 8])).unwrap();
    let device = crate::memory::open("s6_1 in place").unwrap();
    goes_there_and_back(&device.create_buffer(64).unwrap()).unwrap();
    device.close().unwrap();
}

#[test]
fn s9_5_what_a_drain_had_in_its_hands_at_a_loss_enters_no_cache() {
    let device = crate::memory::open("s9_5 in hands").unwrap();
    let owner = &device.owner;
    let buffer = device.create_buffer(4096).unwrap();
    let record = Arc::clone(buffer.at.record());
    thread::scope(|threads| {
        let heap = owner.heap.lock();
        drop(buffer);
        let draining = threads.spawn(|| life::drain(owner));
        // It waits for the heap soon after that.
        while !record.is_returning() {
            thread::yield_now();
        }
        (0..100).for_each(|_| thread::yield_now());
        assert!(owner.track.lose(&Arc::from("unplugged")));
        owner.track.settle();
        drop(heap);
        draining.join().unwrap();
    });
    assert_eq!((device.cached(), device.held()), (0, 0));
}

#[test]
fn s4_4_wrapped_memory_of_every_form_is_reached_in_place_and_returned() {
    goes_there_and_back(&wrap(vec![0_u64; 4].into_boxed_slice())).unwrap();

    let shared: Arc<[u32]> = Arc::from([1, 2, 3]);
    let buffer = wrap_shared(Arc::clone(&shared));
    let other = buffer.view(4, 4).unwrap();
    let both = buffer.read_as(|whole: &[u32]| {
        let part = other.read_as(|part: &[u32]| part[0]).unwrap();
        (whole[1], part, shared[1])
    });
    assert_eq!(both.unwrap(), (2, 2, 2));
    assert!(buffer.write(|_| ()).is_err());
}

#[test]
fn s5_1_readers_see_the_bytes_together_and_a_writer_has_them_alone() {
    let buffer = host().create_buffer(32).unwrap();
    buffer.write(|bytes| bytes.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n)).unwrap();
    let (low, high) = (buffer.view(0, 16).unwrap(), buffer.view(8, 24).unwrap());
    let sum = buffer.read(|whole| {
        thread::scope(|threads| {
            let other = threads.spawn(|| low.read(|low| u32::from(low[15])).unwrap());
            let nested = high.read(|high| u32::from(high[0]) + u32::from(whole[8])).unwrap();
            nested + other.join().unwrap()
        })
    });
    assert_eq!(sum.unwrap(), 9 + 9 + 16);
    buffer
        .write(|bytes| {
            assert!(low.read(|_| ()).is_err() && high.fill(0).is_err());
            bytes[0] = 40;
        })
        .unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| low.write(|_| panic!("in a closure"))));
    assert!(panicked.is_err());
    assert_eq!(low.read(|bytes| bytes[0]).unwrap(), 40);
}

#[test]
fn s4_3_a_borrow_and_its_buffer_are_the_same_bytes_for_kernels_and_host() {
    let device = crate::memory::open("s4_3 borrowed in place").unwrap();
    let buffer = host().create_buffer(64).unwrap();
    let there = borrow(&device, &buffer).unwrap().expect("the host's bytes are the device's");
    buffer.fill(3).unwrap();
    let add = function("add", |call| {
        let mut more = [0; 7];
        call.read(0, 0, &mut more);
        call.update::<u8>(1, |bytes| bytes.iter_mut().zip(more).for_each(|(to, by)| *to += by));
    });
    let kernel = device.kernel(add).unwrap();
    let (low, high) = (there.view(1, 7).unwrap(), there.view(33, 7).unwrap());
    let released = Arc::new(());
    let hold = Hold::keep(Arc::clone(&released));
    let work = device.prepare().launch(&kernel, [1; 3]).reads(&low).writes(&high).build().unwrap();
    work.submit_holding(&[], &[], &[&hold]).unwrap();
    crate::copy(&high, &buffer.view(50, 7).unwrap()).unwrap();
    let seen = buffer.read(|bytes| (bytes[32], bytes[33], bytes[39], bytes[40], bytes[56]));
    assert_eq!(seen.unwrap(), (3, 6, 6, 3, 6));
    drop((work, there, low, high, buffer));
    device.create_buffer(4).unwrap();
    assert_eq!(Arc::strong_count(&released), 1);
    device.close().unwrap();
}

#[test]
fn s9_1_memory_that_comes_back_serves_in_place_again() {
    let device = crate::memory::open("s9_1 in place again").unwrap();
    let at = |buffer: &Buffer| buffer.read(|bytes| bytes.as_ptr().addr()).unwrap();
    let first = device.create_buffer(4096).unwrap();
    first.fill(1).unwrap();
    let place = at(&first);
    thread::scope(|threads| threads.spawn(move || drop(first)).join().unwrap());
    let second = device.create_buffer(4096).unwrap();
    assert_eq!(at(&second), place);
    goes_there_and_back(&second).unwrap();
    second.read(|bytes| assert_eq!(bytes.len(), 4096)).unwrap();
    device.close().unwrap();
}

#[test]
fn s4_12_a_kept_read_keeps_the_memory_after_the_last_handle() {
    let device = crate::memory::open("claimed").unwrap();
    let buffer = device.create_buffer(4_096).unwrap();
    let claims = [buffer.claim_read().unwrap(), buffer.claim_read().unwrap()];
    let live_bytes = || {
        life::drain(&device.owner);
        device.stats().live_bytes
    };
    drop(buffer);
    for claim in claims {
        assert_eq!([live_bytes(), live_bytes()], [4_096; 2]);
        drop(claim);
    }
    assert_eq!(live_bytes(), 0);
    assert_eq!(device.stats().cached_bytes, 4_096);
}

#[test]
fn s4_12_threads_that_drop_the_handle_and_kept_reads_and_drain_lose_nothing() {
    let device = crate::memory::open("claimed by threads").unwrap();
    for _ in 0..if cfg!(miri) { 5 } else { 2_000 } {
        let buffer = device.create_buffer(4_096).unwrap();
        let claims = [buffer.claim_read().unwrap(), buffer.claim_read().unwrap()];
        thread::scope(|threads| {
            claims.into_iter().for_each(|claim| {
                threads.spawn(move || drop(claim));
            });
            threads.spawn(move || drop(buffer));
            life::drain(&device.owner);
        });
    }
    life::drain(&device.owner);
    let stats = device.stats();
    assert_eq!((stats.live_bytes, stats.held_bytes), (0, stats.cached_bytes));
}
