//! Streaming: a GPU works through 1 GiB under a budget of 128 MiB.
//!
//! Nobody frees a buffer: each piece has one of its own, and the memory of those that are done
//! serves the next. Nor does a program wait for its work: that of a piece runs while the host moves
//! the next one.
//!
//! The first stream looks at the headers of a database's pages, 8 bytes of each 4 KiB, so that the
//! copies are the greater part even where a processor plays the GPU: one that looked at every word
//! would take longer there than the copies. They go up through staging, and by the GPU itself where
//! it maps host memory. The second squares every number and fetches all of them: one thread sends,
//! another fetches and looks.
//!
//! What the copies take alone, and the work, is measured in the same run, in turn; in a release
//! build the least of a few rounds counts.
//!
//! A GPU of its own works beside the host, one thing after the other on wgpu's one queue; none of
//! hardware has run this yet. A software one works on the cores that move the bytes and look at
//! them. There the squares cost more than the copies, and all of it adds up.
//!
//! The rules are S4.7, S7.5, S9.3 and S10.3 of SEMANTICS.md.

use rig::wgpu::{Options, wgsl};
use rig::{Buffer, Device, Error, Kernel, Result};
use std::sync::mpsc::sync_channel;
use std::thread::scope;
use std::time::{Duration, Instant};

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

    let pages = Pages::new(&gpu)?;
    let source = &pages.source;
    report("pages, through staging", ROUNDS, |what| pages.stream(source, what))?;
    match source.borrow(&gpu)? {
        Some(there) => {
            report("pages, by the GPU itself", ROUNDS, |what| pages.stream(&there, what))?;
        }
        None => println!("this GPU maps no host memory, so it does not copy by itself"),
    }
    let squares = Squares::new(&gpu)?;
    report("squares, there and back", ROUNDS.div_ceil(2), |what| squares.stream(what))?;

    let peak = gpu.stats().peak_held_bytes;
    println!("at most {} held at a time, of a budget of {}", mib(peak), mib(BUDGET));
    assert!(peak <= BUDGET, "the budget holds");
    Ok(())
}

/// What is done with each piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Do {
    Copy,
    Work,
    Both,
}

/// Much goes up, and little comes back: the free bytes in one table's pages, another table in each
/// piece. A page's header says whose it is, and how many of its bytes are free.
struct Pages {
    gpu: Device,
    scan: Kernel,
    /// The pages, a piece that is sent again and again.
    source: Buffer,
    /// The free bytes of each table.
    free: [u32; COUNT as usize],
}

impl Pages {
    fn new(gpu: &Device) -> Result<Self> {
        let source = rig::host().create_buffer(LEN)?;
        let mut free = [0; COUNT as usize];
        source.write_as::<[u32; PAGE], _>(|pages| {
            for (page, at) in pages.iter_mut().zip(0_u32..) {
                let (table, bytes) = (at * 7 % COUNT as u32, at % 1400);
                *page = [at; PAGE];
                page[..2].copy_from_slice(&[table, bytes]);
                free[table as usize] += bytes;
            }
        })?;
        let (gpu, scan) = (gpu.clone(), gpu.kernel(wgsl(SCAN, "scan"))?);
        Ok(Self { gpu, scan, source, free })
    }

    /// Sends the pages from there, and adds up a table's in each piece.
    fn stream(&self, from: &Buffer, what: Do) -> Result<()> {
        let sums = self.gpu.create_buffer(COUNT * SUMS_LEN)?;
        let mut x = self.gpu.create_buffer(LEN)?;
        rig::copy(from, &x)?;
        for piece in 0..COUNT {
            let sums = sums.view(piece * SUMS_LEN, SUMS_LEN)?;
            if what == Do::Work {
                self.submit(&x, &sums, piece)?;
                continue;
            }
            x = self.gpu.create_buffer(LEN)?;
            if from.device() == self.gpu {
                self.direct(from, &x, &sums, piece, what)?;
                continue;
            }
            rig::copy(from, &x)?;
            if what == Do::Both {
                self.submit(&x, &sums, piece)?;
            }
        }
        self.gpu.wait(self.gpu.submitted())?;
        if what == Do::Copy { Ok(()) } else { self.check(&sums) }
    }

    fn submit(&self, x: &Buffer, sums: &Buffer, piece: u64) -> Result<()> {
        // Does not wait.
        self.scan.launch(SCANS).reads(x).writes(sums).args(&number(piece)).submit().map(drop)
    }

    /// Lets the GPU copy a piece by itself, in one submission with the work on it.
    fn direct(&self, from: &Buffer, x: &Buffer, sums: &Buffer, piece: u64, what: Do) -> Result<()> {
        let mut parts = self.gpu.prepare().copy(from, x);
        if what == Do::Both {
            let launch = parts.launch(&self.scan, SCANS).reads(x).writes(sums);
            parts = launch.args(&number(piece)).after(0);
        }
        parts.build()?.submit(&[], &[]).map(drop) // Does not wait.
    }

    fn check(&self, sums: &Buffer) -> Result<()> {
        let found = rig::host().create_buffer(sums.len())?;
        rig::copy(sums, &found)?;
        found.read_as::<u32, _>(|found| {
            for (sums, free) in found.chunks((SUMS_LEN / 4) as usize).zip(self.free) {
                assert_eq!(sums.iter().sum::<u32>(), free, "each piece is right");
            }
        })
    }
}

/// As much comes back as goes up: the squares of numbers, one further in each piece.
struct Squares {
    gpu: Device,
    square: Kernel,
    /// The numbers, a piece that is sent again and again.
    source: Buffer,
    results: Buffer,
    numbers: Vec<u32>,
    squares: Vec<u32>,
}

impl Squares {
    fn new(gpu: &Device) -> Result<Self> {
        let numbers: Vec<u32> = (0..WORDS).collect();
        let (source, results) = (rig::host().create_buffer(LEN)?, rig::host().create_buffer(LEN)?);
        source.write_as::<u32, _>(|words| words.copy_from_slice(&numbers))?;
        let squares = (0..WORDS + COUNT as u32).map(|n| n.wrapping_mul(n)).collect();
        let (gpu, square) = (gpu.clone(), gpu.kernel(wgsl(SQUARE, "square"))?);
        Ok(Self { gpu, square, source, results, numbers, squares })
    }

    fn stream(&self, what: Do) -> Result<()> {
        if what == Do::Work { self.work() } else { self.there_and_back(what) }
    }

    /// Does the work of all pieces on one that stays on the device.
    fn work(&self) -> Result<()> {
        let x = self.gpu.create_buffer(LEN)?;
        rig::copy(&self.source, &x)?;
        for piece in 0..COUNT {
            self.submit(&x, piece)?;
        }
        self.gpu.wait(self.gpu.submitted())
    }

    fn submit(&self, x: &Buffer, piece: u64) -> Result<()> {
        // Does not wait.
        self.square.launch(SQUARES).writes(x).args(&number(piece)).submit().map(drop)
    }

    fn there_and_back(&self, what: Do) -> Result<()> {
        let (give, take) = sync_channel(1);
        scope(|threads| {
            let sender = threads.spawn(move || -> Result<()> {
                for piece in 0..COUNT {
                    let x = self.gpu.create_buffer(LEN)?;
                    rig::copy(&self.source, &x)?;
                    if what == Do::Both {
                        self.submit(&x, piece)?;
                    }
                    if give.send(x).is_err() {
                        break; // The fetching thread met an error, and tells of it.
                    }
                }
                Ok(())
            });
            for (piece, x) in (0..COUNT).zip(take) {
                rig::copy(&x, &self.results)?;
                self.check(piece, what)?;
            }
            sender.join().expect("it does not panic")
        })
    }

    fn check(&self, piece: u64, what: Do) -> Result<()> {
        let expected = match what {
            Do::Copy => &self.numbers[..],
            _ => &self.squares[piece as usize..][..WORDS as usize],
        };
        let is_right = self.results.read_as::<u32, _>(|words| words == expected)?;
        assert!(is_right, "piece {piece} is right");
        Ok(())
    }
}

/// Measures a stream beside what bounds it.
fn report(name: &str, rounds: u32, stream: impl Fn(Do) -> Result<()>) -> Result<()> {
    let mut least = [Duration::MAX; 3];
    for _ in 0..rounds {
        for (least, what) in least.iter_mut().zip([Do::Copy, Do::Work, Do::Both]) {
            let begun = Instant::now();
            stream(what)?;
            *least = begun.elapsed().min(*least);
        }
    }
    let [copies, work, both] = least.map(|took| took.as_secs_f64());
    let rate = (COUNT * LEN) as f64 / both / 1e9;
    println!("{name}: {both:.2} s, {rate:.1} GB/s");
    println!("  the copies alone {copies:.2} s, the work alone {work:.2} s");
    println!("  {:.0} % of the speed of the copies alone,", 100.0 * copies / both);
    println!("  {:.0} % of that of one, then the other", 100.0 * (copies + work) / both);
    Ok(())
}

/// A piece's number, as arguments.
fn number(piece: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[..8].copy_from_slice(&piece.to_ne_bytes());
    args
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

const BUDGET: u64 = 128 << 20;
const COUNT: u64 = 64;
const LEN: u64 = 16 << 20;
const WORDS: u32 = (LEN / 4) as u32;
/// A debug build shows that all is right. How fast it goes, a release build says.
const ROUNDS: u32 = if cfg!(debug_assertions) { 1 } else { 5 };
/// The words of a page.
const PAGE: usize = 1024;
/// Each member of a group steps through a piece by as much as all groups take in one step.
const SCANS: [u32; 3] = [4, 1, 1];
const SQUARES: [u32; 3] = [256, 1, 1];
/// One sum of each member.
const SUMS_LEN: u64 = 4 * 256 * SCANS[0] as u64;
const SCAN: &str = "
    struct Page { table: u32, free: u32, rows: array<u32, 1022> }

    @group(0) @binding(0) var<storage, read> pages: array<Page>;
    @group(0) @binding(1) var<storage, read_write> sums: array<u32>;
    @group(0) @binding(2) var<uniform> table: vec4<u32>;

    @compute @workgroup_size(256)
    fn scan(
        @builtin(global_invocation_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
    ) {
        var sum = 0u;
        for (var at = id.x; at < arrayLength(&pages); at += 256u * groups.x) {
            if pages[at].table == table.x {
                sum += pages[at].free;
            }
        }
        sums[id.x] = sum;
    }
";
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
