//! The world of a random program: its devices, buffers and claims, each beside what the reference
//! knows of it.

use crate::command::{Command, Do};
use crate::dev::{Dev, Kind, State};
use crate::make::How;
use crate::profile::Profile;
use crate::reference::{Access, Alloc, Life, Place, Shadow, Stamp};
use crate::verdict::{Code, Want};
use crate::watch::STEPS;
use rig::driver::Queue;
use rig::{Buffer, Claims, Export, Hold, Kernel, Prepared, ReadClaim, Result};
use rig_support::drain;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What has become of a value's work (S2.8, S12.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Reached,
    Unreached,
    Undone,
    Dropped,
}

/// A buffer in the program's hands.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) buffer: Buffer,
    pub(crate) alloc: usize,
    pub(crate) on: On,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The claims object under which it acts, or 0.
    pub(crate) token: u64,
}

/// How a buffer's device comes to the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Own,
    Host,
    /// By a mapping, or as empty memory, on this device.
    Mapped(usize),
}

/// An export.
pub(crate) struct Exported {
    pub(crate) export: Export,
    pub(crate) alloc: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A call of `Claims::with` that is running.
pub(crate) struct With {
    pub(crate) claims: Claims,
    pub(crate) token: u64,
    /// The allocations claimed, and whether exclusively.
    pub(crate) held: Vec<(usize, bool)>,
}

/// Loaded code.
pub(crate) struct Loaded {
    pub(crate) kernel: Kernel,
    pub(crate) dev: usize,
    pub(crate) function: crate::plan::Function,
    pub(crate) code: Option<usize>,
}

/// A hold and the submissions that named it.
pub(crate) struct Held {
    pub(crate) hold: Option<Hold>,
    pub(crate) released: Arc<AtomicU64>,
    pub(crate) named: Vec<Stamp>,
}

/// Prepared work, as the reference knows it.
pub(crate) struct Work {
    pub(crate) prepared: Prepared,
    pub(crate) plan: crate::plan::Plan,
}

/// A file in the program's folder.
pub(crate) struct OnDisk {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Rc<RefCell<Shadow>>,
    pub(crate) len: u64,
}

/// Everything.
pub(crate) struct World {
    pub(crate) program: VecDeque<Command>,
    pub(crate) command: Command,
    pub(crate) depth: u64,
    pub(crate) devs: Vec<Dev>,
    /// The devices that have a name, the host first.
    pub(crate) slots: Vec<usize>,
    pub(crate) allocs: Vec<Alloc>,
    pub(crate) handles: Vec<Handle>,
    pub(crate) exports: Vec<Exported>,
    pub(crate) claims: Vec<(ReadClaim, usize)>,
    pub(crate) withs: Vec<With>,
    pub(crate) ended: Option<Claims>,
    pub(crate) tokens: u64,
    pub(crate) kernels: Vec<Loaded>,
    pub(crate) works: Vec<Work>,
    pub(crate) holds: Vec<Held>,
    pub(crate) files: Vec<OnDisk>,
    /// What devices of earlier programs, which never settle, keep of the host's budget.
    pub(crate) kept_before: u64,
    /// What drivers of earlier programs keep of that.
    pub(crate) foreign_before: u64,
    /// Whether a call came to something that the reference takes over from the library.
    pub(crate) unsure: bool,
}

impl Handle {
    /// Returns a view of the last `len` bytes; the same where that fails.
    pub(crate) fn end(self, len: u64) -> Self {
        let cut = self.len - len;
        match self.buffer.view(cut, len) {
            Ok(buffer) => Self { buffer, offset: self.offset + cut, len, ..self },
            Err(_) => self,
        }
    }
}

impl World {
    /// Opens the devices of a program.
    pub(crate) fn open(program: Vec<Command>, profiles: Vec<Profile>) -> Self {
        let first = *program.first().expect("a program has commands");
        // What another thread is taking back is no part of what earlier programs keep for good.
        drain(&rig::host());
        let stats = rig::host().stats();
        let mut world = Self {
            program: program.into(),
            command: first,
            depth: 0,
            devs: Vec::new(),
            slots: Vec::new(),
            allocs: Vec::new(),
            handles: Vec::new(),
            exports: Vec::new(),
            claims: Vec::new(),
            withs: Vec::new(),
            ended: None,
            tokens: 0,
            kernels: Vec::new(),
            works: Vec::new(),
            holds: Vec::new(),
            files: Vec::new(),
            kept_before: stats.returning_bytes,
            foreign_before: stats.held_bytes + stats.given_away_bytes + stats.freed_bytes
                - stats.actual_bytes,
            unsure: false,
        };
        let over_host = Profile::over_host_memory;
        world.add(Kind::Host, over_host(Vec::new(), None), "CPU");
        world.add(Kind::Memory, over_host(vec![Queue::ALL], Some(1)), "model memory");
        world.add(Kind::File, over_host(Vec::new(), None), "model files");
        for (at, profile) in profiles.into_iter().enumerate() {
            let kind = if profile.gpu.is_some() { Kind::Gpu } else { Kind::Scripted };
            world.add(kind, profile, &format!("model {at}"));
        }
        world
    }

    fn add(&mut self, kind: Kind, profile: Profile, name: &str) {
        let dev = Dev::open(kind, profile, name).expect("the name is free");
        self.slots.push(self.devs.len());
        self.devs.push(dev);
    }

    /// Runs the commands that are left.
    pub(crate) fn run(&mut self) {
        while let Some(command) = self.program.pop_front() {
            self.step(command);
        }
    }

    /// Runs some of the commands that are left, inside a closure of one.
    pub(crate) fn run_inside(&mut self, count: u64) {
        let outer = self.command;
        self.depth += 1;
        for _ in 0..count {
            let Some(command) = self.program.pop_front() else { break };
            self.step(command);
        }
        self.depth -= 1;
        self.command = outer;
    }

    fn step(&mut self, command: Command) {
        self.command = command;
        if command.numbers[1].is_multiple_of(2) {
            self.await_idle();
        }
        STEPS.fetch_add(1, Ordering::Relaxed);
        self.cure();
        self.look();
        self.obey(command.what);
        self.after();
    }

    fn obey(&mut self, what: Do) {
        match what {
            Do::Create => self.create(How::Waiting),
            Do::CreateNow => self.create(How::Now),
            Do::Wrap => self.wrap(),
            Do::MakeFile => self.make_file(),
            Do::View => self.view(),
            Do::Clone => self.clone_handle(),
            Do::Borrow => self.borrow(),
            Do::Drop => self.drop_handle(),
            Do::Free => self.free(),
            Do::Share => self.share(),
            Do::Lend => self.lend(),
            Do::Copy => self.copy(),
            Do::BlitTo => self.blit_to(),
            Do::BlitFrom => self.blit_from(),
            Do::Fill => self.fill(),
            Do::Read => self.read(),
            Do::Write => self.write(),
            Do::Export => self.export(),
            Do::ExportOut => self.export_out(),
            Do::ExportIn => self.export_in(),
            Do::DropExport => self.drop_export(),
            Do::ClaimRead => self.claim_read(),
            Do::DropClaim => self.drop_claim(),
            Do::With => self.with(),
            Do::Consume => self.consume(),
            Do::LoadKernel => self.load_kernel(),
            Do::DropKernel => self.drop_kernel(),
            Do::Prepare => self.prepare(),
            Do::Submit => self.submit(),
            Do::RecordUse => self.record_use(),
            Do::DropWork => self.drop_work(),
            Do::DropHold => self.drop_hold(),
            Do::WaitValue => self.wait_value(),
            Do::WaitBuffer => self.wait_buffer(),
            Do::Run => self.run_work(),
            Do::Drain => self.drain_all(),
            Do::Trim => self.trim(),
            Do::FreeCache => self.free_cache(),
            Do::SetBudget => self.set_budget(),
            Do::SetHostBudget => self.set_host_budget(),
            Do::SetCache => self.set_cache(),
            Do::Lose => self.lose(),
            Do::AnswerStop => self.answer_stop(),
            Do::Close => self.close(),
            Do::Reopen => self.reopen(),
        }
    }

    /// Takes in what a command changed, and compares.
    fn after(&mut self) {
        self.take_in();
        self.check(self.command.numbers[3].is_multiple_of(2));
    }

    /// Takes in what changed, and compares all that a full drain lets be known.
    pub(crate) fn after_all(&mut self) {
        self.take_in();
        self.check(true);
    }

    /// Takes in lives, losses, and what the reference takes over from the library.
    fn take_in(&mut self) {
        self.look();
        self.update_lives();
        if std::mem::take(&mut self.unsure) || self.is_ill() {
            self.take_over();
        }
    }

    /// Lets the GPUs come to the end of their work, and lost devices to that of their stop.
    pub(crate) fn await_idle(&self) {
        self.devs.iter().for_each(Dev::await_idle);
    }

    /// Drains every device, so that what can come back has.
    pub(crate) fn drain_all(&self) {
        for _ in 0..2 {
            self.devs.iter().for_each(|dev| drain(&dev.device));
        }
    }

    /// Whether a fault is on its way on any device.
    pub(crate) fn is_ill(&self) -> bool {
        self.devs.iter().any(|dev| dev.state == State::Ill)
    }

    /// Panics unless the reference allows what a call came to.
    pub(crate) fn judge<T>(&mut self, want: &Want, got: &Result<T>) -> Code {
        let code = Code::of(got);
        let ill = self.is_ill();
        if let Some(wrong) = want.judge(code, ill) {
            let told = got.as_ref().err().map(ToString::to_string).unwrap_or_default();
            panic!("command {}: {wrong} {told}", self.command);
        }
        if ill || code == Code::Lost {
            self.unsure = true;
        }
        code
    }

    /// Picks a handle by one of the command's numbers.
    pub(crate) fn pick_handle(&self, which: usize) -> Option<usize> {
        (!self.handles.is_empty()).then(|| self.command.pick(which, self.handles.len()))
    }

    /// Picks a device that has a name.
    pub(crate) fn pick_dev(&self, which: usize) -> usize {
        self.slots[self.command.pick(which, self.slots.len())]
    }

    /// Picks a device that has a name, mostly one that runs work.
    pub(crate) fn pick_worker(&self, which: usize) -> usize {
        let any = self.pick_dev(which);
        let works = self.slots.iter().copied().filter(|dev| self.devs[*dev].has_timeline());
        let works: Vec<usize> = works.collect();
        let all = self.command.random().one_in(8);
        if all { any } else { works[self.command.pick(which, works.len())] }
    }

    pub(crate) fn is_lost(&self, dev: usize) -> bool {
        self.devs[dev].is_lost()
    }

    pub(crate) fn fate(&self, dev: usize, value: u64) -> Fate {
        let known = &self.devs[dev];
        match known.state {
            _ if value <= known.reached => Fate::Reached,
            State::Lost { settled: true } => Fate::Dropped,
            State::Lost { settled: false } => Fate::Undone,
            State::Well | State::Ill => Fate::Unreached,
        }
    }

    /// Whether the last write of an allocation is lost: no access repairs that (S12.3).
    pub(crate) fn write_is_lost(&self, alloc: usize) -> bool {
        let write = self.allocs[alloc].write;
        write.is_some_and(|stamp| {
            matches!(self.fate(stamp.dev, stamp.value), Fate::Undone | Fate::Dropped)
        })
    }

    /// Whether an access meets a lost point (S12.1). The device that works is not lost.
    pub(crate) fn meets_loss(&self, alloc: usize, access: Access) -> bool {
        let mut uses = self.allocs[alloc].uses.iter();
        let undone = |(dev, value): (&usize, &u64)| self.fate(*dev, *value) == Fate::Undone;
        self.write_is_lost(alloc) || access == Access::Write && uses.any(undone)
    }

    /// Whether the device of a handle's memory, or the one it is on, is lost.
    pub(crate) fn on_lost(&self, handle: &Handle) -> bool {
        let mapped = match handle.on {
            On::Mapped(dev) => self.is_lost(dev),
            On::Own | On::Host => false,
        };
        mapped || self.is_lost(self.allocs[handle.alloc].owner)
    }

    /// Returns the device a handle is on.
    pub(crate) fn device_of(&self, handle: &Handle) -> usize {
        match handle.on {
            On::Own => self.allocs[handle.alloc].owner,
            On::Host => 0,
            On::Mapped(dev) => dev,
        }
    }

    /// Returns who pays for an allocation (S10.1).
    pub(crate) fn payer(&self, alloc: &Alloc) -> usize {
        if alloc.place == Place::Pinned { 0 } else { alloc.owner }
    }

    /// Returns how many references keep an allocation, exports apart (S4.12).
    pub(crate) fn references(&self, alloc: usize) -> usize {
        let handles = self.handles.iter().filter(|handle| handle.alloc == alloc).count();
        let claims = self.claims.iter().filter(|(_, claimed)| *claimed == alloc).count();
        let withs = self.withs.iter().flat_map(|with| &with.held);
        let withs = withs.filter(|(held, _)| *held == alloc).count();
        let works = self.works.iter().filter(|work| work.plan.keeps(alloc)).count();
        let code = self.kernels.iter().filter(|loaded| loaded.code == Some(alloc)).count();
        let known = &self.allocs[alloc];
        handles
            + claims
            + withs
            + works
            + code
            + (known.closure_reads + known.closure_writes) as usize
    }

    pub(crate) fn exports_of(&self, alloc: usize) -> usize {
        self.exports.iter().filter(|exported| exported.alloc == alloc).count()
    }

    fn borrows_of(&self, alloc: usize, dev: usize) -> usize {
        let of = |handle: &&Handle| handle.alloc == alloc && handle.on == On::Mapped(dev);
        let fixed = self.works.iter().filter(|work| work.plan.borrows(alloc, dev)).count();
        self.handles.iter().filter(of).count() + fixed
    }

    fn update_lives(&mut self) {
        for alloc in 0..self.allocs.len() {
            if self.allocs[alloc].life == Life::Gone {
                continue;
            }
            let dead = self.allocs[alloc].dead.is_some();
            let devs: Vec<usize> = self.allocs[alloc].maps.keys().copied().collect();
            for dev in devs {
                let live = !dead && self.borrows_of(alloc, dev) > 0;
                let submitted = self.devs[dev].submitted;
                let map = self.allocs[alloc].maps.entry(dev).or_default();
                map.due = if live { None } else { Some(map.due.unwrap_or(submitted)) };
            }
            let needed = self.exports_of(alloc) > 0 || !dead && self.references(alloc) > 0;
            let known = &mut self.allocs[alloc];
            if known.life == Life::Live && !needed {
                let given = known.lent && !dead;
                known.life = if given { Life::Given } else { Life::Returning };
            }
        }
    }

    /// Takes the stamps and values over from the library, where they can be.
    fn take_over(&mut self) {
        for dev in &mut self.devs {
            let submitted = dev.device.submitted();
            assert!(submitted >= dev.submitted, "S2.3: {} never falls", dev.name);
            dev.submitted = submitted;
        }
        for alloc in 0..self.allocs.len() {
            let known = &self.allocs[alloc];
            if known.life != Life::Live || known.dead.is_some() {
                continue;
            }
            let Some(handle) = self.handles.iter().find(|handle| handle.alloc == alloc) else {
                continue;
            };
            let stamps = handle.buffer.stamps();
            self.take_stamps(alloc, &stamps);
        }
    }

    /// Takes an allocation's stamps over; they may only have grown.
    pub(crate) fn take_stamps(&mut self, alloc: usize, stamps: &rig::Stamps) {
        for point in &stamps.uses {
            let (dev, value) = (self.dev_of(*point), point.value());
            let before = self.allocs[alloc].uses.insert(dev, value).unwrap_or(0);
            assert!(before <= value, "S3.2: the uses of a device only grow");
            assert!(value <= self.devs[dev].device.submitted(), "S3.3: {point} was submitted");
        }
        let write =
            stamps.write.map(|point| Stamp { dev: self.dev_of(point), value: point.value() });
        self.allocs[alloc].write = write;
    }

    /// Returns the device of a point.
    pub(crate) fn dev_of(&self, point: rig::Point) -> usize {
        let found = self.devs.iter().position(|dev| dev.device.id() == point.device_id());
        found.expect("a point is of a device of this program")
    }
}
