//! Instructions by callgrind: this program runs itself again under valgrind, once with N and once
//! with 2 N runs of a row; the difference is what N runs cost, start and end apart.

use std::process::Command;

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

/// Returns the instructions of one run of a row; none if valgrind fails.
pub(crate) fn of(row: &str, runs: u64) -> Option<f64> {
    let once = total(row, runs)?;
    let twice = total(row, 2 * runs)?;
    Some(twice.saturating_sub(once) as f64 / runs as f64)
}

fn total(row: &str, runs: u64) -> Option<u64> {
    let this = std::env::current_exe().ok()?;
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args([COUNT, row, &runs.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&done.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

const COUNT: &str = "--count";
