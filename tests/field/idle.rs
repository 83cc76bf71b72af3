//! Inputs about programs that make no further call: the tick gives memory back.
//!
//! What takes windows of usage takes six scans, so everything that has to age does so together.

use crate::watch::WATCHDOG;
use rig::{Buffer, FileMode, Hold, host, wrap_raw};
use rig_support::{Answer, Call, Opened, Scratch, Script, drain, until};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};

const LEN: u64 = 4096;

/// Devices that age from the first moment a test asks for one of them.
struct Aging {
    dropped: Option<Opened>,
    spike: Option<(Opened, Vec<Buffer>)>,
    busy: Option<Opened>,
}

/// Guards which of them a test has not taken yet.
static AGING: LazyLock<Mutex<Aging>> = LazyLock::new(|| {
    let dropped = Script::new("dropped").open();
    drop(buffers(&dropped, 4));
    let spike = Script::new("spike").open();
    let mut used = buffers(&spike, 16);
    used.truncate(2);
    let busy = Script::new("busy").open();
    let used_by_work = buffers(&busy, 4);
    let all: Vec<&Buffer> = used_by_work.iter().collect();
    busy.record_use(&all, &[]).unwrap();
    drop(used_by_work);
    Mutex::new(Aging { dropped: Some(dropped), spike: Some((spike, used)), busy: Some(busy) })
});

fn taken<T>(one: impl FnOnce(&mut Aging) -> &mut Option<T>) -> T {
    one(&mut AGING.lock().unwrap()).take().expect("one test takes it")
}

fn buffers(device: &Opened, count: u64) -> Vec<Buffer> {
    (0..count).map(|_| device.create_buffer(LEN).unwrap()).collect()
}

#[test]
fn s9_15_a_program_that_drops_everything_and_calls_nothing_gets_its_memory_back() {
    let d = taken(|aging| &mut aging.dropped);
    d.control.await_calls(Call::Free, 4);
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.control.bytes_live()), (4, 0));
}

#[test]
fn s9_14_after_a_spike_the_bin_returns_what_its_window_says() {
    let (d, used) = taken(|aging| &mut aging.spike);
    d.control.await_calls(Call::Free, 14);
    drain(&d);
    assert_eq!((d.control.count(Call::Free), d.control.regions_live()), (14, 2));
    // What stays serves on.
    drop(used);
    drain(&d);
    drop(buffers(&d, 2));
    drain(&d);
    // A create may find the tick's drain in progress, and then asks the driver.
    assert!((16..=18).contains(&d.control.count(Call::Alloc)), "{:?}", d.stats());
    assert_eq!(d.cached() + d.stats().live_bytes, d.control.regions_live() * LEN);
}

#[test]
fn s9_4_trim_under_running_work_returns_nothing_and_answers_it_as_pending() {
    let d = taken(|aging| &mut aging.busy);
    let mut passes = d.control.count(Call::Service);
    loop {
        let trimmed = d.trim().unwrap();
        assert_eq!(trimmed.returned_bytes, 0);
        if trimmed.pending_bytes > 0 {
            assert_eq!((trimmed.pending_bytes, d.held(), d.cached()), (4 * LEN, 4 * LEN, 0));
            break;
        }
        // Not before the sixth scan of the tick, which serves the driver each time.
        passes += 1;
        d.control.await_calls(Call::Service, passes);
    }
    assert_eq!(d.control.count(Call::Free), 0);
    d.control.run_all();
    // A drain of the tick may be in progress, and `trim` waits for none.
    until("the way back", || d.trim().unwrap().pending_bytes + d.held() == 0);
    assert_eq!(d.control.count(Call::Free), 4);
}

#[test]
fn s9_4_what_a_freed_cache_left_pending_is_returned_by_the_next_after_the_work() {
    let d = Script::new("freed while busy").open();
    let used = buffers(&d, 4);
    let all: Vec<&Buffer> = used.iter().collect();
    d.record_use(&all, &[]).unwrap();
    drop(used);
    for _ in 0..2 {
        let freed = d.free_cache().unwrap();
        assert_eq!((freed.returned_bytes, freed.pending_bytes), (0, 4 * LEN));
    }
    d.control.run_all();
    // The tick may come first, and be in the middle of it.
    until("the way back", || d.free_cache().unwrap().pending_bytes + d.held() == 0);
    assert_eq!(d.control.count(Call::Free), 4);
}

/// Tells when it is dropped.
struct Told(Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn s9_15_the_keeper_of_wrapped_memory_is_dropped_though_nothing_is_called() {
    let (told, ends) = channel();
    let bytes: &'static mut [u8] = Box::leak(Box::new([0; 64]));
    // SAFETY: the bytes live for ever, and nobody else has them.
    let wrapped = unsafe { wrap_raw(bytes.as_mut_ptr(), 64, Told(told)) };
    drop(wrapped);
    assert_eq!(ends.recv_timeout(WATCHDOG), Ok("dropped"));
}

#[test]
fn s9_15_mappings_holds_and_prepared_work_end_though_nothing_is_called() {
    let d = Script::new("leftovers").open();
    let (told, ends) = channel();
    {
        let h = host().create_buffer(64 << 10).unwrap();
        let hb = h.borrow(&d).unwrap().unwrap();
        let prepared = d.prepare().writes(&hb).build().unwrap();
        let hold = Hold::keep(Told(told));
        prepared.submit_holding(&[], &[], &[&hold]).unwrap();
    }
    d.control.run_all();
    assert_eq!(ends.recv_timeout(WATCHDOG), Ok("dropped"));
    d.control.await_calls(Call::Release, 1);
    // One number was made and dropped when the device opened, to see that its queue copies.
    d.control.await_calls(Call::Unprepare, 2);
}

#[test]
fn s9_15_memory_dropped_while_its_work_runs_comes_back_after_it_though_nothing_is_called() {
    let d = Script::new("late").addressed(rig::driver::Addressed::Always).open();
    let x = d.create_buffer(LEN).unwrap();
    d.record_use(&[], &[&x]).unwrap();
    drop(x);
    drain(&d);
    assert_eq!(d.stats().returning_bytes, LEN);
    d.control.run_all();
    // The tick looks at the word, and takes the memory home.
    let mut passes = d.control.count(Call::Service);
    while d.cached() == 0 {
        passes += 1;
        d.control.await_calls(Call::Service, passes);
    }
    assert_eq!(d.stats().returning_bytes, 0);
}

/// Waits until the tick looks at a device no more: it looks at another, and not at this one.
fn await_quiet(d: &Opened) {
    let looked = Script::new(format!("looked at beside {}", d.name())).open();
    let _kept = looked.create_buffer(LEN).unwrap();
    loop {
        let before = d.control.count(Call::Service);
        // The second pass from now on is a whole one.
        looked.control.await_calls(Call::Service, looked.control.count(Call::Service) + 2);
        if d.control.count(Call::Service) == before {
            return;
        }
    }
}

#[test]
fn s9_15_a_borrow_on_a_device_that_was_idle_ends_though_nothing_is_called() {
    let d = Script::new("idle borrow").open();
    await_quiet(&d);
    let h = host().create_buffer(64 << 10).unwrap();
    drop(h.borrow(&d).unwrap().unwrap());
    drop(h);
    d.control.await_calls(Call::Release, 1);
}

#[test]
fn s12_1_the_stop_of_a_device_that_was_idle_ends_though_nothing_is_called() {
    let d = Script::new("idle loss").stops(Answer::AtService).open();
    await_quiet(&d);
    d.device_lost("unplugged");
    until("the end of the stop", || d.is_settled());
}

#[test]
fn s9_15_a_file_of_a_device_that_was_idle_is_closed_though_nothing_is_called() {
    let files = rig::file::open("idle files").unwrap();
    let path = Scratch::new();
    std::fs::write(&path, [0; 64]).unwrap();
    // It was opened after the files' device, which is idle sooner.
    await_quiet(&Script::new("idle beside files").open());
    drop(files.open_file(&path, FileMode::ReadOnly).unwrap());
    // Where the system tells which files are open.
    let is_open = || {
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        open.into_iter().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == *path))
    };
    until("the end of the file", || !is_open());
    files.close().unwrap();
}
