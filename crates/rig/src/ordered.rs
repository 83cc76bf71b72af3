//! Things by number, in the order of their numbers: what comes last mostly has the greatest one.
//!
//! Finding takes a few looks, and putting in at the end, as points and ages do, moves nothing.
//! Elsewhere all that is behind moves: 64 KiB at most of ages (S9.10), and points in a row go at
//! once. Plain data behind its owner's lock.

/// Things by number. The entries are in the order of their numbers, each of which is there once.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T>(Vec<(u64, T)>);

impl<T> Ordered<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the thing with this number.
    pub(crate) fn find(&self, number: u64) -> Option<&T> {
        self.place(number).ok().map(|at| &self.0[at].1)
    }

    /// Returns the thing with this number, to change it.
    pub(crate) fn find_mut(&mut self, number: u64) -> Option<&mut T> {
        self.place(number).ok().map(|at| &mut self.0[at].1)
    }

    /// Returns the thing with this number, which is made if there is none.
    pub(crate) fn or_insert_with(&mut self, number: u64, make: impl FnOnce() -> T) -> &mut T {
        let at = self.place(number).unwrap_or_else(|at| {
            self.0.insert(at, (number, make()));
            at
        });
        &mut self.0[at].1
    }

    /// Takes the thing with this number out.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.place(number).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Returns the thing with the least number of this and those above.
    pub(crate) fn first_from(&self, number: u64) -> Option<&(u64, T)> {
        self.0.get(self.place(number).unwrap_or_else(|at| at))
    }

    /// Returns all with their numbers, the least first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &(u64, T)> {
        self.0.iter()
    }

    /// Returns all with their numbers, the least first, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.0.iter_mut().map(|(number, thing)| (*number, thing))
    }

    /// Takes those out that `keeps` says no of.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.0.retain(|(_, thing)| keeps(thing));
    }

    /// Takes out those in a row, from the least number of this and those above, that `passes` says
    /// yes of.
    pub(crate) fn take_row(
        &mut self,
        number: u64,
        passes: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = T> {
        let start = self.place(number).unwrap_or_else(|at| at);
        let count = self.0[start..].iter().take_while(|(number, _)| passes(*number)).count();
        self.0.drain(start..start + count).map(|(_, thing)| thing)
    }

    /// Takes all out, the least number first.
    pub(crate) fn into_things(self) -> impl Iterator<Item = T> {
        self.0.into_iter().map(|(_, thing)| thing)
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        // The last is what mostly is looked for.
        match self.0.last() {
            Some((last, _)) if *last >= number => {
                self.0.binary_search_by(|entry| entry.0.cmp(&number))
            }
            _ => Err(self.0.len()),
        }
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::ordered::Ordered;
    use std::collections::BTreeMap;

    #[test]
    fn it_does_what_a_map_of_numbers_does() {
        let (mut ordered, mut map) = (Ordered::new(), BTreeMap::new());
        let mut random = 7_u64;
        for step in 0..4_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = random >> 58;
            match step % 3 {
                0 => assert_eq!(ordered.remove(number), map.remove(&number)),
                _ => {
                    *ordered.or_insert_with(number, || 0) += step;
                    *map.entry(number).or_insert(0) += step;
                }
            }
            assert_eq!(ordered.find(number), map.get(&number));
            assert_eq!(ordered.find_mut(number), map.get_mut(&number));
            let first = map.range(number..).next();
            assert_eq!(ordered.first_from(number).map(|(at, of)| (at, of)), first);
            assert!(ordered.iter().map(|(at, of)| (at, of)).eq(map.iter()));
            assert_eq!(ordered.is_empty(), map.is_empty());
        }
        ordered.iter_mut().for_each(|(number, of)| *of = number);
        ordered.retain(|of| of % 2 == 0);
        map.retain(|number, _| number % 2 == 0);
        assert!(ordered.into_things().eq(map.into_keys()));
    }
}
