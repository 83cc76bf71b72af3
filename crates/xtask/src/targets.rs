//! The platforms that no machine of ours runs: their code compiles.
//!
//! DX12 on Windows and Metal on macOS are checked by the compiler alone. It takes minutes when
//! nothing is built yet, so it is no part of every test run: `npm run check:targets`, when a driver
//! changed.

use crate::packages::{install, is_on_path};
use crate::step::{Failure, Found, Step, Sum};
use crate::wasm::Target;
use crate::workspace::{Workspace, run};

/// Looks whether the library compiles for Windows and macOS, with its drivers.
pub(crate) const STEP: Step = Step { name: "targets", sum: Sum::Counts, run: check };

fn check(workspace: &Workspace) -> Result<Found, Failure> {
    let mut found = Found::default();
    for name in NAMES {
        let target = Target::find_for(workspace, name)?;
        if let (Target::Debian { .. }, Some((_, program, package))) = (&target, needed(name)) {
            if !is_on_path(program) {
                install(workspace, &[package]);
            }
            if !is_on_path(program) {
                let why = format!("{program} is missing; on Debian, {package} brings it");
                return Err(why.into());
            }
        }
        let mut command = target.cargo_for(workspace, "check", name);
        found = run(command.args(["-p", "rig-gpu", "--features", "wgpu"]))?;
    }
    Ok(found)
}

/// Returns what Debian's compiler needs for a target beside the sources.
fn needed(name: &str) -> Option<(&'static str, &'static str, &'static str)> {
    NEEDED.into_iter().find(|(target, ..)| *target == name)
}

const NAMES: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];
/// The target, the program, and the package that brings it.
const NEEDED: [(&str, &str, &str); 1] =
    [("x86_64-pc-windows-gnu", "x86_64-w64-mingw32-dlltool", "binutils-mingw-w64-x86-64")];

#[cfg(test)]
mod targets_tests {
    use crate::targets::{NAMES, NEEDED, needed};

    #[test]
    fn what_a_target_needs_is_of_a_target_that_is_checked() {
        for (name, program, _) in NEEDED {
            assert!(NAMES.contains(&name));
            assert_eq!(needed(name).map(|(_, found, _)| found), Some(program));
        }
        assert_eq!(needed("aarch64-apple-darwin"), None);
    }
}
