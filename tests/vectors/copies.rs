//! Vectors A, B and C: copies to a device and back, with staging, a borrow, and neither.

use crate::scene::{N, Scene, address, last_float};
use rig::bytes::page_bytes;
use rig::driver::Addressed;
use rig::{copy, host};
use rig_support::{Call, Opened, drain};

/// Rows 1 to 5 of vector A: d does not address the host's memory, but maps it. Answers where the
/// half that it maps lies.
pub(crate) fn a_up_to_row_5(scene: &mut Scene) -> u64 {
    scene.create_h();
    assert_eq!(scene.row(), ["-; -", "", "", "0"]);
    assert!(address(scene.h()).is_multiple_of(page_bytes()));
    scene.create_x();
    assert_eq!(scene.row(), ["-; -", "-; -", "", "0"]);
    assert_eq!(scene.d.held(), N);
    scene.store();
    assert_eq!(scene.row(), ["-; -", "-; -", "", "0"]);
    copy(scene.h(), scene.x()).unwrap();
    assert_eq!(scene.row(), ["-; -", "d:1; d:1", "-; d:1", "1"]);
    assert_eq!(scene.d.reached(), 1);
    let halves = scene.d.control.calls(Call::ImportHost);
    assert_eq!(halves.iter().map(|half| half.bytes).collect::<Vec<_>>(), [scene.half_bytes]);
    let half = halves[0].region.1;
    assert_ne!(half, address(scene.h()));
    scene.d.control.clear_log();
    scene.double().unwrap();
    assert_eq!(scene.row(), ["-; -", "d:2; d:2", "-; d:1", "2"]);
    assert_eq!((scene.count(Call::Block), scene.d.reached()), (0, 1));
    assert_eq!(foreign_waits(&scene.d), [0]);
    half
}

/// Rows 1 to 3 of vector B: as A, through a borrow of H on d.
pub(crate) fn b_up_to_row_1(scene: &mut Scene) -> rig::Buffer {
    scene.create_h();
    scene.create_x();
    scene.store();
    let hb = scene.h().borrow(&scene.d).unwrap().expect("d maps host memory");
    assert_eq!(scene.row(), ["-; -", "-; -", "", "0"]);
    let maps = scene.d.control.calls(Call::ImportHost);
    assert_eq!(
        maps.iter().map(|map| (map.region.1, map.bytes)).collect::<Vec<_>>(),
        [(address(scene.h()), N)]
    );
    hb
}

/// Returns how many foreign points each submission so far waits for.
fn foreign_waits(device: &Opened) -> Vec<u64> {
    device.control.calls(Call::HandOver).iter().map(|entry| entry.bytes).collect()
}

#[test]
fn s14_a_copies_through_a_half() {
    let mut scene = Scene::new(|d| d);
    a_up_to_row_5(&mut scene);
    scene.d.wait(2).unwrap();
    assert_eq!((scene.d.submitted(), scene.d.reached()), (2, 2));

    scene.d.control.gate();
    std::thread::scope(|threads| {
        let copying = threads.spawn(|| copy(scene.x(), scene.h()));
        scene.d.control.await_sleeper();
        assert_eq!(last_float(scene.h()).unwrap(), 65_535.0, "H moves after d:3 is reached");
        scene.d.control.open_gate();
        copying.join().unwrap().unwrap();
    });
    assert_eq!(scene.row(), ["-; -", "d:2; d:3", "d:3; d:3", "3"]);
    assert_eq!(last_float(scene.h()).unwrap(), 131_070.0);
    assert_eq!(scene.row(), ["-; -", "d:2; d:3", "d:3; d:3", "3"]);

    scene.d.control.clear_log();
    copy(scene.h(), scene.x()).unwrap();
    assert_eq!(scene.row(), ["-; -", "d:4; d:4", "d:3; d:4", "4"]);
    assert_eq!(scene.count(Call::ImportHost), 0);

    scene.drop_x();
    drain(&scene.d);
    assert_eq!((scene.d.cached(), scene.d.submitted()), (N, 4));
    scene.d.control.clear_log();
    let cached_served = scene.d.stats().kind_counts[0];
    scene.create_x();
    assert_eq!(scene.row(), ["-; -", "-; -", "d:3; d:4", "4"]);
    assert_eq!((scene.count(Call::Alloc), scene.d.cached()), (0, 0));
    assert_eq!(scene.d.stats().kind_counts[0], cached_served + 1);

    let host_cached = host().cached();
    scene.h = None;
    drain(&host());
    assert_eq!(host().cached(), host_cached + N);
    assert_eq!((scene.count(Call::Block), scene.d.submitted()), (0, 4));
}

#[test]
fn s14_b_copies_through_a_borrow() {
    let mut scene = Scene::new(|d| d);
    let hb = b_up_to_row_1(&mut scene);
    copy(&hb, scene.x()).unwrap();
    assert_eq!(scene.row(), ["-; d:1", "d:1; d:1", "", "1"]);
    scene.double().unwrap();
    assert_eq!(scene.row(), ["-; d:1", "d:2; d:2", "", "2"]);
    copy(scene.x(), &hb).unwrap();
    assert_eq!(scene.row(), ["d:3; d:3", "d:2; d:3", "", "3"]);
    assert_eq!(last_float(scene.h()).unwrap(), 131_070.0);
    assert_eq!(scene.count(Call::ImportHost), 1);
    drop(hb);
    drain(&scene.d);
    assert_eq!(scene.count(Call::Release), 1);
}

#[test]
fn s14_b_5_a_read_of_h_waits_for_the_write_through_its_borrow() {
    let mut scene = Scene::new(|d| d);
    let hb = b_up_to_row_1(&mut scene);
    copy(&hb, scene.x()).unwrap();
    scene.double().unwrap();
    let back = scene.d.prepare().copy(scene.x(), &hb).build().unwrap();
    back.submit(&[], &[]).unwrap();
    assert_eq!(scene.row(), ["d:3; d:3", "d:2; d:3", "", "3"]);
    assert_eq!(scene.d.reached(), 1);
    assert_eq!(last_float(scene.h()).unwrap(), 131_070.0);
    assert_eq!(scene.d.reached(), 3);
}

#[test]
fn s14_b_6a_6b_a_mapping_in_use_ends_later_or_is_borrowed_again() {
    let mut scene = Scene::new(|d| d);
    let hb = b_up_to_row_1(&mut scene);
    copy(&hb, scene.x()).unwrap();
    scene.double().unwrap();
    copy(scene.x(), &hb).unwrap();
    scene.double().unwrap();
    assert_eq!((scene.d.submitted(), scene.d.reached()), (4, 3));
    drop(hb);
    drain(&scene.d);
    assert_eq!(scene.count(Call::Release), 0, "d:4 is not reached");

    scene.d.control.clear_log();
    let again = scene.h().borrow(&scene.d).unwrap().expect("the same mapping");
    assert_eq!((scene.count(Call::ImportHost), scene.count(Call::Release)), (0, 0));
    scene.d.wait(4).unwrap();
    drain(&scene.d);
    assert_eq!(scene.count(Call::Release), 0, "a borrow revived the mapping");

    scene.double().unwrap();
    drop(again);
    drain(&scene.d);
    assert_eq!(scene.count(Call::Release), 0, "d:5 is not reached");
    scene.d.wait(5).unwrap();
    drain(&scene.d);
    assert_eq!(scene.count(Call::Release), 1);
}

#[test]
fn s14_c_copies_by_the_host() {
    let mut scene = Scene::new(|d| d.addressed(Addressed::Always));
    scene.create_h();
    scene.create_x();
    scene.store();
    copy(scene.h(), scene.x()).unwrap();
    assert_eq!(scene.row(), ["-; -", "-; -", "", "0"]);
    scene.double().unwrap();
    assert_eq!(scene.row(), ["-; -", "d:1; d:1", "", "1"]);
    assert_eq!(scene.d.reached(), 0);
    copy(scene.x(), scene.h()).unwrap();
    assert_eq!(scene.row(), ["-; -", "d:1; d:1", "", "1"]);
    assert_eq!(scene.d.reached(), 1);
    assert_eq!(last_float(scene.h()).unwrap(), 131_070.0);
    assert_eq!((scene.count(Call::ImportHost), scene.count(Call::HandOver)), (0, 1));
}
