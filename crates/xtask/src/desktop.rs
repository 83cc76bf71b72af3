//! The desktop example, in a window of its own on a display that no screen shows.

use crate::packages::{has_vulkan_driver, is_on_path};
use crate::step::{Failure, Found, Step, Sum};
use crate::tests::run_quietly;
use crate::workspace::{Workspace, run};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// Opens the window for some frames and takes a picture, which is checked not to be blank.
pub(crate) const STEP: Step = Step { name: "desktop", sum: Sum::Counts, run: desktop };

fn desktop(workspace: &Workspace) -> Result<Found, Failure> {
    run(workspace.cargo().args(["build", "-p", "rig-desktop"]))?;
    let missing = match (is_on_path("Xvfb"), has_vulkan_driver()) {
        (false, _) => Some("Xvfb"),
        (true, false) => Some("driver for Vulkan"),
        (true, true) => None,
    };
    if let Some(missing) = missing {
        let note = format!("skipped, there is no {missing}");
        let required = std::env::var("RIG_REQUIRE").unwrap_or_default();
        return match required.split(',').any(|word| word == "desktop") {
            true => Err(note.into()),
            false => Ok(Found { note, ..Found::default() }),
        };
    }
    let display = Display::open(workspace)?;
    let folder = workspace.target("xtask");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let picture = folder.join("desktop.png");
    // A picture of an earlier run is none of this one.
    let _ = std::fs::remove_file(&picture);
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "-p", "rig-desktop", "--", "--frames", FRAMES, "--picture"]);
    command.arg(&picture).env("DISPLAY", &display.name).env_remove("WAYLAND_DISPLAY");
    run_quietly(workspace, "desktop", &mut command)?;
    match picture.is_file() {
        true => Ok(Found { note: format!("{}", picture.display()), ..Found::default() }),
        false => Err("the desktop example left no picture".to_string().into()),
    }
}

/// A display without a screen; it ends when this is dropped.
struct Display {
    server: Child,
    name: String,
}

impl Display {
    /// Starts it, under a number that is free, and waits until it can be used.
    fn open(workspace: &Workspace) -> Result<Self, Failure> {
        let mut command = workspace.program("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|error| format!("Xvfb: {error}"))?;
        let mut number = String::new();
        if let Some(stdout) = server.stdout.take() {
            // It writes its number once it is ready, and nothing if it cannot start.
            let _ = BufReader::new(stdout).read_line(&mut number);
        }
        let display = Self { server, name: format!(":{}", number.trim()) };
        match number.trim().is_empty() {
            true => Err("Xvfb does not start".to_string().into()),
            false => Ok(display),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Long enough for the flag's trail to grow and shrink, and for the cache to be seen.
const FRAMES: &str = "120";
