//! A GPU that ends: by `wgpu::Device::destroy`, which a program can call at any time.

use crate::found::open;
use crate::interop::adopted;
use rig::wgpu::{handles, wgsl};
use rig::{Device, Error, Result, copy, host};
use rig_support::drain;
use rig_support::uses::{CLAIMS, FILL, Named, READS, WRITES, are_lost};
use std::time::{Duration, Instant};

fn is_lost<T: std::fmt::Debug>(answer: &Result<T>, device: &Device) -> bool {
    matches!(answer, Err(Error::Lost { device: lost, .. }) if **lost == *device.name())
}

fn destroy(device: &Device) {
    handles(device).unwrap().0.destroy();
}

#[test]
fn s2_9_work_submitted_after_a_destroy_is_lost_and_never_looks_done() {
    let Some(d) = open("destroyed before work") else { return };
    let x = d.create_buffer(64).unwrap();
    x.fill(1).unwrap();
    assert_eq!((d.submitted(), d.reached()), (1, 1));
    destroy(&d);
    let fill = d.prepare().fill(&x, 2).build().unwrap();
    // wgpu takes it without a word; the first look at it tells.
    let waited = fill.submit(&[], &[]).and_then(|point| point.wait());
    assert!(is_lost(&waited, &d));
    assert_eq!((d.submitted(), d.reached()), (2, 1));
    assert!(is_lost(&d.wait(1), &d) && is_lost(&d.create_buffer(4), &d));
}

#[test]
fn s12_1_after_a_loss_every_use_of_its_memory_is_lost_and_the_rest_works() {
    let Some(d) = open("destroyed under a copy") else { return };
    let (h, x) = (host().create_buffer(65_536).unwrap(), d.create_buffer(65_536).unwrap());
    h.fill(3).unwrap();
    copy(&h, &x).unwrap();
    destroy(&d);
    assert!(is_lost(&copy(&x, &h), &d));
    assert!(is_lost(&x.blit_to(0, &mut [0; 4]), &d));
    assert_eq!(h.read(|bytes| bytes[65_535]).unwrap(), 3);
    x.free().unwrap();
    d.close().unwrap();
    drain(&d);
    assert_eq!(d.held(), 0);
}

#[test]
fn s1_3_a_lost_name_opens_a_new_device_with_values_from_0() {
    let Some(d) = open("reopened") else { return };
    d.create_buffer(64).unwrap().fill(1).unwrap();
    destroy(&d);
    assert!(is_lost(&d.create_buffer(64).unwrap().fill(1), &d));
    d.close().unwrap();
    let e = open("reopened").unwrap();
    assert!(e != d && e.submitted() == 0);
    e.create_buffer(64).unwrap().fill(1).unwrap();
    assert_eq!(e.submitted(), 1);
}

#[test]
fn s0_7_a_wait_for_work_that_a_destroy_met_ends_within_a_second() {
    let Some(d) = open("destroyed under work") else { return };
    let x = d.create_buffer(32 << 20).unwrap();
    let fill = d.prepare().fill(&x, 7).build().unwrap();
    let points: Vec<_> = (0..8).map(|_| fill.submit(&[], &[]).unwrap()).collect();
    destroy(&d);
    let begun = Instant::now();
    // wgpu lets what it took come to its end; either answer is right.
    let waited = points[7].wait();
    assert!(waited.is_ok() || is_lost(&waited, &d));
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(is_lost(&x.blit_to(0, &mut [0; 4]), &d));
}

#[test]
fn s12_1_a_program_that_destroys_its_own_device_meets_errors_only() {
    for (name, first) in calls() {
        let Some((d, device, _, told)) = adopted(&format!("destroyed before {name}")) else {
            return;
        };
        let x = d.create_buffer(4096).unwrap();
        x.blit_from(1, &[1, 2, 3]).unwrap();
        device.destroy();
        // What no call to wgpu is made for may succeed until the loss is known.
        let answer = first(&x);
        let may = matches!(answer, Ok(()) | Err(Error::Lost { .. }));
        assert!(may, "{name} came to {answer:?}");
        assert!(is_lost(&x.blit_from(1, &[1, 2, 3]), &d));
        are_lost(&x, &calls(), d.name());
        assert!(is_lost(&d.create_buffer(8), &d) && d.lost().is_some());
        assert!(is_lost(&d.prepare().fill(&x, 1).build(), &d));
        assert!(is_lost(&d.kernel(wgsl("@compute @workgroup_size(1) fn f() {}", "f")), &d));
        x.free().unwrap();
        d.close().unwrap();
        assert!(told.lock().unwrap().is_empty(), "{name}: {:?}", told.lock().unwrap());
    }
}

#[test]
fn s12_1_the_first_work_of_its_kind_on_a_destroyed_device_is_lost_and_not_wrong() {
    let works: [Named; 4] = [
        ("fill", |x| x.device().prepare().fill(x, 7).build()?.submit(&[], &[])?.wait()),
        ("copy", |x| {
            let (from, to) = (x.view(1, 9)?, x.view(40, 9)?);
            x.device().prepare().copy(&from, &to).build()?.submit(&[], &[])?.wait()
        }),
        ("kernel", |x| {
            x.device().kernel(wgsl("@compute @workgroup_size(1) fn f() {}", "f")).map(drop)
        }),
        ("wrong kernel", |x| x.device().kernel(wgsl("fn f(", "f")).map(drop)),
    ];
    for (name, work) in works {
        let Some((d, device, _, told)) = adopted(&format!("destroyed before a first {name}"))
        else {
            return;
        };
        let x = d.create_buffer(64).unwrap();
        device.destroy();
        let answer = work(&x);
        assert!(is_lost(&answer, &d), "{name} came to {answer:?}");
        assert!(told.lock().unwrap().is_empty());
    }
}

/// Calls on a buffer that the host does not address.
fn calls() -> Vec<Named> {
    let lend: Named = ("lend", |x| rig::wgpu::lend(x).map(drop));
    [&READS[..], &WRITES, &CLAIMS, &[FILL, lend]].concat()
}
