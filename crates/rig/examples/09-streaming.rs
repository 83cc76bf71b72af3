//! Streaming: a GPU works through 1 GiB under a budget of 128 MiB.
//!
//! Nobody frees a buffer, and only who looks at results waits for them, so the copies and the work
//! of several pieces are under way at a time. Where the GPU maps host memory it copies by itself,
//! without staging; through staging, one thread sends and another fetches. What the copies take
//! alone, and the work, is measured in the same run.
//!
//! A GPU of its own does its part, copies and work one after the other on wgpu's one queue, beside
//! the host's. It is meant to go at the speed of the copies where the work is the lesser part; no
//! hardware has shown that yet. A software one works on the cores that move the bytes and look at
//! them: there all of it adds up.
//!
//! The rules are S4.7, S7.5, S9.3 and S10.3 of SEMANTICS.md.

use rig::wgpu::{Options, wgsl};
use rig::{Buffer, Device, Error, Kernel, Result};
use std::sync::mpsc::sync_channel;
use std::thread::scope;
use std::time::{Duration, Instant};
use wgpu::DeviceType;

fn main() -> Result<()> {
    let gpu = match rig::wgpu::open(Options::default()) {
        Ok(gpu) => gpu,
        Err(Error::Unsupported { why, .. }) => {
            println!("there is no GPU to stream through: {why}");
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    gpu.set_budget(BUDGET)?;
    println!("{} in pieces of {} through {gpu:?}", mib(COUNT * LEN), mib(LEN));
    let stream = Stream::new(&gpu)?;
    let work = time(|| stream.work())?;
    println!("the work alone        {}", speed(work));

    report("through staging", work, |what| stream.staged(what))?;
    match There::of(&stream)? {
        Some(there) => report("by the GPU itself", work, |what| stream.direct(&there, what))?,
        None => println!("this GPU maps no host memory, so it does not copy by itself"),
    }

    let peak = gpu.stats().peak_held_bytes;
    println!("at most {} held at a time, of a budget of {}", mib(peak), mib(BUDGET));
    assert!(peak <= BUDGET, "the budget holds");
    if rig::wgpu::handles(&gpu)?.0.adapter_info().device_type == DeviceType::Cpu {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        println!("this GPU is software: its work and the copies share {cores} cores, and add up");
    }
    Ok(())
}

/// What goes through, and where from and where to: a piece each, used again and again.
struct Stream {
    gpu: Device,
    square: Kernel,
    source: Buffer,
    /// The device fills one while the host looks at the other.
    results: [Buffer; 2],
    numbers: Vec<u32>,
    squares: Vec<u32>,
}

/// The source and the results as the GPU sees them in place.
struct There {
    source: Buffer,
    results: [Buffer; 2],
}

/// What is done with a piece on the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Do {
    Nothing,
    Work,
}

impl Stream {
    fn new(gpu: &Device) -> Result<Self> {
        let numbers: Vec<u32> = (0..WORDS).collect();
        let make = || rig::host().create_buffer(LEN);
        let (source, results) = (make()?, [make()?, make()?]);
        source.write_as::<u32, _>(|words| words.copy_from_slice(&numbers))?;
        let squares = (0..WORDS + COUNT as u32).map(|n| n.wrapping_mul(n)).collect();
        let (gpu, square) = (gpu.clone(), gpu.kernel(wgsl(SQUARE, "square"))?);
        Ok(Self { gpu, square, source, results, numbers, squares })
    }

    /// Does the work of all pieces on one that stays on the device.
    fn work(&self) -> Result<()> {
        let x = self.gpu.create_buffer(LEN)?;
        for piece in 0..COUNT {
            self.submit_work(&x, piece)?;
        }
        self.gpu.wait(self.gpu.submitted())
    }

    fn submit_work(&self, x: &Buffer, piece: u64) -> Result<()> {
        // Does not wait.
        self.square.launch(GROUPS).writes(x).args(&first(piece)).submit().map(drop)
    }

    /// Streams through staging. Each piece has a buffer of its own.
    fn staged(&self, what: Do) -> Result<()> {
        let (give, take) = sync_channel(1);
        scope(|threads| {
            let sender = threads.spawn(move || -> Result<()> {
                for piece in 0..COUNT {
                    let x = self.gpu.create_buffer(LEN)?;
                    rig::copy(&self.source, &x)?;
                    if what == Do::Work {
                        self.submit_work(&x, piece)?;
                    }
                    if give.send(x).is_err() {
                        break; // The fetching thread met an error, and tells of it.
                    }
                }
                Ok(())
            });
            for (piece, x) in (0..COUNT).zip(take) {
                rig::copy(&x, &self.results[0])?;
                self.look(&self.results[0], piece, what)?;
            }
            sender.join().expect("it does not panic")
        })
    }

    /// Streams by what the GPU copies itself, a submission a piece. Each has a buffer of its own.
    fn direct(&self, there: &There, what: Do) -> Result<()> {
        for piece in 0..=COUNT {
            let at = |piece: u64| (piece % 2) as usize;
            if piece < COUNT {
                let x = self.gpu.create_buffer(LEN)?;
                let mut parts = self.gpu.prepare().copy(&there.source, &x);
                if what == Do::Work {
                    let parts_then = parts.launch(&self.square, GROUPS).writes(&x);
                    parts = parts_then.args(&first(piece)).after(0);
                }
                let parts = parts.copy(&x, &there.results[at(piece)]).after(0);
                parts.build()?.submit(&[], &[])?; // Does not wait.
            }
            // The host looks at a piece while the device is at the next one.
            if let Some(last) = piece.checked_sub(1) {
                self.look(&self.results[at(last)], last, what)?;
            }
        }
        Ok(())
    }

    /// Waits for a piece's results, and checks them.
    fn look(&self, results: &Buffer, piece: u64, what: Do) -> Result<()> {
        let expected = match what {
            Do::Nothing => &self.numbers[..],
            Do::Work => &self.squares[piece as usize..][..WORDS as usize],
        };
        assert!(self.gpu.held() <= BUDGET);
        results.read_as::<u32, _>(|words| assert!(words == expected, "piece {piece} is right"))
    }
}

impl There {
    /// Lets the GPU reach the host's memory; none where it cannot.
    fn of(stream: &Stream) -> Result<Option<Self>> {
        let borrow = |buffer: &Buffer| buffer.borrow(&stream.gpu);
        let [one, other] = &stream.results;
        let all = [borrow(&stream.source)?, borrow(one)?, borrow(other)?];
        let [Some(source), Some(one), Some(other)] = all else { return Ok(None) };
        Ok(Some(Self { source, results: [one, other] }))
    }
}

/// Measures one way of streaming beside what bounds it.
fn report(way: &str, work: Duration, run: impl Fn(Do) -> Result<()>) -> Result<()> {
    let copies = time(|| run(Do::Nothing))?;
    let both = time(|| run(Do::Work))?;
    println!("{way}");
    println!("  the copies alone    {}", speed(copies));
    println!("  one, then the other {}", speed(copies + work));
    println!("  both, streamed      {}", speed(both));
    let share = |of: Duration| 100.0 * of.as_secs_f64() / both.as_secs_f64();
    let (bound, longer) = match copies > work {
        true => (copies, "copies"),
        false => (work, "work"),
    };
    println!("  that is {:.0} % of the speed of its {longer} alone,", share(bound));
    println!("  and {:.0} % of that of one, then the other", share(copies + work));
    Ok(())
}

fn time(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
}

/// The number that all of a piece have added.
fn first(piece: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[..8].copy_from_slice(&piece.to_ne_bytes());
    args
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Writes a time, and how fast it is for all bytes there and back.
fn speed(took: Duration) -> String {
    let rate = (2 * COUNT * LEN) as f64 / took.as_secs_f64() / 1e9;
    format!("{:.2} s, {rate:.2} GB/s", took.as_secs_f64())
}

const BUDGET: u64 = 128 << 20;
const COUNT: u64 = 64;
const LEN: u64 = 16 << 20;
const WORDS: u32 = (LEN / 4) as u32;
/// Each member of a group steps through the words by as much as all groups take in one step.
const GROUPS: [u32; 3] = [256, 1, 1];
const SQUARE: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<vec4<u32>>;
    @group(0) @binding(1) var<uniform> first: vec4<u32>;

    @compute @workgroup_size(256)
    fn square(
        @builtin(global_invocation_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
    ) {
        for (var at = id.x; at < arrayLength(&words); at += 256u * groups.x) {
            let numbers = words[at] + first.x;
            words[at] = numbers * numbers;
        }
    }
";
