//! A process opens at most 65,535 devices (S1.5), so this is a binary of its own, where one story
//! is told first and each test asks for a part of it.

#![cfg(test)]

use rig::{Device, Error, Opener, devices, failure, host, memory};
use rig_support::Script;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the story left to see.
struct Seen {
    /// What `failure` answered after a close, a loss, and a second loss.
    failures: [Option<(String, String)>; 3],
    /// The indices of all devices that opened, in order.
    indices: Vec<u64>,
    /// What the opens after the last one got.
    refused: [Error; 2],
    /// How many of their openers ran.
    openers: u64,
    /// A device that stayed open.
    kept: Device,
}

static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    let mut indices = Vec::new();
    let mut open = |name: &str| {
        let device = memory::open(name)?;
        indices.push(device.id().index());
        Ok::<_, Error>(device)
    };
    let kept = open("kept").unwrap();
    open("closed").unwrap().close().unwrap();
    let after_close = first_failure();
    open("lost").unwrap().device_lost("unplugged");
    let after_loss = first_failure();
    open("another").unwrap().device_lost("unplugged too");
    let failures = [after_close, after_loss, first_failure()];
    let refused = loop {
        match open("again") {
            Ok(device) => device.close().unwrap(),
            Err(refused) => break refused,
        }
    };
    let ran = AtomicU64::new(0);
    let ran: &'static AtomicU64 = Box::leak(Box::new(ran));
    let opener = Opener::new("scripted", move || {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok(Script::new("too late").build().0)
    });
    let too_late = Device::open("too late", opener).unwrap_err();
    let openers = ran.load(Ordering::Relaxed);
    Seen { failures, indices, refused: [refused, too_late], openers, kept }
});

fn first_failure() -> Option<(String, String)> {
    failure().map(|(device, why)| (device.to_string(), why.to_string()))
}

#[test]
fn s1_5_a_process_opens_65_535_devices_and_uses_no_index_again() {
    let all: Vec<u64> = (1..=65_535).collect();
    assert_eq!(SEEN.indices, all);
}

#[test]
fn s1_5_the_next_open_is_unsupported() {
    for refused in &SEEN.refused {
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        assert!(refused.to_string().contains("65,535"), "{refused}");
    }
    assert!(SEEN.openers <= 1);
}

#[test]
fn s1_5_what_is_open_goes_on() {
    let at = SEEN.kept.prepare().build().unwrap().submit(&[], &[]).unwrap();
    at.wait().unwrap();
    assert!(memory::open("kept").unwrap() == SEEN.kept);
    host().create_buffer(8).unwrap();
}

#[test]
fn s12_6_failure_is_the_first_loss_that_was_no_close() {
    let first = Some(("lost".to_owned(), "unplugged".to_owned()));
    assert_eq!(SEEN.failures, [None, first.clone(), first]);
}

#[test]
fn s1_3_what_was_closed_leaves_nothing() {
    LazyLock::force(&SEEN);
    let open: Vec<String> = devices().iter().map(|device| device.name().to_owned()).collect();
    assert_eq!(open, ["CPU", "kept"]);
}
