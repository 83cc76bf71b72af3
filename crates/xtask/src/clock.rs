//! Today's date.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns today's date in UTC, such as 2026-07-31.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// Returns the date that is `days` after 1970-01-01.
fn date(mut days: u64) -> String {
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod dates {
    use crate::clock::date;

    #[test]
    fn a_date_follows_the_calendar_at_the_ends_of_months_and_years() {
        let known = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (364, "1970-12-31"),
            (365, "1971-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_786, "2026-11-29"),
        ];
        for (days, text) in known {
            assert_eq!(date(days), text);
        }
    }
}
