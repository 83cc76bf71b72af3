//! S8.1 and S8.2: what a prepared submission is, and what it refuses.

use crate::bench::{buffer_of, bytes_of, misuse, pattern, unsupported};
use rig::driver::{Addressed, Queue};
use rig::memory::{Call as Launched, function};
use rig::{Misuse, host, run, wrap_shared};
use rig_support::{Call, Opened, Script, drain};
use std::sync::{Arc, Mutex};

/// A device whose memory the host addresses, so that tests see and set its bytes.
fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

#[test]
fn s8_1_parts_run_in_their_order_on_fixed_and_run_buffers() {
    let d = open("s8.1 parts");
    let (x, y, z) =
        (buffer_of(&d, &pattern(8, 1)), d.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    let prepared = d
        .prepare()
        .label("parts")
        .copy(&x, run(0))
        .fill(run(1), 7)
        .after(0)
        .copy(run(0), &y)
        .after(0)
        .after(1)
        .build()
        .unwrap();
    let (a, b) = (d.create_buffer(8).unwrap(), d.create_buffer(16).unwrap());
    assert_eq!(prepared.submit(&[&a, &b], &[]).unwrap().value(), 1);
    d.control.run(1);
    assert_eq!((bytes_of(&a), bytes_of(&b)), (pattern(8, 1), vec![7; 16]));
    assert_eq!(prepared.submit(&[&z, &a], &[]).unwrap().value(), 2);
    d.control.run(1);
    assert_eq!(
        (bytes_of(&z), bytes_of(&a), bytes_of(&y)),
        (pattern(8, 1), vec![7; 8], pattern(8, 1))
    );
}

#[test]
fn s8_1_fixed_buffers_are_kept_alive_and_run_buffers_are_not() {
    let d = open("s8.1 kept");
    let x = buffer_of(&d, &[5; 600]);
    let prepared = d.prepare().copy(&x, run(0)).build().unwrap();
    drop(x);
    drain(&d);
    assert_eq!(d.cached(), 0);
    let y = d.create_buffer(600).unwrap();
    prepared.submit(&[&y], &[]).unwrap();
    d.control.run_all();
    assert_eq!(bytes_of(&y), [5; 600]);
    drop(y);
    drain(&d);
    assert_eq!(d.cached(), 640);
    drop(prepared);
    drain(&d);
    assert_eq!((d.cached(), d.control.prepared_live()), (1280, 0));
}

#[test]
fn s8_1_changing_the_callers_lists_later_changes_nothing() {
    let d = open("s8.1 lists");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let code = function("args", move |call: &Launched<'_>| {
        tell.lock().unwrap().push((call.args(), call.values::<u8>(0)));
    });
    let kernel = d.kernel(code).unwrap();
    let (mut args, mut buffers) = (vec![1, 2, 3], vec![buffer_of(&d, &[9])]);
    let builder = d.prepare().launch(&kernel, [1; 3]).args(&args).reads(&buffers[0]);
    let prepared = builder.build().unwrap();
    args.clear();
    buffers[0] = d.create_buffer(64).unwrap();
    prepared.submit(&[], &[]).unwrap();
    d.control.run_all();
    assert_eq!(*seen.lock().unwrap(), [(vec![1, 2, 3], vec![9])]);
}

#[test]
fn s8_2_prepare_refuses_what_can_never_run() {
    let queues = [Queue { launches: true, copies: false, fills: true }, Queue::ALL];
    let d = Script::new("s8.2").addressed(Addressed::Always).queues(queues).open();
    let e = open("s8.2 other");
    let (x, y) = (d.create_buffer(8).unwrap(), d.create_buffer(9).unwrap());
    let (foreign, dead) = (e.create_buffer(8).unwrap(), d.create_buffer(8).unwrap());
    dead.free().unwrap();
    let shared = wrap_shared(Arc::<[u8]>::from(vec![1; 64 << 10]));
    let copies = || d.prepare().copy(&x, &y.view(0, 8).unwrap());
    let cases = [
        (copies().after(0), Misuse::After { part: 0, after: 0 }),
        (copies().copy(&x, run(0)).after(2), Misuse::After { part: 1, after: 2 }),
        (copies().queue(2), Misuse::Queue { queue: 2, work: "copies" }),
        (copies().queue(0), Misuse::Queue { queue: 0, work: "copies" }),
        (d.prepare().copy(&x, &y), Misuse::LengthsDiffer { src_bytes: 8, dst_bytes: 9 }),
        (d.prepare().copy(&y.view(0, 5).unwrap(), &y.view(4, 5).unwrap()), Misuse::Overlap),
        (d.prepare().fill(&dead, 1), Misuse::Dead { why: "freed".into() }),
        (
            d.prepare().reads(&foreign),
            Misuse::WrongDevice { found: "s8.2 other".into(), wanted: "s8.2".into() },
        ),
        (
            d.prepare().writes(&shared),
            Misuse::WrongDevice { found: "CPU".into(), wanted: "s8.2".into() },
        ),
    ];
    d.control.clear_log();
    for (builder, wanted) in cases {
        assert_eq!(misuse(builder.build()), wanted);
    }
    copies().queue(1).build().unwrap();
    assert_eq!(
        (d.submitted(), d.control.count(Call::Prepare)),
        (0, 1),
        "a refused one is not made"
    );
}

#[test]
fn s8_2_work_that_writes_read_only_memory_is_refused() {
    let m = rig::memory::open("s8.2 read-only").unwrap();
    let shared = wrap_shared(Arc::<[u8]>::from([1; 8]));
    let b = shared.borrow(&m).unwrap().unwrap();
    assert_eq!(misuse(m.prepare().fill(&b, 1).build()), Misuse::ReadOnly);
    assert_eq!(misuse(m.prepare().writes(&b).build()), Misuse::ReadOnly);
    let reads = m.prepare().copy(&b, run(0)).build().unwrap();
    assert_eq!(
        misuse(m.prepare().fill(run(0), 1).build().unwrap().submit(&[&b], &[])),
        Misuse::ReadOnly
    );
    let x = m.create_buffer(8).unwrap();
    reads.submit(&[&x], &[]).unwrap();
    assert_eq!(bytes_of(&x), [1; 8]);
}

#[test]
fn s8_2_launch_arguments_have_a_bound_and_lie_where_the_host_addresses_them() {
    let d = Script::new("s8.2 args").open();
    let kernel = d.kernel(function("nothing", |_| {})).unwrap();
    let launch = || d.prepare().launch(&kernel, [1; 3]);
    launch().args(&[0; 4096]).build().unwrap();
    let too_many = |bytes| Misuse::Arguments { bytes, bytes_max: 4096 };
    assert_eq!(misuse(launch().args(&[0; 4097]).build()), too_many(4097));
    let unaddressed = d.create_buffer(16).unwrap();
    assert_eq!(misuse(launch().args_in(&unaddressed).build()), too_many(16));
    let h = host().create_buffer(64 << 10).unwrap().borrow(&d).unwrap().unwrap();
    assert_eq!(misuse(launch().args_in(&h).build()), too_many(64 << 10));
    let part = h.view(3, 4090).unwrap();
    launch().args(&[0; 6]).args_in(&part).build().unwrap();
    assert_eq!(misuse(launch().args(&[0; 7]).args_in(&part).build()), too_many(4097));
    let late = launch().args(&[0; 7]).args_in(run(0)).build().unwrap();
    assert_eq!(misuse(late.submit(&[&part], &[])), too_many(4097));
    assert_eq!(misuse(late.submit(&[&unaddressed], &[])), too_many(23));
    let point = late.submit(&[&h.view(0, 4089).unwrap()], &[]).unwrap();
    assert_eq!(h.stamps().uses, [point], "argument bytes are read");
    assert_eq!(h.stamps().write, None);
}

#[test]
fn s8_2_the_host_and_devices_of_files_take_no_submissions() {
    let files = rig::file::open("s8.2 files").unwrap();
    for device in [&host(), &files] {
        assert!(!unsupported(device.prepare().build()).is_empty());
        assert!(!unsupported(device.record_use(&[], &[])).is_empty());
        assert!(!unsupported(device.kernel(function("nothing", |_| {}))).is_empty());
    }
}
