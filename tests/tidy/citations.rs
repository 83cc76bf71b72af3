//! Every numbered sentence of the specification is stated by a test, and no other is cited.
//!
//! A test cites a sentence by its name (`s4_2_create_makes_device_memory` cites S4.2) or in a
//! comment or message (`S4.2`). Tests are the files in `tests/` but these rules, those in
//! JavaScript among them, the test modules of the library, and its examples.

use crate::allowed::UNTESTED_SECTIONS;
use crate::source::{Broken, Source, words};
use std::collections::BTreeSet;

/// A sentence's number: section, then sentence.
type Number = (u64, u64);

/// Returns the numbers of the sentences, which stand at the start of list items.
pub(crate) fn sentences(specification: &str) -> BTreeSet<Number> {
    let items = specification.lines().filter_map(|line| line.strip_prefix("- S"));
    items.filter_map(|item| Some(number(item, '.')?.0)).collect()
}

/// Sentences that no test cites.
pub(crate) fn uncited(sentences: &BTreeSet<Number>, sources: &[Source]) -> Vec<Broken> {
    let mut missing = sentences.clone();
    for source in sources {
        for (index, number) in citations(source) {
            if is_test_code(source, index) {
                missing.remove(&number);
            }
        }
    }
    let needed = missing.iter().filter(|number| !UNTESTED_SECTIONS.contains(&number.0));
    let why = |number: &Number| format!("no test states S{}.{}", number.0, number.1);
    needed.map(|number| Broken::new("crates/rig/SEMANTICS.md", 0, why(number))).collect()
}

/// Citations of sentences that do not exist, by tests or anywhere else in the library.
pub(crate) fn unknown(sentences: &BTreeSet<Number>, sources: &[Source]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !is_tidy(source)) {
        for (index, number) in citations(source) {
            if !sentences.contains(&number) {
                let why = format!("there is no sentence S{}.{}", number.0, number.1);
                broken.push(source.broken(index, why));
            }
        }
    }
    broken
}

/// Tests that a page names in backticks and that do not exist.
pub(crate) fn unwritten(path: &'static str, page: &str, sources: &[Source]) -> Vec<Broken> {
    let tests = sources.iter().filter(|source| !is_tidy(source));
    let words = tests.flat_map(|source| source.lines.iter().flat_map(|line| words(line)));
    let written: BTreeSet<&str> = words.map(|(_, word)| word).collect();
    let mut broken = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| !cited_by_name(name).is_empty()) {
            if !written.contains(name) {
                broken.push(Broken::new(path, index, format!("there is no test {name}")));
            }
        }
    }
    broken
}

fn is_test_code(source: &Source, index: usize) -> bool {
    let is_example = source.path.starts_with("crates/rig/examples/");
    let is_unit = source.in_library().is_some() && source.in_tests[index];
    (source.is_test() || is_example || is_unit) && !is_tidy(source)
}

fn is_tidy(source: &Source) -> bool {
    source.path.starts_with("tests/tidy/")
}

/// Returns the sentences that a file cites, with the index of the line.
fn citations(source: &Source) -> Vec<(usize, Number)> {
    let mut found = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        for (at, _) in line.match_indices('S') {
            let is_start = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if let Some((number, _)) = number(&line[at + 1..], '.').filter(|_| is_start) {
                found.push((index, number));
            }
        }
    }
    let is_script = source.path.ends_with(".mjs");
    for (index, line) in source.code.iter().enumerate() {
        let words = words(line);
        if is_script {
            let quoted = words.iter().filter(|(at, _)| line[..*at].ends_with(['"', '`']));
            let numbers = quoted.flat_map(|(_, name)| cited_by_name(name));
            found.extend(numbers.map(|number| (index, number)));
        }
        for name in words.windows(2).filter(|pair| pair[0].1 == "fn").map(|pair| pair[1].1) {
            found.extend(cited_by_name(name).into_iter().map(|number| (index, number)));
        }
    }
    found
}

/// Returns the sentences at the start of a test's name, of which there may be several.
fn cited_by_name(name: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let mut rest = name;
    while let Some((number, after)) = rest.strip_prefix('s').and_then(|rest| number(rest, '_')) {
        found.push(number);
        let Some(next) = after.strip_prefix('_') else { break };
        rest = next.strip_prefix("and_").unwrap_or(next);
    }
    found
}

/// Reads two numbers with a mark between them, and answers what comes after them too.
fn number(text: &str, mark: char) -> Option<(Number, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (section, rest) = text.split_at(digits(text));
    let rest = rest.strip_prefix(mark)?;
    let (sentence, rest) = rest.split_at(digits(rest));
    Some(((section.parse().ok()?, sentence.parse().ok()?), rest))
}

#[cfg(test)]
mod firing {
    use crate::citations::{cited_by_name, sentences, uncited, unknown, unwritten};
    use crate::source::Source;

    const SPECIFICATION: &str = "\
- S1.1 The host is open.
- S1.10 Files, as S9.9 says.
- S13.1 JavaScript.
- no number
text S7.7
";

    #[test]
    fn sentences_are_the_numbers_at_the_start_of_items() {
        let numbers: Vec<_> = sentences(SPECIFICATION).into_iter().collect();
        assert_eq!(numbers, [(1, 1), (1, 10), (13, 1)]);
    }

    #[test]
    fn a_sentence_that_no_test_states_is_found() {
        let sentences = sentences(SPECIFICATION);
        let count = |path: &str, text: &str| uncited(&sentences, &[Source::new(path, text)]).len();
        assert_eq!(count("tests/model/main.rs", ""), 3);
        assert_eq!(count("tests/model/main.rs", "fn s1_1_the_host_is_open() {}"), 2);
        assert_eq!(count("tests/web/a.mjs", "test(\"s13_1_promises\", async () => {"), 2);
        assert_eq!(count("tests/model/main.rs", "// S1.1, S1.10."), 1);
        assert_eq!(count("crates/rig/examples/a.rs", "//! States S1.10"), 2);
        let module = "#[cfg(test)]\nmod tests {\n    fn s1_10_files_open() {}\n}";
        assert_eq!(count("crates/rig/src/bin.rs", module), 2);
    }

    #[test]
    fn what_is_no_test_states_nothing() {
        let sentences = sentences(SPECIFICATION);
        for path in ["crates/rig/src/bin.rs", "tests/tidy/citations.rs"] {
            let text = "// S1.1 and S1.10\nfn s1_1_x() {}";
            assert_eq!(uncited(&sentences, &[Source::new(path, text)]).len(), 3, "{path}");
        }
        let source = Source::new("tests/a.rs", "// XS1.1 S1 S1,10\nfn pieces1_10_x() {}");
        assert_eq!(uncited(&sentences, &[source]).len(), 3);
    }

    #[test]
    fn a_citation_of_no_sentence_is_found() {
        let sentences = sentences(SPECIFICATION);
        let count = |path: &str, text: &str| unknown(&sentences, &[Source::new(path, text)]).len();
        assert_eq!(count("tests/a.rs", "// S1.1 and S1.2\nfn s1_3_x() {}"), 2);
        assert_eq!(count("crates/rig/src/bin.rs", "//! As S2.2 says."), 1);
    }

    #[test]
    fn a_test_that_a_page_names_and_nobody_wrote_is_found() {
        let sources = [
            Source::new("tests/a.rs", "fn s1_1_the_host_is_open() {}"),
            Source::new("tests/web/a.mjs", "test(\"s13_1_promises\", async () => {"),
        ];
        let page =
            "`s1_1_the_host_is_open`, `s13_1_promises`, `s1_1_the`, s1_2_x, `open`\n`s1_3_y`";
        let broken = unwritten("tests/README.md", page, &sources);
        assert_eq!(broken.len(), 2, "a part of a name, and another");
    }

    #[test]
    fn a_name_may_cite_several_sentences() {
        assert_eq!(cited_by_name("s4_2_s4_3_and_s5_1_hold"), [(4, 2), (4, 3), (5, 1)]);
        assert_eq!(cited_by_name("s4_2"), [(4, 2)]);
        assert_eq!(cited_by_name("size_4_2"), []);
    }
}
