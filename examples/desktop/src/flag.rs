//! What is streamed: a waving flag, whose corners and colours are computed anew for each frame.

use crate::screen::Screen;
use rig::wgpu::Lent;
use rig::{Buffer, Device, Result};
use std::collections::VecDeque;
use std::f32::consts::TAU;
use std::sync::Arc;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BlendState, Color,
    ColorTargetState, ColorWrites, CommandEncoder, Device as WgpuDevice, Extent3d, FilterMode,
    FragmentState, LoadOp, Operations, RenderPassColorAttachment, RenderPassDescriptor,
    RenderPipeline, RenderPipelineDescriptor, SamplerDescriptor, ShaderModuleDescriptor,
    ShaderSource, StoreOp, TexelCopyBufferInfo, TexelCopyBufferLayout, Texture, TextureDescriptor,
    TextureDimension, TextureFormat, TextureUsages, TextureView, VertexBufferLayout, VertexState,
    VertexStepMode, vertex_attr_array,
};

/// The flag, and the corners of the last frames, newest first.
pub(crate) struct Flag {
    brush: Arc<Brush>,
    trail: VecDeque<Buffer>,
}

impl Flag {
    /// Makes the flag of a screen.
    pub(crate) fn new(screen: &Screen) -> Self {
        let brush = Brush::new(&screen.device, screen.config.format);
        Self { brush: Arc::new(brush), trail: VecDeque::new() }
    }

    /// Streams a frame's corners and colours into new buffers; answers that of the colours.
    pub(crate) fn stream(&mut self, gpu: &Device, frame: u64) -> Result<Buffer> {
        let time = frame as f32 / 60.0;
        let bytes = corners(time);
        let corners = gpu.buffer(bytes.len() as u64).label("corners").create()?;
        corners.blit_from(0, &bytes)?;
        self.trail.push_front(corners);
        // Frames behind the end of the trail are let go of. That is all.
        self.trail.truncate(trail_count(time));

        let bytes = colours(time);
        let colours = gpu.buffer(bytes.len() as u64).label("colours").create()?;
        colours.blit_from(0, &bytes)?;
        Ok(colours)
    }

    /// Returns the corners of the last frames, newest first.
    pub(crate) fn trail(&self) -> impl Iterator<Item = &Buffer> {
        self.trail.iter()
    }

    /// Returns what draws the flag.
    pub(crate) fn brush(&self) -> Arc<Brush> {
        Arc::clone(&self.brush)
    }
}

/// What draws the flag.
pub(crate) struct Brush {
    pipeline: RenderPipeline,
    texture: Texture,
    group: BindGroup,
}

impl Brush {
    fn new(device: &WgpuDevice, format: TextureFormat) -> Self {
        let module = device.create_shader_module(ShaderModuleDescriptor {
            label: Some("flag"),
            source: ShaderSource::Wgsl(SHADER.into()),
        });
        let corner = VertexBufferLayout {
            array_stride: CORNER_BYTES,
            step_mode: VertexStepMode::Vertex,
            attributes: &vertex_attr_array![0 => Float32x4],
        };
        let target = ColorTargetState {
            format,
            blend: Some(BlendState::ALPHA_BLENDING),
            write_mask: ColorWrites::ALL,
        };
        let pipeline = device.create_render_pipeline(&RenderPipelineDescriptor {
            label: Some("flag"),
            layout: None,
            vertex: VertexState {
                module: &module,
                entry_point: Some("place"),
                compilation_options: Default::default(),
                buffers: &[Some(corner)],
            },
            primitive: Default::default(),
            depth_stencil: None,
            multisample: Default::default(),
            fragment: Some(FragmentState {
                module: &module,
                entry_point: Some("paint"),
                compilation_options: Default::default(),
                targets: &[Some(target)],
            }),
            multiview_mask: None,
            cache: None,
        });
        let texture = device.create_texture(&TextureDescriptor {
            label: Some("flag"),
            size: COLOURS,
            mip_level_count: 1,
            sample_count: 1,
            dimension: TextureDimension::D2,
            format: TextureFormat::Rgba8Unorm,
            usage: TextureUsages::COPY_DST | TextureUsages::TEXTURE_BINDING,
            view_formats: &[],
        });
        let group = group(device, &pipeline, &texture);
        Self { pipeline, texture, group }
    }

    /// Encodes the copy of a buffer's colours into the texture.
    pub(crate) fn upload(&self, encoder: &mut CommandEncoder, colours: &Lent) {
        let layout = TexelCopyBufferLayout {
            offset: colours.offset,
            bytes_per_row: Some(4 * COLOURS.width),
            rows_per_image: None,
        };
        let from = TexelCopyBufferInfo { buffer: &colours.buffer, layout };
        encoder.copy_buffer_to_texture(from, self.texture.as_image_copy(), COLOURS);
    }

    /// Encodes the flag on an empty target, the oldest corners first.
    pub(crate) fn draw(&self, encoder: &mut CommandEncoder, to: &TextureView, trail: &[Lent]) {
        let attachment = RenderPassColorAttachment {
            view: to,
            depth_slice: None,
            resolve_target: None,
            ops: Operations { load: LoadOp::Clear(NIGHT), store: StoreOp::Store },
        };
        let mut pass = encoder.begin_render_pass(&RenderPassDescriptor {
            label: Some("flag"),
            color_attachments: &[Some(attachment)],
            ..Default::default()
        });
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        for (age, corners) in trail.iter().enumerate().rev() {
            let age = age as u32;
            let end = corners.offset + corners.len;
            pass.set_vertex_buffer(0, corners.buffer.slice(corners.offset..end));
            let count = u32::try_from(corners.len / CORNER_BYTES).unwrap_or(u32::MAX);
            pass.draw(0..count, age..age + 1);
        }
    }
}

fn group(device: &WgpuDevice, pipeline: &RenderPipeline, texture: &Texture) -> BindGroup {
    let view = texture.create_view(&Default::default());
    let linear = FilterMode::Linear;
    let ask = SamplerDescriptor { mag_filter: linear, min_filter: linear, ..Default::default() };
    let sampler = device.create_sampler(&ask);
    device.create_bind_group(&BindGroupDescriptor {
        label: Some("flag"),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            BindGroupEntry { binding: 0, resource: BindingResource::TextureView(&view) },
            BindGroupEntry { binding: 1, resource: BindingResource::Sampler(&sampler) },
        ],
    })
}

/// Returns how many frames the trail is long: it grows and shrinks, so that memory comes and goes.
fn trail_count(time: f32) -> usize {
    (8.0 - 7.0 * (0.9 * time).cos()) as usize
}

/// Returns two triangles for each cell of the flag: x, y and the place of the colour. The cells
/// grow finer and coarser, so that hardly two frames have buffers of one size.
fn corners(time: f32) -> Vec<u8> {
    let cells = (40.0 + 24.0 * (0.7 * time).sin()) as usize;
    let points: Vec<[f32; 4]> = (0..(cells + 1) * (cells + 1))
        .map(|at| {
            let part = |index: usize| index as f32 / cells as f32;
            let (u, v) = (part(at % (cells + 1)), part(at / (cells + 1)));
            let wave = 0.12 * u * (TAU * (1.3 * u - 0.8 * time) + v).sin();
            [1.5 * u - 0.85, 0.85 - 0.8 * v + wave, u, v]
        })
        .collect();
    let mut corners = Vec::with_capacity(6 * cells * cells);
    for row in 0..cells {
        for column in 0..cells {
            let first = row * (cells + 1) + column;
            let below = first + cells + 1;
            let triangles = [first, first + 1, below, below, first + 1, below + 1];
            corners.extend(triangles.map(|at| points[at]));
        }
    }
    bytemuck::cast_slice(&corners).to_vec()
}

/// Returns the colours of the flag: rings that move through each other.
fn colours(time: f32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((4 * COLOURS.width * COLOURS.height) as usize);
    for y in 0..COLOURS.height {
        for x in 0..COLOURS.width {
            let (x, y) = (x as f32 / 128.0, y as f32 / 128.0);
            let rings = (12.0 * ((x - 0.3).hypot(y - 0.4)) - 3.0 * time).sin();
            let bands = (9.0 * (x + y) + 2.0 * time).sin();
            let byte = |value: f32| (127.5 + 127.5 * value) as u8;
            bytes.extend([byte(rings), byte(rings * bands), byte(bands), 255]);
        }
    }
    bytes
}

const COLOURS: Extent3d = Extent3d { width: 128, height: 128, depth_or_array_layers: 1 };
const CORNER_BYTES: u64 = 16;
const NIGHT: Color = Color { r: 0.04, g: 0.05, b: 0.08, a: 1.0 };
const SHADER: &str = "
    struct Corner {
        @builtin(position) place: vec4<f32>,
        @location(0) colour: vec2<f32>,
        @location(1) strength: f32,
    }

    @group(0) @binding(0) var colours: texture_2d<f32>;
    @group(0) @binding(1) var smooth_colours: sampler;

    @vertex
    fn place(@location(0) corner: vec4<f32>, @builtin(instance_index) age: u32) -> Corner {
        let back = f32(age);
        let place = corner.xy + back * vec2(0.012, -0.01);
        return Corner(vec4(place, 0.0, 1.0), corner.zw, 1.0 / (1.0 + 0.6 * back));
    }

    @fragment
    fn paint(corner: Corner) -> @location(0) vec4<f32> {
        let colour = textureSample(colours, smooth_colours, corner.colour);
        return vec4(colour.rgb, corner.strength);
    }
";
