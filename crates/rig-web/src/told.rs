//! Answers and errors as the page gets them: a number, a text, an error as text.

use crate::json;
use rig::{Error, Misuse, Point};

/// What a call that may wait answers.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) number: f64,
    pub(crate) text: String,
}

impl From<f64> for Answer {
    fn from(number: f64) -> Self {
        Self { number, text: String::new() }
    }
}

impl From<()> for Answer {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Point> for Answer {
    fn from(point: Point) -> Self {
        Self::from(point.value() as f64)
    }
}

/// Returns an error as the text that `js/error.ts` makes an error of.
pub(crate) fn error(error: &Error) -> String {
    let mut out = String::from("{\"code\":");
    json::quote(&mut out, error.code());
    field(&mut out, "message", &message(error));
    match error {
        Error::OutOfMemory { device, asked_bytes, held_bytes, budget_bytes, report } => {
            field(&mut out, "device", device);
            let bytes = [
                ("askedBytes", *asked_bytes),
                ("heldBytes", *held_bytes),
                ("budgetBytes", *budget_bytes),
            ];
            for (name, value) in bytes {
                out.push_str(",\"");
                out.push_str(name);
                out.push_str("\":");
                json::number(&mut out, value);
            }
            out.push_str(",\"report\":");
            out.push_str(&json::of(&**report));
            field(&mut out, "picture", &report.to_string());
        }
        Error::Lost { device, why } | Error::Unsupported { device, why } => {
            field(&mut out, "device", device);
            field(&mut out, "why", why);
        }
        Error::Misuse { call, what } => {
            field(&mut out, "call", &json::camel(call));
            field(&mut out, "what", what.name());
        }
        _ => {}
    }
    out.push('}');
    out
}

/// Returns an error as a line, with JavaScript's names of calls.
fn message(error: &Error) -> String {
    match error {
        Error::Misuse { call, what } => format!("misuse of {}: {what}", json::camel(call)),
        error => error.to_string(),
    }
}

/// Makes a mistake of the page's own finding one of a call.
pub(crate) fn misuse(call: &'static str, what: Misuse) -> Error {
    Error::Misuse { call, what }
}

fn field(out: &mut String, name: &str, text: &str) {
    out.push(',');
    json::quote(out, name);
    out.push(':');
    json::quote(out, text);
}
