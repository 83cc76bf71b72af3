//! rig for browsers and Node: the wasm half of the npm package `rig-web`.
//!
//! | file | is |
//! |---|---|
//! | `page` | what the page's half does for this one: arrays, GPU objects, settled tickets |
//! | `driver` | the driver over the page's GPU objects |
//! | `table` | handles by number, each with the generation of its slot |
//! | `task` | futures, polled when the page says so, each with the ticket of a promise |
//! | `told` | what calls answer besides a number, and errors, value by value |
//! | `named` | what the page names by number |
//! | `heap` | the memory of this half |
//! | `engine` | the instance: its start, its turns, the engine's collector |
//! | `device`, `buffer`, `submit` | the free functions that the page calls |
//!
//! All exports are functions of numbers (`js/` holds the classes that programs see). A call never
//! runs a program's function, so that no frame of this half is below one. There is one thread.
//! Everywhere but on wasm this package is empty.

#[cfg(target_family = "wasm")]
mod buffer;
#[cfg(target_family = "wasm")]
mod device;
#[cfg(target_family = "wasm")]
mod driver;
#[cfg(target_family = "wasm")]
mod engine;
#[cfg(target_family = "wasm")]
mod heap;
#[cfg(target_family = "wasm")]
mod named;
#[cfg(target_family = "wasm")]
mod page;
#[cfg(target_family = "wasm")]
mod submit;
#[cfg(target_family = "wasm")]
mod table;
#[cfg(target_family = "wasm")]
mod task;
#[cfg(target_family = "wasm")]
mod told;
