//! S0.8: in a reached wait, and in a prepared submit that does not wait, rig allocates nothing.

use crate::meter::{Alone, allocations};
use rig::{Buffer, Device, Point, Prepared, Use, host, run};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Memory devices, whose driver allocates nothing in a hand-over of fills.
fn devices(name: &str, count: usize) -> Vec<Device> {
    (0..count)
        .map(|at| rig::memory::open(&format!("{name} {at}")).expect("a memory device opens"))
        .collect()
}

/// Host memory that each device has used, the last one writing.
fn used_by(devices: &[Device]) -> Buffer {
    let h = host().create_buffer(64 << 10).expect("there is room");
    for device in devices {
        let b = h.borrow(device).expect("all is well").expect("it maps host memory");
        device.record_use(&[&b], &[]).expect("all is well");
        device.record_use(&[], &[&b]).expect("all is well");
    }
    h
}

#[test]
fn s0_8_a_reached_wait_on_a_value_or_a_point_allocates_nothing() {
    let _alone = Alone::new();
    let [device] = devices("s0.8 value", 1).try_into().unwrap();
    let point = device.record_use(&[], &[]).unwrap();
    let count = allocations(|| {
        for _ in 0..3 {
            device.wait(1).unwrap();
            device.wait(0).unwrap();
            point.wait().unwrap();
            assert!(point.is_reached());
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn s0_8_a_reached_wait_on_a_buffer_allocates_nothing_however_many_devices_used_it() {
    let _alone = Alone::new();
    for many in [0, 1, 2, 9, 40] {
        let h = used_by(&devices(&format!("s0.8 buffer {many}"), many));
        let view = h.view(3, 5).unwrap();
        let count = allocations(|| {
            h.wait(Use::Read).unwrap();
            h.wait(Use::Write).unwrap();
            view.wait(Use::Write).unwrap();
        });
        assert_eq!(count, 0, "{many} devices");
    }
}

#[test]
fn s0_8_a_reached_wait_in_its_async_form_allocates_nothing() {
    let _alone = Alone::new();
    let all = devices("s0.8 async", 3);
    let h = used_by(&all);
    let point = h.stamps().write.unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let count = allocations(|| {
        assert!(matches!(pin!(point.wait_async()).poll(&mut context), Poll::Ready(Ok(()))));
        let waiting = pin!(h.wait_async(Use::Write));
        assert!(matches!(waiting.poll(&mut context), Poll::Ready(Ok(()))));
    });
    assert_eq!(count, 0);
}

/// Counts the allocations of one more submit, after one that may have grown what it uses.
fn submits(prepared: &Prepared, run: &[&Buffer], waits: &[Point]) -> u64 {
    let submit = || assert!(prepared.submit(run, waits).is_ok());
    submit();
    allocations(submit)
}

#[test]
fn s0_8_a_prepared_submit_that_does_not_wait_allocates_nothing() {
    let _alone = Alone::new();
    let [device, other] = devices("s0.8 submit", 2).try_into().unwrap();
    let fixed: Vec<Buffer> = (0..13).map(|_| device.create_buffer(64).unwrap()).collect();
    let given: Vec<Buffer> = (0..13).map(|_| device.create_buffer(64).unwrap()).collect();
    let mut builder = device.prepare();
    for (at, buffer) in fixed.iter().enumerate() {
        builder = builder.fill(buffer, 1).reads(run(at));
    }
    let prepared = builder.build().unwrap();
    let given: Vec<&Buffer> = given.iter().collect();
    let waits = [device.record_use(&[], &[]).unwrap(), other.record_use(&[], &[]).unwrap()];
    assert_eq!(submits(&prepared, &given, &[]), 0, "26 buffers");
    assert_eq!(submits(&prepared, &given, &waits), 0, "and reached points");
    let empty = device.prepare().build().unwrap();
    assert_eq!(submits(&empty, &[], &[]), 0);
}

#[test]
fn s0_8_the_first_submit_on_memory_that_others_used_allocates_nothing_either() {
    let _alone = Alone::new();
    let all = devices("s0.8 first", 4);
    let h = host().create_buffer(64 << 10).unwrap();
    let each: Vec<Prepared> = all
        .iter()
        .map(|device| {
            let b = h.borrow(device).unwrap().unwrap();
            device.prepare().fill(&b.view(0, 8).unwrap(), 1).build().unwrap()
        })
        .collect();
    for (at, prepared) in each.iter().enumerate() {
        let count = allocations(|| assert!(prepared.submit(&[], &[]).is_ok()));
        assert_eq!(count, 0, "device {at}");
    }
    assert_eq!(h.stamps().uses.len(), 4);
}
