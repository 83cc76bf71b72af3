//! Lifetimes across devices and threads: the promises of S15 under that name.

use crate::bench::{bytes_of, own_halves};
use rig::{copy, host, memory};
use rig_support::{Call, Known, Script, double, drain};
use std::sync::mpsc;

const LEN: u64 = 64 << 10;

#[test]
fn s15_lifetime_memory_dropped_under_long_work_is_reused_by_its_device_in_queue_order() {
    let d = own_halves(Script::new("s15 life order")).open();
    let kernel = double(&d);
    let x = d.create_buffer(LEN).unwrap();
    x.blit_from(0, &1.0_f32.to_le_bytes().repeat(LEN as usize / 4)).unwrap();
    let kept = d.create_buffer(LEN).unwrap();
    let long = d.prepare().launch(&kernel, [1; 3]).writes(&x).copy(&x, &kept).after(0);
    let at = long.build().unwrap().submit(&[], &[]).unwrap();
    drop(x);
    let next = d.create_buffer(LEN).unwrap();
    assert_eq!((d.stats().kind_counts[0], at.is_reached()), (1, false));
    let fill = d.prepare().fill(&next, 9).build().unwrap();
    fill.submit(&[], &[]).unwrap().wait().unwrap();
    assert_eq!(bytes_of(&kept)[..4], 2.0_f32.to_le_bytes(), "the long work saw its own bytes");
    assert_eq!(bytes_of(&next), vec![9; LEN as usize]);
}

#[test]
fn s15_lifetime_memory_under_work_serves_no_other_device() {
    let d = Script::new("s15 life d").open();
    let e = Script::new("s15 life e").peers(Known::Scripted).open();
    let x = d.create_buffer(LEN).unwrap();
    d.prepare().fill(&x, 1).build().unwrap().submit(&[], &[]).unwrap();
    drop(x);
    let next = d.create_buffer(LEN).unwrap();
    let borrow = next.borrow(&e).unwrap().unwrap();
    e.prepare().writes(&borrow).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!(e.control.run_all(), 0, "it waits for d:1");
    d.wait(1).unwrap();
    assert_eq!(e.control.run_all(), 1);
}

#[test]
fn s15_lifetime_what_a_thread_dropped_comes_back_though_it_then_blocks() {
    let m = memory::open("s15 life blocks").unwrap();
    m.set_budget(LEN).unwrap();
    let x = m.create_buffer(LEN).unwrap();
    let (dropped, was_dropped) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            drop(x);
            dropped.send(()).unwrap();
            let _ = gone.recv();
        });
        was_dropped.recv().unwrap();
        m.create_buffer(LEN).unwrap();
        drop(go);
    });
    m.close().unwrap();
}

#[test]
fn s15_lifetime_10_000_creates_and_drops_without_a_wait_hold_one_bin() {
    let d = own_halves(Script::new("s15 life often")).silent().open();
    for _ in 0..10_000 {
        let x = d.create_buffer(LEN).unwrap();
        d.prepare().fill(&x, 1).build().unwrap().submit(&[], &[]).unwrap();
    }
    assert_eq!(d.control.count(Call::Block), 0);
    // The tick may be taking the last one back at any moment: then one more is made.
    assert!(d.control.bytes_peak() <= 2 * LEN, "{} bytes", d.control.bytes_peak());
}

#[test]
fn s15_lifetime_the_device_value_may_go_first() {
    let m = memory::open("s15 life device").unwrap();
    let x = m.create_buffer(LEN).unwrap();
    let work = m.prepare().fill(&x, 4).build().unwrap();
    drop(m);
    work.submit(&[], &[]).unwrap().wait().unwrap();
    let h = host().create_buffer(LEN).unwrap();
    copy(&x, &h).unwrap();
    assert_eq!(bytes_of(&h), vec![4; LEN as usize]);
    let m = x.device();
    drop((x, work));
    drain(&m);
    assert_eq!(m.cached(), LEN);
    m.close().unwrap();
}
