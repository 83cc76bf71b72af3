//! The blocking form of every waiting call, natively (S0.6).
//!
//! Each polls the async form and sleeps where that waits, under the same rules; inside an async
//! runtime it blocks the thread. Accesses in place run their closure after the wait, so that the
//! closure may wait for itself.

use crate::blit::fill_at;
use crate::buffer::{Buffer, Use};
use crate::copy::{copy_now, copy_on};
use crate::create::{Begun, BufferBuilder};
use crate::device::{CacheOptions, Device};
use crate::driver::{Access, Code, Kind};
use crate::entry;
use crate::error::Result;
use crate::export::Export;
use crate::hold::Hold;
use crate::kernel::Kernel;
use crate::open::Opener;
use crate::prepare::Prepared;
use crate::reclaim;
use crate::submit::Launch;
use crate::timeline::Point;
use crate::wait;
use bytemuck::Pod;

/// Copies like [`copy_async`](crate::copy_async), and blocks meanwhile.
///
/// # Errors
///
/// Those of [`copy_async`](crate::copy_async).
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("copy example")?;
/// let src = rig::wrap(vec![1.0_f32, 2.0, 3.0, 4.0]);
/// let dst = device.create_buffer(8)?;
/// rig::copy(&src.view(4, 8)?, &dst)?;
/// assert_eq!(dst.read_as::<f32, _>(|values| values.to_vec())?, [2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub fn copy(src: &Buffer, dst: &Buffer) -> Result<()> {
    if copy_now(src, dst)? { Ok(()) } else { Ok(wait::block_on(copy_on(src, dst))?) }
}

impl Device {
    /// Opens a device like [`Device::open_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::open_async`].
    pub fn open(name: &str, opener: Opener) -> Result<Self> {
        wait::block_on(Self::open_async(name, opener))
    }

    /// Opens a device like [`Device::open_with_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::open_with_async`].
    pub fn open_with(name: &str, opener: Opener, options: CacheOptions) -> Result<Self> {
        wait::block_on(Self::open_with_async(name, opener, options))
    }

    /// Waits like [`Device::wait_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::wait_async`].
    pub fn wait(&self, value: u64) -> Result<()> {
        if self.wait_now(value)? { Ok(()) } else { Ok(wait::block_on(self.wait_on(value))?) }
    }

    /// Closes the device like [`Device::close_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::close_async`].
    pub fn close(&self) -> Result<()> {
        wait::block_on(self.close_async())
    }

    /// Makes a buffer like [`Device::create_buffer_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`].
    #[track_caller]
    pub fn create_buffer(&self, len: u64) -> Result<Buffer> {
        self.buffer(len).create()
    }

    /// Makes a buffer of another kind of memory; else as [`Device::create_buffer`].
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`].
    #[track_caller]
    pub fn create_buffer_in(&self, kind: Kind, len: u64) -> Result<Buffer> {
        self.buffer(len).kind(kind).create()
    }

    /// Loads code like [`Device::kernel_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Device::kernel_async`].
    pub fn kernel(&self, code: Code) -> Result<Kernel> {
        wait::block_on(self.kernel_async(code))
    }

    /// Notes a use like [`Device::record_use_async`], and blocks where that waits.
    ///
    /// # Errors
    ///
    /// Those of [`Device::record_use_async`].
    pub fn record_use(&self, reads: &[&Buffer], writes: &[&Buffer]) -> Result<Point> {
        wait::block_on(self.record_use_async(reads, writes))
    }
}

impl Point {
    /// Waits like [`Point::wait_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Point::wait_async`].
    pub fn wait(self) -> Result<()> {
        self.device_to_wait()?.map_or(Ok(()), |device| device.wait(self.value()))
    }
}

impl BufferBuilder<'_> {
    /// Makes the buffer, and blocks while reclaim waits; see [`Device::create_buffer_async`].
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`].
    pub fn create(self) -> Result<Buffer> {
        let is_plain = self.kind == Kind::Device
            && self.tag.is_none()
            && entry::check("create_buffer").is_ok();
        if is_plain && let Some(made) = reclaim::quick(&self.device.owner, self.len) {
            return Ok(Buffer::whole(made, self.len));
        }
        let device = self.device;
        match self.begin("create_buffer")? {
            Begun::Made(buffer) => Ok(buffer),
            Begun::Left(rest) => Ok(wait::block_on(rest.finish(device))?),
        }
    }
}

impl Buffer {
    /// Waits like [`Buffer::wait_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::wait_async`].
    pub fn wait(&self, what: Use) -> Result<()> {
        if self.wait_now(what)? { Ok(()) } else { wait::block_on(self.wait_async(what)) }
    }

    /// Frees like [`Buffer::free_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::free_async`].
    pub fn free(&self) -> Result<()> {
        wait::block_on(self.free_async())
    }

    /// Reads like [`Buffer::read_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::read_async`].
    pub fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let (_claim, bytes) = wait::block_on(self.access("read", Access::Read))?;
        Ok(bytes.with(f))
    }

    /// Writes like [`Buffer::write_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::write_async`].
    pub fn write<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let (_claim, bytes) = wait::block_on(self.access("write", Access::Write))?;
        Ok(bytes.with_mut(f))
    }

    /// Reads like [`Buffer::read_as_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::read_as_async`].
    pub fn read_as<T: Pod, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        let (_claim, bytes) = wait::block_on(self.access_as::<T>("read_as", Access::Read))?;
        Ok(bytes.with(|bytes| f(bytemuck::cast_slice(bytes))))
    }

    /// Writes like [`Buffer::write_as_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::write_as_async`].
    pub fn write_as<T: Pod, R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let (_claim, bytes) = wait::block_on(self.access_as::<T>("write_as", Access::Write))?;
        Ok(bytes.with_mut(|bytes| f(bytemuck::cast_slice_mut(bytes))))
    }

    /// Exports like [`Buffer::export_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::export_async`].
    pub fn export(&self) -> Result<Export> {
        Ok(wait::block_on(self.export_at())?)
    }

    /// Copies out like [`Buffer::blit_to_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_to_async`].
    pub fn blit_to(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        wait::block_on(self.blit_to_async(offset, out))
    }

    /// Copies in like [`Buffer::blit_from_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_from_async`].
    pub fn blit_from(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        wait::block_on(self.blit_from_async(offset, bytes))
    }

    /// Fills like [`Buffer::fill_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::fill_async`].
    pub fn fill(&self, byte: u8) -> Result<()> {
        Ok(wait::block_on(fill_at(self, byte))?)
    }
}

impl Prepared {
    /// Submits like [`Prepared::submit_async`], and blocks where that waits.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::submit_async`].
    pub fn submit(&self, run: &[&Buffer], waits: &[Point]) -> Result<Point> {
        self.submit_holding(run, waits, &[])
    }

    /// Submits like [`Prepared::submit_holding_async`], and blocks where that waits.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::submit_async`].
    pub fn submit_holding(
        &self,
        run: &[&Buffer],
        waits: &[Point],
        holds: &[&Hold],
    ) -> Result<Point> {
        if run.is_empty()
            && waits.is_empty()
            && let Some(point) = self.submit_now(holds)?
        {
            return Ok(point);
        }
        wait::block_on(self.submit_holding_async(run, waits, holds))
    }
}

impl Launch {
    /// Prepares and submits the launch, and blocks where that waits; see
    /// [`Prepared::submit_async`].
    ///
    /// # Errors
    ///
    /// Those of [`crate::Builder::build`] and [`Prepared::submit_async`].
    pub fn submit(self) -> Result<Point> {
        wait::block_on(self.submit_async())
    }
}
