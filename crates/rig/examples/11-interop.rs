//! Interop: a program with a wgpu device of its own, and rig beside it on the same memory.
//!
//! The rules are S4.4, S4.16, S8.6 and S12.5 of SEMANTICS.md.

use rig::wgpu::{Options, adopt, lend, wrap};
use rig::{Device, Error, Result};
use std::sync::Arc;
use wgpu::{BufferDescriptor, BufferUsages, Instance, InstanceDescriptor, Queue};

fn main() -> Result<()> {
    // The program opens wgpu as it always did.
    let Some((device, queue)) = pollster::block_on(open()) else {
        println!("there is no GPU that wgpu could open");
        return Ok(());
    };

    // rig adopts the device. From here on both use it: the device's callbacks stay the program's,
    // and rig never destroys it.
    let options = Options { name: Arc::from("mine"), ..Options::default() };
    let gpu = adopt(device.clone(), queue.clone(), options)?;
    println!("adopted {}", gpu.facts().architecture);
    lend_out(&gpu, &device, &queue)?;
    take_in(&gpu, &device, &queue)?;

    // Closing ends rig's device. The program's own goes on.
    gpu.close()?;
    let own = buffer(&device, BufferUsages::COPY_DST);
    queue.write_buffer(&own, 0, &[1; LEN]);
    queue.submit([]);
    Ok(())
}

/// Opens a GPU, with nothing of rig.
async fn open() -> Option<(wgpu::Device, Queue)> {
    let instance = Instance::new(InstanceDescriptor::new_without_display_handle_from_env());
    let adapter = instance.request_adapter(&Default::default()).await.ok()?;
    adapter.request_device(&Default::default()).await.ok()
}

fn lend_out(gpu: &Device, device: &wgpu::Device, queue: &Queue) -> Result<()> {
    let x = gpu.create_buffer(4 * LEN as u64)?;
    x.fill(0)?;

    // A buffer of rig is lent out as a wgpu::Buffer with the place of its bytes, here of a view.
    let second = x.view(LEN as u64, LEN as u64)?;
    let lent = lend(&second)?;
    assert_eq!((lent.offset, lent.len), (LEN as u64, LEN as u64));

    // The program uses it in work of its own, which rig does not see.
    let own = buffer(device, BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
    queue.write_buffer(&own, 0, &[6; LEN]);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&own, 0, &lent.buffer, lent.offset, lent.len);
    queue.submit([encoder.finish()]);

    // So it tells rig, right after: this was used, and so. Now the memory has its stamp, and
    // whoever reads it waits for the program's own work.
    let point = gpu.record_use(&[], &[&second])?;
    println!("the program's own work is {point}");
    assert_eq!(x.stamps().write, Some(point));
    let mut bytes = [0; 2];
    x.blit_to(LEN as u64 - 1, &mut bytes)?;
    assert_eq!(bytes, [0, 6]);

    // Nobody can tell when the program lets go of what was lent. So that memory never serves
    // another buffer: what comes next has memory of its own.
    drop((x, second));
    gpu.trim()?;
    assert_eq!(gpu.cached(), 0);
    let next = gpu.create_buffer(4 * LEN as u64)?;
    assert_ne!(lend(&next)?.buffer, lent.buffer);
    Ok(())
}

fn take_in(gpu: &Device, device: &wgpu::Device, queue: &Queue) -> Result<()> {
    // The other way round, a wgpu::Buffer of the program's becomes a buffer of rig. That copies
    // nothing, and is charged to no budget.
    let usages = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let own = buffer(device, usages);
    queue.write_buffer(&own, 0, &[9; LEN]);
    queue.submit([]);
    let held = gpu.held();
    let x = wrap(gpu, own.clone())?;
    assert_eq!((x.len(), gpu.held()), (LEN as u64, held));

    // It is copied and filled like any other, to the byte.
    x.view(1, 2)?.fill(5)?;
    let copy = gpu.create_buffer(LEN as u64)?;
    rig::copy(&x, &copy)?;
    let mut bytes = [0; 4];
    copy.blit_to(0, &mut bytes)?;
    assert_eq!(bytes, [9, 5, 5, 9]);

    // What its usages do not allow is an error of the call, found before anything is done.
    let upload = wrap(gpu, buffer(device, BufferUsages::COPY_SRC))?;
    let error = upload.fill(0).expect_err("it cannot be written");
    println!("a buffer for copies only: {error}");
    assert!(matches!(error, Error::Unsupported { .. }));

    // When rig lets go of it, it is the program's as before.
    drop((x, upload));
    gpu.trim()?;
    let again = wrap(gpu, own)?;
    again.blit_to(0, &mut bytes)?;
    assert_eq!(bytes, [9, 5, 5, 9]);
    Ok(())
}

fn buffer(device: &wgpu::Device, usage: BufferUsages) -> wgpu::Buffer {
    let ask = BufferDescriptor { label: None, size: LEN as u64, usage, mapped_at_creation: false };
    device.create_buffer(&ask)
}

const LEN: usize = 256;
