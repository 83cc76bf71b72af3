//! What a call came to, and whether the reference allows it.

use rig::{Error, Misuse, Result};

/// What a call came to, as far as the reference tells outcomes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    Well,
    /// `Misuse` by wrong arguments or state, other than the next three.
    Wrong,
    Dead,
    ReadOnly,
    Busy,
    Lost,
    OutOfMemory,
    Unsupported,
}

impl Code {
    pub(crate) fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Well,
            Err(Error::Misuse { what: Misuse::Dead { .. }, .. }) => Self::Dead,
            Err(Error::Misuse { what: Misuse::ReadOnly, .. }) => Self::ReadOnly,
            Err(Error::Misuse { what: Misuse::Busy, .. }) => Self::Busy,
            Err(Error::Misuse { .. }) => Self::Wrong,
            Err(Error::Lost { .. }) => Self::Lost,
            Err(Error::OutOfMemory { .. }) => Self::OutOfMemory,
            Err(Error::Unsupported { .. }) => Self::Unsupported,
            Err(_) => panic!("an error that the model does not know"),
        }
    }
}

/// What the reference allows: the first refusal that was noted, in the order of S0.3, or success.
#[derive(Clone, Debug, Default)]
pub(crate) struct Want {
    allowed: Vec<Code>,
    decided: bool,
}

impl Want {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Refuses with a code if `is` and nothing before refused.
    pub(crate) fn refuse(mut self, code: Code, is: bool) -> Self {
        if is && !self.decided {
            self.allowed.push(code);
            self.decided = true;
        }
        self
    }

    /// Allows a refusal that the reference cannot decide, if nothing before refused.
    pub(crate) fn may(mut self, code: Code, is: bool) -> Self {
        if is && !self.decided {
            self.allowed.push(code);
        }
        self
    }

    /// Whether the call has to succeed, as far as the reference knows.
    pub(crate) fn is_well(&self) -> bool {
        !self.decided && self.allowed.is_empty()
    }

    /// Returns what is wrong with the outcome, if anything. On ill devices a loss may be told at
    /// any time, and memory may not come back.
    pub(crate) fn judge(&self, got: Code, ill: bool) -> Option<String> {
        let well = !self.decided && got == Code::Well;
        let by_illness = ill && matches!(got, Code::Lost | Code::OutOfMemory);
        if well || by_illness || self.allowed.contains(&got) {
            return None;
        }
        let mut allowed = self.allowed.clone();
        if !self.decided {
            allowed.push(Code::Well);
        }
        Some(format!("came to {got:?}, allowed are {allowed:?}"))
    }
}
