//! Promises of claims, one a test.

use crate::claim::{
    Answer, Ask, CLOSURE_READ, Claims, Ended, Field, KEPT_READ, MOMENTARY_READ, MOVER_READ, Marks,
    Pass,
};
use crate::sync::Ordering;

/// What may be held: the columns of the table, with movers and closures apart.
const HELD: [Ask; 8] = [
    Ask::KeptRead,
    Ask::KeptExclusive,
    Ask::MoverRead,
    Ask::ClosureRead,
    Ask::MoverWrite,
    Ask::ClosureWrite,
    Ask::MomentaryRead,
    Ask::MomentaryWrite,
];

/// The table of S5, a row for each ask: `.` granted, `r` granted as read, `w` waits, `B` busy.
const TABLE: [(Ask, [&str; 8]); 10] = [
    (Ask::KeptRead, [".", "B", ".", ".", "B", "B", ".", "."]),
    (Ask::KeptExclusive, ["r", "B", "r", "r", "B", "B", "r", "r"]),
    (Ask::MoverRead, [".", "B", ".", ".", "B", "B", ".", "w"]),
    (Ask::ClosureRead, [".", "B", ".", ".", "B", "B", ".", "w"]),
    (Ask::MoverWrite, ["B", "B", "B", "B", "B", "B", "w", "w"]),
    (Ask::ClosureWrite, ["B", "B", "B", "B", "B", "B", "w", "w"]),
    (Ask::MomentaryRead, [".", ".", ".", ".", "w", "B", ".", "w"]),
    (Ask::MomentaryWrite, [".", ".", "w", "B", "w", "B", "w", "w"]),
    (Ask::Export, [".", "B", "B", "B", "B", "B", "w", "w"]),
    (Ask::Free, ["B", "B", "B", "B", "B", "B", "w", "w"]),
];

fn answer_of(cell: &str) -> Answer {
    match cell {
        "." => Answer::Granted,
        "r" => Answer::AsRead,
        "w" => Answer::Waits,
        _ => Answer::Busy,
    }
}

/// What the table says for an ask beside one held claim.
fn cell(ask: Ask, held: Ask) -> Answer {
    let (_, row) = TABLE.iter().find(|(asked, _)| *asked == ask).expect("a row");
    let column = HELD.iter().position(|known| *known == held).expect("a column");
    answer_of(row[column])
}

fn holding(held: &[Ask]) -> Claims {
    let claims = Claims::new();
    for ask in held {
        assert_eq!(claims.ask(*ask, Pass::No), Answer::Granted, "{held:?}");
    }
    claims
}

#[test]
fn s5_each_cell_of_the_table_is_the_answer() {
    for (ask, _) in TABLE {
        assert_eq!(Claims::new().ask(ask, Pass::No), Answer::Granted, "{ask:?} beside none");
        for held in HELD {
            let claims = holding(&[held]);
            let wanted = cell(ask, held);
            assert_eq!(
                claims.would(ask, Pass::No, &Marks::new()),
                wanted,
                "{ask:?} beside {held:?}"
            );
            assert_eq!(claims.ask(ask, Pass::No), wanted, "{ask:?} beside {held:?}");
        }
    }
}

#[test]
fn s5_1_beside_several_claims_the_strictest_cell_is_the_answer() {
    let strictness = |answer: &Answer| match answer {
        Answer::Granted => 0,
        Answer::AsRead => 1,
        Answer::Waits => 2,
        Answer::Busy | Answer::Dead => 3,
    };
    for one in HELD {
        for other in HELD.into_iter().filter(|other| cell(*other, one) == Answer::Granted) {
            let claims = holding(&[one, other]);
            for (ask, _) in TABLE {
                let cells = [cell(ask, one), cell(ask, other)];
                let wanted = cells.into_iter().max_by_key(strictness).unwrap();
                let answer = claims.would(ask, Pass::No, &Marks::new());
                assert_eq!(answer, wanted, "{ask:?} beside {one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn s5_1_what_is_refused_or_waits_holds_nothing_and_a_release_makes_room() {
    for (ask, _) in TABLE {
        for held in HELD {
            let claims = holding(&[held]);
            let kept = match claims.ask(ask, Pass::No) {
                Answer::Granted if matches!(ask, Ask::Export | Ask::Free) => continue,
                Answer::Granted => Some(ask),
                Answer::AsRead => Some(Ask::KeptRead),
                _ => None,
            };
            assert!(!claims.release(held), "nobody waits");
            kept.into_iter().for_each(|kept| assert!(!claims.release(kept)));
            assert_eq!(claims.would(Ask::KeptExclusive, Pass::No, &Marks::new()), Answer::Granted);
            assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
        }
    }
}

#[test]
fn s5_1_claims_are_counted() {
    for (ask, blocked) in [
        (Ask::KeptRead, Ask::Free),
        (Ask::MoverRead, Ask::Free),
        (Ask::ClosureRead, Ask::Free),
        (Ask::MomentaryRead, Ask::MomentaryWrite),
    ] {
        let claims = holding(&[ask; 3]);
        for _ in 0..3 {
            assert_ne!(claims.would(blocked, Pass::No, &Marks::new()), Answer::Granted, "{ask:?}");
            claims.release(ask);
        }
        assert_eq!(claims.would(blocked, Pass::No, &Marks::new()), Answer::Granted, "{ask:?}");
    }
}

#[test]
fn s5_1_beside_a_closure_device_work_is_refused_though_it_would_also_wait() {
    let claims = holding(&[Ask::MomentaryRead, Ask::ClosureRead]);
    assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Busy);
    claims.release(Ask::ClosureRead);
    assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Waits);
}

#[test]
fn s5_1_a_mover_becomes_a_closure_and_is_released_as_one() {
    for (mover, closure) in
        [(Ask::MoverRead, Ask::ClosureRead), (Ask::MoverWrite, Ask::ClosureWrite)]
    {
        let claims = holding(&[mover]);
        assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Waits);
        assert_eq!(claims.run_closure(mover).0, closure);
        assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Busy);
        assert_eq!(claims.run_closure(closure).0, closure);
        claims.release(closure);
        assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
    }
    // The claims beside it stay as they are.
    let claims = holding(&[Ask::MoverRead, Ask::MoverRead, Ask::ClosureRead, Ask::KeptRead]);
    claims.run_closure(Ask::MoverRead);
    claims.release(Ask::MoverRead);
    (0..2).for_each(|_| assert!(!claims.release(Ask::ClosureRead)));
    assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Granted);
    assert!(claims.is_kept());
    claims.release(Ask::KeptRead);
    assert!(!claims.is_kept());
}

#[test]
fn s5_5_all_but_kept_claims_pass_under_the_exclusive_claim() {
    for (ask, _) in TABLE {
        let passes = !matches!(ask, Ask::KeptRead | Ask::KeptExclusive);
        let answer = holding(&[Ask::KeptExclusive]).ask(ask, Pass::Exclusive);
        assert_eq!(answer, if passes { Answer::Granted } else { Answer::Busy }, "{ask:?}");
        // Beside anything else the pass changes nothing.
        for held in HELD.into_iter().filter(|held| *held != Ask::KeptExclusive) {
            assert_eq!(holding(&[held]).ask(ask, Pass::Exclusive), cell(ask, held));
        }
    }
}

#[test]
fn s4_15_the_exclusive_claim_on_consumed_memory_still_releases() {
    let claims = holding(&[Ask::KeptExclusive]);
    assert_eq!(claims.ask(Ask::Free, Pass::Exclusive), Answer::Granted);
    assert_eq!(claims.ask(Ask::MoverRead, Pass::Exclusive), Answer::Dead);
    assert!(claims.is_kept());
    assert!(!claims.release(Ask::KeptExclusive));
    assert!(claims.is_dead() && !claims.is_kept());
}

#[test]
fn s5_5_what_was_exported_under_the_exclusive_claim_is_not_taken_over() {
    let claims = holding(&[Ask::KeptExclusive]);
    assert_eq!(claims.ask(Ask::Export, Pass::Exclusive), Answer::Granted);
    assert_eq!(claims.ask(Ask::Free, Pass::Exclusive), Answer::Busy);
    assert!(!claims.release(Ask::KeptExclusive));
    assert_eq!(claims.ask(Ask::Free, Pass::No), Answer::Granted, "its export keeps the bytes");
}

#[test]
fn s5_3_a_read_becomes_exclusive_only_alone_and_inside_the_claims() {
    for other in HELD.into_iter().filter(|other| cell(*other, Ask::KeptRead) == Answer::Granted) {
        let claims = holding(&[Ask::KeptRead, other]);
        assert!(!claims.make_exclusive(), "beside {other:?}");
        assert!(!claims.release(other));
        assert!(claims.make_exclusive(), "beside none");
        assert_eq!(claims.would(Ask::KeptRead, Pass::No, &Marks::new()), Answer::Busy);
        claims.make_read();
        assert_eq!(claims.would(Ask::KeptRead, Pass::No, &Marks::new()), Answer::Granted);
        assert!(claims.make_exclusive());
        assert!(!claims.release(Ask::KeptExclusive));
        assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
    }
    let exported = holding(&[Ask::KeptRead, Ask::Export]);
    assert!(!exported.make_exclusive());
    let waited_for = holding(&[Ask::KeptRead]);
    waited_for.wait_for_release();
    assert!(waited_for.make_exclusive());
    assert!(waited_for.release(Ask::KeptExclusive));
}

#[test]
fn s5_5_two_accesses_under_one_exclusive_claim_meet_as_any_others() {
    let claims = holding(&[Ask::KeptExclusive]);
    assert_eq!(claims.ask(Ask::ClosureRead, Pass::Exclusive), Answer::Granted);
    assert_eq!(claims.ask(Ask::ClosureRead, Pass::Exclusive), Answer::Granted);
    assert_eq!(claims.ask(Ask::ClosureWrite, Pass::Exclusive), Answer::Busy);
    assert_eq!(claims.ask(Ask::Export, Pass::Exclusive), Answer::Busy);
    assert_eq!(claims.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
}

#[test]
fn s5_7_memory_outside_the_claims_is_never_exclusive_and_access_claims_still_apply() {
    let outside = Claims::new();
    outside.set_outside();
    let exported = holding(&[Ask::Export]);
    for claims in [outside, exported] {
        assert!(claims.is_outside());
        assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::AsRead);
        claims.release(Ask::KeptRead);
        assert_eq!(claims.ask(Ask::ClosureWrite, Pass::No), Answer::Granted);
        assert_eq!(claims.ask(Ask::MoverRead, Pass::No), Answer::Busy);
        assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::Busy);
        claims.release(Ask::ClosureWrite);
        assert_eq!(claims.ask(Ask::Export, Pass::No), Answer::Granted);
    }
}

#[test]
fn s5_7_sharing_under_an_exclusive_claim_is_refused() {
    let claims = holding(&[Ask::KeptExclusive]);
    assert!(!claims.set_outside_unless_exclusive());
    assert!(!claims.is_outside());
    claims.release(Ask::KeptExclusive);
    assert!(claims.set_outside_unless_exclusive());
    assert!(claims.is_outside());
}

#[test]
fn s4_15_dead_beats_everything_until_the_next_life() {
    let claims = holding(&[Ask::Export, Ask::Free]);
    assert!(claims.is_dead());
    for (ask, _) in TABLE {
        for pass in [Pass::No, Pass::Exclusive] {
            assert_eq!(claims.ask(ask, pass), Answer::Dead, "{ask:?}");
            assert_eq!(claims.would(ask, pass, &Marks::new()), Answer::Dead, "{ask:?}");
        }
    }
    claims.reset();
    assert!(!claims.is_dead() && !claims.is_outside());
    assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::Granted);
}

#[test]
fn s5_1_a_release_tells_of_waiters_once() {
    let claims = holding(&[Ask::MomentaryRead; 3]);
    assert!(!claims.release(Ask::MomentaryRead));
    claims.wait_for_release();
    assert_eq!(claims.would(Ask::MoverWrite, Pass::No, &Marks::new()), Answer::Waits);
    assert!(claims.release(Ask::MomentaryRead));
    assert!(!claims.release(Ask::MomentaryRead));
    assert_eq!(claims.ask(Ask::MoverWrite, Pass::No), Answer::Granted);
}

#[test]
fn s5_1_that_somebody_waits_changes_no_answer() {
    for (ask, _) in TABLE {
        for held in HELD {
            let claims = holding(&[held]);
            claims.wait_for_release();
            assert_eq!(claims.ask(ask, Pass::No), cell(ask, held), "{ask:?} beside {held:?}");
            assert!(claims.release(held));
        }
    }
}

#[test]
fn s4_12_what_is_left_to_kept_reads_is_the_last_ones() {
    let claims = holding(&[Ask::KeptRead, Ask::KeptRead]);
    assert!(claims.leave() && !claims.leave(), "once");
    assert!(!claims.end_kept_alone());
    assert_eq!(claims.end_kept(), Ended { is_waited_for: false, has_left: false });
    claims.wait_for_release();
    assert_eq!(claims.end_kept(), Ended { is_waited_for: true, has_left: true });
    assert!(!claims.leave() && !claims.is_kept(), "nobody is there");
    assert_eq!(claims.ask(Ask::KeptRead, Pass::No), Answer::Granted);
    assert!(claims.end_kept_alone());
    assert_eq!(claims.ask(Ask::Free, Pass::No), Answer::Granted);
}

#[test]
fn s5_1_the_end_of_a_kept_read_wakes_who_waits_for_it() {
    let claims = holding(&[Ask::KeptRead, Ask::KeptRead]);
    claims.wait_for_release();
    assert!(!claims.end_kept_alone());
    assert_eq!(claims.end_kept(), Ended { is_waited_for: true, has_left: false });
    assert!(claims.end_kept_alone());
}

#[test]
fn s5_1_a_full_count_refuses_the_host_and_makes_device_work_wait() {
    // One below the most, and one more.
    let full = |ask, field: Field| {
        let claims = Claims::new();
        claims.word.store((field.most - 1) << field.shift, Ordering::Relaxed);
        assert_eq!(claims.ask(ask, Pass::No), Answer::Granted);
        claims
    };
    let kept = full(Ask::KeptRead, KEPT_READ);
    assert_eq!(kept.ask(Ask::KeptRead, Pass::No), Answer::Busy);
    assert_eq!(kept.ask(Ask::KeptExclusive, Pass::No), Answer::Busy);
    assert_eq!(kept.ask(Ask::MoverRead, Pass::No), Answer::Granted);
    let momentary = full(Ask::MomentaryRead, MOMENTARY_READ);
    assert_eq!(momentary.ask(Ask::MomentaryRead, Pass::No), Answer::Waits);
    momentary.wait_for_release();
    assert!(momentary.release(Ask::MomentaryRead));
    assert_eq!(momentary.ask(Ask::MomentaryRead, Pass::No), Answer::Granted);
    // All movers may become closures at once.
    let movers = full(Ask::MoverRead, MOVER_READ);
    assert_eq!(movers.ask(Ask::MoverRead, Pass::No), Answer::Busy);
    assert_eq!(movers.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
    for _ in 0..MOVER_READ.most {
        assert_eq!(movers.run_closure(Ask::MoverRead).0, Ask::ClosureRead);
    }
    assert_eq!(movers.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
    (0..CLOSURE_READ.most).for_each(|_| assert!(!movers.release(Ask::ClosureRead)));
    assert_eq!(movers.ask(Ask::Free, Pass::No), Answer::Granted);
}
