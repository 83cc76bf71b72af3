//! The order of functions: gzip looks back 32 KiB only, so those that resemble each other are to be
//! neighbours.

use crate::shrink::module::{CUSTOM, FUNCTION_NAMES, Module, NAME, put, section};
use std::collections::BTreeMap;

/// Returns a module whose functions are named by an order in which each follows those it shares
/// most with. wasm-opt sorts them by these names.
pub(crate) fn named_by_likeness(bytes: &[u8]) -> Option<Vec<u8>> {
    let module = Module::read(bytes)?;
    let ordered = order(&module.all_bodies());
    let mut ranks: Vec<_> = ordered.iter().enumerate().map(|(rank, index)| (index, rank)).collect();
    ranks.sort_unstable();
    let mut names = Vec::new();
    put(&mut names, ranks.len());
    for (index, rank) in ranks {
        let name = format!("{rank:05}");
        put(&mut names, module.imported + index);
        put(&mut names, name.len());
        names.extend_from_slice(name.as_bytes());
    }
    let mut content = Vec::new();
    put(&mut content, NAME.len());
    content.extend_from_slice(NAME);
    content.push(FUNCTION_NAMES);
    put(&mut content, names.len());
    content.extend_from_slice(&names);
    let mut out = bytes.to_vec();
    section(&mut out, CUSTOM, &content);
    Some(out)
}

/// What functions share with those that gzip still sees.
struct Likeness {
    /// Of each function, the pieces that it shares with others.
    pieces: Vec<Vec<usize>>,
    /// Of each piece, the functions that have it.
    holders: Vec<Vec<usize>>,
    /// Of each piece, how many functions in sight have it.
    in_sight: Vec<u32>,
    /// Of each function, what its pieces in sight are worth, and what all are.
    near: Vec<f64>,
    total: Vec<f64>,
}

impl Likeness {
    fn of(bodies: &[&[u8]]) -> Self {
        let mut holders: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (index, body) in bodies.iter().enumerate() {
            for piece in body.windows(PIECE_BYTES) {
                let holders = holders.entry(piece).or_default();
                if holders.last() != Some(&index) {
                    holders.push(index);
                }
            }
        }
        // What few share says most; what nearly all do is in sight anyway.
        let holders: Vec<_> =
            holders.into_values().filter(|all| (2..=HOLDERS_MAX).contains(&all.len())).collect();
        let mut made = Self {
            pieces: vec![Vec::new(); bodies.len()],
            in_sight: vec![0; holders.len()],
            near: vec![0.0; bodies.len()],
            total: vec![0.0; bodies.len()],
            holders: Vec::new(),
        };
        for (piece, all) in holders.iter().enumerate() {
            for &index in all {
                made.pieces[index].push(piece);
                made.total[index] += worth(all);
            }
        }
        made.holders = holders;
        made
    }

    /// Takes a function into sight.
    fn enter(&mut self, function: usize) {
        for &piece in &self.pieces[function] {
            self.in_sight[piece] += 1;
            if self.in_sight[piece] == 1 {
                let holders = &self.holders[piece];
                holders.iter().for_each(|&other| self.near[other] += worth(holders));
            }
        }
    }

    /// Loses a function out of sight.
    fn leave(&mut self, function: usize) {
        for &piece in &self.pieces[function] {
            self.in_sight[piece] -= 1;
            if self.in_sight[piece] == 0 {
                let holders = &self.holders[piece];
                holders.iter().for_each(|&other| self.near[other] -= worth(holders));
            }
        }
    }

    /// Returns the share of a function that is in sight; of those with little to share, less.
    fn share(&self, function: usize) -> f64 {
        self.near[function] / (self.total[function] + LITTLE)
    }
}

fn worth(holders: &[usize]) -> f64 {
    1.0 / (1.0 + holders.len() as f64).log2()
}

/// Returns the functions' indices so that each follows those it shares most with.
fn order(bodies: &[&[u8]]) -> Vec<usize> {
    let mut likeness = Likeness::of(bodies);
    let mut left: Vec<usize> = (0..bodies.len()).collect();
    let mut ordered: Vec<usize> = Vec::new();
    let (mut first_seen, mut seen_bytes) = (0, 0);
    let mut next = (0..bodies.len()).max_by_key(|&index| bodies[index].len());
    while let Some(function) = next {
        left.retain(|&other| other != function);
        likeness.enter(function);
        ordered.push(function);
        seen_bytes += bodies[function].len();
        while seen_bytes > SIGHT_BYTES && first_seen + 1 < ordered.len() {
            likeness.leave(ordered[first_seen]);
            seen_bytes -= bodies[ordered[first_seen]].len();
            first_seen += 1;
        }
        let by_share = |a: &&usize, b: &&usize| likeness.share(**a).total_cmp(&likeness.share(**b));
        next = left.iter().max_by(by_share).copied();
    }
    ordered
}

/// What gzip finds again is worth its while from about this length.
const PIECE_BYTES: usize = 5;
const HOLDERS_MAX: usize = 60;
/// Of the 32 KiB that gzip looks back, what is left beside the function itself.
const SIGHT_BYTES: usize = 30_000;
const LITTLE: f64 = 20.0;

#[cfg(test)]
mod ordering {
    use crate::shrink::likeness::{named_by_likeness, order};
    use crate::shrink::module::{CODE, IMPORTS, Module, put, section};

    #[test]
    fn functions_that_share_much_are_neighbours_by_name() {
        let [a, b]: [Vec<u8>; 2] = [(0..100).collect(), (100..180).collect()];
        let [like_a, like_b] = [[&a[..60], &[7]].concat(), [&b[..50], &[9]].concat()];
        let bodies = [&a[..], &b, &like_b, &like_a];
        assert_eq!(order(&bodies), [0, 3, 2, 1]);
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        section(&mut bytes, IMPORTS, &[1, 1, b'm', 1, b'f', 0, 0]);
        let mut code = vec![4];
        for body in bodies {
            put(&mut code, body.len());
            code.extend_from_slice(body);
        }
        section(&mut bytes, CODE, &code);
        let named = named_by_likeness(&bytes).expect("a module");
        let module = Module::read(&named).expect("a module");
        let names = [(1, "00000"), (2, "00003"), (3, "00002"), (4, "00001")];
        let names = names.map(|(index, name)| (index, name.as_bytes()));
        assert_eq!(module.names.into_iter().collect::<Vec<_>>(), names);
    }

    #[test]
    fn what_ends_too_early_is_no_module() {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        section(&mut bytes, CODE, &[1, 2, 0, 0x0b]);
        assert!(Module::read(&bytes).is_some());
        for end in [9, 11, bytes.len() - 1] {
            assert!(Module::read(&bytes[..end]).is_none(), "{end}");
        }
    }
}
