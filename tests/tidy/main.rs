//! The rules of the house that a program can check, one test for each.
//!
//! A rule is a function from text to a list of what breaks it, so each is tested on small bad
//! texts beside its code; the tests in this file run the rules on the repository. What a rule
//! lets pass, and why, is data in `allowed.rs`; the import table is data in `rows.rs`. One
//! thread, no locks, nothing but reading.

#![cfg(test)]

mod allowed;
mod arrows;
mod citations;
mod labels;
mod limits;
mod names;
mod rows;
mod source;
mod versions;

use crate::source::{Broken, Source};
use std::path::{Path, PathBuf};

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file of the repository.
fn rust_files() -> Vec<Source> {
    let mut files = Vec::new();
    for folder in ["crates", "examples", "tests"] {
        source::read_folder(&root(), folder, &["rs"], &mut files);
    }
    assert!(files.len() > 20, "the repository's Rust files are found");
    files
}

/// Every Rust file, and every test in JavaScript.
fn with_scripts() -> Vec<Source> {
    let mut files = rust_files();
    source::read_folder(&root(), "tests/web", &["mjs"], &mut files);
    files
}

/// Every file of the repository that people write.
fn text_files() -> Vec<Source> {
    let mut files = Vec::new();
    let endings = ["rs", "toml", "md", "ts", "js", "html", "json", "yml"];
    for folder in ["crates", "examples", "tests", "www"] {
        source::read_folder(&root(), folder, &endings, &mut files);
    }
    files
}

/// The text of one file, such as `Cargo.toml`.
fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a rule on each Rust file and shows everything that breaks it.
fn check(rule: impl Fn(&Source) -> Vec<Broken>) {
    show(rust_files().iter().flat_map(rule).collect());
}

fn show(broken: Vec<Broken>) {
    let lines: Vec<String> = broken.iter().map(Broken::to_string).collect();
    assert!(lines.is_empty(), "{} places break this rule:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn a_file_imports_only_from_lower_rows() {
    check(arrows::upward);
}

#[test]
fn every_file_of_the_library_stands_in_the_import_table() {
    check(arrows::unplaced);
}

#[test]
fn imports_are_one_line_per_module_from_the_crate_without_globs() {
    check(arrows::import_form);
}

#[test]
fn a_core_file_never_names_a_concrete_driver() {
    check(arrows::concrete_drivers);
}

#[test]
fn a_feature_stands_only_on_a_mod_line() {
    check(arrows::features);
}

#[test]
fn unsafe_code_stands_only_in_the_files_that_need_it() {
    check(labels::unsafe_places);
}

#[test]
fn every_unsafe_block_has_its_proof_above_it() {
    check(labels::unsafe_proofs);
}

#[test]
fn every_ordering_above_relaxed_has_its_proof_above_it() {
    check(labels::ordering_proofs);
}

#[test]
fn every_lock_says_what_it_guards() {
    check(labels::lock_docs);
}

#[test]
fn every_file_opens_with_what_it_is() {
    check(labels::module_docs);
}

#[test]
fn a_function_has_at_most_70_lines() {
    check(limits::functions);
}

#[test]
fn a_file_has_at_most_500_lines_before_its_tests() {
    check(limits::files);
}

#[test]
fn a_line_has_at_most_100_columns() {
    check(limits::columns);
}

#[test]
fn an_exception_from_a_limit_is_still_needed() {
    show(limits::stale(&rust_files()));
}

#[test]
fn nothing_is_left_to_do_later() {
    show(text_files().iter().flat_map(names::left_to_do).collect());
}

#[test]
fn a_test_neither_sleeps_nor_is_ignored_nor_should_panic() {
    check(names::test_habits);
}

#[test]
fn a_file_is_named_after_its_noun() {
    check(names::file_names);
}

#[test]
fn a_function_is_not_called_get() {
    check(names::called_get);
}

#[test]
fn one_version_stands_everywhere() {
    let manifests: Vec<(&str, String)> = [
        "crates/rig/Cargo.toml",
        "crates/xtask/Cargo.toml",
        "examples/desktop/Cargo.toml",
        "tests/Cargo.toml",
    ]
    .map(|path| (path, text_of(path)))
    .into();
    show(versions::differing(&text_of("Cargo.toml"), &text_of("package.json"), &manifests));
}

#[test]
fn every_numbered_sentence_is_cited_by_a_test() {
    let sentences = citations::sentences(&text_of("crates/rig/SEMANTICS.md"));
    assert!(sentences.len() > 100, "the sentences are found");
    show(citations::uncited(&sentences, &with_scripts()));
}

#[test]
fn every_cited_sentence_exists() {
    let sentences = citations::sentences(&text_of("crates/rig/SEMANTICS.md"));
    show(citations::unknown(&sentences, &with_scripts()));
}

#[test]
fn every_test_that_a_page_names_exists() {
    let page = "tests/README.md";
    show(citations::unwritten(page, &text_of(page), &with_scripts()));
}
