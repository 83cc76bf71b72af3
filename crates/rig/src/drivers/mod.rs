//! The kinds of hardware, one file each, and what drivers over host memory share.
//!
//! | file | is |
//! |---|---|
//! | `host` | the process's own memory |
//! | `memory` | a device over host memory with a timeline; its code is Rust functions |
//! | `file` | files, read and written by the calling thread |
//! | `wgpu` | GPUs through wgpu |
//! | `pages` | regions of host memory, for authors of drivers over it |
//! | `function` | code that is a Rust function, and the run of a value's parts, for the same |
//! | `slab` | a table by number, which both stand on |
//!
//! A driver imports only [`crate::driver`], `timeline`, [`crate::bytes`], `error` and `sync`, and
//! what is shared here. The core names none of them: a program passes an opener.

pub mod file;
pub mod function;
pub mod host;
pub mod memory;
pub mod pages;
mod slab;
#[cfg(feature = "wgpu")]
#[allow(unsafe_code)]
pub mod wgpu;

#[cfg(unix)]
#[path = "position/unix.rs"]
mod position;
#[cfg(windows)]
#[path = "position/windows.rs"]
mod position;
#[cfg(not(any(unix, windows)))]
#[path = "position/none.rs"]
mod position;
