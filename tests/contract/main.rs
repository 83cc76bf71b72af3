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
        suite!(
            $name,
            $open,
            [
                s4_2_fresh_memory_is_zero,
                s4_2_regions_of_every_size_keep_their_bytes_apart,
                s9_11_paged_memory_starts_on_a_page,
                s10_3_a_size_that_cannot_be_is_refused_and_changes_nothing,
                s7_6_transfer_memory_is_readied_a_way_at_a_time_and_again_does_nothing,
                s1_7_memory_is_shown_only_where_the_host_always_addresses_it,
                s4_7_mapped_host_memory_is_the_same_bytes,
                s2_4_values_are_reached_in_order_and_the_word_never_falls,
                s2_5_a_later_value_sees_what_an_earlier_one_wrote,
                s8_1_the_parts_of_a_value_run_in_their_order,
                s6_7_copies_are_byte_exact,
                s6_7_fills_are_byte_exact,
                s7_2_a_copy_within_one_region_moves_between_its_ranges,
                s8_3_rejected_work_changes_nothing_and_leaves_its_value_free,
                s8_2_code_of_another_driver_is_rejected,
                s8_5_prepared_parts_run_more_than_once,
                s2_7_a_waker_is_woken_once_its_value_is_reached,
                s2_7_a_block_for_a_reached_value_returns,
                s9_15_an_idle_device_asks_for_no_service,
                s9_6_after_the_stop_the_device_settles_and_takes_its_memory_back,
                s8_1_a_launch_runs_its_function,
            ]
        );
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
