//! S7.1 to S7.4: what a copy checks, and the route it takes.

use crate::bench::{
    buffer_of, bytes_of, finish, host_buffer_of, lost, misuse, own_halves, pattern, poll,
    unsupported,
};
use rig::driver::{Addressed, Queue};
use rig::{Buffer, Claims, Device, Kind, Misuse, Point, copy, copy_async, host, wrap, wrap_shared};
use rig_support::{Call, Known, Opened, Script, drain, point};
use std::sync::Arc;
use std::task::Poll;

/// Makes all buffers of an allocation dead for a reason.
fn end(buffer: &Buffer, why: &str) {
    Claims::with(&[], &[&[buffer]], |claims| drop(claims.consume(buffer, why).unwrap())).unwrap();
}

fn dead(why: &str) -> Misuse {
    Misuse::Dead { why: why.into() }
}

#[test]
fn s7_1_a_copy_checks_in_order() {
    let fresh = |len: u64| host().create_buffer(len).unwrap();
    let (src, dst) = (fresh(8), fresh(9));
    end(&dst, "dst gone");
    assert_eq!(misuse(copy(&src, &dst)), dead("dst gone"), "before lengths");
    end(&src, "src gone");
    assert_eq!(misuse(copy(&src, &dst)), dead("src gone"), "before the destination");
    let words = wrap_shared(Arc::<[u8]>::from([1; 16]));
    let (five, six) = (words.view(0, 5).unwrap(), words.view(4, 6).unwrap());
    let lengths = Misuse::LengthsDiffer { src_bytes: 5, dst_bytes: 6 };
    assert_eq!(misuse(copy(&five, &six)), lengths, "before overlap");
    let (five, meets) = (words.view(0, 5).unwrap(), words.view(4, 5).unwrap());
    assert_eq!(misuse(copy(&five, &meets)), Misuse::Overlap, "before read-only memory");
    let [d, e] = ["s7.1 d", "s7.1 e"].map(|name| Script::new(name).open());
    let (x, y) = (d.create_buffer(5).unwrap(), e.create_buffer(5).unwrap());
    d.device_lost("first");
    assert_eq!(misuse(copy(&x, &five)), Misuse::ReadOnly, "before losses");
    e.device_lost("second");
    assert_eq!(lost(copy(&x, &y)), ("s7.1 d".into(), "first".into()));
    assert_eq!(lost(copy(&fresh(5), &y)).1, "second");
}

#[test]
fn s7_1_a_copy_tells_the_loss_of_a_borrows_device() {
    let d = Script::new("s7.1 borrow").open();
    let h = host().create_buffer(64 << 10).unwrap();
    let b = h.borrow(&d).unwrap().unwrap();
    let other = host().create_buffer(64 << 10).unwrap();
    d.device_lost("on purpose");
    assert_eq!(lost(copy(&b, &other)).1, "on purpose");
    assert_eq!(lost(copy(&other, &b)).1, "on purpose");
    copy(&h, &other).unwrap();
}

#[test]
fn s7_1_a_copy_drains_both_devices_at_length_0_too() {
    let [d, e] =
        ["s7.1 drains d", "s7.1 drains e"].map(|name| own_halves(Script::new(name)).open());
    for len in [0, 100] {
        let (x, y) = (d.create_buffer(len).unwrap(), e.create_buffer(len).unwrap());
        let live = [&d, &e].map(|device| device.stats().live_bytes);
        for device in [&d, &e] {
            drop(device.create_buffer(5000).unwrap());
        }
        copy(&x, &y).unwrap();
        assert_eq!([&d, &e].map(|device| device.stats().live_bytes), live, "{len} bytes");
    }
}

/// The values that each device took for a copy, and the halves made meanwhile.
fn values_of(devices: &[&Device], src: &Buffer, dst: &Buffer) -> Vec<u64> {
    let before: Vec<u64> = devices.iter().map(|device| device.submitted()).collect();
    let bytes = pattern(src.len(), before.iter().sum());
    src.blit_from(0, &bytes).unwrap();
    dst.fill(0).unwrap();
    let before: Vec<u64> = devices.iter().map(|device| device.submitted()).collect();
    copy(src, dst).unwrap();
    let after = devices.iter().map(|device| device.submitted());
    let values = after.zip(before).map(|(after, before)| after - before).collect();
    assert!(bytes_of(dst) == bytes, "{src:?} to {dst:?}");
    values
}

fn stamped(buffer: &Buffer) -> (Option<Point>, Vec<Point>) {
    let stamps = buffer.stamps();
    (stamps.write, stamps.uses)
}

#[test]
fn s7_2_between_memory_that_the_host_addresses_the_host_copies() {
    let m = rig::memory::open("s7.2 memory").unwrap();
    let n = Script::new("s7.2 addressed").addressed(Addressed::Always).open();
    let w = Script::new("s7.2 mapped").addressed(Addressed::WhileMapped).open();
    let [x, y, z] = [&m, &n.device, &w.device].map(|device| device.create_buffer(100).unwrap());
    let (h, v) = (host().create_buffer(100).unwrap(), wrap(vec![0_u8; 100]));
    let borrowed = h.borrow(&m).unwrap().unwrap();
    let sides = [&x, &y, &z, &h, &v, &borrowed];
    for src in sides {
        for dst in sides.into_iter().filter(|dst| !dst.overlaps(src)) {
            assert_eq!(values_of(&[&m, &n, &w], src, dst), [0, 0, 0]);
        }
    }
    assert!(sides.iter().all(|side| stamped(side) == (None, vec![])), "the host raises no stamp");
}

#[test]
fn s7_2_within_a_devices_memory_it_copies_directly() {
    let d = Script::new("s7.2 within").open();
    let (x, y) = (d.create_buffer(1000).unwrap(), d.create_buffer(1000).unwrap());
    let imports = d.control.count(Call::ImportHost);
    copy(&x, &y).unwrap();
    let one = Some(point(&d, 1));
    assert_eq!(
        (stamped(&x), stamped(&y)),
        ((None, one.into_iter().collect()), (one, one.into_iter().collect()))
    );
    assert_eq!((d.reached(), d.control.count(Call::ImportHost)), (1, imports), "no half is made");
}

#[test]
fn s7_2_between_pinned_and_its_devices_memory_the_device_copies_directly() {
    let script = Script::new("s7.2 pinned").facts(|facts| facts.pinned = true);
    let d = own_halves(script).open();
    let x = d.create_buffer(1000).unwrap();
    let pinned = d.create_buffer_in(Kind::Pinned, 1000).unwrap();
    assert_eq!(values_of(&[&d], &pinned, &x), [1]);
    assert_eq!(values_of(&[&d], &x, &pinned), [1]);
    assert_eq!(values_of(&[&d], &pinned, &host_buffer_of(&[0; 1000])), [0], "the host has it too");
    let e = own_halves(Script::new("s7.2 pinned elsewhere")).open();
    let y = e.create_buffer(1000).unwrap();
    assert_eq!(values_of(&[&d, &e], &pinned, &y), [0, 1], "for another device it is host memory");
}

#[test]
fn s7_2_between_a_borrow_and_its_devices_memory_the_device_copies_directly() {
    let d = own_halves(Script::new("s7.2 borrow")).open();
    let h = host().create_buffer(64 << 10).unwrap();
    let b = h.borrow(&d).unwrap().unwrap();
    let x = d.create_buffer(64 << 10).unwrap();
    assert_eq!(values_of(&[&d], &b, &x), [1]);
    assert_eq!(values_of(&[&d], &x, &b), [1]);
    assert_eq!(stamped(&h).0.map(Point::value), Some(d.submitted()), "h has the borrow's stamps");
    let (part, of_x) = (b.view(5, 100).unwrap(), x.view(7, 100).unwrap());
    assert_eq!(values_of(&[&d], &part, &of_x), [1]);
}

/// Two devices of which the first maps the memory of those named.
fn peers(name: &str, first: Known, second: Known) -> [Opened; 2] {
    let open =
        |side: &str, peers| own_halves(Script::new(format!("{name}, {side}")).peers(peers)).open();
    [open("d", first), open("e", second)]
}

#[test]
fn s7_2_a_side_named_as_a_borrow_is_copied_by_the_borrows_device() {
    let [d, e] = peers("s7.2 named", Known::Nobody, Known::Scripted);
    let (x, y) = (d.create_buffer(1000).unwrap(), e.create_buffer(1000).unwrap());
    let b = x.borrow(&e).unwrap().expect("e maps d's memory");
    assert_eq!(values_of(&[&d, &e], &b, &y), [0, 1]);
    let d_before = d.submitted();
    copy(&b, &y).unwrap();
    copy(&y, &b).unwrap();
    assert_eq!((d.submitted(), stamped(&x).0), (d_before, Some(point(&e, e.submitted()))));
}

#[test]
fn s7_2_a_device_that_maps_the_others_memory_copies_directly() {
    let [d, e] = peers("s7.2 maps", Known::Scripted, Known::Nobody);
    let (x, y) = (d.create_buffer(1000).unwrap(), e.create_buffer(1000).unwrap());
    let before = [&d, &e].map(|device| device.submitted());
    copy(&x, &y).unwrap();
    assert_eq!([d.submitted(), e.submitted()], [before[0] + 1, before[1]]);
    assert_eq!(stamped(&y).0, Some(point(&d, 1)));
    assert_eq!(d.control.count(Call::ImportPeer), 1);
    copy(&x, &y).unwrap();
    assert!(d.control.count(Call::ImportPeer) <= 2);
    rig_support::drain(&d);
    assert_eq!(d.control.mappings_live(), 0, "the mapping ends with the copy");
}

#[test]
fn s7_2_else_it_is_staged_through() {
    let [d, e] = peers("s7.2 through", Known::Nobody, Known::Nobody);
    let half = d.facts().half_bytes;
    let len = 2 * half + 100;
    let (x, y) = (d.create_buffer(len).unwrap(), e.create_buffer(len).unwrap());
    x.blit_from(0, &pattern(len, 4)).unwrap();
    let before = d.submitted();
    copy(&x, &y).unwrap();
    let pieces = len.div_ceil(half.min(e.facts().half_bytes));
    assert_eq!([d.submitted() - before, e.submitted()], [pieces, pieces]);
    assert_eq!(stamped(&y), (Some(point(&e, pieces)), vec![point(&e, pieces)]));
    assert_eq!(stamped(&x).1, [point(&d, d.submitted())]);
    assert!(bytes_of(&y) == pattern(len, 4));
    // Back again, where the second device takes the smaller pieces.
    let before = [&d, &e].map(|device| device.submitted());
    copy(&y, &x).unwrap();
    assert!(half < e.facts().half_bytes);
    assert_eq!([d.submitted(), e.submitted()], before.map(|value| value + pieces));
}

#[test]
fn s7_2_between_the_host_and_a_device_it_is_staged_in_and_out() {
    let d = own_halves(Script::new("s7.2 staged")).open();
    let half = d.facts().half_bytes;
    let bytes = pattern(3 * half, 5);
    let (h, x) = (host_buffer_of(&bytes), d.create_buffer(3 * half).unwrap());
    copy(&h, &x).unwrap();
    assert_eq!(stamped(&x), (Some(point(&d, 3)), vec![point(&d, 3)]));
    assert_eq!(stamped(&h), (None, vec![]));
    let back = host().create_buffer(3 * half).unwrap();
    copy(&x, &back).unwrap();
    assert_eq!(stamped(&x), (Some(point(&d, 3)), vec![point(&d, 6)]));
    assert_eq!((stamped(&back), d.reached()), ((None, vec![]), 6));
    assert!(bytes_of(&back) == bytes);
    let cell = |half| d.half_stamps(0, half).map(|stamps| (stamps.write, stamps.uses));
    assert_eq!(cell(0), Some((Some(point(&d, 6)), vec![point(&d, 6)])));
    assert_eq!(cell(1), Some((Some(point(&d, 5)), vec![point(&d, 5)])));
}

fn without_copies(name: &str) -> Script {
    Script::new(name).queues([Queue { launches: true, copies: false, fills: true }])
}

#[test]
fn s7_2_where_the_device_chosen_runs_no_copies_the_memorys_owner_acts() {
    let d = without_copies("s7.2 owner d").peers(Known::Scripted).open();
    let e = own_halves(Script::new("s7.2 owner e").peers(Known::Scripted)).open();
    let (x, y) = (d.create_buffer(100).unwrap(), buffer_of(&e, &pattern(100, 8)));
    let before = e.submitted();
    copy(&y, &x).unwrap();
    copy(&x, &y).unwrap();
    assert_eq!((d.submitted(), e.submitted()), (0, before + 2));
    assert_eq!(bytes_of(&y), pattern(100, 8));
    let b = y.borrow(&d).unwrap().unwrap();
    copy(&b, &x).unwrap();
    assert_eq!((d.submitted(), stamped(&x).0), (0, Some(point(&e, e.submitted()))));
}

#[test]
fn s7_2_the_mapping_that_a_route_asks_for_is_kept_while_the_copy_runs() {
    let d = without_copies("s7.2 kept d").peers(Known::Scripted).open();
    let e = own_halves(Script::new("s7.2 kept e").peers(Known::Scripted)).open();
    let (x, y) = (d.create_buffer(100).unwrap(), buffer_of(&e, &pattern(100, 8)));
    e.control.gate_calls(Call::Room);
    std::thread::scope(|threads| {
        let copying = threads.spawn(|| copy(&x, &y));
        e.control.await_calls(Call::Room, 2);
        drain(&e);
        drain(&d);
        e.control.open_calls(Call::Room);
        copying.join().unwrap().unwrap();
    });
}

#[test]
fn s7_2_where_nobody_can_move_the_bytes_a_copy_is_unsupported() {
    let d = without_copies("s7.2 nobody").open();
    let h = host().create_buffer(64 << 10).unwrap();
    let (x, y) = (d.create_buffer(64 << 10).unwrap(), d.create_buffer(64 << 10).unwrap());
    let b = h.borrow(&d).unwrap().unwrap();
    for (src, dst) in [(&h, &x), (&x, &h), (&b, &x), (&x, &b), (&x, &y)] {
        assert!(unsupported(copy(src, dst)).contains("copies"));
    }
    let e = own_halves(Script::new("s7.2 nobody else")).open();
    let z = e.create_buffer(64 << 10).unwrap();
    assert!(unsupported(copy(&x, &z)).contains("copies"));
    assert!(unsupported(copy(&z, &x)).contains("copies"));
    assert_eq!((d.submitted(), e.submitted()), (0, 0));
    assert!(stamped(&z) == (None, vec![]));
}

#[test]
fn s7_3_a_copy_returns_with_the_bytes_and_pieces_are_not_atomic() {
    let d = own_halves(Script::new("s7.3")).open();
    let half = d.facts().half_bytes;
    let (h, x) = (wrap(vec![1_u8; 3 * half as usize]), d.create_buffer(3 * half).unwrap());
    let fills = d.prepare().fill(&x, 9).build().unwrap();
    let mut copying = Box::pin(copy_async(&h, &x));
    assert!(poll(copying.as_mut()).is_pending());
    assert_eq!(d.submitted(), 2, "the third piece waits for a half");
    fills.submit(&[], &[]).unwrap();
    d.control.run_all();
    assert!(poll(copying.as_mut()).is_pending(), "its last leg is waited for");
    d.control.run_all();
    finish(copying).unwrap();
    let bytes = bytes_of(&x);
    let (early, late) = bytes.split_at(2 * half as usize);
    assert!(early.iter().all(|byte| *byte == 9) && late.iter().all(|byte| *byte == 1));
}

#[test]
fn s7_4_a_loss_before_a_leg_is_reached_keeps_its_piece_from_the_host() {
    let d = own_halves(Script::new("s7.4 out")).open();
    let half = d.facts().half_bytes;
    let x = d.create_buffer(3 * half).unwrap();
    x.fill(5).unwrap();
    let h = wrap(vec![0_u8; 3 * half as usize]);
    let mut copying = Box::pin(copy_async(&x, &h));
    assert!(poll(copying.as_mut()).is_pending());
    d.control.run(1);
    assert!(poll(copying.as_mut()).is_pending());
    d.device_lost("on purpose");
    assert_eq!(lost(finish(copying)).1, "on purpose");
    let bytes = bytes_of(&h);
    let (first, rest) = bytes.split_at(half as usize);
    assert!(first.iter().all(|byte| *byte == 5), "earlier pieces stay");
    assert!(rest.iter().all(|byte| *byte == 0));
    h.write(|_| ()).expect("the host's memory is ordinary");
}

#[test]
fn s7_4_a_loss_inside_an_inward_copy_is_told() {
    let d = own_halves(Script::new("s7.4 in")).open();
    let (h, x) = (wrap(vec![1_u8; 100]), d.create_buffer(100).unwrap());
    let mut copying = Box::pin(copy_async(&h, &x));
    assert!(poll(copying.as_mut()).is_pending());
    d.device_lost("on purpose");
    assert_eq!(lost(finish(copying)).1, "on purpose");
    assert_eq!(bytes_of(&h), [1; 100]);
}

#[test]
fn s7_8_between_halves_of_two_kinds_one_is_free_once_the_other_devices_leg_is_handed_over() {
    let d = own_halves(Script::new("s7.8 two kinds, d").maps_host(None)).open();
    let e = own_halves(Script::new("s7.8 two kinds, e")).open();
    let len = 6 * d.facts().half_bytes.min(e.facts().half_bytes);
    let (x, y) = (buffer_of(&d, &pattern(len, 5)), e.create_buffer(len).unwrap());
    let ran = d.submitted();
    let mut copying = Box::pin(copy_async(&x, &y));
    for submitted in [(2, 0), (3, 1), (4, 2), (4, 2)] {
        assert!(poll(copying.as_mut()).is_pending());
        assert_eq!((d.submitted() - ran, e.submitted()), submitted);
        d.control.run(1);
    }
    let copied = loop {
        match poll(copying.as_mut()) {
            Poll::Ready(copied) => break copied,
            Poll::Pending => [&d, &e].map(|device| device.control.run_all()),
        };
    };
    copied.unwrap();
    assert!(bytes_of(&y) == pattern(len, 5));
}
