//! Host buffers over memory that the program brought, without a copy (S4.4).
//!
//! Wrapped memory is charged to nothing, never cached, and outside the claims. What keeps it is
//! dropped in a drain, once the memory is returned. Any thread may wrap.

use crate::buffer::{Buffer, Foreign, wrap_foreign};
use crate::bytes::HostBytes;
use crate::sync::{BoxAny, MaybeSend};
use bytemuck::Pod;
use std::any::Any;
use std::sync::Arc;

/// Memory of plain data that can be wrapped and written: a `Vec<T>`, a `Box<[T]>`, a
/// `&'static mut [T]`.
pub trait Wrap: sealed::Sealed {}

/// Memory of plain data that can be wrapped read-only: an `Arc<[T]>`, a `&'static [T]`.
pub trait WrapShared: sealed::SealedShared {}

/// Makes a host buffer over memory that nobody else has, without a copy. It is charged to no
/// budget. What owned the memory is dropped in a drain, once nothing needs the buffer any more.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let buffer = rig::wrap(vec![1.0_f32, 2.0, 3.0]);
/// buffer.write_as::<f32, _>(|values| values[1] = 5.0)?;
/// assert_eq!(buffer.read_as::<f32, _>(|values| values.to_vec())?, [1.0, 5.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub fn wrap(memory: impl Wrap) -> Buffer {
    sealed::Sealed::wrap(memory)
}

/// Makes a read-only host buffer over memory that others may read too, without a copy.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use std::sync::Arc;
///
/// let table: Arc<[u32]> = Arc::from([1, 2, 3]);
/// let buffer = rig::wrap_shared(Arc::clone(&table));
/// assert!(buffer.is_read_only() && buffer.write(|_| ()).is_err());
/// let device = rig::memory::open("wrap_shared example")?;
/// let copy = device.create_buffer(12)?;
/// rig::copy(&buffer, &copy)?;
/// assert_eq!(copy.read_as::<u32, _>(|numbers| numbers[2])?, table[2]);
/// # Ok(())
/// # }
/// ```
pub fn wrap_shared(memory: impl WrapShared) -> Buffer {
    sealed::SealedShared::wrap(memory)
}

/// Makes a host buffer over any memory.
///
/// # Safety
///
/// `start` is valid for reads and writes of `len_bytes` initialised bytes until `keeper` is
/// dropped, and meanwhile nothing else accesses them, but as work and accesses of rig order it.
pub unsafe fn wrap_raw(start: *mut u8, len_bytes: u64, keeper: impl Any + MaybeSend) -> Buffer {
    // SAFETY: the caller vouches for what `HostBytes::new` needs until the keeper is dropped, and
    // the buffer drops it only after its memory's return.
    let bytes = unsafe { HostBytes::new(start, len_bytes) };
    wrap_foreign(Foreign { bytes, read_only: false, keeper: Some(Box::new(keeper)) })
}

mod sealed {
    use crate::buffer::Buffer;

    pub trait Sealed {
        fn wrap(self) -> Buffer;
    }

    pub trait SealedShared {
        fn wrap(self) -> Buffer;
    }
}

fn owned<T: Pod + Send>(memory: Box<[T]>) -> Buffer {
    let len = size_of_val(&*memory) as u64;
    let kept = Owned(Box::into_raw(memory));
    // SAFETY: the keeper has the memory, and nobody else can reach it. Plain data is initialised.
    unsafe { wrap_raw(kept.0.cast(), len, kept) }
}

/// Memory of a box. A box itself, when it is moved, would claim its bytes for itself alone.
struct Owned<T>(*mut [T]);

// SAFETY: it owns the memory alone, as the box did.
unsafe impl<T: Send> Send for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and nobody else frees it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Pod + Send> Wrap for Vec<T> {}
impl<T: Pod + Send> sealed::Sealed for Vec<T> {
    fn wrap(self) -> Buffer {
        owned(self.into_boxed_slice())
    }
}

impl<T: Pod + Send> Wrap for Box<[T]> {}
impl<T: Pod + Send> sealed::Sealed for Box<[T]> {
    fn wrap(self) -> Buffer {
        owned(self)
    }
}

impl<T: Pod + Send> Wrap for &'static mut [T] {}
impl<T: Pod + Send> sealed::Sealed for &'static mut [T] {
    fn wrap(self) -> Buffer {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self);
        let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u64);
        // SAFETY: the slice lives for ever, and its only reference was given up here.
        unsafe { wrap_raw(start, len, ()) }
    }
}

fn shared(bytes: &[u8], keeper: BoxAny) -> Buffer {
    // SAFETY: the keeper keeps the bytes; they are initialised plain data that nobody writes, and
    // a read-only buffer's bytes are only read.
    let bytes = unsafe { HostBytes::new(bytes.as_ptr().cast_mut(), bytes.len() as u64) };
    wrap_foreign(Foreign { bytes, read_only: true, keeper: Some(keeper) })
}

impl<T: Pod + Send + Sync> WrapShared for Arc<[T]> {}
impl<T: Pod + Send + Sync> sealed::SealedShared for Arc<[T]> {
    fn wrap(self) -> Buffer {
        shared(bytemuck::cast_slice(&Arc::clone(&self)), Box::new(self))
    }
}

impl<T: Pod + Sync> WrapShared for &'static [T] {}
impl<T: Pod + Sync> sealed::SealedShared for &'static [T] {
    fn wrap(self) -> Buffer {
        shared(bytemuck::cast_slice(self), Box::new(()))
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::device::host;
    use crate::wrap::{wrap, wrap_raw};
    use std::sync::Arc;

    #[test]
    fn s4_4_a_slice_for_ever_is_reached_in_place_like_any_other() {
        let memory: *mut [u32; 4] = Box::into_raw(Box::new([1; 4]));
        // SAFETY: nothing else uses the memory until the buffer is gone.
        let buffer = wrap(&mut unsafe { &mut *memory }[..]);
        buffer.write_as::<u32, _>(|words| words[2] = 7).unwrap();
        assert_eq!(buffer.read_as::<u32, _>(<[u32]>::to_vec).unwrap(), [1, 1, 7, 1]);
        drop(buffer);
        host().create_buffer(8).unwrap();
        // SAFETY: it came from a box, and no buffer is left.
        assert_eq!(unsafe { Box::from_raw(memory) }[2], 7);
    }

    #[test]
    fn s4_4_raw_memory_is_reached_in_place_until_its_keeper_is_dropped() {
        let mut memory: Box<[u8]> = Box::new([5; 24]);
        let (start, len) = (memory.as_mut_ptr(), memory.len() as u64);
        let keeper = Arc::new(());
        // SAFETY: the box outlives the keeper's clone, and is not touched meanwhile.
        let raw = unsafe { wrap_raw(start, len, Arc::clone(&keeper)) };
        raw.view(3, 5).unwrap().write(|bytes| bytes.fill(9)).unwrap();
        let seen = raw.read(|bytes| (bytes[2], bytes[7], bytes[8]));
        assert_eq!(seen.unwrap(), (5, 9, 5));
        drop(raw);
        host().create_buffer(8).unwrap();
        assert_eq!(Arc::strong_count(&keeper), 1);
        assert_eq!(memory[7], 9);
    }
}
