//! Two threads on one GPU: on one buffer, and each with errors of its own.

use crate::bench::pattern;
use crate::found::{open, open_each, open_mapped, skipped};
use crate::process::{alone, limit_memory};
use rig::{Error, Misuse};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn s6_6_two_threads_read_one_buffer_at_once() {
    for d in open_each("two readers") {
        let len = 3 * d.facts().piece_bytes.min(4 << 20) + 5;
        let x = d.create_buffer(len).unwrap();
        let wanted = pattern(len, 6);
        x.blit_from(0, &wanted).unwrap();
        let both = Barrier::new(2);
        let read = |offset: usize| {
            let mut out = vec![0; wanted.len() - offset];
            both.wait();
            for _ in 0..5 {
                out.fill(0);
                x.blit_to(offset as u64, &mut out).unwrap();
                assert!(out == wanted[offset..], "from {offset} on");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| read(0));
            scope.spawn(|| read(3));
        });
    }
}

#[test]
fn s6_2_two_threads_are_inside_reads_of_one_mapped_buffer_at_once() {
    let Some(d) = open_mapped("two inside") else { return };
    let x = d.create_buffer(4096).unwrap();
    x.fill(8).unwrap();
    let inside = Barrier::new(2);
    let read = || {
        x.read(|bytes| {
            // Neither comes further before both are here.
            inside.wait();
            assert!(bytes.iter().all(|byte| *byte == 8));
        })
        .unwrap();
    };
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
        });
    }
}

#[test]
fn s7_3_a_read_while_a_write_is_staged_has_each_piece_before_or_after_it() {
    let Some(d) = open("a read beside a write") else { return };
    let piece = d.facts().piece_bytes as usize;
    let len = 2 * piece + 1;
    let x = d.create_buffer(len as u64).unwrap();
    x.fill(0).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=20 {
                x.blit_from(0, &vec![round; len]).unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
        let (mut out, mut least) = (vec![0; len], 0);
        let mut last = false;
        while !last {
            last = over.load(Ordering::SeqCst);
            x.blit_to(0, &mut out).unwrap();
            for piece in out.chunks(piece) {
                assert!(piece.iter().all(|byte| *byte == piece[0]), "two writes in one piece");
                assert!(piece[0] >= least, "a piece went back from {least} to {}", piece[0]);
            }
            // What was written before this read began stays written.
            least = out[len - 1];
        }
        assert!(out.iter().all(|byte| *byte == 20));
    });
}

#[test]
fn s8_8_of_two_threads_each_meets_its_own_error() {
    let name = "threads::s8_8_of_two_threads_each_meets_its_own_error";
    alone(name, || {
        let Some((d, _, _, told)) = crate::interop::adopted("its own error") else { return };
        d.set_budget(u64::MAX).unwrap();
        let big = d.facts().largest_bytes;
        // wgpu itself meets the refusal then, not rig's budget.
        if big < 1 << 30 || !limit_memory(big / 2) {
            return;
        }
        if d.create_buffer(big).is_ok() {
            return skipped("this GPU's memory is not that of the process");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    let refused = d.create_buffer(big).unwrap_err();
                    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
                }
            });
            scope.spawn(|| {
                for _ in 0..200 {
                    let wrong = d.kernel(rig::wgpu::wgsl("fn main( {", "main")).unwrap_err();
                    let rejected = matches!(&wrong, Error::Misuse { what, .. }
                        if matches!(what, Misuse::Rejected { .. }));
                    assert!(rejected, "{wrong}");
                }
            });
        });
        assert!(told.lock().unwrap().is_empty() && d.lost().is_none());
        assert_eq!(d.held(), 0);
        d.create_buffer(4096).unwrap().fill(1).unwrap();
    });
}
