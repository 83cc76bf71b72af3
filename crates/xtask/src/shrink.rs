//! What makes a wasm smaller and wasm-opt does not do: `sweep` takes out what only panics reach,
//! `likeness` puts functions beside those they resemble. `module` reads what they need.

mod likeness;
mod module;
mod sweep;

pub(crate) use crate::shrink::likeness::named_by_likeness;
pub(crate) use crate::shrink::sweep::without_panics;
