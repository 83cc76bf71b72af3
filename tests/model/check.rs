//! What is compared after every command: stamps and facts, and the books of every payer.

use crate::dev::{Dev, Kind, State};
use crate::reference::{Life, Place};
use crate::world::{Fate, Handle, World};
use rig::DeviceStats;
use rig::driver::Kind as Memory;
use std::sync::atomic::Ordering;

impl World {
    /// Compares everything. After a full drain more is known of what came back.
    pub(crate) fn check(&mut self, after_drain: bool) {
        let mut drained = Vec::new();
        if after_drain {
            drained = self.settle();
            self.end_mappings();
            self.look_at_holds();
        }
        for handle in &self.handles {
            self.check_facts(handle);
        }
        for dev in 0..self.devs.len() {
            self.check_books(dev);
        }
        for (dev, stats) in drained.iter().enumerate() {
            self.check_places(dev, stats);
        }
        if after_drain {
            self.let_go();
        }
    }

    /// Drains until no device has moved on meanwhile, by its tick; answers what each counts then.
    fn settle(&mut self) -> Vec<DeviceStats> {
        let seen = |devs: &[Dev]| -> Vec<(u64, State)> {
            devs.iter().map(|dev| (dev.reached, dev.state)).collect()
        };
        loop {
            self.await_idle();
            self.look();
            let before = seen(&self.devs);
            self.drain_all();
            let stats = self.devs.iter().map(|dev| dev.device.stats()).collect();
            self.look();
            if seen(&self.devs) == before {
                return stats;
            }
        }
    }

    fn check_facts(&self, handle: &Handle) {
        let (buffer, alloc) = (&handle.buffer, &self.allocs[handle.alloc]);
        let command = self.command;
        assert_eq!(buffer.len(), handle.len, "command {command}");
        assert_eq!(buffer.offset(), handle.offset, "command {command}");
        assert_eq!(buffer.dead().as_deref(), alloc.dead, "command {command}: {buffer:?}");
        if alloc.dead.is_some() || self.is_ill() {
            return;
        }
        let stamps = buffer.stamps();
        let write = alloc.write.map(|stamp| (stamp.dev, stamp.value));
        let told = stamps.write.map(|point| (self.dev_of(point), point.value()));
        assert_eq!(told, write, "command {command}: the write stamp of {buffer:?}");
        let lives = |dev: &usize| !self.is_lost(*dev);
        let uses: Vec<(usize, u64)> = alloc
            .uses
            .iter()
            .map(|(dev, value)| (*dev, *value))
            .filter(|(dev, _)| lives(dev))
            .collect();
        let mut told: Vec<(usize, u64)> =
            stamps.uses.iter().map(|point| (self.dev_of(*point), point.value())).collect();
        told.retain(|(dev, _)| lives(dev));
        told.sort_unstable();
        assert_eq!(told, uses, "command {command}: the use stamps of {buffer:?}");
    }

    /// S10.2: the books sum up to what drivers handed out, and never above the budget.
    fn check_books(&self, dev: usize) {
        let known = &self.devs[dev];
        let (device, command) = (&known.device, self.command);
        device.check_books();
        let stats = device.stats();
        let sum = stats.live_bytes
            + stats.returning_bytes
            + stats.cached_bytes
            + stats.staging_bytes
            + stats.pinned_bytes;
        assert_eq!(sum, device.held(), "command {command}: S10.2 of {}: {stats:?}", known.name);
        if !self.is_ill() && !self.is_lost(dev) {
            assert_eq!(device.submitted(), known.submitted, "command {command}: {}", known.name);
        }
        assert_eq!(device.budget(), known.budget);
        let held = stats.held_bytes + stats.given_away_bytes;
        match &known.control {
            Some(control) => {
                let handed = control.bytes_live_of(Memory::Device);
                assert_eq!(held, handed, "command {command}: S10.2 of {}: {stats:?}", known.name);
                let all = stats.actual_bytes - stats.freed_bytes;
                assert_eq!(all, control.bytes_live(), "command {command}: {}", known.name);
                let broken = control.violations();
                assert!(broken.is_empty(), "command {command}: {}: {broken:?}", known.name);
            }
            None if known.kind == Kind::Host => {
                let of_others = self.devs.iter().filter_map(|dev| dev.control.as_ref());
                let pinned: u64 = of_others
                    .map(|control| {
                        control.bytes_live_of(Memory::Pinned)
                            + control.bytes_live_of(Memory::Transfer)
                    })
                    .chain(self.devs.iter().filter(|dev| dev.kind == Kind::Gpu).map(halves))
                    .sum();
                let handed = stats.actual_bytes - stats.freed_bytes + pinned + self.foreign_before;
                assert_eq!(held, handed, "command {command}: S10.2 of the host: {stats:?}");
            }
            None if known.kind == Kind::Gpu => {
                let handed = stats.actual_bytes - stats.freed_bytes;
                let most = held + 4 * known.profile.half_bytes;
                let own = held..=most;
                assert!(own.contains(&handed), "command {command}: {}: {stats:?}", known.name);
            }
            None => {
                let handed = stats.actual_bytes - stats.freed_bytes;
                assert_eq!(held, handed, "command {command}: S10.2 of {}: {stats:?}", known.name);
            }
        }
    }

    /// Compares live, given and returning bytes, after a drain.
    fn check_places(&self, dev: usize, stats: &DeviceStats) {
        let (known, command) = (&self.devs[dev], self.command);
        let of = |life: Life, pinned: bool| -> u64 {
            let of_payer = self.allocs.iter().filter(|alloc| self.payer(alloc) == dev);
            let there = of_payer
                .filter(|alloc| alloc.life == life && (alloc.place == Place::Pinned) == pinned);
            there.map(|alloc| alloc.charged).sum()
        };
        let live = of(Life::Live, false);
        assert_eq!(stats.live_bytes, live, "command {command}: live on {}: {stats:?}", known.name);
        if dev == 0 {
            let pinned = of(Life::Live, true);
            assert_eq!(stats.pinned_bytes, pinned, "command {command}: {stats:?}");
        }
        let given = of(Life::Given, false);
        // What a GPU lends is the program's alone by now, unless work keeps it.
        let left = known.kind == Kind::Gpu && stats.given_away_bytes <= given;
        assert!(
            stats.given_away_bytes == given || left || self.is_lost(dev) || dev == 0,
            "command {command}: S4.16: {given} given on {}: {stats:?}",
            known.name
        );
        if self.is_ill() {
            return;
        }
        let kept = if dev == 0 { self.kept_bytes() } else { 0 };
        let blocked = self.blocked_bytes(dev) + kept;
        let returning = stats.returning_bytes;
        // The cache of a lost device empties at its stop (S9.5).
        let stopping = self.devs.iter().any(|dev| dev.is_lost() && !dev.is_stopped());
        let cached = if stopping { stats.cached_bytes } else { 0 };
        assert!(
            returning + cached >= blocked,
            "command {command}: S9.3: {blocked} wait on {}: {stats:?}",
            known.name
        );
        let idle = if dev == 0 {
            (0..self.devs.len()).all(|dev| self.is_idle(dev))
        } else {
            self.is_idle(dev)
        };
        let halves = if dev == 0 { self.spoiled_bytes_max() } else { 0 };
        assert!(
            !idle || returning - blocked <= halves,
            "command {command}: {blocked} wait on {}: {stats:?}",
            known.name
        );
    }

    /// Takes out the mappings that a drain has released: their device reached what was submitted
    /// when the last borrow went (S4.10).
    fn end_mappings(&mut self) {
        for alloc in 0..self.allocs.len() {
            let maps = std::mem::take(&mut self.allocs[alloc].maps);
            let left = maps.into_iter().filter(|(dev, map)| match self.devs[*dev].state {
                State::Lost { settled } => !settled,
                State::Well | State::Ill => {
                    map.due.is_none_or(|due| self.fate(*dev, due) != Fate::Reached)
                }
            });
            self.allocs[alloc].maps = left.collect();
        }
    }

    /// S8.9: a hold is released once, when each submission that named it is done.
    fn look_at_holds(&mut self) {
        for held in &self.holds {
            let released = held.released.load(Ordering::Relaxed);
            let over = held.named.iter().all(|stamp| {
                matches!(self.fate(stamp.dev, stamp.value), Fate::Reached | Fate::Dropped)
            });
            let due = over && !(held.named.is_empty() && held.hold.is_some());
            // A release waits for the stop of its device.
            let stops = held.named.iter().any(|stamp| {
                let dev = &self.devs[stamp.dev];
                dev.is_lost() && !dev.is_stopped()
            });
            let early = released > u64::from(due);
            assert!(!early || held.named.len() > 1, "command {}: S8.9: early", self.command);
            assert!(released <= 1, "command {}: S8.9: once", self.command);
            let waits = stops || self.is_ill();
            assert!(!due || released == 1 || waits, "command {}: S8.9: late", self.command);
        }
        self.holds.retain(|held| held.hold.is_some() || held.released.load(Ordering::Relaxed) == 0);
    }

    /// Forgets what came back. The keeper of wrapped memory was dropped then, and not before.
    fn let_go(&mut self) {
        for alloc in 0..self.allocs.len() {
            let known = &self.allocs[alloc];
            let back = known.life == Life::Returning && !self.is_blocked(known);
            if let Some(kept) = &known.kept
                && !self.is_ill()
            {
                let dropped = kept.load(Ordering::Relaxed);
                let gone = back || known.life == Life::Gone;
                assert_eq!(dropped, gone, "command {}: S4.4: the keeper", self.command);
            }
            if back {
                self.allocs[alloc].life = Life::Gone;
            }
        }
    }
}

/// Returns the bytes of a GPU's own halves, which the host pays for (S7.7).
fn halves(gpu: &Dev) -> u64 {
    let stats = gpu.device.stats();
    stats.actual_bytes - stats.freed_bytes - stats.held_bytes - stats.given_away_bytes
}
