//! Every byte of copies, blits and fills, through the public calls.

use crate::bench::pattern;
use crate::found::open;
use rig::{Buffer, copy, wrap};

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
    let Some(d) = open("blits in") else { return };
    let x = d.create_buffer(LEN).unwrap();
    each(|offset, len| {
        x.fill(0xEE).unwrap();
        x.blit_from(offset as u64, &pattern(len as u64, 3)).unwrap();
        let mut wanted = vec![0xEE; LEN as usize];
        wanted[offset..offset + len].copy_from_slice(&pattern(len as u64, 3));
        assert_eq!(bytes(&x), wanted, "{len} bytes at {offset}");
    });
}

#[test]
fn s6_7_a_blit_out_has_the_bytes_of_its_range() {
    let Some(d) = open("blits out") else { return };
    let x = d.create_buffer(LEN).unwrap();
    x.blit_from(0, &pattern(LEN, 5)).unwrap();
    each(|offset, len| {
        let mut out = vec![0; len];
        x.blit_to(offset as u64, &mut out).unwrap();
        assert_eq!(out, pattern(LEN, 5)[offset..offset + len], "{len} bytes at {offset}");
    });
}

#[test]
fn s6_7_a_fill_leaves_its_neighbours() {
    let Some(d) = open("fills") else { return };
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

#[test]
fn s6_7_a_copy_between_views_of_one_buffer_leaves_its_neighbours() {
    let Some(d) = open("views") else { return };
    let x = d.create_buffer(LEN).unwrap();
    for (from, to, len) in [(0, 32, 16), (1, 33, 16), (3, 40, 9), (40, 2, 17), (5, 24, 1)] {
        x.blit_from(0, &pattern(LEN, 9)).unwrap();
        copy(&x.view(from, len).unwrap(), &x.view(to, len).unwrap()).unwrap();
        let mut wanted = pattern(LEN, 9);
        wanted.copy_within(from as usize..(from + len) as usize, to as usize);
        assert_eq!(bytes(&x), wanted, "{len} bytes from {from} to {to}");
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
fn s7_5_a_small_read_of_a_large_buffer_moves_little() {
    let Some(d) = open("small read") else { return };
    let x = d.create_buffer(64 << 20).unwrap();
    x.blit_from((64 << 20) - 5, &[1, 2, 3, 4]).unwrap();
    let before = d.submitted();
    let mut out = [0; 4];
    x.blit_to((64 << 20) - 5, &mut out).unwrap();
    assert_eq!((out, d.submitted() - before), ([1, 2, 3, 4], 1));
}

#[test]
fn s7_2_a_copy_between_two_gpus_passes_through_both_ones_halves() {
    let (Some(d), Some(e)) = (open("through d"), open("through e")) else { return };
    let (x, y) = (d.create_buffer(5_000_001).unwrap(), e.create_buffer(5_000_001).unwrap());
    x.blit_from(0, &pattern(5_000_001, 4)).unwrap();
    copy(&x, &y).unwrap();
    assert!(bytes(&y) == pattern(5_000_001, 4));
}
