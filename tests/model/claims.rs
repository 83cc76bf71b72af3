//! Commands on kept claims: reads, donations, and what they let a program take over.

use crate::reference::{Access, Life, Place};
use crate::verdict::{Code, Want};
use crate::world::{Handle, On, With, World};
use rig::{Buffer, Claims, Misuse};

impl World {
    pub(crate) fn claim_read(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let want = self.want_of_claim(&handle);
        let got = handle.buffer.claim_read();
        if self.judge(&want, &got) == Code::Well {
            self.allocs[handle.alloc].kept_reads += 1;
            self.claims.push((got.expect("it was judged well"), handle.alloc));
        }
    }

    fn want_of_claim(&self, handle: &Handle) -> Want {
        let alloc = &self.allocs[handle.alloc];
        Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(
                Code::Lost,
                self.on_lost(handle) || self.meets_loss(handle.alloc, Access::Write),
            )
            .refuse(Code::Busy, alloc.refuses_kept_read())
    }

    pub(crate) fn drop_claim(&mut self) {
        if !self.claims.is_empty() {
            let at = self.command.pick(0, self.claims.len());
            let (_, alloc) = self.claims.swap_remove(at);
            self.allocs[alloc].kept_reads -= 1;
        }
    }

    /// Claims some buffers for reading and donates others, and runs commands meanwhile.
    pub(crate) fn with(&mut self) {
        if self.handles.is_empty() || self.depth >= 2 {
            return;
        }
        let mut random = self.command.random();
        let mut pick = |count: u64| -> Vec<Handle> {
            let count = random.below(count);
            let at = |_| random.below(self.handles.len() as u64) as usize;
            (0..count).map(at).map(|at| self.handles[at].clone()).collect()
        };
        let reads = pick(3);
        let donations = [pick(3), pick(2)];
        let want = self.want_of_with(&reads, &donations);
        let borrowed: Vec<&Buffer> = reads.iter().map(|handle| &handle.buffer).collect();
        let donated: Vec<Vec<&Buffer>> = donations
            .iter()
            .map(|donation| donation.iter().map(|handle| &handle.buffer).collect())
            .collect();
        let donated: Vec<&[&Buffer]> = donated.iter().map(Vec::as_slice).collect();
        let got = Claims::with(&borrowed, &donated, |claims| {
            self.enter_with(claims, &reads, &donations);
            self.run_inside(self.command.numbers[2] % 6);
            self.leave_with();
        });
        self.judge(&want, &got);
        if let Some(ended) = self.ended.take()
            && let Some(handle) = reads.first()
        {
            let late = ended.consume(&handle.buffer, "late");
            let told = late.is_err_and(|error| error.misuse() == Some(&Misuse::ClaimsEnded));
            assert!(told, "command {}: S5.4: the claims have ended", self.command);
        }
    }

    fn want_of_with(&self, reads: &[Handle], donations: &[Vec<Handle>]) -> Want {
        let donated: Vec<&Handle> = donations.iter().flatten().collect();
        let all = || reads.iter().chain(donated.iter().copied());
        let mut overlap = false;
        for (at, handle) in donated.iter().enumerate() {
            let mut others = reads.iter().chain(donated[at + 1..].iter().copied());
            overlap |= others.any(|other| {
                handle.alloc == other.alloc
                    && handle.len.min(other.len) > 0
                    && handle.offset < other.offset + other.len
                    && other.offset < handle.offset + handle.len
            });
        }
        let lost =
            |handle: &Handle| self.on_lost(handle) || self.meets_loss(handle.alloc, Access::Write);
        Want::new()
            .refuse(Code::Wrong, overlap)
            .refuse(Code::Dead, all().any(|handle| self.allocs[handle.alloc].dead.is_some()))
            .refuse(Code::Lost, all().any(lost))
            .refuse(Code::Busy, all().any(|handle| self.allocs[handle.alloc].refuses_kept_read()))
    }

    /// Notes what the claims hold, by the rule of S5.3.
    fn enter_with(&mut self, claims: &Claims, reads: &[Handle], donations: &[Vec<Handle>]) {
        self.tokens += 1;
        let token = self.tokens;
        let mut held: Vec<(usize, bool)> = Vec::new();
        for handle in reads.iter().chain(donations.iter().flatten()) {
            if !held.iter().any(|(alloc, _)| *alloc == handle.alloc) {
                self.allocs[handle.alloc].kept_reads += 1;
                held.push((handle.alloc, false));
            }
        }
        for donation in donations {
            let fits = donation.iter().all(|handle| self.may_be_exclusive(handle));
            for handle in donation.iter().filter(|_| fits) {
                let known = &mut self.allocs[handle.alloc];
                (known.kept_reads, known.exclusive) = (0, token);
                let entry = held.iter_mut().find(|(alloc, _)| *alloc == handle.alloc);
                entry.expect("it is claimed").1 = true;
            }
        }
        for handle in reads.iter().chain(donations.iter().flatten()) {
            let exclusive = held.contains(&(handle.alloc, true));
            let told = claims.is_exclusive(&handle.buffer);
            assert_eq!(told, exclusive, "command {}: S5.3: {:?}", self.command, handle.buffer);
        }
        self.withs.push(With { claims: claims.clone(), token, held });
    }

    fn may_be_exclusive(&self, handle: &Handle) -> bool {
        let alloc = &self.allocs[handle.alloc];
        let spans = handle.offset == 0 && handle.len == alloc.len;
        let alone = alloc.kept_reads == 1 && alloc.closure_reads + alloc.closure_writes == 0;
        spans && alone && handle.len > 0 && !alloc.read_only && !alloc.outside
    }

    fn leave_with(&mut self) {
        let with = self.withs.pop().expect("it was entered");
        for (alloc, exclusive) in with.held {
            let known = &mut self.allocs[alloc];
            if exclusive {
                known.exclusive = 0;
            } else {
                known.kept_reads -= 1;
            }
        }
        self.ended = Some(with.claims);
    }

    /// Takes the bytes of a buffer over, under the innermost claims.
    pub(crate) fn consume(&mut self) {
        let (Some(at), Some(with)) = (self.pick_handle(0), self.withs.last()) else { return };
        let exclusive = |handle: &&Handle| with.held.contains(&(handle.alloc, true));
        let handle = match self.handles.iter().find(exclusive) {
            Some(handle) if self.command.pick(1, 4) > 0 => handle.clone(),
            _ => self.handles[at].clone(),
        };
        let alloc = &self.allocs[handle.alloc];
        let (token, claims) = (with.token, with.claims.clone());
        let spans = handle.offset == 0 && handle.len == alloc.len;
        let exclusive = with.held.contains(&(handle.alloc, true));
        let closures = alloc.closure_reads + alloc.closure_writes > 0;
        let want = Want::new()
            .may(Code::Wrong, !spans || !exclusive)
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::Wrong, !spans || !exclusive)
            .refuse(
                Code::Lost,
                self.on_lost(&handle) || self.meets_loss(handle.alloc, Access::Write),
            )
            .refuse(Code::Busy, closures);
        let got = claims.consume(&handle.buffer, "consumed");
        if self.judge(&want, &got) == Code::Well {
            let buffer = got.expect("it was judged well");
            self.consumed(&handle, buffer, token);
        }
    }

    /// Moves what the reference knows to a new allocation; all earlier buffers are dead.
    fn consumed(&mut self, handle: &Handle, buffer: Buffer, token: u64) {
        let new = self.allocs.len();
        let old = &mut self.allocs[handle.alloc];
        let moved = old.clone();
        (old.dead, old.life, old.charged) = (Some("consumed"), Life::Gone, 0);
        old.maps.clear();
        (old.kept_reads, old.exclusive) = (0, 0);
        assert!(moved.place != Place::Empty, "nothing of 0 bytes is exclusive");
        self.allocs.push(moved);
        let with = self.withs.last_mut().expect("it runs");
        for (alloc, _) in with.held.iter_mut().filter(|(alloc, _)| *alloc == handle.alloc) {
            *alloc = new;
        }
        let len = handle.len;
        self.handles.push(Handle { buffer, alloc: new, on: On::Own, offset: 0, len, token });
    }
}
