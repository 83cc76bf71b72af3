//! What each operation waits for, which stamps it raises and which values it takes: the table of
//! S3.7, row by row.
//!
//! Device d understands no producer, so what it follows is waited for by the host; and device e,
//! which used the memory before, runs only what somebody waits for. So e shows what was followed.

use crate::bench::own_halves;
use rig::{Buffer, Claims, Device, Hold, Use, copy, file, host, wrap};
use rig_support::{Known, Opened, Scratch, Script, double, look};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of each side: whole pages, so that any device maps them.
const LEN: u64 = 64 << 10;

/// Where a side's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Host,
    Device,
    /// On the host, named through its borrow on d.
    Borrow,
}

/// What an operation waits for on one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Follows {
    Nothing,
    /// F1 and F3.
    LastWrite,
    /// F2 and F4.
    EveryUse,
}

/// One side of an operation: where it is, what is waited for, and the stamps afterwards, as the
/// values in `write; use by d`.
type Side = (At, Follows, &'static str);

struct Row {
    name: &'static str,
    src: Option<Side>,
    dst: Option<Side>,
    values: u64,
    call: fn(&Scene) -> rig::Result<()>,
}

/// Two devices and the sides of one operation. Device e, which maps memory of d, ends before it.
struct Scene {
    src: Option<Buffer>,
    dst: Option<Buffer>,
    /// The allocation behind each side.
    roots: [Option<Buffer>; 2],
    e: Opened,
    d: Opened,
}

impl Scene {
    fn new(row: &Row) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let d = own_halves(Script::new(format!("s3_7 d{number}")));
        let d = d.understands(Known::Nobody, 0).peers(Known::Scripted).code_bytes(4_096).open();
        let e = Script::new(format!("s3_7 e{number}")).peers(Known::Scripted).open();
        let root = |side: &Option<Side>| {
            side.map(|(at, ..)| match at {
                At::Host | At::Borrow => host().create_buffer(LEN).unwrap(),
                At::Device => d.create_buffer(LEN).unwrap(),
            })
        };
        let roots = [root(&row.src), root(&row.dst)];
        let named = |side: &Option<Side>, root: &Option<Buffer>| match (side, root) {
            (Some((At::Borrow, ..)), Some(root)) => root.borrow(&d).unwrap(),
            _ => root.clone(),
        };
        let (src, dst) = (named(&row.src, &roots[0]), named(&row.dst, &roots[1]));
        Self { src, dst, roots, e, d }
    }

    fn src(&self) -> &Buffer {
        self.src.as_ref().expect("the row has a source")
    }

    fn dst(&self) -> &Buffer {
        self.dst.as_ref().expect("the row has a destination")
    }

    /// Device e uses a side's memory, and nothing runs yet.
    fn used_by_e(&self, root: &Buffer, what: Use) {
        let borrow = root.borrow(&self.e).unwrap().expect("e maps the memory of both");
        let work = match what {
            Use::Read => self.e.prepare().reads(&borrow),
            Use::Write => self.e.prepare().writes(&borrow),
        };
        assert_eq!(work.build().unwrap().submit(&[], &[]).unwrap().value(), 1);
        assert_eq!(self.e.reached(), 0);
    }

    fn cell(&self, root: &Buffer) -> String {
        let stamps = root.stamps();
        let value = |point: Option<rig::Point>| {
            point.map_or_else(|| "-".to_owned(), |point| point.value().to_string())
        };
        format!("{}; {}", value(stamps.write), value(stamps.use_by(&self.d)))
    }
}

/// Runs a row without other work, and looks at its stamps and values.
fn check_stamps(row: &Row) {
    let scene = Scene::new(row);
    (row.call)(&scene).unwrap_or_else(|error| panic!("{}: {error}", row.name));
    assert_eq!(scene.d.submitted(), row.values, "{}: values", row.name);
    for (side, root) in [row.src, row.dst].into_iter().zip(&scene.roots) {
        if let (Some((_, _, cell)), Some(root)) = (side, root) {
            assert_eq!(scene.cell(root), cell, "{}: {root:?}", row.name);
        }
    }
}

/// Runs a row after device e used one side, and looks whether that was waited for.
fn check_waits(row: &Row) {
    for index in [0, 1] {
        let Some((_, follows, _)) = [row.src, row.dst][index] else { continue };
        for what in [Use::Read, Use::Write] {
            let scene = Scene::new(row);
            scene.used_by_e(scene.roots[index].as_ref().unwrap(), what);
            (row.call)(&scene).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            let waits =
                follows == Follows::EveryUse || follows == Follows::LastWrite && what == Use::Write;
            let side = ["the source", "the destination"][index];
            let waited = scene.e.reached() == 1;
            assert_eq!(waited, waits, "{}: e's {what:?} of {side}", row.name);
        }
    }
}

fn check(rows: &[Row]) {
    rows.iter().for_each(check_stamps);
    rows.iter().for_each(check_waits);
}

/// A side that nothing is waited for on.
const fn idle(at: At) -> Option<Side> {
    Some((at, Follows::Nothing, "-; -"))
}

/// A side that the host reads.
const fn host_reads(at: At) -> Option<Side> {
    Some((at, Follows::LastWrite, "-; -"))
}

/// A side that the host writes.
const fn host_writes(at: At) -> Option<Side> {
    Some((at, Follows::EveryUse, "-; -"))
}

/// A side that d reads as its value 1.
const fn d_reads(at: At) -> Option<Side> {
    Some((at, Follows::LastWrite, "-; 1"))
}

/// A side that d writes as its value 1.
const fn d_writes(at: At) -> Option<Side> {
    Some((at, Follows::EveryUse, "1; 1"))
}

/// Runs `f` with a file of its own, of a device of its own.
fn with_file<R>(f: impl FnOnce(&Buffer) -> R) -> R {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("s3_7 files{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let (files, path) = (file::open(&name).unwrap(), Scratch::new());
    let answer = f(&files.create_file(&path, LEN).unwrap());
    files.close().unwrap();
    answer
}

#[test]
fn s3_7_create_wrap_view_borrow_lend_claim_hold_and_free_follow_nothing() {
    let on = |name, at, call| Row { name, src: idle(at), dst: None, values: 0, call };
    check(&[
        on("create", At::Device, |scene| scene.d.create_buffer(LEN).map(drop)),
        on("wrap", At::Host, |_| {
            wrap(vec![0_u8; 8]);
            Ok(())
        }),
        on("view", At::Device, |scene| scene.src().view(1, 7).map(drop)),
        on("borrow", At::Host, |scene| scene.src().borrow(&scene.d).map(drop)),
        on("lend", At::Device, |scene| scene.src().lend().map(drop)),
        on("claim", At::Device, |scene| scene.src().claim_read().map(drop)),
        on("claims", At::Host, |scene| Claims::with(&[scene.src()], &[], |_| ())),
        on("hold", At::Device, |_| {
            Hold::keep(0);
            Ok(())
        }),
        on("free", At::Device, |scene| scene.src().free()),
    ]);
}

#[test]
fn s3_7_host_copies_and_files_follow_f3_of_the_source_and_f4_of_the_destination() {
    check(&[
        Row {
            name: "host copy",
            src: host_reads(At::Host),
            dst: host_writes(At::Host),
            values: 0,
            call: |scene| copy(scene.src(), scene.dst()),
        },
        Row {
            name: "file read",
            src: None,
            dst: host_writes(At::Host),
            values: 0,
            call: |scene| with_file(|file| copy(file, scene.dst())),
        },
        Row {
            name: "file write",
            src: host_reads(At::Host),
            dst: None,
            values: 0,
            call: |scene| with_file(|file| copy(scene.src(), file)),
        },
    ]);
}

#[test]
fn s3_7_a_direct_copy_follows_f1_and_f2_and_stamps_both_sides() {
    let direct = |name, src, dst| Row {
        name,
        src: d_reads(src),
        dst: d_writes(dst),
        values: 1,
        call: |scene| copy(scene.src(), scene.dst()),
    };
    check(&[
        direct("direct copy", At::Device, At::Device),
        direct("direct copy from a borrow", At::Borrow, At::Device),
        direct("direct copy to a borrow", At::Device, At::Borrow),
    ]);
}

#[test]
fn s3_7_staged_copies_stamp_the_devices_side_alone() {
    check(&[
        Row {
            name: "staged in",
            src: host_reads(At::Host),
            dst: d_writes(At::Device),
            values: 1,
            call: |scene| copy(scene.src(), scene.dst()),
        },
        Row {
            name: "staged out",
            src: d_reads(At::Device),
            dst: host_writes(At::Host),
            values: 1,
            call: |scene| copy(scene.src(), scene.dst()),
        },
    ]);
}

#[test]
fn s3_7_blits_and_fills_follow_by_who_moves_the_bytes() {
    let out = |name, src, values| Row {
        name,
        src,
        dst: None,
        values,
        call: |scene| scene.src().blit_to(0, &mut [0; LEN as usize]),
    };
    let within = |name, dst, values| Row {
        name,
        src: None,
        dst,
        values,
        call: |scene| scene.dst().blit_from(0, &[1; LEN as usize]),
    };
    let fill =
        |name, dst, values| Row { name, src: None, dst, values, call: |scene| scene.dst().fill(1) };
    check(&[
        out("blit out of host memory", host_reads(At::Host), 0),
        within("blit into host memory", host_writes(At::Host), 0),
        fill("fill of host memory", host_writes(At::Host), 0),
        out("blit out of device memory", d_reads(At::Device), 1),
        within("blit into device memory", d_writes(At::Device), 1),
        fill("fill of device memory", d_writes(At::Device), 1),
    ]);
}

#[test]
fn s3_7_read_follows_f3_write_and_export_follow_f4() {
    let of = |name, src, call| Row { name, src, dst: None, values: 0, call };
    check(&[
        of("read", host_reads(At::Host), |scene| scene.src().read(|_| ())),
        of("write", host_writes(At::Host), |scene| scene.src().write(|_| ())),
        of("export", host_writes(At::Host), |scene| scene.src().export().map(drop)),
    ]);
}

#[test]
fn s3_7_a_buffer_wait_follows_f3_or_f4_wherever_the_memory_is() {
    let of = |name, src, call| Row { name, src, dst: None, values: 0, call };
    let read: fn(&Scene) -> rig::Result<()> = |scene| scene.src().wait(Use::Read);
    let write: fn(&Scene) -> rig::Result<()> = |scene| scene.src().wait(Use::Write);
    check(&[
        of("wait to read host memory", host_reads(At::Host), read),
        of("wait to write host memory", host_writes(At::Host), write),
        of("wait to read device memory", host_reads(At::Device), read),
        of("wait to write device memory", host_writes(At::Device), write),
    ]);
}

#[test]
fn s3_7_a_submission_reads_by_f1_writes_by_f2_and_stamps_all_it_names() {
    let submit = |name, src, dst, call| Row { name, src, dst, values: 1, call };
    fn one(work: rig::Builder) -> rig::Result<()> {
        work.build()?.submit(&[], &[]).map(drop)
    }
    check(&[
        submit("a read", d_reads(At::Device), None, |scene| {
            one(scene.d.prepare().reads(scene.src()))
        }),
        submit("a write", None, d_writes(At::Device), |scene| {
            one(scene.d.prepare().writes(scene.dst()))
        }),
        submit("a copy", d_reads(At::Borrow), d_writes(At::Device), |scene| {
            one(scene.d.prepare().copy(scene.src(), scene.dst()))
        }),
        submit("a fill", None, d_writes(At::Borrow), |scene| {
            one(scene.d.prepare().fill(scene.dst(), 1))
        }),
    ]);
}

#[test]
fn s3_7_argument_bytes_are_read() {
    let d = Script::new("s3_7 arguments").open();
    let kernel = double(&d);
    let x = d.create_buffer(LEN).unwrap();
    let args = host().create_buffer(64 << 10).unwrap();
    let named = args.borrow(&d).unwrap().expect("d maps host memory").view(0, 16).unwrap();
    let work = d.prepare().launch(&kernel, [1; 3]).args_in(&named).writes(&x).build().unwrap();
    let at = work.submit(&[], &[]).unwrap();
    assert_eq!((args.stamps().write, args.stamps().use_by(&d)), (None, Some(at)));
    assert_eq!((x.stamps().write, x.stamps().use_by(&d)), (Some(at), Some(at)));
}

#[test]
fn s3_7_a_code_load_into_device_memory_takes_a_value_and_is_waited_for() {
    let d = Script::new("s3_7 code").code_bytes(4_096).open();
    let kernel = double(&d);
    assert_eq!((d.submitted(), d.reached(), d.held()), (1, 1, 4_096));
    // The code is memory that each launch reads.
    let x = d.create_buffer(LEN).unwrap();
    d.prepare().launch(&kernel, [1; 3]).writes(&x).build().unwrap().submit(&[], &[]).unwrap();
    drop(kernel);
    assert_eq!(d.held(), 4_096 + LEN, "work that uses the code is left");
}

/// Three devices that share halves, and their names' values of a half's stamps.
fn halves_of(device: &Device, by: &[&Opened]) -> Vec<String> {
    let halves = [0, 1].map(|half| device.half_stamps(0, half).expect("both halves are made"));
    let text = |point: Option<rig::Point>| {
        point.map_or_else(|| "-".to_owned(), |point| point.value().to_string())
    };
    let cells = halves.iter().map(|half| {
        let uses: Vec<_> = by.iter().map(|device| text(half.use_by(device))).collect();
        format!("{}; {}", text(half.write), uses.join(", "))
    });
    cells.collect()
}

#[test]
fn s3_7_a_staged_copy_takes_a_value_a_piece() {
    let d = own_halves(Script::new("s3_7 pieces")).open();
    let len = d.facts().half_bytes * 5 / 2;
    let (h, x) = (host().create_buffer(len).unwrap(), d.create_buffer(len).unwrap());
    copy(&h, &x).unwrap();
    assert_eq!((d.submitted(), d.reached()), (3, 3), "its last leg is waited for");
    assert_eq!(halves_of(&d, &[&d]), ["-; 3", "-; 2"]);
    copy(&x, &h).unwrap();
    assert_eq!((d.submitted(), halves_of(&d, &[&d])), (6, vec!["6; 6".into(), "5; 5".into()]));
}

#[test]
fn s3_7_a_copy_staged_through_takes_a_value_a_piece_on_each_device() {
    let d = own_halves(Script::new("s3_7 from")).open();
    let half_bytes = d.facts().half_bytes;
    let e = Script::new("s3_7 to").facts(|facts| {
        (facts.half_bytes, facts.piece_bytes) = (half_bytes, half_bytes);
    });
    let e = e.open();
    let len = half_bytes * 3 / 2;
    let (x, y) = (d.create_buffer(len).unwrap(), e.create_buffer(len).unwrap());
    x.fill(7).unwrap();
    copy(&x, &y).unwrap();
    assert_eq!((d.submitted(), e.submitted(), e.reached()), (3, 2, 2));
    assert_eq!(halves_of(&d, &[&d, &e]), ["2; 2, 1", "3; 3, 2"]);
    assert_eq!((x.stamps().use_by(&d).unwrap().value(), y.stamps().write.unwrap().value()), (3, 2));
}

#[test]
fn s3_7_a_copy_staged_through_follows_f1_of_the_source_and_f2_of_the_destination() {
    for (side, what, waits) in
        [(0, Use::Read, false), (0, Use::Write, true), (1, Use::Read, true), (1, Use::Write, true)]
    {
        let name = |part: &str| format!("s3_7 through {part} {side} {what:?}");
        let script = |part: &str| own_halves(Script::new(name(part))).understands(Known::Nobody, 0);
        let (from, to) = (script("from").open(), script("to").open());
        let other = Script::new(name("other")).peers(Known::Scripted).open();
        let sides = [from.create_buffer(LEN).unwrap(), to.create_buffer(LEN).unwrap()];
        let borrow = sides[side].borrow(&other).unwrap().expect("it maps any scripted memory");
        let work = match what {
            Use::Read => other.prepare().reads(&borrow),
            Use::Write => other.prepare().writes(&borrow),
        };
        work.build().unwrap().submit(&[], &[]).unwrap();
        copy(&sides[0], &sides[1]).unwrap();
        assert_eq!(other.reached() == 1, waits, "{what:?} of side {side}");
    }
}

#[test]
fn s3_7_a_half_is_followed_like_any_memory() {
    let d = own_halves(Script::new("s3_7 half d")).open();
    let half_bytes = d.facts().half_bytes;
    let e = Script::new("s3_7 half e").facts(|facts| {
        (facts.half_bytes, facts.piece_bytes) = (half_bytes, half_bytes);
    });
    let e = e.open();
    let (h, x, y) = (
        host().create_buffer(LEN).unwrap(),
        d.create_buffer(LEN).unwrap(),
        e.create_buffer(LEN).unwrap(),
    );
    // A copy that is dropped once its leg is handed over leaves the half to its stamps.
    let leave = |src: &Buffer, dst: &Buffer| {
        let mut copying = Box::pin(rig::copy_async(src, dst));
        assert!(look(copying.as_mut()).is_pending());
    };
    leave(&h, &y);
    assert_eq!((e.submitted(), e.reached()), (1, 0));
    copy(&h, &x).unwrap();
    assert_eq!(e.reached(), 1, "the host writes the half: F4");
    leave(&h, &y);
    assert_eq!((e.submitted(), e.reached()), (2, 1));
    copy(&x, &h).unwrap();
    assert_eq!(e.reached(), 2, "d's leg writes the half: F2");
}
