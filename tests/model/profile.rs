//! What the scripted devices of a random program are.

use crate::random::Random;
use rig::bytes::page_bytes;
use rig::driver::{Addressed, Queue};
use rig::{Bins, CacheOptions, Device};
use rig_support::{Answer, Completion, Known, Script, StopEnd, StopWord};

/// The knobs of one device, as the reference has to know them.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) addressed: Addressed,
    pub(crate) align_bytes: Option<u64>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) waits_max: i64,
    pub(crate) queue_parts: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) budget_bytes: u64,
    pub(crate) largest_bytes: u64,
    pub(crate) pinned: bool,
    pub(crate) piece_bytes: u64,
    pub(crate) half_bytes: u64,
    pub(crate) grain_bytes: u64,
    pub(crate) code_bytes: u64,
    pub(crate) first_value: u64,
    pub(crate) peers: bool,
    pub(crate) allocs: Answer,
    pub(crate) maps: Answer,
    pub(crate) stops: Answer,
    pub(crate) stop_end: StopEnd,
    pub(crate) stop_word: StopWord,
    pub(crate) completion: Completion,
    pub(crate) batches: bool,
    pub(crate) bins: Bins,
    pub(crate) bin_max_bytes: u64,
    pub(crate) near_fit: f64,
    /// How a GPU is opened and ended; none of other devices.
    pub(crate) gpu: Option<Gpu>,
}

/// How a GPU is opened under a name, and ended without a word to rig.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    pub(crate) open: fn(&str) -> Option<Device>,
    pub(crate) destroy: fn(&Device),
}

impl Profile {
    /// Draws the knobs of a device.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let addressed = random.of(&[
            Addressed::Never,
            Addressed::Never,
            Addressed::Never,
            Addressed::WhileMapped,
            Addressed::Always,
        ]);
        let no_copies = Queue { copies: false, ..Queue::ALL };
        let one = vec![Queue::ALL];
        let queues = random.of(&[
            one.clone(),
            one.clone(),
            one,
            vec![Queue::ALL, Queue::ALL],
            vec![no_copies, Queue { launches: false, ..Queue::ALL }],
        ]);
        let piece_bytes = random.of(&[1_000, 4_096, 8_192]);
        Self {
            addressed,
            align_bytes: random.of(&[Some(page_bytes()), Some(page_bytes()), Some(1), None]),
            queues,
            waits_max: random.of(&[-1, 0, 1, 64, 64]),
            queue_parts: random.of(&[u64::MAX, u64::MAX, 3, 5]),
            heap_bytes: random.of(&[u64::MAX, u64::MAX, 150_000, 60_000]),
            budget_bytes: random.of(&[u64::MAX, 500_000, 120_000, 40_000]),
            largest_bytes: random.of(&[i64::MAX as u64, i64::MAX as u64, 30_000]),
            pinned: random.one_in(2),
            piece_bytes,
            half_bytes: random.of(&[4_096, 8_192]),
            grain_bytes: random.of(&[1, 1, 4, 256]),
            code_bytes: random.of(&[0, 0, 700]),
            first_value: random.of(&[0, 0, 1_000_000]),
            peers: random.one_in(2),
            allocs: random.of(&[Answer::AtOnce, Answer::AtOnce, Answer::AtService]),
            maps: random.of(&[Answer::AtOnce, Answer::AtService]),
            stops: random.of(&[Answer::AtOnce, Answer::AtOnce, Answer::WhenTold]),
            stop_end: StopEnd::Settles,
            stop_word: random.of(&[StopWord::Stays, StopWord::WritesLast]),
            completion: random.of(&[Completion::Run, Completion::Run, Completion::Service]),
            batches: random.one_in(3),
            bins: random.of(&[Bins::Eighths, Bins::Eighths, Bins::Pow2]),
            bin_max_bytes: random.of(&[104_857_600, 20_000]),
            near_fit: random.of(&[1.25, 1.0, 3.0]),
            gpu: None,
        }
    }

    pub(crate) fn script(&self, name: &str) -> Script {
        let known = if self.waits_max > 0 { Known::Scripted } else { Known::Nobody };
        let peers = if self.peers { Known::Scripted } else { Known::Nobody };
        let script = Script::new(name)
            .addressed(self.addressed)
            .maps_host(self.align_bytes)
            .queues(self.queues.clone())
            .understands(known, self.waits_max)
            .queue_parts(self.queue_parts)
            .heap_bytes(self.heap_bytes)
            .code_bytes(self.code_bytes)
            .first_value(self.first_value)
            .peers(peers)
            .allocs(self.allocs)
            .maps(self.maps)
            .stops(self.stops)
            .stop_end(self.stop_end)
            .stop_word(self.stop_word)
            .completion(self.completion)
            .silent()
            .facts(|facts| {
                facts.default_budget_bytes = self.budget_bytes;
                facts.largest_bytes = self.largest_bytes;
                facts.pinned = self.pinned;
                facts.piece_bytes = self.piece_bytes;
                facts.half_bytes = self.half_bytes;
                facts.grain_bytes = self.grain_bytes;
            });
        if self.batches { script.batches() } else { script }
    }

    pub(crate) fn cache(&self) -> CacheOptions {
        let mut options = CacheOptions::default();
        options.bins = self.bins;
        options.bin_max_bytes = self.bin_max_bytes;
        options.near_fit = self.near_fit;
        options
    }

    /// Whether queue order alone keeps the next use behind the last (S9.3).
    pub(crate) fn is_ordered(&self) -> bool {
        self.queues.len() == 1 && self.addressed == Addressed::Never
    }

    pub(crate) fn copies(&self) -> bool {
        self.queues.iter().any(|queue| queue.copies)
    }

    /// Returns the bytes of a piece of a staged copy.
    pub(crate) fn piece(&self) -> u64 {
        self.piece_bytes.min(self.half_bytes)
    }
}

/// Returns the bytes that a request of `n` bytes is charged (S9.7, S9.8), written anew from the
/// sentence: no shift of the library's is used here.
pub(crate) fn bin_bytes(bins: Bins, n: u64, bin_max_bytes: u64) -> u64 {
    if n > bin_max_bytes {
        return n;
    }
    if bins == Bins::Pow2 {
        return n.next_power_of_two();
    }
    if n <= 512 {
        return 512;
    }
    let exponent = (n - 1).ilog2();
    let step = 1u64 << (exponent - 3);
    n.div_ceil(step) * step
}

impl Profile {
    /// The facts of a device over host memory, as the reference has to know them.
    pub(crate) fn over_host_memory(queues: Vec<Queue>, align_bytes: Option<u64>) -> Self {
        Self {
            addressed: Addressed::Always,
            align_bytes,
            queues,
            waits_max: 0,
            queue_parts: u64::MAX,
            heap_bytes: u64::MAX,
            budget_bytes: u64::MAX,
            largest_bytes: i64::MAX as u64,
            pinned: false,
            piece_bytes: 4 << 20,
            half_bytes: 4 << 20,
            grain_bytes: 1,
            code_bytes: 0,
            first_value: 0,
            peers: false,
            allocs: Answer::AtOnce,
            maps: Answer::AtOnce,
            stops: Answer::AtOnce,
            stop_end: StopEnd::Settles,
            stop_word: StopWord::Stays,
            completion: Completion::Run,
            batches: false,
            bins: Bins::Eighths,
            bin_max_bytes: 104_857_600,
            near_fit: 1.25,
            gpu: None,
        }
    }

    /// The facts of a GPU, as the reference has to know them.
    #[cfg_attr(not(feature = "wgpu"), allow(dead_code))]
    pub(crate) fn of_gpu(device: &Device, gpu: Gpu) -> Self {
        let facts = device.facts();
        Self {
            addressed: facts.addressed,
            budget_bytes: device.budget(),
            largest_bytes: facts.largest_bytes,
            piece_bytes: facts.piece_bytes,
            half_bytes: facts.half_bytes,
            grain_bytes: facts.grain_bytes,
            completion: Completion::Service,
            gpu: Some(gpu),
            ..Self::over_host_memory(facts.queues.clone(), facts.import_align_bytes)
        }
    }
}
