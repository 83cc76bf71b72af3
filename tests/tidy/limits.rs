//! Lines a function, lines a file, columns; and the exceptions, which must still be needed.

use crate::allowed::{EXCEPTIONS, Limit};
use crate::source::{Broken, Source, words};

/// Functions that are too long, from the line of `fn` to the closing brace.
pub(crate) fn functions(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (start, count) in function_lines(source) {
        if count > FUNCTION_LINES_MAX && !is_excepted(source, Limit::Function, start) {
            broken.push(source.broken(start, format!("this function has {count} lines")));
        }
    }
    broken
}

/// Files that are too long; test modules do not count.
pub(crate) fn files(source: &Source) -> Vec<Broken> {
    let count = source.in_tests.iter().filter(|in_tests| !**in_tests).count();
    let is_long = count > FILE_LINES_MAX && !is_excepted(source, Limit::File, 0);
    let why = format!("this file has {count} lines before its tests");
    if is_long { vec![source.broken(0, why)] } else { Vec::new() }
}

/// Lines that are too wide. A row of a Markdown table in a comment cannot be broken.
pub(crate) fn columns(source: &Source) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let count = line.chars().count();
        let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        let is_table_row = line.trim_start().starts_with("//") && text.starts_with('|');
        if count > COLUMNS_MAX && !is_table_row && !is_excepted(source, Limit::Columns, index) {
            broken.push(source.broken(index, format!("this line has {count} columns")));
        }
    }
    broken
}

/// Exceptions whose place is gone, or that give no reason.
pub(crate) fn stale(sources: &[Source]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for exception in EXCEPTIONS {
        let source = sources.iter().find(|source| source.path == exception.path);
        let is_there = source.is_some_and(|source| {
            exception.limit == Limit::File
                || source.lines.iter().any(|line| line.contains(exception.line))
        });
        if !is_there || exception.reason.is_empty() {
            broken.push(Broken::new(exception.path, 0, "this exception is not needed any more"));
        }
    }
    broken
}

fn is_excepted(source: &Source, limit: Limit, index: usize) -> bool {
    EXCEPTIONS.iter().any(|exception| {
        exception.path == source.path
            && exception.limit == limit
            && source.lines[index].contains(exception.line)
    })
}

/// Returns where each function with a body starts, and how many lines it has.
fn function_lines(source: &Source) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        let words = words(line);
        for pair in words.windows(2).filter(|pair| pair[0].1 == "fn") {
            let is_name = line[pair[0].0 + 2..pair[1].0].trim().is_empty();
            let body_end = is_name.then(|| body_end(&source.code[index..], pair[1].0)).flatten();
            if let Some(count) = body_end {
                found.push((index, count));
            }
        }
    }
    found
}

/// Returns how many lines there are to the end of the body of a function whose name stands at
/// `from` on the first line; none if it has no body.
fn body_end(code: &[String], from: usize) -> Option<usize> {
    let mut brackets = 0;
    let mut braces = 0;
    for (index, line) in code.iter().enumerate() {
        let start = if index == 0 { from } else { 0 };
        for c in line[start..].chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if brackets == 0 && braces == 0 => return None,
                '{' => braces += 1,
                '}' => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 100;

#[cfg(test)]
mod firing {
    use crate::limits::{columns, files, function_lines, functions};
    use crate::source::Source;

    fn function_of(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
        assert_eq!(functions(&Source::new("a.rs", &function_of(71))).len(), 1);
        assert_eq!(functions(&Source::new("a.rs", &function_of(70))).len(), 0);
    }

    #[test]
    fn a_functions_lines_run_from_fn_to_its_closing_brace() {
        let text = "trait T {\n    fn a(x: [u8; 4]);\n    fn b(\n        x: [u8; 2],\n\
                    ) -> u8 {\n{}\n    }\n}\ntype F = fn(u8) -> u8;\nfn c() { \"}\"; }\n";
        assert_eq!(function_lines(&Source::new("a.rs", text)), [(2, 5), (9, 1)]);
    }

    #[test]
    fn a_file_of_501_lines_before_its_tests_is_found_and_one_of_500_is_not() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    x();\n".repeat(900));
        let text = |lines: usize| format!("{}{tests}", "x();\n".repeat(lines));
        assert_eq!(files(&Source::new("a.rs", &text(501))).len(), 1);
        assert_eq!(files(&Source::new("a.rs", &text(500))).len(), 0);
    }

    #[test]
    fn a_line_of_101_columns_is_found_and_one_of_100_is_not() {
        assert_eq!(columns(&Source::new("a.rs", &"ä".repeat(101))).len(), 1);
        assert_eq!(columns(&Source::new("a.rs", &"ä".repeat(100))).len(), 0);
        let table_row = format!("//! | {} |", "a".repeat(200));
        assert_eq!(columns(&Source::new("a.rs", &table_row)).len(), 0);
    }
}
