//! The host: the process's own memory.
//!
//! It has no timeline and no queue, takes no value, is always addressed and never lost (S1.1).
//! Any thread may call anything; the only lock is the region table's.

use crate::bytes::HostBytes;
use crate::driver::{
    Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Lent, Load, Producer, Region, Stopped, Work,
};
use crate::drivers::pages::Pages;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Makes the host's driver.
pub fn driver() -> Arc<dyn Driver> {
    Arc::new(Host { pages: Pages::new() })
}

/// The host. What it lends is a [`HostBytes`].
#[derive(Debug)]
struct Host {
    pages: Pages,
}

impl Driver for Host {
    fn kind(&self) -> &'static str {
        "host"
    }

    fn facts(&self) -> Facts {
        Facts::host("host")
    }

    fn alloc(&self, ask: Ask) -> Alloc {
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

    fn load(&self, _: &Code) -> Load {
        Load::Rejected(Arc::from("the host runs no code"))
    }

    fn hand_over(&self, _: u64, _: &Work<'_>, _: &[Producer<'_>]) -> HandOver {
        HandOver::Rejected(Arc::from("the host has no timeline"))
    }

    fn reached(&self) -> Result<u64, Fault> {
        Ok(0)
    }

    fn stop(&self) {}

    fn poll_stopped(&self, _: &Waker) -> Poll<Stopped> {
        Poll::Ready(Stopped::Settled)
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bytes::HostBytes;
    use crate::driver::{Addressed, Alloc, Ask, Kind};
    use crate::drivers::host;
    use std::any::Any;

    #[test]
    fn s1_1_the_host_has_no_timeline_and_is_always_addressed() {
        let facts = host::driver().facts();
        assert!(facts.queues.is_empty());
        assert_eq!(facts.addressed, Addressed::Always);
        assert_eq!(facts.default_budget_bytes, u64::MAX);
    }

    #[test]
    fn s4_16_the_host_lends_a_pointer() {
        let host = host::driver();
        let ask = Ask { kind: Kind::Device, len_bytes: 5, paged: false };
        let Alloc::Ready(region) = host.alloc(ask) else { panic!("5 bytes fit") };
        let lent = host.lend(region).unwrap();
        let object: &dyn Any = &*lent.0;
        let bytes = object.downcast_ref::<HostBytes>().unwrap();
        assert_eq!((bytes.address(), bytes.len_bytes()), (region.1, 5));
        assert!(!host.let_go(region));
        host.free(region);
    }
}
