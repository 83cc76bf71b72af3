//! Borrows: the table of S4.7, and the mappings behind them (S4.8 to S4.11).

use crate::bench::{bytes_of, lost, misuse};
use rig::bytes::page_bytes;
use rig::driver::Addressed;
use rig::{Buffer, Misuse, borrow, file, host, memory, wrap};
use rig_support::{Answer, Call, Known, Opened, Scratch, Script, drain};

/// The bytes of a host buffer that starts on a page.
const LEN: u64 = 64 << 10;

/// Whether a borrow was answered, and how many mappings its device's driver was asked for.
fn asked(device: &Opened, buffer: &Buffer) -> (bool, u64) {
    let asked = |call| device.control.count(call);
    let before = asked(Call::ImportHost) + asked(Call::ImportPeer);
    let answer = buffer.borrow(device).unwrap();
    if let Some(borrow) = &answer {
        assert_eq!((borrow.len(), borrow.device()), (buffer.len(), device.device.clone()));
    }
    (answer.is_some(), asked(Call::ImportHost) + asked(Call::ImportPeer) - before)
}

fn host_buffer(len: u64) -> Buffer {
    host().create_buffer(len).unwrap()
}

/// Returns device memory of a scripted device, as it is addressed.
fn memory_of(device: &Opened) -> Buffer {
    device.create_buffer(LEN).unwrap()
}

#[test]
fn s9_2_a_borrow_that_maps_drains() {
    let d = Script::new("s9_2 borrow").open();
    for round in 0..20 {
        let h = host_buffer(LEN);
        assert_eq!(asked(&d, &h), (true, 1));
        assert_eq!(d.control.count(Call::Release), round, "those before are released");
        assert_eq!(d.control.mappings_live(), 1);
    }
}

#[test]
fn s4_7_memory_on_its_own_device_is_the_same_buffer() {
    let d = Script::new("s4_7 own").open();
    let (m, files) = (memory::open("s4_7 own m").unwrap(), file::open("s4_7 own f").unwrap());
    let path = Scratch::new();
    let x = memory_of(&d);
    assert_eq!(asked(&d, &x), (true, 0));
    let on_file = files.create_file(&path, 8).unwrap();
    for buffer in [&x, &host_buffer(8), &m.create_buffer(8).unwrap(), &on_file] {
        let same = buffer.borrow(&buffer.device()).unwrap().expect("the same buffer");
        assert!(same.overlaps(buffer) && same.spans());
    }
    // Also back from a borrow to the memory's own device.
    let h = host_buffer(LEN);
    let back = h.borrow(&d).unwrap().unwrap().borrow(&host()).unwrap().unwrap();
    back.write(|bytes| bytes.fill(3)).unwrap();
    m.close().unwrap();
    files.close().unwrap();
}

#[test]
fn s4_7_nothing_is_borrowed_on_a_file_device() {
    let d = Script::new("s4_7 to file").open();
    let (m, files) = (memory::open("s4_7 file m").unwrap(), file::open("s4_7 file").unwrap());
    for buffer in [memory_of(&d), host_buffer(LEN), m.create_buffer(8).unwrap()] {
        assert!(buffer.borrow(&files).unwrap().is_none());
    }
    m.close().unwrap();
    files.close().unwrap();
}

#[test]
fn s4_7_memory_addressed_only_while_mapped_is_borrowed_by_the_host_alone() {
    let owner = Script::new("s4_7 mapped").addressed(Addressed::WhileMapped).open();
    let d = Script::new("s4_7 mapped d").peers(Known::Scripted).maps_host(Some(1)).open();
    let m = memory::open("s4_7 mapped m").unwrap();
    let x = memory_of(&owner);
    assert_eq!(asked(&d, &x), (false, 0));
    assert!(x.borrow(&m).unwrap().is_none());
    assert!(x.borrow(&host()).unwrap().is_some());
    m.close().unwrap();
}

#[test]
fn s4_7_host_addressed_memory_on_the_host_or_a_memory_device() {
    let (m, n) = (memory::open("s4_7 m").unwrap(), memory::open("s4_7 n").unwrap());
    let owner = Script::new("s4_7 always").addressed(Addressed::Always).open();
    for buffer in [m.create_buffer(7).unwrap(), memory_of(&owner), host_buffer(7), wrap(vec![7_u8])]
    {
        for device in [&host(), &m, &n] {
            let borrow = borrow(device, &buffer).unwrap().expect("no mapping is needed");
            borrow.blit_from(0, &[9]).unwrap();
            assert_eq!(buffer.read(|bytes| bytes[0]).unwrap(), 9);
        }
    }
    m.close().unwrap();
    n.close().unwrap();
}

#[test]
fn s4_7_aligned_host_addressed_memory_is_one_mapping_of_the_whole_allocation() {
    let d = Script::new("s4_7 aligned").open();
    let h = host_buffer(LEN + 1);
    assert_eq!(asked(&d, &h.view(100, 7).unwrap()), (true, 1));
    let maps = d.control.calls(Call::ImportHost);
    let whole = h.read(|bytes| bytes.as_ptr() as u64).unwrap();
    assert_eq!((maps[0].region.1, maps[0].bytes), (whole, 73_728), "its bin, in whole pages");
    let fine = Script::new("s4_7 fine").maps_host(Some(64)).open();
    let m = memory::open("s4_7 aligned m").unwrap();
    assert_eq!(asked(&fine, &m.create_buffer(512).unwrap()), (true, 1));
    m.close().unwrap();
}

#[test]
fn s4_7_other_host_addressed_memory_is_not_borrowed() {
    let d = Script::new("s4_7 unaligned").open();
    assert_eq!(asked(&d, &host_buffer(LEN - 1)), (false, 0));
    assert_eq!(asked(&d, &host_buffer(page_bytes())), (false, 0));
    assert_eq!(asked(&d, &wrap(vec![0_u8; 2 * LEN as usize + 1]).view(1, 5).unwrap()), (false, 0));
    let fine = Script::new("s4_7 small").maps_host(Some(64)).open();
    assert_eq!(asked(&fine, &host_buffer(640)), (false, 0), "below 64 KiB, wherever it starts");
    let coarse = Script::new("s4_7 coarse").maps_host(Some(1 << 40)).open();
    assert_eq!(asked(&coarse, &host_buffer(LEN)), (false, 0));
}

#[test]
fn s4_7_pages_registered_by_somebody_else_are_not_borrowed() {
    let d = Script::new("s4_7 registered").open();
    let h = host_buffer(LEN);
    d.control.refuse_from(1);
    assert_eq!(asked(&d, &h), (false, 1));
    d.control.end_plan();
    assert_eq!(asked(&d, &h), (true, 1));
}

#[test]
fn s4_7_a_device_that_maps_no_host_memory_is_not_asked() {
    let d = Script::new("s4_7 maps none").maps_host(None).open();
    let m = memory::open("s4_7 maps none m").unwrap();
    assert_eq!(asked(&d, &host_buffer(LEN)), (false, 0));
    assert_eq!(asked(&d, &m.create_buffer(LEN).unwrap()), (false, 0));
    m.close().unwrap();
}

#[test]
fn s4_7_memory_of_another_device_of_the_driver_is_a_peer_mapping_if_it_makes_one() {
    let e = Script::new("s4_7 peer e").open();
    let near = Script::new("s4_7 near").peers(Known::Named(vec!["s4_7 peer e".into()])).open();
    let far = Script::new("s4_7 far").open();
    let x = memory_of(&e);
    let addressed = Script::new("s4_7 addressed").addressed(Addressed::Always);
    let addressed = addressed.peers(Known::Scripted).open();
    assert_eq!((asked(&near, &x), near.control.count(Call::ImportPeer)), ((true, 1), 1));
    assert_eq!(asked(&addressed, &x), (true, 1));
    assert_eq!(asked(&far, &x), (false, 1));
}

#[test]
fn s4_7_all_else_is_not_borrowed() {
    let d = Script::new("s4_7 else").peers(Known::Scripted).open();
    let (m, files) = (memory::open("s4_7 else m").unwrap(), file::open("s4_7 else f").unwrap());
    let path = Scratch::new();
    let (x, on_file) = (memory_of(&d), files.create_file(&path, LEN).unwrap());
    assert!(x.borrow(&host()).unwrap().is_none(), "unaddressed memory on the host");
    assert!(x.borrow(&m).unwrap().is_none(), "or on a device of another driver");
    assert!(on_file.borrow(&host()).unwrap().is_none());
    assert!(on_file.borrow(&m).unwrap().is_none());
    assert_eq!(asked(&d, &on_file), (false, 0));
    m.close().unwrap();
    files.close().unwrap();
}

#[test]
fn s4_8_a_borrow_shares_stamps_claims_and_access_with_the_root() {
    let d = Script::new("s4_8").open();
    let h = host_buffer(LEN);
    let borrow = h.borrow(&d).unwrap().unwrap();
    let work = d.prepare().fill(&borrow, 1).build().unwrap();
    let at = work.submit(&[], &[]).unwrap();
    assert_eq!((h.stamps().write, borrow.stamps() == h.stamps()), (Some(at), true));
    let claim = borrow.claim_read().unwrap();
    assert_eq!(misuse(h.write(|_| ())), Misuse::Busy);
    drop(claim);
    h.write(|_| assert_eq!(misuse(work.submit(&[], &[])), Misuse::Busy)).unwrap();
    borrow.read(|bytes| assert_eq!(bytes.len() as u64, LEN)).unwrap();
}

#[test]
fn s4_8_borrowing_a_borrow_maps_its_root() {
    let (d, e) = (Script::new("s4_8 d").open(), Script::new("s4_8 e").open());
    let h = host_buffer(LEN);
    h.fill(0).unwrap();
    let on_e = h.borrow(&d).unwrap().unwrap().view(8, 8).unwrap().borrow(&e).unwrap().unwrap();
    assert_eq!((on_e.offset(), on_e.len(), e.control.count(Call::ImportPeer)), (8, 8, 0));
    // A larger bin of the host's cache may serve.
    assert!(e.control.calls(Call::ImportHost)[0].bytes >= LEN);
    e.prepare().fill(&on_e, 4).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!(bytes_of(&h)[7..17], [[0].as_slice(), &[4; 8], &[0]].concat());
}

#[test]
fn s4_9_borrowing_a_dead_buffer_is_misuse() {
    let d = Script::new("s4_9 dead").open();
    let h = host_buffer(LEN);
    h.free().unwrap();
    assert_eq!(misuse(h.borrow(&d)), Misuse::Dead { why: "freed".into() });
}

#[test]
fn s4_9_borrowing_tells_a_loss_of_either_device() {
    let (d, e) = (Script::new("s4_9 d").open(), Script::new("s4_9 e").peers(Known::Scripted));
    let e = e.open();
    let x = memory_of(&d);
    d.device_lost("unplugged");
    assert_eq!(lost(x.borrow(&e)).0, "s4_9 d");
    assert_eq!(lost(host_buffer(LEN).borrow(&d)).0, "s4_9 d");
}

#[test]
fn s4_9_borrowing_tells_any_point_of_a_lost_device_that_is_not_done() {
    let e = Script::new("s4_9 well").open();
    let d = Script::new("s4_9 point").stops(Answer::WhenTold).open();
    let h = host_buffer(LEN);
    let on_d = h.borrow(&d).unwrap().unwrap();
    let work = d.prepare().reads(&on_d).build().unwrap();
    work.submit(&[], &[]).unwrap().wait().unwrap();
    h.borrow(&e).unwrap().unwrap();
    work.submit(&[], &[]).unwrap();
    d.device_lost("unplugged");
    assert_eq!(lost(h.borrow(&e)).0, "s4_9 point");
    assert_eq!(lost(h.borrow(&host())).0, "s4_9 point");
}

#[test]
fn s4_10_one_mapping_is_counted_by_its_live_borrows() {
    let d = Script::new("s4_10 count").open();
    let h = host_buffer(LEN);
    let borrow = || h.borrow(&d).unwrap().unwrap();
    let (one, two) = (borrow(), borrow().view(1, 1).unwrap());
    let three = two.clone();
    drop((one, two));
    drain(&d);
    assert_eq!((d.control.count(Call::ImportHost), d.control.count(Call::Release)), (1, 0));
    drop(three);
    drain(&d);
    assert_eq!((d.control.count(Call::Release), d.control.mappings_live()), (1, 0));
    drop(borrow());
    assert_eq!(d.control.count(Call::ImportHost), 2);
}

#[test]
fn s4_10_of_two_racing_first_borrows_one_mapping_stays() {
    let d = Script::new("s4_10 race").open();
    let h = host_buffer(LEN);
    d.control.gate_calls(Call::ImportHost);
    let borrows = std::thread::scope(|threads| {
        let borrowing = [(); 2].map(|()| threads.spawn(|| h.borrow(&d).unwrap().unwrap()));
        d.control.await_calls(Call::ImportHost, 1);
        d.control.open_calls(Call::ImportHost);
        borrowing.map(|thread| thread.join().unwrap())
    });
    assert_eq!(d.control.mappings_live(), 1);
    for borrow in &borrows {
        d.prepare().fill(borrow, 1).build().unwrap().submit(&[], &[]).unwrap();
    }
    drop(borrows);
    d.wait(2).unwrap();
    drain(&d);
    assert_eq!(d.control.mappings_live(), 0);
    assert_eq!(d.control.count(Call::ImportHost), d.control.count(Call::Release));
}

#[test]
fn s4_10_a_mapping_is_due_at_what_was_submitted_when_its_last_borrow_went() {
    let d = Script::new("s4_10 due").open();
    let h = host_buffer(LEN);
    let submit = || d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    submit();
    drop(h.borrow(&d).unwrap());
    submit();
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 0, "value 1 is not reached");
    d.wait(1).unwrap();
    drain(&d);
    assert_eq!((d.control.count(Call::Release), d.reached()), (1, 1), "value 2 came later");
}

#[test]
fn s4_10_a_borrow_before_the_release_revives_the_mapping() {
    let d = Script::new("s4_10 revive").open();
    let h = host_buffer(LEN);
    d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    drop(h.borrow(&d).unwrap());
    drain(&d);
    let again = h.borrow(&d).unwrap().unwrap();
    assert_eq!(d.control.count(Call::ImportHost), 1);
    d.wait(1).unwrap();
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 0);
    d.prepare().fill(&again, 1).build().unwrap().submit(&[], &[]).unwrap().wait().unwrap();
    drop(again);
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 1);
}

#[test]
fn s4_11_bytes_go_home_only_after_their_last_mapping_is_released() {
    let owner = Script::new("s4_11 owner").open();
    let e = Script::new("s4_11 e").peers(Known::Scripted).open();
    let x = memory_of(&owner);
    let borrow = x.borrow(&e).unwrap().unwrap();
    e.prepare().build().unwrap().submit(&[], &[]).unwrap();
    drop((x, borrow));
    drain(&e);
    drain(&owner);
    assert_eq!((owner.cached(), owner.stats().returning_bytes), (0, LEN), "e:1 holds the mapping");
    e.wait(1).unwrap();
    drain(&e);
    assert_eq!((e.control.count(Call::Release), owner.cached()), (1, LEN));
}

#[test]
fn s4_11_a_settling_device_ends_its_mappings() {
    let d = Script::new("s4_11 settles").stops(Answer::WhenTold).open();
    let h = host_buffer(LEN);
    let borrow = h.borrow(&d).unwrap().unwrap();
    d.device_lost("unplugged");
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 0, "work of d may still run");
    d.control.answer_stop();
    d.close().unwrap();
    assert_eq!((d.control.count(Call::Release), d.control.mappings_live()), (1, 0));
    drop(borrow);
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 1, "once");
    h.write(|_| ()).unwrap();
}

#[test]
fn s4_11_a_borrow_over_a_dropped_original_serves() {
    let d = Script::new("s4_11 original").open();
    let h = host_buffer(LEN);
    h.fill(6).unwrap();
    let borrow = h.borrow(&d).unwrap().unwrap();
    drop(h);
    drain(&host());
    let x = d.create_buffer(LEN).unwrap();
    rig::copy(&borrow, &x).unwrap();
    assert_eq!((bytes_of(&x)[0], bytes_of(&borrow)[9]), (6, 6));
}

#[test]
fn s4_11_unmapping_races_settle_to_one() {
    let d = Script::new("s4_11 races").silent().open();
    let h = host_buffer(LEN);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..500 {
                    let borrow = h.borrow(&d).unwrap().expect("d maps host memory");
                    drop(borrow);
                    drain(&d);
                }
            });
        }
    });
    drain(&d);
    assert_eq!(d.control.mappings_live(), 0);
    assert_eq!(d.control.count(Call::ImportHost), d.control.count(Call::Release));
}
