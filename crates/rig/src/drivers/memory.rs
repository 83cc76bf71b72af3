//! A device over host memory with one timeline.
//!
//! Work runs inside the hand-over, in order, so that a value is reached when its submit returns.
//! Code is a Rust function ([`function`]); a panic in one is a fault, after which nothing runs.
//! Host memory maps as it is. Any thread may call anything, hand-overs one at a time; the only
//! locks are the tables', and no function runs under one.

use crate::bytes::HostBytes;
use crate::driver::{
    Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Import, Lent, Load, Producer, Queue, Region,
    Stopped, Work,
};
use crate::drivers::function::Functions;
use crate::drivers::pages::Pages;
use crate::sync::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

pub use crate::drivers::function::{Call, function};

/// What a memory device is opened with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The hardware's name, for people.
    pub architecture: Arc<str>,
    /// The budget it starts with; `u64::MAX` is unbounded.
    pub budget_bytes: u64,
    /// The largest allocation.
    pub largest_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        let host = Facts::host("memory");
        Self {
            architecture: host.architecture,
            budget_bytes: host.default_budget_bytes,
            largest_bytes: host.largest_bytes,
        }
    }
}

/// Makes the driver of one memory device.
pub fn driver(options: Options) -> Arc<dyn Driver> {
    Arc::new(Memory {
        options,
        pages: Pages::new(),
        functions: Functions::new(),
        word: AtomicU64::new(0),
        fault: OnceLock::new(),
    })
}

/// A device over host memory. What it lends is a [`HostBytes`].
#[derive(Debug)]
struct Memory {
    options: Options,
    pages: Pages,
    functions: Functions,
    /// The last value whose work is complete.
    word: AtomicU64,
    /// The first launch that panicked.
    fault: OnceLock<Fault>,
}

impl Driver for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn facts(&self) -> Facts {
        Facts {
            default_budget_bytes: self.options.budget_bytes,
            largest_bytes: self.options.largest_bytes,
            queues: vec![Queue::ALL],
            import_align_bytes: Some(1),
            ..Facts::host(&self.options.architecture)
        }
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        if ask.len_bytes > self.options.largest_bytes {
            return Alloc::Refused;
        }
        self.pages.alloc(ask).map_or(Alloc::Refused, Alloc::Ready)
    }

    fn free(&self, region: Region) {
        let there = self.pages.free(region);
        debug_assert!(there, "a region is freed once");
    }

    fn bytes(&self, region: Region) -> Option<HostBytes> {
        self.pages.bytes(region)
    }

    fn lend(&self, region: Region) -> Option<Lent> {
        self.pages.lend(region)
    }

    fn import_host(&self, bytes: HostBytes) -> Import {
        Import::Mapped(self.pages.map(bytes))
    }

    fn release(&self, mapped: Region) {
        self.free(mapped);
    }

    fn load(&self, code: &Code) -> Load {
        self.functions.load(code)
    }

    fn unload(&self, kernel: u64) {
        let there = self.functions.unload(kernel);
        debug_assert!(there, "code is unloaded once");
    }

    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver {
        debug_assert!(waits.is_empty(), "a memory device understands no producer");
        if let Some(fault) = self.fault.get() {
            return HandOver::Fault(fault.clone());
        }
        if let Err(why) = self.functions.check(&self.pages, work) {
            return HandOver::Rejected(why);
        }
        if let Err(fault) = self.functions.run(&self.pages, work) {
            return HandOver::Fault(self.fault.get_or_init(|| fault).clone());
        }
        // ORDERING: pairs with the acquire in `reached`: who sees the value sees its writes.
        let before = self.word.swap(value, Ordering::Release);
        debug_assert_eq!(before + 1, value, "values are handed over in order");
        HandOver::Done
    }

    fn reached(&self) -> Result<u64, Fault> {
        // ORDERING: pairs with the release in `hand_over`.
        Ok(self.word.load(Ordering::Acquire))
    }

    fn health(&self) -> Result<(), Fault> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    fn stop(&self) {}

    fn poll_stopped(&self, _: &Waker) -> Poll<Stopped> {
        Poll::Ready(Stopped::Settled)
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::driver::{Alloc, Ask, Fault, HandOver, Kind, Load, Op, Part, Work};
    use crate::drivers::memory::{self, Call, Options};

    #[test]
    fn s1_13_a_memory_device_is_unbounded_and_options_change_that() {
        let facts = memory::driver(Options::default()).facts();
        assert_eq!((facts.default_budget_bytes, facts.import_align_bytes), (u64::MAX, Some(1)));
        let options = Options { largest_bytes: 100, budget_bytes: 1000, ..Options::default() };
        let small = memory::driver(options);
        assert_eq!(small.facts().default_budget_bytes, 1000);
        let ask = |len_bytes| Ask { kind: Kind::Device, len_bytes, paged: false };
        assert_eq!(small.alloc(ask(101)), Alloc::Refused);
        let Alloc::Ready(region) = small.alloc(ask(100)) else { panic!("100 bytes fit") };
        small.free(region);
    }

    #[test]
    fn s0_5_after_a_panicked_launch_the_device_is_ill_and_runs_nothing() {
        let device = memory::driver(Options::default());
        let code = memory::function("bad", |_: &Call<'_>| panic!("on purpose"));
        let Load::Ready { kernel, .. } = device.load(&code) else { panic!("functions load") };
        let op =
            Op::Launch { kernel, groups: [1; 3], args: vec![], args_span: None, buffers: vec![] };
        let parts = [Part { queue: 0, after: vec![], op }];
        let work = |parts| Work { prepared: None, parts, spans: &[] };
        assert_eq!(device.hand_over(1, &work(&[]), &[]), HandOver::Done);
        let fault = Fault::new("launch of bad panicked: on purpose");
        assert_eq!(device.hand_over(2, &work(&parts), &[]), HandOver::Fault(fault.clone()));
        assert_eq!(device.health(), Err(fault.clone()));
        assert_eq!(device.hand_over(2, &work(&[]), &[]), HandOver::Fault(fault));
        assert_eq!(device.reached(), Ok(1));
    }
}
