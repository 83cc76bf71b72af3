//! What the reference knows of memory: its bytes, stamps, claims and mappings, and the rules over
//! them, written from the sentences and not from the library.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A device's value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp {
    pub(crate) dev: usize,
    pub(crate) value: u64,
}

/// Where an allocation's bytes lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The host always addresses them.
    Addressed,
    /// The host addresses them while they are mapped.
    Mapped,
    Unaddressed,
    Pinned,
    File,
    /// There are none.
    Empty,
}

/// Where an allocation is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Live,
    /// On the way back.
    Returning,
    /// Lent, and without handles (S4.16).
    Given,
    /// In the cache, at the driver or with its keeper.
    Gone,
}

/// One allocation.
#[derive(Clone, Debug)]
pub(crate) struct Alloc {
    pub(crate) owner: usize,
    pub(crate) place: Place,
    /// Whether the program brought the memory.
    pub(crate) wrapped: bool,
    pub(crate) read_only: bool,
    pub(crate) len: u64,
    /// The bytes its payer is charged.
    pub(crate) charged: u64,
    /// Where the host finds the bytes, where the reference asked.
    pub(crate) address: Option<u64>,
    pub(crate) bytes: Rc<RefCell<Shadow>>,
    pub(crate) write: Option<Stamp>,
    pub(crate) uses: BTreeMap<usize, u64>,
    pub(crate) kept_reads: u64,
    /// The claims object that has it alone, or 0.
    pub(crate) exclusive: u64,
    pub(crate) closure_reads: u64,
    pub(crate) closure_writes: u64,
    pub(crate) outside: bool,
    pub(crate) lent: bool,
    pub(crate) dead: Option<&'static str>,
    pub(crate) maps: BTreeMap<usize, Map>,
    pub(crate) life: Life,
    /// Whether the keeper was dropped, for wrapped memory that has one.
    pub(crate) kept: Option<Arc<AtomicBool>>,
}

/// A mapping of an allocation on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Map {
    /// The value after which it ends, once no borrow is left.
    pub(crate) due: Option<u64>,
}

impl Alloc {
    pub(crate) fn new(owner: usize, place: Place, len: u64) -> Self {
        Self {
            owner,
            place,
            wrapped: false,
            read_only: false,
            len,
            charged: 0,
            address: None,
            bytes: Rc::new(RefCell::new(Shadow::unknown(len))),
            write: None,
            uses: BTreeMap::new(),
            kept_reads: 0,
            exclusive: 0,
            closure_reads: 0,
            closure_writes: 0,
            outside: false,
            lent: false,
            dead: None,
            maps: BTreeMap::new(),
            life: Life::Live,
            kept: None,
        }
    }

    /// Whether the host addresses the bytes, always or while they are mapped.
    pub(crate) fn is_addressed(&self) -> bool {
        matches!(self.place, Place::Addressed | Place::Pinned | Place::Mapped)
    }

    /// Raises the stamps for a use at a value (S3.2).
    pub(crate) fn stamp(&mut self, access: Access, dev: usize, value: u64) {
        self.uses.insert(dev, value);
        if access == Access::Write {
            self.write = Some(Stamp { dev, value });
        }
    }

    /// Whether a claim or access that is held refuses the host's access (S5).
    pub(crate) fn refuses_host(&self, access: Access, token: u64) -> bool {
        let exclusive = self.exclusive != 0 && self.exclusive != token;
        let closures = self.closure_reads + self.closure_writes > 0;
        match access {
            Access::Read => exclusive || self.closure_writes > 0,
            Access::Write => exclusive || self.kept_reads > 0 || closures,
        }
    }

    /// Whether a running closure refuses device work. Memory that is addressed only while mapped
    /// is its device's or the host's (S1.9).
    pub(crate) fn refuses_work(&self, access: Access) -> bool {
        let closures = self.closure_reads + self.closure_writes > 0;
        match access {
            Access::Read if self.place != Place::Mapped => self.closure_writes > 0,
            _ => closures,
        }
    }

    pub(crate) fn refuses_kept_read(&self) -> bool {
        self.exclusive != 0 || self.closure_writes > 0
    }

    pub(crate) fn refuses_free(&self) -> bool {
        self.exclusive != 0 || self.kept_reads + self.closure_reads + self.closure_writes > 0
    }

    pub(crate) fn refuses_export(&self, token: u64) -> bool {
        let exclusive = self.exclusive != 0 && self.exclusive != token;
        exclusive || self.closure_reads + self.closure_writes > 0
    }
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The bytes that an allocation has to have, those that are known.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Shadow(Vec<u16>);

impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Shadow {
    pub(crate) fn unknown(len: u64) -> Self {
        Self(vec![UNKNOWN; len as usize])
    }

    pub(crate) fn range(&self, offset: u64, len: u64) -> Vec<u16> {
        self.0[offset as usize..(offset + len) as usize].to_vec()
    }

    pub(crate) fn set(&mut self, offset: u64, bytes: &[u16]) {
        self.0[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn set_known(&mut self, offset: u64, bytes: &[u8]) {
        let bytes: Vec<u16> = bytes.iter().copied().map(u16::from).collect();
        self.set(offset, &bytes);
    }

    pub(crate) fn fill(&mut self, offset: u64, len: u64, byte: u8) {
        self.0[offset as usize..(offset + len) as usize].fill(u16::from(byte));
    }

    pub(crate) fn forget(&mut self, offset: u64, len: u64) {
        self.0[offset as usize..(offset + len) as usize].fill(UNKNOWN);
    }

    /// Returns the first byte that is not what it has to be: where, what it has to be, what it is.
    pub(crate) fn differs(&self, offset: u64, seen: &[u8]) -> Option<(u64, u16, u8)> {
        let wanted = &self.0[offset as usize..offset as usize + seen.len()];
        let mut pairs = (offset..).zip(wanted.iter().zip(seen));
        let wrong =
            pairs.find(|(_, (wanted, seen))| **wanted != UNKNOWN && **wanted != u16::from(**seen));
        wrong.map(|(at, (wanted, seen))| (at, *wanted, *seen))
    }
}

/// A byte that may be anything.
pub(crate) const UNKNOWN: u16 = 0x100;
