//! The devices that the program runs on, and what it needs to know of their drivers.

use rig::memory::{Call, function};
use rig::{Buffer, Code, Device, Result};

/// A device to run on.
pub struct Found {
    /// The device.
    pub device: Device,
    /// What it is, for people.
    pub what: &'static str,
    /// Whose hardware it is, and what rig reaches it through; empty where there is none.
    pub maker: String,
    /// Opens the device under its name again.
    pub open: Box<dyn Fn() -> Result<Device>>,
    /// Code that doubles every float of a buffer, in place.
    pub double: Code,
    /// Loses the device in the middle of work that writes a buffer.
    pub crash: fn(&Device, &Buffer) -> Result<()>,
    /// What was done to it there, for people.
    pub blow: &'static str,
}

/// A memory device: it needs no hardware and obeys every rule that hardware does.
pub fn memory() -> Result<Found> {
    let open = || rig::memory::open("mem");
    let double = function("double", |call: &Call<'_>| {
        call.update::<f32>(0, |values| values.iter_mut().for_each(|value| *value *= 2.0));
    });
    Ok(Found {
        device: open()?,
        what: "a part of this computer's memory that plays a GPU",
        maker: String::new(),
        open: Box::new(open),
        double,
        crash,
        blow: "Here it is given code that fails.",
    })
}

/// A memory device's code is Rust, and Rust that panics is to it what a fault is to a GPU.
fn crash(device: &Device, victim: &Buffer) -> Result<()> {
    let broken = device.kernel(function("broken", |_: &Call<'_>| panic!("a fault on purpose")))?;
    // The panic is part of the show, so its usual message is not printed.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = broken.launch([1, 1, 1]).writes(victim).submit();
    std::panic::set_hook(usual);
    assert!(outcome.is_err(), "the work failed");
    Ok(())
}
