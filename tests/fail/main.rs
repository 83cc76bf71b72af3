//! The end of every device by `fail` (S12.6, and Close and fail of S15). A process fails once, so
//! this is a binary of its own, where one story is told first and each test asks for a part of it.

#![cfg(test)]

use rig::driver::{Driver, Fault};
use rig::{Device, Error, Opener, copy, fail, failure, host, memory};
use rig_support::{Call, Opened, Script};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

/// What the story left to see.
struct Seen {
    /// What `failure` answered after a close, after the first `fail` and after the second.
    failures: [Option<String>; 3],
    /// Why each device is lost: one idle, one with work, two in a chain of waits.
    losses: Vec<Option<String>>,
    /// What a thread got that waited meanwhile.
    waiter: String,
    /// How often each device was stopped.
    stops: Vec<u64>,
    /// What an open got whose opener was at work meanwhile.
    racing: Result<Option<String>, String>,
    /// What later opens got: of a new name, of a lost one, of the host's.
    opens: Vec<String>,
    /// How many later openers ran.
    openers: u64,
}

static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    memory::open("closed").unwrap().close().unwrap();
    let after_close = why();
    let (idle, busy) = (memory::open("idle").unwrap(), Script::new("busy").open());
    let (chained, last) = (Script::new("chained").open(), Script::new("last").open());
    submit(&busy, None);
    let second = submit(&chained, Some(busy.point(1).unwrap()));
    submit(&last, Some(second));
    busy.control.gate();
    let (entered, inside) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let (waiter, racing, after_first) = std::thread::scope(|threads| {
        let waiting = threads.spawn(|| busy.wait(1).unwrap_err().to_string());
        busy.control.await_calls(Call::Block, 1);
        let opening = threads.spawn(move || {
            let open = move || {
                entered.send(()).unwrap();
                gone.recv_timeout(Duration::from_secs(60)).expect("the story goes on");
                Ok(driver("racing"))
            };
            Device::open("racing", Opener::new("scripted", open))
        });
        inside.recv().unwrap();
        fail("the power went");
        let after_first = why();
        go.send(()).unwrap();
        let racing = opening.join().unwrap();
        let racing = racing.map(|device| device.lost().map(|why| why.to_string()));
        let racing = racing.map_err(|error| error.to_string());
        (waiting.join().unwrap(), racing, after_first)
    });
    fail("a second reason");
    let openers = Arc::new(AtomicU64::new(0));
    let opens = ["new", "busy", "CPU"].map(|name| open_after(name, &openers));
    let devices = [&idle, &busy.device, &chained.device, &last.device];
    Seen {
        failures: [after_close, after_first, why()],
        losses: devices.map(|device| device.lost().map(|why| why.to_string())).to_vec(),
        waiter,
        stops: [&busy, &chained, &last].map(|device| device.control.count(Call::Stop)).to_vec(),
        racing,
        opens: opens.to_vec(),
        openers: openers.load(Ordering::Relaxed),
    }
});

fn why() -> Option<String> {
    failure().map(|(_, why)| why.to_string())
}

fn submit(device: &Opened, after: Option<rig::Point>) -> rig::Point {
    let waits: Vec<_> = after.into_iter().collect();
    device.prepare().build().unwrap().submit(&[], &waits).unwrap()
}

fn driver(name: &str) -> Arc<dyn Driver> {
    Script::new(name).build().0
}

fn open_after(name: &str, openers: &Arc<AtomicU64>) -> String {
    let openers = Arc::clone(openers);
    let opener = Opener::new("scripted", move || {
        openers.fetch_add(1, Ordering::Relaxed);
        Err(Fault::new("it ran"))
    });
    let refused = Device::open(name, opener).unwrap_err();
    format!("{}: {refused}", refused.code())
}

#[test]
fn s12_6_fail_loses_every_device_with_its_reason_through_chains_of_waits_too() {
    for why in &SEEN.losses {
        assert_eq!(why.as_deref(), Some("the power went"));
    }
}

#[test]
fn s12_6_who_waits_meanwhile_gets_the_loss() {
    assert_eq!(SEEN.waiter, "device busy is lost: the power went");
}

#[test]
fn s12_6_each_device_stops_once() {
    assert_eq!(SEEN.stops, [1, 1, 1]);
}

#[test]
fn s12_6_the_host_is_not_lost() {
    LazyLock::force(&SEEN);
    let (from, to) = (host().create_buffer(64).unwrap(), host().create_buffer(64).unwrap());
    from.fill(7).unwrap();
    copy(&from, &to).unwrap();
    to.read(|bytes| assert_eq!(bytes, [7; 64])).unwrap();
    assert_eq!(host().lost(), None);
}

#[test]
fn s12_6_later_opens_are_unsupported_and_their_openers_not_run() {
    for open in &SEEN.opens {
        assert!(open.starts_with("Unsupported") && open.contains("the power went"), "{open}");
    }
    assert_eq!(SEEN.openers, 0);
    assert!(matches!(memory::open("another"), Err(Error::Unsupported { .. })));
}

#[test]
fn s12_6_only_the_first_call_acts_and_failure_is_its_reason() {
    let first = Some("the power went".to_owned());
    assert_eq!(SEEN.failures, [None, first.clone(), first]);
}

#[test]
fn s12_6_an_open_racing_fail_ends_lost_or_refused() {
    match &SEEN.racing {
        Ok(lost) => assert_eq!(lost.as_deref(), Some("the power went")),
        Err(refused) => assert!(refused.contains("the power went"), "{refused}"),
    }
}
