//! Commands on work: kernels, prepared submissions, submits, recorded uses and waits.

use crate::dev::Kind;
use crate::make::How;
use crate::plan::{Function, Part, Plan, Slot, kernel_code};
use crate::random::Random;
use crate::reference::{Access, Alloc, Stamp};
use crate::verdict::{Code, Want};
use crate::world::{Fate, Handle, Held, Loaded, Work, World};
use rig::{Buffer, Hold, Named, Point, Use, run};
use rig_support::point;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl World {
    pub(crate) fn load_kernel(&mut self) {
        let dev = self.pick_worker(0);
        if self.devs[dev].kind == Kind::Gpu {
            // It runs no Rust functions.
            return;
        }
        let what = [Function::Flip, Function::Add][self.command.pick(1, 2)];
        let known = &self.devs[dev];
        let asked = self.asked(dev, rig::Kind::Device, known.profile.code_bytes);
        let mut want = Want::new()
            .refuse(Code::Unsupported, !known.has_timeline())
            .refuse(Code::Lost, self.is_lost(dev));
        if want.is_well() && asked.len > 0 {
            want = self.want_of_create(asked, How::Waiting);
        }
        let device = known.device.clone();
        let got = device.kernel(kernel_code(what));
        match self.judge(&want, &got) {
            Code::Well => {
                let kernel = got.expect("it was judged well");
                let mut code = None;
                if asked.len > 0 {
                    let mut alloc = Alloc::new(dev, asked.place, asked.len);
                    alloc.charged = self.charged_now(asked);
                    let value = self.next_values(dev, 1);
                    alloc.stamp(Access::Write, dev, value);
                    code = Some(self.allocs.len());
                    self.allocs.push(alloc);
                }
                self.kernels.push(Loaded { kernel, dev, function: what, code });
            }
            Code::Lost => self.unsure = true,
            _ => {}
        }
    }

    pub(crate) fn drop_kernel(&mut self) {
        if !self.kernels.is_empty() {
            let at = self.command.pick(0, self.kernels.len());
            self.kernels.swap_remove(at);
        }
    }

    /// Picks a handle, mostly one on the device.
    fn pick_on(&self, dev: usize, number: u64) -> Option<Handle> {
        let on: Vec<&Handle> =
            self.handles.iter().filter(|handle| self.device_of(handle) == dev).collect();
        let all = number.is_multiple_of(16) || on.is_empty();
        let count = if all { self.handles.len() } else { on.len() };
        let at = (number / 16 % (count as u64).max(1)) as usize;
        if all { self.handles.get(at).cloned() } else { on.get(at).map(|handle| (*handle).clone()) }
    }

    /// Prepares up to three parts on a device.
    pub(crate) fn prepare(&mut self) {
        let dev = self.pick_worker(0);
        let mut random = self.command.random();
        let mut plan =
            Plan { dev, parts: Vec::new(), slots: Vec::new(), runs: 0, code: Vec::new() };
        let device = self.devs[dev].device.clone();
        let mut builder = device.prepare();
        for _ in 0..random.below(4) {
            let kind = random.below(4);
            let what = if kind == 2 { Function::Flip } else { Function::Add };
            let loaded = self.kernels.iter().find(|k| k.dev == dev && k.function == what);
            let (Some(src), Some(dst)) =
                (self.name(&mut plan, &mut random), self.name(&mut plan, &mut random))
            else {
                break;
            };
            let (from, to) = (plan.slots.len(), plan.slots.len() + 1);
            let alone = matches!(kind, 0 | 2);
            if !alone {
                plan.slots.push((src.0, Access::Read));
            }
            let to = if alone { from } else { to };
            plan.slots.push((dst.0, Access::Write));
            match (kind, loaded) {
                (1, _) => {
                    plan.parts.push(Part::Copy(from, to));
                    builder = builder.copy(src.1, dst.1);
                }
                (2, Some(loaded)) => {
                    plan.code.extend(loaded.code);
                    plan.parts.push(Part::Flip(to));
                    builder = builder.launch(&loaded.kernel, [1; 3]).writes(dst.1);
                }
                (3, Some(loaded)) => {
                    plan.code.extend(loaded.code);
                    plan.parts.push(Part::Add(from, to));
                    builder = builder.launch(&loaded.kernel, [1; 3]).reads(src.1).writes(dst.1);
                }
                _ => {
                    if !alone {
                        plan.slots.remove(from);
                    }
                    let to = plan.slots.len() - 1;
                    plan.parts.push(Part::Fill(to, to as u8 + 1));
                    builder = builder.fill(dst.1, to as u8 + 1);
                }
            }
        }
        let runs = plan.slots.iter().filter_map(|(slot, _)| match slot {
            Slot::Run(index) => Some(index + 1),
            Slot::Fixed(_) => None,
        });
        plan.runs = runs.max().unwrap_or(0);
        let want = self.want_of_prepare(&plan);
        let got = builder.build();
        if self.judge(&want, &got) == Code::Well {
            self.works.push(Work { prepared: got.expect("it was judged well"), plan });
        }
    }

    /// Names a run buffer, or a handle that is mostly on the plan's device.
    fn name(&self, plan: &mut Plan, random: &mut Random) -> Option<(Slot, Named)> {
        if random.one_in(2) {
            let index = random.below(plan.runs as u64 + 1).min(2) as usize;
            plan.runs = plan.runs.max(index + 1);
            return Some((Slot::Run(index), run(index)));
        }
        let handle = self.pick_on(plan.dev, random.next())?;
        let named = Named::from(&handle.buffer);
        Some((Slot::Fixed(handle), named))
    }

    pub(crate) fn submit(&mut self) {
        if self.works.is_empty() {
            return;
        }
        let at = self.command.pick(0, self.works.len());
        let (prepared, plan) = (self.works[at].prepared.clone(), self.works[at].plan.clone());
        let mut random = self.command.random();
        let mut given: Vec<Handle> = Vec::new();
        for _ in 0..plan.runs {
            given.extend(self.pick_on(plan.dev, random.next()));
        }
        self.fit_copies(&plan, &mut given);
        if random.one_in(30) {
            given.pop();
        }
        let waits: Vec<Point> =
            (0..random.below(3)).filter_map(|_| self.pick_point(random.next())).collect();
        let hold = random.one_in(6).then(|| self.pick_hold());
        let want = self.want_of_submit(&plan, &given, &waits);
        let buffers: Vec<&Buffer> = given.iter().map(|handle| &handle.buffer).collect();
        let hold_of = |at: usize| self.holds[at].hold.as_ref().expect("only kept ones are picked");
        let holds: Vec<&Hold> = hold.iter().map(|at| hold_of(*at)).collect();
        let got = prepared.submit_holding(&buffers, &waits, &holds);
        match self.judge(&want, &got) {
            Code::Well => {
                let value = self.submitted_as(&plan, &given, got.expect("it was judged well"));
                if let Some(at) = hold {
                    self.holds[at].named.push(value);
                }
            }
            Code::Lost => {
                self.unsure = true;
                self.forget_written(&plan, &given);
                // A hand-over that faults counts as submitted (S8.3).
                let known = &self.devs[plan.dev];
                let submitted = known.device.submitted();
                if let (Some(at), true) = (hold, submitted > known.submitted) {
                    self.holds[at].named.push(Stamp { dev: plan.dev, value: submitted });
                }
            }
            _ => {}
        }
    }

    /// Makes the run buffers of most copies fit each other.
    fn fit_copies(&self, plan: &Plan, given: &mut [Handle]) {
        let Some(resolved) = plan.resolve(given) else { return };
        for (src, dst) in plan.copies() {
            let (from, to) = (&resolved[src], &resolved[dst]);
            let len = from.len.min(to.len);
            for (slot, handle) in [(src, from), (dst, to)] {
                if let Slot::Run(index) = plan.slots[slot].0
                    && handle.len > len
                    && let Ok(buffer) = handle.buffer.view(0, len)
                {
                    given[index] = Handle { buffer, len, ..handle.clone() };
                }
            }
        }
    }

    /// Picks a point, which rarely was not submitted.
    fn pick_point(&self, number: u64) -> Option<Point> {
        let at = number as usize % self.devs.len();
        let known = &self.devs[at];
        let first = known.profile.first_value;
        if !known.has_timeline() || known.submitted == first {
            return None;
        }
        let above = u64::from((number / 64).is_multiple_of(40));
        let value = first + 1 + number / 4_096 % (known.submitted - first);
        Some(point(&known.device, if above > 0 { known.submitted + 1 } else { value }))
    }

    fn pick_hold(&mut self) -> usize {
        if let Some(at) = self.holds.iter().position(|held| held.hold.is_some())
            && self.command.pick(3, 2) == 0
        {
            return at;
        }
        let released = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&released);
        let hold = Hold::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        self.holds.push(Held { hold: Some(hold), released, named: Vec::new() });
        self.holds.len() - 1
    }

    /// Notes a submission: its value, its stamps, and what it does to the bytes.
    fn submitted_as(&mut self, plan: &Plan, given: &[Handle], point: Point) -> Stamp {
        let value = self.next_values(plan.dev, 1);
        assert_eq!(self.dev_of(point), plan.dev);
        if !self.is_ill() {
            assert_eq!(point.value(), value, "command {}: S2.1: the next value", self.command);
        }
        for (alloc, access) in self.touches(plan, given) {
            self.allocs[alloc].stamp(access, plan.dev, point.value());
        }
        let resolved = plan.resolve(given).expect("it was submitted");
        for part in &plan.parts {
            self.run_part(part, &resolved);
        }
        Stamp { dev: plan.dev, value: point.value() }
    }

    /// Forgets the bytes that work would have written, which a loss may have left anyhow.
    fn forget_written(&mut self, plan: &Plan, given: &[Handle]) {
        for (handle, (_, access)) in plan.resolve(given).unwrap_or_default().iter().zip(&plan.slots)
        {
            if *access == Access::Write {
                self.allocs[handle.alloc].bytes.borrow_mut().forget(handle.offset, handle.len);
            }
        }
    }

    pub(crate) fn record_use(&mut self) {
        let dev = self.pick_worker(0);
        let (Some(reads), Some(writes)) = (
            self.pick_on(dev, self.command.numbers[1]),
            self.pick_on(dev, self.command.numbers[2]),
        ) else {
            return;
        };
        let slots = vec![
            (Slot::Fixed(reads.clone()), Access::Read),
            (Slot::Fixed(writes.clone()), Access::Write),
        ];
        let plan = Plan { dev, parts: Vec::new(), slots, runs: 0, code: Vec::new() };
        let mut want = self.want_of_prepare(&plan);
        if want.is_well() {
            want = self.want_of_submit(&plan, &[], &[]);
        }
        let device = self.devs[dev].device.clone();
        let got = device.record_use(&[&reads.buffer], &[&writes.buffer]);
        match self.judge(&want, &got) {
            Code::Well => {
                self.submitted_as(&plan, &[], got.expect("it was judged well"));
            }
            Code::Lost => self.unsure = true,
            _ => {}
        }
    }

    pub(crate) fn drop_work(&mut self) {
        if !self.works.is_empty() {
            let at = self.command.pick(0, self.works.len());
            self.works.swap_remove(at);
        }
    }

    pub(crate) fn drop_hold(&mut self) {
        if !self.holds.is_empty() {
            let at = self.command.pick(0, self.holds.len());
            self.holds[at].hold = None;
        }
    }

    pub(crate) fn wait_value(&mut self) {
        let dev = self.pick_dev(0);
        let known = &self.devs[dev];
        let value = match self.command.pick(1, 6) {
            0 => known.submitted + 1,
            1 => known.submitted,
            at => known.submitted.saturating_sub(at as u64),
        };
        let want = Want::new()
            .refuse(Code::Wrong, value > known.submitted)
            .refuse(Code::Lost, self.is_lost(dev));
        let device = known.device.clone();
        let got = device.wait(value);
        if self.judge(&want, &got) == Code::Well {
            assert!(device.reached() >= value, "S2.7: a wait returns once the value is reached");
        }
    }

    pub(crate) fn wait_buffer(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let (what, access) = match self.command.pick(1, 2) {
            0 => (Use::Read, Access::Read),
            _ => (Use::Write, Access::Write),
        };
        let alloc = &self.allocs[handle.alloc];
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::ReadOnly, access == Access::Write && alloc.read_only)
            .refuse(Code::Lost, self.on_lost(&handle) || self.meets_loss(handle.alloc, access));
        let got = handle.buffer.wait(what);
        if self.judge(&want, &got) == Code::Well {
            self.look();
            let alloc = &self.allocs[handle.alloc];
            let write = alloc.write.map(|stamp| (stamp.dev, stamp.value));
            let uses = alloc.uses.iter().map(|(dev, value)| (*dev, *value));
            let followed: Vec<(usize, u64)> =
                if access == Access::Read { write.into_iter().collect() } else { uses.collect() };
            for (dev, value) in followed {
                let passed = matches!(self.fate(dev, value), Fate::Reached | Fate::Dropped);
                assert!(passed, "command {}: S3.7: {dev}:{value} was waited for", self.command);
            }
        }
    }
}
