//! The scripted driver, which tests the core (S15.1 to S15.3), and what tests share.
//!
//! A [`Script`] says what the device is; [`Script::build`] makes its driver and a [`Control`],
//! which the test keeps. Work moves real bytes, but runs only when the test tells, or when a wait
//! sleeps. Every call is logged, and what breaks a law of `rig::driver` is kept as a violation,
//! which [`Control::check`] panics with.

mod control;
mod driver;
mod log;
mod opened;
mod region;
mod scratch;
mod script;
mod state;
pub mod uses;
mod work;

pub use control::Control;
pub use log::{Call, Entry};
pub use opened::{Opened, double, drain, look, point, until};
pub use scratch::Scratch;
pub use script::{Answer, Completion, Known, Script, Sleep, StopEnd, StopWord};
pub use state::SCRIPTED_FAULT;
