//! Making buffers: by a builder, or in one call.
//!
//! Any thread may make buffers. The call that makes one is its call site in reports, where
//! `RIG_TRACE_POOL` asks for them.

use crate::allocation::owner::Owner;
use crate::allocation::{Site, Tag};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::Kind;
use crate::entry;
use crate::error::{Failed, Outcome, Result};
use crate::reclaim::{self, First, Left, Want};
use crate::settings;
use std::panic::Location;
use std::sync::Arc;

/// A buffer to be made: its length, kind and label.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("builder example")?;
/// let weights = device.buffer(1 << 20).label("weights").create()?;
/// assert_eq!(weights.label().as_deref(), Some("weights"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct BufferBuilder<'a> {
    pub(crate) device: &'a Device,
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) tag: Tag,
}

impl BufferBuilder<'_> {
    /// Sets the kind of memory; Device memory by default.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the label under which reports count the buffer.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.tag.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Makes the buffer, and waits as [`Device::create_buffer_async`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`].
    pub async fn create_async(self) -> Result<Buffer> {
        let device = self.device;
        match self.begin("create_buffer")? {
            Begun::Made(buffer) => Ok(buffer),
            Begun::Left(rest) => Ok(rest.finish(device).await?),
        }
    }

    /// Makes the buffer without ever waiting: by the cache, or by room that is there.
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`]; the report has no rounds.
    pub fn create_now(self) -> Result<Buffer> {
        Ok(self.create_at_once()?)
    }

    pub(crate) fn create_at_once(self) -> Outcome<Buffer> {
        let owner = &self.device.owner;
        match self.begin("create_buffer_now")? {
            Begun::Made(buffer) => Ok(buffer),
            Begun::Left(Rest { len, left }) => {
                Ok(Buffer::whole(reclaim::create_now(owner, left)?, len))
            }
        }
    }

    /// Does all that needs no wait and no driver.
    #[cfg_attr(not(target_family = "wasm"), inline)] // The package would have it twice.
    pub(crate) fn begin(self, call: &'static str) -> Outcome<Begun> {
        let Self { device, len, kind, tag } = self;
        entry::check(call)?;
        check_kind(&device.owner, kind)?;
        Ok(match reclaim::first(&device.owner, Want { kind, len, tag })? {
            First::Made(at) => Begun::Made(Buffer::whole(at, len)),
            First::Left(left) => Begun::Left(Rest { len, left }),
        })
    }
}

/// A buffer, or what is left to do for it.
#[derive(Debug)]
pub enum Begun {
    /// It was made without a wait.
    Made(Buffer),
    /// It takes more, which may wait.
    Left(Rest),
}

/// What is left to do for a buffer.
pub struct Rest {
    len: u64,
    left: Left,
}

impl Rest {
    /// Does it, on the device that the buffer is for.
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`].
    pub fn finish(self, device: &Device) -> impl Future<Output = Outcome<Buffer>> {
        finish(self, &device.owner)
    }
}

async fn finish(Rest { len, left }: Rest, owner: &Arc<Owner>) -> Outcome<Buffer> {
    reclaim::climb(owner, left).await.map(|at| Buffer::whole(at, len))
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rest({} bytes)", self.len)
    }
}

fn check_kind(owner: &Owner, kind: Kind) -> Outcome<()> {
    if kind == Kind::Transfer {
        return Err(Failed::unsupported(&owner.name, "Transfer memory is made by staging alone"));
    }
    Ok(())
}

impl Device {
    /// Starts a buffer of `len` bytes, to be given a kind or a label.
    #[track_caller]
    pub fn buffer(&self, len: u64) -> BufferBuilder<'_> {
        // Outside of a closure, which would have a location of its own.
        let caller = Location::caller();
        let site = settings::trace().then_some(Site::Here(caller));
        BufferBuilder { device: self, len, kind: Kind::Device, tag: Tag { label: None, site } }
    }

    /// Makes a buffer of Device memory, reclaiming before it fails. Its bytes are unspecified.
    /// Waits, in rounds, for work that keeps memory of the same budget from returning; never
    /// when there is room or the cache serves.
    ///
    /// # Errors
    ///
    /// - `OutOfMemory`: no room within the budget after three rounds, or at once if the budget is
    ///   below `len`.
    /// - `Lost`: the device is lost.
    /// - `Unsupported`: above the largest allocation, a missing kind, or a device of files.
    #[track_caller]
    pub fn create_buffer_async(&self, len: u64) -> impl Future<Output = Result<Buffer>> + '_ {
        self.buffer(len).create_async()
    }

    /// Makes a buffer without ever waiting: by the cache, or by room that is there (S10.12).
    ///
    /// # Errors
    ///
    /// Those of [`Device::create_buffer_async`]; the report has no rounds.
    #[track_caller]
    pub fn create_buffer_now(&self, len: u64) -> Result<Buffer> {
        self.buffer(len).create_now()
    }
}
