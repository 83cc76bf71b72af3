//! The WebAssembly target: which compiler builds for it, found or installed.
//!
//! The toolchain that runs the task serves where it has the target, or where rustup can add it.
//! Else Debian's compiler for the web builds the standard library too, from Debian's sources, and
//! the running toolchain lends it cargo and the linker. What is built goes to a folder of its own,
//! so that two compilers never push out each other's files.

use crate::packages::install;
use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, answer, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Looks at the library as a browser would run it.
pub(crate) const CHECK: Step = Step { name: "wasm", sum: Sum::Counts, run: check };

fn check(workspace: &Workspace) -> Result<Found, Failure> {
    let target = Target::find(workspace)?;
    let mut found = Found::default();
    for packages in PACKAGES {
        let mut command = match &target {
            Target::Installed => target.cargo(workspace, "clippy"),
            // This compiler brings no clippy.
            Target::Debian { .. } => target.cargo(workspace, "check"),
        };
        command.args(*packages);
        if let Target::Installed = target {
            // One thread has all there is in a browser; the same types are shared natively.
            let of_threads = ["-A", "clippy::arc_with_non_send_sync"];
            command.args(["--", "-D", "warnings"]).args(of_threads);
        }
        found = run(&mut command)?;
    }
    Ok(found)
}

/// Who builds for the target.
pub(crate) enum Target {
    /// The toolchain that runs the task.
    Installed,
    /// Debian's compiler, with the linker of the toolchain that runs the task.
    Debian {
        /// The linker.
        linker: PathBuf,
    },
}

impl Target {
    /// Finds a compiler for WebAssembly; installs one where that is possible.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self, Failure> {
        Self::find_for(workspace, NAME)
    }

    /// Finds a compiler for a target; installs one where that is possible.
    pub(crate) fn find_for(workspace: &Workspace, name: &str) -> Result<Self, Failure> {
        let sysroot = answer(workspace.rustc().args(["--print", "sysroot"])).map(PathBuf::from);
        let sysroot = sysroot.ok_or("rustc is missing; see `cargo xtask setup`".to_string())?;
        let installed = sysroot.join("lib/rustlib").join(name);
        if installed.is_dir() {
            return Ok(Self::Installed);
        }
        println!("  the target {name} is missing");
        add(workspace, name);
        if installed.is_dir() {
            return Ok(Self::Installed);
        }
        let linker = linker(&sysroot).ok_or(format!("{} has no rust-lld", sysroot.display()))?;
        if !is_there() {
            install(workspace, &DEBIAN);
        }
        match is_there() {
            true => Ok(Self::Debian { linker }),
            false => Err(format!(
                "no compiler for {name}; get one with `rustup target add {name}`, or on Debian \
                 with `apt-get install {}`",
                DEBIAN.join(" ")
            )
            .into()),
        }
    }

    /// Returns a call of cargo that builds for WebAssembly.
    pub(crate) fn cargo(&self, workspace: &Workspace, task: &str) -> Command {
        self.cargo_for(workspace, task, NAME)
    }

    /// Returns a call of cargo that builds for a target.
    pub(crate) fn cargo_for(&self, workspace: &Workspace, task: &str, name: &str) -> Command {
        let mut command = workspace.cargo();
        command.args([task, "--target", name]);
        command.env("CARGO_TARGET_DIR", workspace.target("wasm"));
        if let Self::Debian { linker } = self {
            command.arg("-Zbuild-std=std,panic_abort");
            command.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        command
    }
}

/// Adds the target through rustup. What it could not add is missing at the next look.
fn add(workspace: &Workspace, name: &str) {
    let mut command = workspace.program("rustup");
    command.args(["target", "add", name]);
    if let Some(toolchain) = workspace.toolchain.get() {
        command.args(["--toolchain", toolchain]);
    }
    let _ = run(&mut command);
}

/// Whether Debian's compiler and the sources of its standard library are there.
fn is_there() -> bool {
    Path::new(DEBIAN_RUSTC).is_file() && Path::new(DEBIAN_SOURCES).is_dir()
}

/// Returns the linker that a toolchain brings.
fn linker(sysroot: &Path) -> Option<PathBuf> {
    let hosts = std::fs::read_dir(sysroot.join("lib/rustlib")).ok()?;
    let linkers = hosts.filter_map(|host| Some(host.ok()?.path().join("bin/rust-lld")));
    linkers.into_iter().find(|linker| linker.is_file())
}

const NAME: &str = "wasm32-unknown-unknown";
const DEBIAN: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust/library";
/// What a browser runs.
const PACKAGES: &[&[&str]] = &[
    &["-p", "rig-gpu", "--no-default-features"],
    &["-p", "rig-web", "-p", "rig-web-laws"],
    &["-p", "rig-web-wgpu", "--lib"],
];

#[cfg(test)]
mod targets {
    use crate::wasm::Target;
    use crate::workspace::{Workspace, shown};

    #[test]
    fn what_is_built_for_the_target_has_a_folder_of_its_own() {
        let workspace = Workspace::find();
        for target in [Target::Installed, Target::Debian { linker: "rust-lld".into() }] {
            let call = shown(&target.cargo(&workspace, "check"));
            assert!(call.contains("/wasm "), "{call}");
            assert!(call.contains("--target wasm32-unknown-unknown"), "{call}");
        }
    }

    #[test]
    fn another_compiler_builds_its_own_standard_library() {
        let target = Target::Debian { linker: "some/rust-lld".into() };
        let call = shown(&target.cargo(&Workspace::find(), "build"));
        assert!(call.contains("-Zbuild-std=std,panic_abort"), "{call}");
        assert!(call.contains("LINKER=some/rust-lld"), "{call}");
        let plain = shown(&Target::Installed.cargo(&Workspace::find(), "build"));
        assert!(!plain.contains("build-std"), "{plain}");
    }
}
