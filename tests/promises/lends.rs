//! Lent memory (S4.16).

use crate::bench::{lost, misuse};
use rig::bytes::HostBytes;
use rig::driver::{Addressed, Region};
use rig::{Buffer, Claims, Misuse, host};
use rig_support::{Call, Opened, Script, drain};
use std::any::Any;

const LEN: u64 = 64 << 10;

fn lent_region(device: &Opened) -> Region {
    device.control.calls(Call::Lend)[0].region
}

fn lender(name: &str) -> (Opened, Buffer) {
    let d = Script::new(name).addressed(Addressed::Always).open();
    let x = d.create_buffer(LEN).unwrap();
    (d, x)
}

#[test]
fn s4_16_lend_answers_the_drivers_object_offset_and_length() {
    let (_d, x) = lender("s4_16 object");
    let lent = x.view(100, 28).unwrap().lend().unwrap();
    assert_eq!((lent.offset, lent.len), (100, 28));
    let object: &dyn Any = &*lent.object.0;
    let bytes = object.downcast_ref::<HostBytes>().expect("this driver lends host bytes");
    assert_eq!(bytes.address(), x.read(|bytes| bytes.as_ptr() as u64).unwrap());
}

#[test]
fn s4_16_lent_memory_is_never_exclusive() {
    let (_d, x) = lender("s4_16 exclusive");
    x.lend().unwrap();
    let is_exclusive = |claims: &Claims| claims.is_exclusive(&x);
    assert!(!Claims::with(&[], &[&[&x]], is_exclusive).unwrap());
    let y = host().create_buffer(64).unwrap();
    Claims::with(&[], &[&[&y]], |_| {
        assert_eq!(misuse(y.lend()), Misuse::Busy);
    })
    .unwrap();
}

#[test]
fn s4_16_lent_memory_without_handles_is_given_away() {
    let (d, x) = lender("s4_16 given");
    x.lend().unwrap();
    drop(x);
    drain(&d);
    let stats = d.stats();
    assert_eq!((stats.given_away_bytes, d.held(), d.cached()), (LEN, 0, 0));
    assert_eq!((d.control.count(Call::Free), d.control.regions_live()), (0, 1));
    d.check_books();
    let other = d.create_buffer(LEN).unwrap();
    assert_eq!(d.control.count(Call::Alloc), 2, "it serves nobody");
    drop(other);
}

#[test]
fn s4_16_given_memory_comes_back_once_the_platform_tells_that_it_is_let_go() {
    let (d, x) = lender("s4_16 let go");
    x.lend().unwrap();
    drop(x);
    drain(&d);
    assert_eq!(d.control.count(Call::Free), 0);
    d.control.let_go(lent_region(&d));
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.stats().given_away_bytes), (1, 0));
    assert_eq!((d.held(), d.cached()), (0, 0));
}

#[test]
fn s4_16_free_ends_lending_without_the_cache() {
    let (d, x) = lender("s4_16 freed");
    x.lend().unwrap();
    x.free().unwrap();
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.held(), d.cached()), (1, 0, 0));
    assert_eq!(d.stats().given_away_bytes, 0);
}

#[test]
fn s4_16_lent_memory_is_never_cached_though_it_was_let_go_before_its_last_handle() {
    let (d, x) = lender("s4_16 early");
    x.lend().unwrap();
    d.control.let_go(lent_region(&d));
    drop(x);
    drain(&d);
    assert_eq!((d.cached(), d.held(), d.control.count(Call::Free)), (0, 0, 1));
}

#[test]
fn s4_16_lending_tells_death_and_loss() {
    let (d, x) = lender("s4_16 lost");
    let y = d.create_buffer(LEN).unwrap();
    y.free().unwrap();
    assert!(matches!(misuse(y.lend()), Misuse::Dead { .. }));
    d.device_lost("unplugged");
    assert_eq!(lost(x.lend()).0, "s4_16 lost");
}

#[test]
fn s4_16_given_memory_of_a_stopped_device_goes_home() {
    let (d, x) = lender("s4_16 stopped");
    x.lend().unwrap();
    drop(x);
    drain(&d);
    d.close().unwrap();
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.stats().given_away_bytes), (1, 0));
}
