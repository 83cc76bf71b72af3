//! Submissions: commands that the page encoded, over buffers that it names.

use crate::driver::Commands;
use crate::named::{buffer_of, device_of, list, told};
use crate::task;
use rig::driver::{Access, Native};
use rig::embed::Submission;
use std::sync::Arc;

/// Submits work: commands of the page where `commands` is above 0, over the buffers that were
/// listed. The list holds the count of reads, that of writes, then both, then a device and a value
/// for each point to follow. Answers the value; 0 if it would have to wait.
#[unsafe(no_mangle)]
extern "C" fn submit(device: u32, commands: f64) -> f64 {
    match task::once(listed(device, commands).submit()) {
        Some(point) => told(point, |point| point.value() as f64),
        None => 0.0,
    }
}

/// Submits like [`submit`], once nothing has to be waited for.
#[unsafe(no_mangle)]
extern "C" fn submit_when_ready(ticket: f64, device: u32, commands: f64) {
    let work = listed(device, commands);
    task::start(ticket, async move {
        task::answer(work.submit().await?.value() as f64);
        Ok(())
    });
}

/// Returns work of the page with what was listed for it.
fn listed(device: u32, commands: f64) -> Submission {
    let list = list();
    let (reads, writes) = (list[0] as usize, list[1] as usize);
    let (named, after) = list[2..].split_at(reads + writes);
    let access = |at: usize| if at < reads { Access::Read } else { Access::Write };
    let uses = named.iter().enumerate().map(|(at, number)| (buffer_of(*number), access(at)));
    let waits = after.chunks_exact(2).map(|point| (device_of(point[0] as u32), point[1] as u64));
    Submission {
        device: device_of(device),
        native: (commands > 0.0).then(|| Native(Arc::new(Commands(commands)))),
        uses: uses.collect(),
        waits: waits.collect(),
    }
}
