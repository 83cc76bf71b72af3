//! The commands of a random program: what to do, and numbers that pick on what.
//!
//! Numbers are taken modulo what there is when the command runs, so that a program without some of
//! its commands is a program too: a failing one can be made smaller.

use crate::random::Random;

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Do {
    Create,
    CreateNow,
    Wrap,
    MakeFile,
    View,
    Clone,
    Borrow,
    Drop,
    Free,
    Share,
    Lend,
    Copy,
    BlitTo,
    BlitFrom,
    Fill,
    Read,
    Write,
    Export,
    ExportOut,
    ExportIn,
    DropExport,
    ClaimRead,
    DropClaim,
    With,
    Consume,
    LoadKernel,
    DropKernel,
    Prepare,
    Submit,
    RecordUse,
    DropWork,
    DropHold,
    WaitValue,
    WaitBuffer,
    Run,
    Drain,
    Trim,
    FreeCache,
    SetBudget,
    SetHostBudget,
    SetCache,
    Lose,
    AnswerStop,
    Close,
    Reopen,
}

/// A command of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// Its place in the whole program, which keeps its name when others are left out.
    pub(crate) at: usize,
    pub(crate) what: Do,
    pub(crate) numbers: [u64; 4],
}

impl Command {
    /// Returns one of the command's numbers, below `count`; 0 where that is 0.
    pub(crate) fn pick(&self, which: usize, count: usize) -> usize {
        if count == 0 { 0 } else { (self.numbers[which] % count as u64) as usize }
    }

    /// Returns a generator of further numbers.
    pub(crate) fn random(&self) -> Random {
        Random::new(self.numbers.iter().fold(1, |mixed, number| mixed ^ number.rotate_left(7)))
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d] = self.numbers;
        write!(f, "{:>4} {:?} {a} {b} {c} {d}", self.at, self.what)
    }
}

/// Makes the commands of a program.
pub(crate) fn program(random: &mut Random, count: usize) -> Vec<Command> {
    let all: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let commands = (0..count).map(|at| {
        let mut left = random.below(all);
        let drawn = WEIGHTS.iter().find(|(_, weight)| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        let what = drawn.expect("what is drawn is below the sum").0;
        Command { at, what, numbers: [(); 4].map(|()| random.below(1 << 16)) }
    });
    commands.collect()
}

const WEIGHTS: &[(Do, u64)] = &[
    (Do::Create, 90),
    (Do::CreateNow, 20),
    (Do::Wrap, 10),
    (Do::MakeFile, 6),
    (Do::View, 30),
    (Do::Clone, 10),
    (Do::Borrow, 50),
    (Do::Drop, 110),
    (Do::Free, 25),
    (Do::Share, 4),
    (Do::Lend, 5),
    (Do::Copy, 110),
    (Do::BlitTo, 40),
    (Do::BlitFrom, 40),
    (Do::Fill, 40),
    (Do::Read, 40),
    (Do::Write, 40),
    (Do::Export, 8),
    (Do::ExportOut, 8),
    (Do::ExportIn, 8),
    (Do::DropExport, 10),
    (Do::ClaimRead, 12),
    (Do::DropClaim, 16),
    (Do::With, 20),
    (Do::Consume, 20),
    (Do::LoadKernel, 12),
    (Do::DropKernel, 6),
    (Do::Prepare, 40),
    (Do::Submit, 130),
    (Do::RecordUse, 20),
    (Do::DropWork, 20),
    (Do::DropHold, 10),
    (Do::WaitValue, 12),
    (Do::WaitBuffer, 20),
    (Do::Run, 80),
    (Do::Drain, 30),
    (Do::Trim, 10),
    (Do::FreeCache, 10),
    (Do::SetBudget, 12),
    (Do::SetHostBudget, 8),
    (Do::SetCache, 4),
    (Do::Lose, 5),
    (Do::AnswerStop, 6),
    (Do::Close, 2),
    (Do::Reopen, 16),
];
