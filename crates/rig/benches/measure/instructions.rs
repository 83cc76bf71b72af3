//! Instructions and atomic operations by callgrind: this program runs itself again under valgrind,
//! once with N and once with 2 N runs of a row; the difference is what N runs cost, start and end
//! apart. Both are the same on a busy machine and on a quiet one.

use std::process::Command;

/// What one run costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) instructions: f64,
    /// Operations that lock a cache line: exchanges, additions, locks; no plain loads and stores.
    pub(crate) atomics: f64,
}

/// The row and the number of runs that this process was started to count, if it was.
pub(crate) fn asked() -> Option<(String, u64)> {
    let mut arguments = std::env::args().skip_while(|given| given != COUNT);
    let (_, row, runs) = (arguments.next()?, arguments.next()?, arguments.next()?);
    Some((row, runs.parse().ok()?))
}

/// Whether valgrind is there.
pub(crate) fn can_count() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|done| done.status.success())
}

/// Returns the cost of one run of a row, all of it or only that inside of one function; none if
/// valgrind fails.
pub(crate) fn of(row: &str, within: Option<&str>, runs: u64) -> Option<Cost> {
    let once = total(row, within, runs)?;
    let twice = total(row, within, 2 * runs)?;
    let each = |at: usize| (twice[at] - once[at]).max(0.0) / runs as f64;
    // What a run shares with others, such as a part of a batch, shows in the third digit.
    let rounded = |at| (each(at) * 100.0).round() / 100.0;
    Some(Cost { instructions: rounded(0), atomics: rounded(1) })
}

fn total(row: &str, within: Option<&str>, runs: u64) -> Option<[f64; 2]> {
    let this = std::env::current_exe().ok()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-bus=yes"]);
    if let Some(function) = within {
        command.arg(format!("--toggle-collect=*{function}*"));
    }
    let done = command.arg(this).args([COUNT, row, &runs.to_string()]).output().ok()?;
    let text = String::from_utf8_lossy(&done.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?.1;
    let mut counts = line.split_whitespace().map(|count| count.parse().ok());
    // A column of zeros only is left out.
    Some([counts.next()??, counts.next().flatten().unwrap_or(0.0)])
}

const COUNT: &str = "--count";
