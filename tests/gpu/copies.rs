//! Every byte of copies, blits and fills, through the public calls.

use crate::bench::pattern;
use crate::found::{open, open_each, open_each_way};
use rig::wgpu::{encode, wgsl};
use rig::{Buffer, copy, run, wrap};
use std::sync::{Arc, Mutex};

const LEN: u64 = 64;

fn bytes(buffer: &Buffer) -> Vec<u8> {
    let mut out = vec![0; buffer.len() as usize];
    buffer.blit_to(0, &mut out).unwrap();
    out
}

/// Calls `f` with all small offsets and lengths.
fn each(f: impl Fn(usize, usize)) {
    (0..=17).for_each(|len| (0..=17).for_each(|offset| f(offset, len)));
}

#[test]
fn s6_7_a_blit_in_leaves_its_neighbours() {
    for d in open_each_way("blits in") {
        let x = d.create_buffer(LEN).unwrap();
        each(|offset, len| {
            x.fill(0xEE).unwrap();
            x.blit_from(offset as u64, &pattern(len as u64, 3)).unwrap();
            let mut wanted = vec![0xEE; LEN as usize];
            wanted[offset..offset + len].copy_from_slice(&pattern(len as u64, 3));
            assert_eq!(bytes(&x), wanted, "{len} bytes at {offset}");
        });
    }
}

#[test]
fn s6_7_a_blit_out_has_the_bytes_of_its_range() {
    for d in open_each_way("blits out") {
        let x = d.create_buffer(LEN).unwrap();
        x.blit_from(0, &pattern(LEN, 5)).unwrap();
        each(|offset, len| {
            let mut out = vec![0; len];
            x.blit_to(offset as u64, &mut out).unwrap();
            assert_eq!(out, pattern(LEN, 5)[offset..offset + len], "{len} bytes at {offset}");
        });
    }
}

#[test]
fn s6_7_a_fill_leaves_its_neighbours() {
    for d in open_each("fills") {
        let x = d.create_buffer(LEN).unwrap();
        for byte in [0, 7] {
            each(|offset, len| {
                x.fill(0xEE).unwrap();
                x.view(offset as u64, len as u64).unwrap().fill(byte).unwrap();
                let mut wanted = vec![0xEE; LEN as usize];
                wanted[offset..offset + len].fill(byte);
                assert_eq!(bytes(&x), wanted, "{len} bytes at {offset}");
            });
        }
    }
}

#[test]
fn s6_7_copies_in_out_and_between_leave_their_neighbours() {
    for d in open_each_way("copies") {
        let (x, y) = (d.create_buffer(LEN).unwrap(), d.create_buffer(LEN).unwrap());
        let (from, back) = (wrap(pattern(LEN, 4)), wrap(vec![0_u8; LEN as usize]));
        for (at, to) in (0..8).flat_map(|at| (0..8).map(move |to| (at, to))) {
            for len in 0..=17 {
                [&x, &y, &back].into_iter().for_each(|buffer| buffer.fill(0xEE).unwrap());
                let view = |buffer: &Buffer, at| buffer.view(at, len).unwrap();
                copy(&view(&from, at), &view(&x, to)).unwrap();
                copy(&view(&x, to), &view(&y, at)).unwrap();
                copy(&view(&y, at), &view(&back, to)).unwrap();
                let wanted = |to: u64| {
                    let mut wanted = vec![0xEE; LEN as usize];
                    let part = &pattern(LEN, 4)[at as usize..(at + len) as usize];
                    wanted[to as usize..(to + len) as usize].copy_from_slice(part);
                    wanted
                };
                let seen = [&x, &y, &back].map(bytes);
                let wanted = [wanted(to), wanted(at), wanted(to)];
                assert_eq!(seen, wanted, "{len} bytes from {at} to {to}");
            }
        }
    }
}

#[test]
fn s6_7_moves_around_the_borders_of_pieces_leave_their_neighbours() {
    let Some(d) = open("borders") else { return };
    let piece = d.facts().piece_bytes;
    let x = d.create_buffer(2 * piece + 64).unwrap();
    let around = |at: u64, len: usize| {
        let mut out = vec![0; len + 16];
        x.blit_to(at - 8, &mut out).unwrap();
        out
    };
    for near in 0..=17 {
        // From a place near the border on, as long as a piece and some bytes.
        let (start, len) = (8 + near, piece + near - 8);
        let from = pattern(len, near);
        x.fill(0xEE).unwrap();
        x.blit_from(start, &from).unwrap();
        let framed = |middle: &[u8]| [&[0xEE; 8][..], middle, &[0xEE; 8]].concat();
        assert!(around(start, from.len()) == framed(&from), "{len} bytes at {start}");
        // The few bytes around the border itself, by each way.
        let (at, few) = (piece - 9 + near, pattern(near, 77));
        x.view(at - 8, near + 16).unwrap().fill(0xEE).unwrap();
        x.blit_from(at, &few).unwrap();
        assert_eq!(around(at, few.len()), framed(&few), "{near} bytes at {at}");
        x.view(at, near).unwrap().fill(6).unwrap();
        assert_eq!(around(at, few.len()), framed(&vec![6; few.len()]), "a fill at {at}");
    }
}

#[test]
fn s6_7_copies_and_fills_of_many_words_on_the_device_leave_their_neighbours() {
    for d in open_each_way("many words") {
        let whole = |len: u64| d.create_buffer(len + 16).unwrap();
        // From here on, whole words have a pass of their own, and the ends another.
        for len in (64 << 10)..=(64 << 10) + 4 {
            let (x, y) = (whole(len), whole(len));
            let from = pattern(len + 16, len);
            x.blit_from(0, &from).unwrap();
            for (at, to) in (0..4).flat_map(|at| (4..8).map(move |to| (at, to))) {
                let inner = y.view(to, len).unwrap();
                y.fill(0xEE).unwrap();
                copy(&x.view(at, len).unwrap(), &inner).unwrap();
                let mut wanted = vec![0xEE; len as usize + 16];
                let into = to as usize..(to + len) as usize;
                wanted[into.clone()].copy_from_slice(&from[at as usize..(at + len) as usize]);
                assert!(bytes(&y) == wanted, "{len} bytes from {at} to {to}");
                inner.fill(7).unwrap();
                wanted[into].fill(7);
                assert!(bytes(&y) == wanted, "a fill of {len} bytes at {to}");
            }
        }
    }
}

#[test]
fn s6_7_copies_and_fills_of_more_than_a_dispatch_reaches_are_exact() {
    let Some(d) = open("stretches") else { return };
    let len = (33 << 20) + 5;
    let (x, y) = (d.create_buffer(len + 16).unwrap(), d.create_buffer(len + 16).unwrap());
    let from = pattern(len + 16, 3);
    x.blit_from(0, &from).unwrap();
    for (at, to) in [(1, 6), (1, 5)] {
        let inner = y.view(to, len).unwrap();
        y.fill(0xEE).unwrap();
        copy(&x.view(at, len).unwrap(), &inner).unwrap();
        let framed = |middle: &[u8]| {
            let ends = [vec![0xEE; to as usize], vec![0xEE; 16 - to as usize]];
            [&ends[0], middle, &ends[1]].concat()
        };
        let wanted = framed(&from[at as usize..(at + len) as usize]);
        assert!(bytes(&y) == wanted, "{len} bytes from {at} to {to}");
        inner.fill(7).unwrap();
        assert!(bytes(&y) == framed(&vec![7; len as usize]), "a fill at {to}");
    }
}

#[test]
fn s6_7_a_copy_between_views_of_one_buffer_leaves_its_neighbours() {
    for d in open_each_way("views") {
        let x = d.create_buffer(LEN).unwrap();
        // Every pair of remainders modulo 4, and the other way round.
        for (from, to) in (0..8).flat_map(|from| (32..36).map(move |to| (from, to))) {
            for len in 0..=17_u64 {
                for (from, to) in [(from, to), (to, from)] {
                    x.blit_from(0, &pattern(LEN, len)).unwrap();
                    copy(&x.view(from, len).unwrap(), &x.view(to, len).unwrap()).unwrap();
                    let mut wanted = pattern(LEN, len);
                    wanted.copy_within(from as usize..(from + len) as usize, to as usize);
                    assert_eq!(bytes(&x), wanted, "{len} bytes from {from} to {to}");
                }
            }
        }
    }
}

#[test]
fn s7_5_a_copy_of_many_pieces_at_odd_offsets_is_exact() {
    let Some(d) = open("pieces") else { return };
    let piece = d.facts().piece_bytes;
    for (offset, len) in [(0, 3 * piece), (1, 2 * piece + 5), (3, piece - 1), (2, piece + 1)] {
        let x = d.create_buffer(offset + len + 3).unwrap();
        x.fill(0xEE).unwrap();
        let from = pattern(len, offset);
        copy(&wrap(from.clone()), &x.view(offset, len).unwrap()).unwrap();
        let back = wrap(vec![0_u8; len as usize]);
        copy(&x.view(offset, len).unwrap(), &back).unwrap();
        back.read(|back| assert!(back == from, "{len} bytes at {offset}")).unwrap();
        let all = bytes(&x);
        assert!(all[..offset as usize].iter().all(|byte| *byte == 0xEE), "before {offset}");
        assert_eq!(all[(offset + len) as usize..], [0xEE; 3], "behind {offset} + {len}");
        let y = d.create_buffer(len).unwrap();
        copy(&x.view(offset, len).unwrap(), &y).unwrap();
        assert!(bytes(&y) == from, "{len} bytes from {offset}, by the device");
    }
}

#[test]
fn s4_3_work_on_empty_buffers_takes_a_value_and_a_launch_on_one_names_it() {
    for d in open_each("empty") {
        let (x, y) = (d.create_buffer(0).unwrap(), d.create_buffer(0).unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&seen);
        let look = encode(move |_, places| {
            tell.lock().unwrap().extend(places.iter().map(|place| place.len));
        });
        let work = d.prepare().fill(&x, 1).copy(&x, run(0)).native(look).reads(&y).build().unwrap();
        work.submit(&[&y], &[]).unwrap().wait().unwrap();
        assert_eq!((d.submitted(), x.stamps().write.is_some()), (1, true));
        assert!(
            !seen.lock().unwrap().is_empty() && seen.lock().unwrap().iter().all(|len| *len == 0)
        );
        let source = "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
            @compute @workgroup_size(1) fn one() { words[0] = 1u; }";
        let kernel = d.kernel(wgsl(source, "one")).unwrap();
        let text = kernel.launch([1, 1, 1]).writes(&x).submit().unwrap_err().to_string();
        assert!(text.contains("no bytes to bind"), "{text}");
        assert_eq!((d.submitted(), d.lost()), (1, None));
    }
}

#[test]
fn s7_2_a_copy_between_two_gpus_passes_through_both_ones_halves() {
    let (Some(d), Some(e)) = (open("through d"), open("through e")) else { return };
    let (x, y) = (d.create_buffer(5_000_001).unwrap(), e.create_buffer(5_000_001).unwrap());
    x.blit_from(0, &pattern(5_000_001, 4)).unwrap();
    copy(&x, &y).unwrap();
    assert!(bytes(&y) == pattern(5_000_001, 4));
}
