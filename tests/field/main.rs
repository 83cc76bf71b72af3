//! Inputs from the field: what programs did to allocators like this one, and calls at bad moments.

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
