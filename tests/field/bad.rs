//! Every public call on what it cannot work with: dead buffers, lost and closed devices, read-only
//! memory, the wrong device. A call is a closure, a situation makes what it is called on, and the
//! table says what each answers; a refused call changes nothing.

use crate::watch::poll;
use rig::driver::{Addressed, FileMode};
use rig::memory::function;
use rig::{
    Buffer, Claims, Code, Device, Error, Kernel, Kind, Opener, Point, Prepared, Stamps, Use,
    borrow, copy, copy_async, host, run, wrap_shared,
};
use rig_support::{Opened, Script, drain, until};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

const LEN: u64 = 4096;

/// What is wrong with the buffer that calls are made on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Situation {
    Freed,
    Consumed,
    Lost,
    Closed,
    /// Host memory as a lost device sees it.
    LostBorrow,
    /// Shared memory of the program, and its borrow on the device.
    ReadOnly,
}

const SITUATIONS: [Situation; 6] = [
    Situation::Freed,
    Situation::Consumed,
    Situation::Lost,
    Situation::Closed,
    Situation::LostBorrow,
    Situation::ReadOnly,
];

/// A device that the host addresses, with a buffer in some situation, and others that are well.
/// Fields are dropped in this order, the devices last.
struct Scene {
    /// Work with one run buffer, read or written.
    reads: Prepared,
    writes: Prepared,
    kernel: Kernel,
    /// What calls are made on, and as the device has it.
    subject: Buffer,
    on_device: Buffer,
    /// A buffer of the host that is well, as the device has it, and a buffer of the other device.
    well: Buffer,
    theirs: Buffer,
    other: Opened,
    d: Opened,
}

fn nothing() -> Code {
    function("nothing", |_| ())
}

impl Scene {
    fn new(name: &str, situation: Situation) -> Self {
        let script = Script::new(name).addressed(Addressed::Always).maps_host(Some(1));
        let d = script.open();
        let other = Script::new(format!("{name}, other")).addressed(Addressed::Always).open();
        let kernel = d.kernel(nothing()).unwrap();
        let reads = d.prepare().reads(run(0)).build().unwrap();
        let writes = d.prepare().writes(run(0)).build().unwrap();
        let well = host().create_buffer(LEN * 16).unwrap().view(0, LEN).unwrap();
        well.write(|bytes| bytes.fill(7)).unwrap();
        let theirs = other.create_buffer(LEN).unwrap();
        let subject = match situation {
            Situation::LostBorrow => well.borrow(&d).unwrap().expect("the device maps the host"),
            Situation::ReadOnly => wrap_shared(Arc::<[u8]>::from(vec![1; LEN as usize])),
            _ => d.create_buffer(LEN).unwrap(),
        };
        let on_device = match situation {
            Situation::ReadOnly => subject.borrow(&d).unwrap().expect("the device maps the host"),
            _ => subject.clone(),
        };
        match situation {
            Situation::Freed => subject.free().unwrap(),
            Situation::Consumed => {
                let take = |claims: &Claims| claims.consume(&subject, "taken").map(drop);
                Claims::with(&[], &[&[&subject]], take).unwrap().unwrap();
            }
            Situation::Lost | Situation::LostBorrow => d.device_lost("the test says so"),
            Situation::Closed => d.close().unwrap(),
            Situation::ReadOnly => {}
        }
        drain(&d);
        if matches!(situation, Situation::Lost | Situation::LostBorrow) {
            // The stop may be on another thread.
            until("the stop", || d.is_settled());
        }
        if situation == Situation::LostBorrow {
            // Whoever saw the end of the stop ends the mappings.
            until("the end of the mapping", || d.control.mappings_live() == 0);
        }
        Self { reads, writes, kernel, subject, on_device, well, theirs, other, d }
    }

    /// Returns everything that a refused call leaves as it is.
    fn state(&self) -> State {
        let exclusive = |buffer: &Buffer| {
            let alone = buffer.clone();
            Claims::with(&[], &[&[&alone]], |claims| claims.is_exclusive(&alone)).unwrap_or(false)
        };
        let devices = [&self.d, &self.other].map(|d| {
            let stats = d.stats();
            let bytes = [stats.held_bytes, stats.live_bytes, stats.cached_bytes];
            (d.submitted(), bytes, d.control.regions_live(), d.control.mappings_live())
        });
        State {
            stamps: [&self.subject, &self.well, &self.theirs].map(Buffer::stamps),
            dead: self.subject.dead(),
            devices,
            exclusive: exclusive(&self.theirs),
            changed: self.well.read(|bytes| bytes.iter().any(|byte| *byte != 7)).unwrap(),
        }
    }
}

#[derive(PartialEq, Debug)]
struct State {
    stamps: [Stamps; 3],
    dead: Option<Arc<str>>,
    devices: [(u64, [u64; 3], u64, u64); 2],
    exclusive: bool,
    changed: bool,
}

/// The async form's answer, which a refused call has at once.
fn now<T>(future: impl Future<Output = rig::Result<T>>) -> rig::Result<()> {
    match poll(pin!(future)) {
        Poll::Ready(answer) => answer.map(drop),
        Poll::Pending => panic!("a call that is refused does not wait"),
    }
}

type Call = fn(&Scene) -> rig::Result<()>;

/// Calls on a buffer. A column for each situation: `.` succeeds, `D` dead, `L` lost, `R` read-only,
/// `U` unsupported.
const CALLS: [(&str, Call, &str); 45] = [
    ("view", |s| s.subject.view(0, 1).map(drop), "DD...."),
    ("wait", |s| s.subject.wait(Use::Read), "DDLLL."),
    ("wait", |s| now(s.subject.wait_async(Use::Read)), "DDLLL."),
    ("wait", |s| s.subject.wait(Use::Write), "DDLLLR"),
    ("free", |s| s.subject.free(), "DD...."),
    ("free", |s| now(s.subject.free_async()), "DD...."),
    ("share", |s| s.subject.share(), "DD...."),
    ("lend", |s| s.subject.lend().map(drop), "DDLLLU"),
    ("claim_read", |s| s.subject.claim_read().map(drop), "DDLLL."),
    ("Claims::with", |s| Claims::with(&[&s.subject], &[], |_| ()), "DDLLL."),
    ("Claims::with", |s| Claims::with(&[], &[&[&s.subject]], |_| ()), "DDLLL."),
    ("Claims::with", |s| now(Claims::with_async(&[&s.subject], &[], async |_| ())), "DDLLL."),
    ("read", |s| s.subject.read(|_| ()), "DDLLL."),
    ("read", |s| now(s.subject.read_async(|_| ())), "DDLLL."),
    ("write", |s| s.subject.write(|_| ()), "DDLLLR"),
    ("write", |s| now(s.subject.write_async(|_| ())), "DDLLLR"),
    ("read_as", |s| s.subject.read_as::<u32, _>(|_| ()), "DDLLL."),
    ("read_as", |s| now(s.subject.read_as_async::<u32, _>(|_| ())), "DDLLL."),
    ("write_as", |s| s.subject.write_as::<u32, _>(|_| ()), "DDLLLR"),
    ("write_as", |s| now(s.subject.write_as_async::<u32, _>(|_| ())), "DDLLLR"),
    ("export", |s| s.subject.export().map(drop), "DDLLL."),
    ("export", |s| now(s.subject.export_async()), "DDLLL."),
    ("blit_to", |s| s.subject.blit_to(0, &mut [0]), "DDLLL."),
    ("blit_to", |s| now(s.subject.blit_to_async(0, &mut [0])), "DDLLL."),
    ("blit_to", |s| s.subject.blit_to(0, &mut []), "DDLLL."),
    ("blit_from", |s| s.subject.blit_from(0, &[0]), "DDLLLR"),
    ("blit_from", |s| now(s.subject.blit_from_async(0, &[0])), "DDLLLR"),
    ("blit_from", |s| s.subject.blit_from(0, &[]), "DDLLLR"),
    ("fill", |s| s.subject.fill(1), "DDLLLR"),
    ("fill", |s| now(s.subject.fill_async(1)), "DDLLLR"),
    ("copy", |s| copy(&s.subject, &s.theirs), "DDLLL."),
    ("copy", |s| now(copy_async(&s.subject, &s.theirs)), "DDLLL."),
    ("copy", |s| copy(&s.theirs, &s.subject), "DDLLLR"),
    ("copy", |s| now(copy_async(&s.theirs, &s.subject)), "DDLLLR"),
    ("borrow", |s| borrow(&host(), &s.subject).map(drop), "DDLLL."),
    ("borrow", |s| s.subject.borrow(&s.other).map(drop), "DDLLL."),
    ("prepare", |s| s.d.prepare().reads(&s.on_device).build().map(drop), "DDLLL."),
    ("prepare", |s| s.d.prepare().writes(&s.on_device).build().map(drop), "DDLLLR"),
    ("prepare", |s| s.d.prepare().fill(&s.on_device, 1).build().map(drop), "DDLLLR"),
    ("prepare", |s| s.d.prepare().copy(&s.on_device, run(0)).build().map(drop), "DDLLL."),
    ("prepare", |s| s.kernel.launch([1; 3]).reads(&s.on_device).submit().map(drop), "DDLLL."),
    ("submit", |s| s.reads.submit(&[&s.on_device], &[]).map(drop), "DDLLL."),
    ("submit", |s| now(s.reads.submit_async(&[&s.on_device], &[])), "DDLLL."),
    ("submit", |s| s.writes.submit_holding(&[&s.on_device], &[], &[]).map(drop), "DDLLLR"),
    ("prepare", |s| s.d.record_use(&[&s.on_device], &[]).map(drop), "DDLLL."),
];

fn text(answer: rig::Result<()>) -> String {
    answer.err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn s0_2_a_refused_call_on_a_buffer_says_what_is_wrong_and_changes_nothing() {
    for (number, (call, f, cells)) in CALLS.into_iter().enumerate() {
        for (situation, cell) in SITUATIONS.into_iter().zip(cells.chars()) {
            let name = format!("bad {number} {situation:?}");
            let scene = Scene::new(&name, situation);
            let why = if situation == Situation::Freed { "freed" } else { "taken" };
            let loss = if situation == Situation::Closed { "closed" } else { "the test says so" };
            let wanted = match cell {
                'D' => format!("misuse of {call}: the buffer is dead: {why}"),
                'L' => format!("device {name} is lost: {loss}"),
                'R' => format!("misuse of {call}: the buffer is read-only"),
                'U' => "CPU does not support this: this memory has no object to lend".into(),
                _ => String::new(),
            };
            let before = scene.state();
            assert_eq!(text(f(&scene)), wanted, "{call}, number {number}, {situation:?}");
            if cell != '.' {
                assert_eq!(scene.state(), before, "{call}, number {number}, {situation:?}");
            }
        }
    }
}

/// Calls on a device that is lost or closed: `.` succeeds, `L` lost, `U` unsupported.
const DEVICE_CALLS: [(&str, Call, char); 26] = [
    ("create_buffer", |s| s.d.create_buffer(1).map(drop), 'L'),
    ("create_buffer", |s| now(s.d.create_buffer_async(1)), 'L'),
    ("create_buffer", |s| s.d.create_buffer(0).map(drop), 'L'),
    ("create_buffer_in", |s| s.d.create_buffer_in(Kind::Pinned, 1).map(drop), 'L'),
    ("create_buffer_now", |s| s.d.create_buffer_now(1).map(drop), 'L'),
    ("buffer", |s| s.d.buffer(1).label("x").create().map(drop), 'L'),
    ("buffer", |s| s.d.buffer(1).create_now().map(drop), 'L'),
    ("kernel", |s| s.d.kernel(nothing()).map(drop), 'L'),
    ("kernel", |s| now(s.d.kernel_async(nothing())), 'L'),
    ("prepare", |s| s.d.prepare().build().map(drop), 'L'),
    ("launch", |s| s.kernel.launch([1; 3]).submit().map(drop), 'L'),
    ("launch", |s| now(s.kernel.launch([1; 3]).submit_async()), 'L'),
    ("record_use", |s| s.d.record_use(&[], &[]).map(drop), 'L'),
    ("record_use", |s| now(s.d.record_use_async(&[], &[])), 'L'),
    ("wait", |s| s.d.wait(0), 'L'),
    ("wait", |s| now(s.d.wait_async(0)), 'L'),
    ("borrow", |s| s.well.borrow(&s.d).map(drop), 'L'),
    ("create_file", |s| s.d.create_file("no file of a lost device", 1).map(drop), 'L'),
    ("open_file", |s| s.d.open_file("no file", FileMode::ReadOnly).map(drop), 'L'),
    ("set_budget", |s| s.d.set_budget(s.d.budget()), '.'),
    ("set_cache", |s| s.d.set_cache(s.d.cache_options()), '.'),
    ("trim", |s| s.d.trim().map(drop), '.'),
    ("free_cache", |s| s.d.free_cache().map(drop), '.'),
    ("close", |s| s.d.close(), '.'),
    ("close", |s| now(s.d.close_async()), '.'),
    ("facts", |s| facts(&s.d), '.'),
];

fn facts(device: &Device) -> rig::Result<()> {
    assert!(device.lost().is_some() && device.is_settled());
    assert_eq!((device.submitted(), device.reached()), (0, 0));
    assert!(!device.name().is_empty() && format!("{device:?}").contains("lost"));
    assert!(device.point(1).is_err() && device.facts().queues.len() == 1);
    Ok(())
}

#[test]
fn s12_1_a_call_on_a_lost_or_closed_device_says_so_and_changes_nothing() {
    for (number, (call, f, cell)) in DEVICE_CALLS.into_iter().enumerate() {
        for (situation, why) in
            [(Situation::Lost, "the test says so"), (Situation::Closed, "closed")]
        {
            let name = format!("bad device {number} {situation:?}");
            let scene = Scene::new(&name, situation);
            let wanted = match cell {
                'L' => format!("device {name} is lost: {why}"),
                _ => String::new(),
            };
            let before = scene.state();
            assert_eq!(text(f(&scene)), wanted, "{call}, number {number}, {situation:?}");
            assert_eq!(scene.state(), before, "{call}, number {number}, {situation:?}");
        }
    }
}

/// Calls that name memory, or code, of another device.
const FOREIGN_CALLS: [(&str, Call); 9] = [
    ("prepare", |s| s.d.prepare().reads(&s.theirs).build().map(drop)),
    ("prepare", |s| s.d.prepare().writes(&s.theirs).build().map(drop)),
    ("prepare", |s| s.d.prepare().fill(&s.theirs, 1).build().map(drop)),
    ("prepare", |s| s.d.prepare().copy(&s.theirs, run(0)).build().map(drop)),
    ("prepare", |s| s.d.prepare().copy(run(0), &s.theirs).build().map(drop)),
    ("prepare", |s| s.d.prepare().launch(&s.kernel, [1; 3]).args_in(&s.theirs).build().map(drop)),
    ("prepare", |s| {
        let theirs = s.other.kernel(nothing())?;
        s.d.prepare().launch(&theirs, [1; 3]).build().map(drop)
    }),
    ("prepare", |s| s.d.record_use(&[], &[&s.theirs]).map(drop)),
    ("submit", |s| s.reads.submit(&[&s.theirs], &[]).map(drop)),
];

#[test]
fn s8_2_work_that_names_another_device_says_which_and_changes_nothing() {
    for (number, (call, f)) in FOREIGN_CALLS.into_iter().enumerate() {
        let name = format!("bad foreign {number}");
        let scene = Scene::new(&name, Situation::ReadOnly);
        let wanted = format!("misuse of {call}: the buffer is on {name}, other, not on {name}");
        let before = scene.state();
        assert_eq!(text(f(&scene)), wanted, "number {number}");
        assert_eq!(scene.state(), before, "number {number}");
    }
}

type ValueCall = fn(&Scene, u64) -> rig::Result<()>;

/// Calls with values that were never submitted; 1 was.
const UNSUBMITTED_CALLS: [(&str, ValueCall); 5] = [
    ("wait", |s, value| s.d.wait(value)),
    ("wait", |s, value| now(s.d.wait_async(value))),
    ("wait", |s, value| point(&s.d, value).wait()),
    ("point", |s, value| s.d.point(value).map(drop)),
    ("submit", |s, value| s.reads.submit(&[&s.on_device], &[point(&s.d, value)]).map(drop)),
];

fn point(device: &Device, value: u64) -> Point {
    rig_support::point(device, value & ((1 << 48) - 1))
}

#[test]
fn s2_7_a_value_that_was_not_submitted_is_misuse_with_both_numbers() {
    for (number, (call, f)) in UNSUBMITTED_CALLS.into_iter().enumerate() {
        for value in [2, 3, (1 << 32) + 1, (1 << 48) - 1] {
            let scene = Scene::new(&format!("bad value {number} {value}"), Situation::ReadOnly);
            scene.d.record_use(&[], &[]).unwrap();
            let wanted =
                format!("misuse of {call}: value {value} was not submitted yet, the last is 1");
            let before = scene.state();
            assert_eq!(text(f(&scene, value)), wanted, "number {number}");
            assert_eq!(scene.state(), before, "number {number}");
            scene.d.control.run_all();
        }
    }
}

#[test]
fn s2_2_a_word_that_no_device_made_is_a_point_of_nothing() {
    assert!(Point::from_word(0).is_none());
    for word in [1, 7, (1 << 48) - 1, 1 << 48, 0xFFFE << 48 | 9, u64::MAX] {
        let point = Point::from_word(word).unwrap();
        assert!(matches!(point.wait(), Err(Error::Misuse { .. })), "{word:#x}");
        assert_eq!(point.is_reached(), point.value() == 0, "{word:#x}");
    }
}

#[test]
fn s1_3_a_lost_name_is_opened_anew_and_a_foreign_one_is_taken() {
    let d = Script::new("bad name").open();
    let other_driver = rig::memory::opener(rig::memory::Options::default());
    let taken = Device::open("bad name", other_driver);
    assert_eq!(text(taken.map(drop)), "misuse of open: the name is taken by a scripted device");
    let host_name = Opener::new("scripted", || panic!("the host is always open"));
    assert_eq!(
        text(Device::open("CPU", host_name).map(drop)),
        "misuse of open: the name is taken by a host device"
    );
    assert_eq!(text(host().close()), "misuse of close: the host cannot be closed");
    d.device_lost("gone");
    let (driver, control) = Script::new("bad name").build();
    let anew = Device::open("bad name", Opener::new("scripted", move || Ok(driver))).unwrap();
    assert_ne!(anew, d.device);
    anew.close().unwrap();
    control.check_returned();
}
