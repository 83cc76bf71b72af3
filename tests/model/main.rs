//! Random programs against a small reference (S15.5), and the failure walk (S15.4).

#![cfg(test)]

mod access;
mod check;
mod claims;
mod command;
mod dev;
mod ending;
mod faulty;
#[cfg(feature = "wgpu")]
#[allow(dead_code)]
#[path = "../gpu/found.rs"]
mod found;
#[cfg(feature = "wgpu")]
mod gpus;
mod heap;
mod make;
mod moves;
mod operation;
mod plan;
mod profile;
mod program;
mod random;
mod reference;
mod route;
mod scene;
mod serial;
mod threads;
mod verdict;
mod walk;
mod watch;
mod work;
mod world;
