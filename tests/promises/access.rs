//! S6: the host's access to bytes.

use crate::bench::{
    WATCHDOG, buffer_of, bytes_of, finish, host_buffer_of, lost, misuse, own_halves, pattern, poll,
    soon, unsupported,
};
use rig::driver::{Addressed, Queue};
use rig::memory::{Call as Launched, function};
use rig::{Buffer, Claims, Misuse, Result, Use, copy, host, wrap_raw, wrap_shared};
use rig_support::{Answer, Call, Opened, Scratch, Script, drain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Host memory, and its borrow on a device whose work runs when told.
fn borrowed(name: &str) -> (Opened, Buffer, Buffer) {
    let device = Script::new(name).open();
    let h = host().create_buffer(64 << 10).unwrap();
    let b = h.borrow(&device).unwrap().unwrap();
    (device, h, b)
}

#[test]
fn s6_1_read_waits_for_the_last_write_and_answers_the_functions_value() {
    let (device, h, b) = borrowed("s6.1 read");
    h.write(|bytes| bytes[7] = 7).unwrap();
    device.record_use(&[], &[&b]).unwrap();
    device.record_use(&[&b], &[]).unwrap();
    let mut reading = Box::pin(h.read_async(|bytes| bytes[7]));
    assert!(poll(reading.as_mut()).is_pending());
    device.control.run(1);
    assert_eq!(finish(reading).unwrap(), 7, "a later read is not waited for");
    assert_eq!(device.reached(), 1);
}

#[test]
fn s6_1_write_waits_for_every_use() {
    let (device, h, b) = borrowed("s6.1 write");
    device.record_use(&[], &[&b]).unwrap();
    device.record_use(&[&b], &[]).unwrap();
    let mut writing = Box::pin(h.write_async(|bytes| bytes.len()));
    device.control.run(1);
    assert!(poll(writing.as_mut()).is_pending());
    device.control.run(1);
    assert_eq!(finish(writing).unwrap(), 64 << 10);
    assert!(h.stamps().uses.len() == 1 && h.stamps().uses[0].value() == 2, "no stamp of its own");
}

#[test]
fn s6_1_a_future_that_nobody_polls_holds_nothing_up() {
    let (device, h, b) = borrowed("s6.1 unpolled");
    let writes = device.prepare().writes(&b).build().unwrap();
    writes.submit(&[], &[]).unwrap();
    let mut reading = Box::pin(h.read_async(|_| ()));
    let mut writing = Box::pin(h.write_async(|_| ()));
    assert!(poll(reading.as_mut()).is_pending() && poll(writing.as_mut()).is_pending());
    device.control.run_all();
    assert_eq!(writes.submit(&[], &[]).unwrap().value(), 2);
    device.control.run_all();
    h.write(|_| ()).unwrap();
    drop(h.claim_read().unwrap());
    h.free().unwrap();
    assert!(matches!(misuse(finish(reading)), Misuse::Dead { .. }));
    assert!(matches!(misuse(finish(writing)), Misuse::Dead { .. }));
}

#[test]
fn s6_1_a_future_that_waits_for_a_map_holds_nothing_up() {
    let script = Script::new("s6.1 map").addressed(Addressed::WhileMapped);
    let device = script.maps(Answer::WhenTold).open();
    let x = device.create_buffer(64).unwrap();
    let mut writing = Box::pin(x.write_async(|bytes| bytes.fill(3)));
    assert!(poll(writing.as_mut()).is_pending());
    let point = device.record_use(&[], &[&x]).unwrap();
    assert_eq!(point.value(), 1, "the map is cancelled before the hand-over");
    assert_eq!(device.control.count(Call::EndAccess), 1);
    device.control.run_all();
    device.control.answer_maps();
    assert!(poll(writing.as_mut()).is_pending(), "the map is asked for again");
    device.control.answer_maps();
    finish(writing).unwrap();
    let mut reading = Box::pin(x.read_async(<[u8]>::to_vec));
    assert_eq!(finish(&mut reading).unwrap(), [3; 64]);
}

#[test]
fn s6_2_a_panic_in_the_function_releases_the_claim() {
    let x = host_buffer_of(&[1; 64]);
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| x.read(|_| panic!("on purpose")).unwrap());
    panics(&|| x.write(|_| panic!("on purpose")).unwrap());
    panics(&|| finish(x.write_async(|_| panic!("on purpose"))).unwrap());
    Claims::with(&[], &[&[&x]], |claims| assert!(claims.is_exclusive(&x))).unwrap();
}

#[test]
fn s6_2_reads_nest_and_what_conflicts_is_busy_on_any_thread() {
    let x = host_buffer_of(&[1; 64]);
    let conflicts = |call: &(dyn Fn() -> Result<()> + Sync)| {
        assert_eq!(misuse(call()), Misuse::Busy);
        std::thread::scope(|threads| {
            assert_eq!(misuse(threads.spawn(call).join().unwrap()), Misuse::Busy);
        });
    };
    x.read(|_| {
        x.read(|outer| x.read(|inner| assert_eq!(outer, inner)).unwrap()).unwrap();
        std::thread::scope(|threads| threads.spawn(|| x.read(|_| ())).join().unwrap()).unwrap();
        x.blit_to(0, &mut [0; 64]).unwrap();
        conflicts(&|| x.write(|_| ()));
        conflicts(&|| x.blit_from(0, &[1]));
        conflicts(&|| x.fill(1));
        conflicts(&|| x.export().map(drop));
        conflicts(&|| copy(&host_buffer_of(&[0; 64]), &x));
    })
    .unwrap();
    x.write(|_| {
        conflicts(&|| x.read(|_| ()));
        conflicts(&|| x.write(|_| ()));
        conflicts(&|| x.blit_to(0, &mut [0]));
        conflicts(&|| copy(&x, &host_buffer_of(&[0; 64])));
    })
    .unwrap();
    x.write(|_| ()).unwrap();
}

#[test]
fn s6_3_elements_need_their_alignment_and_whole_ones() {
    let x = host_buffer_of(&pattern(64, 3));
    let ones = x.view(1, 8).unwrap();
    let misaligned = Misuse::Misaligned { offset_bytes: 1, align_bytes: 4 };
    assert_eq!(misuse(ones.read_as::<u32, _>(|_| ())), misaligned);
    assert_eq!(misuse(ones.write_as::<u32, _>(|_| ())), misaligned);
    let partial = Misuse::PartialElement { len_bytes: 6, element_bytes: 4 };
    let six = x.view(8, 6).unwrap();
    assert_eq!(misuse(six.read_as::<u32, _>(|_| ())), partial);
    assert_eq!(misuse(six.write_as::<u32, _>(|_| ())), partial);
    let nothing = Misuse::PartialElement { len_bytes: 6, element_bytes: 0 };
    assert_eq!(misuse(six.read_as::<(), _>(|_| ())), nothing);
    let words = x.view(8, 8).unwrap();
    words.write_as::<u32, _>(|words| words.copy_from_slice(&[5, 6])).unwrap();
    assert_eq!(words.read_as::<u64, _>(|words| words.len()).unwrap(), 1);
    assert_eq!(words.read_as::<u32, _>(<[u32]>::to_vec).unwrap(), [5, 6]);
    let empty = x.view(3, 0).unwrap();
    assert_eq!(empty.read_as::<u64, _>(<[u64]>::len).unwrap(), 0);
    assert_eq!(empty.read_as::<(), _>(<[()]>::len).unwrap(), 0);
}

#[test]
fn s6_3_alignment_is_checked_on_memory_that_is_mapped_too() {
    let device = Script::new("s6.3 mapped").addressed(Addressed::WhileMapped).open();
    let x = device.create_buffer(64).unwrap();
    let ones = x.view(1, 8).unwrap();
    let misaligned = Misuse::Misaligned { offset_bytes: 1, align_bytes: 8 };
    assert_eq!(misuse(ones.read_as::<u64, _>(|_| ())), misaligned);
    assert_eq!(misuse(finish(ones.write_as_async::<u64, _>(|_| ()))), misaligned);
    x.write_as::<u64, _>(|words| words.fill(1)).unwrap();
}

#[test]
fn s6_4_what_the_host_does_not_address_is_not_accessed_in_place() {
    let device = Script::new("s6.4").open();
    let path = Scratch::new();
    let file = rig::file::open("s6.4 files").unwrap().create_file(&path, 8).unwrap();
    for buffer in [&device.create_buffer(8).unwrap(), &file] {
        assert!(!unsupported(buffer.read(|_| ())).is_empty());
        assert!(!unsupported(buffer.write(|_| ())).is_empty());
        assert!(!unsupported(buffer.read_as::<u8, _>(|_| ())).is_empty());
        assert!(!unsupported(buffer.export()).is_empty());
    }
    let mapped = Script::new("s6.4 mapped").addressed(Addressed::WhileMapped).open();
    let x = mapped.create_buffer(8).unwrap();
    x.read(|_| ()).unwrap();
    assert!(unsupported(x.export()).contains("while it is mapped"));
}

#[test]
fn s6_5_export_waits_for_every_use_once_and_leaves_the_claims_for_good() {
    let (device, h, b) = borrowed("s6.5 export");
    device.record_use(&[&b], &[]).unwrap();
    let mut exporting = Box::pin(h.export_async());
    assert!(poll(exporting.as_mut()).is_pending());
    device.control.run_all();
    let export = finish(exporting).unwrap();
    device.record_use(&[], &[&b]).unwrap();
    export.copy_in(0, &[1, 2]).unwrap();
    export.copy_out(0, &mut [0; 2]).expect("a copy waits for no work");
    assert_eq!((device.submitted(), device.reached()), (2, 1));
    drop(export);
    device.control.run_all();
    Claims::with(&[], &[&[&h]], |claims| assert!(!claims.is_exclusive(&h))).unwrap();
}

#[test]
fn s6_5_an_exports_copies_check_bounds_and_read_only_memory() {
    let x = host_buffer_of(&pattern(10, 5));
    let export = x.view(2, 5).unwrap().export().unwrap();
    assert_eq!((export.len(), export.is_empty()), (5, false));
    let mut seen = [0; 3];
    export.copy_out(2, &mut seen).unwrap();
    assert_eq!(seen, pattern(10, 5)[4..7]);
    export.copy_in(5, &[]).unwrap();
    let end = Misuse::OutOfRange { end_bytes: 6, len_bytes: 5 };
    assert_eq!(misuse(export.copy_out(3, &mut seen)), end);
    assert_eq!(misuse(export.copy_in(5, &[1])), end);
    let shared = wrap_shared(Arc::<[u8]>::from([1, 2])).export().unwrap();
    assert_eq!(misuse(shared.copy_in(0, &[1])), Misuse::ReadOnly);
    assert_eq!(misuse(shared.copy_in(2, &[])), Misuse::ReadOnly);
}

#[test]
fn s6_5_an_exports_copies_hold_an_access_claim() {
    let x = host_buffer_of(&[1; 64]);
    let export = x.export().unwrap();
    x.read(|_| {
        export.copy_out(0, &mut [0]).unwrap();
        assert_eq!(misuse(export.copy_in(0, &[1])), Misuse::Busy);
    })
    .unwrap();
    x.write(|_| {
        assert_eq!(misuse(export.copy_out(0, &mut [0])), Misuse::Busy);
        assert_eq!(misuse(export.copy_in(0, &[1])), Misuse::Busy);
    })
    .unwrap();
    let claim = x.claim_read().unwrap();
    assert_eq!(misuse(export.copy_in(0, &[1])), Misuse::Busy);
    drop(claim);
    export.copy_in(0, &[1]).unwrap();
}

#[test]
fn s6_5_an_exports_copies_pass_a_hand_over_in_progress() {
    let (device, h, b) = borrowed("s6.5 hand-over");
    let export = h.export().unwrap();
    let writes = device.prepare().writes(&b).build().unwrap();
    device.control.gate_calls(Call::HandOver);
    std::thread::scope(|threads| {
        let submitting = threads.spawn(|| writes.submit(&[], &[]));
        device.control.await_calls(Call::HandOver, 1);
        export.copy_in(0, &[4; 8]).unwrap();
        let mut seen = [0; 8];
        export.copy_out(0, &mut seen).unwrap();
        assert_eq!(seen, [4; 8]);
        device.control.open_calls(Call::HandOver);
        submitting.join().unwrap().unwrap();
    });
}

#[test]
fn s6_5_an_export_ignores_losses_and_outlives_a_free() {
    let device = Script::new("s6.5 loss").addressed(Addressed::Always).open();
    let x = buffer_of(&device, &pattern(64, 9));
    let export = x.export().unwrap();
    device.record_use(&[], &[&x]).unwrap();
    device.device_lost("on purpose");
    let mut seen = [0; 64];
    export.copy_out(0, &mut seen).unwrap();
    assert_eq!(&seen[..], pattern(64, 9));
    x.free().unwrap();
    export.copy_in(0, &[7]).unwrap();
    export.copy_out(0, &mut seen).unwrap();
    assert_eq!(seen[0], 7);
    assert_eq!(device.control.count(Call::Free), 0, "the export keeps the bytes");
    drop((export, x));
    drain(&host());
    assert_eq!(device.control.count(Call::Free), 1);
}

#[test]
fn s6_5_beside_device_work_an_export_sees_mixed_bytes() {
    let device = rig::memory::open("s6.5 beside").unwrap();
    let x = device.create_buffer(64 << 10).unwrap();
    let export = x.export().unwrap();
    let (tell, told) = channel();
    let code = function("flips", move |call: &Launched<'_>| {
        tell.send(()).unwrap();
        for turn in 0..200_u8 {
            call.set::<u8>(0, &vec![if turn % 2 == 0 { 0xFF } else { 0 }; 64 << 10]);
        }
    });
    let kernel = device.kernel(code).unwrap();
    std::thread::scope(|threads| {
        let launching = threads.spawn(|| kernel.launch([1; 3]).writes(&x).submit());
        told.recv_timeout(WATCHDOG).unwrap();
        let mut seen = vec![1; 64 << 10];
        while !launching.is_finished() {
            export.copy_out(0, &mut seen).unwrap();
            assert!(seen.iter().all(|byte| [0, 0xFF].contains(byte)));
            export.copy_in(0, &seen).unwrap();
        }
        launching.join().unwrap().unwrap();
    });
}

#[test]
fn s6_5_the_bytes_themselves_are_there_for_who_vouches() {
    let x = host_buffer_of(&pattern(64, 2));
    let export = x.view(1, 8).unwrap().export().unwrap();
    // SAFETY: no work and no access touches the bytes in this test.
    unsafe {
        assert_eq!(export.bytes(), &pattern(64, 2)[1..9]);
        export.bytes_mut().fill(4);
    }
    assert_eq!(
        bytes_of(&x)[..10],
        [&pattern(64, 2)[..1], &[4; 8], &pattern(64, 2)[9..10]].concat()
    );
}

#[test]
fn s6_6_where_the_host_addresses_the_bytes_it_moves_them() {
    let device = Script::new("s6.6 host").addressed(Addressed::Always).open();
    let x = device.create_buffer(1000).unwrap();
    x.blit_from(10, &pattern(900, 6)).unwrap();
    assert_eq!(bytes_of(&x)[10..910], pattern(900, 6));
    x.fill(5).unwrap();
    assert_eq!(bytes_of(&x), [5; 1000]);
    assert_eq!((device.submitted(), x.stamps()), (0, Default::default()));
}

#[test]
fn s6_6_else_a_blit_is_staged_and_a_fill_is_one_value() {
    let device = own_halves(Script::new("s6.6 staged")).open();
    let half = device.facts().half_bytes;
    let x = device.create_buffer(3 * half).unwrap();
    x.blit_from(1, &pattern(2 * half + 1, 6)).unwrap();
    assert_eq!((device.submitted(), device.reached()), (3, 3));
    let mut seen = vec![0; 2 * half as usize + 1];
    x.blit_to(1, &mut seen).unwrap();
    assert!(seen == pattern(2 * half + 1, 6));
    assert_eq!(device.submitted(), 6);
    x.fill(0xAB).unwrap();
    assert_eq!((device.submitted(), device.reached()), (7, 7), "it returns when it is done");
    assert!(bytes_of(&x).iter().all(|byte| *byte == 0xAB));
}

#[test]
fn s6_6_a_device_without_copies_does_not_support_blits() {
    let launches = Queue { launches: true, copies: false, fills: false };
    let device = Script::new("s6.6 none").queues([launches]).open();
    let x = device.create_buffer(8).unwrap();
    assert!(unsupported(x.blit_to(0, &mut [0])).contains("copies"));
    assert!(unsupported(x.blit_from(0, &[0])).contains("copies"));
    assert!(unsupported(x.fill(0)).contains("fills"));
    assert_eq!(device.submitted(), 0);
}

#[test]
fn s6_8_zero_bytes_do_every_check() {
    let device = Script::new("s6.8 checks").open();
    let x = device.create_buffer(8).unwrap();
    let (e, f) = (x.view(8, 0).unwrap(), x.view(0, 0).unwrap());
    copy(&e, &f).unwrap();
    let past = Misuse::OutOfRange { end_bytes: 9, len_bytes: 8 };
    assert_eq!(misuse(x.blit_to(9, &mut [])), past);
    assert_eq!(misuse(x.blit_from(9, &[])), past);
    let shared = wrap_shared(Arc::<[u8]>::from([1])).view(0, 0).unwrap();
    assert_eq!(misuse(shared.fill(1)), Misuse::ReadOnly);
    assert_eq!(misuse(shared.blit_from(0, &[])), Misuse::ReadOnly);
    assert_eq!(misuse(copy(&e, &shared)), Misuse::ReadOnly);
    let dead = device.create_buffer(8).unwrap();
    let part = dead.view(0, 0).unwrap();
    dead.free().unwrap();
    for answer in [part.fill(1), part.blit_to(0, &mut []), copy(&part, &e), copy(&e, &part)] {
        assert!(matches!(misuse(answer), Misuse::Dead { .. }));
    }
    device.device_lost("on purpose");
    let h = host().create_buffer(0).unwrap();
    for answer in [e.fill(1), e.blit_to(0, &mut []), e.blit_from(0, &[]), copy(&e, &h)] {
        assert_eq!(lost(answer).1, "on purpose");
    }
}

/// Makes a host buffer over memory whose keeper counts.
fn kept_by(kept: &Arc<()>) -> Buffer {
    let mut bytes = vec![0; 8];
    // SAFETY: the keeper has the bytes until it is dropped, and nobody else reaches them.
    unsafe { wrap_raw(bytes.as_mut_ptr(), 8, (Arc::clone(kept), bytes)) }
}

#[test]
fn s6_8_zero_bytes_move_wait_claim_and_number_nothing_and_drain() {
    let (device, h, b) = borrowed("s6.8 nothing");
    let x = device.create_buffer(64).unwrap();
    device.record_use(&[], &[&b, &x]).unwrap();
    let (e, f) = (x.view(3, 0).unwrap(), h.view(5, 0).unwrap());
    device.control.run_all();
    assert_eq!(device.reached(), 1);
    let live = device.stats().live_bytes;
    let of_device: [&dyn Fn() -> Result<()>; 5] =
        [&|| copy(&e, &f), &|| copy(&f, &e), &|| e.fill(1), &|| x.blit_to(3, &mut []), &|| {
            x.blit_from(64, &[])
        }];
    let of_host: [&dyn Fn() -> Result<()>; 3] =
        [&|| f.fill(1), &|| h.blit_to(3, &mut []), &|| h.blit_from(3, &[])];
    for (at, call) in of_device.into_iter().chain(of_host).enumerate() {
        device.record_use(&[], &[&b, &x]).unwrap();
        let submitted = device.submitted();
        drop(device.create_buffer(1 << 20).unwrap());
        let kept = Arc::new(());
        drop(kept_by(&kept));
        Claims::with(&[&x], &[&[&h]], |_| call().unwrap()).unwrap();
        assert_eq!((device.submitted(), device.reached()), (submitted, submitted - 1));
        // Another thread's drain may have had it in its hands.
        if at < of_device.len() {
            soon("the device's drain", || device.stats().live_bytes == live);
        }
        soon("the host's drain", || Arc::strong_count(&kept) == 1);
        device.control.run_all();
    }
}

#[test]
fn s6_1_an_access_under_which_new_work_came_waits_for_it_too() {
    let (device, h, b) = borrowed("s6.1 again");
    let writes = device.prepare().writes(&b).build().unwrap();
    writes.submit(&[], &[]).unwrap();
    let mut reading = pin!(h.read_async(|_| ()));
    assert!(poll(reading.as_mut()).is_pending());
    writes.submit(&[], &[]).unwrap();
    device.control.run(1);
    assert!(poll(reading.as_mut()).is_pending());
    device.control.run(1);
    finish(reading).unwrap();
}

#[test]
fn s5_a_stream_of_submissions_starves_no_blocking_access() {
    let (device, h, b) = borrowed("s5 stream");
    let writes = device.prepare().writes(&b).build().unwrap();
    let queued = [(); 2].map(|()| writes.submit(&[], &[]).unwrap().value());
    assert_eq!(queued, [1, 2]);
    device.control.gate();
    std::thread::scope(|threads| {
        let reading = threads.spawn(|| h.read(|_| ()));
        device.control.await_sleeper();
        // One value more than has run stands in the queue, until the access holds the next off.
        let started = Instant::now();
        loop {
            let mut submitting = pin!(writes.submit_async(&[], &[]));
            if poll(submitting.as_mut()).is_pending() {
                break;
            }
            assert!(started.elapsed() < WATCHDOG, "the access never claims");
            device.control.run(1);
            std::thread::yield_now();
        }
        device.control.run_all();
        reading.join().unwrap().unwrap();
    });
}

#[test]
fn s3_7_a_buffer_wait_is_for_what_was_there_when_it_was_asked() {
    let (device, h, b) = borrowed("s3.7 stream");
    let writes = device.prepare().writes(&b).build().unwrap();
    for what in [Use::Read, Use::Write] {
        writes.submit(&[], &[]).unwrap();
        let mut waiting = Box::pin(h.wait_async(what));
        assert!(poll(waiting.as_mut()).is_pending());
        writes.submit(&[], &[]).unwrap();
        device.control.run(1);
        assert!(poll(waiting.as_mut()).is_ready());
        assert!(!h.stamps().uses[0].is_reached());
        device.control.run(1);
    }
}
