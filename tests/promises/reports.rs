//! S11: the out-of-memory report, statistics and profiles. `allocated!`, `time!` and the statistics
//! at exit have tests of their own, in a process of their own.

use crate::bench::{buffer_of, bytes_of, finish, own_halves, pattern};
use rig::driver::Addressed;
use rig::{
    Buffer, DeviceStats, Error, Event, Hold, Kept, LabelTotal, Profile, Report, Result, Trace,
    What, copy, host, run,
};
use rig_support::{Answer, Call, Known, Opened, Script, drain};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const MIB: u64 = 1 << 20;

fn open(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

fn report(answer: Result<Buffer>) -> Arc<Report> {
    match answer {
        Err(Error::OutOfMemory { report, .. }) => report,
        other => panic!("{other:?} found room"),
    }
}

#[test]
fn s11_1_the_report_tells_what_was_asked_and_each_place_of_the_payers_books() {
    let d = open("s11.1 places");
    d.set_budget(4 * MIB).unwrap();
    let live = d.create_buffer(MIB).unwrap();
    let returning = d.create_buffer(2 * MIB).unwrap();
    d.record_use(&[&returning], &[]).unwrap();
    drop((returning, d.create_buffer(MIB / 2).unwrap()));
    drain(&d);
    let report = report(d.create_buffer_now(1_000_000));
    assert_eq!((report.asked_bytes, report.bin_bytes), (1_000_000, MIB));
    assert_eq!((&*report.payer, report.budget_bytes), ("s11.1 places", 4 * MIB));
    assert_eq!((report.live_bytes, report.returning_bytes), (MIB, 2 * MIB));
    assert_eq!((report.cached_bytes, report.largest_cached_bytes), (MIB / 2, MIB / 2));
    assert_eq!((report.staging_bytes, report.pinned_bytes), (0, 0));
    drop(live);
    d.control.run_all();
}

#[test]
fn s11_1_the_report_tells_the_10_greatest_live_totals_by_label() {
    let d = open("s11.1 labels");
    let mut kept = Vec::new();
    for label in 0..12_u64 {
        for _ in 0..2 {
            let len = 1024 * (label + 1);
            kept.push(d.buffer(len).label(format!("label {label}")).create().unwrap());
        }
    }
    kept.push(d.create_buffer(100 * 1024).unwrap());
    d.set_budget(d.held()).unwrap();
    let report = report(d.create_buffer(1));
    assert_eq!(report.labels.len(), 10);
    let first = LabelTotal { label: "".into(), bytes: 102_400 + 4096, count: 1 };
    assert_eq!(report.labels[0].label, first.label);
    let totals: Vec<_> =
        report.labels[1..].iter().map(|total| (&*total.label, total.bytes, total.count)).collect();
    let charged = |label: u64| 2 * bin(1024 * (label + 1));
    let wanted: Vec<_> =
        (3..12).rev().map(|label| (format!("label {label}"), charged(label), 2)).collect();
    let wanted: Vec<_> =
        wanted.iter().map(|(label, bytes, count)| (&**label, *bytes, *count)).collect();
    assert_eq!(totals, wanted);
    assert!(report.to_string().contains("labelled \"label 11\""));
}

/// What a length is charged: its bin.
fn bin(len: u64) -> u64 {
    let step = 1 << (63 - (len - 1).leading_zeros() - 3);
    len.next_multiple_of(step)
}

#[test]
fn s11_1_each_round_tells_what_it_could_not_return_by_reason() {
    let d = open("s11.1 reasons");
    let e = Script::new("s11.1 mapper").maps_host(Some(1)).open();
    let made = |at: u64| d.create_buffer(at * MIB).unwrap();
    let (live, claimed, exported, lent) = (made(1), made(2), made(4), made(8));
    let (_claim, _export) = (claimed.claim_read().unwrap(), exported.export().unwrap());
    lent.lend().unwrap();
    let mapped = made(16);
    let b = mapped.borrow(&e).unwrap().unwrap();
    d.set_budget(d.held()).unwrap();
    let report = report(d.create_buffer(MIB));
    let wanted = Kept {
        live_bytes: 17 * MIB,
        claimed_bytes: 2 * MIB,
        exported_bytes: 4 * MIB,
        lent_bytes: 8 * MIB,
        ..Kept::default()
    };
    assert_eq!(report.rounds.len(), 3);
    for round in &report.rounds {
        assert_eq!((&round.kept, round.returned_bytes), (&wanted, 0));
    }
    drop((b, mapped, live));
    lent.free().unwrap();
}

#[test]
fn s11_1_a_round_tells_what_a_lost_device_keeps_and_what_it_waited_for() {
    let d = own_halves(Script::new("s11.1 owner")).open();
    let e = Script::new("s11.1 lost").peers(Known::Scripted).stops(Answer::WhenTold).open();
    d.set_budget(2 * MIB).unwrap();
    let (x, y) = (d.create_buffer(MIB).unwrap(), d.create_buffer(MIB).unwrap());
    let b = x.borrow(&e).unwrap().unwrap();
    e.record_use(&[&b], &[]).unwrap();
    e.device_lost("on purpose");
    d.record_use(&[], &[&y]).unwrap();
    drop((x, b, y));
    let report = report(d.create_buffer(2 * MIB));
    assert_eq!(report.rounds[0].kept.lost_bytes, MIB, "{report}");
    assert!(report.to_string().contains("1 MiB used by a lost device"));
    assert_eq!(report.rounds.iter().map(|round| round.returned_bytes).sum::<u64>(), MIB);
}

#[test]
fn s11_1_a_round_tells_what_unreached_work_and_mappings_keep() {
    let d = own_halves(Script::new("s11.1 late owner")).open();
    let e = Script::new("s11.1 late user").peers(Known::Scripted).open();
    d.set_budget(7 * MIB).unwrap();
    let [early, used, mapped, live] = [1, 2, 3, 1].map(|at| d.create_buffer(at * MIB).unwrap());
    let on_e = [&early, &used, &mapped].map(|buffer| buffer.borrow(&e).unwrap().unwrap());
    let [on_early, late @ ..] = on_e;
    e.record_use(&[&on_early], &[]).unwrap();
    drop((early, on_early));
    e.record_use(&[&late[0]], &[]).unwrap();
    let (thread, slot) = (std::thread::current().id(), Mutex::new(Some((used, mapped, late))));
    let profile = Profile::with_sink(move |event| {
        // Dropped while round 1 waits for the first value: it does not wait for the second.
        if event.what == What::Wait && std::thread::current().id() == thread {
            drop(slot.lock().unwrap().take());
        }
    });
    let report = report(d.create_buffer(7 * MIB));
    drop(profile);
    let kept = &report.rounds[0].kept;
    assert_eq!(kept.unreached, [("s11.1 late user".into(), 2 * MIB)], "{report}");
    assert_eq!((kept.mapped_bytes, kept.live_bytes), (3 * MIB, MIB), "{report}");
    assert_eq!(report.rounds[2].kept, Kept { live_bytes: MIB, ..Kept::default() });
    assert!(report.to_string().contains("2 MiB unreached on s11.1 late user"), "{report}");
    drop(live);
}

#[test]
fn s11_2_statistics_count_each_create_return_and_driver_call() {
    let d = open("s11.2");
    let x = d.create_buffer(1000).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    let seen = d.stats();
    assert_eq!((seen.requested_count, seen.requested_bytes), (1, 1000));
    assert_eq!((seen.returned_count, seen.returned_bytes), (1, 1000), "unreachable counts");
    assert_eq!((seen.actual_count, seen.actual_bytes), (1, 1024));
    assert_eq!((seen.freed_count, seen.freed_bytes, seen.returning_bytes), (0, 0, 1024));
    d.control.run_all();
    d.create_buffer(900).unwrap().free().unwrap();
    d.set_budget(500).unwrap();
    assert!(d.create_buffer(501).is_err());
    let seen = d.stats();
    assert_eq!((seen.requested_count, seen.requested_bytes), (3, 2401), "failed ones too");
    assert_eq!((seen.returned_count, seen.returned_bytes), (2, 1900));
    assert_eq!((seen.freed_count, seen.freed_bytes), (1, 1024));
    assert_eq!(seen.kind_counts, [1, 1, 0, 0]);
    assert_eq!(seen.usage().bytes, 2401);
}

#[test]
fn s11_2_halves_which_nobody_created_do_not_count_as_returned() {
    let d = Script::new("s11.2 halves").maps_host(None).open();
    let x = d.create_buffer(64).unwrap();
    x.blit_from(0, &[1; 64]).unwrap();
    drop(x);
    d.close().unwrap();
    let seen = d.stats();
    assert_eq!((seen.requested_count, seen.returned_count), (1, 1), "{seen:?}");
}

#[test]
fn s11_2_peaks_reset_to_what_is_there() {
    let d = open("s11.2 peaks");
    let (x, y) = (d.create_buffer(4 * MIB).unwrap(), d.create_buffer(MIB).unwrap());
    drop(x);
    d.free_cache().unwrap();
    let peaks = |stats: DeviceStats| (stats.peak_held_bytes, stats.peak_live_bytes);
    assert_eq!(peaks(d.stats()), (5 * MIB, 5 * MIB));
    d.reset_peaks();
    assert_eq!(peaks(d.stats()), (MIB, MIB));
    drop(y);
    drain(&d);
    assert_eq!(peaks(d.stats()), (MIB, MIB));
}

#[test]
fn s11_2_the_sum_is_of_all_devices() {
    let d = open("s11.2 sum");
    let _x = d.create_buffer(MIB).unwrap();
    let all = rig::stats();
    let of_d = all.devices.iter().find(|device| &*device.name == "s11.2 sum").unwrap();
    assert_eq!(of_d.live_bytes, MIB);
    assert!(all.sum.live_bytes >= MIB && all.sum.requested_count >= of_d.requested_count);
}

#[test]
fn s11_2_time_in_drivers_is_part_of_the_time_and_nested_time_counts_once() {
    let d = open("s11.2 time");
    d.set_budget(MIB).unwrap();
    drop(d.create_buffer(MIB / 2).unwrap());
    drain(&d);
    let before = d.stats();
    d.control.gate_calls(Call::Alloc);
    let wall_ns = std::thread::scope(|threads| {
        let creating = threads.spawn(|| {
            let started = Instant::now();
            drop(d.create_buffer(MIB).unwrap());
            started.elapsed().as_nanos() as u64
        });
        d.control.await_calls(Call::Alloc, 2);
        // The driver's call, nested in a round, lasts for as long as this takes.
        let other = open("s11.2 meanwhile");
        (0..3000).for_each(|at| drop(other.create_buffer(at + 1).unwrap()));
        d.control.open_calls(Call::Alloc);
        creating.join().unwrap()
    });
    let stats = d.stats();
    let (total_ns, driver_ns) =
        (stats.total_ns - before.total_ns, stats.driver_ns - before.driver_ns);
    assert_eq!(stats.kind_counts, [0, 1, 0, 1]);
    assert!(driver_ns > wall_ns / 2, "{driver_ns} ns of {wall_ns} in the driver");
    assert!(driver_ns <= total_ns && total_ns <= wall_ns, "{driver_ns}, {total_ns}, {wall_ns}");
}

#[test]
fn s11_3_zero_bytes_count_nothing_and_freed_sizes_come_from_the_allocation() {
    let d = open("s11.3");
    let e = d.create_buffer(0).unwrap();
    e.free().unwrap();
    assert_eq!(d.stats().requested_count + d.stats().returned_count, 0);
    let x = d.create_buffer(1000).unwrap();
    let view = x.view(10, 5).unwrap();
    drop(x);
    view.free().unwrap();
    d.free_cache().unwrap();
    let stats = d.stats();
    assert_eq!((stats.returned_bytes, stats.freed_bytes), (1000, 1024));
}

#[test]
fn s11_3_counters_are_exact_under_threads() {
    let d = Script::new("s11.3 threads").addressed(Addressed::Always).silent().open();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..500).for_each(|at| drop(d.create_buffer(at % 7 * 1000).unwrap())));
        }
    });
    drain(&d);
    d.free_cache().unwrap();
    let stats = d.stats();
    let each = (0..500).filter(|at| at % 7 > 0).count() as u64;
    assert_eq!((stats.requested_count, stats.returned_count), (4 * each, 4 * each));
    assert_eq!(stats.kind_counts.iter().sum::<u64>(), 4 * each);
    assert_eq!(stats.requested_bytes, stats.returned_bytes);
    assert_eq!((stats.actual_count, stats.held_bytes), (stats.freed_count, 0));
    assert_eq!(
        (d.control.count(Call::Alloc), d.control.count(Call::Free)),
        (stats.actual_count, stats.freed_count)
    );
}

/// The events of one device.
fn events_of<'a>(trace: &'a Trace, device: &Opened) -> Vec<&'a Event> {
    trace.events().iter().filter(|event| event.device == device.id()).collect()
}

#[test]
fn s11_7_a_profile_records_what_devices_and_rig_did() {
    let d = own_halves(Script::new("s11.7")).open();
    let half = d.facts().half_bytes;
    let profile = Profile::start();
    let x = buffer_of(&d, &pattern(2 * half, 1));
    let y = d.create_buffer(2 * half).unwrap();
    copy(&x, &y).unwrap();
    let prepared = d.prepare().copy(&x, &y).fill(&x, 1).build().unwrap();
    prepared.submit(&[], &[]).unwrap().wait().unwrap();
    assert!(bytes_of(&y) == pattern(2 * half, 1));
    d.set_budget(d.held()).unwrap();
    report(d.create_buffer(half));
    d.device_lost("on purpose");
    let trace = profile.stop();
    let events = events_of(&trace, &d);
    let of = |what: &What| -> Vec<&Event> {
        events.iter().copied().filter(|event| event.what == *what).collect()
    };
    let legs = of(&What::Leg);
    assert_eq!(legs.iter().map(|leg| leg.bytes).collect::<Vec<_>>(), [half; 4], "two in, two out");
    let direct = of(&What::DirectCopy);
    assert_eq!(direct.iter().map(|copy| copy.bytes).collect::<Vec<_>>(), [2 * half]);
    let submissions = of(&What::Submission);
    let values: Vec<_> = submissions.iter().filter_map(|event| event.value).collect();
    assert_eq!(values, [1, 2, 3, 4, 5, 6], "each value once");
    let parts = [of(&What::Part("copy")), of(&What::Part("fill"))];
    assert_eq!(parts.each_ref().map(Vec::len), [6, 1]);
    assert!(parts[1][0].value == Some(4) && parts[1][0].queue == Some(0));
    assert!(of(&What::Wait).iter().any(|wait| wait.value == Some(4)));
    assert!(!of(&What::Drain).is_empty());
    let rounds: Vec<_> =
        events.iter().filter(|event| matches!(event.what, What::Round(_))).collect();
    assert_eq!(
        rounds.iter().map(|round| &round.what).collect::<Vec<_>>(),
        [&What::Round(1), &What::Round(2), &What::Round(3)]
    );
    assert_eq!(of(&What::Loss("on purpose".into())).len(), 1);
    assert!(
        events
            .iter()
            .any(|event| matches!(event.what, What::Held { held_bytes, .. } if held_bytes > 0))
    );
    let moves = trace.events().iter().filter(|event| event.what == What::HostMove);
    assert!(moves.filter(|event| event.bytes == half).count() >= 4);
}

#[test]
fn s11_7_a_submission_is_shown_under_its_label() {
    let d = Script::new("s11.7 label").open();
    let x = d.create_buffer(64).unwrap();
    let profile = Profile::start();
    let fixed = d.prepare().label("fixed").fill(&x, 1).build().unwrap();
    fixed.submit(&[], &[]).unwrap();
    fixed.submit_holding(&[], &[], &[&Hold::keep(())]).unwrap();
    d.prepare().label("run").fill(run(0), 1).build().unwrap().submit(&[&x], &[]).unwrap();
    d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    let trace = profile.stop();
    let submissions =
        events_of(&trace, &d).into_iter().filter(|event| event.what == What::Submission);
    let labels: Vec<_> = submissions.map(|event| &*event.label).collect();
    assert_eq!(labels, ["fixed", "fixed", "run", ""]);
    let shown = trace.chrome_json();
    assert_eq!(shown.matches("\"name\":\"fixed\"").count(), 2);
}

#[test]
fn s11_7_the_chrome_trace_has_spans_losses_and_counters() {
    let d = own_halves(Script::new("s11.7 chrome")).open();
    let profile = Profile::start();
    let x = buffer_of(&d, &pattern(100, 1));
    assert_eq!(bytes_of(&x), pattern(100, 1));
    d.device_lost("on purpose");
    let json = profile.stop().chrome_json();
    let pid = format!("\"pid\":{}", d.id().index());
    let mine: Vec<&str> = json.lines().filter(|line| line.contains(&pid)).collect();
    let some =
        |texts: &[&str]| mine.iter().any(|line| texts.iter().all(|text| line.contains(text)));
    assert!(json.starts_with("{") && json.contains("\"traceEvents\":["));
    assert!(some(&["process_name", "s11.7 chrome"]));
    assert!(some(&[
        "\"ph\":\"X\"",
        "\"ts\":",
        "\"dur\":",
        "\"tid\":",
        "\"value\":1",
        "\"bytes\":"
    ]));
    assert!(some(&["\"ph\":\"i\"", "on purpose"]));
    for counter in ["held", "cached", "live"] {
        assert!(some(&["\"ph\":\"C\"", &format!("\"{counter}\":")]), "{counter}");
    }
}

#[test]
fn s11_7_a_profile_that_is_dropped_or_stopped_records_no_more() {
    let d = own_halves(Script::new("s11.7 ends")).service_runs().open();
    let profile = Profile::start();
    d.record_use(&[], &[]).unwrap();
    let trace = profile.stop();
    let before = events_of(&trace, &d).len();
    assert!(before > 0);
    d.record_use(&[], &[]).unwrap();
    let later = Profile::start();
    finish(d.wait_async(2)).unwrap();
    let submissions = later.stop();
    let mine = events_of(&submissions, &d);
    assert!(mine.iter().all(|event| event.what != What::Submission));
    drop(host());
}
