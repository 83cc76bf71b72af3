//! Code: loaded, kept, and written into device memory.

use crate::bench::{buffer_of, bytes_of, misuse};
use rig::driver::Addressed;
use rig::memory::{Call as Launched, function};
use rig::{Device, Kernel, Misuse};
use rig_support::{Answer, Opened, Script, double, drain};

/// Loads code that needs device memory.
fn with_code(name: &str, change: impl FnOnce(Script) -> Script) -> (Opened, rig::Result<Kernel>) {
    let d = change(Script::new(name).addressed(Addressed::Always).code_bytes(1000)).open();
    let kernel = d.device.kernel(function("adds", |call: &Launched<'_>| {
        call.update::<u8>(0, |bytes| bytes.iter_mut().for_each(|byte| *byte += 1));
    }));
    (d, kernel)
}

fn live(device: &Device) -> u64 {
    device.stats().live_bytes
}

#[test]
fn s2_1_code_in_device_memory_takes_one_value_and_is_charged() {
    let (d, kernel) = with_code("s2.1 code", |script| script);
    let kernel = kernel.unwrap();
    assert_eq!((d.submitted(), d.reached(), live(&d)), (1, 1, 1024));
    let x = buffer_of(&d, &[5; 8]);
    kernel.launch([1; 3]).writes(&x).submit().unwrap();
    drop(kernel);
    drain(&d);
    assert_eq!((live(&d), d.control.kernels_live()), (512, 1), "work still uses the code");
    d.control.run_all();
    drain(&d);
    assert_eq!((bytes_of(&x), d.control.kernels_live(), d.cached()), (vec![6; 8], 0, 1024));
}

#[test]
fn s8_1_a_prepared_launch_keeps_its_code() {
    let (d, kernel) = with_code("s8.1 code", |script| script);
    let x = buffer_of(&d, &[5; 8]);
    let prepared = d.prepare().launch(&kernel.unwrap(), [1; 3]).writes(&x).build().unwrap();
    drain(&d);
    prepared.submit(&[], &[]).unwrap();
    prepared.submit(&[], &[]).unwrap();
    d.control.run_all();
    assert_eq!(bytes_of(&x), [7; 8]);
}

#[test]
fn s8_2_code_that_the_driver_rejects_is_misuse() {
    let d = Script::new("s8.2 code").open();
    d.control.reject_next_load("line 3");
    let rejected = d.kernel(function("bad", |_| {}));
    assert_eq!(misuse(rejected), Misuse::Rejected { why: "line 3".into() });
    assert_eq!((d.submitted(), d.held()), (0, 0));
    double(&d);
}

#[test]
fn s10_6_code_that_finds_no_room_is_out_of_memory() {
    let (d, kernel) =
        with_code("s10.6 code", |script| script.facts(|facts| facts.default_budget_bytes = 999));
    assert!(matches!(kernel, Err(rig::Error::OutOfMemory { .. })));
    drain(&d);
    assert_eq!((d.submitted(), d.control.kernels_live()), (0, 0), "the code is unloaded");
}

#[test]
fn s8_2_a_load_may_be_answered_late() {
    let (d, kernel) = with_code("s8.2 late", |script| script.loads(Answer::AtService));
    let x = buffer_of(&d, &[1; 8]);
    kernel.unwrap().launch([1; 3]).writes(&x).submit().unwrap().wait().unwrap();
    assert_eq!(bytes_of(&x), [2; 8]);
}
