//! Adapters: which there are, and which one is opened.

use crate::driver::{Addressed, Fault};
use crate::drivers::wgpu::batch::Batching;
use crate::drivers::wgpu::import;
use ::wgpu::{
    Adapter, AdapterInfo, Backends, BufferUsages, Device, DeviceDescriptor, DeviceType,
    DownlevelFlags, Features, Instance, InstanceDescriptor, InstanceFlags, PowerPreference, Queue,
    RequestAdapterOptions,
};
use std::sync::Arc;

/// How a GPU is chosen and opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device's name in rig; the same name answers the same device, whatever else is asked for.
    pub name: Arc<str>,
    /// Part of the adapter's name, in any case, or its whole address on the bus; none takes what
    /// the system prefers.
    pub adapter: Option<Arc<str>>,
    /// Which of several adapters the system should prefer.
    pub power: PowerPreference,
    /// The backends to look in.
    pub backends: Backends,
    /// When the host addresses the device's memory: never, or while it is mapped, which needs an
    /// adapter whose memory the host shares.
    pub addressed: Addressed,
    /// Whether the device maps host memory.
    pub maps_host: MapsHost,
    /// Whether values' work waits to be submitted together.
    pub batching: Batching,
    /// What buffers can be used for beside storage and copies. Vertex usage makes wgpu pad them.
    pub usages: BufferUsages,
    /// Features of wgpu that the program's own work needs.
    pub features: Features,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: Arc::from("gpu"),
            adapter: None,
            power: PowerPreference::None,
            backends: Backends::from_env().unwrap_or_default(),
            addressed: Addressed::Never,
            maps_host: MapsHost::default(),
            batching: Batching::default(),
            usages: BufferUsages::empty(),
            features: Features::empty(),
        }
    }
}

/// Whether a device maps host memory, so that borrows of it need no copy and staging is the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MapsHost {
    /// Where the device can: Vulkan with `VK_EXT_external_memory_host`; Metal, and DX12 for memory
    /// of rig's own, where a trial shows it when the device is opened. These two are compiled only,
    /// and have not been run.
    #[default]
    WhereItCan,
    /// Never: copies pass through staging memory of the device's own.
    Never,
}

/// Returns every adapter of the backends.
pub async fn adapters(backends: Backends) -> Vec<AdapterInfo> {
    let found = instance(backends).enumerate_adapters(backends).await;
    found.iter().map(Adapter::get_info).collect()
}

/// An opened adapter.
pub(crate) struct Opened {
    pub(crate) adapter: Adapter,
    pub(crate) device: Device,
    pub(crate) queue: Queue,
}

/// Opens the adapter that the options name.
pub(crate) async fn open(options: &Options) -> Result<Opened, Fault> {
    let adapter = choose(options).await?;
    let name = adapter.get_info().name;
    let caps = adapter.get_downlevel_capabilities();
    if !caps.flags.contains(DownlevelFlags::COMPUTE_SHADERS) {
        return Err(Fault::new(format!("{name} runs no compute shaders")));
    }
    let mut wanted = options.features;
    if options.addressed != Addressed::Never {
        wanted |= Features::MAPPABLE_PRIMARY_BUFFERS;
    }
    let missing = wanted - adapter.features();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter_names().map(|(name, _)| name).collect();
        return Err(Fault::new(format!("{name} has no {}", names.join(", "))));
    }
    let ask = DeviceDescriptor {
        label: Some(&options.name),
        required_features: wanted,
        // All the adapter has, not the defaults, which are those of the smallest.
        required_limits: adapter.limits(),
        ..DeviceDescriptor::default()
    };
    let (device, queue) = match maps_host(&adapter, &ask, options.maps_host) {
        Some(opened) => opened?,
        None => {
            let opened = adapter.request_device(&ask).await;
            opened.map_err(|error| Fault::new(format!("{name}: {error}")))?
        }
    };
    Ok(Opened { adapter, device, queue })
}

fn maps_host(
    adapter: &Adapter,
    ask: &DeviceDescriptor<'_>,
    wanted: MapsHost,
) -> Option<Result<(Device, Queue), Fault>> {
    match wanted {
        MapsHost::WhereItCan => import::open(adapter, ask),
        MapsHost::Never => None,
    }
}

async fn choose(options: &Options) -> Result<Adapter, Fault> {
    let instance = instance(options.backends);
    let Some(part) = &options.adapter else {
        let ask = RequestAdapterOptions {
            power_preference: options.power,
            ..RequestAdapterOptions::default()
        };
        return instance.request_adapter(&ask).await.map_err(|error| Fault::new(error.to_string()));
    };
    let part = part.to_lowercase();
    let found = instance.enumerate_adapters(options.backends).await;
    let fits = |adapter: &Adapter| is_named(&adapter.get_info(), &part);
    let none = || Fault::new(format!("no adapter has {part:?} in its name"));
    found.into_iter().find(fits).ok_or_else(none)
}

/// Whether a part in lower case names an adapter.
fn is_named(info: &AdapterInfo, part: &str) -> bool {
    info.name.to_lowercase().contains(part) || info.device_pci_bus_id.to_lowercase() == part
}

fn instance(backends: Backends) -> Instance {
    Instance::new(InstanceDescriptor {
        backends,
        flags: InstanceFlags::from_build_config().with_env(),
        ..InstanceDescriptor::new_without_display_handle()
    })
}

/// Whether a device's memory is the host's, so that no bus carries copies.
pub(crate) fn shares_memory(info: &AdapterInfo) -> bool {
    matches!(info.device_type, DeviceType::IntegratedGpu | DeviceType::Cpu)
}

#[cfg(test)]
mod naming {
    use crate::drivers::wgpu::adapter::is_named;
    use ::wgpu::{AdapterInfo, Backend, DeviceType};

    #[test]
    fn an_adapter_goes_by_part_of_its_name_or_by_its_whole_address() {
        let info = AdapterInfo {
            name: "Fast GPU".into(),
            device_pci_bus_id: "0000:0A:00.0".into(),
            ..AdapterInfo::new(DeviceType::DiscreteGpu, Backend::Vulkan)
        };
        assert!(is_named(&info, "fast") && is_named(&info, "0000:0a:00.0"));
        assert!(!is_named(&info, "slow") && !is_named(&info, "0000:0"));
    }
}
