//! Vector H and the small vectors of S14 that a GPU shows.

use crate::found::{open, open_each, open_mapped};
use crate::gate::Gate;
use rig::{Buffer, Claims, Error, Misuse, Report, copy, wrap};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const QUARTER: u64 = MIB / 4;

/// Takes an OutOfMemory apart: bytes asked, bytes held, the report.
fn out_of_memory(answer: rig::Result<Buffer>) -> (u64, u64, Arc<Report>) {
    match answer {
        Err(Error::OutOfMemory { asked_bytes, held_bytes, report, .. }) => {
            (asked_bytes, held_bytes, report)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn s14_h_a_budget_of_1_mib() {
    for d in open_each("vector h") {
        d.set_budget(MIB).unwrap();
        assert_eq!(d.budget(), 1_048_576);
        let create = |bytes| d.create_buffer(bytes);
        let (asked, _, report) = out_of_memory(create(2 * MIB));
        assert_eq!((asked, report.rounds.len()), (2_097_152, 0));
        for _ in 0..100 {
            drop(create(QUARTER).unwrap());
        }
        let stats = d.stats();
        assert_eq!((stats.kind_counts, stats.actual_count), ([99, 1, 0, 0], 1));
        let live: Vec<Buffer> = (0..4).map(|_| create(QUARTER).unwrap()).collect();
        assert_eq!(d.stats().kind_counts, [100, 4, 0, 0], "the first is from the cache");
        let (asked, held, report) = out_of_memory(create(QUARTER));
        assert_eq!((asked, held, report.live_bytes), (262_144, 1_048_576, 1_048_576));
        let returned: Vec<u64> = report.rounds.iter().map(|round| round.returned_bytes).collect();
        assert_eq!(returned, [0, 0, 0]);
        drop(live);
        let whole = create(MIB).unwrap();
        let stats = d.stats();
        assert_eq!((stats.kind_counts, stats.freed_count), ([100, 4, 0, 1], 4));
        assert_eq!((whole.len(), d.held()), (MIB, MIB));
    }
}

#[test]
fn s14_submissions_take_1_to_4() {
    for d in open_each("one to four") {
        let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
        let once = d.prepare().fill(&x, 1).build().unwrap();
        let chain = d.prepare().fill(&x, 2).copy(&x, &y).after(0).build().unwrap();
        let empty = d.prepare().build().unwrap();
        let submitted = [&once, &once, &chain, &empty].map(|work| work.submit(&[], &[]).unwrap());
        assert_eq!(submitted.map(|point| point.value()), [1, 2, 3, 4]);
        submitted[3].wait().unwrap();
        assert_eq!((d.submitted(), d.reached()), (4, 4));
        let refused = d.wait(5).unwrap_err();
        assert_eq!(refused.misuse(), Some(&Misuse::NotSubmitted { value: 5, submitted: 4 }));
        let mut seen = [0; 64];
        y.blit_to(0, &mut seen).unwrap();
        assert_eq!(seen, [2; 64]);
    }
}

#[test]
fn s14_a_donated_buffer_is_exclusive_and_its_old_name_dead() {
    for d in open_each("donated") {
        let y = d.create_buffer(64).unwrap();
        y.fill(7).unwrap();
        let taken = Claims::with(&[], &[&[&y]], |claims| {
            assert!(claims.is_exclusive(&y));
            claims.consume(&y, "donated").unwrap()
        });
        assert_eq!(y.dead().as_deref(), Some("donated"));
        let mut seen = [0; 64];
        taken.unwrap().blit_to(0, &mut seen).unwrap();
        assert_eq!(seen, [7; 64]);
    }
}

#[test]
fn s14_what_is_claimed_a_view_or_lent_is_never_exclusive() {
    for d in open_each("never exclusive") {
        let whole = d.create_buffer(128).unwrap();
        let made = || d.create_buffer(64).unwrap();
        let candidates = [made(), whole.view(64, 64).unwrap(), made()];
        candidates.iter().for_each(|buffer| buffer.fill(7).unwrap());
        let _claim = candidates[0].claim_read().unwrap();
        let _lent = rig::wgpu::lend(&candidates[2]).unwrap();
        for buffer in &candidates {
            let is_exclusive = |claims: &Claims| claims.is_exclusive(buffer);
            assert!(!Claims::with(&[], &[&[buffer]], is_exclusive).unwrap(), "{buffer:?}");
            let mut seen = [0; 64];
            buffer.blit_to(0, &mut seen).unwrap();
            assert_eq!(seen, [7; 64]);
        }
    }
}

#[test]
fn s14_a_staged_copy_of_three_pieces_and_4_096_bytes_takes_four_values() {
    let Some(d) = open("four pieces") else { return };
    let len = 3 * d.facts().piece_bytes + 4_096;
    let x = d.create_buffer(len).unwrap();
    copy(&wrap(vec![7_u8; len as usize]), &x).unwrap();
    assert_eq!(d.submitted(), 4);
    let value = |point: Option<rig::Point>| point.map_or(0, rig::Point::value);
    let stamps = x.stamps();
    assert_eq!((value(stamps.write), value(stamps.use_by(&d))), (4, 4));
    let half = |at| d.half_stamps(0, at).expect("the copy went through both halves");
    assert_eq!([0, 1].map(|at| value(half(at).use_by(&d))), [3, 4]);
    assert_eq!([0, 1].map(|at| half(at).write), [None, None]);
}

#[test]
fn s14_memory_that_its_own_work_still_uses_serves_at_once() {
    let n = QUARTER;
    let Some(d) = open("own use unreached") else { return };
    d.set_budget(n).unwrap();
    let x = d.create_buffer(n).unwrap();
    let fill = d.prepare().fill(&x, 7).build().unwrap();
    let Some(gate) = Gate::shut(&d) else { return };
    let point = fill.submit(&[], &[]).unwrap();
    drop((fill, x));
    let again = d.create_buffer(n).unwrap();
    assert_eq!((d.stats().kind_counts, d.reached()), ([1, 1, 0, 0], 0));
    assert_eq!((again.stamps().write, again.stamps().use_by(&d)), (Some(point), Some(point)));
    gate.open();
    again.fill(9).unwrap();
    let mut seen = [0; 8];
    again.blit_to(n - 8, &mut seen).unwrap();
    assert_eq!(seen, [9; 8]);
}

#[test]
fn s14_memory_that_another_device_still_uses_serves_in_a_round() {
    let n = QUARTER;
    let (Some(owner), Some(user)) = (open_mapped("the owner"), open("the user")) else { return };
    owner.set_budget(n).unwrap();
    let x = owner.create_buffer(n).unwrap();
    let fill = owner.prepare().fill(&x, 7).build().unwrap();
    let Some(gate) = Gate::shut(&owner) else { return };
    fill.submit(&[], &[]).unwrap();
    drop((fill, x));
    // The host reaches this memory, so its own uses delay it like another device's.
    std::thread::scope(|scope| {
        let created = scope.spawn(|| owner.create_buffer(n));
        user.create_buffer(64).unwrap().fill(1).unwrap();
        assert_eq!(owner.reached(), 0);
        gate.open();
        created.join().unwrap().unwrap();
    });
    let stats = owner.stats();
    assert_eq!((stats.kind_counts, stats.actual_count), ([0, 1, 1, 0], 1));
}
