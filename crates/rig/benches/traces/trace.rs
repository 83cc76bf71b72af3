//! Traces: what is created and dropped, in order.

use crate::recipe;
use std::path::Path;

/// One step of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Creates allocation `id` of `len` bytes.
    Create { id: usize, len: u64 },
    /// Drops it.
    Drop { id: usize },
}

/// A trace.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: String,
    /// Ids count from 0, and each is created and dropped once.
    pub(crate) events: Vec<Event>,
    /// Whether the trace is too small for a mean: rig caches 32 MiB of anything.
    pub(crate) is_small: bool,
}

/// An allocation of a trace: live from step `lower` to step `upper`.
#[derive(Clone, Copy, Debug)]
struct Life {
    lower: u64,
    upper: u64,
    len: u64,
}

impl Trace {
    /// Reads the lines `id,lower,upper,size` below a head line.
    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let life = |line: &str| {
            let mut cells = line.split(',').map(|cell| cell.trim().parse::<u64>().ok());
            let (_, lower, upper, len) =
                (cells.next()?, cells.next()??, cells.next()??, cells.next()??);
            Some(Life { lower, upper, len })
        };
        let lives: Option<Vec<Life>> = text.lines().skip(1).map(life).collect();
        Some(Self::of(path.file_stem()?.to_str()?, &lives?).repeated(LOOPS))
    }

    /// Repeats a trace, as a loop repeats its step: what it made is gone at its end.
    fn repeated(self, times: usize) -> Self {
        let count = self.creates();
        let again = |time: usize| {
            self.events.iter().map(move |event| match *event {
                Event::Create { id, len } => Event::Create { id: id + time * count, len },
                Event::Drop { id } => Event::Drop { id: id + time * count },
            })
        };
        let events = (0..times).flat_map(again).collect();
        Self { name: self.name, events, is_small: self.is_small }
    }

    /// Orders lives by their steps. What ends at a step ends before what begins there.
    fn of(name: &str, lives: &[Life]) -> Self {
        let mut steps: Vec<(u64, bool, usize)> = Vec::new();
        for (id, life) in lives.iter().enumerate() {
            steps.extend([(life.lower, true, id), (life.upper, false, id)]);
        }
        steps.sort_by_key(|(step, begins, _)| (*step, *begins));
        let event = |(_, begins, id): (u64, bool, usize)| match begins {
            true => Event::Create { id, len: lives[id].len },
            false => Event::Drop { id },
        };
        Self::made(name, steps.into_iter().map(event).collect())
    }

    /// Makes a trace of events.
    pub(crate) fn made(name: &str, events: Vec<Event>) -> Self {
        let mut trace = Self { name: name.into(), events, is_small: false };
        trace.is_small = trace.peak_live_bytes() < SMALL_BYTES;
        trace
    }

    /// Returns how many allocations there are.
    pub(crate) fn creates(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Create { .. })).count()
    }

    /// Returns the most bytes that are live at once, as they were asked for.
    pub(crate) fn peak_live_bytes(&self) -> u64 {
        let (mut live, mut peak) = (0, 0);
        let mut lens = vec![0; self.events.len()];
        for event in &self.events {
            match *event {
                Event::Create { id, len } => {
                    lens[id] = len;
                    live += len;
                    peak = live.max(peak);
                }
                Event::Drop { id } => live -= lens[id],
            }
        }
        peak
    }
}

/// Returns the published traces, those of `RIG_TRACES`, and the made ones.
pub(crate) fn all() -> Vec<Trace> {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let mut traces = folder(&published);
    if let Some(more) = std::env::var_os("RIG_TRACES") {
        traces.extend(folder(Path::new(&more)));
    }
    traces.extend(recipe::all());
    traces
}

fn folder(path: &Path) -> Vec<Trace> {
    let mut files: Vec<_> = std::fs::read_dir(path)
        .expect("the folder of traces is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "csv"))
        .collect();
    files.sort();
    files.iter().map(|file| Trace::read(file).expect("a trace has four numbers a line")).collect()
}

const SMALL_BYTES: u64 = 32 << 20;
/// How often the program of a published trace runs: it is one step of a loop.
const LOOPS: usize = 10;
