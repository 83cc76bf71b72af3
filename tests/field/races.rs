//! Calls beside calls: what one thread does while another stands inside the driver.

use crate::watch::{begin, poll, rounds};
use rig::driver::Addressed;
use rig::{Claims, Error, Misuse, host};
use rig_support::{Answer, Call, Script, StopEnd, drain};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::Poll;

const PAGED: u64 = 65_536;

fn misuse<T>(answer: rig::Result<T>) -> Option<Misuse> {
    answer.err().and_then(|error| error.misuse().cloned())
}

fn dead(why: &str) -> Option<Misuse> {
    Some(Misuse::Dead { why: why.into() })
}

#[test]
fn s4_10_a_borrow_revived_and_used_again_is_released_after_its_last_use() {
    let d = Script::new("revived").open();
    let h = host().create_buffer(PAGED).unwrap();
    for value in 1..=2 {
        let hb = h.borrow(&d).unwrap().unwrap();
        assert_eq!(d.record_use(&[&hb], &[]).unwrap().value(), value);
        drop(hb);
        drain(&d);
    }
    // The first use is done; the mapping is due after the second.
    d.control.run(1);
    drain(&d);
    assert_eq!(d.control.count(Call::Release), 0);
    d.control.run(1);
    drain(&d);
    assert_eq!((d.control.count(Call::ImportHost), d.control.count(Call::Release)), (1, 1));
}

#[test]
fn s4_15_a_dead_borrow_keeps_neither_mapping_nor_memory() {
    let d = Script::new("dead borrow").open();
    let h = host().create_buffer(PAGED).unwrap();
    let hb = h.borrow(&d).unwrap().unwrap();
    d.record_use(&[], &[&hb]).unwrap();
    d.control.run_all();
    h.free().unwrap();
    drain(&d);
    assert_eq!(d.control.mappings_live(), 0);
    assert_eq!(misuse(d.record_use(&[&hb], &[])), dead("freed"));
}

#[test]
fn s4_11_a_borrow_beside_a_free_is_dead_and_the_bytes_outlive_its_mapping() {
    let d = Script::new("import beside free").open();
    let h = host().create_buffer(PAGED).unwrap();
    let address = h.read(|bytes| bytes.as_ptr() as u64).unwrap();
    d.control.gate_calls(Call::ImportHost);
    let borrowing = {
        let (h, device) = (h.clone(), d.device.clone());
        begin("a borrow", move || misuse(h.borrow(&device)))
    };
    d.control.await_calls(Call::ImportHost, 1);
    h.free().unwrap();
    drain(&host());
    // The driver still maps the bytes: they serve nobody.
    let next = host().create_buffer(PAGED).unwrap();
    assert_ne!(next.read(|bytes| bytes.as_ptr() as u64).unwrap(), address);
    d.control.open_calls(Call::ImportHost);
    assert_eq!(borrowing.end(), dead("freed"));
    assert_eq!(d.control.mappings_live(), 0);
}

#[test]
fn s4_16_a_lend_beside_a_free_is_dead_and_the_driver_has_the_memory_meanwhile() {
    let d = Script::new("lend beside free").open();
    let x = d.create_buffer(4096).unwrap();
    d.control.gate_calls(Call::Lend);
    let lending = {
        let x = x.clone();
        begin("a lend", move || misuse(x.lend()))
    };
    d.control.await_calls(Call::Lend, 1);
    x.free().unwrap();
    d.free_cache().unwrap();
    assert_eq!(d.control.count(Call::Free), 0);
    d.control.open_calls(Call::Lend);
    assert_eq!(lending.end(), dead("freed"));
}

#[test]
fn s4_13_a_driver_that_is_asked_about_lent_memory_stands_in_nobodys_way() {
    let d = Script::new("let go").open();
    let x = d.create_buffer(4096).unwrap();
    let region = d.control.calls(Call::Alloc).len();
    assert_eq!(region, 1);
    drop(x.lend().unwrap());
    drop(x);
    d.control.gate_calls(Call::LetGo);
    let draining = {
        let device = d.device.clone();
        begin("a drain", move || drain(&device))
    };
    d.control.await_calls(Call::LetGo, 1);
    let facts = {
        let device = d.device.clone();
        begin("facts", move || (device.held(), device.stats().given_away_bytes))
    };
    assert_eq!(facts.end(), (0, 4096));
    d.control.open_calls(Call::LetGo);
    draining.end();
}

#[test]
fn s9_5_cached_memory_of_a_device_that_never_settles_stays_under_its_work() {
    let d = Script::new("never settles").stop_end(StopEnd::NeverSettles).open();
    let x = d.create_buffer(4096).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    // Queue order covers the next use, so it is cached under its own work (S9.3).
    assert_eq!(d.cached(), 4096);
    d.device_lost("test");
    drain(&d);
    assert_eq!((d.cached(), d.control.count(Call::Free)), (0, 0));
}

#[test]
fn s10_8_memory_that_the_driver_refuses_later_is_gone_and_given_back_to_nobody() {
    let _rounds = rounds();
    let d = Script::new("refused later").allocs(Answer::WhenTold).open();
    let mut creating = pin!(d.create_buffer_async(4096));
    for tries in 1..=4 {
        assert!(poll(creating.as_mut()).is_pending(), "try {tries}");
        assert_eq!(d.control.count(Call::Alloc), tries);
        d.control.refuse_allocs();
    }
    let Poll::Ready(Err(Error::OutOfMemory { held_bytes, .. })) = poll(creating.as_mut()) else {
        panic!("the fourth try was the last");
    };
    assert_eq!((held_bytes, d.held(), d.cached(), d.control.regions_live()), (0, 0, 0, 0));
    d.control.check();
}

#[test]
fn s10_12_memory_without_a_verdict_is_cached_only_once_the_driver_gave_it() {
    let d = Script::new("no verdict").allocs(Answer::WhenTold).open();
    // A buffer made at once, and one whose maker gave up: the verdict comes when they return.
    let made: [&dyn Fn(); 2] = [&|| drop(d.create_buffer_now(4096).unwrap()), &|| {
        assert!(poll(pin!(d.create_buffer_async(4096))).is_pending());
    }];
    for make in made {
        make();
        drain(&d);
        assert_eq!((d.held(), d.cached(), d.control.regions_live()), (0, 0, 0), "none yet");
        make();
        d.control.refuse_allocs();
        drain(&d);
        assert_eq!((d.held(), d.cached(), d.control.regions_live()), (0, 0, 0), "refused");
        make();
        d.control.answer_allocs();
        drain(&d);
        assert_eq!((d.held(), d.cached(), d.control.regions_live()), (4096, 4096, 1), "given");
        d.free_cache().unwrap();
    }
}

#[test]
fn s0_7_a_blocking_call_that_waits_for_a_verdict_alone_sleeps_meanwhile() {
    for answer in [Answer::AtService, Answer::WhenTold] {
        let d = Script::new("idle verdict").allocs(answer).open();
        let creating = {
            let device = d.device.clone();
            begin("a create", move || device.create_buffer(4096).map(drop))
        };
        if answer == Answer::WhenTold {
            // The tick goes on serving the driver meanwhile.
            let served = d.control.count(Call::Service);
            d.control.await_calls(Call::Service, served + 3);
            assert!(creating.runs());
            d.control.answer_allocs();
        }
        creating.end().unwrap();
        let asked = d.control.count(Call::PollAlloc) + d.control.count(Call::Block);
        // A spin asks some hundred thousand times; a busy machine wakes more often than a calm one.
        assert!(asked < 5_000, "{answer:?}: the driver was asked {asked} times");
    }
}

#[test]
fn s5_4_claims_that_ended_while_a_consume_waited_take_nothing_over() {
    let d = Script::new("late consume").addressed(Addressed::Always).open();
    let x = d.create_buffer(4096).unwrap();
    d.control.gate_calls(Call::HandOver);
    let submitting = {
        let (x, device) = (x.clone(), d.device.clone());
        begin("a submit", move || device.record_use(&[], &[&x]))
    };
    // The momentary claim of the hand-over keeps a donation read, so the claim comes first.
    d.control.await_calls(Call::HandOver, 1);
    d.control.open_calls(Call::HandOver);
    submitting.end().unwrap();
    d.control.run_all();
    let (told, claims) = channel();
    let (ended, end) = channel::<()>();
    let holding = {
        let x = x.clone();
        begin("claims", move || {
            Claims::with(&[], &[&[&x]], |claims| {
                assert!(claims.is_exclusive(&x));
                told.send(claims.clone()).unwrap();
                end.recv().unwrap();
            })
        })
    };
    let claims: Claims = claims.recv().unwrap();
    d.control.gate_calls(Call::HandOver);
    let submitting = {
        let (x, device) = (x.clone(), d.device.clone());
        begin("a submit", move || device.record_use(&[], &[&x]))
    };
    d.control.await_calls(Call::HandOver, 2);
    let consuming = {
        let x = x.clone();
        begin("a consume", move || misuse(claims.consume(&x, "donated")))
    };
    // Whichever of the two comes first, nothing is taken over once the claims have ended.
    ended.send(()).unwrap();
    holding.end().unwrap();
    d.control.open_calls(Call::HandOver);
    submitting.end().unwrap();
    assert_eq!(consuming.end(), Some(Misuse::ClaimsEnded));
    d.control.run_all();
    assert_eq!(x.dead(), None);
    x.write(|bytes| bytes.fill(1)).unwrap();
    x.free().unwrap();
}
