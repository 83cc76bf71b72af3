//! Devices and their facts (S1).

use crate::bench::{misuse, unsupported};
use rig::bytes::page_bytes;
use rig::driver::{Addressed, Facts, Fault, Queue};
use rig::{Device, Kind, Misuse, Opener, copy, file, host, memory};
use rig_support::{Answer, Call, Script};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn s1_1_the_host_is_open_never_lost_and_closing_it_is_misuse() {
    assert_eq!((host().name(), host().id().index()), ("CPU", 0));
    assert_eq!(misuse(host().close()), Misuse::HostClose);
    host().device_lost("no host is lost");
    assert_eq!(host().lost(), None);
    host().create_buffer(1).unwrap();
}

#[test]
fn s1_1_work_of_the_host_takes_no_value() {
    let (from, to) = (host().create_buffer(64).unwrap(), host().create_buffer(64).unwrap());
    copy(&from, &to).unwrap();
    from.fill(1).unwrap();
    assert_eq!((host().submitted(), host().reached()), (0, 0));
    assert_eq!(misuse(host().wait(1)), Misuse::NotSubmitted { value: 1, submitted: 0 });
    unsupported(host().prepare().fill(&from, 1).build());
}

#[test]
fn s1_2_an_open_name_answers_the_same_device_without_its_opener() {
    let d = Script::new("s1_2 same").open();
    let ran = Arc::new(AtomicU64::new(0));
    let opener = Opener::new("scripted", {
        let ran = Arc::clone(&ran);
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
            Err(Fault::new("it is open"))
        }
    });
    assert!(Device::open("s1_2 same", opener).unwrap() == d.device);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[test]
fn s1_2_a_name_of_another_driver_is_taken() {
    let _d = Script::new("s1_2 taken").open();
    assert_eq!(misuse(memory::open("s1_2 taken")), Misuse::NameTaken { driver: "scripted" });
    assert_eq!(misuse(memory::open("CPU")), Misuse::NameTaken { driver: "host" });
}

#[test]
fn s1_3_a_lost_name_opens_anew_once_its_stop_returned() {
    let d = Script::new("s1_3").stops(Answer::WhenTold).open();
    let x = d.create_buffer(64).unwrap();
    x.fill(1).unwrap();
    d.device_lost("unplugged");
    let open = || {
        let (driver, _) = Script::new("s1_3").build();
        Device::open("s1_3", Opener::new("scripted", move || Ok(driver)))
    };
    unsupported(open());
    d.control.answer_stop();
    d.close().unwrap();
    let again = open().unwrap();
    assert!(again != d.device && again.id() != d.id());
    assert_eq!((again.submitted(), again.lost()), (0, None));
    again.close().unwrap();
}

#[test]
fn s1_3_a_name_is_free_once_its_stop_returned_though_nobody_waits_for_that() {
    let d = Script::new("s1_3 unwatched").stops(Answer::WhenTold).open();
    d.device_lost("unplugged");
    d.control.answer_stop();
    // The next to ask for the name finds the stop over.
    let again = Script::new("s1_3 unwatched").open();
    assert!(again.device != d.device);
}

#[test]
fn s1_6_dropping_devices_closes_nothing() {
    let m = memory::open("s1_6").unwrap();
    m.prepare().build().unwrap().submit(&[], &[]).unwrap();
    drop(m);
    let m = memory::open("s1_6").unwrap();
    assert_eq!((m.submitted(), m.lost()), (1, None));
    m.close().unwrap();
}

#[test]
fn s1_7_the_facts_are_those_of_the_table() {
    let m = memory::open("s1_7 memory").unwrap();
    let files = file::open("s1_7 files").unwrap();
    let row = |device: &Device| {
        let facts = device.facts();
        let maps_host = facts.import_align_bytes.is_some();
        (!facts.queues.is_empty(), facts.addressed, maps_host)
    };
    // The host's own memory needs no mapping of it.
    let (timeline, addressed, _) = row(&host());
    assert_eq!((timeline, addressed), (false, Addressed::Always));
    assert_eq!(row(&m), (true, Addressed::Always, true));
    assert_eq!(row(&files), (false, Addressed::Never, false));
    m.close().unwrap();
    files.close().unwrap();
}

#[test]
fn s1_7_facts_are_fixed_at_open() {
    let mut expected: Option<Facts> = None;
    let d = Script::new("s1_7 fixed").facts(|facts| {
        (facts.hang_ms, facts.pinned, facts.grain_bytes) = (Some(250), true, 4);
        expected = Some(facts.clone());
    });
    let d = d.open();
    d.set_budget(1 << 20).unwrap();
    assert_eq!(Some(d.facts()), expected.as_ref());
    let pinned = d.create_buffer_in(Kind::Pinned, 4).unwrap();
    pinned.write(|bytes| bytes.fill(1)).unwrap();
}

#[test]
fn s1_8_the_copy_queue_is_the_first_later_one_that_copies() {
    let only = |launches, copies| Queue { launches, copies, fills: false };
    let (all, launches, copies, none) =
        (only(true, true), only(true, false), only(false, true), only(false, false));
    let of = |queues: &[Queue]| {
        let mut facts = Facts::host("queues");
        facts.queues = queues.to_vec();
        facts.copy_queue()
    };
    assert_eq!(of(&[all]), Some(0));
    assert_eq!(of(&[all, all, all]), Some(1));
    assert_eq!(of(&[all, launches, copies]), Some(2));
    assert_eq!(of(&[copies, launches]), Some(0));
    assert_eq!(of(&[launches, none]), None);
    assert_eq!(of(&[]), None);
}

#[test]
fn s1_8_a_queue_that_claims_copies_and_runs_none_refuses_the_open() {
    let two = Script::new("s1_8 idle").queues([Queue::ALL, Queue::ALL]);
    let (driver, control) = two.idle_copies(1).build();
    let open = Device::open("s1_8 idle", Opener::new("scripted", move || Ok(driver)));
    let why = unsupported(open);
    assert!(why.contains("queue 1 claims copies"), "{why}");
    control.check_returned();
}

#[test]
fn s1_9_memory_addressed_only_while_mapped_is_for_the_host_alone() {
    let d = Script::new("s1_9 host").addressed(Addressed::WhileMapped).open();
    let e = memory::open("s1_9 other").unwrap();
    let x = d.create_buffer(page_bytes()).unwrap();
    unsupported(x.export());
    assert!(x.borrow(&e).unwrap().is_none());
    let on_host = x.borrow(&host()).unwrap().expect("the host addresses it");
    on_host.write(|bytes| bytes.fill(3)).unwrap();
    x.read(|bytes| assert!(bytes.iter().all(|&byte| byte == 3))).unwrap();
    // Routes take it as host-addressed: the host moves the bytes.
    copy(&x, &host().create_buffer(page_bytes()).unwrap()).unwrap();
    assert_eq!(d.submitted(), 0);
    e.close().unwrap();
}

#[test]
fn s1_9_it_is_mapped_once_for_all_accesses_together() {
    let d = Script::new("s1_9 once").addressed(Addressed::WhileMapped).open();
    let x = d.create_buffer(64).unwrap();
    let nested = x.read(|_| x.view(8, 8).unwrap().read(|bytes| bytes.len()).unwrap()).unwrap();
    assert_eq!(nested, 8);
    x.write(|_| ()).unwrap();
    let begun = d.control.calls(Call::BeginAccess);
    assert!(begun.iter().all(|entry| entry.region == begun[0].region));
    assert_eq!(d.control.count(Call::EndAccess), 0, "nothing needed the map's end");
}

#[test]
fn s1_9_an_access_may_wait_for_all_uses() {
    let d = Script::new("s1_9 uses").addressed(Addressed::WhileMapped).open();
    let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
    x.fill(5).unwrap();
    d.prepare().copy(&x, &y).build().unwrap().submit(&[], &[]).unwrap();
    assert_eq!((d.submitted(), d.reached()), (1, 0), "x is only read by d:1");
    x.read(|bytes| assert_eq!(bytes, [5; 64])).unwrap();
    assert_eq!(d.reached(), 1);
}

#[test]
fn s1_9_before_a_hand_over_the_map_ends() {
    let d = Script::new("s1_9 unmap").addressed(Addressed::WhileMapped).open();
    let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
    x.write(|bytes| bytes.fill(5)).unwrap();
    d.prepare().copy(&x, &y).build().unwrap().submit(&[], &[]).unwrap();
    let calls = d.control.log();
    let at = |call| calls.iter().position(|entry| entry.call == call).unwrap();
    assert!(at(Call::EndAccess) < at(Call::HandOver));
    y.read(|bytes| assert_eq!(bytes, [5; 64])).unwrap();
}

#[test]
fn s1_9_device_work_that_only_reads_meets_an_access_too() {
    let mapped = Script::new("s1_9 mapped").addressed(Addressed::WhileMapped).open();
    let always = Script::new("s1_9 always").addressed(Addressed::Always).open();
    for (d, refused) in [(&mapped, Some(Misuse::Busy)), (&always, None)] {
        let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
        let work = d.prepare().copy(&x, &y).build().unwrap();
        let submitted = x.read(|_| work.submit(&[], &[])).unwrap();
        assert_eq!(submitted.err().and_then(|error| error.misuse().cloned()), refused);
    }
}

#[test]
fn s1_13_default_budgets_are_unbounded_or_what_the_driver_reports() {
    let m = memory::open("s1_13 memory").unwrap();
    let d = Script::new("s1_13").facts(|facts| facts.default_budget_bytes = 12_345).open();
    assert_eq!((host().budget(), m.budget(), d.budget()), (u64::MAX, u64::MAX, 12_345));
    m.close().unwrap();
}

#[test]
fn s1_13_a_hang_bound_of_0_is_misuse_and_none_the_default() {
    assert_eq!(memory::open("s1_13 none").unwrap().facts().hang_ms, None);
    let (driver, _) = Script::new("s1_13 zero").facts(|facts| facts.hang_ms = Some(0)).build();
    let open = Device::open("s1_13 zero", Opener::new("scripted", move || Ok(driver)));
    assert_eq!(misuse(open), Misuse::Zero { what: "the hang bound" });
}
