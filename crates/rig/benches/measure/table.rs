//! The tables that benches print: each figure beside its goal and the floor that bounds it.

use crate::measure::rounds::Times;

/// What a figure has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// The figure is only shown.
    None,
}

/// One row.
pub(crate) struct Row<'a> {
    /// The goal's number, such as `P1`.
    pub(crate) number: &'a str,
    pub(crate) what: String,
    /// What the figure is: a ratio of minima, nanoseconds, instructions.
    pub(crate) unit: &'a str,
    pub(crate) figure: f64,
    pub(crate) goal: Goal,
    /// rig's own times, and the floor's with its name.
    pub(crate) rig: Option<&'a Times>,
    pub(crate) floor: Option<(&'a str, &'a Times)>,
}

impl Row<'_> {
    /// Prints the row.
    pub(crate) fn print(&self) {
        let (goal, met) = match self.goal {
            Goal::AtMost(most) => (format!("<= {}", number(most)), self.figure <= most),
            Goal::AtLeast(least) => (format!(">= {}", number(least)), self.figure >= least),
            Goal::None => ("-".into(), true),
        };
        let met = match (self.goal, met) {
            (Goal::None, _) => "-",
            (_, true) => "yes",
            (_, false) => "no",
        };
        println!(
            "| {} | {} | {} {} | {goal} | {met} | {} | {} | {} |",
            self.number,
            self.what,
            number(self.figure),
            self.unit,
            self.rig.map_or("-".into(), times),
            self.floor.map_or("-", |(name, _)| name),
            self.floor.map_or("-".into(), |(_, floor)| times(floor)),
        );
    }

    /// Prints a row whose figure is the ratio of rig's least time to the floor's.
    pub(crate) fn print_ratio(
        number: &str,
        what: String,
        goal: Goal,
        rig: &Times,
        floor: (&str, &Times),
    ) {
        let figure = rig.least() / floor.1.least();
        let (rig, floor) = (Some(rig), Some(floor));
        Row { number, what, unit: "x", figure, goal, rig, floor }.print();
    }
}

/// Prints a heading and the head of a table of [`Row`]s.
pub(crate) fn head(title: &str) {
    println!("\n## {title}\n");
    println!(
        "| goal | what | figure | wanted | met | rig ns: min, median, p90 | floor | floor ns |"
    );
    println!("|---|---|---|---|---|---|---|---|");
}

fn times(times: &Times) -> String {
    format!("{}, {}, {}", number(times.least()), number(times.median()), number(times.p90()))
}

/// Writes a number with three digits or more.
pub(crate) fn number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".into(),
        size if size < 10.0 && number.fract() != 0.0 => format!("{number:.2}"),
        size if size < 100.0 && number.fract() != 0.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}
