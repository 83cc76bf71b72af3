//! The small vectors of S14.

use crate::scene::{N, Scene, alone, cell, set_half};
use rig::driver::Addressed;
use rig::{Bins, CacheOptions, Claims, Device, Misuse, Opener, Point, copy, host, memory, wrap};
use rig_support::uses::is_lost;
use rig_support::{Call, Known, Opened, Script};

const MIB: u64 = 1 << 20;

/// A device whose memory the host addresses, and which borrows any host memory.
fn addressed(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).maps_host(Some(1)).open()
}

#[test]
fn s14_the_point_word_of_device_3_value_7() {
    let point = Point::from_word(0x0003_0000_0000_0007).unwrap();
    assert_eq!((point.device_id().index(), point.value()), (3, 7));
    assert_eq!(point.word(), 0x0003_0000_0000_0007);
}

#[test]
fn s14_submissions_of_m_take_1_to_4() {
    let _alone = alone();
    let m = memory::open("M").unwrap();
    let x = m.create_buffer(64).unwrap();
    let y = m.create_buffer(64).unwrap();
    let once = m.prepare().fill(&x, 1).build().unwrap();
    let chain = m.prepare().fill(&x, 2).copy(&x, &y).after(0).build().unwrap();
    let empty = m.prepare().build().unwrap();
    let submitted = [&once, &once, &chain, &empty].map(|work| work.submit(&[], &[]).unwrap());
    assert_eq!(submitted.map(|point| point.to_string()), ["M:1", "M:2", "M:3", "M:4"]);
    assert_eq!((m.submitted(), m.reached()), (4, 4));
    let refused = m.wait(5).unwrap_err();
    assert_eq!(refused.misuse(), Some(&Misuse::NotSubmitted { value: 5, submitted: 4 }));
    m.close().unwrap();
}

#[test]
fn s14_a_part_on_b_copies_from_the_borrow_of_what_a_writes() {
    let _alone = alone();
    let (a, b) = (addressed("A"), addressed("B"));
    let (x, y) = (a.create_buffer(N).unwrap(), b.create_buffer(N).unwrap());
    let z = host().create_buffer(N).unwrap();
    let borrowed = x.borrow(&b).unwrap().expect("B maps host memory");
    let written = a.prepare().fill(&x, 7).build().unwrap().submit(&[], &[]).unwrap();
    let copied = b.prepare().copy(&borrowed, &y).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!([written, copied].map(|point| point.to_string()), ["A:1", "B:1"]);
    let handed = b.control.calls(Call::HandOver);
    assert_eq!(handed.iter().map(|entry| entry.bytes).collect::<Vec<_>>(), [1], "waits for A:1");
    assert_eq!(b.control.run_all(), 0, "A:1 has not run");
    copy(&y, &z).unwrap();
    assert_eq!((a.submitted(), b.submitted()), (1, 1));
    z.read(|bytes| assert!(bytes.iter().all(|&byte| byte == 7))).unwrap();

    let foreign = b.prepare().copy(&x, &y).build().unwrap_err();
    let (found, wanted) = ("A".into(), "B".into());
    assert_eq!(foreign.misuse(), Some(&Misuse::WrongDevice { found, wanted }));
}

#[test]
fn s14_a_fault_leaves_the_values_before_it_reached_and_other_devices_well() {
    let _alone = alone();
    let (a, b) = (addressed("A"), addressed("B"));
    let (x, z) = (a.create_buffer(N).unwrap(), host().create_buffer(N).unwrap());
    let work = a.prepare().fill(&x, 7).build().unwrap();
    work.submit(&[], &[]).unwrap().wait().unwrap();
    work.submit(&[], &[]).unwrap();
    a.control.fault("unplugged");
    is_lost("wait", a.wait(2), "A");
    assert_eq!((a.submitted(), a.reached()), (2, 1));
    is_lost("create", a.create_buffer(1), "A");
    is_lost("copy from x", copy(&x, &z), "A");
    let y = b.create_buffer(N).unwrap();
    b.prepare().fill(&y, 1).build().unwrap().submit(&[], &[]).unwrap().wait().unwrap();

    let again = addressed("A");
    assert_eq!((again.submitted(), again.device == a.device), (0, false));
}

#[test]
fn s14_a_donated_buffer_is_exclusive_and_its_old_name_dead() {
    let _alone = alone();
    let m = memory::open("M").unwrap();
    let y = m.create_buffer(64).unwrap();
    y.fill(7).unwrap();
    let taken = Claims::with(&[], &[&[&y]], |claims| {
        assert!(claims.is_exclusive(&y));
        claims.consume(&y, "donated").unwrap()
    });
    assert_eq!(y.dead().as_deref(), Some("donated"));
    taken.unwrap().read(|bytes| assert_eq!(bytes, [7; 64])).unwrap();
    m.close().unwrap();
}

#[test]
fn s14_what_is_claimed_a_view_wrapped_or_exported_is_never_exclusive() {
    let _alone = alone();
    let whole = host().create_buffer(128).unwrap();
    let candidates = [
        host().create_buffer(64).unwrap(),
        whole.view(64, 64).unwrap(),
        wrap(vec![0_u8; 64]),
        host().create_buffer(64).unwrap(),
    ];
    candidates.iter().for_each(|buffer| buffer.fill(7).unwrap());
    let claim = candidates[0].claim_read().unwrap();
    let export = candidates[3].export().unwrap();
    for buffer in &candidates {
        let is_exclusive = |claims: &Claims| claims.is_exclusive(buffer);
        assert!(!Claims::with(&[], &[&[buffer]], is_exclusive).unwrap(), "{buffer:?}");
        buffer.read(|bytes| assert_eq!(bytes, [7; 64])).unwrap();
    }
    drop((claim, export));
}

#[test]
fn s14_a_copy_of_96_mib_and_4_096_bytes_takes_four_pieces() {
    let _alone = alone();
    let half_bytes = 32 * MIB;
    let script = Script::new("d").facts(|facts| set_half(facts, half_bytes)).silent();
    let d = script.open();
    let len = 96 * MIB + 4_096;
    let (h, x) = (host().create_buffer(len).unwrap(), d.create_buffer(len).unwrap());
    let mark = |at: u64| [(at >> 12) as u8, (at >> 20) as u8, 3];
    let marks = [0, half_bytes - 3, half_bytes, 3 * half_bytes, len - 3];
    marks.iter().for_each(|&at| h.blit_from(at, &mark(at)).unwrap());
    copy(&h, &x).unwrap();
    assert_eq!((d.submitted(), d.reached()), (4, 4));
    assert_eq!(cell(&x.stamps(), &d), "d:4; d:4");
    let halves = [0, 1].map(|half| cell(&d.half_stamps(0, half).unwrap(), &d));
    assert_eq!(halves, ["-; d:3", "-; d:4"]);
    for at in marks {
        let mut seen = [0; 3];
        x.blit_to(at, &mut seen).unwrap();
        assert_eq!(seen, mark(at), "at {at}");
    }
}

#[test]
fn s14_a_use_by_another_device_is_waited_for_in_round_1() {
    let _alone = alone();
    let d = Script::new("d").open();
    let e = Script::new("e").peers(Known::Scripted).open();
    d.set_budget(N).unwrap();
    let x = d.create_buffer(N).unwrap();
    let borrowed = x.borrow(&e).unwrap().expect("e maps d's memory");
    let to = e.create_buffer(N).unwrap();
    let work = e.prepare().copy(&borrowed, &to).build().unwrap();
    work.submit(&[], &[]).unwrap();
    drop((x, borrowed, work));
    let allocs = d.control.count(Call::Alloc);
    e.control.gate();
    let served = std::thread::scope(|threads| {
        let creating = threads.spawn(|| d.create_buffer(N));
        e.control.await_sleeper();
        assert_eq!(d.held(), N);
        e.control.open_gate();
        creating.join().unwrap().unwrap()
    });
    assert_eq!(d.stats().kind_counts, [0, 1, 1, 0], "the second is of kind 3");
    assert_eq!((d.control.count(Call::Alloc), d.held()), (allocs, N));
    assert_eq!(cell(&served.stamps(), &d), "-; -");
}

#[test]
fn s14_a_use_by_the_device_itself_is_waited_for_by_nobody() {
    let mut scene = Scene::new(|d| d);
    scene.d.set_budget(N).unwrap();
    scene.create_x();
    scene.double().unwrap();
    scene.drop_x();
    let allocs = scene.count(Call::Alloc);
    scene.create_x();
    assert_eq!((scene.d.reached(), scene.count(Call::Block)), (0, 0));
    assert_eq!(scene.count(Call::Alloc), allocs);
    assert_eq!(scene.d.stats().kind_counts, [1, 1, 0, 0]);
    assert_eq!(scene.row()[1], "d:1; d:1");
}

/// Returns what a device is charged for a buffer of a length.
fn charged(device: &Device, len: u64) -> u64 {
    let buffer = device.create_buffer(len).unwrap();
    let held = device.held();
    drop(buffer);
    device.free_cache().unwrap();
    assert_eq!(device.held(), 0);
    held
}

#[test]
fn s14_bins_are_charged() {
    let _alone = alone();
    let m = memory::open("M").unwrap();
    let lens = [1, 513, 1_025, 65_537, 1_000_000, (1 << 26) + 1, 104_857_600, 104_857_601];
    let bins = [512, 576, 1_152, 73_728, 1_048_576, 75_497_472, 109_051_904, 104_857_601];
    assert_eq!(lens.map(|len| charged(&m, len)), bins);
    m.close().unwrap();
}

#[test]
fn s14_bins_of_powers_of_two_are_charged() {
    let _alone = alone();
    let mut options = CacheOptions::default();
    options.bins = Bins::Pow2;
    let opener: Opener = memory::opener(memory::Options::default());
    let m = Device::open_with("M", opener, options).unwrap();
    let charged = [1, 3, 1_025, 104_857_600].map(|len| charged(&m, len));
    assert_eq!(charged, [1, 4, 2_048, 134_217_728]);
    m.close().unwrap();
}
