//! Which file may name which.
//!
//! The row table says so for the library's files. A path counts wherever it stands, in an import
//! or in the middle of an expression; in tests too.

use crate::allowed::{DRIVER_IMPORTS, FUNCTION_MODULES, NAMES_DRIVERS};
use crate::rows::ROWS;
use crate::source::{Broken, Source};

/// Paths that lead to a file's own row or a higher one.
pub(crate) fn upward(source: &Source) -> Vec<Broken> {
    let Some(noun) = source.noun() else { return Vec::new() };
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        for path in crate_paths(line) {
            let Some(named) = named_file(source, &path) else { continue };
            let is_lower = row(&named).zip(row(noun)).is_some_and(|(to, from)| to < from);
            let is_for_drivers =
                named.starts_with("drivers/") || DRIVER_IMPORTS.contains(&named.as_str());
            if !is_lower || noun.starts_with("drivers/") && !is_for_drivers {
                broken.push(source.broken(index, format!("`{noun}` may not import `{named}`")));
            }
        }
    }
    broken
}

/// Files that the row table does not name.
pub(crate) fn unplaced(source: &Source) -> Vec<Broken> {
    let unplaced = source.noun().filter(|noun| row(noun).is_none());
    let why = |noun| format!("`{noun}` stands in no row of tests/tidy/rows.rs");
    unplaced.map(|noun| source.broken(0, why(noun))).into_iter().collect()
}

/// Imports of a wrong form.
pub(crate) fn import_form(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut seen = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        if line.contains("super::") {
            broken.push(source.broken(index, "a path starts at `crate`, not at the module above"));
        }
        let Some(import) = import_at(&source.code, index) else { continue };
        if import.contains('*') {
            broken.push(source.broken(index, "an import names what it imports"));
        }
        let Some((visibility, path)) = import.split_once("use crate::") else { continue };
        let is_whole_module = !path.contains("::") && !FUNCTION_MODULES.contains(&path);
        if path.starts_with('{') || is_whole_module && source.in_library().is_some() {
            broken.push(source.broken(index, "an import is written `crate::module::Item`"));
        }
        let is_file = !path.contains("::") || path.ends_with('}');
        let end = if is_file { path.find("::{") } else { path.rfind("::") };
        let module = format!("{visibility}{}", &path[..end.unwrap_or(path.len())]);
        // What is named again may stand under another `cfg`.
        if !line.starts_with(' ') && visibility.is_empty() {
            if seen.contains(&module) {
                broken.push(source.broken(index, format!("`{module}` is imported on two lines")));
            }
            seen.push(module);
        }
    }
    broken
}

/// Names of drivers in the core.
pub(crate) fn concrete_drivers(source: &Source) -> Vec<Broken> {
    let may = |noun: &str| noun.starts_with("drivers/") || NAMES_DRIVERS.contains(&noun);
    if source.noun().is_none_or(may) {
        return Vec::new();
    }
    let names = |line: &String| crate_paths(line).iter().any(|path| path.starts_with("drivers"));
    let named = source.code.iter().enumerate().filter(|(_, line)| names(line));
    named.map(|(index, _)| source.broken(index, "the core names no concrete driver")).collect()
}

/// Features elsewhere than on the `mod` or `use` line of a whole module.
pub(crate) fn features(source: &Source) -> Vec<Broken> {
    let Some(path) = source.in_library() else { return Vec::new() };
    let holds_modules = path == "lib.rs" || path == "drivers/mod.rs";
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        let is_cfg = line.contains("cfg(") || line.contains("cfg!(") || line.contains("cfg_attr(");
        if !is_cfg || !line.replace("target_feature", "").contains("feature =") {
            continue;
        }
        let mut rest = source.code[index + 1..].iter().map(|line| line.trim());
        let item = rest.find(|line| !line.is_empty() && !line.starts_with("#["));
        let item = item.unwrap_or_default().trim_start_matches("pub ");
        if !holds_modules || !(item.starts_with("mod ") || item.starts_with("use ")) {
            broken.push(source.broken(index, "a feature adds a whole module and nothing else"));
        }
    }
    broken
}

/// Returns where a file stands in the list of rows.
fn row(file: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.files.contains(&file))
}

/// Returns the file that a path from the crate leads to, unless it is the file's own noun, a
/// macro, or an item of `lib.rs`.
fn named_file(source: &Source, path: &str) -> Option<String> {
    let mut parts = path.split("::");
    let first = parts.next()?;
    let named = match (first, parts.next()) {
        ("drivers", Some(driver)) => format!("drivers/{driver}"),
        _ => first.to_string(),
    };
    let is_file = first.starts_with(|c: char| c.is_ascii_lowercase());
    (is_file && source.noun() != Some(&named) && !path.ends_with('!')).then_some(named)
}

/// Returns the paths in a line that start at `crate`, without `crate::`.
fn crate_paths(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, start) in line.match_indices("crate::") {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &line[at + start.len()..];
        let inside = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let is_macro = rest[end..].starts_with('!') && !rest[end..].starts_with("!=");
        paths.push(format!("{}{}", &rest[..end], if is_macro { "!" } else { "" }));
    }
    paths
}

/// Returns the whole import that starts on a line, on one line and without its `;`.
fn import_at(code: &[String], index: usize) -> Option<String> {
    let line = code[index].trim();
    let is_import = line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
    if !is_import {
        return None;
    }
    let mut import = String::new();
    for line in &code[index..] {
        let (part, ended) = line.split_once(';').map_or((line.as_str(), false), |(p, _)| (p, true));
        import += part.trim();
        if ended {
            break;
        }
    }
    Some(import)
}

#[cfg(test)]
mod firing {
    use crate::arrows::{concrete_drivers, features, import_form, unplaced, upward};
    use crate::rows::ROWS;
    use crate::source::{Broken, Source};

    fn count(rule: fn(&Source) -> Vec<Broken>, path: &str, text: &str) -> usize {
        rule(&Source::new(&format!("crates/rig/src/{path}"), text)).len()
    }

    #[test]
    fn an_arrow_to_the_own_row_or_a_higher_one_is_found() {
        assert_eq!(count(upward, "stamp.rs", "use crate::timeline::Point;"), 0);
        assert_eq!(count(upward, "stamp.rs", "use crate::cache::Cache;"), 1);
        assert_eq!(count(upward, "stamp.rs", "use crate::device::Device;"), 1);
        assert_eq!(count(upward, "stamp.rs", "fn f() { crate::copy::go(crate::sync::A) }"), 1);
        assert_eq!(count(upward, "error.rs", "use crate::report::Report;"), 0);
        assert_eq!(count(upward, "report.rs", "use crate::error::Error;"), 1);
        assert_eq!(count(upward, "bin.rs", "use crate::unknown::X;"), 1);
    }

    #[test]
    fn what_is_no_arrow_is_let_pass() {
        assert_eq!(count(upward, "lib.rs", "pub use crate::copy::copy;"), 0);
        assert_eq!(count(upward, "bin.rs", "// crate::copy\nlet x = \"crate::copy::y\";"), 0);
        assert_eq!(count(upward, "allocation/owner.rs", "use crate::allocation::heap::Heap;"), 0);
        assert_eq!(count(upward, "bin.rs", "crate::misuse!(a); $crate::copy::x;"), 0);
        assert_eq!(count(upward, "bin.rs", "use crate::Buffer;"), 0);
    }

    #[test]
    fn a_driver_imports_the_trait_and_four_files_and_no_other_driver() {
        let own = "use crate::driver::Driver;\nuse crate::drivers::host::Region;";
        assert_eq!(count(upward, "drivers/host.rs", own), 0);
        assert_eq!(count(upward, "drivers/host.rs", "use crate::drivers::slab::Slab;"), 0);
        assert_eq!(count(upward, "drivers/slab.rs", "use crate::drivers::host::Host;"), 1);
        assert_eq!(count(upward, "drivers/host.rs", "use crate::stamp::Stamps;"), 1);
        assert_eq!(count(upward, "drivers/host.rs", "use crate::drivers::memory::X;"), 1);
        assert_eq!(count(upward, "drivers/mod.rs", "pub use crate::drivers::memory::X;"), 0);
    }

    #[test]
    fn the_rows_rise_and_name_each_file_once() {
        assert!(ROWS.is_sorted_by_key(|row| row.number));
        let files: Vec<_> = ROWS.iter().flat_map(|row| row.files).collect();
        for file in &files {
            assert_eq!(files.iter().filter(|other| *other == file).count(), 1, "{file}");
        }
    }

    #[test]
    fn a_file_without_a_row_is_found() {
        assert_eq!(count(unplaced, "stamp.rs", ""), 0);
        assert_eq!(count(unplaced, "surprise.rs", ""), 1);
    }

    #[test]
    fn imports_of_a_wrong_form_are_found() {
        let good = "use crate::sync::{A, B};\npub(crate) use std::sync::atomic::{C,\n  D};";
        assert_eq!(count(import_form, "bin.rs", good), 0);
        let both = "pub use crate::sync::A;\npub(crate) use crate::sync::B;\nuse crate::entry;";
        assert_eq!(count(import_form, "bin.rs", both), 0);
        for bad in [
            concat!("use su", "per::X;"),
            "use crate::sync::*;",
            "use std::sync::{\n  Arc,\n  *,\n};",
            "pub(crate) use crate::{sync::A, bytes::B};",
            "use crate::sync;",
            "use crate::sync::A;\nuse crate::sync::{B, C};",
            "use crate::entry;\nuse crate::entry::Place;",
        ] {
            assert_eq!(count(import_form, "bin.rs", bad), 1, "{bad}");
        }
    }

    #[test]
    fn a_driver_named_in_the_core_is_found() {
        let text = "let d = crate::drivers::host::Host;";
        assert_eq!(count(concrete_drivers, "device.rs", text), 1);
        assert_eq!(count(concrete_drivers, "lib.rs", text), 0);
        assert_eq!(count(concrete_drivers, "device.rs", "crate::driver::Driver"), 0);
    }

    #[test]
    fn a_feature_on_less_than_a_module_is_found() {
        let module = "#[cfg(feature = \"cuda\")]\n#[allow(unsafe_code)]\npub mod cuda;";
        assert_eq!(count(features, "drivers/mod.rs", module), 0);
        assert_eq!(count(features, "device.rs", module), 1);
        assert_eq!(count(features, "lib.rs", "#[cfg(feature = \"cuda\")]\nfn f() {}"), 1);
        assert_eq!(count(features, "device.rs", "#[cfg(test)]\nmod tests {}"), 0);
    }
}
