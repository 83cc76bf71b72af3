//! The interface: a plot of what the memory does, by egui.

use crate::screen::Screen;
use egui::{ClippedPrimitive, Color32, Context, Rect, Ui, ViewportId};
use egui_plot::{Corner, Legend, Line, Plot, PlotPoints};
use egui_wgpu::{Renderer, RendererOptions, ScreenDescriptor};
use egui_winit::State;
use rig::Device;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use wgpu::{
    CommandEncoder, LoadOp, Operations, RenderPassColorAttachment, RenderPassDescriptor, StoreOp,
    TextureView,
};
use winit::event::WindowEvent;
use winit::window::Window;

/// The interface and what it has to remember.
pub(crate) struct Panel {
    state: State,
    /// Guards the pictures and shapes that egui draws from.
    renderer: Arc<Mutex<Renderer>>,
    /// Live, cached and returning bytes, the last sample last.
    samples: VecDeque<[u64; 3]>,
}

impl Panel {
    /// Makes the interface of a screen.
    pub(crate) fn new(screen: &Screen) -> Self {
        let window = &*screen.window;
        let context = Context::default();
        let scale = Some(window.scale_factor() as f32);
        let side = screen.device.limits().max_texture_dimension_2d as usize;
        let state = State::new(context, ViewportId::ROOT, window, scale, None, Some(side));
        let format = screen.config.format;
        let renderer = Renderer::new(&screen.device, format, RendererOptions::PREDICTABLE);
        Self { state, renderer: Arc::new(Mutex::new(renderer)), samples: VecDeque::new() }
    }

    /// Takes in what happened to the window.
    pub(crate) fn hear(&mut self, window: &Window, event: &WindowEvent) {
        let _ = self.state.on_window_event(window, event);
    }

    /// Lays the interface out with what the memory does now; answers what draws it.
    pub(crate) fn lay_out(&mut self, screen: &Screen) -> Brush {
        let stats = screen.gpu.stats();
        self.samples.push_back([stats.live_bytes, stats.cached_bytes, stats.returning_bytes]);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        let window = &*screen.window;
        let input = self.state.take_egui_input(window);
        let context = self.state.egui_ctx().clone();
        let mut plot = Rect::NOTHING;
        let mut output = context.run_ui(input, |ui| {
            plot = show(ui, &screen.name, &screen.gpu, &self.samples);
        });
        self.state.handle_platform_output(window, output.platform_output);

        let size_in_pixels = [screen.config.width, screen.config.height];
        let pixels_per_point = output.pixels_per_point;
        let size = ScreenDescriptor { size_in_pixels, pixels_per_point };
        let shapes = context.tessellate(output.shapes, pixels_per_point);
        let (device, queue) = (&screen.device, &screen.queue);
        let mut renderer = self.renderer.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, deltas) in output.textures_delta.set.drain() {
            for delta in deltas {
                renderer.update_texture(device, queue, id, &delta);
            }
        }
        // Only callbacks of the interface would encode anything here, and it has none.
        let mut encoder = device.create_command_encoder(&Default::default());
        renderer.update_buffers(device, queue, &mut encoder, &shapes, &size);
        drop(renderer);
        let gone = output.textures_delta.free.drain().collect();
        let plot = plot * pixels_per_point;
        Brush { renderer: Arc::clone(&self.renderer), shapes, size, gone, plot }
    }
}

/// What draws the interface of one frame.
pub(crate) struct Brush {
    /// Guards the pictures and shapes that egui draws from.
    renderer: Arc<Mutex<Renderer>>,
    shapes: Vec<ClippedPrimitive>,
    size: ScreenDescriptor,
    gone: Vec<egui::TextureId>,
    /// Where the plot is, in pixels.
    pub(crate) plot: Rect,
}

impl Brush {
    /// Encodes the interface over what the target shows.
    pub(crate) fn draw(&self, encoder: &mut CommandEncoder, to: &TextureView) {
        let attachment = RenderPassColorAttachment {
            view: to,
            depth_slice: None,
            resolve_target: None,
            ops: Operations { load: LoadOp::Load, store: StoreOp::Store },
        };
        let pass = encoder.begin_render_pass(&RenderPassDescriptor {
            label: Some("panel"),
            color_attachments: &[Some(attachment)],
            ..Default::default()
        });
        let mut renderer = self.renderer.lock().unwrap_or_else(PoisonError::into_inner);
        renderer.render(&mut pass.forget_lifetime(), &self.shapes, &self.size);
        self.gone.iter().for_each(|id| renderer.free_texture(id));
    }
}

/// Shows the interface; answers where the plot is.
fn show(ui: &mut Ui, name: &str, gpu: &Device, samples: &VecDeque<[u64; 3]>) -> Rect {
    let panel = egui::Panel::bottom("memory").exact_size(250.0);
    let shown = panel.show(ui, |ui| {
        let stats = gpu.stats();
        ui.label(format!(
            "{name}: {:.1} MiB held, of a budget of {:.0}. {} buffers were asked for, {} made, \
             none freed by hand.",
            mib(gpu.held()),
            mib(gpu.budget()),
            stats.requested_count,
            stats.actual_count,
        ));
        let plot = Plot::new("bytes").legend(Legend::default().position(Corner::LeftTop));
        let plot = plot.include_y(0.0).include_x(SAMPLES_MAX as f64).show_x(false);
        let plot = plot.y_axis_label("MiB").show_axes([false, true]).allow_scroll(false);
        let plot = plot.show(ui, |plot| {
            for (index, (word, colour)) in LINES.iter().enumerate() {
                let point = |(at, sample): (usize, &[u64; 3])| [at as f64, mib(sample[index])];
                let points: PlotPoints<'_> = samples.iter().enumerate().map(point).collect();
                plot.line(Line::new(*word, points).color(*colour).width(2.5));
            }
        });
        plot.response.rect
    });
    shown.inner
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The words of the plot, with the colours of their lines.
pub(crate) const LINES: [(&str, Color32); 3] = [
    ("live", Color32::from_rgb(90, 210, 120)),
    ("cached", Color32::from_rgb(80, 160, 255)),
    ("returning", Color32::from_rgb(255, 170, 60)),
];
/// The samples that the plot shows.
const SAMPLES_MAX: usize = 300;
