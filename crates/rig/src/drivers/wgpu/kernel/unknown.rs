//! What an entry point binds, where only the browser reads its WGSL.

use crate::drivers::wgpu::kernel::Given;
use std::sync::Arc;

/// The bindings that an entry point uses: the engine judges them.
#[derive(Clone, Debug)]
pub(crate) struct Bindings;

impl Bindings {
    pub(crate) fn of(_: &str, _: &str) -> Result<Self, Arc<str>> {
        Ok(Self)
    }

    pub(crate) fn wrong(&self) -> Option<Arc<str>> {
        None
    }

    pub(crate) fn check(&self, _: &Given<'_>) -> Result<(), String> {
        Ok(())
    }
}
