//! GPU memory that comes back by itself.
#![deny(unsafe_code)]

mod access;
mod allocation;
mod bin;
mod blit;
mod borrow;
mod budget;
mod buffer;
#[allow(unsafe_code)]
pub mod bytes;
mod cache;
mod claim;
mod collector;
mod copy;
mod create;
mod device;
mod drain;
pub mod driver;
pub mod drivers;
mod entry;
mod error;
#[allow(unsafe_code)]
mod export;
pub mod file;
mod files;
mod gate;
mod hand;
mod hold;
mod kept;
mod kernel;
mod life;
#[allow(unsafe_code)]
mod list;
pub mod memory;
mod open;
mod piece;
mod prepare;
mod profile;
mod reclaim;
mod report;
mod route;
mod settings;
mod staging;
mod stamp;
mod submit;
mod sync;
mod tick;
mod timeline;
mod turn;
mod wait;
mod window;
#[allow(unsafe_code)]
mod wrap;

pub use crate::bin::Bins;
pub use crate::borrow::borrow;
pub use crate::buffer::{Buffer, LentBuffer, Stamps, Use};
pub use crate::collector::{Collector, add_collector};
#[cfg(not(target_family = "wasm"))]
pub use crate::copy::copy;
pub use crate::copy::copy_async;
pub use crate::create::BufferBuilder;
pub use crate::device::{CacheOptions, Device, devices, host, snapshot, stats};
pub use crate::driver::{Code, FileMode, Kind};
pub use crate::error::{Error, Misuse, Result};
pub use crate::export::Export;
pub use crate::hold::Hold;
pub use crate::kept::{Claims, ReadClaim};
pub use crate::kernel::Kernel;
pub use crate::life::{fail, failure};
pub use crate::open::Opener;
pub use crate::prepare::{Builder, Named, Prepared, run};
pub use crate::profile::{Event, Profile, Trace, What};
pub use crate::report::{
    DeviceSnapshot, DeviceStats, Kept, LabelTotal, Report, Returned, Round, SiteTotal, Snapshot,
    Stats, Usage, time_line,
};
pub use crate::submit::Launch;
pub use crate::timeline::{DeviceId, Point};
pub use crate::wrap::{Wrap, WrapShared, wrap, wrap_raw, wrap_shared};
