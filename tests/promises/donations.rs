//! S5: donations, what becomes of them, and memory that is never exclusive.

use crate::bench::{buffer_of, host_buffer_of, misuse, pattern, poll};
use rig::driver::Addressed;
use rig::{Buffer, Claims, FileMode, Misuse, host, wrap, wrap_shared};
use rig_support::{Scratch, Script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn assert_unclaimed(buffers: &[&Buffer]) {
    for buffer in buffers {
        buffer.write(|_| ()).expect("everything was released");
    }
}

#[test]
fn s5_3_a_donation_is_exclusive_where_nothing_else_names_it() {
    let device = rig::memory::open("s5.3").unwrap();
    let (x, y, z) = (
        device.create_buffer(64).unwrap(),
        host().create_buffer(64).unwrap(),
        host().create_buffer(64).unwrap(),
    );
    let same = x.clone();
    Claims::with(&[&z], &[&[&x, &y]], |claims| {
        assert!([&x, &same, &y].iter().all(|buffer| claims.is_exclusive(buffer)));
        assert!(!claims.is_exclusive(&z));
        assert_eq!(misuse(x.read(|_| ())), Misuse::Busy);
        z.read(|_| ()).unwrap();
        assert_eq!(misuse(z.write(|_| ())), Misuse::Busy);
    })
    .unwrap();
}

#[test]
fn s5_3_a_donation_that_cannot_be_exclusive_stays_read_as_a_whole() {
    let fresh = || host().create_buffer(64).unwrap();
    let words: Arc<[u32]> = Arc::from([1, 2]);
    let (whole, claimed, called) = (fresh(), fresh(), fresh());
    let claim = claimed.claim_read().unwrap();
    let device = Script::new("s5.3 call").open();
    let busy = host().create_buffer(64 << 10).unwrap();
    device.record_use(&[], &[&busy.borrow(&device).unwrap().unwrap()]).unwrap();
    let mut reading = Box::pin(busy.read_async(|_| ()));
    assert!(poll(reading.as_mut()).is_pending());
    let cases = [
        ("a view", whole.view(0, 63).unwrap()),
        ("read-only", wrap_shared(words)),
        ("wrapped", wrap(vec![0_u8; 64])),
        ("another claim", claimed.clone()),
        ("a call in progress", busy.clone()),
        ("no bytes", host().create_buffer(0).unwrap()),
    ];
    for (why, buffer) in &cases {
        for donation in [[buffer, &called], [&called, buffer]] {
            Claims::with(&[], &[&donation], |claims| {
                assert!(!donation.iter().any(|part| claims.is_exclusive(part)), "{why}");
                called.read(|_| ()).unwrap();
                assert_eq!(misuse(called.write(|_| ())), Misuse::Busy, "{why}: it is read");
            })
            .unwrap();
            called.write(|_| ()).unwrap();
        }
    }
    drop((claim, reading));
    Claims::with(&[], &[&[&claimed, &busy]], |claims| {
        assert!(claims.is_exclusive(&claimed) && claims.is_exclusive(&busy));
    })
    .unwrap();
}

#[test]
fn s5_3_one_donation_that_stays_read_spoils_no_other() {
    let fresh = || host().create_buffer(64).unwrap();
    let (x, y) = (fresh(), fresh());
    let claim = x.claim_read().unwrap();
    let donations: [&[_]; 2] = [&[&x], &[&y]];
    Claims::with(&[], &donations, |claims| {
        assert!(!claims.is_exclusive(&x) && claims.is_exclusive(&y));
    })
    .unwrap();
    drop(claim);
}

#[test]
fn s5_4_before_the_function_a_mistake_is_misuse_and_everything_is_released() {
    let fresh = || host().create_buffer(64).unwrap();
    let (x, y, dead, taken) = (fresh(), fresh(), fresh(), fresh());
    dead.free().unwrap();
    let view = x.view(10, 1).unwrap();
    let never = |_: &Claims| -> () { panic!("the function is not called") };
    let overlaps = Misuse::DonationOverlaps;
    assert_eq!(misuse(Claims::with(&[&y, &x], &[&[&view]], never)), overlaps);
    assert_eq!(misuse(Claims::with(&[&y], &[&[&x, &view]], never)), overlaps);
    assert_eq!(misuse(Claims::with(&[&y], &[&[&x], &[&view]], never)), overlaps);
    let answer = Claims::with(&[&y, &x], &[&[&dead]], never);
    assert!(matches!(misuse(answer), Misuse::Dead { .. }));
    Claims::with(&[], &[&[&taken]], |_| {
        assert_eq!(misuse(Claims::with(&[&x, &taken], &[&[&y]], never)), Misuse::Busy);
        assert_eq!(misuse(Claims::with(&[&x], &[&[&y, &taken]], never)), Misuse::Busy);
        assert_unclaimed(&[&x, &y]);
    })
    .unwrap();
}

#[test]
fn s5_4_after_the_function_all_is_released_and_the_object_answers_misuse() {
    let fresh = || host().create_buffer(64).unwrap();
    let (x, y) = (fresh(), fresh());
    let kept = Claims::with(&[&x], &[&[&y]], Clone::clone).unwrap();
    assert_eq!(misuse(kept.consume(&y, "late")), Misuse::ClaimsEnded);
    assert!(!kept.is_exclusive(&y));
    assert_unclaimed(&[&x, &y]);
}

#[test]
fn s5_4_after_a_panic_all_is_released() {
    let fresh = || host().create_buffer(64).unwrap();
    let (x, y) = (fresh(), fresh());
    let panicked =
        catch_unwind(AssertUnwindSafe(|| Claims::with(&[&x], &[&[&y]], |_| panic!("on purpose"))));
    assert!(panicked.is_err());
    assert_unclaimed(&[&x, &y]);
    let (reads, donation) = ([&x], [&y]);
    let donations: [&[_]; 1] = [&donation];
    let mut dropped = Box::pin(Claims::with_async(&reads, &donations, async |_: &Claims| {
        std::future::pending::<()>().await;
    }));
    assert!(poll(dropped.as_mut()).is_pending());
    assert_eq!(misuse(x.write(|_| ())), Misuse::Busy);
    drop(dropped);
    assert_unclaimed(&[&x, &y]);
}

#[test]
fn s5_5_consume_answers_a_new_buffer_and_all_earlier_ones_are_dead() {
    let device = rig::memory::open("s5.5").unwrap();
    let x = buffer_of(&device, &pattern(1000, 5));
    let (view, borrowed) = (x.view(3, 4).unwrap(), x.borrow(&host()).unwrap().unwrap());
    let held = device.held();
    let new = Claims::with(&[], &[&[&x]], |claims| {
        let new = claims.consume(&x, "donated").unwrap();
        for old in [&x, &view, &borrowed] {
            assert_eq!(misuse(old.read(|_| ())), Misuse::Dead { why: "donated".into() });
        }
        assert_eq!(new.read(<[u8]>::to_vec).unwrap(), pattern(1000, 5), "its own access passes");
        new.write(|bytes| bytes[0] = 9).unwrap();
        assert!(claims.is_exclusive(&new) && !claims.is_exclusive(&x));
        assert_eq!(misuse(new.claim_read()), Misuse::Busy);
        new
    })
    .unwrap();
    assert_eq!(new.read(|bytes| bytes[0]).unwrap(), 9);
    assert_eq!((device.held(), device.stats().returned_count), (held, 0));
    drop((x, view, borrowed));
    new.write(|_| ()).unwrap();
}

#[test]
fn s5_5_an_export_through_the_new_buffer_passes() {
    let x = host_buffer_of(&[5; 64]);
    let export = Claims::with(&[], &[&[&x]], |claims| {
        assert_eq!(misuse(x.export()), Misuse::Busy);
        claims.consume(&x, "donated").unwrap().export()
    });
    let mut seen = [0; 64];
    export.unwrap().unwrap().copy_out(0, &mut seen).unwrap();
    assert_eq!(seen, [5; 64]);
}

#[test]
fn s5_5_no_drain_beside_a_consume_takes_the_bytes_home() {
    let consume = |turn: u64| {
        let x = host_buffer_of(&turn.to_ne_bytes());
        Claims::with(&[], &[&[&x]], |claims| {
            // A refused export puts the memory on the return list.
            assert_eq!(misuse(x.export()), Misuse::Busy);
            let new = claims.consume(&x, "donated").unwrap();
            assert_eq!(new.read(<[u8]>::to_vec).unwrap(), turn.to_ne_bytes());
        })
        .unwrap();
    };
    std::thread::scope(|threads| {
        let consuming = threads.spawn(|| (0..2000).for_each(consume));
        while !consuming.is_finished() {
            host().trim().unwrap();
        }
        consuming.join().unwrap();
    });
}

#[test]
fn s5_5_consume_needs_a_live_spanning_buffer_claimed_by_that_object() {
    let fresh = || host().create_buffer(64).unwrap();
    let (x, y, z) = (fresh(), fresh(), fresh());
    let view = x.view(0, 63).unwrap();
    Claims::with(&[&y], &[&[&x]], |claims| {
        let spanning = Misuse::NotSpanning { len_bytes: 63, allocation_bytes: 64 };
        assert_eq!(misuse(claims.consume(&view, "why")), spanning);
        assert_eq!(misuse(claims.consume(&y, "why")), Misuse::NotClaimed);
        assert_eq!(misuse(claims.consume(&z, "why")), Misuse::NotClaimed);
        Claims::with(&[], &[&[&z]], |inner| {
            assert_eq!(misuse(claims.consume(&z, "why")), Misuse::NotClaimed);
            assert_eq!(misuse(inner.consume(&x, "why")), Misuse::NotClaimed);
        })
        .unwrap();
        claims.consume(&x, "first").unwrap();
        assert!(matches!(misuse(claims.consume(&x, "again")), Misuse::Dead { .. }));
    })
    .unwrap();
    assert!(z.dead().is_none());
}

#[test]
fn s5_7_memory_outside_the_claims_is_never_exclusive_and_accesses_still_exclude() {
    let fresh = || host().create_buffer(64).unwrap();
    let path = Scratch::new();
    let files = rig::file::open("s5.7 files").unwrap();
    let file = files.create_file(&path, 64).unwrap();
    let (exported, lent, shared) = (fresh(), fresh(), fresh());
    let export = exported.export().unwrap();
    lent.lend().unwrap();
    shared.share().unwrap();
    let addressed = [&wrap(vec![0_u8; 64]), &exported, &lent, &shared];
    for buffer in addressed.into_iter().chain([&file]) {
        Claims::with(&[], &[&[buffer]], |claims| assert!(!claims.is_exclusive(buffer))).unwrap();
    }
    for buffer in addressed {
        buffer.read(|_| assert_eq!(misuse(buffer.write(|_| ())), Misuse::Busy)).unwrap();
        buffer.write(|_| assert_eq!(misuse(buffer.read(|_| ())), Misuse::Busy)).unwrap();
    }
    let reopened = files.open_file(&path, FileMode::ReadOnly).unwrap();
    Claims::with(&[], &[&[&reopened]], |claims| assert!(!claims.is_exclusive(&reopened))).unwrap();
    drop(export);
    lent.free().unwrap();
}

#[test]
fn s5_7_sharing_and_lending_under_an_exclusive_claim_are_busy() {
    let device = Script::new("s5.7 lend").addressed(Addressed::Always).open();
    let x = device.create_buffer(64).unwrap();
    Claims::with(&[], &[&[&x]], |claims| {
        assert!(claims.is_exclusive(&x));
        assert_eq!(misuse(x.share()), Misuse::Busy);
        assert_eq!(misuse(x.lend()), Misuse::Busy);
    })
    .unwrap();
    drop(x);
    rig_support::drain(&device);
    assert_eq!(device.cached(), 512, "a refused lend lends nothing");
    let y = device.create_buffer(64).unwrap();
    let _claim = y.claim_read().unwrap();
    y.share().unwrap();
}

#[test]
fn s5_5_what_was_exported_under_the_claim_is_not_taken_over() {
    let b = host_buffer_of(&[1; 64]);
    let first = Claims::with(&[], &[&[&b]], |claims| {
        let first = claims.consume(&b, "first").unwrap();
        drop(first.export().unwrap());
        assert_eq!(misuse(claims.consume(&first, "second")), Misuse::Busy);
        first
    })
    .unwrap();
    first.write(|_| ()).expect("everything was released");
    first.free().unwrap();
}
