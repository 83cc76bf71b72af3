//! The devices whose points work follows in its queue, while it is handed over. Any thread may
//! call; no lock is held.

use crate::allocation::owner::Owner;
use crate::driver::Producer;
use crate::gate::Duty;
use crate::life;
use crate::timeline::Point;
use std::sync::Arc;

/// The drivers behind foreign points, each with a call in flight while they are named, so that no
/// stop comes beside it.
pub(crate) struct Producers {
    entered: Vec<Entered>,
}

impl Producers {
    /// Enters every gate; none if a producer is lost.
    #[inline]
    pub(crate) fn of(points: &[Point]) -> Option<Self> {
        let mut entered = Vec::new();
        // Loops here and below, since collecting nothing costs a hundred instructions.
        for point in points {
            entered.push(Entered::new(*point)?);
        }
        Some(Self { entered })
    }

    #[inline]
    pub(crate) fn named(&self) -> Vec<Producer<'_>> {
        let mut named = Vec::new();
        for entered in &self.entered {
            named.push(Producer { driver: &*entered.owner.driver, value: entered.value });
        }
        named
    }
}

/// A producer whose gate is entered.
struct Entered {
    owner: Arc<Owner>,
    value: u64,
}

impl Entered {
    fn new(point: Point) -> Option<Self> {
        let owner = life::owner_of(point.device_id())?;
        owner.gate.enter().then(|| Self { owner, value: point.value() })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.owner.gate.leave() == Duty::Stop {
            life::stop(&self.owner);
        }
    }
}
