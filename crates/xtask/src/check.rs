//! The checks that run nothing of the library: format, clippy, tidy, docs.

use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, run, run_tests};

/// Looks for code that is not formatted.
pub(crate) const FORMAT: Step = Step { name: "format", sum: Sum::Counts, run: format };
/// Looks for what clippy warns of.
pub(crate) const CLIPPY: Step = Step { name: "clippy", sum: Sum::Counts, run: clippy };
/// Looks for what breaks the rules of the house.
pub(crate) const TIDY: Step = Step { name: "tidy", sum: Sum::Counts, run: tidy };
/// Looks for broken documentation.
pub(crate) const DOCS: Step = Step { name: "docs", sum: Sum::Counts, run: docs };

fn format(workspace: &Workspace) -> Result<Found, Failure> {
    run(workspace.cargo().args(["fmt", "--all", "--", "--check"]))
}

fn clippy(workspace: &Workspace) -> Result<Found, Failure> {
    let words = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(workspace.cargo().args(words))
}

fn tidy(workspace: &Workspace) -> Result<Found, Failure> {
    let words = ["test", "-p", "rig-tests", "--test", "tidy"];
    // What a rule shows says where; where the rule itself stands is of no use.
    run_tests(workspace.cargo().args(words).env("RUST_BACKTRACE", "0"))
}

fn docs(workspace: &Workspace) -> Result<Found, Failure> {
    let words = ["doc", "--workspace", "--no-deps"];
    run(workspace.cargo().args(words).env("RUSTDOCFLAGS", "-D warnings"))
}
