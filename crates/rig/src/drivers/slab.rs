//! A table of things by number, for drivers.
//!
//! A number is an index with the generation of its slot above it, so a number whose thing is gone
//! finds nothing, not even after its slot serves another. Number 0 is never given out. Every call
//! takes constant time, and only a new slot allocates. Plain data: whoever shares one locks it.

/// A table of things by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The head of the chain of empty slots.
    empty: Option<u32>,
    count: u64,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), empty: None, count: 0 }
    }

    /// Puts a thing in, and returns its number.
    pub(crate) fn insert(&mut self, thing: T) -> u64 {
        let index = self.empty.unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).expect("a table holds below 2^32 things");
            self.slots.push(Slot { generation: 1, next: None, thing: None });
            index
        });
        let slot = &mut self.slots[index as usize];
        slot.thing = Some(thing);
        self.empty = slot.next.take();
        self.count += 1;
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// Returns the thing with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let slot = self.slots.get(number as u32 as usize)?;
        slot.thing.as_ref().filter(|_| slot.generation == (number >> 32) as u32)
    }

    /// Takes the thing with this number out.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let index = number as u32;
        let slot = &mut self.slots[index as usize];
        slot.next = self.empty.replace(index);
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        self.count -= 1;
        slot.thing.take()
    }

    /// Returns how many things there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// The next of the chain of empty slots.
    next: Option<u32>,
    /// None in an empty slot.
    thing: Option<T>,
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::drivers::slab::Slab;

    #[test]
    fn s16_a_number_whose_thing_is_gone_finds_nothing_though_its_slot_serves_another() {
        let mut slab = Slab::new();
        let a = slab.insert("a");
        let b = slab.insert("b");
        assert_eq!([slab.get(a), slab.get(b), slab.get(0)], [Some(&"a"), Some(&"b"), None]);
        assert_eq!(slab.remove(a), Some("a"));
        let c = slab.insert("c");
        assert_eq!(c as u32, a as u32, "the slot is used again");
        assert_eq!([slab.get(a), slab.get(c)], [None, Some(&"c")]);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.count(), 2);
    }

    #[test]
    fn s16_slots_are_used_again_newest_first() {
        let mut slab = Slab::new();
        let numbers: Vec<u64> = (0..3).map(|at| slab.insert(at)).collect();
        numbers.iter().for_each(|&number| assert!(slab.remove(number).is_some()));
        let again: Vec<u32> = (0..3).map(|at| slab.insert(at) as u32).collect();
        assert_eq!(again, [2, 1, 0]);
        assert_eq!(slab.insert(3) as u32, 3);
    }
}
