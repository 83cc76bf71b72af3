//! Texts, of pieces one after the other.
//!
//! In a browser no text is made by `format!`: its code would be a twentieth of all that is loaded.

/// What a text is made of.
pub(crate) trait Piece {
    /// Appends it to a text.
    fn put(self, text: &mut String);
}

impl Piece for &str {
    #[inline(never)]
    fn put(self, text: &mut String) {
        text.push_str(self);
    }
}

impl Piece for u64 {
    fn put(self, text: &mut String) {
        if self >= 10 {
            (self / 10).put(text);
        }
        text.push(char::from(b'0' + (self % 10) as u8));
    }
}

/// Appends pieces to a text.
macro_rules! put {
    ($text:expr, $($piece:expr),+ $(,)?) => {{
        #[allow(unused_imports, reason = "whoever makes pieces has it")]
        use $crate::report::Piece;
        $($piece.put($text);)+
    }};
}

/// Makes a text of pieces.
macro_rules! text {
    ($($piece:expr),+ $(,)?) => {{
        let mut text = String::new();
        $crate::report::put!(&mut text, $($piece),+);
        text
    }};
}

pub(crate) use {put, text};

#[cfg(all(test, not(rig_loom)))]
mod tests {
    #[test]
    fn numbers_are_put_with_all_their_digits() {
        for number in [0, 9, 10, 4_096, u64::MAX] {
            assert_eq!(text!("<", number, ">"), format!("<{number}>"));
        }
    }
}
