//! Vectors D to G of S14 on a GPU that its program destroys, held up by a gate in its queue.

use crate::bench::pattern;
use crate::found::{open, open_importing};
use crate::gate::Gate;
use crate::vectors::{N, cell, doubles, last_float, numbered};
use rig::wgpu::handles;
use rig::{Buffer, Device, Error, copy, host};
use rig_support::drain;
use rig_support::uses::{
    CLAIMS, EXPORT, FILL, Named, READ, READS, WRITE, WRITES, are_lost, is_lost, succeed,
};
use std::time::{Duration, Instant};

/// Every call on H that the vectors name but its export, which changes later answers.
fn all_calls() -> Vec<Named> {
    [&READS[..], &WRITES, &CLAIMS, &[READ, WRITE]].concat()
}

fn destroy(d: &Device) {
    handles(d).unwrap().0.destroy();
}

/// Runs a copy whose value the gate holds up, and destroys the device meanwhile.
fn lost_in_copy(d: &Device, src: &Buffer, dst: &Buffer) {
    let before = d.submitted();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy(src, dst));
        let begun = Instant::now();
        while d.submitted() == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "the copy hands nothing over");
            std::thread::yield_now();
        }
        destroy(d);
        is_lost("that copy", copying.join().unwrap(), d.name());
    });
}

/// Copies through the halves of another device.
fn staged_copy_of_another(e: &Device) {
    let (from, to) = (host().create_buffer(N).unwrap(), e.create_buffer(N).unwrap());
    from.write(|bytes| bytes.copy_from_slice(&pattern(N, 3))).unwrap();
    copy(&from, &to).unwrap();
    let mut bytes = vec![0; N as usize];
    to.blit_to(0, &mut bytes).unwrap();
    assert!(bytes == pattern(N, 3));
}

/// Lets the lost device's work run and end, and waits for the end of its stop.
fn settle(d: &Device, gate: Gate) {
    drop(gate);
    d.close().unwrap();
    assert!(d.is_settled());
}

#[test]
fn s14_d_a_device_is_destroyed_with_work_reached_and_work_not() {
    let (Some(d), Some(e)) = (open("vector d"), open("vector d, another")) else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    copy(&h, &x).unwrap();
    let double = doubles(&d, &x);
    let Some(gate) = Gate::shut(&d) else { return };
    double.submit(&[], &[]).unwrap();
    destroy(&d);

    is_lost("wait(2)", d.wait(2), d.name());
    is_lost("wait(1)", d.wait(1), d.name());
    is_lost("create", d.create_buffer(N), d.name());
    is_lost("submit", double.submit(&[], &[]), d.name());
    is_lost("borrow on d", h.borrow(&d), d.name());
    is_lost("copy X -> H", copy(&x, &h), d.name());
    are_lost(&x, &[&READS[..], &WRITES, &CLAIMS, &[FILL]].concat(), d.name());

    assert_eq!(last_float(&h), 65_535.0);
    succeed(&h, &all_calls());
    assert_eq!((x.len(), x.spans(), x.dead()), (N, true, None));
    assert_eq!((cell(Some(x.stamps()), &d), d.submitted(), d.reached()), ((2, 2), 2, 1));
    staged_copy_of_another(&e);

    drop((x, double));
    drain(&d);
    assert_eq!(d.held(), N, "work of d may still run");
    let refused = rig::wgpu::open(rig::wgpu::Options {
        name: d.name().into(),
        ..rig::wgpu::Options::default()
    });
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    settle(&d, gate);
    drain(&d);
    assert_eq!(d.held(), 0);
    let again = open("vector d").unwrap();
    assert_eq!((again.submitted(), again == d), (0, false));
    again.close().unwrap();
}

#[test]
fn s14_e_a_device_is_destroyed_in_a_copy_out_through_a_half() {
    let (Some(d), Some(e)) = (open("vector e"), open("vector e, another")) else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    copy(&h, &x).unwrap();
    doubles(&d, &x).submit(&[], &[]).unwrap().wait().unwrap();
    let Some(gate) = Gate::shut(&d) else { return };
    lost_in_copy(&d, &x, &h);
    assert_eq!((d.submitted(), d.reached()), (3, 2));
    assert_eq!(last_float(&h), 65_535.0, "H is as the host wrote it");
    succeed(&h, &all_calls());
    are_lost(&x, &[&READS[..], &WRITES, &CLAIMS, &[FILL]].concat(), d.name());
    staged_copy_of_another(&e);
    settle(&d, gate);
}

#[test]
fn s14_f_a_device_is_destroyed_while_it_writes_host_memory() {
    let [d, e] = ["vector f", "vector f, another"].map(open_importing);
    let (Some(d), Some(e)) = (d, e) else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    let hb = h.borrow(&d).unwrap().expect("the device maps host memory");
    let older = h.borrow(&e).unwrap().expect("the other maps it too");
    let export = h.export().unwrap();
    copy(&hb, &x).unwrap();
    doubles(&d, &x).submit(&[], &[]).unwrap().wait().unwrap();
    let Some(gate) = Gate::shut(&d) else { return };
    lost_in_copy(&d, &x, &hb);
    assert_eq!(cell(Some(h.stamps()), &d), (3, 3));

    let submit = |buffer: &Buffer| {
        let to = e.create_buffer(N).unwrap();
        e.prepare().copy(buffer, &to).build().and_then(|work| work.submit(&[], &[]))
    };
    let all_lost = || {
        are_lost(&h, &[all_calls(), vec![FILL, EXPORT]].concat(), d.name());
        are_lost(&hb, &all_calls(), d.name());
        is_lost("borrow of H", h.borrow(&e), d.name());
        is_lost("submit reading H", submit(&older), d.name());
    };
    all_lost();
    let mut seen = [0_u8; 4];
    export.copy_out(N - 4, &mut seen).unwrap();
    assert!([65_535.0, 131_070.0].contains(&f32::from_le_bytes(seen)));
    settle(&d, gate);
    all_lost();
    let again = open_importing("vector f").unwrap();
    all_lost();
    again.close().unwrap();
    e.close().unwrap();
}

#[test]
fn s14_g_a_device_is_destroyed_while_it_reads_host_memory() {
    let [d, e] = ["vector g", "vector g, another"].map(open_importing);
    let (Some(d), Some(e)) = (d, e) else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    let hb = h.borrow(&d).unwrap().expect("the device maps host memory");
    let older = h.borrow(&e).unwrap().expect("the other maps it too");
    let Some(gate) = Gate::shut(&d) else { return };
    lost_in_copy(&d, &hb, &x);
    assert_eq!(cell(Some(h.stamps()), &d), (0, 1));

    let reads_succeed = || {
        succeed(&h, &[&READS[..], &[READ]].concat());
        assert_eq!(last_float(&h), 65_535.0);
        let to = e.create_buffer(N).unwrap();
        let work = e.prepare().copy(&older, &to).build().unwrap();
        work.submit(&[], &[]).unwrap().wait().unwrap();
    };
    reads_succeed();
    are_lost(&h, &[&WRITES[..], &CLAIMS, &[WRITE, FILL, EXPORT]].concat(), d.name());
    is_lost("borrow of H", h.borrow(&e), d.name());
    are_lost(&hb, &all_calls(), d.name());

    settle(&d, gate);
    reads_succeed();
    succeed(&h, &[&WRITES[..], &CLAIMS, &[WRITE, FILL, EXPORT]].concat());
    h.borrow(&e).unwrap().expect("the other maps host memory");
    are_lost(&hb, &all_calls(), d.name());
    e.close().unwrap();
}
