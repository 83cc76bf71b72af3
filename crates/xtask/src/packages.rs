//! Programs and libraries of the system: looked for, and installed where Debian's packages are.
//!
//! What is missing in the end is no failure here. The steps that need it say so, and skip or fail.

use crate::workspace::{Workspace, answer, run};
use std::path::Path;

/// What the system has to have, and the package of Debian that brings it.
struct Needed {
    what: &'static str,
    is_there: fn() -> bool,
    package: &'static str,
    /// What goes on without it.
    without: &'static str,
}

/// Looks for all, and installs what is missing. Returns what the summary should say of the rest.
pub(crate) fn find(workspace: &Workspace) -> String {
    if !cfg!(target_os = "linux") {
        return String::new();
    }
    let missing = || NEEDED.iter().filter(|needed| !(needed.is_there)());
    let packages: Vec<&str> = missing().map(|needed| needed.package).collect();
    if !packages.is_empty() {
        install(workspace, &packages);
    }
    for Needed { what, package, without, .. } in missing() {
        println!(
            "  {what} is missing: {without}; on Debian, `apt-get install {package}` brings it"
        );
    }
    let missing: Vec<&str> = missing().map(|needed| needed.what).collect();
    let there = NEEDED.len() - missing.len();
    println!("  {there} of {} programs and libraries of the system are there", NEEDED.len());
    if missing.is_empty() { String::new() } else { format!("no {}", missing.join(", no ")) }
}

/// Installs packages with apt-get, as root or through a sudo that asks for no password.
pub(crate) fn install(workspace: &Workspace, packages: &[&str]) {
    let Some(by) = installer(workspace) else {
        println!("  apt-get cannot be run here, so nothing is installed");
        return;
    };
    let apt = |words: &[&str]| {
        let mut command = workspace.program(by[0]);
        command.args(&by[1..]).args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
        // What could not be installed is missing at the next look, which says so.
        let _ = run(command.args(["-o", "DPkg::Lock::Timeout=120"]).args(words));
    };
    apt(&["update"]);
    let words = ["install", "--yes", "--no-install-recommends"];
    apt(&[&words, packages].concat());
}

/// Returns the words before variables and a program that run it with the right to install.
fn installer(workspace: &Workspace) -> Option<&'static [&'static str]> {
    answer(workspace.program("apt-get").arg("--version"))?;
    if answer(workspace.program("id").arg("-u"))? == "0" {
        return Some(&["env"]);
    }
    answer(workspace.program("sudo").args(["-n", "true"]))?;
    Some(&["sudo", "-n", "env"])
}

/// Whether a program is on the path.
pub(crate) fn is_on_path(name: &str) -> bool {
    on_path(name).is_some()
}

/// Returns where the path finds a program.
pub(crate) fn on_path(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file())?.into_os_string().into_string().ok()
}

/// Whether the loader of libraries finds a name such as `libX11.so.6`.
fn has_library(name: &str) -> bool {
    let folder = |list: &str| Path::new(list).join(name).exists();
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    ["/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib"].into_iter().any(folder)
        || folder(&format!("/usr/lib/{machine}"))
        || folder(&format!("/lib/{machine}"))
}

/// Whether a driver is known to the loader of Vulkan, be it of a GPU or software.
pub(crate) fn has_vulkan_driver() -> bool {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
    let is_file = |list: String| std::env::split_paths(&list).any(|path| path.is_file());
    let folders = ["/etc", "/usr/share", "/usr/local/share"];
    named.into_iter().filter_map(|name| std::env::var(name).ok()).any(is_file)
        || folders.into_iter().any(|folder| {
            let entries = std::fs::read_dir(format!("{folder}/vulkan/icd.d"));
            entries.is_ok_and(|mut entries| entries.next().is_some())
        })
}

const NEEDED: &[Needed] = &[
    Needed {
        what: "Vulkan's loader",
        is_there: || has_library("libvulkan.so.1"),
        package: "libvulkan1",
        without: "no GPU is found, and the tests of GPUs are skipped",
    },
    Needed {
        what: "driver for Vulkan",
        is_there: has_vulkan_driver,
        package: "mesa-vulkan-drivers",
        without: "no GPU is found, and the tests of GPUs are skipped",
    },
    Needed {
        what: "Xvfb",
        is_there: || is_on_path("Xvfb"),
        package: "xvfb",
        without: "the desktop example is not run",
    },
    Needed {
        what: "libX11-xcb",
        is_there: || has_library("libX11-xcb.so.1"),
        package: "libx11-xcb1",
        without: NO_WINDOW,
    },
    Needed {
        what: "libXcursor",
        is_there: || has_library("libXcursor.so.1"),
        package: "libxcursor1",
        without: NO_WINDOW,
    },
    Needed {
        what: "libXi",
        is_there: || has_library("libXi.so.6"),
        package: "libxi6",
        without: NO_WINDOW,
    },
    Needed {
        what: "libxkbcommon-x11",
        is_there: || has_library("libxkbcommon-x11.so.0"),
        package: "libxkbcommon-x11-0",
        without: NO_WINDOW,
    },
];

const NO_WINDOW: &str = "windows do not open";

#[cfg(test)]
mod looking {
    use crate::packages::{has_library, is_on_path};

    #[test]
    fn a_program_that_is_nowhere_is_not_on_the_path() {
        assert!(!is_on_path("a program that nobody has"));
        assert!(!has_library("liba-library-that-nobody-has.so.1"));
        if cfg!(target_os = "linux") {
            assert!(is_on_path("sh"));
        }
    }
}
