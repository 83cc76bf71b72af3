//! Text in quotes, on one line.

use std::fmt::{Display, Formatter, Write};

/// Text as a JSON string, in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
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
