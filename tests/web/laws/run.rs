//! What the page calls: the laws by number, and what the package's instances have besides.

use crate::bench::{Open, TURN};
use crate::driver::Web;
use crate::page;
use rig::driver::Driver;
use std::cell::RefCell;
use std::sync::Arc;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Lets a turn of the event loop pass; the page suspends this half for it.
    safe fn turn();
}

thread_local! {
    /// The driver under test.
    static WEB: RefCell<Option<Arc<Web>>> = const { RefCell::new(None) };
}

/// A law by its name.
type Law = (&'static str, fn(Open<'_>));

macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        const LAWS: &[Law] = &[$((stringify!($law), crate::laws::$law)),*];
    };
}

laws![
    s4_2_fresh_memory_is_zero,
    s4_2_regions_of_every_size_keep_their_bytes_apart,
    s7_6_transfer_memory_is_readied_a_way_at_a_time_and_again_does_nothing,
    s1_7_memory_is_shown_only_where_the_host_always_addresses_it,
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
];

/// Gets ready; the package's settings mean nothing here.
#[unsafe(no_mangle)]
extern "C" fn start(_: u32, _: u32) {
    std::panic::set_hook(Box::new(|panic| page::traps(&panic.to_string())));
    rig::bytes::set_arrays(page::ARRAYS);
    let _ = TURN.set(|| turn());
}

/// Answers the names of the laws, in one line.
#[unsafe(no_mangle)]
extern "C" fn names() {
    let names: Vec<&str> = LAWS.iter().map(|(name, _)| *name).collect();
    page::answered(&names.join(" "));
}

/// Runs a law on a GPU device of the page that no work was handed to yet.
#[unsafe(no_mangle)]
extern "C" fn law(number: u32, gpu: u32) {
    let web = Arc::new(Web::new(gpu));
    WEB.set(Some(Arc::clone(&web)));
    let driver: Arc<dyn Driver> = web;
    (LAWS[number as usize].1)(&|| Arc::clone(&driver));
}

/// Nothing is to be done after a call.
#[unsafe(no_mangle)]
extern "C" fn pump() -> f64 {
    -1.0
}

/// Wakes who waits for something of the device, as the package does.
#[unsafe(no_mangle)]
extern "C" fn gpu_woke(_: u32) {
    let web = WEB.with_borrow(Clone::clone);
    if let Some(web) = web {
        web.wake_all();
    }
}
