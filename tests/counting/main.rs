//! Counts: heap allocations of the paths that make none (S0.8), and the figures of the host, which
//! all devices of a process share, so that these tests have a process of their own.

#![cfg(test)]

mod heap;
mod host;
mod meter;
