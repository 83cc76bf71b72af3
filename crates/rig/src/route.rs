//! The choice of a copy's route: a pure function of facts about its two sides (S7.2).
//!
//! It knows places and devices by number and touches nothing, so any thread may ask. The one
//! fact that has to be made, a mapping of one device's memory for another, is asked for with
//! [`Route::WantsPeer`] and only where a row hangs on it: the caller has it made, or not, says so
//! in [`Peers`] and asks again, at most twice.

use crate::cache::HAS_PINNED;
use crate::driver::{Addressed, HAS_FILES, Kind};
use crate::timeline::DeviceId;

/// Returns the route of a copy: the first row of S7.2 that fits.
///
/// Where the device of that row runs no copies, the owner of the other side's memory acts in its
/// place if it reaches both sides; else the copy is unsupported.
pub(crate) fn route(src: Side, dst: Side, peers: Peers) -> Route {
    match (src.reach(), dst.reach()) {
        (Reach::Host, Reach::Host) => Route::HostCopy,
        (Reach::File, Reach::Host) => Route::FileRead,
        (Reach::Host, Reach::File) => Route::FileWrite,
        (Reach::File, Reach::File) => Route::FileToFile,
        (Reach::File, Reach::Device) => leg(dst, Route::FileToDevice { to: dst.owner }),
        (Reach::Device, Reach::File) => leg(src, Route::DeviceToFile { from: src.owner }),
        (Reach::Host, Reach::Device) if src.is_reached_by(dst.owner) => {
            direct(dst, src, peers.src_maps_dst)
        }
        (Reach::Host, Reach::Device) => leg(dst, Route::StagedIn { to: dst.owner }),
        (Reach::Device, Reach::Host) if dst.is_reached_by(src.owner) => {
            direct(src, dst, peers.dst_maps_src)
        }
        (Reach::Device, Reach::Host) => leg(src, Route::StagedOut { from: src.owner }),
        (Reach::Device, Reach::Device) => between(src, dst, peers),
    }
}

/// What a copy's route needs to know of one of its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Side {
    /// Where the bytes lie.
    pub(crate) place: Place,
    /// The device the buffer is on: the owner, or the one that borrows.
    pub(crate) device: DeviceId,
    /// The device whose memory it is. Pinned memory belongs to the device it was created on.
    pub(crate) owner: DeviceId,
    /// Whether the owner has a queue that runs copies.
    pub(crate) copies: bool,
}

/// Where the bytes of a copy's side lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In memory that the host addresses, always or while it is mapped (S1.9).
    Addressed,
    /// In page-locked host memory, which the host and its device both address.
    Pinned,
    /// In a device's other memory.
    Unaddressed,
    /// In a file.
    File,
}

/// What became of asking one side's owner to map the other side's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// It was not asked yet.
    Unasked,
    /// It maps it.
    Maps,
    /// It does not, or the two have different drivers.
    Cannot,
}

/// What is known of each owner's mapping of the other side's memory. Of two drivers, neither can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peers {
    /// Whether the source's owner maps the destination's memory.
    pub(crate) src_maps_dst: Peer,
    /// Whether the destination's owner maps the source's memory.
    pub(crate) dst_maps_src: Peer,
}

/// How a copy's bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// The host moves them, once.
    HostCopy,
    /// A device moves them, once.
    Direct {
        /// It owns one side, and owns the other too or has it mapped.
        by: DeviceId,
    },
    /// The host moves them into a half, a device on from there.
    StagedIn {
        /// The device.
        to: DeviceId,
    },
    /// A device moves them into a half, the host on from there.
    StagedOut {
        /// The device.
        from: DeviceId,
    },
    /// One device moves them into a half, another on from there.
    StagedThrough {
        /// The first.
        from: DeviceId,
        /// The second.
        to: DeviceId,
    },
    /// The file is read into memory that the host addresses.
    FileRead,
    /// The file is written from memory that the host addresses.
    FileWrite,
    /// Staged in, where the host's move is a file read.
    FileToDevice {
        /// The device.
        to: DeviceId,
    },
    /// Staged out, where the host's move is a file write.
    DeviceToFile {
        /// The device.
        from: DeviceId,
    },
    /// A file is read into a half, and written from there.
    FileToFile,
    /// No answer yet: ask this device to map the other side's memory.
    WantsPeer {
        /// The device, which owns one of the sides.
        by: DeviceId,
    },
    /// Nobody can move them.
    Unsupported {
        /// The device that would have to, and runs no copies.
        device: DeviceId,
    },
}

impl Side {
    /// Whether `device` reaches these bytes by itself, or by the mapping that this buffer is.
    fn is_reached_by(self, device: DeviceId) -> bool {
        let is_pinned = HAS_PINNED && self.place == Place::Pinned;
        self.device == device || is_pinned && self.owner == device
    }

    fn reach(self) -> Reach {
        match self.place {
            Place::Unaddressed => Reach::Device,
            Place::File if HAS_FILES => Reach::File,
            Place::Addressed | Place::Pinned | Place::File => Reach::Host,
        }
    }
}

impl Place {
    /// Returns where memory of a device lies that is no file.
    pub(crate) fn of_memory(kind: Kind, addressed: Addressed) -> Self {
        match (kind, addressed) {
            (Kind::Device, Addressed::Never) => Self::Unaddressed,
            (Kind::Pinned, Addressed::Never) => Self::Pinned,
            (Kind::Transfer, _) | (_, Addressed::WhileMapped | Addressed::Always) => {
                Self::Addressed
            }
        }
    }
}

impl Peers {
    /// Nothing can be mapped: the two sides have different drivers.
    pub(crate) const NONE: Self = Self { src_maps_dst: Peer::Cannot, dst_maps_src: Peer::Cannot };

    /// Nothing was asked yet: the two sides have one driver.
    pub(crate) const UNASKED: Self =
        Self { src_maps_dst: Peer::Unasked, dst_maps_src: Peer::Unasked };
}

/// Who can move a side's bytes.
enum Reach {
    Host,
    Device,
    File,
}

/// Returns the route between the other memory of two devices, or of one.
fn between(src: Side, dst: Side, peers: Peers) -> Route {
    if src.owner == dst.owner {
        return direct(src, dst, Peer::Cannot);
    }
    if src.device == dst.owner {
        return direct(dst, src, peers.src_maps_dst);
    }
    if dst.device == src.owner {
        return direct(src, dst, peers.dst_maps_src);
    }
    match peers.src_maps_dst {
        Peer::Unasked => Route::WantsPeer { by: src.owner },
        Peer::Maps => direct(src, dst, peers.dst_maps_src),
        Peer::Cannot => {
            let (from, to) = (src.owner, dst.owner);
            leg(src, leg(dst, Route::StagedThrough { from, to }))
        }
    }
}

/// Returns the direct route by the owner of `own`, which reaches `other` too, or by the owner of
/// `other` in its place.
fn direct(own: Side, other: Side, other_maps_own: Peer) -> Route {
    let by = other.owner;
    if own.copies {
        Route::Direct { by: own.owner }
    } else if by == own.owner || !other.copies {
        Route::Unsupported { device: own.owner }
    } else if own.is_reached_by(by) {
        Route::Direct { by }
    } else {
        match other_maps_own {
            Peer::Unasked => Route::WantsPeer { by },
            Peer::Maps => Route::Direct { by },
            Peer::Cannot => Route::Unsupported { device: own.owner },
        }
    }
}

/// Returns `staged`, whose leg the owner of `side` runs, if it runs copies.
fn leg(side: Side, staged: Route) -> Route {
    if side.copies { staged } else { Route::Unsupported { device: side.owner } }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::driver::{Addressed, Kind};
    use crate::route::{Peer, Peers, Place, Route, Side, route};
    use crate::timeline::DeviceId;

    const PLACES: [Place; 4] = [Place::Addressed, Place::Pinned, Place::Unaddressed, Place::File];

    /// What is true of the devices, which a caller finds out as it is asked.
    #[derive(Clone, Copy, Debug)]
    struct World {
        /// A bit for each device that runs copies.
        copies: u16,
        one_driver: bool,
        src_maps_dst: bool,
        dst_maps_src: bool,
    }

    /// A row's route before anybody looks at who runs copies.
    #[derive(Clone, Copy)]
    enum Row {
        /// Needs no device.
        Host(Route),
        /// This device moves the bytes directly, and owns the named side.
        Source(DeviceId),
        Destination(DeviceId),
        /// These devices run a leg each.
        Legs(Route, [DeviceId; 2]),
    }

    /// The rows of S7.2 in their order, each with its condition.
    fn rows(src: Side, dst: Side, world: World) -> [(bool, Row); 15] {
        let a = |s: Side| matches!(s.place, Place::Addressed | Place::Pinned);
        let a_on = |s: Side, d: DeviceId| a(s) && s.device == d;
        let pinned_of = |s: Side, d: DeviceId| s.place == Place::Pinned && s.owner == d;
        let d = |s: Side| s.place == Place::Unaddressed;
        let d_of = |s: Side, o: DeviceId| d(s) && s.owner == o;
        let f = |s: Side| s.place == Place::File;
        let (from, to) = (src.owner, dst.owner);
        let peer = world.one_driver && world.src_maps_dst;
        [
            (a(src) && a(dst), Row::Host(Route::HostCopy)),
            (d(src) && d_of(dst, from), Row::Source(from)),
            (d(src) && pinned_of(dst, from), Row::Source(from)),
            (d(dst) && pinned_of(src, to), Row::Destination(to)),
            (d(dst) && a_on(src, to), Row::Destination(to)),
            (d(src) && a_on(dst, from), Row::Source(from)),
            (d(src) && d(dst) && src.device == to, Row::Destination(to)),
            (d(src) && d(dst) && dst.device == from, Row::Source(from)),
            (d(src) && d(dst) && peer, Row::Source(from)),
            (d(src) && d(dst), Row::Legs(Route::StagedThrough { from, to }, [from, to])),
            (a(src) && d(dst), Row::Legs(Route::StagedIn { to }, [to, to])),
            (d(src) && a(dst), Row::Legs(Route::StagedOut { from }, [from, from])),
            (f(src) && a(dst), Row::Host(Route::FileRead)),
            (a(src) && f(dst), Row::Host(Route::FileWrite)),
            (f(src) && f(dst), Row::Host(Route::FileToFile)),
        ]
    }

    /// Rows 10 and 11, which stage with a file in the host's place.
    fn file_rows(src: Side, dst: Side) -> Row {
        if src.place == Place::File {
            Row::Legs(Route::FileToDevice { to: dst.owner }, [dst.owner; 2])
        } else {
            Row::Legs(Route::DeviceToFile { from: src.owner }, [src.owner; 2])
        }
    }

    /// The route by the table's words.
    fn by_table(src: Side, dst: Side, world: World) -> Route {
        let copies = |id: DeviceId| world.copies >> id.0 & 1 == 1;
        let row = rows(src, dst, world).into_iter().find(|(fits, _)| *fits);
        let (chosen, own, other, maps) = match row.map_or(file_rows(src, dst), |(_, row)| row) {
            Row::Host(route) => return route,
            Row::Legs(route, devices) => {
                let lacking = devices.into_iter().find(|device| !copies(*device));
                return lacking.map_or(route, |device| Route::Unsupported { device });
            }
            Row::Source(by) => (by, src, dst, world.dst_maps_src),
            Row::Destination(by) => (by, dst, src, world.src_maps_dst),
        };
        if copies(chosen) {
            return Route::Direct { by: chosen };
        }
        // The other memory's owner acts in its place, if it runs copies and reaches both sides.
        let by = other.owner;
        let reaches = own.owner == by || own.device == by || world.one_driver && maps;
        if copies(by) && reaches {
            return Route::Direct { by };
        }
        Route::Unsupported { device: chosen }
    }

    /// Asks as a copy does: has mappings made when they are wanted, and asks again.
    fn ask(src: Side, dst: Side, world: World) -> Route {
        let mut peers = if world.one_driver { Peers::UNASKED } else { Peers::NONE };
        let answer = |maps: bool| if maps { Peer::Maps } else { Peer::Cannot };
        for _ in 0..3 {
            match route(src, dst, peers) {
                Route::WantsPeer { by } if by == src.owner => {
                    assert_eq!(peers.src_maps_dst, Peer::Unasked, "asked once");
                    peers.src_maps_dst = answer(world.src_maps_dst);
                }
                Route::WantsPeer { by } => {
                    assert_eq!(by, dst.owner, "only an owner maps");
                    assert_eq!(peers.dst_maps_src, Peer::Unasked, "asked once");
                    peers.dst_maps_src = answer(world.dst_maps_src);
                }
                found => return found,
            }
        }
        panic!("a route is found after at most two mappings");
    }

    fn sides(copies: u16) -> Vec<Side> {
        let ids = || (0..4).map(DeviceId);
        let mut sides = Vec::new();
        for place in PLACES {
            for owner in ids() {
                for device in ids() {
                    let copies = copies >> owner.0 & 1 == 1;
                    sides.push(Side { place, device, owner, copies });
                }
            }
        }
        sides
    }

    #[test]
    fn s7_2_every_pair_of_sides_takes_the_first_row_that_fits() {
        for facts in 0..64_u16 {
            // Device 0 is the host, which has no queue; its memory is always addressed.
            let world = World {
                copies: facts >> 3 << 1,
                one_driver: facts & 1 != 0,
                src_maps_dst: facts & 2 != 0,
                dst_maps_src: facts & 4 != 0,
            };
            let sides = sides(world.copies);
            for src in &sides {
                for dst in &sides {
                    let (found, expected) = (ask(*src, *dst, world), by_table(*src, *dst, world));
                    assert_eq!(found, expected, "{src:?} -> {dst:?} in {world:?}");
                }
            }
        }
    }

    fn on(place: Place, owner: u16, device: u16) -> Side {
        Side { place, device: DeviceId(device), owner: DeviceId(owner), copies: owner != 0 }
    }

    #[test]
    fn s7_2_the_routes_of_the_test_vectors() {
        let (host, named) = (on(Place::Addressed, 0, 0), on(Place::Addressed, 0, 1));
        let (x, to, from) = (on(Place::Unaddressed, 1, 1), DeviceId(1), DeviceId(1));
        assert_eq!(route(host, x, Peers::NONE), Route::StagedIn { to });
        assert_eq!(route(x, host, Peers::NONE), Route::StagedOut { from });
        assert_eq!(route(named, x, Peers::NONE), Route::Direct { by: to });
        assert_eq!(route(x, named, Peers::NONE), Route::Direct { by: from });
        let addressed = on(Place::Addressed, 1, 1);
        assert_eq!(route(host, addressed, Peers::NONE), Route::HostCopy);
        assert_eq!(route(addressed, host, Peers::NONE), Route::HostCopy);
    }

    #[test]
    fn s7_2_a_mapping_is_wanted_only_where_a_row_hangs_on_it() {
        let (x, y) = (on(Place::Unaddressed, 1, 1), on(Place::Unaddressed, 2, 2));
        let by = DeviceId(1);
        assert_eq!(route(x, y, Peers::UNASKED), Route::WantsPeer { by });
        let mapped = Peers { src_maps_dst: Peer::Maps, ..Peers::UNASKED };
        assert_eq!(route(x, y, mapped), Route::Direct { by });
        assert_eq!(
            route(Side { copies: false, ..x }, y, mapped),
            Route::WantsPeer { by: DeviceId(2) }
        );
        for place in [Place::Addressed, Place::Pinned, Place::File] {
            let host = on(place, 0, 0);
            assert_eq!(route(host, y, Peers::UNASKED), route(host, y, Peers::NONE));
            assert_eq!(route(x, host, Peers::UNASKED), route(x, host, Peers::NONE));
        }
    }

    #[test]
    fn s1_9_memory_addressed_while_mapped_is_host_addressed_for_routes() {
        for (kind, addressed, place) in [
            (Kind::Device, Addressed::Never, Place::Unaddressed),
            (Kind::Device, Addressed::WhileMapped, Place::Addressed),
            (Kind::Device, Addressed::Always, Place::Addressed),
            (Kind::Pinned, Addressed::Never, Place::Pinned),
            (Kind::Pinned, Addressed::WhileMapped, Place::Addressed),
            (Kind::Pinned, Addressed::Always, Place::Addressed),
            (Kind::Transfer, Addressed::Never, Place::Addressed),
        ] {
            assert_eq!(Place::of_memory(kind, addressed), place);
        }
    }
}
