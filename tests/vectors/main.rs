//! The test vectors of S14, row by row. A row is written as the table writes it: `write; use by d`
//! for each record after the call.
//!
//! Vectors share the names of their devices, and the host's counts: one lock serializes them.

#![cfg(test)]

mod budget;
mod copies;
mod loss;
mod scene;
mod small;
