//! S0: what holds for every call.

use crate::bench::{
    buffer_of, bytes_of, finish, host_buffer_of, lost, misuse, own_halves, pattern, poll,
    unsupported,
};
use rig::driver::Addressed;
use rig::{
    Claims, Error, FileMode, Kind, Misuse, Result, Use, copy, copy_async, host, run, wrap_shared,
};
use rig_support::{Call, Opened, Scratch, Script, Sleep, double, drain, point};
use std::pin::pin;
use std::sync::Arc;

/// A device whose memory the host always addresses.
fn addressed(name: &str) -> Opened {
    Script::new(name).addressed(Addressed::Always).open()
}

#[test]
fn s0_1_an_error_keeps_no_buffer_alive() {
    let device = addressed("s0.1 kept");
    device.set_budget(1 << 20).unwrap();
    let live = device.create_buffer(1 << 20).unwrap();
    let full = device.create_buffer(1 << 20).unwrap_err();
    live.free().unwrap();
    let dead = live.read(|_| ()).unwrap_err();
    let errors = [full.clone(), full, dead.clone(), dead];
    drop(live);
    drain(&device);
    assert_eq!(device.cached(), 1 << 20);
    assert_eq!(errors[0].to_string(), errors[1].to_string());
}

#[test]
fn s0_1_each_of_the_four_errors_tells_its_numbers() {
    let device = addressed("s0.1 four");
    device.set_budget(1000).unwrap();
    let Error::OutOfMemory { device: name, asked_bytes, held_bytes, budget_bytes, report } =
        device.create_buffer(1001).unwrap_err()
    else {
        panic!("1,001 bytes are above the budget");
    };
    assert_eq!((&*name, asked_bytes, held_bytes, budget_bytes), ("s0.1 four", 1001, 0, 1000));
    assert_eq!((report.asked_bytes, report.budget_bytes), (1001, 1000));
    let no_pinned = device.create_buffer_in(Kind::Pinned, 10).map(drop);
    assert!(no_pinned.is_ok(), "memory that the host addresses serves for Pinned");
    assert!(!unsupported(device.create_buffer(u64::MAX)).is_empty());
    let view = device.create_buffer(8).unwrap().view(4, 5);
    assert_eq!(misuse(view), Misuse::OutOfRange { end_bytes: 9, len_bytes: 8 });
    device.device_lost("on purpose");
    assert_eq!(lost(device.create_buffer(8)), ("s0.1 four".into(), "on purpose".into()));
}

#[test]
fn s0_2_a_failed_call_takes_no_value_raises_no_stamp_and_keeps_no_claim() {
    let device = addressed("s0.2");
    let (x, y) = (device.create_buffer(64).unwrap(), device.create_buffer(64).unwrap());
    let short = x.view(0, 63).unwrap();
    let fixed = device.prepare().copy(&x, run(0)).build().unwrap();
    let dead = device.create_buffer(64).unwrap();
    dead.free().unwrap();
    let foreign = host().create_buffer(64).unwrap();
    let held = device.held();
    let failures: [(&str, Result<()>); 14] = [
        ("copy, lengths", copy(&short, &y)),
        ("copy, overlap", copy(&x, &x)),
        ("copy, dead", copy(&dead, &y)),
        ("count", fixed.submit(&[], &[]).map(drop)),
        ("dead run buffer", fixed.submit(&[&dead], &[]).map(drop)),
        ("foreign run buffer", fixed.submit(&[&foreign], &[]).map(drop)),
        ("lengths", fixed.submit(&[&short], &[]).map(drop)),
        ("not submitted", fixed.submit(&[&y], &[point(&device, 9)]).map(drop)),
        ("partial", x.read_as::<[u8; 3], ()>(|_| ())),
        ("export beside a read", x.read(|_| x.export().map(drop)).unwrap()),
        ("write beside a read", x.read(|_| x.write(|_| ())).unwrap()),
        ("free beside a read", x.read(|_| x.free()).unwrap()),
        ("submit beside a write", y.write(|_| fixed.submit(&[&y], &[]).map(drop)).unwrap()),
        ("fill beside a read", y.read(|_| y.fill(1)).unwrap()),
    ];
    for (what, answer) in failures {
        assert!(answer.is_err(), "{what}");
    }
    assert_eq!((device.submitted(), device.held()), (0, held));
    assert_eq!((x.stamps(), y.stamps()), Default::default());
    let donations: [&[_]; 2] = [&[&x], &[&y]];
    Claims::with(&[], &donations, |claims| {
        assert!(claims.is_exclusive(&x) && claims.is_exclusive(&y), "no claim is kept");
    })
    .unwrap();
}

#[test]
fn s0_2_no_mistake_of_a_caller_panics() {
    let device = addressed("s0.2 panic");
    let empty = device.create_buffer(0).unwrap();
    let x = device.create_buffer(10).unwrap();
    assert!(x.view(u64::MAX, u64::MAX).is_err());
    assert!(empty.view(0, 1).is_err());
    assert!(x.blit_to(u64::MAX, &mut [0; 3]).is_err());
    assert!(x.export().unwrap().copy_in(9, &[1, 2]).is_err());
    assert!(device.wait(u64::MAX).is_err() && device.point(0).is_err());
    assert!(device.prepare().copy(&x, &empty).build().is_err());
    assert!(device.prepare().copy(&x, &x).after(7).queue(9).build().is_err());
    assert!(rig::host().close().is_err());
    assert!(device.set_cache(rig::CacheOptions::default()).is_ok());
    let mut options = rig::CacheOptions::default();
    options.near_fit = f64::NAN;
    assert!(device.set_cache(options).is_err());
}

#[test]
fn s0_3_arguments_are_checked_before_death() {
    let device = addressed("s0.3 arguments");
    let x = device.create_buffer(12).unwrap();
    let fixed = device.prepare().copy(&x, run(0)).build().unwrap();
    x.free().unwrap();
    let range = |answer: Result<()>| matches!(misuse(answer), Misuse::OutOfRange { .. });
    assert!(range(x.view(8, 5).map(drop)));
    assert!(range(x.blit_to(8, &mut [0; 5])));
    assert!(range(x.blit_from(8, &[0; 5])));
    assert!(matches!(misuse(x.read_as::<u64, _>(|_| ())), Misuse::PartialElement { .. }));
    let overlap = Claims::with(&[&x], &[&[&x]], |_| ());
    assert_eq!(misuse(overlap), Misuse::DonationOverlaps);
    assert_eq!(misuse(fixed.submit(&[], &[])), Misuse::RunBuffers { given: 0, named: 1 });
    let y = device.create_buffer(12).unwrap();
    let late = device.prepare().copy(&x, &y).after(0).build();
    assert_eq!(misuse(late), Misuse::After { part: 0, after: 0 });
    let late = point(&device, 5);
    assert!(matches!(misuse(fixed.submit(&[&y], &[late])), Misuse::NotSubmitted { .. }));
}

#[test]
fn s0_3_death_is_checked_before_read_only_memory() {
    let words: Arc<[u32]> = Arc::from([1, 2]);
    let shared = wrap_shared(words);
    shared.free().unwrap();
    let dead = |answer: Result<()>| matches!(misuse(answer), Misuse::Dead { .. });
    assert!(dead(shared.write(|_| ())));
    assert!(dead(shared.fill(1)));
    assert!(dead(shared.blit_from(0, &[1])));
    assert!(dead(shared.wait(Use::Write)));
    assert!(dead(copy(&host_buffer_of(&[0; 8]), &shared)));
    let device = rig::memory::open("s0.3 death").unwrap();
    let two = wrap_shared(Arc::<[u32]>::from([1, 2]));
    let (live, freed) = (two.borrow(&device).unwrap().unwrap(), device.create_buffer(8).unwrap());
    freed.free().unwrap();
    assert!(dead(device.prepare().fill(&live, 1).fill(&freed, 1).build().map(drop)));
}

#[test]
fn s0_3_read_only_memory_is_checked_before_loss() {
    let path = Scratch::new();
    std::fs::write(&path, [1; 8]).unwrap();
    let device = rig::file::open("s0.3 file").unwrap();
    let opened = device.open_file(&path, FileMode::ReadOnly).unwrap();
    device.close().unwrap();
    assert_eq!(misuse(opened.fill(1)), Misuse::ReadOnly);
    assert_eq!(misuse(opened.blit_from(0, &[1])), Misuse::ReadOnly);
    assert_eq!(misuse(opened.wait(Use::Write)), Misuse::ReadOnly);
    assert_eq!(misuse(copy(&host_buffer_of(&[0; 8]), &opened)), Misuse::ReadOnly);
    assert_eq!(lost(opened.blit_to(0, &mut [0])).1, "closed");
    let memory = rig::memory::open("s0.3 read-only").unwrap();
    let two = wrap_shared(Arc::<[u32]>::from([1, 2])).borrow(&memory).unwrap().unwrap();
    let one = memory.prepare().fill(run(0), 1).build().unwrap();
    memory.close().unwrap();
    assert_eq!(misuse(one.submit(&[&two], &[])), Misuse::ReadOnly);
    assert_eq!(misuse(memory.prepare().fill(&two, 1).build()), Misuse::ReadOnly);
}

#[test]
fn s0_3_loss_is_checked_before_claims() {
    let device = addressed("s0.3 claims");
    let x = device.create_buffer(8).unwrap();
    let answers = Claims::with(&[], &[&[&x]], |claims| {
        assert!(claims.is_exclusive(&x));
        assert_eq!(misuse(x.read(|_| ())), Misuse::Busy);
        device.device_lost("on purpose");
        [x.read(|_| ()), x.write(|_| ()), x.claim_read().map(drop), x.export().map(drop)]
    });
    for answer in answers.unwrap() {
        assert_eq!(lost(answer).1, "on purpose");
    }
}

#[test]
fn s0_3_death_is_checked_before_claims_whichever_memory_comes_first() {
    let device = rig::memory::open("s0.3 death and claims").unwrap();
    let [busy, freed] = [(); 2].map(|()| device.create_buffer(8).unwrap());
    let works = [[&busy, &freed], [&freed, &busy]]
        .map(|[one, other]| device.prepare().fill(one, 1).fill(other, 1).build().unwrap());
    let refused = |work: &rig::Prepared| busy.read(|_| misuse(work.submit(&[], &[]))).unwrap();
    assert_eq!(works.each_ref().map(refused), [Misuse::Busy, Misuse::Busy]);
    freed.free().unwrap();
    for refused in works.each_ref().map(refused) {
        assert!(matches!(refused, Misuse::Dead { .. }), "{refused:?}");
    }
}

#[test]
fn s0_4_a_range_that_overflows_is_out_of_range() {
    let device = addressed("s0.4");
    let x = device.create_buffer(16).unwrap();
    let past = Misuse::OutOfRange { end_bytes: u64::MAX, len_bytes: 16 };
    assert_eq!(misuse(x.view(u64::MAX, 1)), past);
    assert_eq!(misuse(x.view(1, u64::MAX)), past);
    assert_eq!(misuse(x.blit_to(u64::MAX - 1, &mut [0; 3])), past);
    assert_eq!(misuse(x.blit_from(u64::MAX, &[0])), past);
    let export = x.export().unwrap();
    assert_eq!(misuse(export.copy_out(u64::MAX, &mut [0])), past);
    let end = Misuse::OutOfRange { end_bytes: 17, len_bytes: 16 };
    assert_eq!(misuse(export.copy_in(15, &[0; 2])), end);
    assert_eq!(misuse(x.view(16, 1)), end);
    let inner = x.view(8, 8).unwrap();
    let past = Misuse::OutOfRange { end_bytes: 9, len_bytes: 8 };
    assert_eq!(misuse(inner.view(0, 9)), past, "a view ends where it ends");
    assert!(x.view(16, 0).is_ok() && inner.view(8, 0).is_ok());
}

#[test]
fn s0_6_a_waiting_call_has_an_async_form_under_the_same_rules() {
    let device = own_halves(Script::new("s0.6 async")).service_runs().open();
    let bytes = pattern(1000, 6);
    finish(async {
        let x = device.create_buffer_async(1000).await.unwrap();
        x.blit_from_async(0, &bytes).await.unwrap();
        let y = device.buffer(1000).label("y").create_async().await.unwrap();
        copy_async(&x, &y).await.unwrap();
        let mut seen = vec![0; 1000];
        y.blit_to_async(0, &mut seen).await.unwrap();
        assert_eq!(seen, bytes);
        y.fill_async(7).await.unwrap();
        y.wait_async(Use::Write).await.unwrap();
        let kernel = device.kernel_async(rig::memory::function("no", |_| {})).await.unwrap();
        let done = kernel.launch([1; 3]).writes(&y).submit_async().await.unwrap();
        done.wait_async().await.unwrap();
        device.wait_async(done.value()).await.unwrap();
        let point = device.record_use_async(&[&x], &[]).await.unwrap();
        let late = device.wait_async(point.value() + 1).await;
        assert!(matches!(misuse(late), Misuse::NotSubmitted { .. }));
        y.free_async().await.unwrap();
    });
    let h = host_buffer_of(&bytes);
    assert_eq!(finish(h.read_async(<[u8]>::to_vec)).unwrap(), bytes);
    finish(h.write_async(|bytes| bytes.fill(1))).unwrap();
    assert_eq!(finish(h.read_as_async::<u64, _>(<[u64]>::len)).unwrap(), 125);
    finish(h.write_as_async::<u64, _>(|words| words.fill(2))).unwrap();
    assert_eq!(finish(h.export_async()).unwrap().len(), 1000);
    finish(device.close_async()).unwrap();
}

#[test]
fn s0_6_a_dropped_future_releases_its_claims_and_its_work_runs_on() {
    let device = own_halves(Script::new("s0.6 dropped")).open();
    let x = buffer_of(&device, &pattern(1000, 1));
    let h = host_buffer_of(&[0; 1000]);
    let submitted = device.submitted();
    {
        let mut copying = pin!(copy_async(&x, &h));
        assert!(poll(copying.as_mut()).is_pending());
        assert_eq!(device.submitted(), submitted + 1);
        assert_eq!(misuse(x.free()), Misuse::Busy, "a call moves its bytes");
    }
    assert_eq!(x.stamps().uses[0].value(), submitted + 1, "what was handed over is stamped");
    Claims::with(&[], &[&[&h], &[&x]], |claims| {
        assert!(claims.is_exclusive(&h) && claims.is_exclusive(&x));
    })
    .unwrap();
    device.control.run_all();
    assert_eq!(device.reached(), submitted + 1);
    assert_eq!(bytes_of(&h), [0; 1000]);
    copy(&x, &h).unwrap();
    assert_eq!(bytes_of(&h), pattern(1000, 1));
}

#[test]
fn s0_6_an_access_that_waits_is_dropped_without_a_trace() {
    let device = Script::new("s0.6 access").open();
    let h = host().create_buffer(64 << 10).unwrap();
    let borrowed = h.borrow(&device).unwrap().unwrap();
    device.record_use(&[], &[&borrowed]).unwrap();
    let mut reading = Box::pin(h.read_async(|_| ()));
    let mut exporting = Box::pin(h.export_async());
    assert!(poll(reading.as_mut()).is_pending() && poll(exporting.as_mut()).is_pending());
    drop((reading, exporting));
    device.control.run_all();
    Claims::with(&[], &[&[&h]], |claims| assert!(claims.is_exclusive(&h))).unwrap();
}

#[test]
fn s0_7_a_loss_ends_a_wait_that_sleeps() {
    let device = Script::new("s0.7 loss").open();
    let point = device.record_use(&[], &[]).unwrap();
    device.control.gate();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| point.wait());
        device.control.await_sleeper();
        device.device_lost("told by the program");
        assert_eq!(lost(waiting.join().unwrap()).1, "told by the program");
    });
    device.control.check();
    assert!(device.control.calls(Call::Block).iter().all(|block| block.bytes <= 200));
}

#[test]
fn s0_7_a_wait_holds_no_lock_and_no_turn() {
    let device = own_halves(Script::new("s0.7 turn")).open();
    let x = device.create_buffer(1 << 20).unwrap();
    let first = device.record_use(&[], &[&x]).unwrap();
    device.control.gate();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| first.wait());
        device.control.await_sleeper();
        let second = device.record_use(&[&x], &[]).unwrap();
        assert_eq!(second.value(), 2);
        let kernel = double(&device);
        kernel.launch([1; 3]).writes(&x).submit().unwrap();
        drop(device.create_buffer(1 << 20).unwrap());
        drop(x.claim_read().unwrap());
        device.trim().unwrap();
        device.free_cache().unwrap();
        assert_eq!((device.submitted(), device.reached()), (3, 0));
        assert!(device.stats().held_bytes > 0);
        device.control.open_gate();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn s0_7_a_sleep_in_which_nothing_happens_ends_and_comes_again() {
    let device = Script::new("s0.7 stall").open();
    let point = device.record_use(&[], &[]).unwrap();
    device.control.sleeps([Sleep::Stall(3)]);
    point.wait().unwrap();
    assert!(device.control.count(Call::Block) > 3);
}
