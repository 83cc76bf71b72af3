//! Stamps (S3), but for the table of S3.7, which has a file of its own.

use crate::bench::{lost, misuse, own_halves};
use rig::driver::Addressed;
use rig::{Buffer, Misuse, Point, Stamps, Use, copy, host};
use rig_support::{Answer, Call, Known, Opened, Script, double, drain, point};

/// The bytes of a buffer that any device maps.
const LEN: u64 = 64 << 10;

fn submit(work: rig::Builder) -> Point {
    work.build().unwrap().submit(&[], &[]).unwrap()
}

fn reads(device: &Opened, buffer: &Buffer) -> Point {
    submit(device.prepare().reads(buffer))
}

fn writes(device: &Opened, buffer: &Buffer) -> Point {
    submit(device.prepare().writes(buffer))
}

fn stamped(write: Option<Point>, uses: &[Point]) -> Stamps {
    Stamps { write, uses: uses.to_vec() }
}

#[test]
fn s3_1_all_buffers_of_an_allocation_share_one_record() {
    let d = Script::new("s3_1").open();
    let h = host().create_buffer(LEN).unwrap();
    let borrow = h.borrow(&d).unwrap().expect("d maps host memory");
    let at = writes(&d, &borrow.view(8, 8).unwrap());
    let expected = stamped(Some(at), &[at]);
    for buffer in [&h, &h.clone(), &h.view(100, 1).unwrap(), &borrow] {
        assert_eq!(buffer.stamps(), expected);
    }
}

#[test]
fn s3_2_reading_sets_the_use_and_writing_the_write_too() {
    let (d, e) = (Script::new("s3_2 d").open(), Script::new("s3_2 e").open());
    let h = host().create_buffer(LEN).unwrap();
    let [on_d, on_e] = [&d, &e].map(|device| h.borrow(device).unwrap().unwrap());
    let first = reads(&d, &on_d);
    assert_eq!(h.stamps(), stamped(None, &[first]));
    let second = writes(&d, &on_d);
    assert_eq!(h.stamps(), stamped(Some(second), &[second]));
    let third = reads(&d, &on_d);
    assert_eq!(h.stamps(), stamped(Some(second), &[third]));
    let read = reads(&e, &on_e);
    assert_eq!(h.stamps(), stamped(Some(second), &[third, read]));
    let written = writes(&e, &on_e);
    assert_eq!(h.stamps(), stamped(Some(written), &[third, written]), "e replaces the write of d");
}

#[test]
fn s3_3_what_is_rejected_raises_no_stamp() {
    let d = Script::new("s3_3 rejected").open();
    let x = d.create_buffer(LEN).unwrap();
    d.control.reject_next_hand_over("wrong");
    let work = d.prepare().fill(&x, 1).build().unwrap();
    assert!(matches!(misuse(work.submit(&[], &[])), Misuse::Rejected { .. }));
    assert_eq!((x.stamps(), d.submitted()), (Stamps::default(), 0));
}

#[test]
fn s3_3_what_is_handed_over_has_its_stamps_or_the_device_is_lost() {
    let d = Script::new("s3_3 fault").stops(Answer::WhenTold).open();
    let h = host().create_buffer(LEN).unwrap();
    let borrow = h.borrow(&d).unwrap().unwrap();
    d.control.fail_next_hand_over("the wire broke");
    let work = d.prepare().fill(&borrow, 1).build().unwrap();
    assert_eq!(lost(work.submit(&[], &[])).1, "the wire broke");
    assert_eq!(d.submitted(), 1);
    let at = point(&d, 1);
    assert_eq!(h.stamps(), stamped(Some(at), &[at]));
    lost(h.read(|_| ()));
}

#[test]
fn s3_3_stamps_are_up_when_the_value_is_known() {
    let d = Script::new("s3_3 turn").open();
    let x = d.create_buffer(LEN).unwrap();
    let work = d.prepare().fill(&x, 1).build().unwrap();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..200 {
                    let at = work.submit(&[], &[]).unwrap();
                    let stamps = x.stamps();
                    assert!(stamps.write >= Some(at) && stamps.use_by(&d) >= stamps.write);
                }
            });
        }
    });
    assert_eq!(x.stamps().write, Some(point(&d, 400)));
}

#[test]
fn s3_4_the_host_raises_no_stamp() {
    let d = Script::new("s3_4").addressed(Addressed::Always).open();
    let (x, y) = (d.create_buffer(LEN).unwrap(), host().create_buffer(LEN).unwrap());
    x.write(|bytes| bytes.fill(1)).unwrap();
    x.read(|_| ()).unwrap();
    x.fill(2).unwrap();
    x.blit_from(0, &[3; 8]).unwrap();
    x.blit_to(0, &mut [0; 8]).unwrap();
    copy(&x, &y).unwrap();
    copy(&y, &x).unwrap();
    assert_eq!([x.stamps(), y.stamps()], [Stamps::default(), Stamps::default()]);
}

#[test]
fn s3_4_the_hosts_part_of_a_staged_copy_raises_no_stamp() {
    let d = own_halves(Script::new("s3_4 staged")).open();
    let (h, x) = (host().create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
    copy(&h, &x).unwrap();
    copy(&x, &h).unwrap();
    assert_eq!(h.stamps(), Stamps::default());
    let half = d.half_stamps(0, 0).unwrap();
    assert_eq!(half, stamped(Some(point(&d, 2)), &[point(&d, 2)]), "by d's own legs alone");
}

#[test]
fn s3_5_a_buffer_from_create_has_no_stamps_fresh_or_cached() {
    let d = Script::new("s3_5").open();
    let x = d.create_buffer(LEN).unwrap();
    assert_eq!(x.stamps(), Stamps::default());
    x.fill(1).unwrap();
    drop(x);
    let again = d.create_buffer(LEN).unwrap();
    assert_eq!(d.stats().kind_counts, [1, 1, 0, 0]);
    assert_eq!(again.stamps(), Stamps::default());
}

/// A device, and a buffer from its cache that keeps the device's own unreached point 1 as a write.
fn kept_point(name: &str) -> (Opened, Buffer) {
    let d = Script::new(name).open();
    let x = d.create_buffer(LEN).unwrap();
    let at = submit(d.prepare().fill(&x, 7));
    drop(x);
    let again = d.create_buffer(LEN).unwrap();
    assert_eq!((d.stats().kind_counts, d.reached()), ([1, 1, 0, 0], 0));
    assert_eq!(again.stamps(), stamped(Some(at), &[at]));
    (d, again)
}

#[test]
fn s3_5_a_buffer_wait_follows_a_point_that_stayed() {
    for what in [Use::Read, Use::Write] {
        let (d, x) = kept_point(&format!("s3_5 {what:?}"));
        x.wait(what).unwrap();
        assert_eq!(d.reached(), 1);
    }
}

#[test]
fn s3_5_other_devices_follow_a_point_that_stayed() {
    let (d, x) = kept_point("s3_5 owner");
    let e = Script::new("s3_5 other").peers(Known::Scripted).open();
    reads(&e, &x.borrow(&e).unwrap().expect("e maps d's memory"));
    assert_eq!(e.control.calls(Call::HandOver)[0].bytes, 1);
    assert_eq!((e.control.run_all(), d.reached()), (0, 0));
}

#[test]
fn s3_5_the_return_to_the_driver_follows_a_point_that_stayed() {
    let (d, x) = kept_point("s3_5 return");
    drop(x);
    drain(&d);
    assert_eq!(d.free_cache().unwrap().pending_bytes, LEN);
    assert_eq!(d.control.count(Call::Free), 0);
    d.wait(1).unwrap();
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.held()), (1, 0));
}

#[test]
fn s3_5_a_host_access_follows_a_point_that_stayed() {
    // On such a device the host comes to the bytes by a staged leg, which queue order covers.
    let d = own_halves(Script::new("s3_5 host")).open();
    let x = d.create_buffer(LEN).unwrap();
    submit(d.prepare().fill(&x, 7));
    drop(x);
    let again = d.create_buffer(LEN).unwrap();
    let mut seen = [0; 8];
    again.blit_to(0, &mut seen).unwrap();
    assert_eq!((seen, d.reached()), ([7; 8], 2));
}

#[test]
fn s3_5_memory_that_others_use_is_not_cached_before_that_is_done() {
    let (d, e) = (Script::new("s3_5 mine").open(), Script::new("s3_5 theirs"));
    let e = e.peers(Known::Scripted).open();
    let x = d.create_buffer(LEN).unwrap();
    reads(&e, &x.borrow(&e).unwrap().unwrap());
    drop(x);
    drain(&d);
    assert_eq!((d.cached(), d.held()), (0, LEN));
    let fresh = d.create_buffer(LEN).unwrap();
    assert_eq!((fresh.stamps(), d.stats().kind_counts), (Stamps::default(), [0, 2, 0, 0]));
    e.wait(1).unwrap();
    drain(&e);
    drain(&d);
    assert_eq!(d.cached(), LEN);
    drop(fresh);
}

#[test]
fn s3_6_stamps_never_wait_and_show_points_after_they_are_reached() {
    let d = Script::new("s3_6").open();
    let x = d.create_buffer(LEN).unwrap();
    let at = submit(d.prepare().fill(&x, 1));
    assert_eq!(x.stamps(), stamped(Some(at), &[at]));
    assert_eq!((d.control.count(Call::Block), d.reached()), (0, 0));
    at.wait().unwrap();
    assert_eq!(x.stamps(), stamped(Some(at), &[at]));
    d.device_lost("unplugged");
    assert_eq!(x.stamps(), stamped(Some(at), &[at]), "a fact also of lost memory");
    x.free().unwrap();
    assert_eq!(x.stamps(), stamped(Some(at), &[at]), "and of dead buffers");
}

#[test]
fn s3_8_a_buffer_wait_tells_a_loss_before_it_waits() {
    let (e, d) = (Script::new("s3_8 slow").open(), Script::new("s3_8 lost"));
    let d = d.stops(Answer::WhenTold).open();
    let h = host().create_buffer(LEN).unwrap();
    let [on_e, on_d] = [&e, &d].map(|device| h.borrow(device).unwrap().unwrap());
    reads(&e, &on_e);
    reads(&d, &on_d);
    d.device_lost("unplugged");
    assert_eq!(lost(h.wait(Use::Write)).0, "s3_8 lost");
    assert_eq!((e.control.count(Call::Block), e.reached()), (0, 0));
}

#[test]
fn s3_7_work_that_the_queue_orders_waits_for_nothing() {
    let d = Script::new("s3_7 queue").open();
    let kernel = double(&d);
    let x = d.create_buffer(LEN).unwrap();
    let work = d.prepare().launch(&kernel, [1; 3]).writes(&x).build().unwrap();
    for value in 1..=3 {
        assert_eq!(work.submit(&[], &[]).unwrap().value(), value);
    }
    assert_eq!((d.reached(), d.control.count(Call::Block)), (0, 0));
}
