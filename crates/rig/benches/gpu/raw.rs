//! wgpu's own ways, and memcpy: what rig is measured beside.

use crate::measure::rounds::{Side, side};
use rig::Device;
use rig::wgpu::handles;
use std::hint::black_box;
use std::num::NonZeroU64;
use wgpu::util::StagingBelt;
use wgpu::{Buffer, BufferDescriptor, BufferUsages, CommandEncoder, MapMode, PollType};

/// The wgpu device behind one of rig's.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
}

impl Raw {
    pub(crate) fn of(device: &Device) -> Self {
        let (device, queue) = handles(device).expect("it is a GPU");
        Self { device, queue }
    }

    /// Makes a buffer.
    pub(crate) fn buffer(&self, len: usize, usage: BufferUsages) -> Buffer {
        let (label, size) = (None, len as u64);
        let ask = BufferDescriptor { label, size, usage, mapped_at_creation: false };
        self.device.create_buffer(&ask)
    }

    /// Makes a buffer as rig's are.
    pub(crate) fn plain(&self, len: usize) -> Buffer {
        let copies = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        self.buffer(len, BufferUsages::STORAGE | copies)
    }

    /// Encodes, submits and waits.
    pub(crate) fn run(&self, encode: impl FnOnce(&mut CommandEncoder)) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encode(&mut encoder);
        self.wait(self.queue.submit([encoder.finish()]));
    }

    /// Copies between two buffers of the GPU, again and again.
    pub(crate) fn copy(&self, len: usize) -> Side<'static> {
        let (raw, src, dst) = (self.clone(), self.plain(len), self.plain(len));
        self.queue.write_buffer(&src, 0, &pattern(len));
        let copy = move || {
            raw.run(|encoder| encoder.copy_buffer_to_buffer(&src, 0, &dst, 0, len as u64));
            dst.clone()
        };
        self.checked(copy)
    }

    /// Waits for a submission.
    pub(crate) fn wait(&self, index: wgpu::SubmissionIndex) {
        let wait = PollType::Wait { submission_index: Some(index), timeout: None };
        self.device.poll(wait).expect("the device is well");
    }

    /// Maps a buffer, once nothing uses it any more.
    fn map(&self, buffer: &Buffer, mode: MapMode) {
        buffer.map_async(mode, .., |mapped| mapped.expect("it can be mapped"));
        self.device.poll(PollType::wait_indefinitely()).expect("the device is well");
    }

    /// Reads a buffer as textbooks do: through a readback buffer that is made for it.
    pub(crate) fn read(&self, src: &Buffer) -> Vec<u8> {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let readback = self.buffer(src.size() as usize, usage);
        self.run(|encoder| encoder.copy_buffer_to_buffer(src, 0, &readback, 0, src.size()));
        self.map(&readback, MapMode::Read);
        readback.get_mapped_range(..).expect("it is mapped").to_vec()
    }

    /// Uploads by `Queue::write_buffer`.
    pub(crate) fn write_buffer(&self, from: &[u8]) -> Side<'static> {
        let (raw, from, dst) = (self.clone(), from.to_vec(), self.plain(from.len()));
        let upload = move || {
            raw.queue.write_buffer(&dst, 0, &from);
            raw.wait(raw.queue.submit(None));
            dst.clone()
        };
        self.checked(upload)
    }

    /// Uploads by a `StagingBelt` whose chunks hold it.
    pub(crate) fn belt(&self, from: &[u8]) -> Side<'static> {
        let (raw, from, dst) = (self.clone(), from.to_vec(), self.plain(from.len()));
        let mut belt = StagingBelt::new(self.device.clone(), from.len() as u64);
        let size = NonZeroU64::new(from.len() as u64).expect("there are bytes");
        let upload = move || {
            raw.run(|encoder| {
                belt.write_buffer(encoder, &dst, 0, size).copy_from_slice(&from);
                belt.finish();
            });
            belt.recall();
            dst.clone()
        };
        self.checked(upload)
    }

    /// Stores into a buffer of the device's own that is mapped for that.
    pub(crate) fn mapped(&self, from: &[u8]) -> Side<'static> {
        let copies = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let usage = BufferUsages::MAP_WRITE | BufferUsages::STORAGE | copies;
        let (raw, from, dst) = (self.clone(), from.to_vec(), self.buffer(from.len(), usage));
        let upload = move || {
            raw.map(&dst, MapMode::Write);
            dst.get_mapped_range_mut(..).expect("it is mapped").copy_from_slice(&from);
            dst.unmap();
            dst.clone()
        };
        self.checked(upload)
    }

    fn checked(&self, mut upload: impl FnMut() -> Buffer + 'static) -> Side<'static> {
        let seen = self.read(&upload());
        assert!(seen == pattern(seen.len()), "the bytes arrived");
        side(move || drop(black_box(upload())))
    }

    /// Reads as textbooks do, again and again.
    pub(crate) fn readback(&self, len: usize) -> Side<'static> {
        let (raw, src) = (self.clone(), self.plain(len));
        self.queue.write_buffer(&src, 0, &pattern(len));
        assert!(self.read(&src) == pattern(len), "the bytes arrived");
        side(move || drop(black_box(raw.read(&src))))
    }
}

/// The floor of every copy: one of the host's, between pages that were touched.
pub(crate) fn memcpy(len: usize) -> Side<'static> {
    let (src, mut dst) = (pattern(len), vec![1; len]);
    side(move || black_box(&mut dst[..]).copy_from_slice(black_box(&src)))
}

/// Bytes that differ from page to page.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8 | 1).collect()
}
