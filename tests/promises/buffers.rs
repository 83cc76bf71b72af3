//! Buffers, views, and memory that the program brings (S4.1 to S4.6).

use crate::bench::{bytes_of, misuse, pattern, unsupported};
use rig::bytes::page_bytes;
use rig::driver::Addressed;
use rig::{Buffer, Claims, Kind, Misuse, Stamps, Use, copy, host, memory, wrap, wrap_raw};
use rig_support::{Call, Script, drain, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn s4_1_clones_are_the_same_buffer() {
    let d = Script::new("s4_1").open();
    let x = d.create_buffer(64).unwrap();
    let clone = x.clone();
    assert!(clone.spans() && clone.overlaps(&x));
    clone.fill(7).unwrap();
    assert_eq!((bytes_of(&x), x.stamps() == clone.stamps()), (vec![7; 64], true));
    drop(clone);
    drain(&d);
    assert_eq!(d.stats().live_bytes, 512);
    x.clone().free().unwrap();
    assert_eq!(x.dead().as_deref(), Some("freed"));
}

#[test]
fn s4_2_create_makes_device_memory_and_other_kinds_when_asked() {
    let d = Script::new("s4_2 kinds").facts(|facts| facts.pinned = true).open();
    d.create_buffer(512).unwrap();
    let pinned = d.create_buffer_in(Kind::Pinned, 512).unwrap();
    let kinds: Vec<u64> = d.control.calls(Call::Alloc).iter().map(|entry| entry.value).collect();
    assert_eq!(kinds, [Kind::Device as u64, Kind::Pinned as u64]);
    pinned.write(|bytes| bytes.fill(1)).unwrap();
}

#[test]
fn s4_2_a_label_is_optional() {
    let m = memory::open("s4_2 label").unwrap();
    let (plain, named) = (m.create_buffer(8).unwrap(), m.buffer(8).label("weights").create());
    assert_eq!((plain.label(), named.unwrap().label().as_deref()), (None, Some("weights")));
    m.close().unwrap();
}

#[test]
fn s4_2_memory_that_the_host_addresses_is_never_uninitialised() {
    let m = memory::open("s4_2 zero").unwrap();
    let d = Script::new("s4_2 addressed").addressed(Addressed::Always).open();
    for device in [&m, &d.device] {
        // Every byte is one that somebody wrote: fresh memory is zero, cached memory old bytes.
        let x = device.create_buffer(100_001).unwrap();
        x.read(|bytes| assert!(bytes.iter().all(|&byte| byte == 0 || byte == 9))).unwrap();
        x.fill(9).unwrap();
        drop(x);
        let again = device.create_buffer(100_001).unwrap();
        again.read(|bytes| assert!(bytes.iter().all(|&byte| byte == 0 || byte == 9))).unwrap();
    }
    m.close().unwrap();
}

#[test]
fn s4_2_a_missing_kind_and_a_length_above_the_largest_are_unsupported() {
    let d = Script::new("s4_2 largest").facts(|facts| facts.largest_bytes = 4_096).open();
    let why = unsupported(d.create_buffer(4_097));
    assert!(why.contains("4097") && why.contains("4096"), "{why}");
    d.create_buffer(4_096).unwrap();
    unsupported(d.create_buffer_in(Kind::Pinned, 64));
    unsupported(d.create_buffer_in(Kind::Transfer, 64));
    assert_eq!(d.control.count(Call::Alloc), 1);
}

#[test]
fn s4_3_a_buffer_of_0_bytes_has_no_memory() {
    let d = Script::new("s4_3").open();
    let m = memory::open("s4_3 other").unwrap();
    let none = d.create_buffer(0).unwrap();
    assert_eq!((none.len(), none.is_empty(), none.spans()), (0, true, true));
    assert_eq!((d.control.count(Call::Alloc), d.held(), d.stats().requested_count), (0, 0, 0));
    assert!(!none.overlaps(&none));
    for device in [&host(), &m, &d.device] {
        let borrow = none.borrow(device).unwrap().expect("it borrows anywhere");
        assert_eq!((borrow.len(), &borrow.device()), (0, device));
    }
    assert_eq!((d.control.count(Call::ImportHost), d.control.count(Call::ImportPeer)), (0, 0));
    let on_host = host().create_buffer(0).unwrap();
    assert!(on_host.borrow(&d).unwrap().is_some());
    copy(&none, &on_host).unwrap();
    none.free().unwrap();
    assert_eq!(none.dead().as_deref(), Some("freed"));
    m.close().unwrap();
}

#[test]
fn s4_4_wrap_makes_a_host_buffer_without_a_copy() {
    let words: Vec<u32> = (0..100).collect();
    let at = words.as_ptr() as u64;
    let wrapped = wrap(words);
    assert_eq!((wrapped.len(), wrapped.device()), (400, host()));
    wrapped.read(|bytes| assert_eq!(bytes.as_ptr() as u64, at)).unwrap();
    wrapped.write_as::<u32, _>(|words| words[99] += 1).unwrap();
    assert_eq!(wrapped.read_as::<u32, _>(|words| words[99]).unwrap(), 100);
    let boxed: Box<[u8]> = Box::new([1, 2, 3]);
    let leaked: &'static mut [u16] = Box::leak(Box::new([1_u16, 2]));
    assert_eq!((bytes_of(&wrap(boxed)), wrap(leaked).len()), (vec![1, 2, 3], 4));
}

#[test]
fn s4_4_wrap_shared_makes_a_read_only_buffer() {
    let shared: Arc<[u8]> = Arc::from(pattern(100, 1));
    let buffer = rig::wrap_shared(Arc::clone(&shared));
    assert!(buffer.is_read_only());
    assert_eq!(bytes_of(&buffer), shared[..]);
    assert_eq!(misuse(buffer.fill(0)), Misuse::ReadOnly);
    assert_eq!(misuse(buffer.view(0, 0).unwrap().fill(0)), Misuse::ReadOnly);
    static BYTES: [u8; 4] = [1, 2, 3, 4];
    assert_eq!(bytes_of(&rig::wrap_shared(&BYTES[..])), BYTES);
    assert_eq!(bytes_of(&buffer), shared[..]);
}

#[test]
fn s4_4_wrapped_memory_is_outside_the_claims() {
    let wrapped = wrap(vec![0_u8; 64]);
    let is_exclusive = |claims: &Claims| claims.is_exclusive(&wrapped);
    assert!(!Claims::with(&[], &[&[&wrapped]], is_exclusive).unwrap());
    let _claim = wrapped.claim_read().unwrap();
    assert_eq!(misuse(wrapped.write(|_| ())), Misuse::Busy, "access claims still apply");
}

/// Counts its drops, and notes what `seen` was at the last.
struct Keeper {
    dropped: Arc<AtomicU64>,
    seen: Box<dyn Fn() -> u64 + Send>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.dropped.fetch_add(1 + (self.seen)(), Ordering::Relaxed);
    }
}

/// Wraps pages of their own, which a keeper frees.
fn wrapped_pages(dropped: &Arc<AtomicU64>, seen: impl Fn() -> u64 + Send + 'static) -> Buffer {
    let pages = page_bytes() as usize;
    let mut memory = vec![5_u8; 2 * pages].into_boxed_slice();
    let start = memory.as_mut_ptr();
    let offset = start.align_offset(pages);
    let keeper = Keeper { dropped: Arc::clone(dropped), seen: Box::new(seen) };
    // SAFETY: the range lies in the box, which the keeper pair keeps and nobody else reaches.
    unsafe { wrap_raw(start.add(offset), pages as u64, (keeper, memory)) }
}

#[test]
fn s4_4_a_drain_drops_the_keeper_after_the_memorys_return() {
    let d = Script::new("s4_4 keeper").open();
    let dropped = Arc::new(AtomicU64::new(0));
    let control = d.control.clone();
    let wrapped = wrapped_pages(&dropped, move || 10 * control.count(Call::Release));
    let borrow = wrapped.borrow(&d).unwrap().expect("whole pages are mapped");
    let work = d.prepare().reads(&borrow).build().unwrap();
    work.submit(&[], &[]).unwrap();
    drop((wrapped, borrow, work));
    drain(&d);
    drain(&host());
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "d:1 is not reached");
    d.wait(1).unwrap();
    drain(&d);
    // Another test's drain of the host may have the keeper in its hands.
    until("the keeper's drop", || {
        drain(&host());
        dropped.load(Ordering::Relaxed) > 0
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 11, "once, and after the mapping's release");
}

#[test]
fn s4_4_a_wrapped_buffer_that_is_freed_gives_the_keeper_back() {
    let dropped = Arc::new(AtomicU64::new(0));
    let wrapped = wrapped_pages(&dropped, || 0);
    wrapped.free().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert_eq!(misuse(wrapped.read(|_| ())), Misuse::Dead { why: "freed".into() });
}

#[test]
fn s4_5_a_view_covers_part_and_its_bounds_are_checked() {
    let d = Script::new("s4_5").open();
    let x = d.create_buffer(100).unwrap();
    x.blit_from(0, &pattern(100, 2)).unwrap();
    let view = x.view(10, 50).unwrap().view(5, 20).unwrap();
    assert_eq!((view.offset(), view.len(), view.spans()), (15, 20, false));
    assert_eq!(bytes_of(&view), pattern(100, 2)[15..35]);
    let outside = |offset, len| misuse(x.view(offset, len));
    let (end_bytes, len_bytes) = (101, 100);
    assert_eq!(outside(1, 100), Misuse::OutOfRange { end_bytes, len_bytes });
    assert_eq!(outside(101, 0), Misuse::OutOfRange { end_bytes, len_bytes });
    assert_eq!(outside(u64::MAX, 2), Misuse::OutOfRange { end_bytes: u64::MAX, len_bytes });
    assert_eq!(x.view(100, 0).unwrap().len(), 0);
}

#[test]
fn s4_5_a_view_waits_for_nothing() {
    let d = Script::new("s4_5 idle").open();
    let x = d.create_buffer(100).unwrap();
    d.prepare().writes(&x).build().unwrap().submit(&[], &[]).unwrap();
    x.view(0, 1).unwrap();
    assert_eq!((d.reached(), d.control.count(Call::Block)), (0, 0));
}

#[test]
fn s4_6_spans_and_overlaps() {
    let d = Script::new("s4_6").open();
    let (x, other) = (d.create_buffer(100).unwrap(), d.create_buffer(100).unwrap());
    let view = |offset, len| x.view(offset, len).unwrap();
    assert!(x.spans() && view(0, 100).spans() && !view(0, 99).spans() && !view(1, 99).spans());
    for (a, b, meet) in [
        (view(0, 50), view(49, 51), true),
        (view(0, 50), view(50, 50), false),
        (view(10, 10), view(0, 100), true),
        (view(10, 0), view(0, 100), false),
        (x.clone(), other, false),
    ] {
        assert_eq!((a.overlaps(&b), b.overlaps(&a)), (meet, meet), "{a:?} and {b:?}");
    }
}

#[test]
fn s4_6_overlaps_is_by_host_address_where_both_have_one() {
    let mut bytes = Box::new([0_u8; 64]);
    let start = bytes.as_mut_ptr();
    // SAFETY: the box is kept until the buffers are gone, and nothing accesses their bytes.
    let (low, high) = unsafe { (wrap_raw(start, 40, ()), wrap_raw(start.add(30), 34, ())) };
    assert!(low.overlaps(&high));
    assert!(!low.view(0, 30).unwrap().overlaps(&high));
    low.free().unwrap();
    high.free().unwrap();
}

#[test]
fn s4_6_facts_answer_for_dead_and_lost_buffers() {
    let d = Script::new("s4_6 facts").open();
    let (dead, lost) = (d.buffer(100).label("x").create().unwrap(), d.create_buffer(7).unwrap());
    dead.free().unwrap();
    d.device_lost("unplugged");
    for (buffer, len, why) in [(&dead, 100, Some("freed")), (&lost, 7, None)] {
        assert_eq!((buffer.len(), buffer.offset(), buffer.spans()), (len, 0, true));
        assert_eq!((buffer.device(), buffer.dead().as_deref()), (d.device.clone(), why));
        assert_eq!((buffer.stamps(), buffer.is_read_only()), (Stamps::default(), false));
        assert!(buffer.overlaps(buffer));
    }
    assert_eq!(dead.label().as_deref(), Some("x"));
    assert_eq!(misuse(dead.wait(Use::Read)), Misuse::Dead { why: "freed".into() });
}
