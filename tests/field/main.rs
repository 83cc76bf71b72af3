//! Inputs from the field: what programs did to allocators like this one, and calls at bad moments.
//!
//! `inputs` and `races` hold what programs do, `bad` what they should not. Some tests count for
//! the host, whose account all share: they ask for it alone.

mod budget;
mod order;
mod races;
mod watch;
