//! Random programs against a small reference (S15.5), and the failure walk (S15.4).

#![cfg(test)]

mod heap;
mod operation;
mod scene;
mod serial;
mod walk;
