//! S2.6, S8.8: values whose work waits to be submitted together.

use crate::found::{open_batching, options};
use rig::driver::Addressed;
use rig::wgpu::{Batching, Options, encode, handles, lend, wgsl};
use rig::{Device, Error, Hold, Misuse};
use rig_support::drain;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use wgpu::{BufferDescriptor, BufferUsages, MapMode};

fn value_of(x: &rig::Buffer) -> u32 {
    let mut seen = [0; 4];
    x.blit_to(0, &mut seen).unwrap();
    u32::from_ne_bytes(seen)
}

#[test]
fn s8_8_values_that_wait_for_each_other_run_in_their_order_each_with_its_arguments() {
    let Some(d) = open_batching("batched order") else { return };
    let x = d.create_buffer(4).unwrap();
    x.fill(0).unwrap();
    let step = d.kernel(wgsl(STEP, "step")).unwrap();
    // Enough for full batches, and for more arguments than one page of them holds.
    let mut expected = 0_u32;
    for by in 0..1_000_u32 {
        step.launch([1, 1, 1]).writes(&x).args(&by.to_ne_bytes()).submit().unwrap();
        expected = expected.wrapping_mul(3).wrapping_add(by);
    }
    assert_eq!((value_of(&x), d.lost()), (expected, None));
}

#[test]
fn s8_8_what_is_rejected_in_a_batch_takes_no_value_and_the_others_run() {
    let Some(d) = open_batching("batched and wrong") else { return };
    let x = d.create_buffer(1024).unwrap();
    x.fill(0).unwrap();
    let step = d.kernel(wgsl(STEP, "step")).unwrap();
    let odd = x.view(4, 4).unwrap();
    for by in [1_u32, 2] {
        step.launch([1, 1, 1]).writes(&x).args(&by.to_ne_bytes()).submit().unwrap();
        let submitted = d.submitted();
        let wrong = step.launch([1, 1, 1]).writes(&odd).args(&[9; 4]).submit();
        assert!(matches!(wrong, Err(Error::Misuse { what: Misuse::Rejected { .. }, .. })));
        assert_eq!(d.submitted(), submitted);
    }
    assert_eq!(value_of(&x), 5);
}

#[test]
fn s8_8_what_wgpu_refuses_once_it_is_recorded_harms_no_value_of_the_batch() {
    let Some(d) = open_batching("batched and refused") else { return };
    let x = d.create_buffer(1024).unwrap();
    x.fill(0).unwrap();
    let step = d.kernel(wgsl(STEP, "step")).unwrap();
    let both = d.kernel(wgsl(BOTH, "both")).unwrap();
    let (low, high) = (x.view(0, 512).unwrap(), x.view(512, 512).unwrap());
    let launch = |by: u32| step.launch([1, 1, 1]).writes(&x).args(&by.to_ne_bytes()).submit();
    launch(1).unwrap();
    let submitted = d.submitted();
    let wrong = [
        step.launch([70_000, 1, 1]).writes(&x).args(&[9; 4]).submit(),
        both.launch([1, 1, 1]).reads(&low).writes(&high).submit(),
    ];
    for (at, wrong) in wrong.into_iter().enumerate() {
        let told = matches!(wrong, Err(Error::Misuse { what: Misuse::Rejected { .. }, .. }));
        assert!(told, "launch {at}: {wrong:?}");
    }
    assert_eq!(d.submitted(), submitted);
    launch(2).unwrap();
    assert_eq!((value_of(&x), d.lost()), (5, None));
}

#[test]
fn s2_6_batched_work_that_nobody_waits_for_runs_by_itself() {
    let Some(d) = open_batching("batched and left") else { return };
    let x = d.create_buffer(4).unwrap();
    let (told, done) = mpsc::channel();
    let hold = Hold::new(move || told.send(()).unwrap());
    let fill = d.prepare().fill(&x, 1).build().unwrap();
    fill.submit_holding(&[], &[], &[&hold]).unwrap();
    // Nothing of rig is called meanwhile.
    done.recv_timeout(Duration::from_secs(60)).expect("the tick lets go of the hold");
}

#[test]
fn s8_8_what_the_program_can_reach_by_itself_waits_for_nothing() {
    let Some(d) = open_batching("batched and lent") else { return };
    let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
    d.prepare().fill(&x, 3).build().unwrap().submit(&[], &[]).unwrap();
    // Lending submits what names the memory, and later work with it is submitted at once: the
    // program's own submission is behind both.
    let lent = lend(&x).unwrap();
    d.prepare().fill(&x.view(0, 32).unwrap(), 4).build().unwrap().submit(&[], &[]).unwrap();
    let (device, queue) = handles(&d).unwrap();
    let usage = BufferUsages::COPY_DST | BufferUsages::MAP_READ;
    let ask = BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
    let seen = device.create_buffer(&ask);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&lent.buffer, lent.offset, &seen, 0, 64);
    queue.submit([encoder.finish()]);
    seen.map_async(MapMode::Read, .., |mapped| mapped.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    while seen.get_mapped_range(..).is_err() {
        std::thread::yield_now();
    }
    let bytes = seen.get_mapped_range(..).unwrap().to_vec();
    assert_eq!((bytes[0], bytes[31], bytes[32], bytes[63]), (4, 4, 3, 3));
    // So is what the program encodes itself, behind what waits.
    d.prepare().fill(&y, 6).build().unwrap().submit(&[], &[]).unwrap();
    let clear = encode(|encoder, places| {
        encoder.clear_buffer(&places[0].buffer, places[0].offset, Some(4));
    });
    d.prepare().native(clear).writes(&y).build().unwrap().submit(&[], &[]).unwrap();
    let mut out = [0; 8];
    y.blit_to(0, &mut out).unwrap();
    assert_eq!(out, [0, 0, 0, 0, 6, 6, 6, 6]);
}

#[test]
fn s0_7_a_callback_inside_the_submission_of_a_batch_may_wait_for_it() {
    let Some(d) = open_batching("batched callback") else { return };
    let (device, _) = handles(&d).unwrap();
    let usage = BufferUsages::COPY_SRC | BufferUsages::MAP_WRITE;
    let ask = BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
    let own = device.create_buffer(&ask);
    let x = d.create_buffer(64).unwrap();
    let fill = d.prepare().fill(&x, 1).build().unwrap();
    for _ in 0..20 {
        let point = fill.submit(&[], &[]).unwrap();
        let (told, done) = mpsc::channel();
        // It runs in whatever looks at wgpu next: the submission of the batch, as a rule.
        own.map_async(MapMode::Write, .., move |_| told.send(point.wait().is_ok()).unwrap());
        point.wait().unwrap();
        device.poll(wgpu::PollType::Poll).unwrap();
        assert!(done.recv_timeout(Duration::from_secs(60)).expect("no wait hangs"));
        own.unmap();
    }
}

#[test]
fn s1_9_a_map_of_memory_that_a_batch_names_submits_it_first() {
    let Some(options) = options("batched and mapped", Addressed::WhileMapped) else { return };
    let options = Options { batching: Batching::On, ..options };
    let Ok(d) = rig::wgpu::open(options) else { return };
    let (x, y) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
    x.write(|bytes| bytes.fill(5)).unwrap();
    for round in 0..20_u8 {
        d.prepare().copy(&x, &y).build().unwrap().submit(&[], &[]).unwrap();
        // A reader of what the batch only reads waits for no work.
        assert_eq!(x.read(|bytes| bytes[63]).unwrap(), 5);
        d.prepare().fill(&y, round).build().unwrap().submit(&[], &[]).unwrap();
        assert_eq!(y.read(|bytes| bytes[63]).unwrap(), round);
    }
    assert_eq!(d.lost(), None);
}

#[test]
fn s8_8_threads_that_submit_and_wait_share_batches_in_order() {
    let Some(d) = open_batching("batched threads") else { return };
    let sum = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for seed in 0..2_u8 {
            let (d, sum) = (&d, &sum);
            scope.spawn(move || {
                let x = d.create_buffer(256).unwrap();
                for round in 0..100_u8 {
                    let (first, second) = (round ^ seed, round.wrapping_add(seed));
                    d.prepare().fill(&x, first).build().unwrap().submit(&[], &[]).unwrap();
                    d.prepare().fill(&x, second).build().unwrap().submit(&[], &[]).unwrap();
                    if round % 8 == seed {
                        let mut out = [0; 1];
                        x.blit_to(255, &mut out).unwrap();
                        assert_eq!(out, [second]);
                        sum.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    drain(&d);
    assert!(sum.load(Ordering::Relaxed) > 20 && d.lost().is_none());
    close(d);
}

fn close(d: Device) {
    let x = d.create_buffer(4).unwrap();
    let fill = Arc::new(d.prepare().fill(&x, 1).build().unwrap());
    let point = fill.submit(&[], &[]).unwrap();
    d.close().unwrap();
    // Closing waits for what was submitted before it, batched or not (S12.5).
    assert_eq!(d.reached(), point.value());
}

const STEP: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @group(0) @binding(1) var<uniform> by: vec4<u32>;

    @compute @workgroup_size(1)
    fn step() {
        words[0] = words[0] * 3u + by.x;
    }
";

/// Reads and writes one buffer, of which wgpu lets a dispatch do one.
const BOTH: &str = "
@group(0) @binding(0) var<storage, read> src: array<u32>;
@group(0) @binding(1) var<storage, read_write> dst: array<u32>;
@compute @workgroup_size(1)
fn both() { dst[0] = src[0]; }
";
