//! What few allocations have: mappings, a label, a keeper, a reason of death.
//!
//! It is made when it is first needed and stays until the record goes, so that most records carry
//! a word for it and no lock. Any thread may call anything.

use crate::allocation::mapping::Mapping;
use crate::error::text;
use crate::once::OnceBox;
use crate::sync::{BoxAny, Mutex, MutexGuard};
use std::panic::Location;
use std::sync::Arc;

/// An [`Extra`], once there is one.
pub(crate) struct Rare {
    /// Guards what few allocations have.
    made: OnceBox<Mutex<Extra>>,
}

impl Rare {
    pub(crate) fn new() -> Self {
        Self { made: OnceBox::new() }
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.made.get().is_none()
    }

    /// Locks it, and makes it if there is none.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Extra> {
        self.made.get_or_init(|| Mutex::new(Extra::default())).lock()
    }

    /// Calls `f` with it under its lock, if there is one.
    #[inline]
    pub(crate) fn if_made<R>(&self, f: impl FnOnce(&mut Extra) -> R) -> Option<R> {
        self.made.get().map(|extra| f(&mut extra.lock()))
    }
}

/// What few allocations have.
#[derive(Default)]
pub(crate) struct Extra {
    /// The mappings on other devices.
    pub(crate) maps: Vec<Arc<Mapping>>,
    /// Whether the way home waits for the last mapping's release.
    pub(crate) parked: bool,
    pub(crate) tag: Tag,
    /// The `Claims` object that holds the exclusive claim, or 0.
    pub(crate) holder: u64,
    /// Why the allocation is dead.
    pub(crate) why: Option<Arc<str>>,
    /// What keeps wrapped memory alive.
    pub(crate) keeper: Option<Keeper>,
}

/// What keeps wrapped memory alive; dropped in a drain, after the memory's return.
pub(crate) type Keeper = BoxAny;

/// How people find an allocation again.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tag {
    pub(crate) label: Option<Arc<str>>,
    pub(crate) site: Option<Site>,
}

impl Tag {
    /// Whether it says nothing.
    pub(crate) fn is_none(&self) -> bool {
        self.label.is_none() && self.site.is_none()
    }
}

/// Where in the program a buffer was made.
#[derive(Clone, Debug)]
pub(crate) enum Site {
    /// In a call of this library's.
    Here(&'static Location<'static>),
    /// Where the embedder says.
    Told(Arc<str>),
}

impl Site {
    /// Returns the file, line and column.
    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Self::Here(at) => {
                let (line, column) = (u64::from(at.line()), u64::from(at.column()));
                Arc::from(text!(at.file(), ":", line, ":", column))
            }
            Self::Told(at) => Arc::clone(at),
        }
    }
}
