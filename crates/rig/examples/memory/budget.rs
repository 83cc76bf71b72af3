//! A budget that holds: buffers come and go within it, and what cannot fit is told with reasons.

use crate::page::{explain, heading, number, size};
use crate::table::Table;
use rig::{Buffer, Device, Error, Result};

/// Runs the budget program on a device.
pub fn show(device: &Device) -> Result<()> {
    heading(&format!("{}: a budget that holds", device.name()));
    explain(
        "A budget is the most bytes that a device may hold. This one gets a budget of 1 MiB. The \
         program makes 100 buffers of 256 KiB and lets go of each before it makes the next. What \
         it let go of goes to a cache, and serves the next buffer. Then it makes four and keeps \
         them. Then it asks for a fifth.",
    );
    let before = device.budget();
    device.set_budget(BUDGET)?;
    device.reset_peaks();
    let mut tally = Tally::new(device);
    for _ in 0..ROUNDS {
        device.create_buffer(LEN)?;
    }
    let served = tally.note("100 buffers, none kept")?;
    assert_eq!(served, (99, 1), "the driver was asked once, the cache for the rest");

    let label = || device.buffer(LEN).label("kept").create();
    let kept: Vec<Buffer> = (0..4).map(|_| label()).collect::<Result<_>>()?;
    assert_eq!(tally.note("4 buffers, all kept")?, (100, 4));

    let fifth = device.create_buffer(LEN);
    tally.note("a fifth, which fails")?;

    drop(kept);
    let whole = device.create_buffer(BUDGET)?;
    assert_eq!(tally.note("the 4 let go of, one of 1 MiB")?, (100, 5));
    tally.table.print();

    println!("{ROUNDS} buffers of {} allocated, none kept\n", size(LEN));
    explain(
        "The four fill the budget, so there was no room for a fifth. Before rig says so, it tries \
         three times to make room: it waits for work that still uses memory, takes back what was \
         let go of, and empties the cache. All four were in use, so nothing could be taken back. \
         The error says this in numbers:",
    );
    let Err(Error::OutOfMemory { asked_bytes, report, .. }) = fifth else {
        panic!("a fifth buffer does not fit");
    };
    assert_eq!(report.rounds.len(), 3);
    println!("out of memory: {}", size(asked_bytes));
    report.to_string().lines().for_each(|line| println!("  {line}"));
    println!();
    explain(
        "Once the program let go of the four, one buffer of the whole budget fits: their memory \
         went back to the driver to make room for it. The device never held more than 1 MiB.",
    );
    drop(whole);
    device.set_budget(before)
}

/// What served the requests since the start, and what the device holds, one row a step.
struct Tally<'a> {
    device: &'a Device,
    start: [u64; 4],
    table: Table,
}

impl<'a> Tally<'a> {
    fn new(device: &'a Device) -> Self {
        let titles = ["after", "from the cache", "from the driver", "held", "in use", "cached"];
        Self { device, start: device.stats().kind_counts, table: Table::new(&titles) }
    }

    /// Adds a row; answers how many requests the cache served, and how many the driver.
    fn note(&mut self, after: &str) -> Result<(u64, u64)> {
        // A drop only leaves a note that nobody needs the memory. Most calls take such notes up;
        // trim is one that changes little else.
        self.device.trim()?;
        let stats = self.device.stats();
        assert!(stats.peak_held_bytes <= BUDGET, "the budget holds");
        // Each may serve at once, or later, after a round.
        let count = |kind: usize| stats.kind_counts[kind] - self.start[kind];
        let (cache, driver) = (count(0) + count(2), count(1) + count(3));
        let sizes = [stats.held_bytes, stats.live_bytes, stats.cached_bytes];
        let [held, live, cached] = sizes.map(size);
        self.table.row(&[after, &number(cache), &number(driver), &held, &live, &cached]);
        Ok((cache, driver))
    }
}

const BUDGET: u64 = 1 << 20;
const LEN: u64 = 256 << 10;
const ROUNDS: u64 = 100;
