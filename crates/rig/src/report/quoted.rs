//! Text in quotes, on one line.

use crate::report::{Piece, text};
use std::fmt::{Display, Formatter};

/// Text as a JSON string, in quotes.
#[derive(Clone, Copy)]
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Piece for Quoted<'_> {
    fn put(self, text: &mut String) {
        text.push('"');
        for c in self.0.chars() {
            match c {
                '"' | '\\' => {
                    text.push('\\');
                    text.push(c);
                }
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                c if c < ' ' => {
                    text.push_str(if c < '\u{10}' { "\\u000" } else { "\\u001" });
                    text.push(char::from(b"0123456789abcdef"[c as usize & 15]));
                }
                c => text.push(c),
            }
        }
        text.push('"');
    }
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text!(self))
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::report::Quoted;

    #[test]
    fn s11_7_text_is_escaped_for_json() {
        for (text, json) in [
            ("", r#""""#),
            ("plain, größe 🦀 \u{7f}\u{2028}", "\"plain, größe 🦀 \u{7f}\u{2028}\""),
            ("\"\\/", r#""\"\\/""#),
            ("a\nb\tc\rd\0e\u{1f}", r#""a\nb\tc\u000dd\u0000e\u001f""#),
        ] {
            assert_eq!(Quoted(text).to_string(), json);
        }
    }
}
