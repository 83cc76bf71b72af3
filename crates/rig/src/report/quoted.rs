//! Text in quotes, on one line.

use std::fmt::{Display, Formatter};

/// Text as a JSON string, in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"")?;
        let mut rest = self.0;
        while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let (byte, after) = special.split_at(1);
            match byte {
                "\"" | "\\" => write!(f, "\\{byte}")?,
                "\n" => f.write_str("\\n")?,
                "\t" => f.write_str("\\t")?,
                _ => write!(f, "\\u{:04x}", byte.as_bytes()[0])?,
            }
            rest = after;
        }
        f.write_str(rest)?;
        f.write_str("\"")
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
