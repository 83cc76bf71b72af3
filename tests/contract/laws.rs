//! The laws of `rig::driver::Driver`, each a function over an opener.

use crate::bench::{Bench, Open, Woken, copy, fill, host_memory, pattern, span, write};
use rig::bytes::page_bytes;
use rig::driver::{
    Access, Addressed, Alloc, Ask, Code, HandOver, Import, Kind, Load, Native, Op, Part, Room,
    Stopped, Work,
};
use rig::drivers::memory;
use std::sync::Arc;
use std::time::Duration;

/// Hands the laws that hold on every device with a timeline to a macro, behind what is given.
macro_rules! of_every_device {
    ($then:ident!($($given:tt)*)) => {
        $then! {
            $($given)*
            [
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
                s9_6_after_the_stop_the_device_settles_and_takes_its_memory_back
            ]
        }
    };
}
pub(crate) use of_every_device;

/// Memory.
pub(crate) fn s4_2_fresh_memory_is_zero(open: Open<'_>) {
    let bench = Bench::new(open);
    for len in [1, 15, 16, 17, 64, 4096, 100_001] {
        let region = bench.alloc(len);
        assert!(bench.get(region, 0, len).iter().all(|&byte| byte == 0), "{len} bytes");
        bench.put(region, 0, &pattern(len, 1));
        bench.free(region);
    }
}

pub(crate) fn s4_2_regions_of_every_size_keep_their_bytes_apart(open: Open<'_>) {
    let bench = Bench::new(open);
    let near = |size: u64| size - 1..=size + 1;
    let sizes = (1..=17).chain(near(64)).chain(near(512)).chain(near(page_bytes()));
    let regions: Vec<_> = sizes.chain(near(1 << 17)).map(|len| (len, bench.alloc(len))).collect();
    for (seed, (len, region)) in regions.iter().enumerate() {
        bench.put(*region, 0, &pattern(*len, seed as u64));
    }
    for (seed, (len, region)) in regions.iter().enumerate() {
        assert_eq!(bench.get(*region, 0, *len), pattern(*len, seed as u64), "{len} bytes");
    }
    regions.iter().for_each(|(_, region)| bench.free(*region));
}

pub(crate) fn s9_11_paged_memory_starts_on_a_page(open: Open<'_>) {
    let bench = Bench::new(open);
    if bench.facts.addressed != Addressed::Always {
        return;
    }
    for pages in [1, 2, 17] {
        let ask = Ask { kind: Kind::Device, len_bytes: pages * page_bytes(), paged: true };
        let Alloc::Ready(region) = bench.driver.alloc(ask) else { panic!("{pages} pages fit") };
        let bytes = bench.driver.bytes(region).expect("always addressed");
        assert_eq!(bytes.address() % page_bytes(), 0);
        assert_eq!(bytes.len_bytes(), ask.len_bytes);
        bench.free(region);
    }
}

pub(crate) fn s10_3_a_size_that_cannot_be_is_refused_and_changes_nothing(open: Open<'_>) {
    let bench = Bench::new(open);
    let most = bench.facts.largest_bytes / page_bytes() * page_bytes();
    let ask = Ask { kind: Kind::Device, len_bytes: most, paged: false };
    let refused = match bench.driver.alloc(ask) {
        Alloc::Pending(region) => bench.poll(|waker| bench.driver.poll_alloc(region, waker)),
        answer => answer,
    };
    assert_eq!(refused, Alloc::Refused);
    assert_eq!(bench.driver.health(), Ok(()));
    let region = bench.alloc(100);
    bench.free(region);
}

pub(crate) fn s7_6_transfer_memory_is_readied_a_way_at_a_time_and_again_does_nothing(
    open: Open<'_>,
) {
    let bench = Bench::new(open);
    let region = bench.alloc_kind(Kind::Transfer, 4096);
    let x = bench.alloc(16);
    bench.put(x, 0, &pattern(16, 1));
    for _ in 0..2 {
        assert_eq!(bench.poll_transfer(region, Access::Read), Alloc::Ready(region));
        bench.run(&[copy(0, 1)], &[span(x, 0, 16), write(region, 0, 16)]);
        assert_eq!(bench.poll_transfer(region, Access::Write), Alloc::Ready(region));
        bench.run(&[copy(0, 1)], &[span(region, 0, 16), write(x, 0, 16)]);
    }
    bench.free(region);
    bench.free(x);
}

pub(crate) fn s1_7_memory_is_shown_only_where_the_host_always_addresses_it(open: Open<'_>) {
    let bench = Bench::new(open);
    let region = bench.alloc(100);
    let shown = bench.driver.bytes(region).is_some();
    assert_eq!(shown, bench.facts.addressed == Addressed::Always);
    bench.free(region);
}

/// Mappings.
pub(crate) fn s4_7_mapped_host_memory_is_the_same_bytes(open: Open<'_>) {
    let bench = Bench::new(open);
    if bench.facts.import_align_bytes.is_none() || !bench.has_queues() {
        return;
    }
    let memory = host_memory(2 * page_bytes());
    let Import::Mapped(mapped) = bench.driver.import_host(memory.bytes()) else {
        panic!("aligned host memory maps");
    };
    let region = bench.alloc(1000);
    memory.bytes().copy_in(3, &pattern(1000, 5));
    bench.run(&[copy(0, 1)], &[span(mapped, 3, 1000), write(region, 0, 1000)]);
    assert_eq!(bench.get(region, 0, 1000), pattern(1000, 5));
    bench.run(&[fill(0, 9)], &[write(mapped, 4096, 10)]);
    let mut seen = [0; 12];
    memory.bytes().copy_out(4095, &mut seen);
    assert_eq!(seen, [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
    bench.driver.release(mapped);
    bench.free(region);
}

/// Values.
pub(crate) fn s2_4_values_are_reached_in_order_and_the_word_never_falls(open: Open<'_>) {
    let bench = Bench::new(open);
    let first = bench.driver.reached().expect("the device is well");
    assert!(first >= bench.facts.first_value);
    let values: Vec<u64> = (0..8).map(|_| bench.hand_over(&[], &[])).collect();
    let mut seen = first;
    for value in values {
        bench.wait(value);
        let now = bench.driver.reached().expect("the device is well");
        assert!(now >= value && now >= seen && now < bench.next());
        seen = now;
    }
    assert_eq!(seen + 1, bench.next());
}

pub(crate) fn s2_5_a_later_value_sees_what_an_earlier_one_wrote(open: Open<'_>) {
    let bench = Bench::new(open);
    let (a, b) = (bench.alloc(64), bench.alloc(64));
    bench.hand_over(&[fill(0, 1)], &[write(a, 0, 64)]);
    bench.hand_over(&[copy(0, 1)], &[span(a, 0, 64), write(b, 0, 64)]);
    bench.hand_over(&[fill(0, 2)], &[write(a, 0, 64)]);
    let last = bench.hand_over(&[copy(0, 1)], &[span(b, 0, 32), write(a, 32, 32)]);
    bench.wait(last);
    assert_eq!(bench.get(a, 0, 64), [[2; 32], [1; 32]].concat());
    bench.free(a);
    bench.free(b);
}

pub(crate) fn s8_1_the_parts_of_a_value_run_in_their_order(open: Open<'_>) {
    let bench = Bench::new(open);
    let (a, b) = (bench.alloc(64), bench.alloc(64));
    let after = |at: usize, part: Part| Part { after: vec![at], ..part };
    let parts = [fill(0, 7), after(0, copy(0, 1)), after(1, fill(0, 8))];
    bench.run(&parts, &[write(a, 0, 64), write(b, 0, 64)]);
    assert_eq!(bench.get(a, 0, 64), [8; 64]);
    assert_eq!(bench.get(b, 0, 64), [7; 64]);
    bench.free(a);
    bench.free(b);
}

pub(crate) fn s6_7_copies_are_byte_exact(open: Open<'_>) {
    const LENS: usize = 18;
    let bench = Bench::new(open);
    // Each length has a place of its own, so that one value copies them all.
    let (a, b) = (bench.alloc(64), bench.alloc(64 * LENS as u64));
    let from = pattern(64, 3);
    bench.put(a, 0, &from);
    for at in 0..8_usize {
        for to in 0..8_usize {
            let spans = |len: usize| {
                let (offset, len) = ((64 * len + to) as u64, len as u64);
                [span(a, at as u64, len), write(b, offset, len)]
            };
            let copies = (0..LENS).map(|len| copy(2 * len, 2 * len + 1));
            bench.hand_over(&[fill(0, 0xEE)], &[write(b, 0, 64 * LENS as u64)]);
            bench.run(&copies.collect::<Vec<_>>(), &(0..LENS).flat_map(spans).collect::<Vec<_>>());
            let found = bench.get(b, 0, 64 * LENS as u64);
            for (len, found) in found.chunks(64).enumerate() {
                let mut expected = vec![0xEE; 64];
                expected[to..to + len].copy_from_slice(&from[at..at + len]);
                assert_eq!(found, expected, "{len} bytes from {at} to {to}");
            }
        }
    }
    bench.free(a);
    bench.free(b);
}

pub(crate) fn s6_7_fills_are_byte_exact(open: Open<'_>) {
    const LENS: usize = 18;
    let bench = Bench::new(open);
    let a = bench.alloc(64 * LENS as u64);
    for offset in 0..9_usize {
        let from = pattern(64 * LENS as u64, offset as u64);
        bench.put(a, 0, &from);
        let fills: Vec<Part> = (0..LENS).map(|len| fill(len, 0xA5)).collect();
        let spans = (0..LENS).map(|len| write(a, (64 * len + offset) as u64, len as u64));
        bench.run(&fills, &spans.collect::<Vec<_>>());
        let found = bench.get(a, 0, 64 * LENS as u64);
        for (len, found) in found.chunks(64).enumerate() {
            let mut expected = from[64 * len..64 * (len + 1)].to_vec();
            expected[offset..offset + len].fill(0xA5);
            assert_eq!(found, expected, "{len} bytes at {offset}");
        }
    }
    bench.free(a);
}

pub(crate) fn s7_2_a_copy_within_one_region_moves_between_its_ranges(open: Open<'_>) {
    let bench = Bench::new(open);
    let a = bench.alloc(64);
    let from = pattern(64, 2);
    bench.put(a, 0, &from);
    bench.run(&[copy(0, 1)], &[span(a, 1, 13), write(a, 33, 13)]);
    let mut expected = from.clone();
    expected[33..46].copy_from_slice(&from[1..14]);
    assert_eq!(bench.get(a, 0, 64), expected);
    bench.free(a);
}

pub(crate) fn s8_3_rejected_work_changes_nothing_and_leaves_its_value_free(open: Open<'_>) {
    let bench = Bench::new(open);
    let a = bench.alloc(64);
    bench.put(a, 0, &pattern(64, 1));
    let native = Part { queue: 0, after: vec![], op: Op::Native(Native(Arc::new(7_u32))) };
    let (parts, spans) = ([fill(0, 9), native], [write(a, 0, 64)]);
    let work = Work { prepared: None, parts: &parts, spans: &spans };
    let value = bench.next();
    let answer = bench.driver.hand_over(value, &work, &[]);
    assert!(matches!(answer, HandOver::Rejected(_)), "{answer:?}");
    assert_eq!(bench.driver.health(), Ok(()));
    assert_eq!(bench.run(&[], &[]), value);
    assert_eq!(bench.get(a, 0, 64), pattern(64, 1));
    bench.free(a);
}

pub(crate) fn s8_2_code_of_another_driver_is_rejected(open: Open<'_>) {
    let driver = open();
    let code = Code { source: Arc::new(7_u32), entry: Arc::from("main") };
    let answer = driver.load(&code);
    assert!(matches!(answer, Load::Rejected(_)), "{answer:?}");
    assert_eq!(driver.health(), Ok(()));
}

pub(crate) fn s8_5_prepared_parts_run_more_than_once(open: Open<'_>) {
    let bench = Bench::new(open);
    let a = bench.alloc(16);
    let parts = [fill(0, 3)];
    let prepared = bench.driver.prepare(&parts).expect("a fill is prepared");
    for offset in [0, 8] {
        let spans = [write(a, offset, 4)];
        let work = Work { prepared: Some(prepared), parts: &parts, spans: &spans };
        assert_eq!(bench.driver.room(&work), Room::Now);
        bench.run(&parts, &spans);
    }
    bench.driver.unprepare(prepared);
    let expected = [3, 3, 3, 3, 0, 0, 0, 0, 3, 3, 3, 3, 0, 0, 0, 0];
    assert_eq!(bench.get(a, 0, 16), expected);
    bench.free(a);
}

/// Waiting.
pub(crate) fn s2_7_a_waker_is_woken_once_its_value_is_reached(open: Open<'_>) {
    let bench = Bench::new(open);
    let woken = Woken::new();
    let value = bench.hand_over(&[], &[]);
    bench.driver.wake_at(value, &woken.waker());
    bench.wait(value);
    bench.driver.service().expect("the device is well");
    assert!(woken.count() > 0, "not woken for a value that came");
    let again = Woken::new();
    bench.driver.wake_at(value, &again.waker());
    bench.driver.service().expect("the device is well");
    assert!(again.count() > 0, "not woken for a value that was there");
}

pub(crate) fn s2_7_a_block_for_a_reached_value_returns(open: Open<'_>) {
    let bench = Bench::new(open);
    let value = bench.run(&[], &[]);
    assert_eq!(bench.driver.block(value, Duration::from_millis(200)), Ok(()));
}

pub(crate) fn s9_15_an_idle_device_asks_for_no_service(open: Open<'_>) {
    let bench = Bench::new(open);
    bench.run(&[], &[]);
    bench.driver.service().expect("the device is well");
    assert_eq!(bench.driver.service(), Ok(None));
    assert_eq!(bench.driver.health(), Ok(()));
}

/// The stop.
pub(crate) fn s9_6_after_the_stop_the_device_settles_and_takes_its_memory_back(open: Open<'_>) {
    let bench = Bench::new(open);
    let region = bench.alloc(64);
    if bench.has_queues() {
        bench.hand_over(&[fill(0, 1)], &[write(region, 0, 64)]);
    }
    assert_eq!(bench.stop(), Stopped::Settled);
    let word = bench.driver.reached().expect("a word is read after the stop");
    assert!(word < bench.next());
    bench.free(region);
}

/// Code of this package's drivers.
pub(crate) fn s8_1_a_launch_runs_its_function(open: Open<'_>) {
    let bench = Bench::new(open);
    let code = memory::function("add", |call: &memory::Call<'_>| {
        let by = call.args()[0];
        let from = call.values::<u8>(0);
        call.update::<u8>(1, |to| to.iter_mut().zip(&from).for_each(|(to, from)| *to += from + by));
    });
    let kernel = match bench.driver.load(&code) {
        Load::Ready { kernel, .. } => kernel,
        Load::Pending(kernel) => {
            let answer = bench.poll(|waker| bench.driver.poll_load(kernel, waker));
            assert!(matches!(answer, Load::Ready { .. }), "{answer:?}");
            kernel
        }
        other => panic!("a function is {other:?}"),
    };
    let (a, b) = (bench.alloc(4), bench.alloc(4));
    bench.put(a, 0, &[1, 2, 3, 4]);
    let groups = [1; 3];
    let op = Op::Launch { kernel, groups, args: vec![10], args_span: None, buffers: vec![0, 1] };
    let parts = [Part { queue: 0, after: vec![], op }];
    for _ in 0..2 {
        bench.run(&parts, &[span(a, 0, 4), write(b, 0, 4)]);
    }
    assert_eq!(bench.get(b, 0, 4), [22, 24, 26, 28]);
    bench.driver.unload(kernel);
    bench.free(a);
    bench.free(b);
}
