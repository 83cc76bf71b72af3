//! The table of S12.1: what each call answers once device d is lost, cell by cell.

use crate::bench::{lost, misuse, own_halves};
use rig::driver::Addressed;
use rig::memory::function;
use rig::{Buffer, Claims, Misuse, Result, Stamps, Use, copy, host};
use rig_support::uses::{
    CLAIMS, EXPORT, FILL, Named, READ, READS, WRITE, WRITES, are_lost, is_lost, succeed,
};
use rig_support::{Answer, Known, Opened, Script, drain};

const LEN: u64 = 64 << 10;

/// Device d, whose memory the host addresses, and device e, which is well and maps d's memory.
struct Pair {
    e: Opened,
    d: Opened,
    name: String,
}

impl Pair {
    fn new(name: &str) -> Self {
        let d = Script::new(name).addressed(Addressed::Always).stops(Answer::WhenTold);
        let e = Script::new(format!("{name} e")).peers(Known::Scripted).maps_host(Some(64));
        Self { e: e.open(), d: d.open(), name: name.to_owned() }
    }

    fn lose(&self) {
        self.d.device_lost("unplugged");
    }

    /// Ends the stop of d, and waits for that.
    fn settle(&self) {
        self.d.control.answer_stop();
        self.d.close().unwrap();
        assert!(self.d.is_settled());
    }

    /// Device d uses host memory as value 1; answers the memory, and its borrow on e.
    fn used(&self, what: Use) -> (Buffer, Buffer) {
        let h = host().create_buffer(LEN).unwrap();
        let on_e = h.borrow(&self.e).unwrap().expect("e maps host memory");
        let on_d = h.borrow(&self.d).unwrap().expect("d maps host memory");
        let work = match what {
            Use::Read => self.d.prepare().reads(&on_d),
            Use::Write => self.d.prepare().writes(&on_d),
        };
        work.build().unwrap().submit(&[], &[]).unwrap();
        (h, on_e)
    }
}

fn reads() -> Vec<Named> {
    [&READS[..], &[READ]].concat()
}

fn writes() -> Vec<Named> {
    [&WRITES[..], &[WRITE, FILL]].concat()
}

/// Kept claims and borrows; an export comes last, since it changes what comes after.
fn claims() -> Vec<Named> {
    let borrow: Named = ("borrow", |buffer| buffer.borrow(&host()).map(drop));
    [&CLAIMS[..], &[borrow, EXPORT]].concat()
}

/// Device e submits work on a borrow.
fn submit(e: &Opened, on_e: &Buffer, what: Use) -> Result<()> {
    let work = match what {
        Use::Read => e.prepare().reads(on_e),
        Use::Write => e.prepare().writes(on_e),
    };
    work.build()?.submit(&[], &[])?.wait()
}

#[test]
fn s12_1_on_the_lost_device_create_load_prepare_submit_and_wait_are_lost() {
    let pair = Pair::new("s12_1 device");
    let d = &pair.d;
    let work = d.prepare().build().unwrap();
    work.submit(&[], &[]).unwrap().wait().unwrap();
    pair.lose();
    let name = &pair.name;
    is_lost("create", d.create_buffer(8), name);
    is_lost("create nothing", d.create_buffer(0), name);
    is_lost("create now", d.create_buffer_now(8), name);
    is_lost("load", d.kernel(function("none", |_| ())), name);
    is_lost("prepare", d.prepare().build(), name);
    is_lost("submit", work.submit(&[], &[]), name);
    is_lost("record", d.record_use(&[], &[]), name);
    is_lost("wait", d.wait(1), name);
}

#[test]
fn s12_1_on_the_lost_device_facts_and_what_lets_go_answer() {
    let pair = Pair::new("s12_1 facts");
    let d = &pair.d;
    d.prepare().build().unwrap().submit(&[], &[]).unwrap().wait().unwrap();
    pair.lose();
    assert_eq!((d.submitted(), d.reached(), d.lost().as_deref()), (1, 1, Some("unplugged")));
    assert_eq!((d.name(), d.facts().may_block), (pair.name.as_str(), true));
    d.set_budget(1 << 20).unwrap();
    assert_eq!((d.budget(), d.held(), d.cached()), (1 << 20, 0, 0));
    d.trim().unwrap();
    d.free_cache().unwrap();
}

#[test]
fn s12_1_memory_of_the_lost_device_is_lost_by_any_buffer() {
    let pair = Pair::new("s12_1 memory");
    let x = pair.d.create_buffer(LEN).unwrap();
    let on_e = x.borrow(&pair.e).unwrap().expect("e maps d's memory");
    let work = pair.e.prepare().reads(&on_e).build().unwrap();
    let by = [x.clone(), x.view(8, 64).unwrap(), x.borrow(&host()).unwrap().unwrap(), on_e.clone()];
    pair.lose();
    for buffer in &by {
        are_lost(buffer, &[reads(), writes(), claims()].concat(), &pair.name);
        is_lost("consume", Claims::with(&[], &[&[buffer]], |_| ()), &pair.name);
    }
    is_lost("prepare", pair.e.prepare().reads(&on_e).build(), &pair.name);
    is_lost("submit", work.submit(&[], &[]), &pair.name);
    pair.settle();
    for buffer in &by {
        are_lost(buffer, &[reads(), writes(), claims()].concat(), &pair.name);
    }
    is_lost("submit", work.submit(&[], &[]), &pair.name);
}

#[test]
fn s12_1_memory_of_the_lost_device_answers_facts_drops_frees_and_releases() {
    let pair = Pair::new("s12_1 lets go");
    let (x, y) = (pair.d.create_buffer(LEN).unwrap(), pair.d.create_buffer(LEN).unwrap());
    let claim = x.claim_read().unwrap();
    pair.lose();
    assert_eq!((x.len(), x.spans(), x.stamps(), x.dead()), (LEN, true, Stamps::default(), None));
    assert_eq!(misuse(x.free()), Misuse::Busy);
    drop(claim);
    x.free().unwrap();
    assert_eq!(x.dead().as_deref(), Some("freed"));
    drop(y);
    pair.settle();
    drain(&pair.d);
    assert_eq!(pair.d.held(), 0);
}

#[test]
fn s12_1_a_borrow_on_the_lost_device_is_lost_and_the_original_well() {
    let pair = Pair::new("s12_1 borrow");
    let h = host().create_buffer(LEN).unwrap();
    let on_d = h.borrow(&pair.d).unwrap().expect("d maps host memory");
    let work = pair.d.prepare().reads(&on_d).build().unwrap();
    pair.lose();
    are_lost(&on_d, &[reads(), writes(), claims()].concat(), &pair.name);
    is_lost("borrow on e", on_d.borrow(&pair.e), &pair.name);
    is_lost("submit", work.submit(&[], &[]), &pair.name);
    assert_eq!((on_d.len(), on_d.device()), (LEN, pair.d.device.clone()));
    succeed(&h, &[reads(), writes(), claims()].concat());
    pair.settle();
    are_lost(&on_d, &[reads(), writes(), claims()].concat(), &pair.name);
    on_d.free().unwrap();
    assert!(h.dead().is_some());
}

#[test]
fn s12_1_memory_elsewhere_is_lost_to_all_if_its_last_write_is_not_done() {
    let pair = Pair::new("s12_1 written");
    let (h, on_e) = pair.used(Use::Write);
    pair.lose();
    let all_lost = || {
        for buffer in [&h, &on_e, &h.view(0, 8).unwrap()] {
            are_lost(buffer, &[reads(), writes(), claims()].concat(), &pair.name);
        }
        is_lost("submit reading", submit(&pair.e, &on_e, Use::Read), &pair.name);
        is_lost("submit writing", submit(&pair.e, &on_e, Use::Write), &pair.name);
    };
    all_lost();
    pair.settle();
    // S12.3: for ever, and no overwrite repairs it.
    all_lost();
    h.free().unwrap();
}

#[test]
fn s12_1_memory_elsewhere_is_lost_to_writers_if_a_use_is_not_done() {
    let pair = Pair::new("s12_1 used");
    let (h, on_e) = pair.used(Use::Read);
    pair.lose();
    for buffer in [&h, &on_e, &h.view(0, 8).unwrap()] {
        succeed(buffer, &reads());
        are_lost(buffer, &[writes(), claims()].concat(), &pair.name);
    }
    submit(&pair.e, &on_e, Use::Read).unwrap();
    is_lost("submit writing", submit(&pair.e, &on_e, Use::Write), &pair.name);
    pair.settle();
    // S12.3: uses that are not the last write are dropped.
    for buffer in [&h, &on_e] {
        succeed(buffer, &[reads(), writes(), claims()].concat());
    }
    submit(&pair.e, &on_e, Use::Write).unwrap();
    assert_eq!(h.stamps().use_by(&pair.d), None);
}

#[test]
fn s12_2_memory_whose_points_are_done_is_ordinary_at_once() {
    for what in [Use::Read, Use::Write] {
        let pair = Pair::new(&format!("s12_2 {what:?}"));
        let (h, on_e) = pair.used(what);
        pair.d.wait(1).unwrap();
        pair.lose();
        succeed(&h, &[reads(), writes(), claims()].concat());
        submit(&pair.e, &on_e, Use::Write).unwrap();
        assert!(!pair.d.is_settled());
    }
}

#[test]
fn s12_1_a_read_of_the_lost_device_after_its_done_write_keeps_readers_well() {
    let pair = Pair::new("s12_1 both");
    let (h, _) = pair.used(Use::Write);
    pair.d.wait(1).unwrap();
    let on_d = h.borrow(&pair.d).unwrap().unwrap();
    pair.d.prepare().reads(&on_d).build().unwrap().submit(&[], &[]).unwrap();
    pair.lose();
    succeed(&h, &reads());
    are_lost(&h, &writes(), &pair.name);
}

#[test]
fn s0_2_a_copy_that_meets_a_loss_hands_nothing_over() {
    let pair = Pair::new("s0_2 copy");
    let well = own_halves(Script::new("s0_2 copy well")).open();
    let (x, nothing) = (well.create_buffer(LEN).unwrap(), host().create_buffer(0).unwrap());
    let (read, written) = (pair.used(Use::Read).0, pair.used(Use::Write).0);
    pair.lose();
    is_lost("copy into memory in use", copy(&x, &read), &pair.name);
    is_lost("copy from memory being written", copy(&written, &x), &pair.name);
    assert_eq!((well.submitted(), x.stamps()), (0, Stamps::default()));
    assert_eq!(well.half_stamps(0, 0), None);
    // S6.8: a copy of 0 bytes does every check.
    is_lost("copy of nothing into it", copy(&nothing, &read.view(8, 0).unwrap()), &pair.name);
    is_lost("copy of nothing from it", copy(&written.view(8, 0).unwrap(), &nothing), &pair.name);
}

#[test]
fn s12_1_consume_is_lost_if_a_point_is_not_done() {
    let pair = Pair::new("s12_1 consume");
    let h = host().create_buffer(LEN).unwrap();
    let on_d = h.borrow(&pair.d).unwrap().unwrap();
    let work = pair.d.prepare().reads(&on_d).build().unwrap();
    Claims::with(&[], &[&[&h]], |claims| {
        assert!(claims.is_exclusive(&h));
        // Kept claims refuse no device work (S5.6).
        work.submit(&[], &[]).unwrap();
        pair.lose();
        is_lost("consume", claims.consume(&h, "donated"), &pair.name);
        assert_eq!(h.dead(), None);
    })
    .unwrap();
    pair.settle();
    h.write(|_| ()).unwrap();
}

#[test]
fn s12_3_an_undone_last_write_stays_though_the_name_opens_again() {
    let pair = Pair::new("s12_3 reopened");
    let (h, _) = pair.used(Use::Write);
    pair.lose();
    pair.settle();
    let again = Script::new("s12_3 reopened").open();
    assert_eq!(again.submitted(), 0);
    assert_eq!(lost(h.read(|_| ())).0, pair.name);
    assert_eq!(lost(h.fill(1)).0, pair.name);
    assert_eq!(lost(h.borrow(&again)).0, pair.name);
}

#[test]
fn s12_4_an_export_from_before_the_loss_tells_no_error() {
    let pair = Pair::new("s12_4");
    let h = host().create_buffer(LEN).unwrap();
    h.fill(1).unwrap();
    let export = h.export().unwrap();
    let on_d = h.borrow(&pair.d).unwrap().unwrap();
    pair.d.prepare().fill(&on_d, 2).build().unwrap().submit(&[], &[]).unwrap();
    pair.lose();
    let mut seen = [0; LEN as usize];
    export.copy_out(0, &mut seen).unwrap();
    assert!(seen.iter().all(|byte| [1, 2].contains(byte)));
    export.copy_in(0, &[3; 8]).unwrap();
    pair.settle();
    export.copy_out(0, &mut seen).unwrap();
    lost(h.read(|_| ()));
}
