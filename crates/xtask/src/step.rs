//! Steps, what they find, and the summary at the end.
//!
//! A step that ran no test where it should have, or that failed without counting a failed test,
//! counts as one failed, so that the closing line never looks better than the run was.

use crate::workspace::Workspace;
use std::time::Instant;

/// One step of a task.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// What the step is called on its progress line.
    pub(crate) name: &'static str,
    /// Whether the tests it runs add to the closing line.
    pub(crate) sum: Sum,
    /// Runs it.
    pub(crate) run: fn(&Workspace) -> Result<Found, Failure>,
}

/// Whether a step's tests add to the closing line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sum {
    /// They do.
    Counts,
    /// They are tests that another step runs too.
    Apart,
}

/// What a step that went well found.
#[derive(Default)]
pub(crate) struct Found {
    /// The tests that ran.
    pub(crate) tests: Tests,
    /// What the summary should say besides, or nothing.
    pub(crate) note: String,
}

/// Why a step failed.
pub(crate) struct Failure {
    /// The tests that ran until then.
    pub(crate) tests: Tests,
    /// What went wrong, and what helps.
    pub(crate) why: String,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self { tests: Tests::default(), why }
    }
}

/// Counted tests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tests {
    /// Those that passed.
    pub(crate) passed: u64,
    /// Those that failed.
    pub(crate) failed: u64,
}

impl Tests {
    /// Adds the counts of a `test result:` line; any other line adds nothing.
    pub(crate) fn read(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ") else { return };
        for part in counts.split(['.', ';']) {
            let mut words = part.split_whitespace();
            match (words.next().and_then(|word| word.parse::<u64>().ok()), words.next()) {
                (Some(count), Some("passed")) => self.passed += count,
                (Some(count), Some("failed")) => self.failed += count,
                _ => {}
            }
        }
    }

    /// Adds the counts of other tests.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the steps, stops at the first failure, and prints a summary. Returns whether all went well.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step]) -> bool {
    let mut summary = Vec::new();
    let mut sum = Tests::default();
    let mut well = true;
    let began = Instant::now();
    for (index, step) in steps.iter().enumerate() {
        println!("[{}/{}] {} ...", index + 1, steps.len(), step.name);
        let step_began = Instant::now();
        let (tests, verdict) = match (step.run)(workspace) {
            Ok(found) => (found.tests, with_note("ok", &found.note)),
            Err(mut failure) => {
                well = false;
                failure.tests.failed = failure.tests.failed.max(1);
                (failure.tests, with_note("FAILED", &failure.why))
            }
        };
        let line = line(step, tests, &verdict, step_began.elapsed().as_secs_f64());
        println!("{line}\n");
        summary.push(line);
        if step.sum == Sum::Counts || !well {
            sum.add(tests);
        }
        if !well {
            break;
        }
    }
    println!("Summary of {:.1} s:", began.elapsed().as_secs_f64());
    summary.iter().for_each(|line| println!("{line}"));
    steps[summary.len()..]
        .iter()
        .for_each(|step| println!("  {:<10}           -  not run", step.name));
    if sum != Tests::default() {
        println!("{} passed, {} failed", sum.passed, sum.failed);
    }
    well
}

fn line(step: &Step, tests: Tests, verdict: &str, seconds: f64) -> String {
    let apart = if step.sum == Sum::Apart { ", counted elsewhere" } else { "" };
    let counted = match tests {
        Tests { passed: 0, failed: 0 } => String::new(),
        Tests { passed, failed } => format!(" ({passed} passed, {failed} failed{apart})"),
    };
    format!("  {:<10} {seconds:>7.1} s  {verdict}{counted}", step.name)
}

fn with_note(word: &str, note: &str) -> String {
    if note.is_empty() { word.to_string() } else { format!("{word}: {note}") }
}

#[cfg(test)]
mod counting {
    use crate::step::Tests;

    #[test]
    fn the_counts_of_a_result_line_are_added_and_other_lines_are_not() {
        let mut tests = Tests::default();
        tests.read("running 3 tests");
        tests.read("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out");
        tests.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 0.00s");
        tests.read("12 passed, 3 failed");
        assert_eq!(tests, Tests { passed: 15, failed: 2 });
    }
}
