//! Random programs, one after another, and what is told of one that fails (S15.5).
//!
//! `RIG_SEED` replays one program, `RIG_STEPS` sets how many commands run in all, and `RIG_SKIP`
//! leaves commands out. A failing program is made smaller by running it again in processes of its
//! own, without some of its commands.

use crate::command::{Command, program};
use crate::dev::State;
use crate::profile::Profile;
use crate::random::Random;
use crate::reference::Life;
use crate::serial::alone;
use crate::watch::{STEPS, Watch};
use crate::world::World;
use rig_support::{Control, StopEnd, drain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command as Process;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn s15_5_random_programs_do_what_the_reference_says() {
    let name = "program::s15_5_random_programs_do_what_the_reference_says";
    Series { name, draw, time: Duration::from_secs(20) }.run();
}

/// Programs that a seed each draws the devices and the commands of.
pub(crate) struct Series {
    /// The name of the test that runs it.
    pub(crate) name: &'static str,
    pub(crate) draw: fn(u64) -> Drawn,
    /// For how long it usually runs.
    pub(crate) time: Duration,
}

/// The devices of a program, beside those that each has, and its commands.
pub(crate) type Drawn = (Vec<Profile>, Vec<Command>);

impl Series {
    /// Runs programs, as many as the time or `RIG_STEPS` allows.
    pub(crate) fn run(&self) {
        let _alone = alone();
        let _watch = Watch::start();
        if let Some(seed) = number("RIG_SEED") {
            self.run_one(seed);
            return;
        }
        let steps = number("RIG_STEPS");
        let until = Instant::now() + self.time;
        let (mut seed, before) = (number("RIG_FIRST").unwrap_or(1), STEPS.load(Ordering::Relaxed));
        loop {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_one(seed))) {
                self.tell(seed);
                std::panic::resume_unwind(panic);
            }
            seed += 1;
            let ran = STEPS.load(Ordering::Relaxed) - before;
            let over = steps.map_or(Instant::now() > until, |steps| ran >= steps);
            if over {
                println!("{ran} commands of {} programs", seed - 1);
                return;
            }
        }
    }

    /// Runs the program of a seed, and looks at what it leaves.
    fn run_one(&self, seed: u64) {
        let (profiles, mut commands) = (self.draw)(seed);
        let skipped = skipped();
        commands.retain(|command| !skipped.contains(&command.at));
        if commands.is_empty() {
            return;
        }
        let mut world = World::open(commands, profiles);
        world.run();
        world.finish();
    }

    /// Tells a failing program, as small as a minute makes it.
    fn tell(&self, seed: u64) {
        eprintln!("RIG_SEED={seed} fails");
        let (profiles, commands) = (self.draw)(seed);
        let mut skip = skipped();
        let place = self.failure(seed, &skip);
        if place.is_none() {
            eprintln!("alone, the program does not fail");
        }
        let until = Instant::now() + SHRINK_TIME;
        let mut chunk = commands.len() / 2;
        while place.is_some() && chunk > 0 && Instant::now() < until {
            let left: Vec<usize> =
                commands.iter().map(|command| command.at).filter(|at| !skip.contains(at)).collect();
            for part in left.chunks(chunk) {
                let without: Vec<usize> = skip.iter().chain(part).copied().collect();
                if Instant::now() < until && self.failure(seed, &without) == place {
                    skip = without;
                }
            }
            chunk /= 2;
        }
        let left = commands.iter().filter(|command| !skip.contains(&command.at));
        let left: Vec<String> = left.map(Command::to_string).collect();
        skip.sort_unstable();
        eprintln!("RIG_SEED={seed} RIG_SKIP={} fails:", list(&skip));
        profiles.iter().for_each(|profile| eprintln!("{profile:?}"));
        eprintln!("{}", left.join("\n"));
    }

    /// Runs a program without some of its commands; answers the place where it panicked.
    fn failure(&self, seed: u64, skip: &[usize]) -> Option<String> {
        // The watchdog looks at commands, and the child's are its own.
        STEPS.fetch_add(1, Ordering::Relaxed);
        let own = std::env::current_exe().expect("the test knows its binary");
        let ended = Process::new(own)
            .args(["--exact", self.name, "--nocapture"])
            .env("RIG_SEED", seed.to_string())
            .env("RIG_SKIP", list(skip))
            .output();
        let told = String::from_utf8_lossy(&ended.ok()?.stderr).into_owned();
        let line = told.lines().find(|line| line.contains("panicked at"))?;
        line.split("panicked at ").nth(1).map(str::to_owned)
    }
}

/// Draws the devices and commands of a seed.
fn draw(seed: u64) -> Drawn {
    let mut random = Random::new(seed);
    let count = 1 + random.below(3) as usize;
    let mut profiles: Vec<Profile> = (0..count).map(|_| Profile::draw(&mut random)).collect();
    if seed % NEVER_SETTLES == 7 {
        // Rarely: what such a device holds stays for as long as the process runs.
        profiles[0].stop_end = StopEnd::NeverSettles;
    }
    let length = 100 + random.below(300) as usize;
    (profiles, program(&mut random, length))
}

impl World {
    /// Ends everything: what is left has to be nothing.
    fn finish(mut self) {
        let host = self.devs[0].device.clone();
        host.set_budget(u64::MAX).expect("no callback runs");
        self.devs[0].budget = u64::MAX;
        self.exports.clear();
        self.claims.clear();
        self.works.clear();
        self.kernels.clear();
        self.holds.iter_mut().for_each(|held| held.hold = None);
        self.handles.clear();
        self.allocs.iter_mut().for_each(|alloc| alloc.kept_reads = 0);
        self.after_all();
        for dev in 1..self.devs.len() {
            self.close_dev(dev);
        }
        self.after_all();
        for (at, dev) in self.devs.iter().enumerate() {
            let mut owned = self.allocs.iter().filter(|alloc| alloc.owner == at);
            let keeps = owned.any(|alloc| alloc.life == Life::Returning && self.is_stuck(alloc));
            if dev.state == (State::Lost { settled: true }) && !keeps {
                dev.control.iter().for_each(Control::check_returned);
            }
        }
        host.free_cache().expect("no callback runs");
        drain(&host);
        let stats = host.stats();
        assert_eq!(stats.live_bytes + stats.pinned_bytes, 0, "nothing is live: {stats:?}");
        assert_eq!(stats.cached_bytes, 0, "{stats:?}");
        for file in &self.files {
            std::fs::remove_file(&file.path).expect("the file is there");
        }
    }
}

fn list(skip: &[usize]) -> String {
    skip.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn skipped() -> Vec<usize> {
    let text = std::env::var("RIG_SKIP").unwrap_or_default();
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const NEVER_SETTLES: u64 = 200;
const SHRINK_TIME: Duration = Duration::from_secs(60);
