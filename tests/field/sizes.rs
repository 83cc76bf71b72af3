//! Sizes and offsets at their bounds: 0, odd ones, the largest legal one and its neighbour, near
//! 2^32 and 2^64.

use crate::watch::{poll, rounds};
use rig::driver::Facts;
use rig::memory;
use rig::{
    Bins, Buffer, CacheOptions, Claims, Device, Error, Kind, Misuse, copy, host, run, wrap_shared,
};
use rig_support::{Call, Opened, Script};
use std::pin::pin;
use std::task::Poll;

/// The largest allocation of the device under test: no multiple of its grain.
const LARGEST: u64 = (1 << 40) + 5;

const BUDGET: u64 = 1 << 20;

fn device(name: &str) -> Opened {
    let facts = |facts: &mut Facts| {
        (facts.largest_bytes, facts.default_budget_bytes) = (LARGEST, BUDGET);
        (facts.grain_bytes, facts.pinned) = (16, true);
    };
    Script::new(name).facts(facts).open()
}

type Create = fn(&Device, u64) -> rig::Result<Buffer>;

/// Every way to make a buffer of Device memory.
const CREATES: [Create; 5] = [
    |d, len| d.create_buffer(len),
    |d, len| d.create_buffer_now(len),
    |d, len| d.create_buffer_in(Kind::Device, len),
    |d, len| d.buffer(len).label("sized").create(),
    |d, len| match poll(pin!(d.create_buffer_async(len))) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nothing has to be waited for"),
    },
];

#[test]
fn s4_3_and_s9_8_small_and_odd_sizes_are_made_and_charged_by_their_bin() {
    let d = device("small sizes");
    for create in CREATES {
        for (len, charged) in [(0, 0), (1, 512), (3, 512), (512, 512), (513, 576), (4097, 4608)] {
            let buffer = create(&d, len).unwrap();
            assert_eq!((buffer.len(), buffer.spans(), d.held()), (len, true, charged));
            drop(buffer);
            d.free_cache().unwrap();
            assert_eq!(d.held(), 0);
        }
    }
}

#[test]
fn s10_6_sizes_above_the_budget_fail_with_their_numbers_and_ask_no_driver() {
    let d = device("huge sizes");
    let kept = d.create_buffer(4096).unwrap();
    d.control.clear_log();
    let near_32 = [u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, (1 << 32) + 4097];
    for create in CREATES {
        for len in near_32.into_iter().chain([BUDGET + 1, 1 << 40]) {
            let answer = create(&d, len);
            let Err(Error::OutOfMemory { asked_bytes, held_bytes, budget_bytes, report, .. }) =
                answer
            else {
                panic!("{len} bytes: {answer:?}");
            };
            assert_eq!((asked_bytes, held_bytes, budget_bytes), (len, 4096, BUDGET));
            assert_eq!((report.asked_bytes, report.rounds.len()), (len, 0));
        }
    }
    assert_eq!((d.control.count(Call::Alloc), d.held(), kept.len()), (0, 4096, 4096));
}

#[test]
fn s4_2_sizes_above_the_largest_allocation_are_unsupported_with_both_numbers() {
    let d = device("above the largest");
    d.set_budget(u64::MAX).unwrap();
    // Whole grains are allocated, so the largest size is the last multiple below.
    let largest = LARGEST / 16 * 16;
    for create in CREATES {
        for len in [largest + 1, LARGEST, LARGEST + 1, 1 << 63, u64::MAX - 15, u64::MAX] {
            let text = create(&d, len).expect_err("too large").to_string();
            let wanted = format!(
                "above the largest does not support this: {len} bytes asked, the largest \
                 allocation is {largest}"
            );
            assert_eq!(text, wanted);
        }
    }
    assert_eq!((d.control.count(Call::Alloc), d.held()), (0, 0));
}

#[test]
fn s4_2_the_largest_legal_size_is_asked_of_the_driver_and_one_more_is_not() {
    let _rounds = rounds();
    let d = device("the largest");
    d.set_budget(u64::MAX).unwrap();
    d.control.refuse_from(1);
    let largest = LARGEST / 16 * 16;
    let Err(Error::OutOfMemory { asked_bytes, held_bytes, .. }) = d.create_buffer(largest) else {
        panic!("the driver has no room");
    };
    assert_eq!((asked_bytes, held_bytes), (largest, 0));
    let asked: Vec<u64> = d.control.calls(Call::Alloc).iter().map(|call| call.bytes).collect();
    assert_eq!(asked, [largest; 4]);
    assert!(matches!(d.create_buffer(largest + 1), Err(Error::Unsupported { .. })));
    assert_eq!(d.control.count(Call::Alloc), 4);
}

#[test]
fn s10_3_two_reservations_near_2_64_never_wrap_around() {
    let _rounds = rounds();
    let device = memory::open("near 2^64").unwrap();
    let kept = device.create_buffer(1).unwrap();
    for len in [i64::MAX as u64, i64::MAX as u64 - 1, 1 << 62] {
        let answer = device.create_buffer(len);
        assert!(matches!(answer, Err(Error::OutOfMemory { .. })), "{len}: {answer:?}");
        assert_eq!(device.held(), 512);
    }
    drop(kept);
    device.close().unwrap();
}

#[test]
fn s10_6_under_a_budget_of_0_only_empty_buffers_are_made() {
    let d = device("no budget");
    d.set_budget(0).unwrap();
    for create in CREATES {
        assert!(create(&d, 0).is_ok());
        let Err(Error::OutOfMemory { asked_bytes, held_bytes, budget_bytes, .. }) = create(&d, 1)
        else {
            panic!("there is no room");
        };
        assert_eq!((asked_bytes, held_bytes, budget_bytes), (1, 0, 0));
    }
    assert_eq!(d.control.count(Call::Alloc), 0);
    // What is live stays, goes past the cache, and is not replaced.
    d.set_budget(4096).unwrap();
    let live = d.create_buffer(4096).unwrap();
    d.set_budget(0).unwrap();
    assert_eq!((d.held(), live.dead()), (4096, None));
    drop(live);
    d.trim().unwrap();
    assert_eq!((d.held(), d.cached()), (0, 0));
}

/// Offsets and lengths of ranges of a buffer of `len` bytes, and whether they are within it.
fn ranges(len: u64) -> Vec<(u64, u64, bool)> {
    let edges = [0, 1, 3, len - 1, len, len + 1, 4097, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    let pairs = edges.iter().flat_map(|offset| edges.iter().map(move |len| (*offset, *len)));
    let fits = |(offset, size): (u64, u64)| offset.checked_add(size).is_some_and(|end| end <= len);
    pairs.map(|range| (range.0, range.1, fits(range))).collect()
}

fn out_of_range(offset: u64, size: u64, len_bytes: u64) -> Option<Misuse> {
    Some(Misuse::OutOfRange { end_bytes: offset.saturating_add(size), len_bytes })
}

fn misuse<T>(answer: rig::Result<T>) -> Option<Misuse> {
    answer.err().map(|error| error.misuse().cloned().unwrap_or_else(|| panic!("{error}")))
}

#[test]
fn s0_4_a_view_past_the_end_is_misuse_with_both_numbers_and_one_within_is_exact() {
    const LEN: u64 = 1000;
    let h = host().create_buffer(LEN).unwrap();
    for (offset, size, fits) in ranges(LEN) {
        let view = h.view(offset, size);
        if fits {
            let view = view.unwrap();
            assert_eq!((view.offset(), view.len()), (offset, size));
            for (inner, inner_size, inner_fits) in ranges(size.max(1)) {
                let inner_fits = inner_fits && inner + inner_size <= size;
                assert_eq!(view.view(inner, inner_size).is_ok(), inner_fits);
            }
        } else {
            assert_eq!(misuse(view), out_of_range(offset, size, LEN));
        }
    }
}

#[test]
fn s0_4_blits_and_exports_past_the_end_move_nothing() {
    const LEN: u64 = 9;
    let d = device("ranges");
    let x = d.create_buffer(LEN).unwrap();
    let h = host().create_buffer(LEN).unwrap();
    h.write(|bytes| bytes.fill(5)).unwrap();
    x.fill(5).unwrap();
    let submitted = d.submitted();
    let export = h.export().unwrap();
    for offset in [0, 1, 8, 9, 10, 4097, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        for size in 0..=10_u64 {
            if offset.checked_add(size).is_some_and(|end| end <= LEN) {
                continue;
            }
            let mut out = vec![1; size as usize];
            let from = out.clone();
            let wanted = out_of_range(offset, size, LEN);
            assert_eq!(misuse(x.blit_to(offset, &mut out)), wanted);
            assert_eq!(misuse(h.blit_to(offset, &mut out)), wanted);
            assert_eq!(misuse(export.copy_out(offset, &mut out)), wanted);
            assert_eq!(misuse(x.blit_from(offset, &from)), wanted);
            assert_eq!(misuse(h.blit_from(offset, &from)), wanted);
            assert_eq!(misuse(export.copy_in(offset, &from)), wanted);
            assert!(out.iter().all(|byte| *byte == 1), "nothing came out");
        }
    }
    assert_eq!(d.submitted(), submitted);
    h.read(|bytes| assert_eq!(bytes, [5; 9])).unwrap();
    let mut out = [0; 9];
    x.blit_to(0, &mut out).unwrap();
    assert_eq!(out, [5; 9]);
}

/// A way to copy one buffer to another.
type Way<'a> = &'a dyn Fn(&Buffer, &Buffer) -> Option<Misuse>;

#[test]
fn s7_1_lengths_that_differ_and_overlaps_are_refused_by_copies_prepares_and_submits() {
    let d = device("overlaps");
    let x = d.create_buffer(4096).unwrap();
    let view = |offset, len| x.view(offset, len).unwrap();
    let copies = d.prepare().copy(run(0), run(1)).build().unwrap();
    let ways: [Way<'_>; 3] = [
        &|src, dst| misuse(copy(src, dst)),
        &|src, dst| misuse(d.prepare().copy(src, dst).build()),
        &|src, dst| misuse(copies.submit(&[src, dst], &[])),
    ];
    for way in ways {
        for (src, dst) in [(0, 0), (0, 1), (1, 0), (0, 95), (4000, 4001)] {
            let len = 96.min(4096 - dst);
            let overlap = way(&view(src, len), &view(dst, len));
            assert_eq!(overlap, Some(Misuse::Overlap), "{src} to {dst}");
        }
        // Those that only touch are refused for their lengths alone.
        let lengths = Misuse::LengthsDiffer { src_bytes: 96, dst_bytes: 95 };
        assert_eq!(way(&view(0, 96), &view(96, 95)), Some(lengths));
    }
    assert_eq!(d.submitted(), 0);
}

#[test]
fn s6_3_elements_that_are_misaligned_or_partial_are_misuse_with_their_numbers() {
    let h = host().create_buffer(64).unwrap();
    for len in 0..=9 {
        let view = h.view(0, len).unwrap();
        let wanted =
            (len % 4 > 0).then_some(Misuse::PartialElement { len_bytes: len, element_bytes: 4 });
        assert_eq!(misuse(view.read_as::<u32, _>(|_| ())), wanted);
        assert_eq!(misuse(view.write_as::<u32, _>(|_| ())), wanted);
    }
    for offset in 1..=8 {
        let view = h.view(offset, 8).unwrap();
        let wanted = (offset % 4 > 0)
            .then_some(Misuse::Misaligned { offset_bytes: offset % 4, align_bytes: 4 });
        assert_eq!(misuse(view.read_as::<u32, _>(|_| ())), wanted);
        assert_eq!(misuse(view.write_as::<u32, _>(|_| ())), wanted);
    }
}

#[test]
fn s9_15_options_outside_their_range_are_misuse_that_names_what_was_given() {
    let d = device("options");
    let before = d.cache_options();
    let shares = [f64::NAN, f64::NEG_INFINITY, -0.1, 1e7, f64::INFINITY];
    let fits = shares.into_iter().chain([0.0, 0.999]);
    let wrong = fits.map(|fit| (fit, before.cache_share, "near_fit", fit));
    let wrong = wrong.chain(shares.map(|share| (before.near_fit, share, "cache_share", share)));
    for (near_fit, cache_share, named, given_number) in wrong {
        let mut options = CacheOptions::default();
        (options.near_fit, options.cache_share) = (near_fit, cache_share);
        let Some(Misuse::Option { option, given, .. }) = misuse(d.set_cache(options)) else {
            panic!("{named} of {given_number}");
        };
        assert_eq!((option, &*given), (named, &*given_number.to_string()));
        assert_eq!(d.cache_options(), before);
    }
    let mut options = CacheOptions::default();
    (options.near_fit, options.cache_share) = (1.0, 0.0);
    (options.bins, options.bin_max_bytes) = (Bins::Pow2, 0);
    d.set_cache(options).unwrap();
    assert_eq!(d.create_buffer(3).unwrap().len(), 3);
    options.bin_max_bytes = u64::MAX;
    d.set_cache(options).unwrap();
    assert!(matches!(d.create_buffer(1 << 40), Err(Error::OutOfMemory { .. })));
}

#[test]
fn s8_2_numbers_of_parts_queues_and_run_buffers_past_their_end_are_misuse() {
    let d = device("numbers");
    let prepare = || d.prepare().fill(run(0), 1);
    for number in [1, 2, 4097, u32::MAX as usize, usize::MAX] {
        let text = prepare().queue(number).build().unwrap_err().to_string();
        assert_eq!(text, format!("misuse of prepare: queue {number} does not run fills"));
        let text = prepare().after(number).build().unwrap_err().to_string();
        assert_eq!(text, format!("misuse of prepare: part 0 cannot come after part {number}"));
    }
    for number in [1 << 16, u32::MAX as usize, usize::MAX] {
        assert!(misuse(d.prepare().reads(run(number)).build()).is_some());
    }
    let fill = prepare().build().unwrap();
    let x = d.create_buffer(16).unwrap();
    for given in [0, 2, 3, 4097] {
        let buffers = vec![&x; given];
        let wanted = Misuse::RunBuffers { given: given as u64, named: 1 };
        assert_eq!(misuse(fill.submit(&buffers, &[])), Some(wanted));
    }
    assert_eq!((d.submitted(), x.stamps().uses.len()), (0, 0));
}

#[test]
fn s4_3_empty_buffers_pass_every_call_and_move_nothing() {
    let d = device("empty ones");
    let (x, y, h) = (
        d.create_buffer(0).unwrap(),
        d.create_buffer(16).unwrap().view(16, 0).unwrap(),
        host().create_buffer(0).unwrap(),
    );
    let shared = wrap_shared(std::sync::Arc::<[u8]>::from(Vec::new()));
    for one in [&x, &y, &h, &shared] {
        for other in [&x, &y, &h] {
            copy(one, other).unwrap();
            assert!(!one.overlaps(other));
        }
        one.blit_to(0, &mut []).unwrap();
        assert_eq!(misuse(one.blit_to(0, &mut [0])), out_of_range(0, 1, 0));
        assert_eq!(misuse(one.blit_to(1, &mut [])), out_of_range(1, 0, 0));
        assert!(one.view(0, 0).unwrap().is_empty());
        drop(one.claim_read().unwrap());
        Claims::with(&[one], &[], |_| ()).unwrap();
    }
    for one in [&x, &y, &h] {
        one.fill(1).unwrap();
        one.blit_from(0, &[]).unwrap();
    }
    let borrowed = h.borrow(&d).unwrap().expect("an empty buffer borrows anywhere");
    let (mapped, submitted) = (d.control.count(Call::ImportHost), d.submitted());
    assert_eq!((mapped, submitted), (0, 0));
    // Work may name them, and takes its value.
    let fill = d.prepare().fill(run(0), 1).build().unwrap();
    for (value, one) in (1..).zip([&x, &y, &borrowed]) {
        assert_eq!(fill.submit(&[one], &[]).unwrap().value(), value);
    }
    d.wait(3).unwrap();
    assert_eq!(misuse(shared.fill(1)), Some(Misuse::ReadOnly));
    h.read(|bytes| assert!(bytes.is_empty())).unwrap();
    assert!(h.export().unwrap().is_empty());
}
