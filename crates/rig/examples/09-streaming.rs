//! Streaming: a GPU works through 1 GiB under a budget of 128 MiB.
//!
//! A GPU of its own works beside the copies, and should let them go at their speed; a software one
//! takes the cores that move the bytes. What the copies take alone is measured beside the stream.
//!
//! The rules are S7.5, S9.3 and S10.3 of SEMANTICS.md.

use rig::wgpu::{Options, wgsl};
use rig::{Buffer, Device, Error, Kernel, Result};
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
    let square = gpu.kernel(wgsl(SQUARE, "square"))?;

    // What comes from the host and what returns there is a piece each, used again and again.
    let numbers: Vec<u32> = (0..WORDS).collect();
    let (source, results) = (rig::wrap(numbers.clone()), rig::host().create_buffer(LEN)?);

    // What the copies take alone, with the same look at what comes back, and the work alone, on
    // one piece that stays on the device.
    let x = gpu.create_buffer(LEN)?;
    let copies = time(|| {
        (0..COUNT).try_for_each(|_| {
            rig::copy(&source, &x)?;
            rig::copy(&x, &results)?;
            results.read_as::<u32, _>(|words| assert!(words == numbers))
        })
    })?;
    let work = time(|| {
        let launch = || square.launch(GROUPS).writes(&x).args(&[0; 4]).submit();
        (0..COUNT).try_for_each(|_| launch().map(drop))?;
        gpu.wait(gpu.submitted())
    })?;

    // Both together, with a budget.
    gpu.reset_peaks();
    let stream = stream(&gpu, &square, &source, &results)?;
    let peak = gpu.stats().peak_held_bytes;
    println!("at most {} held at a time, of a budget of {}", mib(peak), mib(BUDGET));
    assert!(peak <= BUDGET, "the budget holds");
    println!("the copies alone  {}", speed(copies));
    println!("the work alone    {}", speed(work));
    println!("both, streamed    {}", speed(stream));
    let share = 100.0 * copies.as_secs_f64() / stream.as_secs_f64();
    println!("the stream ran at {share:.0} % of the speed of its copies");
    if rig::wgpu::handles(&gpu)?.0.adapter_info().device_type == DeviceType::Cpu {
        println!("this GPU is software: its work takes the cores that move the bytes");
    }
    Ok(())
}

/// Works through everything and checks it. Each piece has a buffer of its own; nobody frees one.
fn stream(gpu: &Device, square: &Kernel, source: &Buffer, results: &Buffer) -> Result<Duration> {
    let expected: Vec<u32> = (0..WORDS + COUNT as u32).map(|n| n.wrapping_mul(n)).collect();
    let mut last: Option<Buffer> = None;
    time(|| {
        for piece in 0..=COUNT {
            // The host moves bytes of this piece while the device still works on the last one.
            let x = if piece < COUNT { Some(send(gpu, source)?) } else { None };
            let done = last.take().map(|last| rig::copy(&last, results)).transpose()?;
            if let Some(x) = &x {
                let first = (piece as u32).to_ne_bytes();
                square.launch(GROUPS).writes(x).args(&first).submit()?; // Does not wait.
            }
            last = x;
            assert!(gpu.held() <= BUDGET);
            if done.is_some() {
                let expected = &expected[piece as usize - 1..][..WORDS as usize];
                results.read_as::<u32, _>(|words| assert!(words == expected))?;
            }
        }
        Ok(())
    })
}

/// Sends a piece to a new buffer.
fn send(gpu: &Device, source: &Buffer) -> Result<Buffer> {
    let x = gpu.create_buffer(LEN)?;
    rig::copy(source, &x)?;
    Ok(x)
}

fn time(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
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
