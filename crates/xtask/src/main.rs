//! The tasks that `package.json` calls, run as `cargo xtask NAME`.
//!
//! A task is a list of steps that run one after another and stop at the first failure. Every step
//! says what it runs and how long that took. Nothing is left behind but built files, so a task
//! may run again at any time. One thread, no locks.

use crate::step::{Step, Sum};
use crate::workspace::Workspace;
use std::process::ExitCode;

mod bench;
mod check;
mod clock;
mod desktop;
mod likeness;
mod loom;
mod miri;
mod module;
mod package;
mod packages;
#[path = "../../../tests/tidy/rows.rs"]
mod rows;
mod setup;
mod step;
mod sweep;
mod targets;
mod tests;
mod validation;
mod wasm;
mod workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(steps) = steps(&arguments) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match step::run_all(&Workspace::find(), &steps) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn steps(arguments: &[String]) -> Option<Vec<Step>> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Some(match arguments[..] {
        ["setup"] => vec![setup::STEP],
        ["check"] => vec![check::FORMAT, check::CLIPPY, check::TIDY, check::DOCS, wasm::CHECK],
        ["wasm"] => vec![wasm::CHECK],
        ["targets"] => vec![targets::STEP],
        ["build"] => vec![package::BUILD],
        ["web"] => web_steps(),
        ["desktop"] => vec![desktop::STEP],
        ["loom"] => vec![loom::STEP],
        ["miri"] => vec![miri::STEP],
        ["validation"] => vec![validation::STEP],
        ["test"] => every_step(),
        ["bench"] => vec![bench::FULL, package::BUILD, bench::WEB],
        ["bench", "--quick"] => vec![bench::QUICK, package::BUILD, bench::QUICK_WEB],
        ["bench-web"] => vec![package::BUILD, bench::WEB],
        ["bench-web", "--quick"] => vec![package::BUILD, bench::QUICK_WEB],
        _ => return None,
    })
}

/// Tidy and the memory checker run tests that another step runs too, so they do not add to the sum.
fn every_step() -> Vec<Step> {
    let native = [
        setup::STEP,
        check::FORMAT,
        check::CLIPPY,
        Step { sum: Sum::Apart, ..check::TIDY },
        check::DOCS,
        wasm::CHECK,
        tests::TESTS,
        tests::DOC_TESTS,
        tests::EXAMPLES,
        desktop::STEP,
        Step { sum: Sum::Apart, ..validation::STEP },
    ];
    let checkers = [loom::STEP, Step { sum: Sum::Apart, ..miri::STEP }];
    native.into_iter().chain(web_steps()).chain(checkers).collect()
}

/// The npm package: built, then tested by all that runs it.
fn web_steps() -> Vec<Step> {
    // Chromium brings the software GPU that Node's tests run on.
    let engines = [package::CHROMIUM, package::NODE, package::FIREFOX, package::WEBKIT];
    let tests = engines.into_iter().chain([package::PAGES, package::PACKED, package::DEMOS]);
    [package::BUILD].into_iter().chain(tests).collect()
}

const USAGE: &str = "\
usage: cargo xtask TASK
  setup            looks for the tools that the other tasks need, and installs them where it can
  check            format, clippy, tidy, docs, clippy for browsers
  test             everything: setup, check, tests, doc tests, examples, desktop, validation,
                   web, loom, miri
  wasm             clippy for browsers
  targets          whether the drivers compile for browsers, Windows and macOS
  build            the npm package, into dist
  web              the npm package and its tests, in Node and in browsers; the demos
  desktop          the desktop example, and whether its picture shows anything
  loom             the model checker on claims, stamps, the turn and loss
  miri             memory checks of rows 0 to 3 and the access paths
  validation       the tests of GPUs under Vulkan's validation layer
  bench [--quick]  the benchmarks, written to benches/results of crates/rig and crates/rig-web
  bench-web [--quick]
                   those of the npm package alone
";

#[cfg(test)]
mod usage_tests {
    use crate::steps;

    #[test]
    fn every_task_of_the_usage_text_has_steps_and_nothing_else_has() {
        let other = [
            "wasm",
            "targets",
            "build",
            "web",
            "desktop",
            "loom",
            "miri",
            "validation",
            "bench",
            "bench --quick",
            "bench-web",
            "bench-web --quick",
        ];
        for task in ["setup", "check", "test"].into_iter().chain(other) {
            let words: Vec<String> = task.split(' ').map(String::from).collect();
            assert!(steps(&words).is_some_and(|steps| !steps.is_empty()), "{task}");
        }
        for task in ["", "tset", "bench --slow", "test now"] {
            let words: Vec<String> = task.split(' ').map(String::from).collect();
            assert!(steps(&words).is_none(), "{task}");
        }
    }
}
