//! Commands that end buffers and devices, and those that send memory back.

use crate::dev::{Dev, Kind, State};
use crate::profile::Profile;
use crate::reference::Place;
use crate::verdict::{Code, Want};
use crate::world::{Fate, Handle, World};
use rig::driver::Fault;
use rig::{Device, Misuse, Opener};
use rig_support::{Completion, Sleep};

impl World {
    pub(crate) fn drop_handle(&mut self) {
        let Some(picked) = self.pick_handle(0) else { return };
        // Dead buffers are of little use; most are dropped soon.
        let dead = |handle: &Handle| self.allocs[handle.alloc].dead.is_some();
        let at = match self.handles.iter().position(dead) {
            Some(at) if self.command.pick(1, 3) > 0 => at,
            _ => picked,
        };
        self.handles.swap_remove(at);
    }

    pub(crate) fn free(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let alloc = &self.allocs[handle.alloc];
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::Busy, alloc.refuses_free());
        let got = handle.buffer.free();
        if self.judge(&want, &got) == Code::Well {
            self.allocs[handle.alloc].dead = Some("freed");
            assert_eq!(handle.buffer.dead().as_deref(), Some("freed"));
        }
    }

    pub(crate) fn share(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let alloc = &self.allocs[handle.alloc];
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::Busy, alloc.exclusive != 0);
        let got = handle.buffer.share();
        if self.judge(&want, &got) == Code::Well {
            self.allocs[handle.alloc].outside = true;
        }
    }

    /// Lends memory of a device. The host's would stay given away for as long as the tests run.
    pub(crate) fn lend(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let alloc = &self.allocs[handle.alloc];
        if alloc.owner == 0 || alloc.place == Place::Empty {
            return;
        }
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::Lost, self.on_lost(&handle))
            .refuse(Code::Unsupported, alloc.place == Place::File)
            .refuse(Code::Busy, alloc.exclusive != 0);
        let got = handle.buffer.lend();
        if self.judge(&want, &got) == Code::Well {
            let lent = got.expect("it was judged well");
            assert_eq!((lent.offset, lent.len), (handle.offset, handle.len));
            let alloc = &mut self.allocs[handle.alloc];
            (alloc.outside, alloc.lent) = (true, true);
        }
    }

    /// Runs some of the work that was handed over to a scripted device.
    pub(crate) fn run_work(&mut self) {
        let dev = self.pick_dev(0);
        if let Some(control) = &self.devs[dev].control {
            control.run(1 + self.command.pick(1, 4) as u64);
        }
    }

    pub(crate) fn trim(&mut self) {
        self.await_idle();
        let dev = self.pick_dev(0);
        let device = self.devs[dev].device.clone();
        let got = device.trim();
        self.judge(&Want::new(), &got);
    }

    pub(crate) fn free_cache(&mut self) {
        self.await_idle();
        let dev = self.pick_dev(0);
        let device = self.devs[dev].device.clone();
        let got = device.free_cache();
        self.judge(&Want::new(), &got);
        // The host pays for what other devices cache of Pinned memory.
        assert!(dev == 0 || device.cached() == 0, "command {}: S9.14", self.command);
    }

    pub(crate) fn set_budget(&mut self) {
        let at = 1 + self.command.pick(0, self.slots.len() - 1);
        let dev = self.slots[at];
        let held = self.devs[dev].device.held();
        let budget = match self.command.pick(1, 6) {
            0 => held / 2,
            1 => held,
            2 => 0,
            3 => 40_000,
            4 => 200_000,
            _ => u64::MAX,
        };
        self.budget(dev, budget);
    }

    pub(crate) fn set_host_budget(&mut self) {
        let held = self.devs[0].device.held();
        let budget = match self.command.pick(1, 5) {
            0 => held / 2,
            1 => held + 10_000,
            2 => held + 200_000,
            _ => u64::MAX,
        };
        self.budget(0, budget);
    }

    fn budget(&mut self, dev: usize, budget: u64) {
        self.await_idle();
        let device = self.devs[dev].device.clone();
        let got = device.set_budget(budget);
        self.judge(&Want::new(), &got);
        self.devs[dev].budget = budget;
        let stats = device.stats();
        let rest = stats.held_bytes - stats.returning_bytes;
        let kept = stats.cached_bytes == 0 || rest <= budget;
        assert!(kept, "command {}: S10.4: {stats:?}", self.command);
    }

    pub(crate) fn set_cache(&mut self) {
        let dev = self.pick_dev(0);
        if self.devs[dev].kind != Kind::Scripted {
            return;
        }
        let mut random = self.command.random();
        let drawn = Profile::draw(&mut random);
        let (options, profile) = (drawn.cache(), &mut self.devs[dev].profile);
        (profile.bins, profile.near_fit) = (drawn.bins, drawn.near_fit);
        profile.bin_max_bytes = drawn.bin_max_bytes;
        let device = self.devs[dev].device.clone();
        let got = device.set_cache(options);
        self.judge(&Want::new(), &got);
    }

    /// Brings a fault on its way, or loses a device at once.
    pub(crate) fn lose(&mut self) {
        let at = 1 + self.command.pick(0, self.slots.len() - 1);
        let dev = self.slots[at];
        if self.is_lost(dev) {
            return;
        }
        let known = &mut self.devs[dev];
        known.state = State::Ill;
        let nth = 1 + self.command.pick(2, 6) as u64;
        if let (Some(gpu), 0..4) = (known.profile.gpu, self.command.pick(1, 8)) {
            return (gpu.destroy)(&known.device);
        }
        match (&known.control, self.command.pick(1, 8)) {
            (Some(control), 0) => control.fault("broken"),
            (Some(control), 1) => control.fault_from(nth),
            (Some(control), 2) => control.fault_at(nth),
            (Some(control), 3) => control.fail_next_hand_over("broken hand-over"),
            (Some(control), 4) => control.sleeps([Sleep::Fault("broken sleep".into())]),
            (Some(control), 5) => control.fault_word("broken word"),
            _ => known.device.device_lost("told"),
        }
    }

    /// Ends the stop of a lost device that waits for the test's word.
    pub(crate) fn answer_stop(&mut self) {
        let lost: Vec<usize> = (0..self.devs.len()).filter(|dev| self.is_lost(*dev)).collect();
        if !lost.is_empty() {
            let dev = lost[self.command.pick(0, lost.len())];
            self.close_dev(dev);
        }
    }

    pub(crate) fn close(&mut self) {
        let dev = self.pick_dev(0);
        if dev == 0 {
            let got = self.devs[0].device.close();
            let told = got.is_err_and(|error| error.misuse() == Some(&Misuse::HostClose));
            assert!(told, "S1.1: the host is not closed");
            return;
        }
        self.close_dev(dev);
    }

    pub(crate) fn close_dev(&mut self, dev: usize) {
        let known = &mut self.devs[dev];
        known.answered = true;
        if let Some(control) = &known.control {
            control.answer_stop();
        }
        if known.state == State::Well {
            known.state = State::Ill;
        }
        known.device.close().expect("only the host is not closed");
        assert!(known.device.lost().is_some(), "S12.5: a closed device is lost");
        self.unsure = true;
    }

    /// Opens the name of a lost device again, or of one that lives.
    pub(crate) fn reopen(&mut self) {
        let at = 1 + self.command.pick(0, self.slots.len() - 1);
        let dev = self.slots[at];
        let (kind, name) = (self.devs[dev].kind, self.devs[dev].name.clone());
        if !self.is_lost(dev) {
            if kind == Kind::Scripted && !self.is_ill() {
                let never = Opener::new("scripted", || Err(Fault::new("an opener that runs not")));
                let again = Device::open(&name, never).expect("S1.2: the name is open");
                assert_eq!(again, self.devs[dev].device);
                let other = Opener::new("other", || Err(Fault::new("an opener that runs not")));
                let taken = Device::open(&name, other).expect_err("another driver has the name");
                assert!(matches!(taken.misuse(), Some(Misuse::NameTaken { .. })));
            }
            return;
        }
        self.devs[dev].await_idle();
        let stopped = self.devs[dev].is_stopped();
        let profile = match kind {
            Kind::Scripted => Profile::draw(&mut self.command.random()),
            _ => self.devs[dev].profile.clone(),
        };
        let got = Dev::open(kind, profile, &name);
        let want = Want::new().refuse(Code::Unsupported, !stopped);
        if self.judge(&want, &got) == Code::Well {
            self.slots[at] = self.devs.len();
            self.devs.push(got.unwrap_or_else(|_| unreachable!("it was judged well")));
        }
    }

    /// Looks at every device: what is lost, what is reached.
    pub(crate) fn look(&mut self) {
        let states = |devs: &[Dev]| devs.iter().map(|dev| dev.state).collect::<Vec<_>>();
        loop {
            let before = states(&self.devs);
            for dev in 0..self.devs.len() {
                self.look_at_dev(dev);
            }
            // A loss that a look finds may take one along that was looked at before it (S8.7).
            if before == states(&self.devs) {
                return;
            }
        }
    }

    fn look_at_dev(&mut self, dev: usize) {
        let device = self.devs[dev].device.clone();
        let reached = device.reached();
        let known = &self.devs[dev];
        match (known.state, device.lost()) {
            (State::Lost { settled }, Some(_)) => {
                let now = device.is_settled();
                assert!(now || !settled, "a device stays settled");
                self.devs[dev].state = State::Lost { settled: now };
            }
            (State::Lost { .. }, None) => panic!("a lost device came back"),
            (State::Well | State::Ill, None) => {
                assert!(reached >= known.reached, "S2.4: the word never falls");
                if let Some(control) = &known.control {
                    let all = known.profile.completion == Completion::Run;
                    let ran = control.ran();
                    assert!(reached <= ran, "S2.9: {reached} is reached, {ran} ran");
                    assert!(!all || reached == ran, "S2.4: {reached} is shown of {ran}");
                }
                self.devs[dev].reached = reached;
            }
            (state, Some(why)) => {
                let spread = self.devs.iter().any(|other| {
                    *why == *format!("{} lost", other.name) && other.device.lost().is_some()
                });
                let asked = state == State::Ill || spread && known.profile.waits_max > 0;
                assert!(asked, "command {}: {} is lost: {why}", self.command, known.name);
                let settled = device.is_settled();
                let known = &mut self.devs[dev];
                (known.state, known.reached) = (State::Lost { settled }, reached);
                self.unsure = true;
                self.forget_undone();
            }
        }
    }

    /// Forgets bytes that lost work may have left anyhow: nobody can read them.
    fn forget_undone(&mut self) {
        for alloc in 0..self.allocs.len() {
            if self.write_is_lost(alloc) {
                let known = &self.allocs[alloc];
                known.bytes.borrow_mut().forget(0, known.len);
            }
        }
    }

    /// Ends illnesses that nothing meets: most commands do not call the driver at all.
    pub(crate) fn cure(&mut self) {
        if self.command.numbers[0].is_multiple_of(4) {
            for known in self.devs.iter().filter(|known| known.state == State::Ill) {
                known.device.device_lost("ill for too long");
            }
        }
    }

    /// Returns the bytes that work or a stop has still to let go, for sure.
    pub(crate) fn blocked_bytes(&self, payer: usize) -> u64 {
        let blocked = self.allocs.iter().filter(|alloc| {
            alloc.life == crate::reference::Life::Returning && self.payer(alloc) == payer
        });
        blocked.filter(|alloc| self.is_blocked(alloc)).map(|alloc| alloc.charged).sum()
    }

    /// Whether something keeps returning memory from the cache and the driver (S9.3, S4.11).
    pub(crate) fn is_blocked(&self, alloc: &crate::reference::Alloc) -> bool {
        let owner = &self.devs[alloc.owner];
        let ordered = owner.profile.is_ordered();
        let passes = |(dev, value): (&usize, &u64)| match self.fate(*dev, *value) {
            Fate::Reached | Fate::Dropped => true,
            Fate::Unreached => ordered && *dev == alloc.owner,
            Fate::Undone => false,
        };
        owner.state == State::Lost { settled: false }
            || !alloc.uses.iter().all(passes)
            || !alloc.maps.is_empty()
    }

    /// Whether nothing of a device is under way.
    pub(crate) fn is_idle(&self, dev: usize) -> bool {
        let known = &self.devs[dev];
        match known.state {
            State::Lost { settled } => settled,
            State::Well | State::Ill => known.reached >= known.submitted,
        }
    }
}
