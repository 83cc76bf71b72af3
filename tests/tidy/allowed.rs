//! What the rules let pass, with a reason each.

/// A limit that a place may exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    /// 500 lines a file.
    File,
    /// 70 lines a function.
    Function,
    /// 100 columns.
    Columns,
}

/// An exception from a limit.
pub(crate) struct Exception {
    /// The file.
    pub(crate) path: &'static str,
    /// The limit that it exceeds.
    pub(crate) limit: Limit,
    /// Part of the first line of what exceeds it: the `fn` line or the long line itself.
    pub(crate) line: &'static str,
    /// Why.
    pub(crate) reason: &'static str,
}

/// The exceptions from the limits. Rows of Markdown tables need none, since they cannot be broken.
pub(crate) const EXCEPTIONS: &[Exception] = &[];

/// The files and folders of the library that may hold unsafe code.
pub(crate) const UNSAFE: &[&str] = &[
    "bytes.rs",
    "bytes/",
    "claimed.rs",
    "list.rs",
    "once.rs",
    "export.rs",
    "wrap.rs",
    "exit.rs",
    "global.rs",
    "drivers/",
];

/// The only files outside their folder that drivers may import from.
pub(crate) const DRIVER_IMPORTS: &[&str] = &["driver", "timeline", "bytes", "error", "sync"];

/// Files that may name a concrete driver: the host is no choice, and the drivers' faces open them.
pub(crate) const NAMES_DRIVERS: &[&str] = &["open", "memory", "file", "wgpu"];

/// Files of functions, which callers name with the file, as `entry::inside`: imported whole.
pub(crate) const FUNCTION_MODULES: &[&str] = &[
    "access",
    "borrow",
    "collector",
    "drain",
    "entry",
    "exit",
    "hand",
    "life",
    "open",
    "profile",
    "reclaim",
    "route",
    "settings",
    "staging",
    "tick",
    "wait",
];

/// File names that say nothing.
pub(crate) const EMPTY_NAMES: &[&str] =
    &["base", "utils", "util", "common", "helpers", "helper", "manager", "misc"];

/// Sections whose sentences need no test of their own: the bugs that must never come back, whose
/// rows cite sentences themselves.
pub(crate) const UNTESTED_SECTIONS: &[u64] = &[16];
