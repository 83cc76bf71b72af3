//! Promises: the sentences of the specification that need whole devices, a file for each section.
//!
//! Tests run side by side in one process: each device has a name of its own, and each test that
//! copies through staging has halves of its own.

#![cfg(test)]

mod access;
mod bench;
mod borrows;
mod budgets;
mod buffers;
mod builder;
mod cache;
mod claims;
mod closing;
mod copies;
mod devices;
mod donations;
mod files;
mod follows;
mod holds;
mod kernels;
mod lends;
mod lengths;
mod lifetimes;
mod lives;
mod loss;
mod losses;
mod near_fit;
mod opening;
mod order;
mod prepared;
mod reentrancy;
mod reports;
mod returns;
mod rules;
mod staging;
mod stamps;
mod submissions;
mod timelines;
mod transfers;
