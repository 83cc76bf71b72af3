//! The window, and the program's own wgpu device, which rig adopts.

use crate::Outcome;
use rig::Device;
use rig::wgpu::{Options, adopt};
use std::sync::Arc;
use wgpu::{
    BufferUsages, CurrentSurfaceTexture, DeviceDescriptor, Instance, InstanceDescriptor, Queue,
    RequestAdapterOptions, Surface, SurfaceConfiguration, SurfaceTexture, TextureUsages,
};
use winit::dpi::{LogicalSize, PhysicalSize};
use winit::event_loop::ActiveEventLoop;
use winit::window::{Window, WindowAttributes};

/// The window and what draws to it.
pub(crate) struct Screen {
    pub(crate) window: Arc<Window>,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: Queue,
    /// The same device, to rig.
    pub(crate) gpu: Device,
    /// What the GPU is, for people.
    pub(crate) name: String,
    pub(crate) config: SurfaceConfiguration,
    surface: Surface<'static>,
}

impl Screen {
    /// Opens the window and a device that can draw to it.
    pub(crate) fn open(events: &ActiveEventLoop) -> Outcome<Self> {
        let size = LogicalSize::new(960, 640);
        let attributes = WindowAttributes::default().with_title("rig").with_inner_size(size);
        let window = Arc::new(events.create_window(attributes)?);
        let display = Box::new(events.owned_display_handle());
        let ask = InstanceDescriptor::new_with_display_handle_from_env(display);
        let instance = Instance::new(ask);
        let surface = instance.create_surface(Arc::clone(&window))?;
        let adapter = pollster::block_on(instance.request_adapter(&RequestAdapterOptions {
            compatible_surface: Some(&surface),
            ..Default::default()
        }))?;
        let ask = DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&ask))?;

        let size = window.inner_size();
        let (width, height) = (size.width.max(1), size.height.max(1));
        let config = surface.get_default_config(&adapter, width, height);
        let mut config = config.ok_or("this GPU cannot draw to the window")?;
        // A format without conversion shows the interface's colours as they are written.
        config.format = config.format.remove_srgb_suffix();
        // What the picture is copied from, where the system allows it.
        config.usage |= surface.get_capabilities(&adapter).usages & TextureUsages::COPY_SRC;
        surface.configure(&device, &config);

        // From here on rig has the device too: its buffers can be drawn from.
        let options = Options {
            name: Arc::from("screen"),
            usages: BufferUsages::VERTEX,
            ..Options::default()
        };
        let gpu = adopt(device.clone(), queue.clone(), options)?;
        gpu.set_budget(BUDGET)?;
        let name = adapter.get_info().name;
        Ok(Self { window, device, queue, gpu, name, config, surface })
    }

    /// Follows the window's size.
    pub(crate) fn resize(&mut self, size: PhysicalSize<u32>) {
        if size.width > 0 && size.height > 0 {
            (self.config.width, self.config.height) = (size.width, size.height);
            self.surface.configure(&self.device, &self.config);
        }
    }

    /// Returns what the next frame is drawn to; none while there is nothing to draw to.
    pub(crate) fn next(&self) -> Outcome<Option<SurfaceTexture>> {
        match self.surface.get_current_texture() {
            CurrentSurfaceTexture::Success(texture)
            | CurrentSurfaceTexture::Suboptimal(texture) => Ok(Some(texture)),
            CurrentSurfaceTexture::Outdated => {
                self.surface.configure(&self.device, &self.config);
                Ok(None)
            }
            CurrentSurfaceTexture::Timeout | CurrentSurfaceTexture::Occluded => Ok(None),
            bad => Err(format!("the window cannot be drawn to: {bad:?}").into()),
        }
    }
}

const BUDGET: u64 = 64 << 20;
