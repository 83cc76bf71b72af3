//! rig's driver of wgpu in a page: the laws of every driver, and promises of the library that a
//! program in Rust has there.
//!
//! A law waits as it does everywhere: the page suspends it for turns of its event loop. A promise
//! is an async function, which any engine runs. One that fails panics, which ends the instance;
//! each has one of its own.

#[cfg(target_family = "wasm")]
#[path = "../../contract/bench.rs"]
mod bench;
#[cfg(target_family = "wasm")]
#[allow(dead_code)] // Some laws are those of other drivers.
#[path = "../../contract/laws.rs"]
mod laws;
#[cfg(target_family = "wasm")]
#[path = "../../contract/listed.rs"]
mod listed;
#[cfg(target_family = "wasm")]
mod promises;
#[cfg(target_family = "wasm")]
mod run;
