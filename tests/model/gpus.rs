//! Random programs with GPUs among their devices (S15.5): every kind of a GPU's memory, destroyed
//! by the program at times. They run no kernels, whose functions are the reference's own.

use crate::command::program;
use crate::found;
use crate::profile::{Gpu, Profile};
use crate::program::{Drawn, Series};
use crate::random::Random;
use crate::threads::{More, rounds};
use rig::Device;
use rig::wgpu::{handles, wgsl};
use std::sync::OnceLock;
use std::time::Duration;

#[test]
fn s15_5_random_programs_with_gpus_do_what_the_reference_says() {
    if kinds().is_empty() {
        return;
    }
    let name = "gpus::s15_5_random_programs_with_gpus_do_what_the_reference_says";
    Series { name, draw, time: Duration::from_secs(15) }.run();
}

#[test]
fn s15_5_two_threads_with_gpus_see_their_own_bytes_and_break_no_law() {
    if !kinds().is_empty() {
        rounds(open_all);
    }
}

/// Opens a GPU of each kind, with kernels that treat the bytes of words as the reference does.
fn open_all() -> Vec<More> {
    let open = |(at, kind): (usize, &Profile)| {
        let gpu = kind.gpu.expect("it is a GPU");
        let device = (gpu.open)(&format!("threads, GPU {at}")).expect("it opened before");
        let load = |entry| device.kernel(wgsl(WORDS, entry)).expect("it is valid WGSL");
        let kernels = [load("flip"), load("add")];
        (device, kernels)
    };
    kinds().iter().enumerate().map(open).collect()
}

/// Draws a scripted device, one or two GPUs, and the commands of a seed.
fn draw(seed: u64) -> Drawn {
    let mut random = Random::new(seed);
    let mut profiles = vec![Profile::draw(&mut random)];
    for _ in 0..1 + random.below(2) {
        let at = random.below(kinds().len() as u64) as usize;
        profiles.push(kinds()[at].clone());
    }
    let length = 100 + random.below(200) as usize;
    (profiles, program(&mut random, length))
}

/// Returns the kinds of GPU that this machine has, looked for once.
fn kinds() -> &'static [Profile] {
    static KINDS: OnceLock<Vec<Profile>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let ways: [fn(&str) -> Option<Device>; 4] =
            [found::open, found::open_mapped, found::open_importing, found::open_batching];
        let look = |open: fn(&str) -> Option<Device>| {
            let device = open("model, a look")?;
            let profile = Profile::of_gpu(&device, Gpu { open, destroy });
            device.close().expect("only the host is not closed");
            Some(profile)
        };
        ways.into_iter().filter_map(look).collect()
    })
}

fn destroy(device: &Device) {
    handles(device).expect("it is a GPU").0.destroy();
}

/// Bytes do not carry into each other.
const WORDS: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;

    @compute @workgroup_size(1)
    fn flip() {
        for (var i = 0u; i < arrayLength(&words); i++) {
            words[i] ^= 0x5A5A5A5Au;
        }
    }

    @compute @workgroup_size(1)
    fn add() {
        for (var i = 0u; i < arrayLength(&words); i++) {
            words[i] = ((words[i] & 0x7F7F7F7Fu) + 0x01010101u) ^ (words[i] & 0x80808080u);
        }
    }
";
