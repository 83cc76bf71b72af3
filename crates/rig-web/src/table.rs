//! Handles by number, each with the generation of its slot.
//!
//! A number is a slot with its generation above it, so that a number whose thing is gone finds
//! nothing, not even after its slot serves another. Number 0 is never given out. Every number is
//! exact as a JavaScript number.

/// Things by number.
pub(crate) struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    empty: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), empty: Vec::new() }
    }

    /// Puts a thing in, and returns its number.
    pub(crate) fn insert(&mut self, thing: T) -> f64 {
        let index = self.empty.pop().unwrap_or_else(|| {
            self.slots.push((1, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(thing);
        f64::from(slot.0) * SLOTS + f64::from(index)
    }

    /// Returns the thing with this number.
    pub(crate) fn find(&self, number: f64) -> Option<&T> {
        let (generation, index) = parts(number);
        let slot = self.slots.get(index).filter(|slot| slot.0 == generation)?;
        slot.1.as_ref()
    }

    /// Returns the thing with this number, to change it.
    pub(crate) fn find_mut(&mut self, number: f64) -> Option<&mut T> {
        let (generation, index) = parts(number);
        let slot = self.slots.get_mut(index).filter(|slot| slot.0 == generation)?;
        slot.1.as_mut()
    }

    /// Returns the number of the first thing that is as asked.
    pub(crate) fn number(&self, is: impl Fn(&T) -> bool) -> Option<f64> {
        let at = self.slots.iter().position(|slot| slot.1.as_ref().is_some_and(&is))?;
        Some(f64::from(self.slots[at].0) * SLOTS + at as f64)
    }

    /// Takes the thing with this number out.
    pub(crate) fn remove(&mut self, number: f64) -> Option<T> {
        self.find(number)?;
        let (_, index) = parts(number);
        let slot = &mut self.slots[index];
        slot.0 = if slot.0 == GENERATION_MAX { 1 } else { slot.0 + 1 };
        self.empty.push(index as u32);
        slot.1.take()
    }
}

fn parts(number: f64) -> (u32, usize) {
    // The remainder of a float would be a call, of some hundred instructions.
    let number = number as u64;
    ((number >> 32) as u32, number as u32 as usize)
}

const SLOTS: f64 = 4_294_967_296.0;
/// The last generation whose numbers are below 2^53.
const GENERATION_MAX: u32 = (1 << 21) - 1;
