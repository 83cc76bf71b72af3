//! The GPUs of this computer: each that wgpu finds, once, as every kind of device that it can be.

use crate::devices::Found;
use rig::driver::Addressed;
use rig::wgpu::{Options, adapters, encode, handles, wgsl};
use rig::{Buffer, Device, Result};
use std::sync::Arc;
use wgpu::{AdapterInfo, Backends, DeviceType};

/// Returns the GPUs, and a line for each that could not be opened.
pub fn find() -> (Vec<Found>, Vec<String>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (at, info) in infos().iter().enumerate() {
        let number = if at == 0 { String::new() } else { (at + 1).to_string() };
        let mut kinds = vec![(format!("gpu{number}"), Addressed::Never)];
        if shares_memory(info) {
            kinds.push((format!("mapped{number}"), Addressed::WhileMapped));
        }
        for (name, addressed) in kinds {
            match open(options(&name, info, addressed), info) {
                Ok(gpu) => found.push(gpu),
                Err(error) => refused.push(error.to_string()),
            }
        }
    }
    (found, refused)
}

/// Returns each GPU once: two backends may show the same. GL is asked only if no other has one.
fn infos() -> Vec<AdapterInfo> {
    let backends = Options::default().backends;
    let mut once: Vec<AdapterInfo> = Vec::new();
    for info in adapters(backends - Backends::GL) {
        let same = |other: &AdapterInfo| {
            other.backend != info.backend
                && (&other.name, &other.device_pci_bus_id) == (&info.name, &info.device_pci_bus_id)
        };
        if !once.iter().any(same) {
            once.push(info);
        }
    }
    match once.is_empty() {
        true => adapters(backends & Backends::GL),
        false => once,
    }
}

fn options(name: &str, info: &AdapterInfo, addressed: Addressed) -> Options {
    let address = &info.device_pci_bus_id;
    let adapter = if address.is_empty() { &info.name } else { address };
    Options {
        name: Arc::from(name),
        adapter: Some(Arc::from(adapter.as_str())),
        backends: Backends::from(info.backend),
        addressed,
        ..Options::default()
    }
}

fn open(options: Options, info: &AdapterInfo) -> Result<Found> {
    let (device, addressed) = (rig::wgpu::open(options.clone())?, options.addressed);
    Ok(Found {
        device,
        what: describe(info.device_type, addressed),
        maker: format!("{}, through {:?}", info.name, info.backend),
        open: Box::new(move || rig::wgpu::open(options.clone())),
        double: wgsl(DOUBLE, "double"),
        crash,
        blow: "Here the GPU's device is destroyed under its work.",
    })
}

/// wgpu can destroy its device at any time. Here that happens while work is put together.
fn crash(device: &Device, victim: &Buffer) -> Result<()> {
    let (own, _) = handles(device)?;
    let broken = device.prepare().native(encode(move |_, _| own.destroy())).writes(victim);
    let outcome = broken.build()?.submit(&[], &[]).and_then(|point| point.wait());
    assert!(outcome.is_err(), "the work failed");
    Ok(())
}

fn describe(kind: DeviceType, addressed: Addressed) -> &'static str {
    match (kind, addressed) {
        (DeviceType::Cpu, Addressed::Never) => "a software GPU: the processor does its work",
        (DeviceType::Cpu, _) => "that software GPU again, its memory mapped for the host",
        (_, Addressed::Never) => "a GPU",
        _ => "that GPU again, its memory mapped for the host",
    }
}

/// Whether the GPU's memory is the host's, so that the host may as well address it.
fn shares_memory(info: &AdapterInfo) -> bool {
    matches!(info.device_type, DeviceType::Cpu | DeviceType::IntegratedGpu)
}

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> values: array<f32>;

    @compute @workgroup_size(64)
    fn double(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&values) {
            values[id.x] *= 2.0;
        }
    }
";
