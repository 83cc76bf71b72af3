//! Commands that make buffers: create, wrap, files, views, clones and borrows.

use crate::dev::{Dev, Kind, State};
use crate::profile::bin_bytes;
use crate::reference::{Alloc, Life, Map, Place, Shadow};
use crate::verdict::{Code, Want};
use crate::world::{Fate, Handle, On, OnDisk, World};
use rig::bytes::{HostMemory, page_bytes};
use rig::driver::Addressed;
use rig::{Buffer, Error, FileMode, Misuse};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a buffer is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Waiting,
    Now,
}

/// What a create asks for, rounded as the sentences say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) dev: usize,
    pub(crate) kind: rig::Kind,
    pub(crate) len: u64,
    pub(crate) place: Place,
    /// The length rounded up to the grain, or to pages.
    pub(crate) grained: u64,
    /// What is asked for first: the bin's bytes.
    pub(crate) class: u64,
}

/// What keeps wrapped memory, and tells when it is dropped.
struct Keeper {
    _memory: HostMemory,
    dropped: Arc<AtomicBool>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

impl World {
    pub(crate) fn create(&mut self, how: How) {
        let dev = match self.pick_dev(0) {
            files if self.devs[files].kind == Kind::File => self.pick_worker(0),
            dev => dev,
        };
        let kind = if self.command.pick(1, 5) == 0 { rig::Kind::Pinned } else { rig::Kind::Device };
        let asked = self.asked(dev, kind, self.size());
        let known = &self.devs[dev];
        // A refusal that comes later is the affair of the buffer, which the model leaves out.
        let how =
            if known.profile.allocs == rig_support::Answer::AtOnce { how } else { How::Waiting };
        let want = self.want_of_create(asked, how);
        let (device, reached) = (known.device.clone(), known.reached);
        let builder = device.buffer(asked.len).kind(kind).label("model");
        let got = match how {
            How::Waiting => builder.create(),
            How::Now => builder.create_now(),
        };
        match self.judge(&want, &got) {
            Code::Well => {
                let buffer = got.expect("it was judged well");
                self.created(asked, buffer, reached);
            }
            Code::OutOfMemory => self.look_at_out_of_memory(asked, &got.expect_err("it failed")),
            _ => {}
        }
    }

    /// Returns a length: none, small, around bins, pages and the host's least cached length.
    fn size(&self) -> u64 {
        let mut random = self.command.random();
        match random.below(12) {
            0 => 0,
            1 => random.below(17),
            2 => random.of(&[511, 512, 513, 1_024, 1_025]),
            3 => page_bytes() * (1 + random.below(4)),
            4 => 20_000 + random.below(3),
            5 => random.of(&[65_535, 65_536, 70_000, 131_072]),
            6 => 29_000 + random.below(2_000),
            _ => 1 + random.below(9_000),
        }
    }

    pub(crate) fn asked(&self, dev: usize, kind: rig::Kind, len: u64) -> Asked {
        let known = &self.devs[dev];
        let profile = &known.profile;
        let place = match (len, profile.addressed, kind) {
            (0, ..) => Place::Empty,
            (_, Addressed::Always, _) => Place::Addressed,
            (_, Addressed::WhileMapped, _) => Place::Mapped,
            (_, Addressed::Never, rig::Kind::Pinned) => Place::Pinned,
            (_, Addressed::Never, _) => Place::Unaddressed,
        };
        let small = known.kind == Kind::Host && len < 65_536;
        let grain = match known.kind {
            Kind::Host if !small => page_bytes(),
            _ => profile.grain_bytes,
        };
        let grained = len.next_multiple_of(grain);
        let payer = if place == Place::Pinned { 0 } else { dev };
        let bin = bin_bytes(profile.bins, grained, profile.bin_max_bytes);
        let most = self.devs[payer].budget.min(profile.largest_bytes);
        let class = if small || bin > most { grained } else { bin };
        Asked { dev, kind, len, place, grained, class }
    }

    pub(crate) fn want_of_create(&self, asked: Asked, how: How) -> Want {
        let known = &self.devs[asked.dev];
        let profile = &known.profile;
        let unpinned = profile.addressed == Addressed::Never && !profile.pinned;
        let want = Want::new()
            .refuse(Code::Unsupported, known.kind == Kind::File)
            .refuse(Code::Unsupported, asked.kind == rig::Kind::Pinned && unpinned)
            .refuse(Code::Unsupported, asked.grained > profile.largest_bytes)
            .refuse(Code::Lost, self.is_lost(asked.dev));
        if asked.len == 0 {
            return want;
        }
        let payer = if asked.place == Place::Pinned { 0 } else { asked.dev };
        let budget = self.devs[payer].budget;
        let stuck = self.stuck_bytes(payer);
        let room = |bytes: u64| stuck.checked_add(bytes).is_some_and(|all| all <= budget);
        let taken = if room(asked.class) { asked.class } else { asked.grained };
        let heap = self.stuck_heap(asked.dev).checked_add(taken);
        let fits =
            asked.place == Place::Pinned || heap.is_some_and(|all| all <= profile.heap_bytes);
        want.refuse(Code::OutOfMemory, asked.grained > budget)
            .refuse(Code::OutOfMemory, !room(asked.grained) || !fits)
            .may(Code::OutOfMemory, how == How::Now)
            .may(Code::OutOfMemory, payer == 0 && budget < u64::MAX && self.spoiled_bytes_max() > 0)
    }

    /// Returns the bytes of a payer that no round can bring back.
    fn stuck_bytes(&self, payer: usize) -> u64 {
        let stuck = self.allocs.iter().filter(|alloc| self.payer(alloc) == payer);
        let stuck = stuck.filter(|alloc| match alloc.life {
            Life::Live => true,
            Life::Returning => self.is_stuck(alloc),
            Life::Given | Life::Gone => false,
        });
        let stuck = stuck.map(|alloc| alloc.charged).sum::<u64>();
        if payer == 0 {
            stuck + rig::host().stats().staging_bytes + self.kept_bytes()
        } else {
            stuck
        }
    }

    /// Returns what stopped devices that have not settled keep of the host's budget: their own
    /// halves, which are staging until the stop.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let unsettled = self.devs.iter().filter(|dev| dev.state == State::Lost { settled: false });
        let halves =
            unsettled.filter(|dev| dev.is_stopped()).filter_map(|dev| dev.control.as_ref());
        let halves = halves.map(|control| control.bytes_live_of(rig::Kind::Transfer));
        self.kept_before + halves.sum::<u64>()
    }

    /// Returns the most bytes of halves that a device which never settles may have spoiled: they
    /// are replaced, and never return.
    pub(crate) fn spoiled_bytes_max(&self) -> u64 {
        let unsettled = |dev: &Dev| dev.state == State::Lost { settled: false };
        if self.devs.iter().any(unsettled) {
            UNSETTLED.store(true, Ordering::Relaxed);
        }
        if UNSETTLED.load(Ordering::Relaxed) { SPOILED_BYTES_MAX } else { 0 }
    }

    /// Returns the bytes of a driver's heap that no round can bring back.
    fn stuck_heap(&self, dev: usize) -> u64 {
        let of_heap = |alloc: &&Alloc| alloc.owner == dev && alloc.place != Place::Pinned;
        let stuck = self.allocs.iter().filter(of_heap).filter(|alloc| match alloc.life {
            Life::Live | Life::Given => true,
            Life::Returning => self.is_stuck(alloc),
            Life::Gone => false,
        });
        stuck.map(|alloc| alloc.charged).sum()
    }

    /// Whether a lost device that has not settled keeps memory from returning (S9.5).
    pub(crate) fn is_stuck(&self, alloc: &Alloc) -> bool {
        let unsettled = |dev: usize| self.devs[dev].state == State::Lost { settled: false };
        let undone = |(dev, value): (&usize, &u64)| self.fate(*dev, *value) == Fate::Undone;
        unsettled(alloc.owner)
            || alloc.uses.iter().any(undone)
            || alloc.maps.keys().any(|dev| unsettled(*dev))
    }

    /// Notes a buffer that was created: what it is charged, where it is, and the stamps that S9.3
    /// lets stay.
    pub(crate) fn created(&mut self, asked: Asked, buffer: Buffer, reached: u64) {
        let mut alloc = Alloc::new(asked.dev, asked.place, asked.len);
        if asked.len > 0 {
            alloc.charged = self.charged_now(asked);
            if matches!(asked.place, Place::Addressed | Place::Pinned) {
                let address = buffer.read(|bytes| bytes.as_ptr() as u64);
                alloc.address = Some(address.expect("nothing else uses a new buffer"));
            }
        }
        let stamps = buffer.stamps();
        let ordered = self.devs[asked.dev].profile.is_ordered();
        for point in stamps.uses.iter().chain(&stamps.write) {
            let own = self.dev_of(*point) == asked.dev;
            let stays = ordered && own && point.value() > reached;
            assert!(stays, "command {}: S3.5: {point} stayed", self.command);
        }
        let at = self.allocs.len();
        self.allocs.push(alloc);
        self.take_stamps(at, &stamps);
        self.handles.push(Handle {
            buffer,
            alloc: at,
            on: On::Own,
            offset: 0,
            len: asked.len,
            token: 0,
        });
    }

    /// Returns what the newest allocation is charged: what the payer's live bytes grew by.
    pub(crate) fn charged_now(&self, asked: Asked) -> u64 {
        self.drain_all();
        let pinned = asked.place == Place::Pinned;
        let payer = if pinned { 0 } else { asked.dev };
        let stats = self.devs[payer].device.stats();
        let live = if pinned { stats.pinned_bytes } else { stats.live_bytes };
        let known = self.allocs.iter().filter(|alloc| {
            let there = (alloc.place == Place::Pinned) == pinned && self.payer(alloc) == payer;
            alloc.life == Life::Live && there
        });
        let charged = live - known.map(|alloc| alloc.charged).sum::<u64>();
        let near = (asked.class as f64 * self.devs[asked.dev].profile.near_fit) as u64;
        let allowed = asked.grained..=near.max(asked.class);
        assert!(
            allowed.contains(&charged),
            "command {}: S9.9: {asked:?} is charged {charged}",
            self.command
        );
        charged
    }

    fn look_at_out_of_memory(&self, asked: Asked, error: &Error) {
        let Error::OutOfMemory { device, asked_bytes, held_bytes, budget_bytes, report } = error
        else {
            return;
        };
        let payer = if asked.place == Place::Pinned { 0 } else { asked.dev };
        assert_eq!(**device, *self.devs[asked.dev].name, "S10.8: the device asked is named");
        assert_eq!(*asked_bytes, asked.len);
        assert_eq!(*budget_bytes, self.devs[payer].budget);
        assert_eq!(*held_bytes, report.held_bytes(), "S11.1: the report sums up");
    }

    pub(crate) fn wrap(&mut self) {
        let mut random = self.command.random();
        let len = random.of(&[0, 1, 100, page_bytes(), 2 * page_bytes(), 3_000]);
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let mut alloc = Alloc::new(0, Place::Addressed, len);
        alloc.wrapped = true;
        alloc.outside = true;
        alloc.bytes.borrow_mut().set_known(0, &bytes);
        let buffer = match random.below(3) {
            0 => {
                alloc.read_only = true;
                let shared: Arc<[u8]> = Arc::from(bytes);
                alloc.address = Some(shared.as_ptr() as u64);
                rig::wrap_shared(shared)
            }
            1 => {
                let boxed = bytes.into_boxed_slice();
                alloc.address = Some(boxed.as_ptr() as u64);
                rig::wrap(boxed)
            }
            _ => {
                let memory = HostMemory::zeroed(len, page_bytes()).expect("there is memory");
                memory.bytes().copy_in(0, &bytes);
                alloc.address = Some(memory.bytes().address());
                let dropped = Arc::new(AtomicBool::new(false));
                alloc.kept = Some(Arc::clone(&dropped));
                let start = memory.bytes().address() as *mut u8;
                // SAFETY: the keeper keeps the memory, which is initialised, and nobody else has
                // it.
                unsafe { rig::wrap_raw(start, len, Keeper { _memory: memory, dropped }) }
            }
        };
        self.keep(alloc, buffer, len);
    }

    fn keep(&mut self, alloc: Alloc, buffer: Buffer, len: u64) {
        let at = self.allocs.len();
        self.allocs.push(alloc);
        self.handles.push(Handle { buffer, alloc: at, on: On::Own, offset: 0, len, token: 0 });
    }

    pub(crate) fn make_file(&mut self) {
        let dev = self.slots[2];
        let device = self.devs[dev].device.clone();
        let want = Want::new().refuse(Code::Lost, self.is_lost(dev));
        let again = !self.files.is_empty() && self.command.pick(0, 3) == 0;
        if again {
            let file = &self.files[self.command.pick(1, self.files.len())];
            let read_only = self.command.pick(2, 2) == 0;
            let mode = if read_only { FileMode::ReadOnly } else { FileMode::ReadWrite };
            let got = device.open_file(&file.path, mode);
            let mut alloc = Alloc::new(dev, Place::File, file.len);
            alloc.bytes = Rc::clone(&file.bytes);
            (alloc.read_only, alloc.outside) = (read_only, true);
            let len = file.len;
            if self.judge(&want, &got) == Code::Well {
                self.keep(alloc, got.expect("it was judged well"), len);
            }
            return;
        }
        let len = self.command.random().of(&[0, 1, 1_000, 5_000, 20_000]);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("rig-model-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let got = device.create_file(&path, len);
        if self.judge(&want, &got) == Code::Well {
            let mut alloc = Alloc::new(dev, Place::File, len);
            alloc.outside = true;
            // A new file's bytes are zeros.
            let mut zeros = Shadow::unknown(len);
            zeros.fill(0, len, 0);
            let bytes = Rc::new(RefCell::new(zeros));
            alloc.bytes = Rc::clone(&bytes);
            self.files.push(OnDisk { path, bytes, len });
            self.keep(alloc, got.expect("it was judged well"), len);
        }
    }

    pub(crate) fn view(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let mut random = self.command.random();
        let offset = random.below(handle.len + 3);
        let len = match random.below(10) {
            0 => (u64::MAX - offset).saturating_add(random.below(2)),
            1 => handle.len + 1,
            _ => random.below((handle.len + 1).saturating_sub(offset).max(1)),
        };
        let dead = self.allocs[handle.alloc].dead.is_some();
        let end = offset.checked_add(len);
        let want = Want::new()
            .refuse(Code::Wrong, end.is_none_or(|end| end > handle.len))
            .refuse(Code::Dead, dead);
        let got = handle.buffer.view(offset, len);
        if self.judge(&want, &got) == Code::Well {
            let buffer = got.expect("it was judged well");
            self.handles.push(Handle { buffer, offset: handle.offset + offset, len, ..handle });
        } else if let Err(error) = got {
            let told = matches!(error.misuse(), Some(Misuse::OutOfRange { .. })) || dead;
            assert!(told, "S0.4: a range past the end is told as one");
        }
    }

    pub(crate) fn clone_handle(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        self.handles.push(handle);
    }

    pub(crate) fn borrow(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let target = self.pick_dev(1);
        let known = &self.allocs[handle.alloc];
        let want = Want::new()
            .refuse(Code::Dead, known.dead.is_some())
            .refuse(Code::Lost, self.is_lost(target) || self.on_lost(&handle))
            .refuse(Code::Lost, self.meets_loss(handle.alloc, crate::reference::Access::Write));
        let answer = self.borrow_answer(&handle, target);
        let got = rig::borrow(&self.devs[target].device, &handle.buffer);
        if self.judge(&want, &got) != Code::Well {
            return;
        }
        let got = got.expect("it was judged well");
        assert_eq!(
            got.is_some(),
            answer.is_some(),
            "command {}: S4.7: borrow on {} of {:?}",
            self.command,
            self.devs[target].name,
            self.allocs[handle.alloc]
        );
        let (Some(buffer), Some(on)) = (got, answer) else { return };
        if let On::Mapped(dev) = on
            && known_mapping(&self.allocs[handle.alloc])
        {
            self.allocs[handle.alloc].maps.insert(dev, Map::default());
        }
        self.handles.push(Handle { buffer, on, ..handle });
    }

    /// Returns how the borrow's device comes to the bytes, or none: the table of S4.7.
    fn borrow_answer(&self, handle: &Handle, target: usize) -> Option<On> {
        let alloc = &self.allocs[handle.alloc];
        let (to, from) = (&self.devs[target], &self.devs[alloc.owner]);
        let peers = to.profile.peers && from.kind == Kind::Scripted && to.kind == Kind::Scripted;
        if alloc.owner == target {
            return Some(On::Own);
        }
        if to.kind == Kind::File || alloc.place == Place::File {
            return None;
        }
        match alloc.place {
            Place::Empty => Some(On::Mapped(target)),
            Place::Mapped => (target == 0).then_some(On::Host),
            Place::Addressed | Place::Pinned if target == 0 => Some(On::Host),
            Place::Addressed | Place::Pinned => match to.profile.align_bytes {
                Some(align) => {
                    let address = alloc.address.expect("the reference asked for the address");
                    let owned = if alloc.charged > 0 { alloc.charged } else { alloc.len };
                    let small = alloc.owner == 0 && !alloc.wrapped && alloc.len < 65_536;
                    let whole = address.is_multiple_of(align) && owned % align == 0;
                    (whole && !(small && align > 1)).then_some(On::Mapped(target))
                }
                None if alloc.owner == 0 => None,
                None => peers.then_some(On::Mapped(target)),
            },
            Place::Unaddressed => peers.then_some(On::Mapped(target)),
            Place::File => None,
        }
    }
}

/// Whether a borrow of it on another device has a mapping.
fn known_mapping(alloc: &Alloc) -> bool {
    alloc.place != Place::Empty
}

/// Whether a device of this process never settled.
static UNSETTLED: AtomicBool = AtomicBool::new(false);

/// Two slots of two halves, of each of two lengths.
const SPOILED_BYTES_MAX: u64 = 4 * (4_096 + 8_192);

static FILES: AtomicU64 = AtomicU64::new(0);
