//! Prepared work as the reference knows it: its parts, what they may name, and what they do.

use crate::reference::{Access, UNKNOWN};
use crate::verdict::{Code, Want};
use crate::world::{Fate, Handle, On, World};
use rig::memory::function;
use rig::{Code as KernelCode, Point};

/// What a kernel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    /// Flips bits of every byte of the one buffer, which it writes.
    Flip,
    /// Adds the bytes of the first buffer, which it reads, to those of the second.
    Add,
}

/// Prepared work, as the reference runs it.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) dev: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) slots: Vec<(Slot, Access)>,
    pub(crate) runs: usize,
    /// The code in device memory that its launches read.
    pub(crate) code: Vec<usize>,
}

/// A buffer that a part names.
#[derive(Clone)]
pub(crate) enum Slot {
    Fixed(Handle),
    Run(usize),
}

/// A part, with its slots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Fill(usize, u8),
    Copy(usize, usize),
    Flip(usize),
    Add(usize, usize),
}

impl Plan {
    fn fixed(&self) -> impl Iterator<Item = &Handle> {
        self.slots.iter().filter_map(|(slot, _)| match slot {
            Slot::Fixed(handle) => Some(handle),
            Slot::Run(_) => None,
        })
    }

    /// Whether it keeps an allocation alive.
    pub(crate) fn keeps(&self, alloc: usize) -> bool {
        self.fixed().any(|handle| handle.alloc == alloc) || self.code.contains(&alloc)
    }

    /// Whether it keeps a borrow of an allocation on a device.
    pub(crate) fn borrows(&self, alloc: usize, dev: usize) -> bool {
        self.fixed().any(|handle| handle.alloc == alloc && handle.on == On::Mapped(dev))
    }

    /// Returns the buffers of all slots, or none if there are too few run buffers.
    pub(crate) fn resolve(&self, given: &[Handle]) -> Option<Vec<Handle>> {
        let resolved = self.slots.iter().map(|(slot, _)| match slot {
            Slot::Fixed(handle) => Some(handle.clone()),
            Slot::Run(index) => given.get(*index).cloned(),
        });
        resolved.collect()
    }

    pub(crate) fn copies(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Copy(src, dst) => Some((*src, *dst)),
            _ => None,
        })
    }
}

pub(crate) fn kernel_code(what: Function) -> KernelCode {
    match what {
        Function::Flip => function("flip", |call| {
            call.update::<u8>(0, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= FLIP));
        }),
        Function::Add => function("add", |call| {
            let more = call.values::<u8>(0);
            call.update::<u8>(1, |bytes| {
                bytes
                    .iter_mut()
                    .zip(&more)
                    .for_each(|(byte, more)| *byte = byte.wrapping_add(*more));
            });
        }),
    }
}

impl World {
    pub(crate) fn want_of_prepare(&self, plan: &Plan) -> Want {
        let known = &self.devs[plan.dev];
        let foreign = plan.fixed().any(|handle| self.device_of(handle) != plan.dev);
        let fits = |runs: fn(&rig::driver::Queue) -> bool| known.profile.queues.iter().any(runs);
        let unfit = plan.parts.iter().any(|part| match part {
            Part::Fill(..) => !fits(|queue| queue.fills),
            Part::Copy(..) => !fits(|queue| queue.copies),
            Part::Flip(_) | Part::Add(..) => !fits(|queue| queue.launches),
        });
        let copies =
            plan.copies().any(|(src, dst)| match (&plan.slots[src].0, &plan.slots[dst].0) {
                (Slot::Fixed(src), Slot::Fixed(dst)) => copy_is_wrong(src, dst),
                _ => false,
            });
        let written = plan.slots.iter().any(|(slot, access)| match slot {
            Slot::Fixed(handle) => *access == Access::Write && self.allocs[handle.alloc].read_only,
            Slot::Run(_) => false,
        });
        Want::new()
            .refuse(Code::Unsupported, !known.has_timeline())
            .refuse(Code::Wrong, foreign || unfit || copies)
            .refuse(Code::Dead, plan.fixed().any(|handle| self.allocs[handle.alloc].dead.is_some()))
            .refuse(Code::ReadOnly, written)
            .refuse(Code::Lost, self.is_lost(plan.dev))
            .may(Code::Lost, plan.fixed().any(|handle| self.on_lost(handle)))
    }

    /// Returns what a plan uses, each allocation once, with the greatest access.
    pub(crate) fn touches(&self, plan: &Plan, given: &[Handle]) -> Vec<(usize, Access)> {
        let resolved = plan.resolve(given).unwrap_or_default();
        let slots = resolved.iter().zip(&plan.slots);
        let named = slots.map(|(handle, (_, access))| (handle.alloc, *access));
        let mut touches: Vec<(usize, Access)> = Vec::new();
        // What is given is used, though no part may name its place.
        let given = given.iter().map(|handle| (handle.alloc, Access::Read));
        let code = plan.code.iter().map(|code| (*code, Access::Read));
        for (alloc, access) in named.chain(given).chain(code) {
            match touches.iter_mut().find(|(known, _)| *known == alloc) {
                Some(known) => known.1 = known.1.max(access),
                None => touches.push((alloc, access)),
            }
        }
        touches
    }

    pub(crate) fn want_of_submit(&self, plan: &Plan, given: &[Handle], waits: &[Point]) -> Want {
        let dev = plan.dev;
        let unsubmitted = |point: &Point| point.value() > self.devs[self.dev_of(*point)].submitted;
        let foreign = given.iter().any(|handle| self.device_of(handle) != dev);
        let count = given.len() != plan.runs;
        let want =
            Want::new().refuse(Code::Wrong, count || foreign || waits.iter().any(unsubmitted));
        let Some(resolved) = plan.resolve(given) else { return want };
        let copies = plan.copies().any(|(src, dst)| copy_is_wrong(&resolved[src], &resolved[dst]));
        let slots = || resolved.iter().zip(&plan.slots);
        let written = slots().any(|(handle, (_, access))| {
            *access == Access::Write && self.allocs[handle.alloc].read_only
        });
        let dead =
            resolved.iter().chain(given).any(|handle| self.allocs[handle.alloc].dead.is_some());
        let on_lost = resolved.iter().chain(given).any(|handle| self.on_lost(handle));
        let undone = |point: &Point| {
            let of = self.dev_of(*point);
            of != dev && matches!(self.fate(of, point.value()), Fate::Undone | Fate::Dropped)
        };
        let touches = self.touches(plan, given);
        let lost = touches.iter().any(|(alloc, access)| self.meets_loss(*alloc, *access));
        let busy = touches.iter().any(|(alloc, access)| self.allocs[*alloc].refuses_work(*access));
        let parts = (plan.parts.len() as u64).max(1);
        want.refuse(Code::Wrong, copies)
            .refuse(Code::Dead, dead)
            .refuse(Code::ReadOnly, written)
            .refuse(Code::Lost, self.is_lost(dev) || on_lost)
            .refuse(Code::Lost, lost || waits.iter().any(undone))
            .refuse(Code::Busy, busy)
            .refuse(Code::Wrong, parts > self.devs[dev].profile.queue_parts)
    }

    pub(crate) fn run_part(&mut self, part: &Part, slots: &[Handle]) {
        let bytes = |world: &Self, slot: usize| {
            let handle = &slots[slot];
            world.allocs[handle.alloc].bytes.borrow().range(handle.offset, handle.len)
        };
        let set = |world: &mut Self, slot: usize, new: &[u16]| {
            let handle = &slots[slot];
            world.allocs[handle.alloc].bytes.borrow_mut().set(handle.offset, new);
        };
        match *part {
            Part::Fill(dst, byte) => {
                let new = vec![u16::from(byte); slots[dst].len as usize];
                set(self, dst, &new);
            }
            Part::Copy(src, dst) => {
                let new = bytes(self, src);
                set(self, dst, &new);
            }
            Part::Flip(dst) => {
                let mut new = bytes(self, dst);
                let known = new.iter_mut().filter(|byte| **byte != UNKNOWN);
                known.for_each(|byte| *byte ^= u16::from(FLIP));
                set(self, dst, &new);
            }
            Part::Add(src, dst) => {
                let (more, mut new) = (bytes(self, src), bytes(self, dst));
                for (byte, more) in new.iter_mut().zip(&more) {
                    let known = *byte != UNKNOWN && *more != UNKNOWN;
                    *byte = if known { (*byte + more) & 0xFF } else { UNKNOWN };
                }
                set(self, dst, &new);
            }
        }
    }
}

/// Whether a copy part's sides are of two lengths or overlap.
fn copy_is_wrong(src: &Handle, dst: &Handle) -> bool {
    let meet = src.alloc == dst.alloc
        && src.offset < dst.offset + dst.len
        && dst.offset < src.offset + src.len;
    src.len != dst.len || meet && src.len > 0
}

const FLIP: u8 = 0x5A;
