//! The reference's route of a copy: the table of S7.2, row by row.

use crate::dev::Kind;
use crate::reference::{Alloc, Place};
use crate::world::{Handle, World};

/// How a copy's bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    Host,
    Direct(usize),
    /// Direct by a device that maps a peer's memory for it.
    DirectPeer(usize),
    In(usize),
    Out(usize),
    Through(usize, usize),
    FileToFile,
    Unsupported,
    /// A device that runs no copies was chosen, and another may act in its place.
    Unclear,
}

impl World {
    pub(crate) fn route(&self, src: &Handle, dst: &Handle) -> Route {
        let (a, b) = (&self.allocs[src.alloc], &self.allocs[dst.alloc]);
        let on = |handle: &Handle, dev: usize| self.device_of(handle) == dev;
        let direct = |dev: usize| {
            if self.devs[dev].profile.copies() { Route::Direct(dev) } else { Route::Unclear }
        };
        let copies = |dev: usize| self.devs[dev].profile.copies();
        let staged =
            |route: Route, dev: usize| if copies(dev) { route } else { Route::Unsupported };
        let pinned = |alloc: &Alloc, dev: usize| alloc.place == Place::Pinned && alloc.owner == dev;
        let unaddressed = |alloc: &Alloc| alloc.place == Place::Unaddressed;
        match (a, b) {
            _ if a.is_addressed() && b.is_addressed() => Route::Host,
            _ if unaddressed(a) && unaddressed(b) && a.owner == b.owner => direct(a.owner),
            _ if unaddressed(b) && pinned(a, b.owner) => direct(b.owner),
            _ if unaddressed(a) && pinned(b, a.owner) => direct(a.owner),
            _ if a.is_addressed() && unaddressed(b) && on(src, b.owner) => direct(b.owner),
            _ if unaddressed(a) && b.is_addressed() && on(dst, a.owner) => direct(a.owner),
            _ if unaddressed(a) && unaddressed(b) && on(src, b.owner) => direct(b.owner),
            _ if unaddressed(a) && unaddressed(b) && on(dst, a.owner) => direct(a.owner),
            _ if unaddressed(a) && unaddressed(b) => self.between(a.owner, b.owner),
            _ if a.is_addressed() && unaddressed(b) => staged(Route::In(b.owner), b.owner),
            _ if unaddressed(a) && b.is_addressed() => staged(Route::Out(a.owner), a.owner),
            _ if a.place == Place::File && b.place == Place::File => Route::FileToFile,
            _ if a.place == Place::File && unaddressed(b) => staged(Route::In(b.owner), b.owner),
            _ if unaddressed(a) && b.place == Place::File => staged(Route::Out(a.owner), a.owner),
            _ => Route::Host,
        }
    }

    /// Rows 5 and 6: the memory of two devices, of which no side is named as a borrow.
    fn between(&self, from: usize, to: usize) -> Route {
        let (d, e) = (&self.devs[from], &self.devs[to]);
        let one_driver = d.kind == Kind::Scripted && e.kind == Kind::Scripted;
        if one_driver && d.profile.peers {
            return if d.profile.copies() { Route::DirectPeer(from) } else { Route::Unclear };
        }
        let copy = d.profile.copies() && e.profile.copies();
        if copy { Route::Through(from, to) } else { Route::Unsupported }
    }
}
