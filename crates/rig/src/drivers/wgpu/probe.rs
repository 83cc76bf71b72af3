//! A trial of host memory that a device maps: the device moves bytes out of it and back into it,
//! and works on them there.
//!
//! It runs on platforms whose drivers promise nothing. Memory that the device may still reach when
//! the trial is given up is never freed. Any thread may call; no lock is held.

use crate::bytes::{HostBytes, HostMemory, page_bytes};
use crate::drivers::wgpu::guarded::Guarded;
use ::wgpu::wgt::BufferTransition;
use ::wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferDescriptor,
    BufferUsages, BufferUses, ComputePassDescriptor, ComputePipelineDescriptor,
    ShaderModuleDescriptor, ShaderSource, SubmissionIndex,
};
use std::num::NonZeroU64;
use std::time::Duration;

/// Whether a device reads and writes the host's bytes through what `import` makes of them.
pub(crate) fn maps(
    guarded: &Guarded,
    import: impl FnOnce(HostBytes, BufferUsages) -> Option<Buffer>,
) -> bool {
    let Some(memory) = HostMemory::zeroed(2 * LEN, page_bytes()) else { return false };
    let bytes = memory.bytes();
    let given: Vec<u8> = (0..LEN).map(|at| (at * 31 + at / 251) as u8).collect();
    bytes.copy_in(0, &given);
    let usages = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let Some(there) = import(bytes, usages) else { return false };
    let Ok(index) = guarded.scoped(|| submit(guarded, &there)) else { return false };
    if guarded.poll(&index, AT_MOST) != Ok(true) {
        std::mem::forget((memory, there));
        return false;
    }
    drop(there);
    let mut seen = vec![0; given.len()];
    bytes.copy_out(LEN, &mut seen);
    seen.iter().zip(&given).all(|(seen, given)| *seen == !given)
}

/// Moves the first half to the device and back into the second, and turns the bits around there.
fn submit(guarded: &Guarded, there: &Buffer) -> SubmissionIndex {
    let device = &guarded.device;
    let usage = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let ask =
        BufferDescriptor { label: Some("rig trial"), size: LEN, usage, mapped_at_creation: false };
    let own = device.create_buffer(&ask);
    let source = ShaderSource::Wgsl(TURN.into());
    let module = device.create_shader_module(ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some("rig trial"),
        layout: None,
        module: &module,
        entry_point: Some("turn"),
        compilation_options: Default::default(),
        cache: None,
    });
    let second = BufferBinding { buffer: there, offset: LEN, size: NonZeroU64::new(LEN) };
    let group = device.create_bind_group(&BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[BindGroupEntry { binding: 0, resource: BindingResource::Buffer(second) }],
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(there, 0, &own, 0, LEN);
    encoder.copy_buffer_to_buffer(&own, 0, there, LEN, LEN);
    let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups((LEN / 4 / 64) as u32, 1, 1);
    drop(pass);
    let read = BufferTransition { buffer: there, state: BufferUses::MAP_READ };
    encoder.transition_resources(std::iter::once(read), std::iter::empty());
    guarded.queue.submit([encoder.finish()])
}

const LEN: u64 = 64 << 10;
const AT_MOST: Duration = Duration::from_secs(10);
const TURN: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @compute @workgroup_size(64)
    fn turn(@builtin(global_invocation_id) id: vec3<u32>) { words[id.x] = ~words[id.x]; }
";

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::drivers::wgpu::adapter::{Options, open};
    use crate::drivers::wgpu::guarded::Guarded;
    use crate::drivers::wgpu::import;
    use crate::drivers::wgpu::probe::{LEN, maps};

    #[test]
    fn s4_7_a_trial_tells_memory_that_the_device_maps_from_memory_that_it_does_not() {
        let Ok(opened) = pollster::block_on(open(&Options::default())) else {
            return println!("skipped: there is no GPU");
        };
        let guarded = Guarded::opened(opened.device, opened.queue);
        if import::align_bytes(&guarded).is_some() {
            assert!(maps(&guarded, |bytes, usages| import::import(bytes, usages, &guarded)));
        }
        // Memory of the device's own, and none.
        assert!(!maps(&guarded, |_, usages| guarded.buffer("other", 2 * LEN, usages).ok()));
        assert!(!maps(&guarded, |_, _| None));
        assert_eq!(guarded.check(), Ok(()));
    }
}
