//! Text for people: headings, sentences that wrap, numbers and sizes.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Starts a part of the story.
pub fn heading(text: &str) {
    println!("\n\n{text}\n{}\n", "=".repeat(text.len()));
}

/// Prints sentences, wrapped, and an empty line after them.
pub fn say(text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > COLUMNS {
            println!("{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    println!("{line}\n");
}

/// Says something that is said once in the program, be it for the first device or a later one.
pub fn explain(text: &str) {
    /// Guards what was said.
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().is_ok_and(|mut said| said.insert(text.to_string())) {
        say(text);
    }
}

/// Writes a number with commas.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number of bytes in the unit that fits.
pub fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{} bytes", number(bytes)),
    }
}

const COLUMNS: usize = 88;
