//! A picture of the last frame, and whether there is anything in it.

use crate::Outcome;
use crate::panel::LINES;
use egui::{Color32, Rect};
use rig::wgpu::Lent;
use rig::{Buffer, Device};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use wgpu::{
    CommandEncoder, TexelCopyBufferInfo, TexelCopyBufferLayout, Texture, TextureFormat,
    TextureUsages,
};

/// A buffer that a frame is copied to.
pub(crate) struct Picture {
    pub(crate) buffer: Buffer,
    rows: Rows,
}

/// How the pixels of a texture lie in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    width: u32,
    height: u32,
    row_bytes: u32,
    red_last: bool,
}

impl Picture {
    /// Makes room for a picture of a texture.
    pub(crate) fn new(gpu: &Device, of: &Texture) -> Outcome<Self> {
        if !of.usage().contains(TextureUsages::COPY_SRC) {
            return Err("this system lets no picture of its windows be taken".into());
        }
        let red_last = match of.format() {
            TextureFormat::Rgba8Unorm => false,
            TextureFormat::Bgra8Unorm => true,
            other => return Err(format!("pictures of {other:?} are not known here").into()),
        };
        let row_bytes = (4 * of.width()).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let rows = Rows { width: of.width(), height: of.height(), row_bytes, red_last };
        let buffer = gpu.create_buffer(u64::from(row_bytes) * u64::from(rows.height))?;
        Ok(Self { buffer, rows })
    }

    /// Returns how the pixels lie.
    pub(crate) fn rows(&self) -> Rows {
        self.rows
    }

    /// Writes the picture to a file, once the work that made it is done, and fails if it is blank.
    pub(crate) fn write(&self, path: &Path, plot: Rect) -> Outcome<()> {
        let mut bytes = vec![0; usize::try_from(self.buffer.len())?];
        self.buffer.blit_to(0, &mut bytes)?;
        let pixels = self.rows.pixels(&bytes);
        let mut encoder = png::Encoder::new(
            BufWriter::new(File::create(path)?),
            self.rows.width,
            self.rows.height,
        );
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header()?.write_image_data(&pixels.concat())?;
        let width = self.rows.width as usize;
        let seen = judge(&pixels, width, plot)?;
        println!("the picture has {seen}");
        Ok(())
    }
}

impl Rows {
    /// Encodes the copy of a texture to the buffer.
    pub(crate) fn copy(self, encoder: &mut CommandEncoder, from: &Texture, to: &Lent) {
        let layout = TexelCopyBufferLayout {
            offset: to.offset,
            bytes_per_row: Some(self.row_bytes),
            rows_per_image: None,
        };
        let to = TexelCopyBufferInfo { buffer: &to.buffer, layout };
        encoder.copy_texture_to_buffer(from.as_image_copy(), to, from.size());
    }

    /// Returns the pixels, row by row, as red, green and blue.
    fn pixels(self, bytes: &[u8]) -> Vec<[u8; 3]> {
        let rows = bytes.chunks_exact(self.row_bytes as usize);
        let pixels = rows.flat_map(|row| row[..4 * self.width as usize].chunks_exact(4));
        let first = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
        let turned = |pixel: &[u8]| [pixel[2], pixel[1], pixel[0]];
        if self.red_last { pixels.map(turned).collect() } else { pixels.map(first).collect() }
    }
}

/// Says what is in a picture, or why that is too little: the flag has very many colours, and the
/// plot has its lines.
fn judge(pixels: &[[u8; 3]], width: usize, plot: Rect) -> Outcome<String> {
    let mut counts: HashMap<[u8; 3], usize> = HashMap::new();
    pixels.iter().for_each(|pixel| *counts.entry(*pixel).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or_default();
    if counts.len() < COLOURS_MIN || most > pixels.len() / 10 * 9 {
        let (colours, all) = (counts.len(), pixels.len());
        return Err(format!("blank: {colours} colours, {most} of {all} pixels have one").into());
    }
    let mut seen = format!("{} colours", counts.len());
    for (word, colour) in LINES {
        let inside = pixels.iter().enumerate().filter(|(at, _)| {
            plot.contains(egui::pos2((at % width) as f32 + 0.5, (at / width) as f32 + 0.5))
        });
        let count = inside.filter(|(_, pixel)| is_near(**pixel, colour)).count();
        if count < LINE_MIN {
            return Err(format!("the line of {word} bytes has only {count} pixels").into());
        }
        seen += &format!(", {count} pixels of {word} bytes");
    }
    Ok(seen)
}

fn is_near(pixel: [u8; 3], colour: Color32) -> bool {
    let wanted = [colour.r(), colour.g(), colour.b()];
    pixel.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(wanted) < 24)
}

/// A waving flag has thousands.
const COLOURS_MIN: usize = 500;
/// A line across a plot has more.
const LINE_MIN: usize = 40;

#[cfg(test)]
mod judging {
    use crate::panel::LINES;
    use crate::picture::judge;
    use egui::{Rect, pos2};

    /// A picture of 100 times 100 pixels of many colours.
    fn many() -> Vec<[u8; 3]> {
        (0..10_000_u32).map(|at| [(at % 100) as u8, (at / 100) as u8, 200]).collect()
    }

    fn plot() -> Rect {
        Rect::from_min_max(pos2(0.0, 50.0), pos2(100.0, 100.0))
    }

    fn draw(pixels: &mut [[u8; 3]], lines: usize, row: usize) {
        for (index, (_, colour)) in LINES.iter().enumerate().take(lines) {
            let start = (row + index) * 100;
            pixels[start..start + 100].fill([colour.r(), colour.g(), colour.b()]);
        }
    }

    #[test]
    fn a_picture_of_one_colour_is_blank() {
        let refused = judge(&[[7; 3]; 10_000], 100, plot()).map_err(|why| why.to_string());
        assert!(refused.is_err_and(|why| why.contains("blank")));
    }

    #[test]
    fn a_plot_without_one_of_its_lines_is_refused() {
        let mut pixels = many();
        draw(&mut pixels, 2, 60);
        let refused = judge(&pixels, 100, plot()).map_err(|why| why.to_string());
        assert!(refused.is_err_and(|why| why.contains("returning")));
    }

    #[test]
    fn lines_count_where_the_plot_is() {
        let (mut inside, mut outside) = (many(), many());
        draw(&mut inside, 3, 60);
        draw(&mut outside, 3, 10);
        assert!(judge(&inside, 100, plot()).is_ok());
        assert!(judge(&outside, 100, plot()).is_err());
    }
}
