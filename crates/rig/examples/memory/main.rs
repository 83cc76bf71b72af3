//! The whole of rig on one page: budgets, stamps, borrows and losses, on every device found.
//!
//! Run it with `cargo run --example memory`; it needs nothing but Rust. A memory device is always
//! there, and each GPU that wgpu finds comes on top, a software one too. Nothing that it prints is
//! written down in advance: each number, stamp and answer is asked of the device at that moment,
//! and what the rules promise is checked on the way: the budget of vector H, the stamps of vector
//! C where the host addresses the device's memory and of vector A elsewhere, the borrow of vector
//! B, and the table of losses of S12.1.

mod budget;
mod devices;
mod gpus;
mod loss;
mod page;
mod table;
mod trace;

use crate::devices::Found;
use crate::page::{heading, say};
use crate::table::Table;
use rig::driver::Addressed;

fn main() -> rig::Result<()> {
    say(
        "rig looks after the memory of GPUs and other devices. A program asks for buffers and lets \
         go of them. It frees nothing and waits for nothing by hand: memory comes back by itself, \
         and only once the work that uses it is done. This program shows how. All that it prints \
         is computed while it runs.",
    );
    let mut found = vec![devices::memory()?];
    let (gpus, refused) = gpus::find();
    found.extend(gpus);
    show_devices(&found, &refused);
    for device in &found {
        budget::show(&device.device)?;
        trace::show(device)?;
        trace::show_borrow(device)?;
        loss::show(device)?;
    }
    say("That was all. But for the calls of the last tables, this program freed nothing.");
    Ok(())
}

fn show_devices(found: &[Found], refused: &[String]) {
    heading("The devices to run on");
    say(
        "A device is a store of bytes that does work on them: a GPU. The host is the program's own \
         side, the processor that runs it. It has memory too.",
    );
    let mut table = Table::new(&["name", "what it is", "who moves the bytes of a copy"]);
    for Found { device, what, .. } in found {
        let mover = if is_addressed(device) { "the host" } else { "the device" };
        table.row(&[device.name(), what, mover]);
    }
    table.print();
    for Found { device, maker, .. } in found.iter().filter(|found| !found.maker.is_empty()) {
        println!("  {} is {maker}", device.name());
    }
    println!();
    refused.iter().for_each(|why| say(&format!("One more device cannot be had: {why}.")));
    let gpus = || found.iter().skip(1);
    if gpus().next().is_none() {
        say("No GPU was found, so all that follows runs on host memory alone. A GPU needs its \
             driver; a software one comes with Debian's package mesa-vulkan-drivers.");
    } else if gpus().all(|gpu| gpu.what.contains("software")) {
        say(
            "No GPU of hardware was found, only a software one: the processor does its work. What \
             follows is as true of it, and says nothing of speed.",
        );
    }
}

/// Whether the host finds the device's bytes by address.
pub fn is_addressed(device: &rig::Device) -> bool {
    device.facts().addressed != Addressed::Never
}
