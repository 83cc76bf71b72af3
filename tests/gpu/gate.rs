//! A gate in a GPU's queue: the next submission runs once it opens. On Vulkan only.
//!
//! One submission only: a software GPU that runs work on the submitting thread holds up whoever
//! submits the one after it.

use crate::found::skipped;
use ash::vk;
use rig::Device;
use rig::wgpu::handles;
use std::sync::atomic::{AtomicBool, Ordering};
use wgpu::PollType;
use wgpu::hal::api::Vulkan;

/// A gate that is shut until it is opened or dropped.
pub(crate) struct Gate {
    device: wgpu::Device,
    raw: ash::Device,
    semaphore: vk::Semaphore,
    is_open: AtomicBool,
}

impl Gate {
    /// Shuts a gate before the next submission; says aloud where there can be none.
    pub(crate) fn shut(d: &Device) -> Option<Self> {
        let gate = Self::new(d);
        if gate.is_none() {
            skipped(&format!("{} is not on Vulkan, whose queue could be held up", d.name()));
        }
        gate
    }

    fn new(d: &Device) -> Option<Self> {
        let (device, queue) = handles(d).unwrap();
        // SAFETY: the handle is used to make and signal a semaphore, and is not destroyed.
        let raw = unsafe { device.as_hal::<Vulkan>() }?.raw_device().clone();
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let ask = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: wgpu's Vulkan devices have timeline semaphores, as their fences are.
        let semaphore = unsafe { raw.create_semaphore(&ask, None) }.unwrap();
        let stage = vk::PipelineStageFlags::TOP_OF_PIPE;
        // SAFETY: the queue is only told what to wait for.
        unsafe { queue.as_hal::<Vulkan>() }?.add_wait_semaphore(semaphore, Some(1), stage);
        Some(Self { device, raw, semaphore, is_open: AtomicBool::new(false) })
    }

    /// Lets what waits for the gate run.
    pub(crate) fn open(&self) {
        // A semaphore's value only grows; a signal without that loses the device.
        if self.is_open.swap(true, Ordering::Relaxed) {
            return;
        }
        let signal = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(1);
        // SAFETY: the semaphore lives as long as the gate.
        unsafe { self.raw.signal_semaphore(&signal) }.unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
        if self.device.poll(PollType::wait_indefinitely()).is_ok() {
            // SAFETY: nothing waits for it any more.
            unsafe { self.raw.destroy_semaphore(self.semaphore, None) };
        }
    }
}
