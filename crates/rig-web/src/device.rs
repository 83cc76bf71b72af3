//! What the page calls of devices. Each is an index; the host is 0.

use crate::buffer::drop_buffer;
use crate::driver::{self, Web, region};
use crate::json;
use crate::named::{NAMED, device_of, enter, now, site, text, told};
use crate::page;
use crate::task;
use crate::told::{self as errors, Answer};
use rig::driver::{Addressed, Driver, Fault};
use rig::{BufferBuilder, Device, Opener, embed, memory};
use std::sync::Arc;

/// Opens a memory device, or a GPU device of the page where `gpu` is above 0, under the name that
/// was put in; answers its index.
#[unsafe(no_mangle)]
extern "C" fn open(gpu: u32) -> f64 {
    let name = text();
    let opener = match gpu {
        0 => memory::opener(memory::Options::default()),
        gpu => {
            Opener::new(driver::KIND, move || Ok::<Arc<dyn Driver>, Fault>(Arc::new(Web::new(gpu))))
        }
    };
    now("open", async move { Device::open_async(&name, opener).await }, device_number)
}

/// Returns the index of an open device by the name that was put in; -1 for none.
#[unsafe(no_mangle)]
extern "C" fn named() -> f64 {
    let name = text();
    let open = |device: &Device| device.name() == name && device.lost().is_none();
    NAMED.with_borrow(|named| named.devices.iter().position(open)).map_or(-1.0, |at| at as f64)
}

/// Settles the ticket once the device is lost, with why.
#[unsafe(no_mangle)]
extern "C" fn lost(ticket: f64, device: u32) {
    let device = device_of(device);
    task::start(ticket, async move {
        let why = device.lost_async().await;
        let error = rig::Error::Lost { device: Arc::from(device.name()), why };
        Ok(Answer { number: 0.0, text: errors::error(&error) })
    });
}

/// Answers a number of a device: its budget, what it holds, what it has cached, what was
/// submitted, what is reached.
#[unsafe(no_mangle)]
extern "C" fn device_number_of(device: u32, what: u32) -> f64 {
    let device = device_of(device);
    if matches!(what, 1 | 2) {
        embed::drain();
    }
    let number = match what {
        0 => device.budget(),
        1 => device.held(),
        2 => device.cached(),
        3 => device.submitted(),
        _ => device.reached(),
    };
    if number == u64::MAX { f64::INFINITY } else { number as f64 }
}

/// Answers the facts of a device, as text.
#[unsafe(no_mangle)]
extern "C" fn facts(device: u32) {
    let device = device_of(device);
    let facts = device.facts();
    let mut out = String::from("{\"architecture\":");
    json::quote(&mut out, &facts.architecture);
    let numbers = [
        ("defaultBudget", facts.default_budget_bytes),
        ("largest", facts.largest_bytes),
        ("piece", facts.piece_bytes),
        ("grain", facts.grain_bytes),
    ];
    for (name, value) in numbers {
        out.push_str(&format!(",\"{name}\":"));
        json::number(&mut out, value);
    }
    let addressed = facts.addressed == Addressed::Always;
    out.push_str(&format!(",\"hostAddressed\":{addressed},\"driver\":"));
    json::quote(&mut out, device.driver().kind());
    out.push('}');
    page::answered(&out);
}

/// Answers the statistics of a device as text, or those of all where it is -1, and what is live by
/// label and by call site.
#[unsafe(no_mangle)]
extern "C" fn stats(device: i32) {
    embed::drain();
    if let Ok(device) = u32::try_from(device) {
        return page::answered(&stats_text(&device_of(device)));
    }
    let mut devices = String::new();
    for device in rig::devices() {
        json::next(&mut devices, &stats_text(&device));
    }
    let sum = json::of(&rig::stats().sum);
    page::answered(&format!("{{\"devices\":[{devices}],\"sum\":{sum}}}"));
}

fn stats_text(device: &Device) -> String {
    let mut out = json::of(&device.stats());
    out.pop();
    let (labels, sites) = (json::of(&device.labels()), json::of(&device.sites()));
    out.push_str(&format!(",\"labels\":{labels},\"sites\":{sites}}}"));
    out
}

/// Sets a device's budget.
#[unsafe(no_mangle)]
extern "C" fn set_budget(device: u32, bytes: f64) -> f64 {
    let bytes = if bytes.is_finite() { bytes as u64 } else { u64::MAX };
    told(device_of(device).set_budget(bytes).map(|()| 0.0))
}

/// Returns cached memory, all of it or what recent use says; answers as text what became of it.
#[unsafe(no_mangle)]
extern "C" fn give_back(device: u32, all: u32) -> f64 {
    let device = device_of(device);
    let returned = if all == 0 { device.trim() } else { device.free_cache() };
    told(returned.map(|returned| {
        let (bytes, pending) = (returned.returned_bytes, returned.pending_bytes);
        page::answered(&format!("{{\"returned\":{bytes},\"pending\":{pending}}}"));
        0.0
    }))
}

/// Closes a device.
#[unsafe(no_mangle)]
extern "C" fn close(ticket: f64, device: u32) {
    let device = device_of(device);
    task::start(ticket, async move { device.close_async().await.map(Answer::from) });
}

/// Waits for a value of a device.
#[unsafe(no_mangle)]
extern "C" fn wait(ticket: f64, device: u32, value: f64) {
    let device = device_of(device);
    task::start(ticket, async move { device.wait_async(value as u64).await.map(Answer::from) });
}

/// Makes a buffer, with the label that was put in, after a handle was dropped where one is named;
/// answers its number if that needs no wait, else 0, and the ticket settles with it.
#[unsafe(no_mangle)]
extern "C" fn create(ticket: f64, device: u32, len: f64, dropped: f64) -> f64 {
    drop_buffer(dropped);
    let (device, tag) = (device_of(device), (text(), site()));
    task::start_now(ticket, async move {
        let builder = tagged(device.buffer(len as u64), tag);
        builder.create_async().await.map(|buffer| Answer::from(enter(buffer)))
    })
}

/// Makes a buffer without waiting, with the label that was put in, after a handle was dropped where
/// one is named.
#[unsafe(no_mangle)]
extern "C" fn create_now(device: u32, len: f64, dropped: f64) -> f64 {
    drop_buffer(dropped);
    let (device, tag) = (device_of(device), (text(), site()));
    told(tagged(device.buffer(len as u64), tag).create_now().map(enter))
}

/// Gives a buffer its label and its call site, where it has them.
fn tagged(builder: BufferBuilder<'_>, (label, site): (String, String)) -> BufferBuilder<'_> {
    let builder = if label.is_empty() { builder } else { builder.label(label) };
    if site.is_empty() { builder } else { embed::at_site(builder, &site) }
}

/// Makes a buffer of a GPU buffer of the page.
#[unsafe(no_mangle)]
extern "C" fn wrap_gpu(device: u32, buffer: f64, len: f64) -> f64 {
    told(embed::wrap_region(&device_of(device), region(buffer), len as u64).map(enter))
}

/// Returns the index of a device, which it gets if it is new here.
fn device_number(device: Device) -> f64 {
    NAMED.with_borrow_mut(|named| {
        let known = named.devices.iter().position(|known| *known == device);
        let at = known.unwrap_or_else(|| {
            named.devices.push(device);
            named.devices.len() - 1
        });
        at as f64
    })
}
