//! GPU memory that comes back by itself.
//!
//! A program asks for buffers and lets go of them. It frees nothing and waits for nothing by hand.
//! Memory that nobody can reach any more waits for the work that used it, enters a cache, and
//! serves the next buffer. A byte budget for each device makes an allocation reclaim before it
//! fails. Stamps on the memory order work, copies and the host's accesses across devices.
//!
//! ```
//! fn main() -> rig::Result<()> {
//!     let device = rig::memory::open("M")?; // A device without hardware; GPUs work alike.
//!     device.set_budget(1 << 20)?;
//!
//!     let host = rig::host();
//!     let h = host.create_buffer(4 * 65_536)?;
//!     let x = device.create_buffer(4 * 65_536)?;
//!     h.write_as::<f32, _>(|values| {
//!         values.iter_mut().enumerate().for_each(|(at, value)| *value = at as f32);
//!     })?;
//!
//!     rig::copy(&h, &x)?;
//!     let double = device.kernel(rig::memory::function("double", |call| {
//!         call.update::<f32>(0, |values| values.iter_mut().for_each(|value| *value *= 2.0));
//!     }))?;
//!     double.launch([1_024, 1, 1]).writes(&x).submit()?; // Returns at once, waits for nothing.
//!     rig::copy(&x, &h)?; // Waits for the work that wrote x, and for nothing else.
//!     h.read_as::<f32, _>(|values| assert_eq!(values[65_535], 131_070.0))
//! }
//! ```
//!
//! The rest of this page is the model. `SEMANTICS.md`, beside the sources, states every rule in
//! numbered sentences, and the documentation cites them: S4.13 is one. The example program `memory`
//! prints what this page says, computed live.
//!
//! ```text
//!   the program      buffers, views, borrows            copies, submissions, reads, writes
//!                              |                              |                ^
//!                              | over                  raise  |                |  wait for
//!                              v                              v                |
//!   an allocation    bytes of one device  <--remembers-->  stamps: last write, last use by each
//!                              |
//!                              | nobody reaches it any more
//!                              v
//!   the way back     returning --its stamps are reached--> cache --asked again--> a new buffer
//!                              |                             |
//!                              | over budget, device lost    | trimmed, budget lowered, a round
//!                              v                             v
//!   the driver       memory of the host, of a GPU, of a browser
//! ```
//!
//! # Devices and timelines
//!
//! A [`Device`] is a store of bytes, usually with a processor. The host, [`host()`], is always open
//! and never lost. Others are opened under a name, by a driver's module: [`memory::open`],
//! [`file::open`]. Opening an open name answers the same device. Dropping a [`Device`] closes
//! nothing, since other handles and buffers may go on.
//!
//! A device numbers what is submitted to it 1, 2, 3: its *timeline*. A number is a *value*, and it
//! is *reached* once its work and all before it are done and their writes can be seen. A [`Point`]
//! is a device and a value; it is `Copy`, prints as `name:value`, and can be waited for with
//! [`Point::wait`]. [`Device::submitted`] is the last value assigned and [`Device::reached`] the
//! last one reached. The host has no timeline: what it does is over when the call returns.
//!
//! # Stamps
//!
//! Each allocation remembers the point of its last write, and for each device the point of its last
//! use. These [`Stamps`] rise in the same moment that hands work over, so work that runs has its
//! stamps. Whoever uses the memory next follows them:
//!
//! | who | follows |
//! |---|---|
//! | work that reads, on device d | the last write, if it is another device's |
//! | work that writes, on device d | the last use by each other device |
//! | the host, reading | the last write |
//! | the host, writing; and the memory's return | every use |
//!
//! A device needs no wait for its own points, since its work runs in order. All waits are for
//! points named by stamps, so nothing waits for a device to be idle. [`Buffer::stamps`] shows them.
//!
//! # Buffers, views and borrows
//!
//! A [`Buffer`] is a range of an allocation. It is cheap to clone, and a clone is the same buffer.
//! [`Buffer::view`] answers a buffer over part of it. [`borrow()`] answers a buffer on *another*
//! device over the same bytes, without a copy, where that device can reach them; else none, and a
//! copy is the way. Views and borrows share stamps, claims and memory with what they were made of,
//! and keep it alive.
//!
//! The host reaches bytes in place with [`Buffer::read`] and [`Buffer::write`], where it addresses
//! them. Both wait for what they follow, and hold a claim while their closure runs; something that
//! conflicts is [`Misuse::Busy`]. A [`ReadClaim`] keeps that right for longer, and [`Claims`] let a
//! function take an argument's memory over for its answer. An [`Export`] hands bytes out for good,
//! ordered by nothing. [`wrap()`] makes a buffer over memory that the program has already.
//!
//! # Copies and staging
//!
//! [`copy()`] moves all of one buffer to another of the same length, on whatever devices, and
//! returns with the bytes there. [`Buffer::blit_to`], [`Buffer::blit_from`] and [`Buffer::fill`] do
//! the same with bytes of the program. The route follows from facts: the host moves the bytes where
//! it addresses both sides; a device does where it reaches both; else they pass through *staging*,
//! a few fixed pieces of host memory, while host and device work on different ones. Every offset
//! and length is exact to the byte. Only what a device moves takes values and leaves stamps.
//!
//! # Submissions
//!
//! [`Device::kernel`] loads [`Code`] once. [`Kernel::launch`] puts one launch together and submits
//! it. [`Device::prepare`] puts launches, copies and fills together to be submitted many times: a
//! [`Prepared`] submission is checked once and allocates nothing when it is submitted. Buffers are
//! fixed in it, or given with each submission by [`run`]. Each names what it reads and what it
//! writes; that is all the ordering there is to say.
//!
//! A submission answers its point and does not wait for the work. Before, it waits only for points
//! of other devices that the queue itself cannot wait for, and for room in the queue. A [`Hold`]
//! keeps a value of the program's until the work that names it is done. Work that the program puts
//! on a device's queue by itself is told with [`Device::record_use`].
//!
//! # The way back
//!
//! Dropping the last buffer does almost nothing, on any thread and in any callback: it leaves a
//! note on a list. A *drain* takes such notes up. It never waits, and happens inside create, copy,
//! fill, free and most other calls on the device, and now and then on a thread of rig's own, so
//! that a program which calls nothing gets its memory back too. From there memory waits for its
//! stamps, then enters the cache of its device, from where it serves a buffer of its own or nearly
//! its own size. The cache gives back to the driver what recent use says nobody needs, oldest
//! first. [`Device::trim`] and [`Device::free_cache`] do that at once; [`CacheOptions`] tune it.
//!
//! [`Buffer::free`] ends a buffer early, with all of its clones, views and borrows. They are *dead*
//! then, and say so. It is never needed.
//!
//! # Budgets and rounds
//!
//! All bytes that drivers handed out are charged to one device's budget, be they live, returning or
//! cached: [`Device::held`] never passes [`Device::budget`] by an allocation, from however many
//! threads. A request that finds no room goes through three rounds before it fails. Each waits for
//! the work that keeps memory of that budget from returning, drains every device, and empties the
//! cache; the second and the third also run the collectors that programs registered with
//! [`add_collector`]. Then it is [`Error::OutOfMemory`], whose [`Report`] prints what each round
//! returned and what kept the rest. [`Device::create_buffer_now`] never waits and makes one try.
//!
//! [`stats()`] and [`Device::stats`] count what was asked for and what served it, [`snapshot()`]
//! says what every device is and holds, and a [`Profile`] records what happened when. Variables of
//! the environment, each `true`, `1`, `false` or `0`, change what is kept: `RIG_MANAGED_POOL`
//! (default true) lets caches shrink by themselves, `RIG_TRACE_POOL` (false) adds the call sites of
//! live memory to reports, and `RIG_POOL_STATS` (false) prints the statistics at exit.
//! [`allocated!`] and [`time!`] measure a piece of a program.
//!
//! # Loss
//!
//! A device is *lost* once, for good, and its first reason is kept: a fault of the hardware, no
//! progress for the hang bound, a [`Device::close`]. From then on each call that needs the device
//! or its memory is [`Error::Lost`]; nothing hangs and nothing panics. Memory elsewhere is harmed
//! only by work that was not done: memory that the lost device was writing stays lost for ever,
//! since nobody knows its bytes, and memory that it was reading may be written again once the
//! device stopped. Facts, drops and [`Buffer::free`] go on answering, and its memory comes back.
//! When its stop is over, the name can be opened again: that is a new device.
//!
//! There are four errors, since a caller can do four things. [`Error::OutOfMemory`]: make room.
//! [`Error::Lost`]: open again. [`Error::Unsupported`]: take another path. [`Error::Misuse`]: fix
//! the call, which changed nothing.
//!
//! # Blocking and async forms
//!
//! A call that may wait has two forms under the same rules: an async one, `copy_async`, on every
//! platform, and a blocking one, `copy`, which a browser does not have. Both first try without
//! waiting. The async forms need no particular runtime: what they wait for is watched by rig's own
//! thread. Dropping a future gives up the wait; work that was handed over runs on.
//!
//! Inside an async runtime these block the thread, and their `_async` twins do not; that of
//! `create_buffer_in` is [`BufferBuilder::create_async`]:
//!
//! | type | methods |
//! |---|---|
//! | [`Device`] | `open`, `open_with`, `create_buffer`, `create_buffer_in`, `kernel`, `wait`, `record_use`, `close` |
//! | [`Buffer`] | `read`, `write`, `read_as`, `write_as`, `export`, `wait`, `fill`, `blit_to`, `blit_from`, `free` |
//! | [`BufferBuilder`] | `create` |
//! | [`Prepared`] | `submit`, `submit_holding` |
//! | [`Launch`] | `submit` |
//! | [`Point`] | `wait` |
//! | free functions | [`copy()`], `open` of a driver's module, `adapters` and `adopt` of `wgpu` |
//!
//! Never waiting: facts, drops, [`Buffer::view`], [`borrow()`], [`Buffer::claim_read`],
//! [`Claims::with`], [`Buffer::lend`], [`Device::create_buffer_now`], [`Device::trim`],
//! [`Device::free_cache`], [`Device::set_budget`], [`Builder::build`]. [`Claims::consume`] waits at
//! most for the end of a hand-over in progress.
//!
//! Two kinds of work take the calling thread's time in either form: bytes that the host moves, and
//! files. And a memory device runs its work inside the submission.
//!
//! # Drivers
//!
//! A driver is one kind of hardware, as a module: [`memory`] is a device over host memory that runs
//! Rust functions, and obeys every rule that hardware does; [`file`](mod@file) has files for
//! buffers. The rules above live in the core, which names no driver. Whoever writes one implements
//! [`driver::Driver`], whose documentation holds its laws, and opens it with an [`Opener`].
#![deny(unsafe_code)]

mod access;
mod allocation;
mod bin;
mod blit;
#[cfg(not(target_family = "wasm"))]
mod blocking;
mod borrow;
mod budget;
mod buffer;
#[allow(unsafe_code)]
#[cfg_attr(target_family = "wasm", path = "bytes/web.rs")]
pub mod bytes;
mod cache;
mod claim;
#[allow(unsafe_code)]
mod claimed;
mod collector;
mod copy;
mod create;
mod device;
mod drain;
mod draining;
pub mod driver;
pub mod drivers;
mod elements;
pub mod embed;
mod entry;
mod error;
#[cfg(not(target_family = "wasm"))]
#[allow(unsafe_code)]
mod exit;
#[cfg(target_family = "wasm")]
#[path = "exit/none.rs"]
mod exit;
#[allow(unsafe_code)]
mod export;
pub mod file;
mod files;
mod gate;
#[allow(unsafe_code)]
mod global;
#[cfg_attr(target_family = "wasm", allow(dead_code))]
mod hand;
mod hold;
mod kept;
mod kernel;
mod life;
#[allow(unsafe_code)]
mod list;
mod measure;
pub mod memory;
#[allow(unsafe_code)]
mod once;
mod open;
mod ordered;
#[allow(unsafe_code)]
#[cfg(all(target_family = "wasm", feature = "wgpu"))]
mod page;
mod piece;
mod prepare;
mod profile;
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
mod reclaim;
mod report;
mod route;
#[cfg_attr(target_family = "wasm", allow(dead_code))]
mod settings;
mod share;
mod staging;
mod stamp;
#[cfg_attr(target_family = "wasm", allow(dead_code))]
mod submit;
mod sync;
mod tick;
mod timeline;
mod turn;
mod wait;
#[cfg(feature = "wgpu")]
pub mod wgpu;
mod window;
#[allow(unsafe_code)]
mod wrap;

pub use crate::bin::Bins;
#[cfg(not(target_family = "wasm"))]
pub use crate::blocking::copy;
pub use crate::borrow::borrow;
pub use crate::buffer::{Buffer, LentBuffer, Stamps, Use};
pub use crate::collector::{Collector, Pressure, add_collector};
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
pub use crate::measure::Measure;
pub use crate::open::Opener;
pub use crate::prepare::{Builder, Named, Prepared, run};
pub use crate::profile::{Event, Profile, Trace, What};
pub use crate::report::{
    DeviceSnapshot, DeviceStats, Kept, LabelTotal, Report, Returned, Round, SiteTotal, Snapshot,
    Stats, Usage, time_line,
};
pub use crate::submit::Launch;
#[cfg(target_family = "wasm")]
pub use crate::sync::set_clock;
pub use crate::timeline::{DeviceId, Point};
pub use crate::wrap::{Wrap, WrapShared, wrap, wrap_raw, wrap_shared};
