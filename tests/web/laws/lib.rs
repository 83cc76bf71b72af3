//! The laws of `rig::driver::Driver` on the driver over the page's GPU objects.
//!
//! They are those of every driver, with the driver's own file. A law waits as it does everywhere:
//! the page suspends it for turns of its event loop, in which the driver's promises settle. A law
//! that fails panics, which ends the instance; each law has one of its own.

#[cfg(target_family = "wasm")]
#[path = "../../contract/bench.rs"]
mod bench;
#[cfg(target_family = "wasm")]
#[allow(dead_code)] // The package's exports use the rest.
#[path = "../../../crates/rig-web/src/driver.rs"]
mod driver;
#[cfg(target_family = "wasm")]
#[allow(dead_code)] // Some laws are those of other drivers.
#[path = "../../contract/laws.rs"]
mod laws;
#[cfg(target_family = "wasm")]
#[path = "../../contract/listed.rs"]
mod listed;
#[cfg(target_family = "wasm")]
#[allow(dead_code)] // The package's exports use the rest.
#[path = "../../../crates/rig-web/src/page.rs"]
mod page;
#[cfg(target_family = "wasm")]
mod run;
