//! The failure walk (S15.4): each call of a driver in an operation fails, in each way.
//!
//! An operation runs once to count its fallible calls. Then each of them faults from there on, is
//! refused once, or is refused from there on; each case four times over, so that what grows is
//! seen. After a loss the devices are opened anew.

use crate::heap;
use crate::operation::{Loss, OPERATIONS, Operation};
use crate::scene::{Fails, Scene, Things, Which};
use crate::serial::alone;
use rig::{Error, Result};
use rig_support::SCRIPTED_FAULT;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn s15_4_a_fault_in_any_call_is_the_loss_of_its_device_and_leaves_nothing() {
    walk(Fails::Fault);
}

#[test]
fn s15_4_one_refusal_in_any_call_is_made_good_for() {
    walk(Fails::RefuseOnce);
}

#[test]
fn s15_4_refusals_from_any_call_on_are_out_of_memory_at_most() {
    walk(Fails::RefuseFrom);
}

fn walk(fails: Fails) {
    let _alone = alone();
    let (mut cases, mut wrong) = (0, Vec::new());
    for operation in OPERATIONS.iter().copied().flatten() {
        for device in [Which::D, Which::E, Which::Files] {
            if device == Which::Files && fails != Fails::Fault {
                continue;
            }
            let calls = count_calls(operation, device);
            for nth in 1..=calls {
                let case = Case { operation, device, fails, nth };
                let fails = || catch_unwind(AssertUnwindSafe(|| case.run())).is_err();
                // Once may be chance: where the tick sees a value reached just before the call
                // fails, the work is done and nothing has to be told.
                if fails() && fails() {
                    wrong.push(case);
                }
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "the operations make calls that can fail: {cases}");
    let wrong: Vec<_> = wrong.iter().map(Case::to_string).collect();
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs an operation that nothing fails in, on new devices; answers its fallible calls. The host's
/// halves, which stay, are there from the first time on.
fn count_calls(operation: &Operation, device: Which) -> u64 {
    let counted = || {
        let scene = Scene::open(operation);
        let mut things = (operation.ready)(&scene);
        let before = scene.fallible_calls(device);
        let done = (operation.act)(&scene, &mut things);
        let after = scene.fallible_calls(device);
        done.unwrap_or_else(|error| panic!("{}: {error}", operation.name));
        after - before
    };
    counted();
    counted()
}

/// One call of one operation that fails in one way.
struct Case<'a> {
    operation: &'a Operation,
    device: Which,
    fails: Fails,
    nth: u64,
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, device) = (self.operation.name, self.device);
        write!(f, "{name}: {:?} at call {} of {device:?}", self.fails, self.nth)
    }
}

impl Case<'_> {
    fn run(&self) {
        // The tick's own allocations come and go: growth that is not seen again is none.
        let mut heaps = self.repeat();
        for _ in 0..2 {
            if heaps.grow() {
                heaps = self.repeat();
            }
        }
        assert!(!heaps.grow(), "{self}: the heap grows each time: {heaps:?}");
    }

    /// Fails and works a few times; answers what the heap held after each.
    fn repeat(&self) -> Heaps {
        let (mut lefts, mut heaps) = (Vec::new(), Heaps::default());
        for _ in 0..REPETITIONS {
            let mut scene = Scene::open(self.operation);
            self.fail(&scene);
            let mut ends = scene.devices();
            if !scene.is_well() {
                drop(scene);
                scene = Scene::open(self.operation);
                ends *= 2;
            }
            self.succeed(&scene);
            lefts.push(scene.left());
            drop(scene);
            heaps.after.push(heap::live_bytes());
            heaps.reasons_bytes = heaps.reasons_bytes.max(ends * REASON_BYTES);
        }
        let same = lefts.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(same, "{self}: regions, mappings, code, host bytes are left: {lefts:?}");
        heaps
    }

    fn succeed(&self, scene: &Scene) {
        let mut things = (self.operation.ready)(scene);
        let done = (self.operation.act)(scene, &mut things);
        done.unwrap_or_else(|error| panic!("{self}: it works again: {error}"));
        self.finish(scene, things, true);
    }

    fn fail(&self, scene: &Scene) {
        let mut things = (self.operation.ready)(scene);
        let before = scene.fallible_calls(self.device);
        scene.fail(self.device, self.fails, self.nth);
        let outcome = (self.operation.act)(scene, &mut things);
        scene.end_plans();
        // What the tick has seen need not be asked again: a run may end before the call that fails.
        if scene.fallible_calls(self.device) - before < self.nth {
            assert!(outcome.is_ok(), "{self}: nothing failed: {outcome:?}");
        } else {
            self.judge(scene, &outcome);
        }
        self.finish(scene, things, outcome.is_ok());
    }

    fn judge(&self, scene: &Scene, outcome: &Result<()>) {
        let lost = scene.lost(self.device);
        let told = match (self.fails, outcome) {
            (Fails::Fault, Ok(())) => self.operation.loss == Loss::Silent && lost.is_some(),
            (Fails::Fault, Err(Error::Lost { why, .. })) => {
                [SCRIPTED_FAULT, "walk d lost", "walk e lost"].contains(&&**why)
            }
            (Fails::RefuseOnce, Ok(())) => true,
            (Fails::RefuseFrom, Ok(()) | Err(Error::OutOfMemory { .. })) => true,
            _ => false,
        };
        assert!(told, "{self}: {outcome:?}, lost: {lost:?}");
        match self.fails {
            Fails::Fault => assert_eq!(lost.as_deref(), Some(SCRIPTED_FAULT), "{self}"),
            _ if self.operation.name == "close" => {}
            _ => assert_eq!(lost, None, "{self}: a refusal loses nothing"),
        }
        assert!(scene.stops() <= 1, "{self}: one stop");
    }

    /// Looks at what the operation left: the bytes, no claim, nothing at the driver.
    fn finish(&self, scene: &Scene, things: Things, succeeded: bool) {
        if self.operation.moves && succeeded {
            let [from, to] = [&things.buffers[0], &things.buffers[1]].map(|buffer| {
                let mut bytes = vec![0; buffer.len() as usize];
                buffer.blit_to(0, &mut bytes).unwrap();
                bytes
            });
            assert!(from == to, "{self}: the bytes are there");
        }
        for buffer in &things.buffers {
            if buffer.dead().is_none() {
                buffer.free().unwrap_or_else(|error| panic!("{self}: no claim is left: {error}"));
            }
        }
        drop(things);
        scene.settle();
        scene.check_returned();
    }
}

/// What the heap held after each repetition.
#[derive(Default, Debug)]
struct Heaps {
    after: Vec<i64>,
    /// What the reasons of the devices that ended in each take: they are kept as long as points can
    /// be asked about.
    reasons_bytes: i64,
}

impl Heaps {
    fn grow(&self) -> bool {
        self.after.windows(2).all(|pair| pair[0] + self.reasons_bytes < pair[1])
    }
}

const REPETITIONS: usize = 4;

/// What one reason takes.
const REASON_BYTES: i64 = 32;
