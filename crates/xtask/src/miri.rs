//! Memory checks of rows 0 to 3 and of the access paths, by the best checker that is here.
//!
//! Miri finds every kind of undefined behaviour in what it runs. Where it is not here, the same
//! tests run under AddressSanitizer, which finds bad accesses only, else under valgrind, which
//! finds fewer of these. Nothing is installed. `RIG_REQUIRE=miri` makes miri's absence a failure.

use crate::rows::ROWS;
use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, answer, run_tests};
use std::process::Command;

/// Runs the tests under the checker.
pub(crate) const STEP: Step = Step { name: "miri", sum: Sum::Counts, run: check };

/// A checker, with the toolchain it belongs to.
enum Checker {
    Miri { toolchain: String },
    AddressSanitizer { toolchain: String },
    Valgrind,
}

fn check(workspace: &Workspace) -> Result<Found, Failure> {
    let nightly = nightly(workspace);
    let miri = nightly.clone().filter(|toolchain| {
        answer(workspace.cargo_of(toolchain).args(["miri", "--version"])).is_some()
    });
    if miri.is_none() {
        println!("  miri is not here; get it with `{GET_MIRI}`");
        if required("miri") {
            return Err("miri is required and not here".to_string().into());
        }
    }
    let checker = match (miri, nightly) {
        (Some(toolchain), _) => Checker::Miri { toolchain },
        (None, Some(toolchain)) if has_sanitizer(workspace, &toolchain) => {
            Checker::AddressSanitizer { toolchain }
        }
        _ if answer(workspace.program("valgrind").arg("--version")).is_some() => Checker::Valgrind,
        _ => {
            println!(
                "  nor is a nightly with AddressSanitizer, nor valgrind: memory is not checked"
            );
            let note = "NOT CHECKED, no miri, AddressSanitizer or valgrind here".to_string();
            return Ok(Found { note, ..Found::default() });
        }
    };
    run_under(workspace, &checker)
}

fn run_under(workspace: &Workspace, checker: &Checker) -> Result<Found, Failure> {
    let (mut command, note) = match checker {
        Checker::Miri { toolchain } => (under_miri(workspace, toolchain), ""),
        Checker::AddressSanitizer { toolchain } => {
            println!("  running the same tests under AddressSanitizer of {toolchain}");
            let command = under_sanitizer(workspace, toolchain)?;
            (command, "miri is not here, AddressSanitizer instead")
        }
        Checker::Valgrind => {
            println!("  running the same tests under valgrind");
            (under_valgrind(workspace)?, "miri is not here, valgrind instead")
        }
    };
    let found = run_tests(command.arg("--").args(modules()))?;
    Ok(Found { note: note.to_string(), ..found })
}

fn under_miri(workspace: &Workspace, toolchain: &str) -> Command {
    let mut command = workspace.cargo_of(toolchain);
    command.args(["miri", "test", "-p", "rig-gpu", "--lib", "--no-default-features"]);
    // Miri is some hundred times slower than the machine, so generated cases are few.
    command.env("PROPTEST_CASES", "8");
    // Tests that panic on purpose would spend most of the time on their traces.
    command.env("RUST_BACKTRACE", "0");
    // The tick's thread has no end.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
    command.env("CARGO_TARGET_DIR", workspace.target("miri"));
    command
}

fn under_sanitizer(workspace: &Workspace, toolchain: &str) -> Result<Command, String> {
    let mut command = workspace.cargo_of(toolchain);
    // With a target named, build scripts and macros are built without the sanitizer.
    command.args([
        "test",
        "-p",
        "rig-gpu",
        "--lib",
        "--no-default-features",
        "--target",
        &host(workspace)?,
    ]);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} -Zsanitizer=address").trim_start());
    command.env("CARGO_TARGET_DIR", workspace.target("address"));
    Ok(command)
}

fn under_valgrind(workspace: &Workspace) -> Result<Command, String> {
    let mut command = workspace.cargo();
    let host = host(workspace)?;
    command.args(["test", "-p", "rig-gpu", "--lib", "--no-default-features", "--target", &host]);
    let runner = format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_"));
    command.env(runner, "valgrind --quiet --error-exitcode=9").env("PROPTEST_CASES", "8");
    command.env("CARGO_TARGET_DIR", workspace.target("valgrind"));
    Ok(command)
}

/// Returns test filters: the modules of rows 0 to 3, and the access paths.
fn modules() -> Vec<String> {
    let low = ROWS.iter().filter(|row| row.number <= 3).flat_map(|row| row.files);
    low.chain(ACCESS_PATHS).map(|file| format!("{file}::")).collect()
}

/// Returns an installed nightly toolchain's name.
fn nightly(workspace: &Workspace) -> Option<String> {
    let list = answer(workspace.program("rustup").args(["toolchain", "list"]))?;
    let name = list.lines().find(|line| line.starts_with("nightly"))?;
    Some(name.split_whitespace().next()?.to_string())
}

/// Whether a toolchain came with the library that programs under AddressSanitizer need.
fn has_sanitizer(workspace: &Workspace, toolchain: &str) -> bool {
    let words = ["run", toolchain, "rustc", "--print", "target-libdir"];
    let Some(folder) = answer(workspace.program("rustup").args(words)) else { return false };
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains("rt.asan"))
}

fn host(workspace: &Workspace) -> Result<String, String> {
    let facts = answer(workspace.rustc().arg("-vV")).unwrap_or_default();
    let host = facts.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(String::from).ok_or("rustc does not say which machine it is for".to_string())
}

fn required(what: &str) -> bool {
    std::env::var("RIG_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == what))
}

/// Above row 3, the files through which callers reach bytes.
const ACCESS_PATHS: &[&str] = &["drivers", "wrap", "export", "memory"];
const GET_MIRI: &str = "rustup toolchain install nightly --component miri --component rust-src";

#[cfg(test)]
mod selection {
    use crate::miri::modules;

    #[test]
    fn the_checker_runs_rows_0_to_3_and_the_access_paths_and_nothing_else() {
        let modules = modules();
        for file in ["sync::", "bytes::", "timeline::", "cache::", "memory::"] {
            assert!(modules.iter().any(|module| module == file), "{file}");
        }
        assert!(!modules.iter().any(|module| module == "submit::"));
    }
}
