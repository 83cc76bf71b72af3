//! The rows of the import table, the one place that states them.
//!
//! A file may import only from rows above its own in this list; files on one row do not know each
//! other. Order counts, not the number: a row may stand in several lines with one number. A folder
//! is one file here (`allocation` stands for `allocation/owner.rs` too), but for the drivers, of
//! which each has its place. `lib.rs` and `drivers/mod.rs` import all.

/// A row of the import table.
pub(crate) struct Row {
    /// The row's number in the house's table.
    pub(crate) number: u64,
    /// Its files, without folder and ending.
    pub(crate) files: &'static [&'static str],
}

/// The rows, lowest first.
pub(crate) const ROWS: &[Row] = &[
    Row { number: 0, files: &["global", "ordered"] },
    Row { number: 0, files: &["sync", "bytes", "report"] },
    Row { number: 1, files: &["error", "turn", "gate", "draining", "once"] },
    Row {
        number: 2,
        files: &["timeline", "bin", "budget", "claim", "window", "list", "entry", "settings"],
    },
    Row { number: 3, files: &["stamp", "cache", "exit"] },
    Row { number: 4, files: &["driver"] },
    Row { number: 4, files: &["collector", "route", "profile"] },
    Row { number: 5, files: &["allocation", "drivers/slab", "drivers/position"] },
    Row { number: 5, files: &["drivers/pages"] },
    Row { number: 5, files: &["drivers/function"] },
    Row { number: 5, files: &["drivers/host", "drivers/memory", "drivers/file", "drivers/wgpu"] },
    Row { number: 6, files: &["drain", "claimed"] },
    Row { number: 6, files: &["life"] },
    Row { number: 6, files: &["tick"] },
    Row { number: 6, files: &["wait"] },
    Row { number: 6, files: &["open"] },
    Row { number: 6, files: &["device"] },
    Row { number: 7, files: &["reclaim"] },
    Row { number: 8, files: &["buffer", "export"] },
    Row { number: 8, files: &["borrow", "create", "files", "wrap"] },
    Row { number: 8, files: &["staging"] },
    Row { number: 9, files: &["hold", "kept", "hand"] },
    Row { number: 9, files: &["access"] },
    Row { number: 9, files: &["elements"] },
    Row { number: 10, files: &["kernel"] },
    Row { number: 10, files: &["prepare"] },
    Row { number: 10, files: &["submit"] },
    Row { number: 11, files: &["share"] },
    Row { number: 11, files: &["piece"] },
    Row { number: 11, files: &["copy", "blit"] },
    Row { number: 11, files: &["blocking"] },
    Row { number: 12, files: &["memory", "file", "measure", "embed"] },
    Row { number: 12, files: &["page"] },
    Row { number: 12, files: &["wgpu"] },
];
