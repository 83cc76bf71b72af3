//! The host's access to bytes in place as elements of a type: whole ones, where they may lie.
//!
//! Any thread may access; what is waited for and claimed is the bytes' own access.

use crate::access::Claim;
use crate::buffer::Buffer;
use crate::bytes::HostBytes;
use crate::entry;
use crate::error::{Misuse, Outcome, Result};
use crate::timeline::Access;
use bytemuck::Pod;

impl Buffer {
    /// Reads like [`Buffer::read_async`], as elements of `T`.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::read_async`]; `Misuse` for a misaligned start or a partial element.
    pub async fn read_as_async<T: Pod, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        let (_claim, bytes) = self.access_as::<T>("read_as", Access::Read).await?;
        Ok(bytes.with(|bytes| f(bytemuck::cast_slice(bytes))))
    }

    /// Writes like [`Buffer::write_async`], as elements of `T`.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::write_async`]; `Misuse` for a misaligned start or a partial element.
    pub async fn write_as_async<T: Pod, R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let (_claim, bytes) = self.access_as::<T>("write_as", Access::Write).await?;
        Ok(bytes.with_mut(|bytes| f(bytemuck::cast_slice_mut(bytes))))
    }

    /// Checks, waits, claims and finds the bytes like [`Buffer::access`], for elements of `T`.
    pub(crate) async fn access_as<T: Pod>(
        &self,
        call: &'static str,
        access: Access,
    ) -> Outcome<(Claim, HostBytes)> {
        entry::check(call)?;
        self.check_elements::<T>(call)?;
        let (claim, bytes) = self.access(call, access).await?;
        check_aligned::<T>(call, bytes)?;
        Ok((claim, bytes))
    }

    fn check_elements<T: Pod>(&self, call: &'static str) -> Outcome<()> {
        let element_bytes = size_of::<T>() as u64;
        let partial = match element_bytes {
            0 => !self.is_empty(),
            size => !self.len().is_multiple_of(size),
        };
        if partial {
            return Misuse::PartialElement { len_bytes: self.len(), element_bytes }.of(call);
        }
        // Known before any wait, where the host always finds the bytes.
        match self.at.bytes {
            Some(bytes) if !self.is_empty() => {
                check_aligned::<T>(call, bytes.range(self.offset(), self.len()))
            }
            _ => Ok(()),
        }
    }
}

fn check_aligned<T: Pod>(call: &'static str, bytes: HostBytes) -> Outcome<()> {
    let align_bytes = align_of::<T>() as u64;
    let offset_bytes = bytes.address() % align_bytes;
    if offset_bytes > 0 && bytes.len_bytes() > 0 {
        return Misuse::Misaligned { offset_bytes, align_bytes }.of(call);
    }
    Ok(())
}
