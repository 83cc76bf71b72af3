//! The settings of the environment (S11.6), or of an embedder without one. Each is read once; any
//! thread may ask.

use std::sync::OnceLock;

/// Whether the tick scans and trims (`RIG_MANAGED_POOL`, default true).
pub(crate) fn managed() -> bool {
    *MANAGED.get_or_init(|| flag("RIG_MANAGED_POOL", true))
}

/// Whether call sites of live allocations are kept (`RIG_TRACE_POOL`, default false).
pub(crate) fn trace() -> bool {
    *TRACE.get_or_init(|| flag("RIG_TRACE_POOL", false))
}

/// Whether statistics are printed at exit (`RIG_POOL_STATS`, default false).
pub(crate) fn stats() -> bool {
    static STATS: OnceLock<bool> = OnceLock::new();
    *STATS.get_or_init(|| flag("RIG_POOL_STATS", false))
}

/// Sets both where there is no environment; the first call counts, and comes before any other.
pub(crate) fn set(managed: bool, trace: bool) {
    let _ = (MANAGED.set(managed), TRACE.set(trace));
}

fn flag(name: &str, default: bool) -> bool {
    std::env::var(name).ok().map_or(default, |text| parse(&text, default))
}

/// Returns what a value says; anything but true, 1, false and 0 is the default.
fn parse(text: &str, default: bool) -> bool {
    match text {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => default,
    }
}

static MANAGED: OnceLock<bool> = OnceLock::new();
static TRACE: OnceLock<bool> = OnceLock::new();

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::settings::parse;

    #[test]
    fn s11_6_other_values_are_the_default() {
        assert!(parse("true", false) && parse("1", false));
        assert!(!parse("false", true) && !parse("0", true));
        assert!(parse("yes", true) && !parse("TRUE", false));
    }
}
