//! The commands of one value: made and judged first, recorded afterwards.
//!
//! Everything that wgpu judges at once, bind groups above all, is made before anything is recorded,
//! so work that is wrong leaves nothing in an encoder. Commands that wgpu cannot refuse later are
//! *sure*: those of several values share an encoder, since making and submitting one costs more
//! than most commands do.

use crate::driver::Native;
use crate::drivers::wgpu::edge::Place;
use crate::drivers::wgpu::guarded::Guarded;
use crate::drivers::wgpu::rows::Row;
use crate::drivers::wgpu::work::encode_native;
use ::wgpu::wgt::BufferTransition;
use ::wgpu::{
    BindGroup, Buffer, BufferUses, CommandBuffer, CommandEncoder, CommandEncoderDescriptor,
    ComputePassDescriptor, ComputePipeline,
};
use std::sync::Arc;

/// The commands of one value, in the order in which they run.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    list: Vec<Command>,
    /// Memory of the host that they write, which has to see it: wgpu adds no such barrier.
    shown: Vec<Buffer>,
    is_unsure: bool,
}

/// One command.
#[derive(Debug)]
pub(crate) enum Command {
    /// Copies whole words between two buffers.
    Copy { src: Place, dst: Place },
    /// Sets whole words to zero.
    Clear(Place),
    /// Moves bytes between a buffer and the rows of a texture.
    Row(Row),
    /// A dispatch in a pass of its own.
    Pass { label: Arc<str>, pipeline: ComputePipeline, group: Option<BindGroup>, counts: [u32; 3] },
    /// What a function of the program encodes.
    Own { native: Native, places: Vec<Place> },
}

impl Commands {
    pub(crate) fn push(&mut self, command: Command) {
        self.is_unsure |= matches!(command, Command::Own { .. });
        self.list.push(command);
    }

    /// Notes that wgpu may refuse these commands when they are finished.
    pub(crate) fn set_unsure(&mut self) {
        self.is_unsure = true;
    }

    /// Ends with the host able to read these.
    pub(crate) fn show(&mut self, imported: Vec<Buffer>) {
        self.shown = imported;
    }

    /// Whether wgpu refuses none of them any more.
    pub(crate) fn is_sure(&self) -> bool {
        !self.is_unsure
    }

    /// Records all of them.
    pub(crate) fn record(&self, encoder: &mut CommandEncoder) {
        self.list.iter().for_each(|command| command.record(encoder));
        if !self.shown.is_empty() {
            let read = |buffer| BufferTransition { buffer, state: BufferUses::MAP_READ };
            encoder.transition_resources(self.shown.iter().map(read), std::iter::empty());
        }
    }

    /// Finishes them alone.
    pub(crate) fn finish(&self, guarded: &Guarded) -> CommandBuffer {
        let mut encoder = encoder(guarded);
        self.record(&mut encoder);
        encoder.finish()
    }
}

impl Command {
    fn record(&self, encoder: &mut CommandEncoder) {
        match self {
            Self::Copy { src, dst } => {
                let (from, into) = (&src.buffer, &dst.buffer);
                encoder.copy_buffer_to_buffer(from, src.offset, into, dst.offset, src.len);
            }
            Self::Clear(dst) => encoder.clear_buffer(&dst.buffer, dst.offset, Some(dst.len)),
            Self::Row(row) => row.record(encoder),
            Self::Pass { label, pipeline, group, counts: [x, y, z] } => {
                let ask = ComputePassDescriptor { label: Some(label), timestamp_writes: None };
                let mut pass = encoder.begin_compute_pass(&ask);
                pass.set_pipeline(pipeline);
                if let Some(group) = group {
                    pass.set_bind_group(0, group, &[]);
                }
                pass.dispatch_workgroups(*x, *y, *z);
            }
            Self::Own { native, places } => encode_native(native, encoder, places),
        }
    }
}

/// Makes an encoder.
pub(crate) fn encoder(guarded: &Guarded) -> CommandEncoder {
    guarded.device.create_command_encoder(&CommandEncoderDescriptor::default())
}
