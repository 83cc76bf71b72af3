//! A file's text in four forms: as written, code alone, comments alone, and where its tests are.
//!
//! Code and comments keep the file's lines and columns: what belongs to neither form is blank. A
//! rule about code is so never misled by a string or a comment.

use std::fmt;
use std::path::Path;

/// A file, ready for the rules.
pub(crate) struct Source {
    /// The path from the workspace's folder, with `/`.
    pub(crate) path: String,
    /// The lines as written.
    pub(crate) lines: Vec<String>,
    /// The lines with comments and the insides of strings and characters blank.
    pub(crate) code: Vec<String>,
    /// For each line, whether it belongs to a test module at the top level.
    pub(crate) in_tests: Vec<bool>,
}

/// Something that breaks a rule.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    path: String,
    line: usize,
    why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.why)
    }
}

impl Broken {
    /// Makes one from a path, the index of a line, and a reason.
    pub(crate) fn new(path: &str, index: usize, why: impl Into<String>) -> Self {
        Self { path: path.to_string(), line: index + 1, why: why.into() }
    }
}

impl Source {
    /// Takes a file's text apart.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let is_rust = path.ends_with(".rs");
        let code = if is_rust { code_of(text) } else { text.to_string() };
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let code: Vec<String> = code.lines().map(String::from).collect();
        let in_tests = in_tests(&code);
        Self { path: path.to_string(), lines, code, in_tests }
    }

    /// Returns the path inside the library's sources, if the file is one of these.
    pub(crate) fn in_library(&self) -> Option<&str> {
        self.path.strip_prefix("crates/rig/src/")
    }

    /// Returns the library's file or folder that this file belongs to: `allocation` for both
    /// `allocation.rs` and `allocation/owner.rs`, `drivers/cuda` for all of that driver; none for
    /// files elsewhere, and for those that hold modules only.
    pub(crate) fn noun(&self) -> Option<&str> {
        let path = self.in_library()?;
        let inner = path.strip_prefix("drivers/").unwrap_or(path);
        let end = inner.find(['/', '.']).unwrap_or(inner.len());
        let noun = &path[..path.len() - inner.len() + end];
        (noun != "lib" && noun != "drivers/mod").then_some(noun)
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
    }

    /// Makes a broken rule of the line at `index`.
    pub(crate) fn broken(&self, index: usize, why: impl Into<String>) -> Broken {
        Broken::new(&self.path, index, why)
    }

    /// Returns the code as one text.
    pub(crate) fn code_text(&self) -> String {
        self.code.join("\n")
    }
}

/// Reads the files of a folder, and of the folders in it, whose names end so.
pub(crate) fn read_folder(root: &Path, folder: &str, endings: &[&str], files: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if name.starts_with('.')
            || ["target", "node_modules", "results", "built"].contains(&name.as_str())
        {
            continue;
        }
        if entry.path().is_dir() {
            read_folder(root, &path, endings, files);
        } else if endings.iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            let text = std::fs::read_to_string(entry.path());
            files.push(Source::new(&path, &text.unwrap_or_else(|e| panic!("{path}: {e}"))));
        }
    }
}

/// Returns the words of a line of code: letters, digits and `_`, with where each starts.
pub(crate) fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        let inside = c.is_alphanumeric() || c == '_';
        match start {
            None if inside => start = Some(at),
            Some(from) if !inside => {
                found.push((from, &line[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// Whether a line of code has a word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    words(line).iter().any(|found| found.1 == word)
}

/// Marks the lines of modules that stand under `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
fn in_tests(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let is_guard =
        |line: &String| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    let mut index = 0;
    while index < code.len() {
        let opens_module = code.get(index + 1).is_some_and(|next| next.starts_with("mod "));
        if is_guard(&code[index]) && opens_module {
            let one_line = code[index + 1].contains(';') || code[index + 1].contains('}');
            let length = match one_line {
                true => Some(1),
                false => code[index..].iter().position(|line| line.starts_with('}')),
            };
            let end = length.map_or(code.len() - 1, |length| index + length);
            marks[index..=end].fill(true);
            index = end;
        }
        index += 1;
    }
    marks
}

/// Returns a Rust text with comments and the insides of literals blank.
fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (end, kept) = token(&chars, at);
        for (index, &c) in chars[at..end].iter().enumerate() {
            let keeps = index < kept.first || at + index + kept.last >= end || c == '\n';
            code.push(if keeps { c } else { ' ' });
        }
        at = end;
    }
    code
}

/// How many characters of a token stay at its two ends.
struct Kept {
    first: usize,
    last: usize,
}

/// Returns where the token at `at` ends, and what of it is code.
fn token(chars: &[char], at: usize) -> (usize, Kept) {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let blank = Kept { first: 0, last: 0 };
    let quotes = Kept { first: 1, last: 1 };
    match (chars[at], next(1)) {
        ('/', '/') => (position(chars, at, |c| c == '\n'), blank),
        ('/', '*') => (block_comment_end(chars, at), blank),
        ('"', _) => (string_end(chars, at + 1), quotes),
        ('\'', '\\') => (position(chars, at + 3, |c| c == '\'') + 1, quotes),
        ('\'', _) if next(2) == '\'' => (at + 3, quotes),
        (c, _) if c.is_alphabetic() || c == '_' => {
            let end = position(chars, at, |c| !c.is_alphanumeric() && c != '_');
            match raw_string_end(chars, at, end) {
                Some(raw_end) => (raw_end, Kept { first: end - at, last: 1 }),
                None => (end, Kept { first: end - at, last: 0 }),
            }
        }
        _ => (at + 1, Kept { first: 1, last: 0 }),
    }
}

fn position(chars: &[char], from: usize, stops: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&at| stops(chars[at])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut at = at;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Returns where a raw string ends whose prefix is the word from `at` to `end`.
fn raw_string_end(chars: &[char], at: usize, end: usize) -> Option<usize> {
    let prefix: String = chars[at..end].iter().collect();
    if !["r", "br", "cr"].contains(&prefix.as_str()) {
        return None;
    }
    let quote = position(chars, end, |c| c != '#');
    let hashes = quote - end;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let closes = |at: &usize| {
        chars[*at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes
    };
    Some((quote + 1..chars.len()).find(closes).map_or(chars.len(), |at| at + 1 + hashes))
}

#[cfg(test)]
mod forms {
    use crate::source::{Source, has_word, words};

    fn code(text: &str) -> String {
        Source::new("a.rs", text).code_text()
    }

    #[test]
    fn comments_and_the_insides_of_literals_are_not_code() {
        assert_eq!(code("a // b"), "a     ");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code("f(\"x \\\" y\", z)"), "f(\"      \", z)");
        assert_eq!(code("f('\"', b'\\'', '\\u{1}', x)"), "f(' ', b'  ', '     ', x)");
        assert_eq!(code("r#\"a \" b\"# c"), "r        # c");
        assert_eq!(code("\"a\nb\" c"), "\" \n \" c");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code("let r#type = r;"), "let r#type = r;");
    }

    #[test]
    fn lines_of_test_modules_are_marked_and_others_are_not() {
        let text = "fn a() {}\n#[cfg(all(test, not(rig_loom)))]\nmod tests {\n  x\n}\nfn b() {}\n\
                    #[cfg(test)]\nmod other;\nfn c() {}";
        let source = Source::new("a.rs", text);
        let marks = [false, true, true, true, true, false, true, true, false];
        assert_eq!(source.in_tests, marks);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe_code(x)"), [(0, "unsafe_code"), (12, "x")]);
        assert!(has_word("pub unsafe fn", "unsafe"));
        assert!(!has_word("allow(unsafe_code)", "unsafe"));
    }

    #[test]
    fn a_file_in_a_folder_belongs_to_the_folders_noun() {
        let nouns = [
            ("crates/rig/src/allocation/owner.rs", Some("allocation")),
            ("crates/rig/src/bin.rs", Some("bin")),
            ("crates/rig/src/drivers/cuda/memory.rs", Some("drivers/cuda")),
            ("crates/rig/src/drivers/host.rs", Some("drivers/host")),
            ("crates/rig/src/drivers/mod.rs", None),
            ("crates/rig/src/lib.rs", None),
            ("tests/tidy/main.rs", None),
        ];
        for (path, noun) in nouns {
            assert_eq!(Source::new(path, "").noun(), noun, "{path}");
        }
    }
}
