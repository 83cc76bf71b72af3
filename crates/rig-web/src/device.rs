//! What the page calls of devices. Each is an index; the host is 0.

use crate::buffer::drop_kept;
use crate::driver::{self, Web, region};
use crate::named::{NAMED, device_of, enter, site, text, told};
use crate::page::{say, say_text};
use crate::task;
use crate::told::{number_of, say_numbers, say_stats};
use rig::driver::Addressed;
use rig::embed::Begun;
use rig::{BufferBuilder, Device, drivers, embed, memory};
use std::sync::Arc;

/// Opens a memory device, or a GPU device of the page where `gpu` is above 0, under the name that
/// was put in; answers its index.
#[unsafe(no_mangle)]
extern "C" fn open(gpu: u32) -> f64 {
    let name = text();
    let kind = if gpu == 0 { "memory" } else { driver::KIND };
    let opened = embed::open_now(&name, kind, || match gpu {
        0 => drivers::memory::driver(memory::Options::default()),
        gpu => Arc::new(Web::new(gpu)),
    });
    told(opened, device_number)
}

/// Returns the index of an open device by the name that was put in; -1 for none.
#[unsafe(no_mangle)]
extern "C" fn named() -> f64 {
    let name = text();
    let open = |device: &Device| device.name() == name && device.lost().is_none();
    NAMED.with_borrow(|named| named.devices.iter().position(open)).map_or(-1.0, |at| at as f64)
}

/// Settles the ticket once the device is lost, and says why.
#[unsafe(no_mangle)]
extern "C" fn lost(ticket: f64, device: u32) {
    let device = device_of(device);
    task::start(ticket, async move {
        say_text(&device.lost_async().await);
        Ok(())
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
    number_of(number)
}

/// Says the facts of a device.
#[unsafe(no_mangle)]
extern "C" fn facts(device: u32) {
    let device = device_of(device);
    let facts = device.facts();
    say_text(&facts.architecture);
    say_text(device.driver().kind());
    say_numbers(&[
        facts.default_budget_bytes,
        facts.largest_bytes,
        facts.piece_bytes,
        facts.grain_bytes,
    ]);
    say(f64::from(facts.addressed == Addressed::Always));
}

/// Says the statistics of a device, and what is live by label and by call site; of all devices and
/// their sum where it is -1.
#[unsafe(no_mangle)]
extern "C" fn stats(device: i32) {
    embed::drain();
    let mut sum = [0; _];
    if let Ok(device) = u32::try_from(device) {
        return say_stats(&device_of(device), &mut sum);
    }
    let devices = rig::devices();
    say(devices.len() as f64);
    devices.iter().for_each(|device| say_stats(device, &mut sum));
    say_text("sum");
    say_numbers(&sum);
}

/// Sets a device's budget.
#[unsafe(no_mangle)]
extern "C" fn set_budget(device: u32, bytes: f64) -> f64 {
    let bytes = if bytes.is_finite() { bytes as u64 } else { u64::MAX };
    told(device_of(device).set_budget(bytes), |()| 0.0)
}

/// Returns cached memory, all of it or what recent use says; says what became of it.
#[unsafe(no_mangle)]
extern "C" fn give_back(device: u32, all: u32) -> f64 {
    let device = device_of(device);
    let returned = if all == 0 { device.trim() } else { device.free_cache() };
    told(returned, |returned| {
        say_numbers(&[returned.returned_bytes, returned.pending_bytes]);
        0.0
    })
}

/// Closes a device.
#[unsafe(no_mangle)]
extern "C" fn close(ticket: f64, device: u32) {
    task::start(ticket, embed::close(device_of(device)));
}

/// Waits for a value of a device.
#[unsafe(no_mangle)]
extern "C" fn wait(ticket: f64, device: u32, value: f64) {
    task::start(ticket, embed::wait(device_of(device), value as u64));
}

/// Makes a buffer, with the label that was put in, after a handle was dropped where one is named;
/// answers its number if that needs no wait, else 0, and the ticket settles with it.
#[unsafe(no_mangle)]
extern "C" fn create(ticket: f64, device: u32, len: f64, dropped: f64) -> f64 {
    drop_kept(dropped);
    let device = device_of(device);
    let created = embed::create(tagged(device.buffer(len as u64)));
    told(created, |begun| match begun {
        Begun::Made(buffer) => enter(buffer),
        Begun::Left(rest) => task::start_now(ticket, async move {
            task::answer(enter(rest.finish(&device).await?));
            Ok(())
        }),
    })
}

/// Makes a buffer without waiting, with the label that was put in, after a handle was dropped where
/// one is named.
#[unsafe(no_mangle)]
extern "C" fn create_now(device: u32, len: f64, dropped: f64) -> f64 {
    drop_kept(dropped);
    told(embed::create_now(tagged(device_of(device).buffer(len as u64))), enter)
}

/// Gives a buffer the label and the call site that were put in, where there are any.
fn tagged(builder: BufferBuilder<'_>) -> BufferBuilder<'_> {
    let (label, site) = (text(), site());
    let builder = if label.is_empty() { builder } else { builder.label(label) };
    if site.is_empty() { builder } else { embed::at_site(builder, &site) }
}

/// Makes a buffer of a GPU buffer of the page.
#[unsafe(no_mangle)]
extern "C" fn wrap_gpu(device: u32, buffer: f64, len: f64) -> f64 {
    told(embed::wrap_region(&device_of(device), region(buffer), len as u64), enter)
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
