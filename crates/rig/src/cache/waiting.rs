//! The entries of one class, in the order they were put: the newest is taken, the oldest popped.
//!
//! A vector whose first places may be gone already: popping leaves them behind, and moves the
//! rest up once half of the places are gone, so that both ends cost a fixed number of steps on
//! average and the end that serves is a plain stack. The invariants: places before `gone_count`
//! hold no item and the others do; numbers grow towards the back. Plain data behind the lock of
//! the cache's owner.

/// Entries in the order they were put.
pub(crate) struct Waiting<T> {
    places: Vec<Place<T>>,
    gone_count: usize,
}

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), gone_count: 0 }
    }

    /// Returns how many entries there are.
    #[inline]
    pub(crate) const fn count(&self) -> u64 {
        (self.places.len() - self.gone_count) as u64
    }

    /// Puts an entry in as the newest; its number is greater than those before.
    #[inline]
    pub(crate) fn put(&mut self, entry: Entry<T>) {
        let place = Place { item: Some(entry.item), number: entry.number };
        if self.places.len() < self.places.capacity() {
            self.places.push(place);
        } else {
            self.grow(place);
        }
    }

    /// Takes the newest entry.
    #[inline]
    pub(crate) fn take_newest(&mut self) -> Option<Entry<T>> {
        if self.places.len() == self.gone_count {
            return None;
        }
        let Place { item, number } = self.places.pop()?;
        Some(Entry { item: item?, number })
    }

    /// Returns the number of the oldest entry.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.places.get(self.gone_count).map(|place| place.number)
    }

    /// Takes the oldest entry.
    pub(crate) fn pop_oldest(&mut self) -> Option<Entry<T>> {
        let place = self.places.get_mut(self.gone_count)?;
        let entry = Entry { item: place.item.take()?, number: place.number };
        self.gone_count += 1;
        if self.gone_count * 2 >= self.places.len() {
            self.places.drain(..self.gone_count);
            self.gone_count = 0;
            // A spike gives its places back too, and a steady class keeps enough of them.
            if self.places.len() < self.places.capacity() / 8 {
                self.places.shrink_to(self.places.len() * 2);
            }
        }
        Some(entry)
    }

    /// Puts a place in where there is none left; apart, so that putting saves no registers.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, place: Place<T>) {
        self.places.push(place);
    }
}

/// What waits for reuse. Entries put later have greater numbers.
pub(crate) struct Entry<T> {
    pub(crate) item: T,
    pub(crate) number: u64,
}

struct Place<T> {
    item: Option<T>,
    number: u64,
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::cache::waiting::{Entry, Waiting};
    use std::collections::VecDeque;
    use std::rc::Rc;

    fn put(waiting: &mut Waiting<u64>, number: u64) {
        waiting.put(Entry { item: number * 2, number });
    }

    fn number<T>(entry: Option<Entry<T>>) -> Option<u64> {
        entry.map(|entry| entry.number)
    }

    #[test]
    fn s9_9_the_newest_is_taken_and_the_oldest_popped() {
        let mut waiting = Waiting::new();
        for next in 1..=4 {
            put(&mut waiting, next);
        }
        assert_eq!(waiting.oldest(), Some(1));
        assert_eq!(number(waiting.pop_oldest()), Some(1));
        assert_eq!(number(waiting.take_newest()), Some(4));
        put(&mut waiting, 5);
        assert_eq!(waiting.count(), 3);
        assert_eq!(waiting.take_newest().map(|entry| entry.item), Some(10));
        assert_eq!(number(waiting.pop_oldest()), Some(2));
        assert_eq!(number(waiting.pop_oldest()), Some(3));
        assert!(waiting.pop_oldest().is_none() && waiting.take_newest().is_none());
        assert_eq!((waiting.count(), waiting.oldest()), (0, None));
    }

    #[test]
    fn s9_10_both_ends_agree_with_a_plain_queue() {
        let mut state = 0xDA94_2042_E4DD_58B5_u64;
        let (mut waiting, mut model) = (Waiting::new(), VecDeque::new());
        for next in 0..if cfg!(miri) { 600 } else { 20_000 } {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Long phases of growing and of shrinking, from either end.
            match state % 4 + next / 1_000 % 3 {
                0 | 1 => assert_eq!(number(waiting.take_newest()), model.pop_back()),
                2 => assert_eq!(number(waiting.pop_oldest()), model.pop_front()),
                _ => {
                    put(&mut waiting, next);
                    model.push_back(next);
                }
            }
            assert_eq!(waiting.oldest(), model.front().copied());
            assert_eq!(waiting.count(), model.len() as u64);
        }
    }

    #[test]
    fn s9_10_what_a_spike_needed_is_given_back_as_it_is_popped() {
        let mut waiting = Waiting::new();
        (0..10_000).for_each(|next| put(&mut waiting, next));
        (0..9_990).for_each(|_| assert!(waiting.pop_oldest().is_some()));
        assert!(waiting.places.capacity() < 100, "{}", waiting.places.capacity());
        assert_eq!(number(waiting.take_newest()), Some(9_999));
    }

    #[test]
    fn s9_6_each_item_leaves_once() {
        let item = Rc::new(());
        let mut waiting = Waiting::new();
        (0..9).for_each(|number| waiting.put(Entry { item: Rc::clone(&item), number }));
        drop([waiting.pop_oldest(), waiting.take_newest(), waiting.pop_oldest()]);
        assert_eq!(Rc::strong_count(&item), 7);
        drop(waiting);
        assert_eq!(Rc::strong_count(&item), 1);
    }
}
