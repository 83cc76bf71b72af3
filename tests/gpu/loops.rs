//! Programs that make, use and drop for a long time, and wait for nothing.

use crate::found::{open, open_each};
use crate::gate::Gate;
use crate::process::long;
use rig::{Hold, run};
use rig_support::drain;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn s9_3_buffers_made_and_dropped_without_a_wait_hold_one_bin() {
    for d in open_each("made and dropped") {
        for _ in 0..20_000 {
            drop(d.create_buffer(200_000).unwrap());
        }
        let stats = d.stats();
        assert_eq!((stats.actual_count, stats.peak_held_bytes), (1, 212_992));
    }
}

#[test]
fn s9_4_a_buffer_dropped_or_freed_right_after_its_submit_gives_the_right_result() {
    for d in open_each("dropped at once") {
        let out = d.create_buffer(4096).unwrap();
        for round in 0..100_u8 {
            let x = d.create_buffer(4096).unwrap();
            let both = d.prepare().fill(&x, round).copy(&x, &out).build().unwrap();
            both.submit(&[], &[]).unwrap();
            drop(both);
            if round % 2 == 0 {
                x.free().unwrap();
            }
            drop(x);
            let next = d.create_buffer(4096).unwrap();
            d.prepare().fill(&next, 0xFF).build().unwrap().submit(&[], &[]).unwrap();
            let mut seen = [0; 4];
            out.blit_to(4092, &mut seen).unwrap();
            assert_eq!(seen, [round; 4]);
        }
    }
}

#[test]
fn s9_4_a_buffer_dropped_or_freed_before_its_work_ran_gives_the_right_result() {
    for (d, free) in open_each("dropped before").into_iter().zip([true, false].into_iter().cycle())
    {
        let (x, out) = (d.create_buffer(4096).unwrap(), d.create_buffer(4096).unwrap());
        let both = d.prepare().fill(&x, 7).copy(&x, &out).build().unwrap();
        let Some(gate) = Gate::shut(&d) else { return };
        both.submit(&[], &[]).unwrap();
        drop(both);
        if free {
            x.free().unwrap();
        }
        drop(x);
        drain(&d);
        let next = d.create_buffer(4096).unwrap();
        assert_eq!((d.reached(), d.submitted()), (0, 1));
        gate.open();
        next.fill(9).unwrap();
        let mut seen = [[0; 4096]; 2];
        out.blit_to(0, &mut seen[0]).unwrap();
        next.blit_to(0, &mut seen[1]).unwrap();
        assert!(seen[0] == [7; 4096] && seen[1] == [9; 4096]);
    }
}

#[test]
fn s9_15_submissions_that_nobody_waits_for_are_retired_by_themselves() {
    for d in open_each("never waited for") {
        let x = d.create_buffer(4096).unwrap();
        let fill = d.prepare().fill(&x, 1).build().unwrap();
        let (tell, told) = channel();
        for round in 0..10_000 {
            if round % 1_000 < 999 {
                fill.submit(&[], &[]).unwrap();
            } else {
                let tell = tell.clone();
                let hold = Hold::new(move || tell.send(round).unwrap());
                fill.submit_holding(&[], &[], &[&hold]).unwrap();
            }
        }
        drop((fill, x));
        // From here on the program calls nothing, and rig finds out by itself.
        for round in (999..10_000).step_by(1_000) {
            assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(round));
        }
        assert_eq!((d.reached(), d.submitted()), (10_000, 10_000));
    }
}

/// When a frame reclaims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reclaim {
    BeforeSubmit,
    AfterSubmit,
}

#[test]
fn s9_2_a_frame_that_reclaims_before_or_after_its_submit_holds_the_same() {
    let Some(d) = open("frames") else { return };
    let target = d.create_buffer(4096).unwrap();
    let draw = d.prepare().copy(run(0), &target).build().unwrap();
    let frame = |when: Reclaim, shade: u8| {
        let vertices = d.create_buffer(4096).unwrap();
        vertices.blit_from(0, &[shade; 4096]).unwrap();
        if when == Reclaim::BeforeSubmit {
            d.trim().unwrap();
        }
        draw.submit(&[&vertices], &[]).unwrap();
        drop(vertices);
        if when == Reclaim::AfterSubmit {
            d.trim().unwrap();
        }
        d.held()
    };
    let frames = long(2_000, 10_000);
    for when in [Reclaim::BeforeSubmit, Reclaim::AfterSubmit] {
        let held: Vec<u64> = (0..frames).map(|at| frame(when, at as u8)).collect();
        // The target, and one frame's vertices: from the first frame on, in either order.
        assert!(held.iter().all(|held| *held == 2 * 4096), "{when:?}: {:?}", held.iter().max());
        let mut seen = [0; 1];
        target.blit_to(4095, &mut seen).unwrap();
        assert_eq!(seen, [(frames - 1) as u8]);
    }
    assert_eq!(d.stats().peak_held_bytes, 2 * 4096);
}

#[test]
fn s0_6_the_async_forms_end_without_a_thread_that_blocks() {
    let Some(d) = open("async") else { return };
    let woken = crate::bench::Woken::new();
    let waker = woken.waker();
    let mut context = std::task::Context::from_waker(&waker);
    let mut copies = std::pin::pin!(async {
        let x = d.create_buffer_async(5_000_000).await?;
        let y = d.create_buffer_async(5_000_000).await?;
        x.blit_from_async(1, &[7; 4_999_999]).await?;
        rig::copy_async(&x, &y).await?;
        let mut out = vec![0; 4_999_999];
        y.blit_to_async(1, &mut out).await?;
        rig::Result::Ok(out)
    });
    let begun = std::time::Instant::now();
    let mut seen = 0;
    let out = loop {
        if let std::task::Poll::Ready(out) = copies.as_mut().poll(&mut context) {
            break out.unwrap();
        }
        // Polled again only once it is woken: nobody else runs it.
        while woken.count() == seen {
            assert!(begun.elapsed() < Duration::from_secs(60), "it was not woken");
            std::thread::yield_now();
        }
        seen = woken.count();
    };
    assert!(out.iter().all(|byte| *byte == 7));
}
