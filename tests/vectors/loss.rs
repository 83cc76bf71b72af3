//! Vectors D, E, F and G: device d is lost in the middle of vectors A and B.

use crate::copies::{a_up_to_row_5, b_up_to_row_1};
use crate::scene::{N, Scene, cell, last_float, mapped_by};
use rig::{Buffer, Device, Error, copy, host};
use rig_support::uses::{
    CLAIMS, EXPORT, FILL, Named, READ, READS, WRITE, WRITES, are_lost, is_lost, succeed,
};
use rig_support::{Answer, Opened, Script, Sleep, drain};

/// Loses d in its next sleep, which runs nothing.
fn fault_in_next_sleep(scene: &Scene) {
    scene.d.control.sleeps([Sleep::Fault("unplugged".into())]);
}

/// Ends the stop of d, and waits for that.
fn settle(scene: &Scene) {
    scene.d.control.answer_stop();
    scene.d.close().unwrap();
    assert!(scene.d.is_settled());
}

/// Copies through the halves of the scene to another device; answers how S0 is mapped and stamped.
fn staged_copy_of_another(scene: &Scene) -> (u64, String) {
    let e = scene.other(Script::new("e"));
    let (from, to) = (host().create_buffer(N).unwrap(), e.create_buffer(N).unwrap());
    from.fill(7).unwrap();
    copy(&from, &to).unwrap();
    let half = e.half_stamps(0, 0).expect("the copy went through a half");
    let seen = (mapped_by(&e)[0], cell(&half, &e));
    let mut bytes = [0; 4];
    to.blit_to(N - 4, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4]);
    seen
}

/// Every call on H that the vectors name but its export, which changes later answers.
fn all_calls() -> Vec<Named> {
    [&READS[..], &WRITES, &CLAIMS, &[READ, WRITE]].concat()
}

fn open_again(name: &str) -> rig::Result<Device> {
    let (driver, _) = Script::new(name).build();
    Device::open(name, rig::Opener::new("scripted", move || Ok(driver)))
}

#[test]
fn s14_d_a_device_is_lost_with_work_reached_and_work_not() {
    let mut scene = Scene::new(|d| d.stops(Answer::WhenTold));
    let half = a_up_to_row_5(&mut scene);
    scene.d.control.fault("unplugged");

    is_lost("wait(2)", scene.d.wait(2), "d");
    is_lost("wait(1)", scene.d.wait(1), "d");
    is_lost("create", scene.d.create_buffer(N), "d");
    is_lost("submit", scene.double(), "d");
    is_lost("borrow on d", scene.h().borrow(&scene.d), "d");
    is_lost("copy X -> H", copy(scene.x(), scene.h()), "d");
    are_lost(scene.x(), &[&READS[..], &WRITES, &CLAIMS, &[FILL]].concat(), "d");

    assert_eq!(last_float(scene.h()).unwrap(), 65_535.0);
    succeed(scene.h(), &all_calls());

    assert_eq!((scene.x().len(), scene.x().spans(), scene.x().dead()), (N, true, None));
    assert_eq!(scene.row()[1..], ["d:2; d:2", "-; d:1", "2"]);
    assert_eq!((scene.d.submitted(), scene.d.reached()), (2, 1));

    assert_eq!(staged_copy_of_another(&scene), (half, "-; e:1".into()));

    scene.drop_x();
    drain(&scene.d);
    assert_eq!(scene.d.held(), N, "work of d may still run");
    let refused = open_again("d").unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    settle(&scene);
    drain(&scene.d);
    assert_eq!(scene.d.held(), 0);
    let again = open_again("d").unwrap();
    assert_eq!((again.submitted(), again == scene.d.device), (0, false));
    again.close().unwrap();
}

#[test]
fn s14_e_a_device_is_lost_in_a_copy_out_through_a_half() {
    let mut scene = Scene::new(|d| d.stops(Answer::WhenTold));
    let half = a_up_to_row_5(&mut scene);
    scene.d.wait(2).unwrap();
    fault_in_next_sleep(&scene);
    is_lost("that copy", copy(scene.x(), scene.h()), "d");
    assert_eq!((scene.d.submitted(), scene.d.reached()), (3, 2));
    assert_eq!(last_float(scene.h()).unwrap(), 65_535.0);
    succeed(scene.h(), &all_calls());
    are_lost(scene.x(), &[&READS[..], &WRITES, &CLAIMS, &[FILL]].concat(), "d");

    assert_eq!(scene.row()[2], "d:3; d:3");
    let (mapped, stamps) = staged_copy_of_another(&scene);
    assert_ne!(mapped, half, "S0 was replaced");
    assert_eq!(stamps, "-; e:1");
    settle(&scene);
}

#[test]
fn s14_f_a_device_is_lost_while_it_writes_host_memory() {
    let mut scene = Scene::new(|d| d.stops(Answer::WhenTold));
    let e = scene.other(Script::new("e"));
    let hb = b_up_to_row_1(&mut scene);
    let older = scene.h().borrow(&e).unwrap().unwrap();
    let export = scene.h().export().unwrap();
    copy(&hb, scene.x()).unwrap();
    scene.double().unwrap();
    scene.d.wait(2).unwrap();
    fault_in_next_sleep(&scene);
    is_lost("that copy", copy(scene.x(), &hb), "d");
    assert_eq!(scene.row()[0], "d:3; d:3");

    let submit = |buffer: &Buffer| {
        let to = e.create_buffer(N).unwrap();
        e.prepare().copy(buffer, &to).build().and_then(|work| work.submit(&[], &[]))
    };
    let all_lost = |scene: &Scene| {
        are_lost(scene.h(), &[all_calls(), vec![FILL, EXPORT]].concat(), "d");
        are_lost(&hb, &all_calls(), "d");
        is_lost("borrow of H", scene.h().borrow(&e), "d");
        is_lost("submit reading H", submit(&older), "d");
    };
    all_lost(&scene);
    let mut seen = [0_u8; 4];
    export.copy_out(N - 4, &mut seen).unwrap();
    assert!([65_535.0, 131_070.0].contains(&f32::from_le_bytes(seen)));
    settle(&scene);
    all_lost(&scene);
    let again = open_again("d").unwrap();
    all_lost(&scene);
    again.close().unwrap();

    let live = host().stats().live_bytes;
    drop((hb, older, export));
    scene.h = None;
    drain(&e);
    drain(&host());
    let stats = host().stats();
    assert_eq!((stats.live_bytes, stats.returning_bytes), (live - N, 0));
}

/// Calls on H that only the last write concerns, the submission of another device among them.
fn reads_of_h_succeed(scene: &Scene, e: &Opened, older: &Buffer) {
    succeed(scene.h(), &[&READS[..], &[READ]].concat());
    assert_eq!(last_float(scene.h()).unwrap(), 65_535.0);
    let to = e.create_buffer(N).unwrap();
    let work = e.prepare().copy(older, &to).build().unwrap();
    work.submit(&[], &[]).unwrap().wait().unwrap();
}

#[test]
fn s14_g_a_device_is_lost_while_it_reads_host_memory() {
    let mut scene = Scene::new(|d| d.stops(Answer::WhenTold));
    let e = scene.other(Script::new("e"));
    let hb = b_up_to_row_1(&mut scene);
    let older = scene.h().borrow(&e).unwrap().unwrap();
    fault_in_next_sleep(&scene);
    is_lost("that copy", copy(&hb, scene.x()), "d");
    assert_eq!(scene.row()[0], "-; d:1");

    reads_of_h_succeed(&scene, &e, &older);
    are_lost(scene.h(), &[&WRITES[..], &CLAIMS, &[WRITE, FILL, EXPORT]].concat(), "d");
    is_lost("borrow of H", scene.h().borrow(&e), "d");
    are_lost(&hb, &all_calls(), "d");

    settle(&scene);
    reads_of_h_succeed(&scene, &e, &older);
    succeed(scene.h(), &[&WRITES[..], &CLAIMS, &[WRITE, FILL, EXPORT]].concat());
    scene.h().borrow(&e).unwrap().expect("e maps host memory");
    are_lost(&hb, &all_calls(), "d");
}
