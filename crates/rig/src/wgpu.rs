//! GPUs through wgpu: Vulkan, Metal, DX12 and GL.
//!
//! [`open`] takes the GPU that [`Options`] name, with all the limits it offers. Its code is WGSL:
//! [`wgsl`] makes [`crate::Code`] of it. Memory moves as on every device; what the host does not
//! address passes through staging.
//!
//! A desktop program that has a wgpu device of its own gives it to [`adopt`]. [`lend`] answers the
//! `wgpu::Buffer` of a buffer, for pipelines of the program's own, and [`wrap`] makes a buffer of a
//! `wgpu::Buffer`. Work that the program encodes goes into a submission by [`encode`]; work that it
//! put on the queue itself is told with [`Device::record_use`].
//!
//! It is wgpu 30, with the backends Vulkan, Metal, DX12, GL and WebGPU: a program that hands
//! objects of wgpu over depends on `wgpu = "30"`.
//!
//! A launch's buffers start at multiples of wgpu's `min_storage_buffer_offset_alignment` and have
//! at most `max_storage_buffer_binding_size` bytes: [`handles`] answers the device whose limits
//! these are. Two views of one buffer cannot be bound in one launch, one read and one written. Of
//! host memory a device borrows without a copy what is made of whole pages, such as a buffer of
//! [`host`](crate::host) of 64 KiB or more, where it maps host memory at all ([`MapsHost`]); of a
//! wrapped `Vec` it does so only by chance.
//!
//! Values run in the order of wgpu's one queue. Each is one `queue.submit`, or with
//! [`Batching::On`] many are. Sizes and offsets are bytes, and any of them will do: WebGPU copies
//! whole words, and a texture of bytes or a small pass does the rest. What is encoded wrongly, and
//! a launch whose binding starts where none may, is `Misuse` of that submission, of which nothing
//! ran; in a browser the wait for its value says so.
//!
//! A program compiled for browsers, bound by wasm-bindgen, uses the async forms. The page tells it
//! the time, and its timers do what the maintenance thread does elsewhere. Vulkan, GL and browsers
//! have been run in software only; Metal and DX12 are compiled by `npm run check:targets`, and have
//! not been run. Host memory is mapped by Vulkan, by Metal and DX12 where a trial shows at open
//! that it is done rightly, and not by GL and in browsers.

use crate::allocation::{Allocation, Memory, Parts, Ref};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::drivers::wgpu;
use crate::error::{Error, Result};
use crate::life;
use crate::open::Opener;
#[cfg(target_family = "wasm")]
use crate::page::take_page;
use crate::tick;
#[cfg(not(target_family = "wasm"))]
use crate::wait;
use std::any::Any;
use std::sync::Arc;

pub use crate::drivers::wgpu::{Batching, Lent, MapsHost, Options, encode, wgsl};

/// Returns every adapter of the backends, each of which could be opened: by its name, its backend
/// and, where several have one name, its address on the bus.
pub async fn adapters_async(backends: ::wgpu::Backends) -> Vec<::wgpu::AdapterInfo> {
    wgpu::adapters(backends).await
}

/// Returns the adapters like [`adapters_async`], and blocks meanwhile.
#[cfg(not(target_family = "wasm"))]
pub fn adapters(backends: ::wgpu::Backends) -> Vec<::wgpu::AdapterInfo> {
    wait::block_on(adapters_async(backends))
}

/// Returns an opener of a GPU.
pub fn opener(options: Options) -> Opener {
    #[cfg(target_family = "wasm")]
    take_page();
    Opener::future(wgpu::KIND, wgpu::driver(options))
}

/// Opens a GPU, or answers the device that has its name. Waits until the system has opened it.
///
/// # Errors
///
/// Those of [`Device::open_async`]; `Unsupported` says why where there is no such GPU.
pub async fn open_async(options: Options) -> Result<Device> {
    let name = options.name.clone();
    Device::open_async(&name, opener(options)).await
}

/// Opens a GPU like [`open_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`open_async`].
#[cfg(not(target_family = "wasm"))]
pub fn open(options: Options) -> Result<Device> {
    let name = options.name.clone();
    Device::open(&name, opener(options))
}

/// Takes a wgpu device that the program opened as the device of the options' name. Waits for
/// nothing of the device; see [`Device::open_async`].
///
/// Its callbacks stay the program's, and it is never destroyed; a loss is found by the next work,
/// or told by [`Device::device_lost`] (S12.1). wgpu runs callbacks inside any call that polls or
/// submits, rig's too: in there a call of rig's may be `Misuse` (`Reentrant`). Of the options only
/// the name, the memory's addressing, the usages, the batching and whether it maps host memory
/// count; it maps none that was opened without what that needs.
///
/// # Errors
///
/// Those of [`Device::open_async`]; `Unsupported` where the name belongs to another wgpu device, or
/// this one lacks what the options ask for.
pub async fn adopt_async(
    device: ::wgpu::Device,
    queue: ::wgpu::Queue,
    options: Options,
) -> Result<Device> {
    #[cfg(target_family = "wasm")]
    take_page();
    loop {
        let (own, queue, options) = (device.clone(), queue.clone(), options.clone());
        let name = Arc::clone(&options.name);
        let adopt = async move { wgpu::adopt(own, queue, &options) };
        let opened = Device::open_async(&name, Opener::future(wgpu::KIND, adopt)).await?;
        if wgpu::is_same(&handles(&opened)?.0, &device) {
            return Ok(opened);
        }
        // It may have ended, and nobody has noticed.
        let Err(fault) = wgpu::find_out(&**opened.driver()) else {
            return Err(unsupported(&opened, "the name belongs to another wgpu device"));
        };
        life::lose(&opened.owner, &fault.0);
        opened.close_async().await?;
    }
}

/// Takes a device like [`adopt_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`adopt_async`].
#[cfg(not(target_family = "wasm"))]
pub fn adopt(device: ::wgpu::Device, queue: ::wgpu::Queue, options: Options) -> Result<Device> {
    wait::block_on(adopt_async(device, queue, options))
}

/// Returns the wgpu device and queue behind a device.
///
/// # Errors
///
/// `Unsupported` for a device of another driver.
pub fn handles(device: &Device) -> Result<(::wgpu::Device, ::wgpu::Queue)> {
    wgpu::handles(&**device.driver()).ok_or_else(|| unsupported(device, NOT_WGPU))
}

/// Lends a buffer's `wgpu::Buffer` out; see [`Buffer::lend`]. Where the host maps the device's
/// memory, an access of the host leaves it mapped, which wgpu does not submit. A program tells its
/// use by [`Device::record_use`] before its submission too, which ends the map; that after it is
/// what the host's next access waits for.
///
/// # Errors
///
/// Those of [`Buffer::lend`]; `Unsupported` on a device of another driver, and for a borrow.
pub fn lend(buffer: &Buffer) -> Result<Lent> {
    handles(&buffer.device())?;
    if buffer.device_owner().id != buffer.at.owner.id {
        return Err(unsupported(&buffer.device(), "a borrow of other memory is not lent"));
    }
    let lent = buffer.lend()?;
    let object: &dyn Any = &*lent.object.0;
    let object = object.downcast_ref::<::wgpu::Buffer>().cloned();
    let object = object.ok_or_else(|| unsupported(&buffer.device(), NOT_WGPU))?;
    Ok(Lent { buffer: object, offset: lent.offset, len: lent.len })
}

/// Makes a buffer over a `wgpu::Buffer` of the device's own wgpu device, without a copy; of another
/// instance's devices wgpu cannot tell it apart. It is charged to no budget; what it can be used
/// for, its usages say: a copy of whole words needs `COPY_SRC` or `COPY_DST`, a launch, a fill with
/// anything but zeros, and what starts or ends within a word `STORAGE`. The program orders its own
/// use of it, and does not leave it mapped while work of rig's names it.
///
/// # Errors
///
/// `Lost`; `Unsupported` on a device of another driver, and for a buffer that cannot be mapped on a
/// device whose memory the host maps.
pub fn wrap(device: &Device, buffer: ::wgpu::Buffer) -> Result<Buffer> {
    let (owner, len) = (&device.owner, buffer.size());
    let call = life::InFlight::new(owner)?;
    let region = wgpu::wrap(&**call.driver(), buffer);
    drop(call);
    let region = region.map_err(|why| unsupported(device, why))?;
    let (owner, memory) = (Arc::clone(owner), Memory::Wrapped);
    let parts = Parts { owner, region, bytes: None, memory, len, read_only: false };
    let record = Allocation::new(parts);
    tick::arm(&record.owner);
    Ok(Buffer::whole(Ref::new(record), len))
}

fn unsupported(device: &Device, why: &str) -> Error {
    Error::Unsupported { device: Arc::from(device.name()), why: Arc::from(why) }
}

const NOT_WGPU: &str = "this is no device of wgpu";
