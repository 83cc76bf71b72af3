//! The tests of GPUs under Vulkan's validation layer, which has to say nothing.
//!
//! The layer of the system is used, else one that apt-get downloads, which installs nothing: a
//! layer that is installed would look at every debug build of every program that uses wgpu.

use crate::step::{Failure, Found, Step, Sum, Tests};
use crate::workspace::{Workspace, answer, shown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the tests of GPUs under the layer.
pub(crate) const STEP: Step = Step { name: "validation", sum: Sum::Counts, run: validation };

fn validation(workspace: &Workspace) -> Result<Found, Failure> {
    let folder = workspace.target("xtask").join("validation");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(told)?;
    let Some(layer) = layer(workspace, &folder) else {
        return without("no validation layer; on Debian, vulkan-validationlayers has it");
    };
    let settings = folder.join("vk_layer_settings.txt");
    std::fs::write(&settings, SETTINGS).map_err(told)?;
    let mut command = workspace.cargo();
    command.args(["test", "-p", "rig-tests", "--test", "gpu", "--", "--nocapture"]);
    // Layers of 2022 crash where one thread opens a device beside the work of another.
    command.arg("--test-threads=1").args(TESTS);
    command.env("VK_INSTANCE_LAYERS", NAME).env("VK_LAYER_SETTINGS_PATH", settings);
    layer.show(&mut command);
    // Of the debug information in wgpu's shaders, such layers know no "source language 10", which
    // is WGSL, and look at no shader that has it.
    command.env("WGPU_DEBUG", "0").env("WGPU_VALIDATION", "1");
    println!("  $ {}", shown(&command));
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut tests = Tests::default();
    text.lines().for_each(|line| tests.read(line));
    let fail = |why: String| Err(Failure { tests, why });
    let crashed_at_exit = all_passed(&text) && !output.status.success();
    if !output.status.success() && !crashed_at_exit {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        return fail(format!("the tests ended with {}", output.status));
    }
    let messages: Vec<&str> = text.lines().filter(|line| is_message(line)).collect();
    if !messages.is_empty() {
        messages.iter().for_each(|message| println!("{message}"));
        return fail(format!("the validation layer has {} messages", messages.len()));
    }
    if !text.contains(ACTIVE) {
        return without("no Vulkan device under the validation layer");
    }
    // Seen with a layer of 2022 alone, whose own data goes then, beside the thread that ticks.
    let end =
        if crashed_at_exit { "; the process crashed at its end, after all tests" } else { "" };
    Ok(Found { tests, note: format!("no message{end}") })
}

/// Whether every test passed, whatever became of the process then.
fn all_passed(text: &str) -> bool {
    let first = text.lines().find_map(|line| line.strip_prefix("running ")?.strip_suffix(" tests"));
    // Tests of a process of their own print a result too, of one test each.
    let last = text.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "));
    first.zip(last).is_some_and(|(count, last)| last.starts_with(&format!("{count} passed; 0 ")))
}

fn without(why: &str) -> Result<Found, Failure> {
    let required = std::env::var("RIG_REQUIRE").unwrap_or_default();
    match required.split(',').any(|word| word == "validation") {
        true => Err(why.to_string().into()),
        false => Ok(Found { note: format!("skipped: {why}"), ..Found::default() }),
    }
}

/// Whether a line is what the layer says of an error or a doubt.
fn is_message(line: &str) -> bool {
    let is_of_kind = |kind: &&str| line.contains(kind);
    ["(ERROR / ", "(WARN / ", "(PERF / "].iter().any(is_of_kind) && !line.starts_with(BEHIND)
}

/// Where the layer is, unless the loader knows it.
struct Layer(Option<[PathBuf; 2]>);

impl Layer {
    /// Lets a program's loader find the layer.
    fn show(&self, command: &mut Command) {
        if let Self(Some([manifests, libraries])) = self {
            command.env("VK_LAYER_PATH", manifests).env("LD_LIBRARY_PATH", libraries);
        }
    }
}

/// Finds the layer, or downloads it.
fn layer(workspace: &Workspace, folder: &Path) -> Option<Layer> {
    let manifest = "vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
    let mut folders = ["/usr/share", "/usr/local/share", "/etc"].into_iter();
    if folders.any(|folder| Path::new(folder).join(manifest).is_file()) {
        return Some(Layer(None));
    }
    let unpacked = folder.join("unpacked");
    let manifests = unpacked.join("usr/share/vulkan/explicit_layer.d");
    if !manifests.is_dir() {
        let script = "apt-get -q download vulkan-validationlayers \
                      && dpkg -x vulkan-validationlayers_*.deb unpacked";
        answer(workspace.program("sh").args(["-c", script]).current_dir(folder))?;
    }
    let machine = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    manifests.is_dir().then(|| Layer(Some([manifests, unpacked.join(machine)])))
}

const NAME: &str = "VK_LAYER_KHRONOS_validation";

/// The tests that run: all but those that go on for long, and those of processes of their own.
const TESTS: &[&str] = &[
    "batches::",
    "contract::",
    "copies::",
    "interop::",
    "large::",
    "loss::",
    "lost::",
    "pending::",
    "small::",
    "threads::",
    "vectors::",
];

/// What the layer says of itself, once an instance.
const ACTIVE: &str = "Validation Layer Active";

/// What it says where its own record of a semaphore fell behind for 10 s, which it calls its own
/// fault there (its issue 4968).
const BEHIND: &str = "UNASSIGNED-VkSemaphore-state-timeout";

/// A log file would begin anew with each instance.
const SETTINGS: &str = "\
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf,info
khronos_validation.log_filename = stdout
";

#[cfg(test)]
mod messages {
    use crate::validation::{all_passed, is_message};

    #[test]
    fn all_passed_only_if_as_many_passed_as_were_to_run() {
        let (begin, one) =
            ("running 3 tests\n", "test result: ok. 1 passed; 0 failed; 0 ignored\n");
        let three = "test result: ok. 3 passed; 0 failed; 0 ignored";
        assert!(all_passed(&format!("{begin}{one}{three}")));
        assert!(!all_passed(&format!("{begin}{one}")) && !all_passed(begin));
        assert!(!all_passed(&format!("{begin}test result: FAILED. 2 passed; 1 failed")));
    }

    #[test]
    fn errors_and_doubts_are_messages_and_what_the_layer_says_of_itself_is_not() {
        assert!(is_message("VUID-1(ERROR / SPEC): msgNum: 7 - Validation Error: [ VUID-1 ]"));
        assert!(is_message("UNASSIGNED-x(WARN / SPEC): msgNum: 1 - Validation Warning"));
        assert!(!is_message("UNASSIGNED-VkSemaphore-state-timeout(ERROR / SPEC): msgNum: 1"));
        assert!(!is_message("status-message(INFO / SPEC): Khronos Validation Layer Active:"));
        assert!(!is_message("test copies::s6_7_a_fill_leaves_its_neighbours ... ok"));
    }
}
