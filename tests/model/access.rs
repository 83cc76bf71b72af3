//! Commands by which the host accesses bytes in place: reads, writes and exports.

use crate::reference::{Access, Place};
use crate::verdict::{Code, Want};
use crate::world::{Exported, Fate, Handle, World};

impl World {
    pub(crate) fn read(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let want = self.want_of_access(&handle, Access::Read);
        let buffer = handle.buffer.clone();
        let got = buffer.read(|bytes| {
            self.look_at_bytes(handle.alloc, handle.offset, bytes);
            assert_eq!(bytes.len() as u64, handle.len);
            self.allocs[handle.alloc].closure_reads += 1;
            self.inside_closure();
            self.allocs[handle.alloc].closure_reads -= 1;
            self.look_at_bytes(handle.alloc, handle.offset, bytes);
        });
        self.judge(&want, &got);
    }

    pub(crate) fn write(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let want = self.want_of_access(&handle, Access::Write);
        let buffer = handle.buffer.clone();
        let mut random = self.command.random();
        let got = buffer.write(|bytes| {
            self.look_at_bytes(handle.alloc, handle.offset, bytes);
            bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
            self.allocs[handle.alloc].bytes.borrow_mut().set_known(handle.offset, bytes);
            self.allocs[handle.alloc].closure_writes += 1;
            self.inside_closure();
            self.allocs[handle.alloc].closure_writes -= 1;
            self.look_at_bytes(handle.alloc, handle.offset, bytes);
        });
        self.judge(&want, &got);
    }

    /// Runs a few commands inside a closure, sometimes.
    pub(crate) fn inside_closure(&mut self) {
        if self.depth < 2 {
            let count = self.command.numbers[2] % 4;
            self.run_inside(count);
        }
    }

    fn want_of_access(&self, handle: &Handle, access: Access) -> Want {
        let alloc = &self.allocs[handle.alloc];
        let addressed = alloc.is_addressed() || self.empty_is_addressed(handle);
        Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::ReadOnly, access == Access::Write && alloc.read_only)
            .refuse(Code::Unsupported, !addressed)
            .refuse(Code::Lost, self.on_lost(handle) || self.meets_loss(handle.alloc, access))
            .refuse(Code::Busy, alloc.refuses_host(access, handle.token))
    }

    /// Whether memory of 0 bytes counts as addressed: as any of its device's.
    fn empty_is_addressed(&self, handle: &Handle) -> bool {
        let alloc = &self.allocs[handle.alloc];
        let addressed = self.devs[alloc.owner].profile.addressed;
        alloc.place == Place::Empty && addressed != rig::driver::Addressed::Never
    }

    pub(crate) fn export(&mut self) {
        let Some(at) = self.pick_handle(0) else { return };
        let handle = self.handles[at].clone();
        let alloc = &self.allocs[handle.alloc];
        let addressed = alloc.is_addressed() || self.empty_is_addressed(&handle);
        let lost = self.on_lost(&handle) || self.meets_loss(handle.alloc, Access::Write);
        let want = Want::new()
            .refuse(Code::Dead, alloc.dead.is_some())
            .refuse(Code::Unsupported, alloc.place == Place::Mapped || !addressed)
            .refuse(Code::Lost, lost)
            .refuse(Code::Busy, alloc.refuses_export(handle.token));
        let got = handle.buffer.export();
        if self.judge(&want, &got) == Code::Well {
            let export = got.expect("it was judged well");
            assert_eq!(export.len(), handle.len);
            self.allocs[handle.alloc].outside = true;
            let Handle { alloc, offset, len, .. } = handle;
            self.exports.push(Exported { export, alloc, offset, len });
        }
    }

    /// Copies out of an export. The bytes are known where no work is under way.
    pub(crate) fn export_out(&mut self) {
        let Some((at, offset, len)) = self.pick_exported() else { return };
        let exported = &self.exports[at];
        let alloc = &self.allocs[exported.alloc];
        let want = Want::new()
            .refuse(Code::Wrong, offset + len > exported.len)
            .refuse(Code::Busy, self.export_is_busy(exported, Access::Read));
        let mut out = vec![0; len as usize];
        let got = exported.export.copy_out(offset, &mut out);
        let still = self.is_still(exported.alloc) && alloc.dead.is_none();
        let (alloc, start) = (exported.alloc, exported.offset + offset);
        if self.judge(&want, &got) == Code::Well && still {
            self.look_at_bytes(alloc, start, &out);
        }
    }

    /// Copies into an export, where no work is under way that would make the bytes mixed.
    pub(crate) fn export_in(&mut self) {
        let Some((at, offset, len)) = self.pick_exported() else { return };
        let exported = &self.exports[at];
        let (alloc, start) = (exported.alloc, exported.offset + offset);
        if !self.is_still(alloc) {
            return;
        }
        let want = Want::new()
            .refuse(Code::Wrong, offset + len > exported.len)
            .refuse(Code::ReadOnly, self.allocs[alloc].read_only)
            .refuse(Code::Busy, self.export_is_busy(exported, Access::Write));
        let bytes = vec![self.command.numbers[3] as u8; len as usize];
        let got = exported.export.copy_in(offset, &bytes);
        if self.judge(&want, &got) == Code::Well {
            self.allocs[alloc].bytes.borrow_mut().set_known(start, &bytes);
        }
    }

    fn pick_exported(&self) -> Option<(usize, u64, u64)> {
        if self.exports.is_empty() {
            return None;
        }
        let at = self.command.pick(0, self.exports.len());
        let mut random = self.command.random();
        let offset = random.below(self.exports[at].len + 1);
        let len = random.below(self.exports[at].len - offset + 2);
        Some((at, offset, len))
    }

    /// Whether a running access refuses an export's copy. A free ended the buffers, not the export.
    fn export_is_busy(&self, exported: &Exported, access: Access) -> bool {
        let alloc = &self.allocs[exported.alloc];
        alloc.dead.is_none() && alloc.refuses_host(access, 0)
    }

    /// Whether all work that uses an allocation is reached.
    fn is_still(&self, alloc: usize) -> bool {
        let mut uses = self.allocs[alloc].uses.iter();
        uses.all(|(dev, value)| self.fate(*dev, *value) == Fate::Reached)
    }

    pub(crate) fn drop_export(&mut self) {
        if !self.exports.is_empty() {
            let at = self.command.pick(0, self.exports.len());
            self.exports.swap_remove(at);
        }
    }
}
