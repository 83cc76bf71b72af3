//! The loom tests: claims, stamps, the turn and loss, from two threads, in every order.

use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, run_tests};

/// Runs the tests that are built with `--cfg rig_loom`.
pub(crate) const STEP: Step = Step { name: "loom", sum: Sum::Counts, run: loom };

fn loom(workspace: &Workspace) -> Result<Found, Failure> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let preemptions = std::env::var("LOOM_MAX_PREEMPTIONS");
    let mut command = workspace.cargo();
    command.args(["test", "-p", "rig-gpu", "--lib", "--no-default-features", "--release"]);
    command.env("RUSTFLAGS", format!("{flags} --cfg rig_loom").trim_start());
    command.env("LOOM_MAX_PREEMPTIONS", preemptions.as_deref().unwrap_or(PREEMPTIONS_MAX));
    run_tests(command.env("CARGO_TARGET_DIR", workspace.target("loom")))
}

/// Nearly every known race needs at most two; a third is affordable.
const PREEMPTIONS_MAX: &str = "3";
