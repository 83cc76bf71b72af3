//! What only a GPU shows: order, visibility, losses, and every byte of what it moves.
//!
//! Without an adapter the tests are skipped aloud; `RIG_REQUIRE=wgpu` makes that a failure. A
//! software adapter will do.

// Helpers of tests stand outside of them here.
#![allow(clippy::unwrap_used)]

mod batches;
#[path = "../contract/bench.rs"]
mod bench;
mod contract;
mod copies;
mod found;
mod gate;
mod interop;
mod large;
mod launches;
// Some laws are those of other drivers.
#[allow(dead_code)]
#[path = "../contract/laws.rs"]
mod laws;
mod loops;
mod loss;
mod lost;
mod pending;
mod process;
mod room;
mod small;
#[path = "../contract/threads.rs"]
mod thread_law;
mod threads;
mod vectors;
