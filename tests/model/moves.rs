//! Commands that move bytes: copies by every route, blits and fills.

use crate::reference::{Access, Map, Place};
use crate::route::Route;
use crate::verdict::{Code, Want};
use crate::world::{Handle, World};

impl World {
    pub(crate) fn copy(&mut self) {
        let (Some(from), Some(to)) = (self.pick_handle(0), self.pick_handle(1)) else { return };
        let (mut src, mut dst) = (self.handles[from].clone(), self.handles[to].clone());
        if self.command.pick(2, 8) > 0 {
            // Two buffers of one length are rare: the longer one is cut.
            let len = src.len.min(dst.len);
            (src, dst) = (src.end(len), dst.end(len));
        }
        let (a, b) = (&self.allocs[src.alloc], &self.allocs[dst.alloc]);
        let meet = src.alloc == dst.alloc
            && src.offset < dst.offset + dst.len
            && dst.offset < src.offset + src.len;
        let mut want = Want::new()
            .refuse(Code::Dead, a.dead.is_some() || b.dead.is_some())
            .refuse(Code::Wrong, src.len != dst.len || meet && src.len > 0)
            .refuse(Code::ReadOnly, b.read_only)
            .refuse(Code::Lost, self.on_lost(&src) || self.on_lost(&dst));
        let lost =
            self.meets_loss(src.alloc, Access::Read) || self.meets_loss(dst.alloc, Access::Write);
        let mut route = Route::Host;
        if src.len == dst.len && src.len > 0 && want.is_well() {
            route = self.route(&src, &dst);
            let shared = src.alloc == dst.alloc;
            let busy = self.move_is_busy(&src, &dst, route, shared);
            want = want
                .refuse(Code::Unsupported, route == Route::Unsupported)
                .refuse(Code::Lost, lost)
                .may(Code::Unsupported, route == Route::Unclear)
                .may(Code::OutOfMemory, self.lacks_staging(route))
                .refuse(Code::Busy, busy);
        } else {
            want = want.may(Code::Lost, lost);
        }
        let got = rig::copy(&src.buffer, &dst.buffer);
        let code = self.judge(&want, &got);
        if src.len == dst.len && src.len > 0 {
            self.copied(&src, &dst, route, code);
        }
    }

    /// Whether claims or running closures refuse a copy.
    fn move_is_busy(&self, src: &Handle, dst: &Handle, route: Route, shared: bool) -> bool {
        let (a, b) = (&self.allocs[src.alloc], &self.allocs[dst.alloc]);
        let host_reads = a.refuses_host(Access::Read, src.token);
        let host_writes = b.refuses_host(Access::Write, dst.token);
        match route {
            // One claim an allocation: claims of one call never refuse each other.
            Route::Host if shared => host_writes,
            Route::Host | Route::FileToFile => host_reads || host_writes,
            Route::In(_) => host_reads || b.refuses_work(Access::Write),
            Route::Out(_) => a.refuses_work(Access::Read) || host_writes,
            Route::Direct(_) | Route::DirectPeer(_) | Route::Unclear if shared => {
                b.refuses_work(Access::Write)
            }
            _ => a.refuses_work(Access::Read) || b.refuses_work(Access::Write),
        }
    }

    /// Whether the host's budget may lack room for a half.
    fn lacks_staging(&self, route: Route) -> bool {
        let staged =
            matches!(route, Route::In(_) | Route::Out(_) | Route::Through(..) | Route::FileToFile);
        staged && self.devs[0].budget != u64::MAX
    }

    /// Notes what a copy did.
    fn copied(&mut self, src: &Handle, dst: &Handle, route: Route, code: Code) {
        let len = src.len;
        if code != Code::Well {
            if matches!(code, Code::Lost | Code::OutOfMemory) {
                self.allocs[dst.alloc].bytes.borrow_mut().forget(dst.offset, len);
                self.unsure = true;
            }
            return;
        }
        let moved = self.allocs[src.alloc].bytes.borrow().range(src.offset, len);
        self.allocs[dst.alloc].bytes.borrow_mut().set(dst.offset, &moved);
        match route {
            Route::Host | Route::FileToFile => {}
            Route::Direct(dev) | Route::DirectPeer(dev) => {
                let value = self.next_values(dev, 1);
                self.allocs[src.alloc].stamp(Access::Read, dev, value);
                self.allocs[dst.alloc].stamp(Access::Write, dev, value);
                if let Route::DirectPeer(dev) = route {
                    self.allocs[dst.alloc].maps.insert(dev, Map::default());
                }
            }
            Route::In(dev) => {
                let last = self.next_values(dev, self.pieces(dev, len));
                self.allocs[dst.alloc].stamp(Access::Write, dev, last);
            }
            Route::Out(dev) => {
                let last = self.next_values(dev, self.pieces(dev, len));
                self.allocs[src.alloc].stamp(Access::Read, dev, last);
            }
            Route::Through(from, to) => {
                let pieces = self.pieces(from, len).max(self.pieces(to, len));
                let (out, into) = (self.next_values(from, pieces), self.next_values(to, pieces));
                self.allocs[src.alloc].stamp(Access::Read, from, out);
                self.allocs[dst.alloc].stamp(Access::Write, to, into);
            }
            Route::Unclear | Route::Unsupported => self.unsure = true,
        }
    }

    /// Assigns the next values of a device (S2.1), and answers the last.
    pub(crate) fn next_values(&mut self, dev: usize, count: u64) -> u64 {
        self.devs[dev].submitted += count;
        self.devs[dev].submitted
    }

    /// Returns the pieces of a staged copy: P of S3.7.
    pub(crate) fn pieces(&self, dev: usize, len: u64) -> u64 {
        len.div_ceil(self.devs[dev].profile.piece())
    }

    pub(crate) fn blit_to(&mut self) {
        let Some((handle, offset, len)) = self.pick_range() else { return };
        let want = self.want_of_blit(&handle, offset, len, Access::Read);
        let mut out = vec![0; len as usize];
        let got = handle.buffer.blit_to(offset, &mut out);
        match self.judge(&want, &got) {
            Code::Well if len > 0 => {
                self.look_at_bytes(handle.alloc, handle.offset + offset, &out);
                self.blitted(&handle, len, Access::Read);
            }
            Code::Lost | Code::OutOfMemory => self.unsure = true,
            _ => {}
        }
    }

    pub(crate) fn blit_from(&mut self) {
        let Some((handle, offset, len)) = self.pick_range() else { return };
        let want = self.want_of_blit(&handle, offset, len, Access::Write);
        let mut random = self.command.random();
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let got = handle.buffer.blit_from(offset, &bytes);
        let at = handle.offset + offset;
        match self.judge(&want, &got) {
            Code::Well if len > 0 => {
                self.allocs[handle.alloc].bytes.borrow_mut().set_known(at, &bytes);
                self.blitted(&handle, len, Access::Write);
            }
            Code::Lost | Code::OutOfMemory => {
                if offset + len <= handle.len {
                    self.allocs[handle.alloc].bytes.borrow_mut().forget(at, len);
                }
                self.unsure = true;
            }
            _ => {}
        }
    }

    pub(crate) fn fill(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let alloc = &self.allocs[handle.alloc];
        let by_host = alloc.is_addressed() || alloc.place == Place::File;
        let fills = self.devs[alloc.owner].profile.queues.iter().any(|queue| queue.fills);
        let lost = self.meets_loss(handle.alloc, Access::Write);
        let busy = if by_host {
            alloc.refuses_host(Access::Write, handle.token)
        } else {
            alloc.refuses_work(Access::Write)
        };
        let some = handle.len > 0;
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::ReadOnly, alloc.read_only)
            .refuse(Code::Lost, self.on_lost(&handle))
            .refuse(Code::Unsupported, some && !by_host && !fills)
            .refuse(Code::Lost, some && lost)
            .may(Code::Lost, lost)
            .refuse(Code::Busy, some && busy);
        let byte = self.command.numbers[1] as u8;
        let got = handle.buffer.fill(byte);
        match self.judge(&want, &got) {
            Code::Well if some => {
                let owner = self.allocs[handle.alloc].owner;
                self.allocs[handle.alloc].bytes.borrow_mut().fill(handle.offset, handle.len, byte);
                if !by_host {
                    let value = self.next_values(owner, 1);
                    self.allocs[handle.alloc].stamp(Access::Write, owner, value);
                }
            }
            Code::Lost => {
                self.allocs[handle.alloc].bytes.borrow_mut().forget(handle.offset, handle.len);
                self.unsure = true;
            }
            _ => {}
        }
    }

    /// Picks a handle and a range of it, which rarely ends past it.
    fn pick_range(&self) -> Option<(Handle, u64, u64)> {
        let handle = self.handles[self.pick_handle(0)?].clone();
        let mut random = self.command.random();
        let offset = random.below(handle.len + 1);
        let most = handle.len - offset;
        let len = match random.below(12) {
            0 => most + 1,
            1 => 0,
            2..=5 => most,
            _ => random.below(most + 1),
        };
        Some((handle, offset, len))
    }

    fn want_of_blit(&self, handle: &Handle, offset: u64, len: u64, access: Access) -> Want {
        let alloc = &self.allocs[handle.alloc];
        let by_host = alloc.is_addressed() || alloc.place == Place::File;
        let copies = self.devs[alloc.owner].profile.copies();
        let lost = self.meets_loss(handle.alloc, access);
        let busy = if by_host {
            alloc.refuses_host(access, handle.token)
        } else {
            alloc.refuses_work(access)
        };
        let some = len > 0;
        let lacks = !by_host && self.devs[0].budget != u64::MAX;
        Want::new()
            .refuse(Code::Wrong, offset + len > handle.len)
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::ReadOnly, access == Access::Write && alloc.read_only)
            .refuse(Code::Lost, self.on_lost(handle))
            .refuse(Code::Unsupported, some && !by_host && !copies)
            .refuse(Code::Lost, some && lost)
            .may(Code::Lost, lost)
            .may(Code::OutOfMemory, some && lacks)
            .refuse(Code::Busy, some && busy)
    }

    /// Notes the stamps of a staged blit.
    fn blitted(&mut self, handle: &Handle, len: u64, access: Access) {
        let alloc = &self.allocs[handle.alloc];
        if alloc.place == Place::Unaddressed {
            let owner = alloc.owner;
            let last = self.next_values(owner, self.pieces(owner, len));
            self.allocs[handle.alloc].stamp(access, owner, last);
        }
    }

    /// Panics unless bytes that were seen are those that have to be there.
    pub(crate) fn look_at_bytes(&self, alloc: usize, offset: u64, seen: &[u8]) {
        let differs = self.allocs[alloc].bytes.borrow().differs(offset, seen);
        if let Some((at, wanted, seen)) = differs {
            panic!("command {}: byte {at} is {seen}, not {wanted}", self.command);
        }
    }
}
