//! WGSL, loaded once and launched with buffers and arguments.
//!
//! A launch's buffers are bound in their order at `@group(0) @binding(0)`, 1, 2 and so on, as
//! storage; its arguments, if it has any, at the binding behind the last buffer, as `var<uniform>`
//! or `var<storage, read>`. What the shader declares at each binding decides; a buffer that it does
//! not use, or declares otherwise, is an error of the launch.

#[cfg(not(target_family = "wasm"))]
#[path = "kernel/bindings.rs"]
mod bindings;
#[cfg(target_family = "wasm")]
#[path = "kernel/unknown.rs"]
mod bindings;

use crate::driver::{Access, Code};
use crate::drivers::wgpu::commands::Command;
use crate::drivers::wgpu::edge::{Encoding, Place, WORD, bound};
use crate::drivers::wgpu::guarded::{Bad, Guarded, Verdict};
use crate::drivers::wgpu::kernel::bindings::Bindings;
use crate::sync::Mutex;
use ::wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindingResource, BufferBinding,
    ComputePipeline, ComputePipelineDescriptor, Features, ShaderModuleDescriptor, ShaderSource,
};
use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Makes code of WGSL, for the `wgpu` devices; `entry` names its compute entry point.
///
/// A launch binds its buffers in their order at `@group(0) @binding(0)`, 1, 2 and so on, as storage
/// buffers, and its arguments, if it has any, at the binding behind the last buffer, as
/// `var<uniform>` or `var<storage, read>`, filled up with zeros to a multiple of 16 bytes.
///
/// Wrong code is an error of [`Device::kernel`](crate::Device::kernel), as is what no launch binds:
/// a texture, another group. A launch is `Misuse` whose buffers are not those that the entry point
/// uses, one for each; that names one to be read which the code declares `read_write`; or one whose
/// bytes end within a word, unless its memory ends there. In a browser the engine says so, where it
/// knows.
pub fn wgsl(source: impl AsRef<str>, entry: impl AsRef<str>) -> Code {
    let source = Arc::new(Wgsl(Arc::from(source.as_ref())));
    Code { source, entry: Arc::from(entry.as_ref()) }
}

/// WGSL source.
#[derive(Debug)]
struct Wgsl(Arc<str>);

/// A loaded kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    name: Arc<str>,
    pipeline: ComputePipeline,
    /// None where the shader binds nothing.
    layout: Option<BindGroupLayout>,
    /// Whether nothing but its bind group decides if wgpu takes a launch.
    is_plain: bool,
    bindings: Bindings,
    /// Guards what wgpu says of the code.
    verdict: Arc<Mutex<Verdict>>,
}

/// What a launch is given.
pub(crate) struct Given<'a> {
    pub(crate) groups: [u32; 3],
    pub(crate) buffers: &'a [Named],
    pub(crate) args: Option<Place>,
}

/// A buffer of a launch.
pub(crate) struct Named {
    pub(crate) place: Place,
    #[cfg_attr(target_family = "wasm", expect(dead_code, reason = "the engine judges"))]
    pub(crate) access: Access,
    /// Whether what lies behind it in its memory is nobody's.
    pub(crate) is_last: bool,
}

impl Kernel {
    /// Loads code of [`wgsl`]; says why where that cannot be.
    pub(crate) fn load(code: &Code, guarded: &Guarded) -> Result<Self, Arc<str>> {
        let source: &dyn Any = &*code.source;
        let Some(Wgsl(text)) = source.downcast_ref::<Wgsl>() else {
            return Err(Arc::from("this device runs WGSL only"));
        };
        let bindings = Bindings::of(text, &code.entry)?;
        let (device, entry) = (&guarded.device, Some(&*code.entry));
        let (pipeline, verdict) = guarded.judged(|| {
            let source = ShaderSource::Wgsl(text.as_ref().into());
            let ask = ShaderModuleDescriptor { label: entry, source };
            let module = device.create_shader_module(ask);
            device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: entry,
                layout: None,
                module: &module,
                entry_point: entry,
                compilation_options: Default::default(),
                cache: None,
            })
        });
        let layout = |index| guarded.scoped(|| pipeline.get_bind_group_layout(index)).ok();
        let groups_max = device.limits().max_bind_groups;
        let is_plain = (1..groups_max).all(|index| layout(index).is_none())
            && !device.features().contains(Features::IMMEDIATES);
        let layout = layout(0);
        let verdict = Arc::new(Mutex::new(verdict));
        let name = Arc::clone(&code.entry);
        Ok(Self { name, pipeline, layout, is_plain, bindings, verdict })
    }

    /// Answers whether the code is right, once wgpu says.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<(), Arc<str>>> {
        self.verdict.lock().poll(waker).map_err(|bad| match bad {
            Bad::Room { .. } => Arc::from("no room on the device to load this code"),
            // wgpu's own text has lost its lines.
            Bad::Wrong(why) => self.bindings.wrong().unwrap_or(why),
        })
    }

    /// Encodes a launch.
    pub(crate) fn launch(&self, given: &Given<'_>, to: &mut Encoding<'_>) -> Result<(), Bad> {
        let limits = to.guarded.device.limits();
        let align = u64::from(limits.min_storage_buffer_offset_alignment);
        let most = limits.max_storage_buffer_binding_size;
        let counts_max = limits.max_compute_workgroups_per_dimension;
        if let Some(count) = given.groups.iter().find(|count| **count > counts_max) {
            let why =
                format!("{count} workgroups in one dimension, which takes at most {counts_max}");
            return Err(self.wrong(why));
        }
        self.bindings.check(given).map_err(|why| self.wrong(why))?;
        let mut entries = Vec::with_capacity(given.buffers.len() + 1);
        for (index, named) in given.buffers.iter().enumerate() {
            let binding = self.storage(index, named, align, most)?;
            entries.push(entry(index, binding));
        }
        if let Some(args) = &given.args {
            entries.push(entry(entries.len(), bound(args)));
        }
        let group = match &self.layout {
            Some(layout) => {
                let ask =
                    BindGroupDescriptor { label: Some(&self.name), layout, entries: &entries };
                Some(to.guarded.device.create_bind_group(&ask))
            }
            None if entries.is_empty() => None,
            None => return Err(self.wrong("it binds nothing".into())),
        };
        if !self.is_plain || repeats(given.buffers) {
            to.commands.set_unsure();
        }
        to.commands.push(Command::Pass {
            label: Arc::clone(&self.name),
            pipeline: self.pipeline.clone(),
            group,
            counts: given.groups,
        });
        Ok(())
    }

    fn storage<'a>(
        &self,
        index: usize,
        Named { place, is_last, .. }: &'a Named,
        align: u64,
        most: u64,
    ) -> Result<BufferBinding<'a>, Bad> {
        let (offset, len) = (place.offset, place.len);
        if !offset.is_multiple_of(align) {
            let why = format!("buffer {index} starts at {offset}, not at a multiple of {align}");
            return Err(self.wrong(why));
        }
        if len > most {
            let why = format!("buffer {index} has {len} bytes, and a binding at most {most}");
            return Err(self.wrong(why));
        }
        if len == 0 {
            return Err(self.wrong(format!("buffer {index} has no bytes to bind")));
        }
        // A binding is made of whole words.
        if !len.is_multiple_of(WORD) && !is_last {
            let why = format!(
                "buffer {index} has {len} bytes, no multiple of {WORD}, and others lie behind them"
            );
            return Err(self.wrong(why));
        }
        let end = (offset + len).next_multiple_of(WORD).min(place.buffer.size());
        Ok(BufferBinding { buffer: &place.buffer, offset, size: NonZeroU64::new(end - offset) })
    }

    fn wrong(&self, why: String) -> Bad {
        Bad::Wrong(Arc::from(format!("launch of {}: {why}", self.name)))
    }
}

/// Whether a buffer is bound twice, which wgpu refuses if one of these is written.
fn repeats(buffers: &[Named]) -> bool {
    let mut rest = buffers.iter().map(|named| &named.place.buffer);
    std::iter::from_fn(|| rest.next().map(|buffer| (buffer, rest.clone())))
        .any(|(buffer, mut others)| others.any(|other| other == buffer))
}

fn entry(index: usize, binding: BufferBinding<'_>) -> BindGroupEntry<'_> {
    let binding_index = u32::try_from(index).expect("a launch has fewer than 2^32 buffers");
    BindGroupEntry { binding: binding_index, resource: BindingResource::Buffer(binding) }
}
