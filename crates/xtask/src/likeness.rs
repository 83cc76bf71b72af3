//! The order of a module's functions, by likeness.
//!
//! gzip tells what it saw in the last 32 KiB by where that was. So each function comes behind those
//! that it shares most with.

use crate::module::{CUSTOM, FUNCTION_NAMES, Module, NAME, put, section};
use std::collections::{BTreeMap, VecDeque};

/// Returns a module whose functions have new names, in whose order each resembles those before it.
pub(crate) fn named(bytes: &[u8]) -> Option<Vec<u8>> {
    let module = Module::read(bytes)?;
    let bodies = module.all_bodies();
    let mut names = Vec::new();
    put(&mut names, bodies.len());
    let mut ranks = vec![0; bodies.len()];
    order(&bodies).into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank);
    for (index, rank) in ranks.into_iter().enumerate() {
        put(&mut names, module.imported + index);
        text_out(&mut names, format!("{rank:06}").as_bytes());
    }
    let mut content = Vec::new();
    text_out(&mut content, NAME);
    section(&mut content, FUNCTION_NAMES, &names);
    let mut out = bytes[..module.sections.first()?.start].to_vec();
    for part in module.sections.iter().filter(|part| part.name != NAME) {
        out.extend_from_slice(&bytes[part.start..part.content.end]);
    }
    section(&mut out, CUSTOM, &content);
    Some(out)
}

/// Puts bodies in order, the largest first.
fn order(bodies: &[&[u8]]) -> Vec<usize> {
    let mut likeness = Likeness::of(bodies);
    let mut left: Vec<usize> = (0..bodies.len()).collect();
    let mut order = Vec::with_capacity(bodies.len());
    let largest = |left: &[usize]| (0..left.len()).max_by_key(|at| bodies[left[*at]].len());
    let mut next = largest(&left);
    while let Some(at) = next {
        let index = left.swap_remove(at);
        order.push(index);
        likeness.push(index);
        let like = |at: &usize| likeness.of_next(left[*at]);
        next = (0..left.len()).max_by(|a, b| like(a).total_cmp(&like(b)));
    }
    order
}

/// How much each body shares with the last ones.
struct Likeness<'a> {
    bodies: &'a [&'a [u8]],
    /// Of each run of bytes, how often it is in the last bodies, and all bodies that have it.
    runs: BTreeMap<&'a [u8], (usize, Vec<usize>)>,
    /// Of each body, the sum of what it shares: the fewer have a run, the more it is worth.
    shared: Vec<f64>,
    last: VecDeque<usize>,
    last_bytes: usize,
}

impl<'a> Likeness<'a> {
    fn of(bodies: &'a [&'a [u8]]) -> Self {
        let mut runs: BTreeMap<&[u8], (usize, Vec<usize>)> = BTreeMap::new();
        for (index, body) in bodies.iter().enumerate() {
            for run in body.windows(RUN_BYTES) {
                let (_, having) = runs.entry(run).or_default();
                if having.last() != Some(&index) {
                    having.push(index);
                }
            }
        }
        let shared = vec![0.0; bodies.len()];
        Self { bodies, runs, shared, last: VecDeque::new(), last_bytes: 0 }
    }

    /// Returns how well a body comes next.
    fn of_next(&self, index: usize) -> f64 {
        self.shared[index] / (self.bodies[index].len() as f64).sqrt()
    }

    /// Takes a body for the last; those that gzip does not see any more are forgotten.
    fn push(&mut self, index: usize) {
        self.last.push_back(index);
        self.last_bytes += self.bodies[index].len();
        for run in self.bodies[index].windows(RUN_BYTES) {
            self.count(run, 1);
        }
        while self.last_bytes > SEEN_BYTES
            && let Some(index) = self.last.pop_front()
        {
            self.last_bytes -= self.bodies[index].len();
            for run in self.bodies[index].windows(RUN_BYTES) {
                self.count(run, -1);
            }
        }
    }

    /// Counts a run that came or went.
    fn count(&mut self, run: &[u8], by: isize) {
        let Some((count, having)) = self.runs.get_mut(run) else { return };
        let was = *count;
        *count = count.saturating_add_signed(by);
        if (was == 0) != (*count == 0) {
            let worth = by as f64 / having.len() as f64;
            having.iter().for_each(|index| self.shared[*index] += worth);
        }
    }
}

/// Writes bytes after their length.
fn text_out(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len());
    out.extend_from_slice(text);
}

/// What gzip sees.
pub(crate) const SEEN_BYTES: usize = 32 * 1024;
/// A shared run of fewer bytes is by chance.
const RUN_BYTES: usize = 6;

#[cfg(test)]
mod ordering {
    use crate::likeness::order;

    #[test]
    fn each_comes_behind_what_it_shares_most_with() {
        let bodies: [&[u8]; 4] =
            [b"0123456789abcdef", b"ghijklmnopqr", b"0123456789", b"ghijklmnop0123456"];
        assert_eq!(order(&bodies), [3, 1, 2, 0]);
    }
}
