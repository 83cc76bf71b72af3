//! Random programs of two threads at once (S15.5): each sees its own bytes, no law of the driver is
//! broken, the books add up, nothing is held above the budget, and every wait ends.

use crate::profile::Profile;
use crate::random::Random;
use crate::serial::alone;
use crate::verdict::Code;
use crate::watch::{STEPS, Watch};
use rig::driver::{Addressed, Fault};
use rig::memory::{Options, function};
use rig::{Buffer, Claims, Device, Kernel, Kind, Opener, Result, Use, borrow, copy, host, run};
use rig_support::{Answer, Control, drain};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn s15_5_two_threads_see_their_own_bytes_and_break_no_law() {
    rounds(Vec::new);
}

/// A device that goes on by itself, with kernels that flip and that add to whole words of bytes.
pub(crate) type More = (Device, [Kernel; 2]);

/// Runs round after round, each with the same devices and `more`.
pub(crate) fn rounds(more: fn() -> Vec<More>) {
    let _alone = alone();
    let _watch = Watch::start();
    let first = number("RIG_SEED").unwrap_or(1);
    let (steps, until) = (number("RIG_STEPS"), Instant::now() + DEFAULT_TIME);
    let before = STEPS.load(Ordering::Relaxed);
    for seed in first.. {
        // Two threads never meet twice in the same way: the seed tells what ran, not when.
        println!("two threads, seed {seed}");
        round(seed, more());
        let ran = STEPS.load(Ordering::Relaxed) - before;
        if steps.map_or(Instant::now() > until, |steps| ran >= steps) {
            println!("{ran} commands of two threads");
            return;
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What both threads use.
struct Shared {
    devices: Vec<Device>,
    controls: Vec<Control>,
    /// Loaded on the devices that run work: flips bits of every byte of its buffer.
    kernels: Vec<Kernel>,
    /// Loaded on the same devices: adds one to every byte of its buffer.
    adders: Vec<Kernel>,
    /// Buffers that both threads read and write.
    common: Vec<Buffer>,
    /// Host memory whose bytes everybody only adds one to, and how often that was done.
    sum: (Buffer, AtomicU64),
    /// Whether a device may be lost by now.
    losses: AtomicBool,
}

fn round(seed: u64, more: Vec<More>) {
    let mut random = Random::new(seed);
    let (mut devices, mut controls) = (vec![host()], Vec::new());
    let memory = rig::memory::opener(Options::default());
    devices.push(Device::open("threads memory", memory).unwrap());
    for at in 0..2 {
        let (device, control) = open(&mut random, at);
        devices.push(device);
        controls.push(control);
    }
    let flip = || function("flip", |call| call.update::<u8>(0, flip));
    let mut kernels: Vec<Kernel> =
        devices[1..].iter().map(|device| device.kernel(flip()).unwrap()).collect();
    let add = || function("add", |call| call.update::<u8>(0, add));
    let mut adders: Vec<Kernel> =
        devices[1..].iter().map(|device| device.kernel(add()).unwrap()).collect();
    for (device, [flip, add]) in more {
        device.set_budget(BUDGET_BYTES).unwrap();
        devices.push(device);
        kernels.push(flip);
        adders.push(add);
    }
    let sum = host().create_buffer(65_536).unwrap();
    sum.fill(0).unwrap();
    let common = devices.iter().filter_map(|device| device.create_buffer(COMMON_LEN).ok());
    let common = common.collect();
    let losses = AtomicBool::new(false);
    let sum = (sum, AtomicU64::new(0));
    let shared = Shared { devices, controls, kernels, adders, common, sum, losses };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let shared = &shared;
            let random = Random::new(seed << 8 | thread);
            scope.spawn(move || {
                Own { shared, random, buffers: Vec::new() }.run(seed.is_multiple_of(4))
            });
        }
    });
    finish(shared);
}

/// Opens a device whose stop ends by itself and that settles, with a budget that is never raised.
fn open(random: &mut Random, at: u64) -> (Device, Control) {
    let mut profile = Profile::draw(random);
    profile.stops = Answer::AtOnce;
    profile.budget_bytes = BUDGET_BYTES;
    profile.largest_bytes = i64::MAX as u64;
    let name = format!("threads {at}");
    let (driver, control) = profile.script(&name).build();
    let opener = Opener::new("scripted", move || Ok::<_, Fault>(driver));
    (Device::open_with(&name, opener, profile.cache()).unwrap(), control)
}

/// Ends everything: what is left has to be nothing.
fn finish(shared: Shared) {
    let Shared { devices, controls, kernels, adders, common, sum: (sum, times), losses } = shared;
    if !losses.into_inner() {
        let times = times.into_inner() as u8;
        let seen = sum.read(<[u8]>::to_vec).unwrap();
        assert!(seen[..SUM_LEN].iter().all(|byte| *byte == times), "S2.5, S3.7: no sum is lost");
    }
    drop((kernels, adders, common, sum));
    for device in devices.iter().filter(|device| **device != host()) {
        device.close().unwrap();
    }
    devices.iter().for_each(drain);
    controls.iter().for_each(Control::check_returned);
    for device in &devices[2..] {
        assert_eq!(device.held(), 0, "{}", device.name());
    }
    host().free_cache().unwrap();
    drain(&host());
    let stats = host().stats();
    let left = [stats.live_bytes, stats.pinned_bytes, stats.cached_bytes];
    assert_eq!(left, [0; 3], "nothing is live: {stats:?}");
}

/// One thread, and the buffers that are its own, with the bytes they have to have.
struct Own<'a> {
    shared: &'a Shared,
    random: Random,
    buffers: Vec<(Buffer, Vec<u8>)>,
}

impl Own<'_> {
    fn run(mut self, loses: bool) {
        for step in 0..STEPS_MAX {
            STEPS.fetch_add(1, Ordering::Relaxed);
            self.step();
            self.look();
            if loses && step == STEPS_MAX / 2 {
                self.shared.losses.store(true, Ordering::Relaxed);
                self.shared.controls[0].fault("broken beside another thread");
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=3 => self.create(),
            4 | 5 => self.with_own(|own, at| own.buffers.swap_remove(at).0.free()),
            6 => self.with_own(|own, at| {
                own.buffers.swap_remove(at);
                Ok(())
            }),
            7 | 8 => self.with_own(Self::compare),
            9 => self.with_own(Self::fill),
            10 | 11 => self.with_own(Self::submit),
            12 => self.with_own(Self::copy_own),
            13 => self.with_own(Self::through_borrow),
            14 => self.with_own(Self::consume),
            15 => self.with_own(Self::in_place),
            16 => self.with_common(),
            17 if self.random.one_in(2) => self.work_on_common(),
            17 => self.add_up(),
            18 => {
                let control = self.random.of(&self.shared.controls);
                control.run(1 + self.random.below(3));
            }
            _ => self.send_back(),
        }
    }

    /// Judges a call on common things: what timing decides may be told, and nothing else.
    fn judge<T>(&self, got: &Result<T>) -> bool {
        let code = Code::of(got);
        let lost = code == Code::Lost && self.shared.losses.load(Ordering::Relaxed);
        let told = matches!(code, Code::Well | Code::Busy | Code::OutOfMemory | Code::Unsupported);
        assert!(told || lost, "{:?}", got.as_ref().err().map(ToString::to_string));
        code == Code::Well
    }

    /// Does something with one of the thread's own buffers, which nobody else names: it may meet a
    /// lack of memory, or a loss, after which the buffer is given up.
    fn with_own(&mut self, act: impl FnOnce(&mut Self, usize) -> Result<()>) {
        if self.buffers.is_empty() {
            return;
        }
        let at = self.random.below(self.buffers.len() as u64) as usize;
        let buffer = self.buffers[at].0.clone();
        let got = act(self, at);
        let code = Code::of(&got);
        let busy = code == Code::Busy;
        assert!(!busy, "nobody else has {buffer:?}: {:?}", got.as_ref().err());
        if !self.judge(&got) {
            self.buffers.retain(|(own, _)| !own.overlaps(&buffer));
        }
    }

    fn create(&mut self) {
        if self.buffers.len() >= 8 {
            return;
        }
        let device = self.random.of(&self.shared.devices);
        let pinned = device.facts().pinned && self.random.one_in(4);
        let kind = if pinned { Kind::Pinned } else { Kind::Device };
        let len = self.random.of(&[1, 300, 4_096, 5_000, 9_000, 65_536]);
        let got = device.buffer(len).kind(kind).create();
        if !self.judge(&got) {
            return;
        }
        let Ok(buffer) = got else { return };
        let bytes: Vec<u8> = (0..len).map(|_| self.random.next() as u8).collect();
        let got = buffer.blit_from(0, &bytes);
        if self.judge(&got) {
            self.buffers.push((buffer, bytes));
        }
    }

    fn compare(&mut self, at: usize) -> Result<()> {
        let (buffer, bytes) = &self.buffers[at];
        let mut seen = vec![0; bytes.len()];
        buffer.blit_to(0, &mut seen)?;
        let differs = seen.iter().zip(bytes).position(|(seen, wanted)| seen != wanted);
        assert_eq!(differs, None, "the first byte that is not as it was left in {buffer:?}");
        Ok(())
    }

    fn fill(&mut self, at: usize) -> Result<()> {
        let byte = self.random.next() as u8;
        let (buffer, bytes) = &mut self.buffers[at];
        let half = buffer.len() / 2;
        buffer.view(half, buffer.len() - half)?.fill(byte)?;
        bytes[half as usize..].fill(byte);
        Ok(())
    }

    /// Hands over work on an own buffer, where its device, or one that borrows it, runs any.
    fn submit(&mut self, at: usize) -> Result<()> {
        let which = self.random.below(self.shared.kernels.len() as u64) as usize;
        let kernel = &self.shared.kernels[which];
        let (buffer, bytes) = &mut self.buffers[at];
        let Some(there) = borrow(&kernel.device(), buffer)? else { return Ok(()) };
        let work = kernel.device().prepare().launch(kernel, [1; 3]).writes(run(0)).build()?;
        let point = work.submit(&[&there], &[])?;
        flip(bytes);
        if self.random.one_in(4) {
            point.wait()?;
        }
        Ok(())
    }

    fn copy_own(&mut self, at: usize) -> Result<()> {
        let other = self.random.below(self.buffers.len() as u64) as usize;
        if at == other {
            return Ok(());
        }
        let len = self.buffers[at].1.len().min(self.buffers[other].1.len());
        let src = self.buffers[at].0.view(0, len as u64)?;
        let dst = self.buffers[other].0.view(0, len as u64)?;
        let copied = copy(&src, &dst);
        if copied.is_err() {
            // The destination may have part of it.
            self.buffers.swap_remove(other);
            return copied;
        }
        let moved = self.buffers[at].1[..len].to_vec();
        self.buffers[other].1[..len].copy_from_slice(&moved);
        Ok(())
    }

    /// Copies between an own buffer and a new one through a borrow of it.
    fn through_borrow(&mut self, at: usize) -> Result<()> {
        let device = self.random.of(&self.shared.devices);
        let (buffer, bytes) = &self.buffers[at];
        let Some(there) = borrow(&device, buffer)? else { return Ok(()) };
        let made = device.create_buffer(buffer.len())?;
        copy(&there, &made)?;
        self.buffers.push((made, bytes.clone()));
        Ok(())
    }

    fn consume(&mut self, at: usize) -> Result<()> {
        let buffer = self.buffers[at].0.clone();
        let new = Claims::with(&[], &[&[&buffer]], |claims| {
            if claims.is_exclusive(&buffer) {
                claims.consume(&buffer, "taken").map(Some)
            } else {
                Ok(None)
            }
        })??;
        if let Some(new) = new {
            assert!(buffer.dead().is_some());
            self.buffers[at].0 = new;
        }
        Ok(())
    }

    /// Reads or writes in place, where the host addresses the bytes.
    fn in_place(&mut self, at: usize) -> Result<()> {
        let byte = self.random.next() as u8;
        let (buffer, bytes) = &mut self.buffers[at];
        let _claim = buffer.claim_read()?;
        buffer.read(|seen| assert!(*seen == **bytes, "read sees the bytes as they were left"))?;
        drop(_claim);
        buffer.write(|own| own.fill(byte))?;
        bytes.fill(byte);
        buffer.wait(Use::Write)
    }

    /// Moves common bytes, which may be anything, and own ones.
    fn with_common(&mut self) {
        let (from, to) = (self.random.of(&self.shared.common), self.random.of(&self.shared.common));
        let got = match self.random.below(4) {
            0 => from.blit_to(0, &mut [0; 100]),
            1 => to.blit_from(0, &[1; 100]),
            2 => to.fill(2),
            _ if from.overlaps(&to) => from.claim_read().map(drop),
            _ => copy(&from, &to),
        };
        self.judge(&got);
    }

    /// Hands over work on common memory, behind what the other thread does with it.
    fn work_on_common(&mut self) {
        let kernel = self.random.of(&self.shared.kernels);
        let common = self.random.of(&self.shared.common);
        let there = borrow(&kernel.device(), &common);
        if let (true, Ok(Some(there))) = (self.judge(&there), &there) {
            let prepared = kernel.device().prepare().launch(&kernel, [1; 3]).writes(there).build();
            if let (true, Ok(work)) = (self.judge(&prepared), &prepared) {
                self.judge(&work.submit(&[], &[]));
            }
        }
    }

    /// Adds one to every byte of the sum: by a device, or by the host in place.
    fn add_up(&mut self) {
        let (sum, times) = &self.shared.sum;
        let part = sum.view(0, SUM_LEN as u64).unwrap();
        let adder = self.random.of(&self.shared.adders);
        let there = borrow(&adder.device(), &part);
        let done = match (self.random.one_in(4), there) {
            (false, Ok(Some(there))) => {
                let work = adder.device().prepare().launch(&adder, [1; 3]).writes(&there).build();
                work.and_then(|work| work.submit(&[], &[])).map(drop)
            }
            _ => part.write(add),
        };
        times.fetch_add(u64::from(self.judge(&done)), Ordering::Relaxed);
    }

    fn send_back(&mut self) {
        let device = self.random.of(&self.shared.devices);
        let done = match self.random.below(4) {
            0 => device.trim().map(drop),
            1 => device.free_cache().map(drop),
            2 if device != host() => {
                device.set_budget(self.random.of(&[BUDGET_BYTES / 2, BUDGET_BYTES]))
            }
            _ => device.wait(device.submitted()),
        };
        self.judge(&done);
    }

    /// Looks at the books and the laws.
    fn look(&self) {
        for device in &self.shared.devices {
            device.check_books();
            let addressed = device.facts().addressed == Addressed::Always;
            let bounded = !addressed || device.name().starts_with("threads ");
            let bounded = bounded && *device != host() && device.name() != "threads memory";
            assert!(!bounded || device.held() <= BUDGET_BYTES, "S10.3: {}", device.name());
        }
        self.shared.controls.iter().for_each(Control::check);
    }
}

fn add(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
}

fn flip(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x5A);
}

const STEPS_MAX: u64 = 300;
const SUM_LEN: usize = 64;
const COMMON_LEN: u64 = 8_192;
const BUDGET_BYTES: u64 = 200_000;
const DEFAULT_TIME: Duration = Duration::from_secs(6);
