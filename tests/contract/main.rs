//! The laws of `rig::driver::Driver`, as one suite for every driver.
//!
//! The suites at the end name the drivers and the `laws` that apply to them; `scripted` and `knobs`
//! test what only the scripted driver does. Drivers of hardware run their suite in `gpu`.

#![cfg(test)]

mod bench;
mod device;
mod knobs;
mod laws;
mod scripted;
mod threads;

use rig::driver::{Addressed, Driver};
use rig::drivers::{host, memory};
use rig_support::{Answer, Completion, Script};
use std::sync::Arc;

/// Makes a module of tests: each law on one driver.
macro_rules! suite {
    ($name:ident, $open:expr, [$($law:ident),* $(,)?]) => {
        suite!($name, laws, $open, [$($law),*]);
    };
    ($name:ident, $open:expr, [$($own:ident),* $(,)?] [$($law:ident),*]) => {
        suite!($name, laws, $open, [$($own,)* $($law),*]);
    };
    ($name:ident, $laws:ident, $open:expr, [$($law:ident),* $(,)?]) => {
        mod $name {
            $(#[test]
            fn $law() {
                crate::$laws::$law(&$open);
            })*
        }
    };
}

/// Makes a suite of all laws of a device with a timeline.
macro_rules! device {
    ($name:ident, $open:expr) => {
        crate::laws::of_every_device!(suite!(
            $name,
            $open,
            [
                s9_11_paged_memory_starts_on_a_page,
                s10_3_a_size_that_cannot_be_is_refused_and_changes_nothing,
                s4_7_mapped_host_memory_is_the_same_bytes,
                s8_1_a_launch_runs_its_function,
            ]
        ));
    };
}

fn open_host() -> Arc<dyn Driver> {
    host::driver()
}

fn open_memory() -> Arc<dyn Driver> {
    memory::driver(memory::Options::default())
}

/// Opens a scripted device that checks the laws of its caller when it is dropped.
fn open_scripted(script: Script) -> Arc<dyn Driver> {
    script.build_checked()
}

fn open_plain() -> Arc<dyn Driver> {
    open_scripted(Script::new("plain"))
}

fn open_addressed() -> Arc<dyn Driver> {
    open_scripted(Script::new("addressed").addressed(Addressed::Always).maps_host(Some(1)))
}

/// Everything is pending until asked, as in a browser.
fn open_lazy() -> Arc<dyn Driver> {
    let script = Script::new("lazy").completion(Completion::Service).batches().maps_host(None);
    let script = script.allocs(Answer::AtService).maps(Answer::AtService).loads(Answer::AtService);
    open_scripted(script.stops(Answer::AtService).first_value(1 << 40))
}

fn open_mapped() -> Arc<dyn Driver> {
    let script = Script::new("mapped").addressed(Addressed::WhileMapped).maps(Answer::AtService);
    open_scripted(script.maps_host(None).code_bytes(100))
}

suite!(
    on_host,
    crate::open_host,
    [
        s4_2_fresh_memory_is_zero,
        s4_2_regions_of_every_size_keep_their_bytes_apart,
        s9_11_paged_memory_starts_on_a_page,
        s10_3_a_size_that_cannot_be_is_refused_and_changes_nothing,
        s1_7_memory_is_shown_only_where_the_host_always_addresses_it,
        s8_2_code_of_another_driver_is_rejected,
        s9_6_after_the_stop_the_device_settles_and_takes_its_memory_back,
    ]
);
device!(on_memory, crate::open_memory);
device!(on_plain, crate::open_plain);
device!(on_addressed, crate::open_addressed);
device!(on_lazy, crate::open_lazy);
device!(on_mapped, crate::open_mapped);
suite!(
    threads_on_host,
    threads,
    crate::open_host,
    [s10_3_threads_allocate_and_free_beside_each_other]
);
suite!(
    threads_on_memory,
    threads,
    crate::open_memory,
    [s10_3_threads_allocate_and_free_beside_each_other]
);
suite!(
    threads_on_scripted,
    threads,
    crate::open_plain,
    [s10_3_threads_allocate_and_free_beside_each_other]
);
