//! A scripted device with its values counted, for the tests of the scripted driver itself.

use rig::driver::{Alloc, Ask, Driver, Fault, HandOver, Kind, Part, Producer, Region, Span, Work};
use rig_support::{Control, Script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A device with its values counted.
pub struct Device {
    pub driver: Arc<dyn Driver>,
    pub control: Control,
}

impl Device {
    pub fn new(script: Script) -> Self {
        let (driver, control) = script.build();
        Self { driver, control }
    }

    pub fn plain() -> Self {
        Self::new(Script::new("plain"))
    }

    pub fn alloc(&self, len_bytes: u64) -> Region {
        match self.driver.alloc(Ask { kind: Kind::Device, len_bytes, paged: false }) {
            Alloc::Ready(region) | Alloc::Pending(region) => region,
            other => panic!("{len_bytes} bytes are {other:?}"),
        }
    }

    pub fn offer(&self, parts: &[Part], spans: &[Span], waits: &[Producer<'_>]) -> HandOver {
        let value = self.control.handed() + 1;
        self.driver.hand_over(value, &Work { prepared: None, parts, spans }, waits)
    }

    pub fn hand_over(&self, parts: &[Part], spans: &[Span]) -> u64 {
        assert_eq!(self.offer(parts, spans, &[]), HandOver::Done);
        self.control.handed()
    }

    pub fn reached(&self) -> u64 {
        self.driver.reached().expect("the device is well")
    }

    pub fn block(&self, value: u64) -> Result<(), Fault> {
        self.driver.block(value, SLEEP)
    }

    /// Asserts that exactly one law was broken, and that its text has this in it.
    pub fn broke(&self, text: &str) {
        let violations = self.control.violations();
        assert!(violations.len() == 1 && violations[0].contains(text), "{violations:?}");
    }

    /// Returns the text that a check panics with.
    pub fn panic_of(&self, check: impl FnOnce(&Control)) -> String {
        let told = catch_unwind(AssertUnwindSafe(|| check(&self.control)));
        let told = told.expect_err("the check panics");
        told.downcast_ref::<String>().expect("a formatted text").clone()
    }
}

pub const SLEEP: Duration = Duration::from_millis(200);
