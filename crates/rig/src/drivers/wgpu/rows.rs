//! Moves of any bytes by WebGPU's own copies, through the rows of a texture of one byte a texel.
//!
//! Copies between buffers move whole words, but those between a buffer and a texture start at any
//! texel. So bytes go into such a texture and out again, in the order of their commands, and no
//! pass has to run, be given arguments and be waited for. The bytes go twice, which is nothing for
//! a few of them. One hand-over at a time uses the texture, and queue order keeps the next behind.

use crate::drivers::wgpu::commands::Command;
use crate::drivers::wgpu::edge::{Encoding, Place};
use crate::drivers::wgpu::guarded::{Bad, Guarded};
use crate::drivers::wgpu::memory::made;
use ::wgpu::{
    Backend, CommandEncoder, DeviceType, Extent3d, Origin3d, TexelCopyBufferInfo,
    TexelCopyBufferLayout, TexelCopyTextureInfo, Texture, TextureAspect, TextureDescriptor,
    TextureDimension, TextureFormat, TextureUsages,
};
use std::sync::OnceLock;

/// The texture of a device, made when first needed.
#[derive(Debug)]
pub(crate) struct Rows {
    texture: OnceLock<Texture>,
    /// The most bytes that are moved like this where a pass could move them.
    len_max: u64,
}

/// A move between some bytes and the texture.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    place: Place,
    texture: Texture,
    /// The row in which the bytes start.
    first: u32,
    way: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    In,
    Out,
}

impl Rows {
    /// Returns the rows of a device; none where this way was never tried.
    pub(crate) fn of(guarded: &Guarded) -> Option<Self> {
        let info = guarded.device.adapter_info();
        // A processor copies bytes faster than it runs passes over them.
        let len_max = if info.device_type == DeviceType::Cpu { u64::MAX } else { SMALL_BYTES };
        let fits = guarded.device.limits().max_texture_dimension_2d >= ROW;
        let texture = OnceLock::new();
        (info.backend == Backend::Vulkan && fits).then_some(Self { texture, len_max })
    }

    /// Whether a move of that many bytes is better made like this than by a pass.
    pub(crate) fn suits(&self, len: u64) -> bool {
        len <= self.len_max
    }

    /// Moves bytes from one place to another of the same length.
    pub(crate) fn moves(&self, src: &Place, dst: &Place, to: &mut Encoding<'_>) -> Result<(), Bad> {
        let starts = (0..src.len).step_by(BYTES as usize);
        starts.into_iter().try_for_each(|at| {
            let len = BYTES.min(src.len - at);
            self.moves_together(&[(src.part(at, len), dst.part(at, len))], to)
        })
    }

    /// Moves several that fit into the texture together, by a change of its use each way. One of no
    /// bytes is left out.
    pub(crate) fn moves_together(
        &self,
        moves: &[(Place, Place)],
        to: &mut Encoding<'_>,
    ) -> Result<(), Bad> {
        let texture = made(&self.texture, || texture(to.guarded))?;
        let row = |place: &Place, first, way| {
            Command::Row(Row { place: place.clone(), texture: texture.clone(), first, way })
        };
        let mut push = |way, of: fn(&(Place, Place)) -> &Place| {
            let mut first = 0;
            for place in moves.iter().map(of).filter(|place| place.len > 0) {
                to.commands.push(row(place, first, way));
                first += place.len.div_ceil(u64::from(ROW)) as u32;
            }
        };
        push(Way::In, |(src, _)| src);
        push(Way::Out, |(_, dst)| dst);
        Ok(())
    }
}

impl Row {
    /// Records the copies: one of all full rows, and one of what is left.
    pub(crate) fn record(&self, encoder: &mut CommandEncoder) {
        let rows = (self.place.len / u64::from(ROW)) as u32;
        let rest = (self.place.len % u64::from(ROW)) as u32;
        if rows > 0 {
            self.copy(0, [ROW, rows], encoder);
        }
        if rest > 0 {
            self.copy(rows, [rest, 1], encoder);
        }
    }

    fn copy(&self, row: u32, [width, height]: [u32; 2], encoder: &mut CommandEncoder) {
        let offset = self.place.offset + u64::from(row) * u64::from(ROW);
        let layout =
            TexelCopyBufferLayout { offset, bytes_per_row: Some(ROW), rows_per_image: None };
        let bytes = TexelCopyBufferInfo { buffer: &self.place.buffer, layout };
        let origin = Origin3d { x: 0, y: self.first + row, z: 0 };
        let (texture, aspect) = (&self.texture, TextureAspect::All);
        let texels = TexelCopyTextureInfo { texture, mip_level: 0, origin, aspect };
        let size = Extent3d { width, height, depth_or_array_layers: 1 };
        match self.way {
            Way::In => encoder.copy_buffer_to_texture(bytes, texels, size),
            Way::Out => encoder.copy_texture_to_buffer(texels, bytes, size),
        }
    }
}

fn texture(guarded: &Guarded) -> Result<Texture, Bad> {
    let ask = TextureDescriptor {
        label: Some("rig rows"),
        size: Extent3d { width: ROW, height: HEIGHT, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: TextureDimension::D2,
        format: TextureFormat::R8Uint,
        usage: TextureUsages::COPY_SRC | TextureUsages::COPY_DST,
        view_formats: &[],
    };
    guarded.scoped(|| guarded.device.create_texture(&ask))
}

/// The bytes of a row: a multiple of 256, as WebGPU's copies of several rows need.
const ROW: u32 = 8192;
const HEIGHT: u32 = 64;
/// The bytes of the texture: few enough to stay in a processor's cache between their two ways.
pub(crate) const BYTES: u64 = ROW as u64 * HEIGHT as u64;
/// Up to here a pass costs a GPU more than the bytes do: a guess, which no hardware has measured.
const SMALL_BYTES: u64 = 4 << 10;
