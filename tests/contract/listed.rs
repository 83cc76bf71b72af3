//! The laws that hold on every device with a timeline, as a list, for who runs them by number.

use crate::bench::Open;

/// A law by its name.
type Law = (&'static str, fn(Open<'_>));

macro_rules! laws {
    ([$($law:ident),*]) => {
        /// All of them.
        pub(crate) const LAWS: &[Law] = &[$((stringify!($law), crate::laws::$law)),*];
    };
}

crate::laws::of_every_device!(laws!());
