//! Host bytes where there is no thread and memory of two kinds: a browser's.
//!
//! Bytes lie in wasm memory, by address, or in an array of the page, by its number and an offset
//! in it. An embedder that has arrays says so by [`set_arrays`]; from then on new host memory is
//! one, so that wasm memory, which never shrinks, grows by none of it (S13.5). Without an embedder
//! all of it is wasm memory. As natively, no access leaves the range it was given, and that nobody
//! else touches the bytes is the caller's to know, from claims and stamps. There is one thread, so
//! that a mixed move is a move.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A range of host memory. A `Copy` value that owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBytes {
    /// In wasm memory, below [`WINDOW`]; or an array's number, times that, and the offset in it.
    address: u64,
    len: u64,
}

/// A place in an array of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InArray {
    /// The array's number, above 0.
    pub array: u32,
    /// The offset in it.
    pub offset: u64,
}

/// How an embedder makes arrays and moves their bytes. Ranges were checked.
#[derive(Clone, Copy, Debug)]
pub struct Arrays {
    /// Makes a zeroed array; answers its number, 0 if the page refuses.
    pub make: fn(len_bytes: u64) -> u32,
    /// Lets an array go that was made so.
    pub drop: fn(array: u32),
    /// Copies between two places that are the same or do not overlap.
    pub copy: fn(from: InArray, to: InArray, len_bytes: u64),
    /// Stores one value into every byte.
    pub fill: fn(at: InArray, byte: u8, len_bytes: u64),
    /// Copies into a slice.
    pub copy_out: fn(from: InArray, into: &mut [u8]),
    /// Copies a slice.
    pub copy_in: fn(from: &[u8], to: InArray),
}

/// Says how arrays are made; the first call counts, and comes before the host is used.
pub fn set_arrays(arrays: Arrays) {
    let _ = ARRAYS.set(arrays);
}

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
        let fits = isize::try_from(len_bytes).is_ok();
        assert!(fits, "host bytes: a length is at most isize::MAX");
        match NonNull::new(start) {
            Some(start) => Self { address: start.addr().get() as u64, len: len_bytes },
            None if len_bytes == 0 => Self::empty(),
            None => panic!("host bytes: {len_bytes} bytes start at an address"),
        }
    }

    /// Makes the range of `len_bytes` bytes of an array of the page. The embedder keeps the array
    /// until their owner (a driver's region) is freed.
    ///
    /// # Panics
    ///
    /// If the array's number is 0, or the range ends past the largest array.
    pub fn in_array(at: InArray, len_bytes: u64) -> Self {
        let end = at.offset.checked_add(len_bytes);
        assert!(at.array > 0, "host bytes: arrays are counted from 1");
        assert!(end.is_some_and(|end| end < WINDOW), "host bytes: an array is below {WINDOW}");
        Self { address: u64::from(at.array) * WINDOW + at.offset, len: len_bytes }
    }

    /// Returns where the bytes lie in an array of the page; none for those of wasm memory.
    pub fn array(self) -> Option<InArray> {
        let array = u32::try_from(self.address / WINDOW).ok().filter(|array| *array > 0)?;
        Some(InArray { array, offset: self.address % WINDOW })
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
        Self { address: NOWHERE, len: 0 }
    }

    /// Returns the length.
    pub fn len_bytes(self) -> u64 {
        self.len
    }

    /// Returns a number that stands for the first byte, no two of which are the same, and which is
    /// a multiple of what an array or an allocation of wasm memory is aligned to.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Returns the part of `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If it ends past the end: callers have checked.
    pub fn range(self, offset: u64, len: u64) -> Self {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "host bytes: {len} bytes from {offset} lie within {}",
            self.len
        );
        Self { address: self.address + offset, len }
    }

    /// Copies the bytes from `offset` on into a slice, whoever writes them meanwhile.
    ///
    /// # Panics
    ///
    /// If they end past the end: callers have checked.
    pub fn copy_out(self, offset: u64, into: &mut [u8]) {
        self.range(offset, into.len() as u64).read_slice(into);
    }

    /// Copies a slice over the bytes from `offset` on, whoever touches them meanwhile.
    ///
    /// # Panics
    ///
    /// If they end past the end: callers have checked.
    pub fn copy_in(self, offset: u64, from: &[u8]) {
        self.range(offset, from.len() as u64).write_slice(from);
    }

    /// Copies to bytes of the same length, whoever touches either meanwhile. The two are the same
    /// or do not overlap.
    ///
    /// # Panics
    ///
    /// If the lengths differ: callers have checked.
    pub fn copy_mixed_to(self, dst: HostBytes) {
        assert_eq!(self.len, dst.len, "host bytes: a copy's sides have one length");
        match (self.array(), dst.array()) {
            _ if self.address == dst.address || self.len == 0 => {}
            (Some(from), Some(to)) => (arrays().copy)(from, to, self.len),
            (Some(from), None) => dst.with_mut(|into| (arrays().copy_out)(from, into)),
            (None, Some(to)) => self.with(|from| (arrays().copy_in)(from, to)),
            (None, None) => {
                // SAFETY: `new` promises both ranges, and the lengths are the same.
                unsafe { std::ptr::copy(self.start(), dst.start(), self.len as usize) }
            }
        }
    }

    /// Stores one value into every byte, whoever touches them meanwhile.
    pub fn fill_mixed(self, byte: u8) {
        match self.array() {
            Some(at) => (arrays().fill)(at, byte, self.len),
            None => self.with_mut(|bytes| bytes.fill(byte)),
        }
    }

    /// Returns where the bytes start, and their number.
    ///
    /// # Panics
    ///
    /// If they lie in an array of the page, which has no address.
    ///
    /// # Safety
    ///
    /// Nobody else touches the bytes while they are accessed through the pointer, and their owner
    /// has not been freed.
    pub unsafe fn raw(self) -> (*mut u8, usize) {
        assert!(self.array().is_none(), "host bytes: an array of the page has no address");
        (self.start(), self.len as usize)
    }

    /// Copies to bytes of the same length that do not overlap these. A claim keeps everybody else
    /// away from both.
    pub(crate) fn copy_to(self, dst: HostBytes) {
        assert_eq!(self.len, dst.len, "host bytes: a copy's sides have one length");
        let apart = self.address.abs_diff(dst.address);
        assert!(apart >= self.len, "host bytes: a copy's sides do not overlap");
        self.copy_mixed_to(dst);
    }

    /// Copies as [`HostBytes::copy_to`]; where the result lies is the page's affair.
    pub(crate) fn copy_near_to(self, dst: HostBytes) {
        self.copy_to(dst);
    }

    /// Stores one value into every byte. A claim keeps everybody else away.
    pub(crate) fn fill(self, byte: u8) {
        self.fill_mixed(byte);
    }

    /// Copies the bytes into a slice of the same length. A claim keeps writers away.
    fn read_slice(self, into: &mut [u8]) {
        assert_eq!(self.len, into.len() as u64, "host bytes: a copy's sides have one length");
        match self.array() {
            Some(from) => (arrays().copy_out)(from, into),
            None => self.with(|bytes| into.copy_from_slice(bytes)),
        }
    }

    /// Copies a slice of the same length over the bytes. A claim keeps everybody else away.
    fn write_slice(self, from: &[u8]) {
        assert_eq!(self.len, from.len() as u64, "host bytes: a copy's sides have one length");
        match self.array() {
            Some(to) => (arrays().copy_in)(from, to),
            None => self.with_mut(|bytes| bytes.copy_from_slice(from)),
        }
    }

    /// Gives the bytes; those of an array as a copy. A claim keeps writers away.
    pub(crate) fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        if self.array().is_some() {
            return f(&self.to_vec());
        }
        // SAFETY: `new` promises initialised bytes, and the claim excludes writers while `f` runs.
        f(unsafe { std::slice::from_raw_parts(self.start(), self.len as usize) })
    }

    /// Gives the bytes, mutably; those of an array as a copy that is written back. A claim keeps
    /// everybody else away.
    pub(crate) fn with_mut<R>(self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        if self.array().is_some() {
            let mut bytes = self.to_vec();
            let answer = f(&mut bytes);
            self.write_slice(&bytes);
            return answer;
        }
        // SAFETY: as in `with`; the claim excludes readers too.
        f(unsafe { std::slice::from_raw_parts_mut(self.start(), self.len as usize) })
    }

    fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read_slice(&mut bytes);
        bytes
    }

    /// Returns where bytes of wasm memory start.
    fn start(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address as usize)
    }
}

/// Host memory of its own: zeroed, aligned, freed on drop.
#[derive(Debug)]
pub struct HostMemory {
    bytes: HostBytes,
    /// What the allocator of wasm memory gave; none for an array, and where nothing was asked.
    given: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: it owns the memory alone, and there is one thread.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference only answers where the bytes are.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates `len_bytes` zeroed bytes that start at a multiple of `align_bytes`: an array of
    /// the page, where it has them. None if there is no room, a length has no layout, or the
    /// alignment is no power of two.
    pub fn zeroed(len_bytes: u64, align_bytes: u64) -> Option<Self> {
        let align = usize::try_from(align_bytes).ok().filter(|align| align.is_power_of_two())?;
        if len_bytes == 0 {
            return Some(Self { bytes: HostBytes::empty(), given: None });
        }
        if let Some(arrays) = ARRAYS.get() {
            let fits = len_bytes < WINDOW && align_bytes <= WINDOW;
            let array = fits.then(|| (arrays.make)(len_bytes)).filter(|array| *array > 0)?;
            let bytes = HostBytes::in_array(InArray { array, offset: 0 }, len_bytes);
            return Some(Self { bytes, given: None });
        }
        let len = usize::try_from(len_bytes).ok()?;
        let layout = Layout::from_size_align(len, align).ok()?;
        // SAFETY: the layout's size is not 0.
        let given = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let address = given.as_ptr().expose_provenance() as u64;
        Some(Self { bytes: HostBytes { address, len: len_bytes }, given: Some((given, layout)) })
    }

    /// Returns where the bytes are. They stay until this value is dropped.
    pub fn bytes(&self) -> HostBytes {
        self.bytes
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some((given, layout)) = self.given {
            // SAFETY: the allocator gave it for this layout, and nobody else frees it.
            unsafe { std::alloc::dealloc(given.as_ptr(), layout) }
        } else if let Some(at) = self.bytes.array() {
            (arrays().drop)(at.array);
        }
    }
}

/// Returns the bytes of a page, as far as alignment needs to know.
pub fn page_bytes() -> u64 {
    4_096
}

fn arrays() -> &'static Arrays {
    ARRAYS.get().expect("host bytes: an array comes from an embedder that has them")
}

/// Above every array's length and every address of wasm memory, and a multiple of any alignment.
const WINDOW: u64 = 1 << 40;
/// An address of no byte, a multiple of any alignment a type of elements has.
const NOWHERE: u64 = 4_096;

static ARRAYS: OnceLock<Arrays> = OnceLock::new();
