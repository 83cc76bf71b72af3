//! The benchmarks, and the dated file that keeps their tables.
//!
//! A bench prints Markdown headings and tables on its standard output; the file gets these lines
//! and no others, below a table of the machine and the versions.

use crate::clock::today;
use crate::step::{Failure, Found, Step, Sum};
use crate::workspace::{Workspace, answer, run_with};

/// Runs every benchmark in full, and the one beside the peers.
pub(crate) const FULL: Step = Step { name: "bench", sum: Sum::Counts, run: full };
/// Runs every benchmark with few rounds, in less than five minutes.
pub(crate) const QUICK: Step = Step { name: "bench", sum: Sum::Counts, run: quick };
/// Runs the benchmarks of the built npm package in full, in the engines that are here.
pub(crate) const WEB: Step = Step { name: "bench web", sum: Sum::Counts, run: web };
/// Runs these with few rounds.
pub(crate) const QUICK_WEB: Step = Step { name: "bench web", sum: Sum::Counts, run: quick_web };

fn full(workspace: &Workspace) -> Result<Found, Failure> {
    bench(workspace, Length::Full)
}

fn quick(workspace: &Workspace) -> Result<Found, Failure> {
    bench(workspace, Length::Quick)
}

fn web(workspace: &Workspace) -> Result<Found, Failure> {
    bench_web(workspace, Length::Full)
}

fn quick_web(workspace: &Workspace) -> Result<Found, Failure> {
    bench_web(workspace, Length::Quick)
}

fn bench_web(workspace: &Workspace, length: Length) -> Result<Found, Failure> {
    let mut command = workspace.program("node");
    command.arg("crates/rig-web/benches/run.mjs");
    if length == Length::Quick {
        command.arg("--quick");
    }
    let mut tables = Tables::default();
    run_with(&mut command, |line| tables.read(line))?;
    let path = write(workspace, length, "crates/rig-web", &tables)?;
    Ok(Found { note: format!("written to {path}"), ..Found::default() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Full,
    Quick,
}

fn bench(workspace: &Workspace, length: Length) -> Result<Found, Failure> {
    let mut command = workspace.cargo();
    command.args(["bench", "-p", "rig-gpu"]);
    if length == Length::Quick {
        command.env("RIG_BENCH_QUICK", "1");
    }
    let mut tables = Tables::default();
    run_with(&mut command, |line| tables.read(line))?;
    let mut note = String::new();
    if length == Length::Full {
        // The peers have a workspace of their own, which takes minutes to compile at first.
        let mut command = workspace.cargo();
        command.args(["run", "--release", "--manifest-path", "crates/rig-bench/Cargo.toml"]);
        if run_with(&mut command, |line| tables.read(line)).is_err() {
            // They come over the network, and are no reason to throw the other tables away.
            note += ", without the peers, which did not build or run";
        }
    }
    let path = write(workspace, length, "crates/rig", &tables)?;
    Ok(Found { note: format!("written to {path}{note}"), ..Found::default() })
}

/// Writes the tables of a package's benches to its dated file; answers that file's path.
fn write(
    workspace: &Workspace,
    length: Length,
    package: &str,
    tables: &Tables,
) -> Result<String, Failure> {
    if tables.rows == 0 {
        return Err("no bench printed a table".to_string().into());
    }
    let ending = if length == Length::Quick { "-quick" } else { "" };
    let path = format!("{package}/benches/results/{}{ending}.md", today());
    let full_path = workspace.root.join(&path);
    let text =
        format!("# Benchmarks of {}\n\n{}{}", today(), machine(workspace, length), tables.text);
    let told = |error: std::io::Error| format!("{path}: {error}");
    if let Some(folder) = full_path.parent() {
        std::fs::create_dir_all(folder).map_err(told)?;
    }
    std::fs::write(&full_path, text).map_err(told)?;
    Ok(path)
}

/// The Markdown among what benches print.
#[derive(Default)]
struct Tables {
    text: String,
    rows: u64,
}

impl Tables {
    fn read(&mut self, line: &str) {
        if line.starts_with('|') {
            // A table starts after a blank line.
            if !self.text.ends_with("|\n") {
                self.text.push('\n');
            }
            self.rows += 1;
        } else if line.starts_with('#') {
            self.text.push('\n');
        } else {
            return;
        }
        self.text += line.trim_end();
        self.text.push('\n');
    }
}

fn machine(workspace: &Workspace, length: Length) -> String {
    let manifest = workspace.read("Cargo.toml").unwrap_or_default();
    let version = manifest.lines().find(|line| line.starts_with("version"));
    let version = version.and_then(|line| line.split('"').nth(1)).unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let git = |words: &[&str]| answer(workspace.program("git").args(words));
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or("none".to_string());
    let changed = git(&["status", "--porcelain"]).is_some_and(|files| !files.is_empty());
    let rows = [
        ("rig", format!("{version}, commit {commit}{}", if changed { ", changed" } else { "" })),
        ("rustc", answer(workspace.rustc().arg("--version")).unwrap_or_default()),
        ("processor", format!("{}, {cores} cores in use", processor(workspace))),
        ("memory", memory()),
        ("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("run", if length == Length::Quick { "quick" } else { "full" }.to_string()),
    ];
    let rows = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n"));
    format!("| what | which |\n|---|---|\n{}", rows.collect::<String>())
}

fn processor(workspace: &Workspace) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    if let Some((_, model)) = model {
        return model.to_string();
    }
    let mut sysctl = workspace.program("sysctl");
    answer(sysctl.args(["-n", "machdep.cpu.brand_string"])).unwrap_or("unknown".to_string())
}

fn memory() -> String {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or("unknown".to_string(), |kib| format!("{:.1} GiB", kib as f64 / 1_048_576.0))
}

#[cfg(test)]
mod collecting {
    use crate::bench::Tables;

    #[test]
    fn headings_and_tables_are_kept_and_other_lines_are_not() {
        let mut tables = Tables::default();
        let printed = [
            "running 0 tests",
            "",
            "test result: ok. 0 passed; 0 failed",
            "## create",
            "| row | ns |",
            "|---|---|",
            "| hit | 16 |",
            "warming up",
            "| other | ns |",
        ];
        printed.iter().for_each(|line| tables.read(line));
        let text = "\n## create\n\n| row | ns |\n|---|---|\n| hit | 16 |\n| other | ns |\n";
        assert_eq!(tables.text, text);
        assert_eq!(tables.rows, 4);
    }
}
