//! Inputs from the field: what programs did to allocators like this one, and calls at bad moments.
//!
//! `order`, `budget`, `cache`, `idle` and `lifetime` hold what programs do; `races` what threads
//! do to each other inside the driver; `bad` and `sizes` what nobody should do. Tests run side by
//! side in one process: each device has a name of its own.

#![cfg(test)]

mod bad;
mod budget;
mod cache;
mod idle;
mod lifetime;
mod order;
mod races;
mod send;
mod sizes;
mod watch;
