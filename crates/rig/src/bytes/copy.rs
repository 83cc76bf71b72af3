//! The routines that move host bytes: a fast one for bytes nobody else touches, and a mixed one for
//! bytes that anybody may touch meanwhile.
//!
//! The fast one never meets the two things that make a plain copy slow. First, a load that follows
//! a store whose address agrees with it in the low 12 bits waits for that store, so a batch of
//! vectors is loaded before it is stored, and batches go backwards, where the stores lie behind the
//! loads. Second, a store first fetches the line it overwrites, so large copies go past the
//! processor's caches. Destinations are stored by whole aligned vectors. Any thread may call
//! anything here; there are no locks.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Copies `len` bytes by the fastest routine of this machine.
///
/// # Safety
///
/// As [`ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    match widest() {
        // SAFETY: the caller's contract; the width is one this machine runs.
        Some(width) if len >= FAR_MIN => unsafe { (width.far)(src, dst, len) },
        // SAFETY: the caller's contract.
        _ => unsafe { copy_near(src, dst, len) },
    }
}

/// Copies `len` bytes and leaves them in the processor's caches, for a reader that comes at once.
///
/// # Safety
///
/// As [`ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy_near(src: *const u8, dst: *mut u8, len: usize) {
    match widest() {
        // SAFETY: the caller's contract; the width is one this machine runs, and `len` is enough.
        Some(width) if len >= NEAR_MIN => unsafe { (width.near)(src, dst, len) },
        // SAFETY: the caller's contract.
        _ => unsafe { ptr::copy_nonoverlapping(src, dst, len) },
    }
}

/// Copies `len` bytes, each by a relaxed atomic load and a relaxed atomic store, in any order.
///
/// # Safety
///
/// Both ranges are valid, `dst` for writes too. What else touches them meanwhile does so by atomic
/// accesses of single bytes, which includes everything that is no code of this program. The ranges
/// are equal or do not overlap.
pub(crate) unsafe fn copy_mixed(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's contract, for both.
    unsafe {
        let head = dst.align_offset(BLOCK_ALIGN).min(len);
        let moved = head + blocks::copy(src.add(head), dst.add(head), len - head);
        for at in (0..head).chain(moved..len) {
            let byte = AtomicU8::from_ptr(src.add(at).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(dst.add(at)).store(byte, Ordering::Relaxed);
        }
    }
}

/// Copies `src` to `dst` as [`copy_mixed`] does; nobody writes `src` meanwhile.
///
/// # Safety
///
/// As [`copy_mixed`], for `dst`.
pub(crate) unsafe fn copy_slice_mixed(src: &[u8], dst: *mut u8) {
    // SAFETY: the caller's contract. A slice is read without atomic loads, which would need the
    // right to write it.
    unsafe {
        let (len, from) = (src.len(), src.as_ptr());
        let head = dst.align_offset(BLOCK_ALIGN).min(len);
        let moved = head + blocks::copy(from.add(head), dst.add(head), len - head);
        for at in (0..head).chain(moved..len) {
            AtomicU8::from_ptr(dst.add(at)).store(src[at], Ordering::Relaxed);
        }
    }
}

/// Stores `byte` into `len` bytes, each by a relaxed atomic store, in any order.
///
/// # Safety
///
/// As [`copy_mixed`], for `dst`.
pub(crate) unsafe fn fill_mixed(dst: *mut u8, byte: u8, len: usize) {
    // SAFETY: the caller's contract, for both.
    unsafe {
        for at in blocks::fill(dst, byte, len)..len {
            AtomicU8::from_ptr(dst.add(at)).store(byte, Ordering::Relaxed);
        }
    }
}

/// The routines of one vector width. All have the contract of [`ptr::copy_nonoverlapping`], on a
/// machine where `runs` answers true.
pub(crate) struct Width {
    /// The bytes of a vector.
    pub(crate) vector_bytes: usize,
    /// Whether this machine has such vectors, at full speed.
    pub(crate) runs: fn() -> bool,
    /// Leaves the bytes in the caches. It takes at least [`NEAR_MIN`] bytes.
    pub(crate) near: unsafe fn(*const u8, *mut u8, usize),
    /// Stores past the caches.
    pub(crate) far: unsafe fn(*const u8, *mut u8, usize),
}

/// The fewest bytes for which a routine beats the library's copy, which has paths for small ones.
pub(crate) const NEAR_MIN: usize = 256;

/// The fewest bytes that go past the caches. Measured on a server with 2 MiB of second-level cache
/// a core: once both sides no longer fit there, copying past the caches is 1.3 times as fast, from
/// 32 MiB on 2 times; reading the result afterwards from memory costs less than that, unless the
/// source was in the third level. What that level says of its size is no use as a bound: other
/// cores and other guests fill it (it claimed 260 MiB).
pub(crate) const FAR_MIN: usize = 2 << 20;

/// What the blocks of a mixed copy are aligned to in the destination, so that no store splits a
/// line, at a third of the speed.
const BLOCK_ALIGN: usize = 16;

fn widest() -> Option<&'static Width> {
    /// One more than the index of the widest that runs; 0 while nobody looked.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    // Unoptimised, each vector is several calls; the library's copy is optimised whoever calls it.
    if cfg!(debug_assertions) {
        return None;
    }
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        let runs = |width: &Width| NEAR_MIN >= width.vector_bytes && (width.runs)();
        known = 1 + WIDTHS.iter().position(runs).unwrap_or(WIDTHS.len());
        KNOWN.store(known, Ordering::Relaxed);
    }
    WIDTHS.get(known - 1)
}

/// Every width compiled in, the widest first. The interpreter knows no vectors.
#[cfg(any(miri, not(target_arch = "x86_64")))]
pub(crate) static WIDTHS: [Width; 0] = [];

/// Every width compiled in, the widest first.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) static WIDTHS: [Width; 3] = [
    Width {
        vector_bytes: 64,
        // The older processors with 512-bit vectors, which lack the byte permutations, lower their
        // clock when these are used.
        runs: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vbmi"),
        near: vectors_64::near,
        far: vectors_64::far,
    },
    Width {
        vector_bytes: 32,
        runs: || is_x86_feature_detected!("avx2"),
        near: vectors_32::near,
        far: vectors_32::far,
    },
    Width { vector_bytes: 16, runs: || true, near: vectors_16::near, far: vectors_16::far },
];

/// Makes the routines of one width: `$count` vectors are loaded before any is stored near, and
/// `$run` of each page, a line at least, far. Neither count needs more registers than there are.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! width {
    (
        $module:ident, $features:literal, $vector:ident, $count:literal, $run:literal,
        $zero:ident, $load:ident, $store:ident, $store_aligned:ident, $stream:ident
    ) => {
        mod $module {
            use std::arch::x86_64::{_mm_sfence, $vector};
            use std::arch::x86_64::{$load, $store, $store_aligned, $stream, $zero};
            use std::ptr;

            const VECTOR: usize = size_of::<$vector>();
            const BATCH: usize = $count * VECTOR;

            /// What shares its low 12 address bits. Several such stretches are copied side by side,
            /// since memory serves them from several of its own pages.
            const PAGE: usize = 4096;
            const PAGES: usize = 4;
            const LINE: usize = 64;

            #[target_feature(enable = $features)]
            pub(crate) unsafe fn near(src: *const u8, dst: *mut u8, len: usize) {
                // SAFETY: the caller vouches for `len` bytes at both ends, and for a vector at
                // least. `at` never grows, and a batch or vector at `at` ends where it was before.
                // `dst + at` is a multiple of the vector from the first on.
                unsafe {
                    let tail = $load(src.add(len - VECTOR).cast());
                    let mut at = len - (dst.addr() + len) % VECTOR;
                    $store(dst.add(len - VECTOR).cast(), tail);
                    while at >= BATCH {
                        at -= BATCH;
                        let mut held = [$zero(); $count];
                        for index in (0..$count).rev() {
                            held[index] = $load(src.add(at + index * VECTOR).cast());
                        }
                        for index in (0..$count).rev() {
                            $store_aligned(dst.add(at + index * VECTOR).cast(), held[index]);
                        }
                    }
                    let head = $load(src.cast());
                    while at >= VECTOR {
                        at -= VECTOR;
                        $store_aligned(dst.add(at).cast(), $load(src.add(at).cast()));
                    }
                    $store(dst.cast(), head);
                }
            }

            #[target_feature(enable = $features)]
            pub(crate) unsafe fn far(src: *const u8, dst: *mut u8, len: usize) {
                let head = (dst.addr().next_multiple_of(LINE) - dst.addr()).min(len);
                // SAFETY: the caller vouches for `len` bytes at both ends. The groups lie one after
                // the other between `head` and `len`, `dst + head` is a multiple of the line, and
                // the fence orders the streamed stores before whatever follows.
                unsafe {
                    ptr::copy_nonoverlapping(src, dst, head);
                    let mut at = head;
                    while len - at >= PAGES * PAGE {
                        group(src.add(at), dst.add(at));
                        at += PAGES * PAGE;
                    }
                    _mm_sfence();
                    ptr::copy_nonoverlapping(src.add(at), dst.add(at), len - at);
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn group(src: *const u8, dst: *mut u8) {
                let mut at = 0;
                while at < PAGE {
                    let mut held = [[$zero(); $run]; PAGES];
                    // SAFETY: the caller vouches for `PAGES` pages at both ends, `at` steps through
                    // one of them, and `dst` is a multiple of the line.
                    unsafe {
                        for (page, run) in held.iter_mut().enumerate() {
                            for (index, vector) in run.iter_mut().enumerate() {
                                *vector = $load(src.add(page * PAGE + at + index * VECTOR).cast());
                            }
                        }
                        for (page, run) in held.iter().enumerate() {
                            for (index, vector) in run.iter().enumerate() {
                                $stream(dst.add(page * PAGE + at + index * VECTOR).cast(), *vector);
                            }
                        }
                    }
                    at += $run * VECTOR;
                }
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
width! {
    vectors_64, "avx512f", __m512i, 4, 2,
    _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_store_si512, _mm512_stream_si512
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
width! {
    vectors_32, "avx2", __m256i, 8, 2,
    _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_store_si256, _mm256_stream_si256
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
width! {
    vectors_16, "sse2", __m128i, 8, 4,
    _mm_setzero_si128, _mm_loadu_si128, _mm_storeu_si128,
    _mm_store_si128, _mm_stream_si128
}

/// Mixed moves of the bytes that make whole blocks; each answers how many it moved.
///
/// The language has no atomic access wider than a word, and says nothing of races between accesses
/// of two widths. What runs here is therefore the machine's own code: as the language sees it, a
/// relaxed access of each byte.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod blocks {
    use std::arch::asm;

    pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) -> usize {
        let whole = len & !15;
        // SAFETY: the caller vouches for both ranges, and the loops touch `whole` bytes of each:
        // single vectors from the end until what is left is a multiple of eight, then eights.
        unsafe {
            asm!(
                "test {left}, 112",
                "jz 3f",
                "2:",
                "movdqu {a}, [{src} + {left} - 16]",
                "movdqu [{dst} + {left} - 16], {a}",
                "sub {left}, 16",
                "test {left}, 112",
                "jnz 2b",
                "3:",
                "test {left}, {left}",
                "jz 5f",
                "4:",
                "movdqu {a}, [{src} + {left} - 16]",
                "movdqu {b}, [{src} + {left} - 32]",
                "movdqu {c}, [{src} + {left} - 48]",
                "movdqu {d}, [{src} + {left} - 64]",
                "movdqu {e}, [{src} + {left} - 80]",
                "movdqu {f}, [{src} + {left} - 96]",
                "movdqu {g}, [{src} + {left} - 112]",
                "movdqu {h}, [{src} + {left} - 128]",
                "movdqu [{dst} + {left} - 16], {a}",
                "movdqu [{dst} + {left} - 32], {b}",
                "movdqu [{dst} + {left} - 48], {c}",
                "movdqu [{dst} + {left} - 64], {d}",
                "movdqu [{dst} + {left} - 80], {e}",
                "movdqu [{dst} + {left} - 96], {f}",
                "movdqu [{dst} + {left} - 112], {g}",
                "movdqu [{dst} + {left} - 128], {h}",
                "sub {left}, 128",
                "jnz 4b",
                "5:",
                src = in(reg) src,
                dst = in(reg) dst,
                left = inout(reg) whole => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                e = out(xmm_reg) _,
                f = out(xmm_reg) _,
                g = out(xmm_reg) _,
                h = out(xmm_reg) _,
                options(nostack),
            );
        }
        whole
    }

    pub(crate) unsafe fn fill(dst: *mut u8, byte: u8, len: usize) -> usize {
        // SAFETY: the caller vouches for `len` bytes. The direction flag is clear by convention.
        unsafe {
            asm!(
                "rep stosb",
                inout("rdi") dst => _,
                inout("rcx") len => _,
                in("al") byte,
                options(nostack, preserves_flags),
            );
        }
        len
    }
}

/// Mixed moves of the bytes that make whole blocks, by the machine's own code; each answers how
/// many it moved. As the language sees it, this is a relaxed access of each byte.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod blocks {
    use std::arch::asm;

    pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) -> usize {
        let whole = len & !31;
        if whole > 0 {
            // SAFETY: the caller vouches for both ranges, and the loop touches `whole` bytes of
            // each, 32 a turn.
            unsafe {
                asm!(
                    "2:",
                    "ldp q0, q1, [{src}], #32",
                    "stp q0, q1, [{dst}], #32",
                    "subs {left}, {left}, #32",
                    "b.ne 2b",
                    src = inout(reg) src => _,
                    dst = inout(reg) dst => _,
                    left = inout(reg) whole => _,
                    out("v0") _,
                    out("v1") _,
                    options(nostack),
                );
            }
        }
        whole
    }

    pub(crate) unsafe fn fill(dst: *mut u8, byte: u8, len: usize) -> usize {
        let whole = len & !31;
        if whole > 0 {
            // SAFETY: the caller vouches for the range, and the loop touches `whole` bytes of it,
            // 32 a turn.
            unsafe {
                asm!(
                    "dup v0.16b, {byte:w}",
                    "2:",
                    "stp q0, q0, [{dst}], #32",
                    "subs {left}, {left}, #32",
                    "b.ne 2b",
                    byte = in(reg) u32::from(byte),
                    dst = inout(reg) dst => _,
                    left = inout(reg) whole => _,
                    out("v0") _,
                    options(nostack),
                );
            }
        }
        whole
    }
}

/// Elsewhere no byte is in a block, and every one is moved by itself.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod blocks {
    pub(crate) unsafe fn copy(_src: *const u8, _dst: *mut u8, _len: usize) -> usize {
        0
    }

    pub(crate) unsafe fn fill(_dst: *mut u8, _byte: u8, _len: usize) -> usize {
        0
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bytes::copy::{FAR_MIN, NEAR_MIN, WIDTHS, copy, copy_mixed, copy_near};

    type Routine = unsafe fn(*const u8, *mut u8, usize);

    /// Every routine this machine runs, with the fewest bytes it takes or treats as its own.
    fn routines() -> impl Iterator<Item = (Routine, usize)> {
        let widths = WIDTHS.iter().filter(|width| (width.runs)());
        let chosen =
            [(copy as Routine, 0), (copy_near as Routine, 280), (copy_mixed as Routine, 0)];
        widths.flat_map(|width| [(width.near, NEAR_MIN), (width.far, 280)]).chain(chosen)
    }

    /// Copies between two buffers, and looks at the bytes before and after the copy too.
    fn assert_exact(routine: Routine, from: &mut [u8], dst: &mut [u8], dst_at: usize) {
        dst.fill(GUARD);
        let to = &mut dst[dst_at..][..from.len()];
        // SAFETY: two slices of one length, both of them this test's alone.
        unsafe { routine(from.as_mut_ptr(), to.as_mut_ptr(), from.len()) };
        let (before, rest) = dst.split_at(dst_at);
        let (copied, after) = rest.split_at(from.len());
        assert!(copied == &*from, "{} bytes to {dst_at}", from.len());
        assert!(before == &[GUARD; 80][..dst_at], "before {} bytes to {dst_at}", from.len());
        assert!(after == &[GUARD; 400][..after.len()], "after {} bytes to {dst_at}", from.len());
    }

    const GUARD: u8 = 0xa5;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    #[test]
    fn s6_7_every_routine_is_byte_exact_up_to_300_bytes_at_every_offset() {
        let step = if cfg!(miri) { 35 } else { 1 };
        let mut src = pattern(370);
        let mut dst = vec![GUARD; 400];
        for (routine, least) in routines() {
            for len in (least..=300).step_by(step) {
                for src_at in (0..=70).step_by(step) {
                    for dst_at in (0..=70).step_by(step) {
                        assert_exact(routine, &mut src[src_at..][..len], &mut dst, dst_at);
                    }
                }
            }
        }
    }

    #[test]
    fn s6_7_every_routine_is_byte_exact_about_its_batches_and_bounds() {
        let small = [511, 512, 513, 1_023];
        let large = [2_047, 4_095, 4_097, 16_383, 16_384, 16_385, 65_599];
        let far = [FAR_MIN - 1, FAR_MIN, FAR_MIN + 1, FAR_MIN + 16_384 + 63];
        let all = [&small[..], &large, &far].concat();
        let lens = if cfg!(miri) { &small[..] } else { &all };
        let mut src = pattern(lens.iter().max().map_or(0, |most| most + 64));
        for (routine, _) in routines() {
            for len in lens {
                for (src_at, dst_at) in [(0, 0), (0, 1), (1, 0), (5, 21), (64, 1), (33, 63)] {
                    let mut dst = vec![GUARD; dst_at + len + 70];
                    assert_exact(routine, &mut src[src_at..][..*len], &mut dst, dst_at);
                }
            }
        }
    }
}
