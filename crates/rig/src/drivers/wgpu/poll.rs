//! Polls for one submission, which browsers do not have. Any thread may poll; no lock is held.

use crate::driver::Fault;
use crate::drivers::wgpu::guarded::{Guarded, text_of};
use ::wgpu::{PollError, PollType, SubmissionIndex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What wgpu knows of a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Complete,
    Running,
    /// It was never taken, since the device had ended before; why.
    Untaken(String),
    /// The device is gone with all of its work; why.
    Gone(String),
}

impl Guarded {
    /// Waits for a submission, for `at_most`; answers whether it and all before it are complete.
    ///
    /// Where it may not be, `at_most` is not 0: wgpu panics when another thread's poll finds the
    /// queue empty between this one's look at the fence and at the queue, which a wait that ends
    /// with the fence cannot meet.
    pub(crate) fn poll(&self, index: &SubmissionIndex, at_most: Duration) -> Result<bool, Fault> {
        self.check()?;
        match self.ask(index, at_most) {
            Asked::Complete => Ok(true),
            Asked::Running => self.probe().map(|()| false),
            Asked::Untaken(why) => {
                // That it was destroyed says more than what came of it.
                self.find_out()?;
                Err(self.lose(&why))
            }
            Asked::Gone(why) => Err(self.lose(&why)),
        }
    }

    /// Waits for a submission, for `at_most`, also on a device that has ended.
    pub(crate) fn ask(&self, index: &SubmissionIndex, at_most: Duration) -> Asked {
        let submission_index = Some(index.clone());
        let wait = PollType::Wait { submission_index, timeout: Some(at_most) };
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(wait))) {
            Ok(Ok(_)) => Asked::Complete,
            Ok(Err(PollError::Timeout)) => Asked::Running,
            Ok(Err(error)) => Asked::Untaken(format!("the device took no work: {error}")),
            Err(panic) => match text_of(&*panic) {
                // The queue is empty, so it is complete: the wait ended just then.
                text if text.starts_with(EMPTY_BUT_BEHIND) => Asked::Complete,
                text => Asked::Gone(text),
            },
        }
    }
}

/// How wgpu's panic begins that says that the queue is empty, and its fence was behind before.
const EMPTY_BUT_BEHIND: &str = "If the queue is empty, the current submission index";
