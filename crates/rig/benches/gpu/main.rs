//! Goals P1, P2, P7, P9, P10 and P11 on a GPU, beside wgpu's own ways on the same device.
//!
//! Prints Markdown, or says that there is no GPU. `RIG_BENCH_QUICK=1` or `--quick` takes fewer
//! rounds and leaves the largest sizes out. Every page was touched, and what is copied is no zeros;
//! each side's result is checked once, before it is timed.

#[path = "../measure/mod.rs"]
mod measure;

mod create;
mod direct;
mod raw;
mod staged;
mod submit;

use crate::measure::is_quick;
use crate::measure::table::head;
use crate::raw::Raw;
use rig::driver::Addressed;
use rig::wgpu::{Batching, MapsHost, Options, handles, open};
use rig::{Device, Error};

fn main() {
    let Some(gpu) = opened(Options { name: "gpu bench".into(), ..Options::default() }) else {
        return;
    };
    let named = |name: &str| Options { name: name.into(), ..Options::default() };
    let together = named("gpu bench, batching");
    let together = opened(Options { batching: Batching::On, ..together });
    let own = named("gpu bench, halves of its own");
    let own = opened(Options { maps_host: MapsHost::Never, ..own });
    let mapped = named("gpu bench, mapped");
    let mapped = opened(Options { addressed: Addressed::WhileMapped, ..mapped });
    let raw = Raw::of(&gpu);

    title("Create + drop", &gpu);
    // On a device of its own: what wgpu notes of a submission grows with the most buffers that a
    // device ever had at once, dropped ones that it has not looked after yet among them.
    let many = opened(named("gpu bench, many buffers"));
    many.iter().for_each(|many| {
        create::beside_wgpu(many, &Raw::of(many));
        create::with_live(many);
        many.close().expect("it is no host");
    });
    title("Encoder, submit and wait", &gpu);
    submit::alone(&gpu, &raw);
    together.iter().for_each(submit::batched);
    title("Staged copies", &gpu);
    for len in sizes() {
        staged::up(&gpu, &raw, len, "");
        staged::down(&gpu, &raw, len, "");
        if let Some(own) = &own {
            staged::up(own, &Raw::of(own), len, ", halves of its own");
            staged::down(own, &Raw::of(own), len, ", halves of its own");
        }
    }
    staged::held(&gpu);
    title("Copies without staging", &gpu);
    for len in sizes() {
        direct::through_borrow(&gpu, &raw, len);
        mapped.iter().for_each(|mapped| direct::mapped(mapped, &Raw::of(mapped), len));
    }
    title("Odd offsets, against aligned ones", &gpu);
    for len in [128 << 10, 1 << 20, 16 << 20] {
        direct::odd_copies(&gpu, len);
        direct::odd_fill(&gpu, len);
    }
}

/// Opens a GPU, or says why there is none.
fn opened(options: Options) -> Option<Device> {
    let name = options.name.clone();
    match open(options) {
        Ok(device) => Some(device),
        Err(Error::Unsupported { why, .. }) => {
            println!("{name} is left out: {why}");
            None
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

fn title(what: &str, gpu: &Device) {
    let info = handles(gpu).expect("it is a GPU").0.adapter_info();
    let kind = if info.device_type == wgpu::DeviceType::Cpu { ", a software GPU" } else { "" };
    head(&format!("{what}: {}{kind}", gpu.facts().architecture));
}

/// The sizes that copies are measured at.
fn sizes() -> Vec<usize> {
    let all = [64 << 10, 1 << 20, 16 << 20, 256 << 20];
    all[..if is_quick() { 3 } else { 4 }].to_vec()
}

fn size(len: usize) -> String {
    if len >= 1 << 20 { format!("{} MiB", len >> 20) } else { format!("{} KiB", len >> 10) }
}
