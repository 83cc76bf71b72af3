//! What has to stand above something: proofs, what a lock guards, what a file is.

use crate::allowed::UNSAFE;
use crate::source::{Broken, Source, has_word, words};

/// Unsafe code in files of the library that need none.
pub(crate) fn unsafe_places(source: &Source) -> Vec<Broken> {
    let Some(path) = source.in_library() else { return Vec::new() };
    let mut broken = Vec::new();
    let is_allowed = UNSAFE.iter().any(|allowed| path.starts_with(allowed));
    let holds_modules = path == "lib.rs" || path == "drivers/mod.rs";
    for (index, line) in source.code.iter().enumerate() {
        if has_word(line, "unsafe") && !is_allowed {
            broken.push(source.broken(index, "unsafe code has no place in this file"));
        }
        if line.contains("allow(unsafe_code)") && !holds_modules {
            broken.push(source.broken(index, "unsafe code is allowed on a `mod` line only"));
        }
    }
    broken
}

/// Unsafe blocks and implementations without `SAFETY:` in the comment above their statement.
pub(crate) fn unsafe_proofs(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        for (at, word) in words(line) {
            let rest = line[at + word.len()..].trim_start();
            let next = source.code.get(index + 1).map_or("", |next| next.trim_start());
            let rest = if rest.is_empty() { next } else { rest };
            let needs_proof =
                word == "unsafe" && (rest.starts_with('{') || rest.starts_with("impl"));
            if needs_proof && !has_proof_above(source, index) {
                broken.push(source.broken(index, "`// SAFETY:` is missing above this"));
            }
        }
    }
    broken
}

/// Atomic accesses stronger than relaxed without `ORDERING:` on one of the 6 lines above.
pub(crate) fn ordering_proofs(source: &Source) -> Vec<Broken> {
    if source.is_test() {
        return Vec::new();
    }
    let strong = ["Acquire", "Release", "AcqRel", "SeqCst"].map(|name| format!("Ordering::{name}"));
    let mut broken = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        let is_access = strong.iter().any(|name| line.contains(name));
        if !is_access || source.in_tests[index] {
            continue;
        }
        let above = &source.lines[index.saturating_sub(ORDERING_LINES_MAX)..index];
        if !above.iter().any(|line| line.contains("// ORDERING:")) {
            broken.push(source.broken(index, "`// ORDERING:` is missing in the 6 lines above"));
        }
    }
    broken
}

/// Fields and statics that hold a lock and do not say what it guards.
pub(crate) fn lock_docs(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut depth = None;
    for (index, line) in source.code.iter().enumerate() {
        let starts = words(line).iter().any(|word| word.1 == "struct") && line.ends_with('{');
        let indent = line.len() - line.trim_start().len();
        match depth {
            None if starts => depth = Some(indent),
            Some(outer) if indent == outer && line.trim_start().starts_with('}') => depth = None,
            _ => {}
        }
        let is_field = depth.is_some_and(|outer| indent == outer + 4) && line.contains(':');
        let is_static = has_word(line, "static") && line.contains(':') && !line.contains("'static");
        let has_lock = ["Mutex<", "RwLock<"].iter().any(|lock| line.contains(lock));
        if has_lock && (is_field || is_static) && !source.in_tests[index] {
            let comment = comment_above(source, index);
            if !comment.contains("Guards") && !comment.contains("guards") {
                broken.push(source.broken(index, "this lock does not say what it guards"));
            }
        }
    }
    broken
}

/// Files that do not open with their documentation.
pub(crate) fn module_docs(source: &Source) -> Vec<Broken> {
    let first = source.lines.iter().find(|line| !line.trim().is_empty());
    let is_doc = first.is_some_and(|line| line.starts_with("//!"));
    let why = "the file does not open with `//!` and what it is";
    if is_doc { Vec::new() } else { vec![source.broken(0, why)] }
}

/// Walks up over the lines of the statement to its comment.
fn has_proof_above(source: &Source, index: usize) -> bool {
    for above in (0..index).rev() {
        let line = source.lines[above].trim();
        if line.starts_with("//") {
            if line.contains("SAFETY:") {
                return true;
            }
        } else if line.is_empty() || !line.starts_with("#[") && line.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

/// Returns the comment right above a line, over attributes.
fn comment_above(source: &Source, index: usize) -> String {
    let above = source.lines[..index].iter().rev().map(|line| line.trim());
    let belongs = |line: &&str| line.starts_with("//") || line.starts_with("#[");
    above.take_while(belongs).filter(|line| line.starts_with("//")).collect()
}

const ORDERING_LINES_MAX: usize = 6;

#[cfg(test)]
mod firing {
    use crate::labels::{lock_docs, module_docs, ordering_proofs, unsafe_places, unsafe_proofs};
    use crate::source::{Broken, Source};

    fn count(rule: fn(&Source) -> Vec<Broken>, path: &str, text: &str) -> usize {
        rule(&Source::new(&format!("crates/rig/src/{path}"), text)).len()
    }

    #[test]
    fn unsafe_code_in_another_file_is_found() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(count(unsafe_places, "stamp.rs", text), 1);
        assert_eq!(count(unsafe_places, "stamp.rs", "// unsafe\n#![deny(unsafe_code)]"), 0);
        for path in ["bytes.rs", "bytes/copy.rs", "list.rs", "drivers/cuda/mod.rs"] {
            assert_eq!(count(unsafe_places, path, text), 0, "{path}");
        }
        assert_eq!(count(unsafe_places, "list.rs", "#![allow(unsafe_code)]"), 1);
        assert_eq!(count(unsafe_places, "lib.rs", "#[allow(unsafe_code)]\nmod list;"), 0);
    }

    #[test]
    fn unsafe_blocks_and_implementations_without_a_proof_are_found() {
        for bad in [
            "fn f() {\n    unsafe { g() }\n}",
            "// SAFETY: of the line below.\nfn f() {}\nunsafe impl Send for X {}",
            "// SAFETY: too far.\n\nunsafe { g() }",
            "// Safe, since it is.\nlet x =\n    unsafe { g() };",
        ] {
            assert_eq!(count(unsafe_proofs, "list.rs", bad), 1, "{bad}");
        }
        for good in [
            "// SAFETY: it is.\nunsafe { g() }",
            "// SAFETY: a long\n// proof.\n#[inline]\nunsafe impl Send for X {}",
            "// SAFETY: it is.\nlet x: Y =\n    unsafe { g() };",
            "pub unsafe fn f();\nunsafe trait T {}",
        ] {
            assert_eq!(count(unsafe_proofs, "list.rs", good), 0, "{good}");
        }
    }

    #[test]
    fn strong_orderings_without_a_proof_are_found() {
        let far = format!("// ORDERING: of x.\n{}a.load(Ordering::Acquire);", "\n".repeat(6));
        let near = format!("// ORDERING: of x.\n{}a.load(Ordering::Acquire);", "\n".repeat(5));
        assert_eq!(count(ordering_proofs, "list.rs", &far), 1);
        assert_eq!(count(ordering_proofs, "list.rs", &near), 0);
        assert_eq!(count(ordering_proofs, "list.rs", "a.load(Ordering::Relaxed);"), 0);
        assert_eq!(count(ordering_proofs, "list.rs", "a.cmp(b) == Ordering::Less"), 0);
        let tests = "#[cfg(test)]\nmod tests {\n    a.load(Ordering::SeqCst);\n}";
        assert_eq!(count(ordering_proofs, "list.rs", tests), 0);
    }

    #[test]
    fn locks_without_a_word_about_what_they_guard_are_found() {
        for bad in [
            "struct A {\n    list: Mutex<u8>,\n}",
            "struct A {\n    /// The list.\n    pub(crate) list: Arc<Mutex<u8>>,\n}",
            "static ALL: Mutex<u8> = Mutex::new(0);",
        ] {
            assert_eq!(count(lock_docs, "list.rs", bad), 1, "{bad}");
        }
        for good in [
            "struct A {\n    /// Guards the list.\n    #[x]\n    list: Mutex<u8>,\n}",
            "fn f(\n    list: &Mutex<u8>,\n) {\n    let x: Mutex<u8> = y;\n}",
            "struct Mutex<T>(loom::sync::Mutex<T>);",
        ] {
            assert_eq!(count(lock_docs, "list.rs", good), 0, "{good}");
        }
    }

    #[test]
    fn a_file_without_its_documentation_is_found() {
        assert_eq!(count(module_docs, "bin.rs", "//! Size classes.\n"), 0);
        assert_eq!(count(module_docs, "bin.rs", "// Size classes.\n"), 1);
        assert_eq!(count(module_docs, "bin.rs", ""), 1);
    }
}
