//! Names that say nothing, and habits that have no place.

use crate::allowed::EMPTY_NAMES;
use crate::source::{Broken, Source, words};

/// Marks of work that is left for later.
pub(crate) fn left_to_do(source: &Source) -> Vec<Broken> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!")];
    let unwritten = concat!("unimple", "mented!");
    let mut broken = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let found = |mark: &&str| line.contains(mark) && !line.contains(&format!("/{mark}"));
        if let Some(mark) = marks.iter().chain([&unwritten]).find(|mark| found(mark)) {
            broken.push(source.broken(index, format!("`{mark}` leaves something for later")));
        }
    }
    broken
}

/// Tests that sleep, are ignored, or pass by panicking.
pub(crate) fn test_habits(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        if !source.is_test() && !source.in_tests[index] {
            continue;
        }
        for habit in ["#[ignore", "#[should_panic", "thread::sleep"] {
            if line.contains(habit) {
                broken.push(source.broken(index, format!("a test has no `{habit}`")));
            }
        }
    }
    broken
}

/// Files and folders with a name that says nothing.
pub(crate) fn file_names(source: &Source) -> Vec<Broken> {
    let mut parts = source.path.trim_end_matches(".rs").split('/');
    let empty = parts.find(|part| EMPTY_NAMES.contains(part));
    let why = |name| format!("`{name}` says nothing about what is inside");
    empty.map(|name| source.broken(0, why(name))).into_iter().collect()
}

/// Functions called `get_`.
pub(crate) fn called_get(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        let words = words(line);
        let is_get = |pair: &[(usize, &str)]| {
            // `get_or_init` is the standard library's name, which a stand-in keeps.
            pair[0].1 == "fn" && pair[1].1.starts_with("get_") && pair[1].1 != "get_or_init"
        };
        if words.windows(2).any(is_get) {
            broken.push(source.broken(index, "a function is named by what it returns"));
        }
    }
    broken
}

#[cfg(test)]
mod firing {
    use crate::names::{called_get, file_names, left_to_do, test_habits};
    use crate::source::Source;

    #[test]
    fn work_left_for_later_is_found() {
        for bad in [
            concat!("// TO", "DO: later"),
            concat!("// FIX", "ME"),
            concat!("to", "do!()"),
            concat!("unimple", "mented!()"),
        ] {
            assert_eq!(left_to_do(&Source::new("a.rs", bad)).len(), 1, "{bad}");
        }
        assert_eq!(left_to_do(&Source::new("a.rs", "// What is to do is done.")).len(), 0);
    }

    #[test]
    fn bad_habits_are_found_in_tests_and_only_there() {
        for bad in ["#[ignore = \"slow\"]", "#[should_panic]", "std::thread::sleep(x);"] {
            assert_eq!(test_habits(&Source::new("tests/a.rs", bad)).len(), 1, "{bad}");
            let module = format!("#[cfg(test)]\nmod tests {{\n    {bad}\n}}");
            assert_eq!(test_habits(&Source::new("crates/rig/src/a.rs", &module)).len(), 1);
            assert_eq!(test_habits(&Source::new("crates/rig/src/a.rs", bad)).len(), 0);
        }
        assert_eq!(test_habits(&Source::new("tests/a.rs", "// thread::sleep")).len(), 0);
    }

    #[test]
    fn file_names_that_say_nothing_are_found() {
        assert_eq!(file_names(&Source::new("crates/rig/src/utils.rs", "")).len(), 1);
        assert_eq!(file_names(&Source::new("crates/rig/src/common/bin.rs", "")).len(), 1);
        assert_eq!(file_names(&Source::new("crates/rig/src/bin.rs", "")).len(), 0);
    }

    #[test]
    fn functions_called_get_are_found() {
        assert_eq!(called_get(&Source::new("a.rs", "pub fn get_value() {}")).len(), 1);
        assert_eq!(called_get(&Source::new("a.rs", "x.get_mut(); fn get() {}")).len(), 0);
    }
}
