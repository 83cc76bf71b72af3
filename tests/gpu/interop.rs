//! A program with wgpu objects of its own beside rig's.

use crate::found::{open, open_importing, open_mapped, options};
use rig::driver::Addressed;
use rig::wgpu::{adopt, encode, handles, lend, wrap};
use rig::{Device, Error, Misuse, Result};
use rig_support::drain;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wgpu::{BufferDescriptor, BufferUsages, MapMode, PollType};

fn buffer(device: &wgpu::Device, size: u64, usage: BufferUsages) -> wgpu::Buffer {
    let ask = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    device.create_buffer(&ask)
}

/// What reached the program's handler.
pub(crate) type Told = Arc<Mutex<Vec<String>>>;

/// A device that the program opened, with what reaches its handler, adopted.
pub(crate) fn adopted(name: &str) -> Option<(Device, wgpu::Device, wgpu::Queue, Told)> {
    let opened = open(&format!("{name}, opened"))?;
    let (device, queue) = handles(&opened).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let handler = move |error: wgpu::Error| tell.lock().unwrap().push(error.to_string());
    device.on_uncaptured_error(Arc::new(handler));
    let mine = options(name, Addressed::Never).unwrap();
    Some((adopt(device.clone(), queue.clone(), mine).unwrap(), device, queue, told))
}

fn is_rejected<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::Misuse { what: Misuse::Rejected { .. }, .. }))
}

#[test]
fn s8_6_a_recorded_use_stamps_what_the_program_submitted_itself() {
    let Some((d, device, queue, told)) = adopted("recorded") else { return };
    let x = d.create_buffer(64).unwrap();
    x.fill(0).unwrap();
    let lent = lend(&x.view(16, 16).unwrap()).unwrap();
    assert_eq!((lent.offset, lent.len), (16, 16));
    let own = buffer(&device, 16, BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
    queue.write_buffer(&own, 0, &[6; 16]);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&own, 0, &lent.buffer, lent.offset, lent.len);
    queue.submit([encoder.finish()]);
    let point = d.record_use(&[], &[&x]).unwrap();
    assert_eq!(x.stamps().write, Some(point));
    let mut out = [0; 18];
    x.blit_to(15, &mut out).unwrap();
    assert_eq!(out[1..17], [6; 16]);
    assert_eq!((out[0], out[17]), (0, 0));
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn s8_6_a_use_recorded_before_a_submission_too_ends_the_map_of_lent_memory() {
    let Some(d) = open_mapped("recorded and mapped") else { return };
    let (device, queue) = handles(&d).unwrap();
    let x = d.create_buffer(64).unwrap();
    let lent = lend(&x).unwrap();
    for byte in [3, 4] {
        x.write(|bytes| bytes.fill(byte)).unwrap();
        d.record_use(&[], &[&x]).unwrap();
        let mut encoder = device.create_command_encoder(&Default::default());
        encoder.clear_buffer(&lent.buffer, lent.offset, Some(32));
        queue.submit([encoder.finish()]);
        let point = d.record_use(&[], &[&x]).unwrap();
        assert_eq!(x.stamps().write, Some(point));
        x.read(|bytes| assert_eq!((bytes[31], bytes[32]), (0, byte))).unwrap();
    }
}

#[test]
fn s4_16_memory_that_is_lent_serves_nobody_else() {
    let Some((d, ..)) = adopted("lent") else { return };
    let x = d.create_buffer(4096).unwrap();
    x.fill(5).unwrap();
    let lent = lend(&x).unwrap();
    drop(x);
    drain(&d);
    assert_eq!((d.cached(), d.held(), d.stats().given_away_bytes), (0, 0, 0));
    for round in 0..20 {
        let y = d.create_buffer(4096).unwrap();
        y.fill(round).unwrap();
        assert_ne!(lend(&y).unwrap().buffer, lent.buffer);
    }
    let seen = wrap(&d, lent.buffer).unwrap();
    let mut out = [0; 4096];
    seen.blit_to(0, &mut out).unwrap();
    assert_eq!(out, [5; 4096]);
}

#[test]
fn s4_16_a_lent_buffer_is_the_programs_alone_once_nobody_can_reach_it() {
    let Some((d, device, queue, told)) = adopted("left") else { return };
    let x = d.create_buffer(64).unwrap();
    x.fill(6).unwrap();
    let lent = lend(&x).unwrap();
    drop(x);
    drain(&d);
    let seen = buffer(&device, 64, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&lent.buffer, 0, &seen, 0, 64);
    queue.submit([encoder.finish()]);
    seen.map_async(MapMode::Read, .., |mapped| mapped.unwrap());
    device.poll(PollType::wait_indefinitely()).unwrap();
    rig_support::until("it is mapped", || seen.get_mapped_range(..).is_ok());
    assert_eq!(*seen.get_mapped_range(..).unwrap(), [6; 64]);
    let stats = d.stats();
    assert_eq!((stats.held_bytes, stats.given_away_bytes), (0, 0));
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn s4_7_host_buffers_from_64_kib_on_are_borrowed_and_smaller_ones_are_not() {
    let Some(d) = open_importing("borrowed by size") else { return };
    let is_borrowed = |len| {
        let h = rig::host().create_buffer(len).unwrap();
        rig::borrow(&d, &h).unwrap().is_some()
    };
    assert!([65_536, 65_537, 100_000, 1 << 20].into_iter().all(is_borrowed));
    assert!(![1, 4_096, 65_535].into_iter().any(is_borrowed));
}

#[test]
fn s4_16_a_borrow_is_not_lent_and_its_memory_comes_back() {
    let Some(d) = open_importing("lent borrow") else { return };
    let h = rig::host().create_buffer(1 << 20).unwrap();
    let there = rig::borrow(&d, &h).unwrap().expect("it is of whole pages");
    let refused = lend(&there).map(drop);
    let Err(Error::Unsupported { why, .. }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("borrow"), "{why}");
    let before = rig::host().stats().given_away_bytes;
    drop((h, there));
    drain(&d);
    assert_eq!(rig::host().stats().given_away_bytes, before);
}

#[test]
fn s4_16_what_a_program_keeps_of_host_memory_that_it_was_shown_ends_with_the_last_borrow() {
    let Some(d) = open_importing("kept") else { return };
    let (device, queue) = handles(&d).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let handler = move |error: wgpu::Error| tell.lock().unwrap().push(error.to_string());
    device.on_uncaptured_error(Arc::new(handler));
    let h = rig::host().create_buffer(1 << 20).unwrap();
    h.fill(1).unwrap();
    let there = rig::borrow(&d, &h).unwrap().expect("it is of whole pages");
    let (keep, kept) = channel();
    let show = encode(move |_, places| keep.send(places[0].buffer.clone()).unwrap());
    let work = d.prepare().native(show).reads(&there).build().unwrap();
    work.submit(&[], &[]).unwrap().wait().unwrap();
    let kept = kept.recv().unwrap();
    drop((work, there));
    drain(&d);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.clear_buffer(&kept, 0, None);
    queue.submit([encoder.finish()]);
    device.poll(PollType::wait_indefinitely()).unwrap();
    h.read(|bytes| assert!(bytes.iter().all(|byte| *byte == 1))).unwrap();
    assert!(told.lock().unwrap().iter().any(|text| text.contains("destroyed")), "{told:?}");
    // It is mapped anew for whoever borrows it next.
    let again = rig::borrow(&d, &h).unwrap().expect("it is of whole pages");
    again.fill(2).unwrap();
    h.read(|bytes| assert_eq!(bytes[0], 2)).unwrap();
}

#[test]
fn s1_2_a_device_of_another_instance_is_another_though_wgpu_says_the_same() {
    let [Some(one), Some(two)] = ["instance 1", "instance 2"].map(open) else { return };
    let [one, two] = [&one, &two].map(|d| handles(d).unwrap());
    assert!(one.0 == two.0, "wgpu counts the devices of each instance from 1");
    let mine = || options("of one instance", Addressed::Never).unwrap();
    let d = adopt(one.0.clone(), one.1.clone(), mine()).unwrap();
    assert_eq!(adopt(one.0.clone(), one.1.clone(), mine()).unwrap(), d);
    let taken = adopt(two.0.clone(), two.1.clone(), mine());
    assert!(matches!(taken, Err(Error::Unsupported { .. })), "{taken:?}");
    // One that ended meanwhile makes way, though nobody noticed.
    one.0.destroy();
    let again = adopt(two.0, two.1, mine()).unwrap();
    assert!(again != d && d.lost().is_some());
    let x = again.create_buffer(64).unwrap();
    x.fill(3).unwrap();
    let mut out = [0; 64];
    x.blit_to(0, &mut out).unwrap();
    assert_eq!(out, [3; 64]);
}

#[test]
fn s4_4_a_wrapped_buffer_is_moved_like_any_and_charged_to_nothing() {
    let Some((d, device, ..)) = adopted("wrapped") else { return };
    let usages = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let x = wrap(&d, buffer(&device, 64, usages)).unwrap();
    x.blit_from(3, &[1, 2, 3, 4, 5]).unwrap();
    let y = d.create_buffer(64).unwrap();
    let held = d.held();
    rig::copy(&x, &y).unwrap();
    let mut out = [0; 7];
    y.blit_to(2, &mut out).unwrap();
    assert_eq!(out, [0, 1, 2, 3, 4, 5, 0]);
    drop(x);
    drain(&d);
    assert_eq!((d.held(), held), (64 * 8, 512));
}

#[test]
fn s4_4_a_wrapped_buffer_that_lacks_a_usage_is_unsupported_and_nothing_ran() {
    let Some((d, device, _, told)) = adopted("lacking") else { return };
    let usages = BufferUsages::COPY_DST | BufferUsages::VERTEX;
    let x = wrap(&d, buffer(&device, 64, usages)).unwrap();
    let lacks = |answer: Result<()>, usage: &str| {
        let Err(Error::Unsupported { why, .. }) = answer else { panic!("{answer:?}") };
        assert!(why.contains(usage), "{why}");
    };
    lacks(x.blit_to(0, &mut [0; 4]), "COPY_SRC");
    lacks(x.fill(7), "STORAGE");
    lacks(x.blit_from(1, &[1, 2, 3]), "STORAGE");
    let kernel = d.kernel(rig::wgpu::wgsl(ONES, "ones")).unwrap();
    lacks(kernel.launch([1, 1, 1]).writes(&x).submit().map(drop), "STORAGE");
    assert_eq!((d.submitted(), d.lost()), (0, None));
    x.blit_from(4, &[1, 2, 3, 4]).unwrap();
    x.fill(0).unwrap();
    assert!(told.lock().unwrap().is_empty());
    assert_eq!(d.submitted(), 2);
}

#[test]
fn s4_4_a_wrapped_buffer_that_no_pass_binds_gives_and_takes_whole_words_alone() {
    let Some((d, device, ..)) = adopted("copied only") else { return };
    let usages = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let x = wrap(&d, buffer(&device, 64, usages)).unwrap();
    x.blit_from(0, &[5; 64]).unwrap();
    assert!(x.blit_from(8, &[6; 5]).is_err());
    let mut out = [0; 64];
    x.blit_to(0, &mut out).unwrap();
    assert_eq!(out, [5; 64]);
    // From a length that is no whole number of words: what lies behind it in the half is nobody's.
    let mut part = [0; 5];
    x.blit_to(8, &mut part).unwrap();
    assert_eq!(part, [5; 5]);
    let y = d.create_buffer(7).unwrap();
    rig::copy(&x.view(9, 7).unwrap(), &y).unwrap();
    y.blit_to(0, &mut part).unwrap();
    assert_eq!(part, [5; 5]);
}

#[test]
fn s1_13_the_driver_keeps_a_stated_part_of_the_memory_for_itself() {
    let Some(d) = open("internal") else { return };
    let facts = d.facts();
    // The scratch buffer of the passes, the rows, and a page of arguments.
    assert_eq!(facts.internal_bytes, (1 << 20) + 8 + (512 << 10) + (64 << 10));
    assert!(facts.default_budget_bytes == d.budget() && d.held() == 0);
}

#[test]
fn s8_8_a_wrong_encoding_is_an_error_of_its_submit_and_loses_nothing() {
    let Some((d, device, _, told)) = adopted("wrong") else { return };
    let x = d.create_buffer(64).unwrap();
    let small = buffer(&device, 16, BufferUsages::COPY_SRC);
    let wrong = encode(move |encoder, places| {
        encoder.copy_buffer_to_buffer(&small, 0, &places[0].buffer, 0, 64);
    });
    let wrong = d.prepare().native(wrong).writes(&x).build().unwrap();
    assert!(is_rejected(&wrong.submit(&[], &[])));
    assert_eq!(d.submitted(), 0);
    x.fill(4).unwrap();
    assert_eq!((d.submitted(), d.lost()), (1, None));
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn s8_8_a_wrapped_buffer_that_is_mapped_is_an_error_of_that_submit() {
    let Some((d, device, _, told)) = adopted("mapped by the program") else { return };
    let upload = buffer(&device, 64, BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC);
    let x = wrap(&d, upload.clone()).unwrap();
    let y = d.create_buffer(64).unwrap();
    upload.map_async(MapMode::Write, .., |_| {});
    device.poll(PollType::wait_indefinitely()).unwrap();
    let move_it = d.prepare().copy(&x, &y).build().unwrap();
    assert!(is_rejected(&move_it.submit(&[], &[])));
    upload.unmap();
    move_it.submit(&[], &[]).unwrap().wait().unwrap();
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn s0_6_a_callback_of_the_programs_that_waits_for_rigs_work_returns() {
    let Some((d, device, ..)) = adopted("a waiting callback") else { return };
    let x = d.create_buffer(1 << 20).unwrap();
    let fill = d.prepare().fill(&x, 9).build().unwrap();
    let readback = buffer(&device, 64, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let (tell, told) = channel();
    for _ in 0..20 {
        let (point, tell) = (fill.submit(&[], &[]).unwrap(), tell.clone());
        readback.map_async(MapMode::Read, .., move |_| {
            tell.send(point.wait().is_ok()).unwrap();
        });
        device.poll(PollType::wait_indefinitely()).unwrap();
        // Another thread's poll may have come first, and run it.
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
        readback.unmap();
    }
}

#[test]
fn s8_2_a_launch_at_an_offset_that_no_binding_has_names_both() {
    let Some((d, device, ..)) = adopted("binding offsets") else { return };
    let kernel = d.kernel(rig::wgpu::wgsl(ONES, "ones")).unwrap();
    let x = d.create_buffer(1024).unwrap();
    let align = device.limits().min_storage_buffer_offset_alignment;
    let wrong = kernel.launch([1, 1, 1]).writes(&x.view(4, 16).unwrap()).submit();
    let text = wrong.unwrap_err().to_string();
    assert!(text.contains("at 4") && text.contains(&align.to_string()), "{text}");
    kernel.launch([1, 1, 1]).writes(&x).submit().unwrap().wait().unwrap();
}

#[test]
fn s8_8_two_threads_errors_stay_apart() {
    let Some((d, _, _, told)) = adopted("two threads") else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                assert!(is_rejected(&d.kernel(rig::wgpu::wgsl("fn main( {", "main"))));
            }
        });
        scope.spawn(|| {
            for _ in 0..50 {
                d.create_buffer(4096).unwrap().fill(1).unwrap();
            }
        });
    });
    assert!(told.lock().unwrap().is_empty() && d.lost().is_none());
}

const ONES: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;

    @compute @workgroup_size(1)
    fn ones(@builtin(global_invocation_id) id: vec3<u32>) {
        words[id.x] = 1u;
    }
";
