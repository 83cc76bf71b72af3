//! Submissions: commands that the page encoded, over buffers that it names.

use crate::driver::Commands;
use crate::named::{buffer_of, device_of, list, told};
use crate::task;
use crate::told::Failed;
use rig::driver::Native;
use rig::{Buffer, Device, Point, embed};
use std::sync::Arc;

/// Submits work: commands of the page where `commands` is above 0, over the buffers that were
/// listed. The list holds the count of reads, that of writes, then both, then a device and a value
/// for each point to follow. Answers the value; 0 if it would have to wait.
#[unsafe(no_mangle)]
extern "C" fn submit(device: u32, commands: f64) -> f64 {
    let work = Submission::listed(device, commands);
    match task::once(work.run()) {
        Some(point) => told(point, |point| point.value() as f64),
        None => 0.0,
    }
}

/// Submits like [`submit`], once nothing has to be waited for.
#[unsafe(no_mangle)]
extern "C" fn submit_when_ready(ticket: f64, device: u32, commands: f64) {
    let work = Submission::listed(device, commands);
    task::start(ticket, async move { Ok(work.run().await?.value() as f64) });
}

/// Work of the page and what it names.
struct Submission {
    device: Device,
    commands: Option<Commands>,
    reads: Vec<Buffer>,
    writes: Vec<Buffer>,
    after: Vec<(Device, u64)>,
}

impl Submission {
    fn listed(device: u32, commands: f64) -> Self {
        let list = list();
        let (reads, writes) = (list[0] as usize, list[1] as usize);
        let buffers = |from: usize, count: usize| {
            list[from..from + count].iter().map(|number| buffer_of(*number)).collect()
        };
        let after = list[2 + reads + writes..].chunks_exact(2);
        Self {
            device: device_of(device),
            commands: (commands > 0.0).then_some(Commands(commands)),
            reads: buffers(2, reads),
            writes: buffers(2 + reads, writes),
            after: after.map(|point| (device_of(point[0] as u32), point[1] as u64)).collect(),
        }
    }

    async fn run(self) -> Result<Point, Failed> {
        let mut waits = Vec::with_capacity(self.after.len());
        for (device, value) in &self.after {
            waits.push(device.point(*value).map_err(|error| Failed::renamed(error, "submit"))?);
        }
        let work = embed::Submission {
            device: &self.device,
            native: self.commands.map(|commands| Native(Arc::new(commands))),
            reads: &self.reads,
            writes: &self.writes,
            waits: &waits,
        };
        Ok(work.submit().await?)
    }
}
