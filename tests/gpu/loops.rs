//! Programs that make, use and drop for a long time, and wait for nothing.

use crate::found::open;
use rig::driver::Addressed;
use rig::{Device, wrap};

#[test]
fn s9_3_buffers_made_and_dropped_without_a_wait_hold_one_bin() {
    let Some(d) = open("made and dropped") else { return };
    assert_eq!(d.facts().addressed, Addressed::Never);
    for _ in 0..20_000 {
        drop(d.create_buffer(200_000).unwrap());
    }
    assert_eq!(d.stats().actual_count, 1);
    assert!(d.held() <= 225_000, "{} are held", d.held());
}

#[test]
fn s9_4_a_buffer_dropped_or_freed_right_after_its_submit_gives_the_right_result() {
    let Some(d) = open("dropped at once") else { return };
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

#[test]
fn s7_5_uploads_without_a_wait_stay_within_the_halves() {
    let Some(d) = open("uploads") else { return };
    let x = d.create_buffer(4096).unwrap();
    for round in 0..2_000_u32 {
        x.blit_from(0, &round.to_ne_bytes()).unwrap();
    }
    let made = d.stats().actual_count;
    assert!(made <= 1 + 4, "{made} allocations");
    let mut last = [0; 4];
    x.blit_to(0, &mut last).unwrap();
    assert_eq!(u32::from_ne_bytes(last), 1_999);
}

#[test]
fn s2_6_submissions_that_nobody_waits_for_are_retired_by_themselves() {
    let Some(d) = open("never waited for") else { return };
    let x = d.create_buffer(4096).unwrap();
    let fill = d.prepare().fill(&x, 1).build().unwrap();
    let mut greatest = 0;
    for _ in 0..10_000 {
        let point = fill.submit(&[], &[]).unwrap();
        greatest = greatest.max(point.value() - d.reached());
    }
    drop((fill, x));
    wait_until_reached(&d);
    assert!(greatest < 10_000, "{greatest} were unreached at once");
}

fn wait_until_reached(d: &Device) {
    d.wait(d.submitted()).unwrap();
}

#[test]
fn s9_2_a_frame_that_reclaims_before_or_after_its_submit_holds_the_same() {
    let Some(d) = open("frames") else { return };
    let target = d.create_buffer(4096).unwrap();
    let frame = |first: bool| {
        let vertices = d.create_buffer(4096).unwrap();
        rig::copy(&wrap(vec![3_u8; 4096]), &vertices).unwrap();
        if first {
            d.trim().unwrap();
        }
        let draw = d.prepare().copy(&vertices, &target).build().unwrap();
        draw.submit(&[], &[]).unwrap();
        drop((draw, vertices));
        if !first {
            d.trim().unwrap();
        }
        d.held()
    };
    let held: Vec<_> = [true, false].map(|first| (0..500).map(|_| frame(first)).max()).into();
    assert_eq!(held[0], held[1]);
    assert!(held[0] <= Some(3 * 4096), "{held:?}");
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
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it was not woken");
            std::thread::yield_now();
        }
        seen = woken.count();
    };
    assert!(out.iter().all(|byte| *byte == 7));
}
