//! The GPU that the tests run on.

use rig::driver::{Addressed, Driver};
use rig::wgpu::Options;
use rig::{Device, drivers};
use rig_support::look;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use wgpu::Backends;

/// Returns the options of a device under a name of its own, or says aloud that there is no GPU.
pub(crate) fn options(name: &str, addressed: Addressed) -> Option<Options> {
    let backends = Backends::from_env().unwrap_or(Backends::VULKAN);
    let found = ready(rig::wgpu::adapters(backends));
    if found.is_empty() {
        let required = std::env::var("RIG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|word| word == "wgpu"), "no adapter of {backends:?}");
        eprintln!("skipped: {name} has no adapter of {backends:?} to run on");
        return None;
    }
    Some(Options { name: Arc::from(name), addressed, backends, ..Options::default() })
}

/// Opens a device under a name that no other test uses.
pub(crate) fn open(name: &str) -> Option<Device> {
    let options = options(name, Addressed::Never)?;
    Some(rig::wgpu::open(options).expect("the adapter opens"))
}

/// Opens a device whose memory the host addresses while it is mapped.
pub(crate) fn open_mapped(name: &str) -> Option<Device> {
    let options = options(name, Addressed::WhileMapped)?;
    Some(rig::wgpu::open(options).expect("the adapter maps its memory"))
}

/// Opens a driver alone.
pub(crate) fn driver(addressed: Addressed) -> Option<Arc<dyn Driver>> {
    let options = options("a driver", addressed)?;
    Some(ready(drivers::wgpu::driver(options)).expect("the adapter opens"))
}

/// Returns the answer of a future that natively never waits.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match look(pin!(future)) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("wgpu answers at once on this platform"),
    }
}
