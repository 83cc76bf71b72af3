//! Looks for the tools that the other tasks need, and installs what it can.

use crate::packages;
use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, answer, run};

/// Looks for the compiler and its components.
pub(crate) const STEP: Step = Step { name: "setup", sum: Sum::Counts, run: setup };

fn setup(workspace: &Workspace) -> Result<Found, Failure> {
    let manifest = workspace.read("Cargo.toml")?;
    let needed =
        needed_version(&manifest).ok_or("Cargo.toml states no rust-version".to_string())?;
    compiler(workspace, &needed)?;
    for (component, tool) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        let find = || answer(workspace.cargo().args([tool, "--version"]));
        let Some(version) = find().or_else(|| {
            add(workspace, component);
            find()
        }) else {
            return Err(format!(
                "{component} is missing; get it with `rustup component add {component}`, \
                 or with the package that brought Rust"
            )
            .into());
        };
        println!("  {version}");
    }
    Ok(Found { note: packages::find(workspace), ..Found::default() })
}

/// Makes sure that the compiler is new enough, by choosing another if it has to.
fn compiler(workspace: &Workspace, needed: &str) -> Result<(), Failure> {
    let have = answer(workspace.rustc().arg("--version"))
        .ok_or("rustc is missing; get Rust from https://rustup.rs".to_string())?;
    println!("  {have} ({needed} needed)");
    if numbers(&have) >= numbers(needed) {
        return Ok(());
    }
    let install = ["toolchain", "install", needed, "--profile", "minimal"];
    let _ = run(workspace.program("rustup").args(install));
    let _ = workspace.toolchain.set(needed.to_string());
    match answer(workspace.rustc().arg("--version")) {
        Some(newer) if numbers(&newer) >= numbers(needed) => {
            println!("  {newer} is used instead");
            Ok(())
        }
        _ => {
            Err(format!("{have} is older than {needed}; get it with `rustup update stable`").into())
        }
    }
}

fn add(workspace: &Workspace, component: &str) {
    println!("  {component} is missing");
    let mut command = workspace.program("rustup");
    command.args(["component", "add", component]);
    if let Some(toolchain) = workspace.toolchain.get() {
        command.args(["--toolchain", toolchain]);
    }
    // What it could not add is still missing at the next look, which says so.
    let _ = run(&mut command);
}

fn needed_version(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.starts_with("rust-version"))?;
    Some(line.split('"').nth(1)?.to_string())
}

/// Returns the numbers of the first version in a text, such as 1, 95 and 0.
fn numbers(text: &str) -> Vec<u64> {
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = text.split_whitespace().find(is_version).unwrap_or_default();
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod versions {
    use crate::setup::{needed_version, numbers};

    #[test]
    fn versions_compare_by_their_numbers() {
        assert_eq!(numbers("rustc 1.95.0 (59807616e 2026-04-14)"), [1, 95, 0]);
        assert_eq!(numbers("rustc 1.97.0-nightly (e50aa6fba 2026-05-19)"), [1, 97, 0]);
        assert!(numbers("rustc 1.95.0") >= numbers("1.95"));
        assert!(numbers("rustc 1.100.0") >= numbers("1.95"));
        assert!(numbers("rustc 1.94.9") < numbers("1.95"));
        assert!(numbers("no version") < numbers("1.95"));
    }

    #[test]
    fn the_needed_version_stands_in_the_manifest() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.95\"\n";
        assert_eq!(needed_version(manifest).as_deref(), Some("1.95"));
        assert_eq!(needed_version("[workspace]\n"), None);
    }
}
