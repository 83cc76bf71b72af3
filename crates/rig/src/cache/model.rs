//! The cache against a reference model over plain lists, in random programs.

use crate::bin::Bins;
use crate::cache::tests::{Random, reclaimed, take_near};
use crate::cache::{Cache, Class, KIND_COUNT, Live, Options};
use std::collections::BTreeMap;

/// The same promises over plain lists.
#[derive(Default)]
struct Model {
    /// Kind, class and item, in the order they were put.
    entries: Vec<(usize, Class, u64)>,
    /// Used counts, each with the greatest of all spans, the present one last.
    classes: BTreeMap<(usize, bool, u64), (u64, Vec<u64>)>,
}

impl Model {
    fn used(&mut self, kind: usize, class: Class) -> &mut (u64, Vec<u64>) {
        let exact = matches!(class, Class::Exact { .. });
        let new = || (0, vec![u64::MAX; 6]);
        self.classes.entry((kind, exact, class.bytes())).or_insert_with(new)
    }

    fn join(&mut self, kind: usize, class: Class) {
        let (used, spans) = self.used(kind, class);
        *used += 1;
        let last = spans.last_mut().expect("there is a present span");
        *last = (*last).max(*used);
    }

    fn available(&self, kind: usize, class: Class) -> u64 {
        self.entries.iter().filter(|entry| (entry.0, entry.1) == (kind, class)).count() as u64
    }

    fn take(&mut self, kind: usize, asked: Class, permille: u64) -> Option<(u64, Class)> {
        let fits = |class: Class| match (class, asked) {
            (Class::Bin { bytes, .. }, Class::Bin { bytes: asked, .. }) => {
                bytes == asked || bytes > asked && bytes * 1_000 <= asked * permille
            }
            (class, asked) => class == asked,
        };
        let entries = self.entries.iter().enumerate();
        let serving = entries.filter(|(_, entry)| entry.0 == kind && fits(entry.1));
        let (index, _) =
            serving.min_by_key(|(index, entry)| (entry.1.bytes(), usize::MAX - index))?;
        let (_, class, item) = self.entries.remove(index);
        self.join(kind, class);
        Some((item, class))
    }

    fn pop_oldest(&mut self, kinds: &[usize]) -> Option<(u64, usize, Class)> {
        let of_kinds = |entry: &(usize, Class, u64)| kinds.contains(&entry.0);
        let exact = |entry: &(usize, Class, u64)| matches!(entry.1, Class::Exact { .. });
        let first = self.entries.iter().position(|entry| of_kinds(entry) && exact(entry));
        let index = first.or_else(|| self.entries.iter().position(of_kinds))?;
        let (kind, class, item) = self.entries.remove(index);
        Some((item, kind, class))
    }

    fn scan(&mut self) {
        let entries = &self.entries;
        self.classes.retain(|(kind, exact, bytes), (used, spans)| {
            spans.push(*used);
            let is_exact = |class| matches!(class, Class::Exact { .. });
            let same = |class: Class| class.bytes() == *bytes && is_exact(class) == *exact;
            *used > 0 || entries.iter().any(|entry| entry.0 == *kind && same(entry.1))
        });
    }

    fn reclaim(&mut self) -> Vec<u64> {
        let mut items = Vec::new();
        for (kind, class, item) in self.entries.clone() {
            let (used, spans) = self.used(kind, class).clone();
            let greatest = *spans[spans.len() - 6..].iter().max().expect("there are six");
            if used + self.available(kind, class) > greatest {
                self.entries.retain(|entry| entry.2 != item);
                items.push(item);
            }
        }
        items.sort_unstable();
        items
    }
}

/// A cache and its model, which do the same.
struct Both {
    cache: Cache<u64>,
    model: Model,
    options: Options,
    used: Vec<(usize, Class)>,
    random: Random,
}

impl Both {
    fn new(seed: u64) -> Self {
        let options = Options { bin_max_bytes: 4_096, ..Options::default() };
        let random = Random(0x2545_F491_4F6C_DD1D ^ seed << 32);
        Self { cache: Cache::new(options), model: Model::default(), options, used: vec![], random }
    }

    fn step(&mut self, item: u64, len_max_bytes: u64) {
        let kind = self.random.below(KIND_COUNT as u64) as usize;
        let class = self.cache.class(1 + self.random.below(len_max_bytes));
        match self.random.below(40) {
            0..16 => self.create(kind, class),
            16..33 => self.drop(item),
            33 => assert_eq!(self.cache.pop_oldest(), self.model.pop_oldest(&[0, 1])),
            34 => {
                let popped = self.cache.pop_oldest_of(kind);
                let popped = popped.map(|(item, class)| (item, kind, class));
                assert_eq!(popped, self.model.pop_oldest(&[kind]));
            }
            35 => {
                self.cache.scan(Live::default());
                self.model.scan();
            }
            36 => {
                let mut items = reclaimed(&mut self.cache);
                items.sort_unstable();
                assert_eq!(items, self.model.reclaim());
            }
            37 => {
                let exact = Class::Exact { bytes: class.bytes() };
                let taken = self.cache.take(kind, exact).map(|item| (item, exact));
                assert_eq!(taken, self.model.take(kind, exact, 1_000));
                self.used.extend(taken.map(|(_, class)| (kind, class)));
            }
            38 if self.random.below(20) == 0 => {
                let pow2 = self.random.below(2) == 0;
                self.options.bins = if pow2 { Bins::Pow2 } else { Bins::Eighths };
                self.options.near_fit_permille = 1_000 + 125 * self.random.below(10);
                self.cache.set_options(self.options);
            }
            _ => {}
        }
    }

    fn create(&mut self, kind: usize, class: Class) {
        let could_take =
            self.cache.could_take(kind, class) || self.cache.near(kind, class).is_some();
        let taken = self.cache.take(kind, class).map(|item| (item, class));
        let taken = taken.or_else(|| take_near(&mut self.cache, kind, class));
        assert_eq!(could_take, taken.is_some());
        assert_eq!(taken, self.model.take(kind, class, self.options.near_fit_permille));
        if taken.is_none() {
            self.cache.used_up(kind, class);
            self.model.join(kind, class);
        }
        self.used.push((kind, taken.map_or(class, |(_, class)| class)));
    }

    fn drop(&mut self, item: u64) {
        if self.used.is_empty() {
            return;
        }
        let index = self.random.below(self.used.len() as u64) as usize;
        let (kind, class) = self.used.swap_remove(index);
        self.model.used(kind, class).0 -= 1;
        if self.random.below(16) == 0 {
            self.cache.freed_from(kind, class);
        } else {
            self.cache.put(kind, class, item);
            self.model.entries.push((kind, class, item));
        }
    }

    fn check(&self) {
        let entries = &self.model.entries;
        assert_eq!(self.cache.count(), entries.len() as u64);
        for kind in 0..KIND_COUNT {
            let of_kind = entries.iter().filter(|entry| entry.0 == kind);
            let bytes: Vec<_> = of_kind.map(|entry| entry.1.bytes()).collect();
            assert_eq!(self.cache.bytes(kind), bytes.iter().sum::<u64>());
            assert_eq!(self.cache.largest_bytes(kind), bytes.into_iter().max().unwrap_or(0));
        }
    }
}

#[test]
fn s9_9_random_programs_agree_with_the_model() {
    let (seeds, steps) = if cfg!(miri) { (3, 300) } else { (20, 3_000) };
    for seed in 1..seeds {
        let mut both = Both::new(seed);
        for item in 0..steps {
            both.step(item, if seed % 2 == 0 { 6_000 } else { 1_500 });
            both.check();
        }
    }
}
