//! Host bytes: where they are, how they are moved, and memory for them.
//!
//! The only core module that touches memory by address. It keeps one invariant: no access leaves
//! the range it was given. That nobody else touches the bytes is the caller's to know, from claims
//! and stamps; where nobody can know, the *mixed* moves are used, which give mixed bytes beside
//! other accesses and never undefined behaviour (S6.5). A broken precondition inside this library
//! panics with its name. Any thread may call anything here; there are no locks.

mod copy;
#[cfg(not(windows))]
#[path = "bytes/heap.rs"]
mod given;
#[cfg(windows)]
#[path = "bytes/windows.rs"]
mod given;

use crate::bytes::given::Given;
use std::ptr;
use std::ptr::NonNull;

/// A range of host memory. A `Copy` value that owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBytes {
    /// Where it starts; dangling where the length is 0.
    start: NonNull<u8>,
    /// At most `isize::MAX`.
    len: usize,
}

// SAFETY: a pointer and a length; `HostBytes::new` makes its caller order every access through
// them, on whatever thread.
unsafe impl Send for HostBytes {}
// SAFETY: as above; a shared reference gives no more than a copy does.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    /// Makes the range of `len_bytes` bytes from `start`. Null is allowed where that is 0.
    ///
    /// # Panics
    ///
    /// If the length is above `isize::MAX`, or `start` is null and the length is not 0.
    ///
    /// # Safety
    ///
    /// Until their owner (a driver's region) is freed, the bytes are initialised and valid for
    /// reads and writes, or for reads only if they are only ever read. Every access through rig is
    /// ordered by claims and stamps, and every other access by the program.
    pub unsafe fn new(start: *mut u8, len_bytes: u64) -> Self {
        let len = usize::try_from(len_bytes).ok().filter(|len| isize::try_from(*len).is_ok());
        let len = len.expect("host bytes: a length is at most isize::MAX");
        match NonNull::new(start) {
            Some(start) => Self { start, len },
            None if len == 0 => Self::empty(),
            None => panic!("host bytes: {len} bytes start at an address"),
        }
    }

    /// Returns the bytes of a slice, for a call: whoever asks borrows it as long as it uses them.
    pub(crate) fn lent(bytes: &[u8]) -> Self {
        // SAFETY: nobody writes what was lent to be read.
        unsafe { Self::new(bytes.as_ptr().cast_mut(), bytes.len() as u64) }
    }

    /// Returns the bytes of a slice, like [`HostBytes::lent`], to be written.
    pub(crate) fn lent_mut(bytes: &mut [u8]) -> Self {
        // SAFETY: the slice is the caller's alone while it is borrowed.
        unsafe { Self::new(bytes.as_mut_ptr(), bytes.len() as u64) }
    }

    /// Returns a range of 0 bytes.
    pub fn empty() -> Self {
        Self { start: dangling(), len: 0 }
    }

    /// Returns the length.
    pub fn len_bytes(self) -> u64 {
        self.len as u64
    }

    /// Returns the address of the first byte; of no byte, where there are 0.
    pub fn address(self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Returns the part of `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If it ends past the end: callers have checked.
    pub fn range(self, offset: u64, len: u64) -> Self {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len_bytes()),
            "host bytes: {len} bytes from {offset} lie within {}",
            self.len
        );
        // SAFETY: `offset` is at most `len`, which is the range that `new` was promised.
        Self { start: unsafe { self.start.add(offset as usize) }, len: len as usize }
    }

    /// Copies the bytes from `offset` on into a slice, whoever writes them meanwhile.
    ///
    /// # Panics
    ///
    /// If they end past the end: callers have checked.
    pub fn copy_out(self, offset: u64, into: &mut [u8]) {
        let part = self.range(offset, into.len() as u64);
        // SAFETY: `range` checked the bounds and `new` promises the bytes. The slice is the
        // caller's alone, so it is no part of them.
        unsafe { copy::copy_mixed(part.start.as_ptr(), into.as_mut_ptr(), part.len) }
    }

    /// Copies a slice over the bytes from `offset` on, whoever touches them meanwhile.
    ///
    /// # Panics
    ///
    /// If they end past the end: callers have checked.
    pub fn copy_in(self, offset: u64, from: &[u8]) {
        let part = self.range(offset, from.len() as u64);
        // SAFETY: as in `copy_out`; a slice that is being read is no part of what is written.
        unsafe { copy::copy_slice_mixed(from, part.start.as_ptr()) }
    }

    /// Copies to bytes of the same length, whoever touches either meanwhile. The two are the same
    /// or do not overlap.
    ///
    /// # Panics
    ///
    /// If the lengths differ: callers have checked.
    pub fn copy_mixed_to(self, dst: HostBytes) {
        assert_eq!(self.len, dst.len, "host bytes: a copy's sides have one length");
        // SAFETY: `new` promises both ranges. What touches them meanwhile does so by mixed moves
        // or is the program's to order.
        unsafe { copy::copy_mixed(self.start.as_ptr(), dst.start.as_ptr(), self.len) }
    }

    /// Stores one value into every byte, whoever touches them meanwhile.
    pub fn fill_mixed(self, byte: u8) {
        // SAFETY: as in `copy_mixed_to`.
        unsafe { copy::fill_mixed(self.start.as_ptr(), byte, self.len) }
    }

    /// Returns where the bytes start, and their number.
    ///
    /// # Safety
    ///
    /// Nobody else touches the bytes while they are accessed through the pointer, and their owner
    /// has not been freed.
    pub unsafe fn raw(self) -> (*mut u8, usize) {
        (self.base(), self.len)
    }

    /// Copies to bytes of the same length that do not overlap these, as fast as the machine can. A
    /// claim keeps everybody else away from both.
    pub(crate) fn copy_to(self, dst: HostBytes) {
        self.assert_apart(dst);
        // SAFETY: `new` promises both ranges, which do not overlap, and the claims exclude all
        // other accesses.
        unsafe { copy::copy(self.start.as_ptr(), dst.start.as_ptr(), self.len) }
    }

    /// Copies as [`HostBytes::copy_to`], and leaves the result in the processor's caches: better
    /// where a processor reads it at once, as it does staging; worse where nobody does.
    pub(crate) fn copy_near_to(self, dst: HostBytes) {
        self.assert_apart(dst);
        // SAFETY: as in `copy_to`.
        unsafe { copy::copy_near(self.start.as_ptr(), dst.start.as_ptr(), self.len) }
    }

    /// Stores one value into every byte. A claim keeps everybody else away.
    pub(crate) fn fill(self, byte: u8) {
        // SAFETY: `new` promises the range, and the claim excludes all other accesses.
        unsafe { ptr::write_bytes(self.start.as_ptr(), byte, self.len) }
    }

    /// Gives the bytes in place. A claim keeps writers away.
    pub(crate) fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: `new` promises initialised bytes, and the claim excludes writers while `f` runs.
        f(unsafe { std::slice::from_raw_parts(self.base(), self.len) })
    }

    /// Gives the bytes in place, mutably. A claim keeps everybody else away.
    pub(crate) fn with_mut<R>(self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: as in `with`; the claim excludes readers too.
        f(unsafe { std::slice::from_raw_parts_mut(self.base(), self.len) })
    }

    /// Where a slice of the bytes starts: an empty one where any type may.
    fn base(self) -> *mut u8 {
        if self.len == 0 { dangling().as_ptr() } else { self.start.as_ptr() }
    }

    fn assert_apart(self, dst: HostBytes) {
        assert_eq!(self.len, dst.len, "host bytes: a copy's sides have one length");
        let apart = self.start.addr().get().abs_diff(dst.start.addr().get());
        assert!(apart >= self.len, "host bytes: a copy's sides do not overlap");
    }
}

/// Host memory of its own: zeroed, aligned, freed on drop.
#[derive(Debug)]
pub struct HostMemory {
    bytes: HostBytes,
    /// What the system gave; none where nothing was asked.
    _given: Option<Given>,
}

// SAFETY: it owns the memory alone, and any thread may free it.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference only answers where the bytes are.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates `len_bytes` zeroed bytes that start at a multiple of `align_bytes`; none if the
    /// system refuses, a length has no layout, or the alignment is no power of two. Pages nobody
    /// touched cost nothing where the memory is large.
    pub fn zeroed(len_bytes: u64, align_bytes: u64) -> Option<Self> {
        let len = usize::try_from(len_bytes).ok()?;
        let align = usize::try_from(align_bytes).ok().filter(|align| align.is_power_of_two())?;
        if len == 0 {
            return Some(Self { bytes: HostBytes::empty(), _given: None });
        }
        let (given, start) = Given::zeroed(len, align)?;
        Some(Self { bytes: HostBytes { start, len }, _given: Some(given) })
    }

    /// Returns where the bytes are. They stay until this value is dropped.
    pub fn bytes(&self) -> HostBytes {
        self.bytes
    }
}

/// Returns the bytes of a page, as far as alignment needs to know: 16,384 on Apple's processors,
/// 4,096 elsewhere, also where the system's pages are larger.
pub fn page_bytes() -> u64 {
    PAGE_BYTES
}

/// An address of no byte, a multiple of any alignment a type of elements has.
fn dangling() -> NonNull<u8> {
    #[repr(align(4096))]
    struct Page;
    NonNull::<Page>::dangling().cast()
}

const PAGE_BYTES: u64 =
    if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) { 16_384 } else { 4_096 };

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bytes::{HostBytes, HostMemory, page_bytes};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Bytes that no shift of themselves equals.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn of(bytes: &mut [u8]) -> HostBytes {
        // SAFETY: the tests use each range only while the slice lives and is not touched.
        unsafe { HostBytes::new(bytes.as_mut_ptr(), bytes.len() as u64) }
    }

    fn panics<R>(f: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }

    /// Runs a move for many lengths and offsets of both sides, and looks at the whole destination
    /// and at what lies around it.
    fn assert_exact(mut moves: impl FnMut(HostBytes, HostBytes)) {
        let step = if cfg!(miri) { 99 } else { 1 };
        let mut src = pattern(512);
        let mut dst = vec![0_u8; 512];
        let offsets = [0, 1, 7, 8, 15, 16, 31, 33, 63, 64, 70];
        for len in (0..=300).step_by(step) {
            for (src_at, dst_at) in offsets.iter().flat_map(|s| offsets.map(|d| (*s, d))) {
                dst.fill(0xa5);
                let mut wanted = dst.clone();
                wanted[dst_at..][..len].copy_from_slice(&src[src_at..][..len]);
                let (src_part, dst_part) = (of(&mut src), of(&mut dst));
                let len = len as u64;
                moves(src_part.range(src_at as u64, len), dst_part.range(dst_at as u64, len));
                assert_eq!(dst, wanted, "{len} bytes from {src_at} to {dst_at}");
            }
        }
    }

    #[test]
    fn s0_4_a_range_that_ends_past_the_end_or_overflows_panics() {
        let mut bytes = pattern(8);
        let whole = of(&mut bytes);
        assert_eq!(whole.range(8, 0).len_bytes(), 0);
        assert_eq!(whole.range(3, 5).address(), whole.address() + 3);
        for (offset, len) in [(8, 1), (9, 0), (0, 9), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(panics(|| whole.range(offset, len)), "{offset} {len}");
        }
    }

    #[test]
    fn s0_4_a_slice_that_does_not_fit_panics_before_a_byte_moves() {
        let mut bytes = pattern(8);
        let mut out = [0xa5; 9];
        let whole = of(&mut bytes);
        assert!(panics(|| whole.copy_out(1, &mut out[..8])));
        assert!(panics(|| whole.copy_in(0, &out)));
        assert!(panics(|| whole.copy_to(HostBytes::lent_mut(&mut out))));
        assert!(panics(|| HostBytes::lent(&out[..7]).copy_to(whole)));
        assert!(panics(|| whole.copy_to(whole)));
        assert!(panics(|| whole.range(0, 4).copy_to(whole.range(3, 4))));
        assert!(panics(|| whole.copy_mixed_to(whole.range(0, 7))));
        assert_eq!(out, [0xa5; 9]);
        assert_eq!(bytes, pattern(8));
    }

    #[test]
    fn s0_4_a_length_above_the_address_space_is_refused() {
        for len in [u64::MAX, u64::MAX - 4_095, isize::MAX as u64, isize::MAX as u64 + 1] {
            assert!(HostMemory::zeroed(len, 64).is_none(), "{len}");
            assert!(HostMemory::zeroed(len, 1).is_none(), "{len}");
        }
        assert!(HostMemory::zeroed(1, u64::MAX).is_none());
        assert!(HostMemory::zeroed(1, 1 << 63).is_none());
        assert!(HostMemory::zeroed(1, 0).is_none());
        assert!(HostMemory::zeroed(1, 3).is_none());
        let start = std::ptr::dangling_mut();
        // SAFETY: none of these becomes a range.
        assert!(panics(|| unsafe { HostBytes::new(start, isize::MAX as u64 + 1) }));
        // SAFETY: as above.
        assert!(panics(|| unsafe { HostBytes::new(std::ptr::null_mut(), 1) }));
    }

    #[test]
    fn s4_2_host_memory_is_zeroed_aligned_and_writable_to_the_last_byte() {
        for align in [1, 8, 16, 64, page_bytes(), 2 * page_bytes(), 1 << 21] {
            for len in [1, 63, 64, 65, 4_097] {
                let memory = HostMemory::zeroed(len, align).expect("so little memory is there");
                assert_eq!(memory.bytes().len_bytes(), len);
                assert_eq!(memory.bytes().address() % align, 0);
                memory.bytes().with(|bytes| assert!(bytes.iter().all(|byte| *byte == 0)));
                memory.bytes().fill(0xff);
            }
        }
    }

    #[test]
    fn s4_3_a_range_of_0_bytes_is_an_empty_slice_aligned_for_any_element() {
        let memory = HostMemory::zeroed(0, 4_096).expect("nothing is asked of the system");
        let mut bytes = pattern(8);
        let whole = of(&mut bytes);
        // SAFETY: no byte is accessed.
        let null = unsafe { HostBytes::new(std::ptr::null_mut(), 0) };
        for empty in [HostBytes::empty(), memory.bytes(), null, whole.range(3, 0)] {
            empty.with(|bytes| assert!(bytes.is_empty() && bytes.as_ptr().addr() % 64 == 0));
            empty.with_mut(|bytes| assert!(bytes.is_empty() && bytes.as_ptr().addr() % 64 == 0));
            empty.copy_to(empty);
            empty.copy_mixed_to(HostBytes::empty());
            empty.fill(1);
            empty.fill_mixed(1);
        }
        assert_eq!(bytes, pattern(8));
    }

    #[test]
    fn s6_5_mixed_moves_are_byte_exact_at_every_offset_and_length() {
        assert_exact(|src, dst| src.copy_mixed_to(dst));
        assert_exact(|src, dst| dst.with_mut(|into| src.copy_out(0, into)));
        assert_exact(|src, dst| src.with(|from| dst.copy_in(0, from)));
        assert_exact(|src, dst| {
            dst.fill_mixed(7);
            dst.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
            src.copy_mixed_to(dst);
        });
    }

    #[test]
    fn s6_5_a_mixed_copy_onto_itself_changes_nothing() {
        let mut bytes = pattern(1_000);
        let whole = of(&mut bytes);
        whole.copy_mixed_to(whole);
        assert_eq!(bytes, pattern(1_000));
    }

    #[test]
    fn s6_5_mixed_moves_beside_each_other_give_the_bytes_of_one_of_them() {
        let rounds = if cfg!(miri) { 2 } else { 2_000 };
        let (mut ones, mut twos, mut shared) = (vec![1; 333], vec![2; 333], vec![1; 335]);
        let (ones, twos, shared) = (of(&mut ones), of(&mut twos), of(&mut shared).range(1, 333));
        std::thread::scope(|threads| {
            threads.spawn(|| (0..rounds).for_each(|_| ones.copy_mixed_to(shared)));
            threads.spawn(|| (0..rounds).for_each(|_| shared.range(5, 300).fill_mixed(2)));
            threads.spawn(|| (0..rounds).for_each(|_| twos.copy_mixed_to(shared)));
            let mut seen = [0; 333];
            for _ in 0..rounds {
                shared.copy_out(0, &mut seen);
                assert!(seen.iter().all(|byte| matches!(byte, 1 | 2)));
            }
        });
    }

    #[test]
    fn s6_7_fast_moves_are_byte_exact_at_every_offset_and_length() {
        assert_exact(|src, dst| src.copy_to(dst));
        assert_exact(|src, dst| src.copy_near_to(dst));
        assert_exact(|src, dst| dst.with_mut(|into| src.copy_to(HostBytes::lent_mut(into))));
        assert_exact(|src, dst| src.with(|from| HostBytes::lent(from).copy_to(dst)));
        assert_exact(|src, dst| src.with(|from| HostBytes::lent(from).copy_near_to(dst)));
        assert_exact(|src, dst| {
            dst.fill(7);
            dst.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
            src.copy_to(dst);
        });
    }
}
