//! The GPU that the tests run on.

use rig::driver::{Addressed, Driver, Fault};
use rig::wgpu::{Batching, MapsHost, Options};
use rig::{Device, Error, drivers};
use rig_support::look;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use wgpu::Backends;

/// Returns the options of a device under a name of its own, which maps no host memory, or says
/// aloud that there is no GPU.
pub(crate) fn options(name: &str, addressed: Addressed) -> Option<Options> {
    let backends = Backends::from_env().unwrap_or(Backends::VULKAN);
    let found = rig::wgpu::adapters(backends);
    if found.is_empty() {
        return skip(&format!("{name} has no adapter of {backends:?} to run on"));
    }
    let (name, maps_host) = (Arc::from(name), MapsHost::Never);
    Some(Options { name, addressed, backends, maps_host, ..Options::default() })
}

/// Opens a device under a name that no other test uses.
pub(crate) fn open(name: &str) -> Option<Device> {
    let options = options(name, Addressed::Never)?;
    Some(rig::wgpu::open(options).expect("the adapter opens"))
}

/// Opens a device whose values wait to be submitted together.
pub(crate) fn open_batching(name: &str) -> Option<Device> {
    let options = Options { batching: Batching::On, ..options(name, Addressed::Never)? };
    Some(rig::wgpu::open(options).expect("the adapter opens"))
}

/// Opens a device whose memory the host addresses while it is mapped.
pub(crate) fn open_mapped(name: &str) -> Option<Device> {
    let options = options(name, Addressed::WhileMapped)?;
    match rig::wgpu::open(options) {
        Err(Error::Unsupported { why, .. }) if why.contains(MAPPABLE) => skip(&why),
        opened => Some(opened.expect("the adapter opens")),
    }
}

/// Opens a device of each kind: whose memory the host never addresses, and does while it is mapped.
pub(crate) fn open_each(name: &str) -> Vec<Device> {
    let apart = open(&format!("{name}, apart"));
    apart.into_iter().chain(open_mapped(&format!("{name}, mapped"))).collect()
}

/// Opens a device by each way to copy bytes that are no whole words: through rows, and by passes
/// alone, as on GL.
pub(crate) fn open_each_way(name: &str) -> Vec<Device> {
    let on_gl = match rig::wgpu::open(options_on_gl(&format!("{name}, on GL"))) {
        Ok(device) => Some(device),
        Err(error) => {
            skipped_unless("gl", &error.to_string());
            None
        }
    };
    open_each(name).into_iter().chain(on_gl).collect()
}

/// Opens a device that maps host memory, or says aloud that the GPU maps none.
pub(crate) fn open_importing(name: &str) -> Option<Device> {
    let options = Options { maps_host: MapsHost::WhereItCan, ..options(name, Addressed::Never)? };
    let device = rig::wgpu::open(options).expect("the adapter opens");
    if device.facts().import_align_bytes.is_none() {
        return skip(&format!("{name} is on an adapter that maps no host memory"));
    }
    Some(device)
}

/// Opens a driver alone.
pub(crate) fn driver(addressed: Addressed, maps_host: MapsHost) -> Option<Arc<dyn Driver>> {
    let options = Options { maps_host, ..options("a driver", addressed)? };
    match ready(drivers::wgpu::driver(options)) {
        Err(Fault(why)) if why.contains(MAPPABLE) => skip(&why),
        opened => Some(opened.expect("the adapter opens")),
    }
}

/// Opens a driver on GL alone, with no window system behind it.
pub(crate) fn driver_on_gl() -> Option<Arc<dyn Driver>> {
    match ready(drivers::wgpu::driver(options_on_gl("a driver on GL"))) {
        Ok(driver) => Some(driver),
        Err(Fault(why)) => {
            skipped_unless("gl", &why);
            None
        }
    }
}

fn options_on_gl(name: &str) -> Options {
    let (name, backends) = (Arc::from(name), Backends::GL);
    Options { name, backends, maps_host: MapsHost::Never, ..Options::default() }
}

/// Says aloud that a test is skipped, or fails where it is required.
fn skip<T>(why: &str) -> Option<T> {
    skipped(why);
    None
}

/// Says aloud that a test is skipped, or fails where it is required.
pub(crate) fn skipped(why: &str) {
    skipped_unless("wgpu", why);
}

fn skipped_unless(word: &str, why: &str) {
    let required = std::env::var("RIG_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|required| required == word), "{why}");
    // Past what the harness keeps of tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Returns the answer of a future that natively never waits.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match look(pin!(future)) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("wgpu answers at once on this platform"),
    }
}

/// What an adapter lacks whose memory the host cannot address.
const MAPPABLE: &str = "MAPPABLE_PRIMARY_BUFFERS";
