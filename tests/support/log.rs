//! What the driver was called with.

use rig::driver::Region;

/// A method of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// `alloc`: bytes, and the kind as the value (0 Device, 1 Pinned, 2 Transfer).
    Alloc,
    /// `poll_alloc`: the region.
    PollAlloc,
    /// `free`: the region and its bytes.
    Free,
    /// `lend`: the region.
    Lend,
    /// `let_go`: the region.
    LetGo,
    /// `poll_transfer`: the region, and the access as the value (0 read, 1 written).
    PollTransfer,
    /// `begin_access`: the region.
    BeginAccess,
    /// `poll_access`: the region.
    PollAccess,
    /// `end_access`: the region.
    EndAccess,
    /// `import_host`: the address as the region's second word, and the bytes.
    ImportHost,
    /// `import_peer`: the peer's region.
    ImportPeer,
    /// `release`: the region and its bytes.
    Release,
    /// `load`.
    Load,
    /// `poll_load`: the kernel as the value.
    PollLoad,
    /// `unload`: the kernel as the value.
    Unload,
    /// `prepare`: the number of parts as the value.
    Prepare,
    /// `unprepare`: the number as the value.
    Unprepare,
    /// `room`: the number of parts as the value.
    Room,
    /// `hand_over`: the value, and the number of foreign waits as the bytes.
    HandOver,
    /// `rejected`: the value.
    Rejected,
    /// `commit`: the value.
    Commit,
    /// `reached`.
    Reached,
    /// `wake_at`: the value.
    WakeAt,
    /// `block`: the value, and the milliseconds as the bytes.
    Block,
    /// `service`.
    Service,
    /// `health`.
    Health,
    /// `stop`.
    Stop,
    /// `poll_stopped`.
    PollStopped,
}

impl Call {
    /// Whether the call can answer a fault, so that the failure walk counts it (S15.4).
    pub fn is_fallible(self) -> bool {
        self.is_refusable()
            || matches!(
                self,
                Self::BeginAccess
                    | Self::PollAccess
                    | Self::Load
                    | Self::PollLoad
                    | Self::Prepare
                    | Self::Commit
                    | Self::Reached
                    | Self::Block
                    | Self::Service
                    | Self::Health
            )
    }

    /// Whether the call can answer that there is no room, or no mapping.
    pub fn is_refusable(self) -> bool {
        matches!(
            self,
            Self::Alloc
                | Self::PollAlloc
                | Self::PollTransfer
                | Self::ImportHost
                | Self::ImportPeer
                | Self::HandOver
        )
    }

    /// Whether the call may come after the stop (S9.6).
    pub(crate) fn may_follow_stop(self) -> bool {
        matches!(
            self,
            Self::Free
                | Self::LetGo
                | Self::EndAccess
                | Self::Release
                | Self::Unload
                | Self::Unprepare
                | Self::Reached
                | Self::PollStopped
        )
    }
}

/// One call with its numbers. Each [`Call`] says which it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The method.
    pub call: Call,
    /// The region, or `Region(0, 0)`.
    pub region: Region,
    /// The value, or another number.
    pub value: u64,
    /// The bytes.
    pub bytes: u64,
}

impl Entry {
    /// An entry with no numbers.
    pub fn new(call: Call) -> Self {
        Self { call, region: Region(0, 0), value: 0, bytes: 0 }
    }

    /// The same with a region.
    pub fn region(self, region: Region) -> Self {
        Self { region, ..self }
    }

    /// The same with a value.
    pub fn value(self, value: u64) -> Self {
        Self { value, ..self }
    }

    /// The same with bytes.
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.call)?;
        if self.region != Region(0, 0) {
            write!(f, " region {:#x}:{:#x}", self.region.0, self.region.1)?;
        }
        write!(f, " value {} bytes {}", self.value, self.bytes)
    }
}

/// All calls, in the order they came.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) on: bool,
    pub(crate) entries: Vec<Entry>,
    counts: [u64; CALLS],
}

impl Log {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, entries: Vec::new(), counts: [0; CALLS] }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.counts[entry.call as usize] += 1;
        if self.on {
            self.entries.push(entry);
        }
    }

    pub(crate) fn count(&self, call: Call) -> u64 {
        self.counts[call as usize]
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.counts = [0; CALLS];
    }
}

const CALLS: usize = Call::PollStopped as usize + 1;
