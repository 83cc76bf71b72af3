//! The workspace, and how its tasks call other programs.
//!
//! Programs are called with the toolchain that runs the task, unless set-up had to choose another.

use crate::step::{Failure, Found, Tests};
use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the workspace is, and which toolchain its tasks use.
pub(crate) struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The toolchain that set-up chose, where the one that runs the task is too old.
    pub(crate) toolchain: OnceCell<String>,
}

impl Workspace {
    /// Finds the workspace that this package is part of.
    pub(crate) fn find() -> Self {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.ancestors().nth(2).unwrap_or(&package).to_path_buf();
        Self { root, toolchain: OnceCell::new() }
    }

    /// Returns a call of cargo, in the workspace's folder.
    pub(crate) fn cargo(&self) -> Command {
        match self.toolchain.get() {
            Some(toolchain) => self.cargo_of(toolchain),
            None => self.program(std::env::var("CARGO").as_deref().unwrap_or("cargo")),
        }
    }

    /// Returns a call of another toolchain's cargo, through rustup.
    pub(crate) fn cargo_of(&self, toolchain: &str) -> Command {
        let mut command = self.program("rustup");
        command.args(["run", toolchain, "cargo"]);
        command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTDOC");
        command
    }

    /// Returns a call of rustc.
    pub(crate) fn rustc(&self) -> Command {
        match self.toolchain.get() {
            Some(toolchain) => {
                let mut command = self.program("rustup");
                command.args(["run", toolchain, "rustc"]);
                command
            }
            None => self.program(std::env::var("RUSTC").as_deref().unwrap_or("rustc")),
        }
    }

    /// Returns a call of any program, in the workspace's folder.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// Returns the folder for what is built with flags of its own, so that it does not push out
    /// what is built without them.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        self.root.join(target).join(name)
    }

    /// Reads a file of the workspace.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(path)).map_err(|e| format!("{path}: {e}"))
    }
}

/// Runs a program for what it does, and shows what it prints.
pub(crate) fn run(command: &mut Command) -> Result<Found, Failure> {
    run_with(command, |_| {})
}

/// Runs a program that runs tests. Fails too if it ran none.
pub(crate) fn run_tests(command: &mut Command) -> Result<Found, Failure> {
    let mut tests = Tests::default();
    let run = run_with(command, |line| tests.read(line));
    match run {
        Err(failure) => Err(Failure { tests, ..failure }),
        Ok(_) if tests == Tests::default() => Err(Failure::from("no test ran".to_string())),
        Ok(found) => Ok(Found { tests, ..found }),
    }
}

/// Runs a program, shows each line it prints, and hands the line on.
pub(crate) fn run_with(
    command: &mut Command,
    mut each: impl FnMut(&str),
) -> Result<Found, Failure> {
    let shown = shown(command);
    println!("  $ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown} does not start: {error}"))?;
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while stdout.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            println!("{text}");
            each(text);
            line.clear();
        }
    }
    let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    match status.success() {
        true => Ok(Found::default()),
        false => Err(format!("the call ended with {status}").into()),
    }
}

/// Returns what a program prints on its standard output, without the line end, if it goes well.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
}

/// Returns a call as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.display(), quoted(&value.to_string_lossy())));
        }
    }
    let program = Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("\"{word}\"") } else { word.to_string() }
}

#[cfg(test)]
mod calls {
    use crate::workspace::{Workspace, shown};
    use std::process::Command;

    #[test]
    fn a_call_is_shown_as_a_person_would_type_it() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["test", "--", "bin::"]).env("RUSTFLAGS", "--cfg rig_loom");
        assert_eq!(shown(&command), "RUSTFLAGS=\"--cfg rig_loom\" cargo test -- bin::");
    }

    #[test]
    fn the_workspace_is_the_folder_that_holds_this_package_two_levels_down() {
        let workspace = Workspace::find();
        assert!(workspace.root.join("crates/xtask/Cargo.toml").is_file());
        assert!(workspace.read("Cargo.toml").is_ok_and(|text| text.contains("[workspace]")));
    }
}
