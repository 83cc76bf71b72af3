//! The tests of the workspace, the examples in the documentation, and the example programs.

use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, run, run_tests};
use std::fs::File;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Runs the unit tests and the packages' test programs.
pub(crate) const TESTS: Step = Step { name: "tests", sum: Sum::Counts, run: tests };
/// Runs the examples that stand in the documentation.
pub(crate) const DOC_TESTS: Step = Step { name: "doc tests", sum: Sum::Counts, run: doc_tests };
/// Runs the example programs, each of which asserts its claim.
pub(crate) const EXAMPLES: Step = Step { name: "examples", sum: Sum::Counts, run: examples };

fn tests(workspace: &Workspace) -> Result<Found, Failure> {
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--tests", "--no-fail-fast"]);
    // The tests under a validation layer are a step of their own.
    run_tests(command.env("WGPU_VALIDATION", "0"))
}

fn doc_tests(workspace: &Workspace) -> Result<Found, Failure> {
    run_tests(workspace.cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]))
}

fn examples(workspace: &Workspace) -> Result<Found, Failure> {
    run(workspace.cargo().args(["build", "-p", "rig-gpu", "--examples"]))?;
    let names = names(workspace)?;
    for name in &names {
        let began = Instant::now();
        let mut command = workspace.cargo();
        command.args(["run", "--quiet", "-p", "rig-gpu", "--example", name]);
        run_quietly(workspace, name, &mut command)?;
        println!("  {name} exited 0 after {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(Found { note: format!("{} ran", names.len()), ..Found::default() })
}

/// Returns the names of the examples, as cargo finds them.
fn names(workspace: &Workspace) -> Result<Vec<String>, String> {
    let folder = workspace.root.join("crates/rig/examples");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let is_example = |path: &std::path::Path| {
        path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file()
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_example(path))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_string()))
        .collect();
    names.sort();
    match names.is_empty() {
        true => Err(format!("{} holds no example", folder.display())),
        false => Ok(names),
    }
}

/// Runs a program that ends by itself, and shows what it printed only if it fails.
pub(crate) fn run_quietly(
    workspace: &Workspace,
    name: &str,
    command: &mut Command,
) -> Result<(), String> {
    let folder = workspace.target("xtask");
    let path = folder.join(format!("example-{name}.log"));
    let told = |error: std::io::Error| format!("example {name}: {error}");
    std::fs::create_dir_all(&folder).map_err(told)?;
    let log = File::create(&path).map_err(told)?;
    command.stdout(log.try_clone().map_err(told)?).stderr(log);
    let status = wait(command, RUN_MAX).map_err(told)?;
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    println!("{}", String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()));
    Err(match status {
        Some(status) => format!("example {name}: {status}"),
        None => format!("example {name} ran for more than {} s and was ended", RUN_MAX.as_secs()),
    })
}

/// Waits for a program; ends it and answers none if it takes longer than `at_most`.
fn wait(command: &mut Command, at_most: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let began = Instant::now();
    while began.elapsed() < at_most {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// An example shows one thing; the slowest takes seconds where the device is software.
const RUN_MAX: Duration = Duration::from_secs(180);
