//! What calls answer besides a number, and errors: values, said in an order that the page knows.
//!
//! `js/said.ts` and `js/error.ts` give them their names.

use crate::page::{say, say_text};
use rig::{Device, Error, LabelTotal, Report, SiteTotal, embed};

/// Says an error: which of the four it is, then its fields.
pub(crate) fn say_error(error: &Error) {
    say_text(error.code());
    match error {
        Error::OutOfMemory { device, asked_bytes, held_bytes, budget_bytes, report } => {
            say_text(&embed::text_of(error));
            say_text(device);
            say_numbers(&[*asked_bytes, *held_bytes, *budget_bytes]);
            say_text(&embed::text_of_report(report));
            say_report(report);
        }
        Error::Lost { device, why } | Error::Unsupported { device, why } => {
            say_text(device);
            say_text(why);
        }
        Error::Misuse { call, what } => {
            say_text(call);
            say_text(what.name());
            say_text(&embed::text_of_misuse(what));
        }
        _ => {}
    }
}

/// Says the statistics of a device, and what is live by label and by call site; adds its numbers to
/// a sum, in which they saturate.
pub(crate) fn say_stats(device: &Device, sum: &mut [u64; 24]) {
    let mut stats = device.stats();
    say_text(&stats.name);
    for (number, sum) in embed::numbers(&mut stats).into_iter().zip(sum) {
        say(number_of(*number));
        *sum = sum.saturating_add(*number);
    }
    say_labels(&device.labels());
    say_sites(&device.sites());
}

fn say_report(report: &Report) {
    say_text(&report.payer);
    say_numbers(&[
        report.budget_bytes,
        report.live_bytes,
        report.returning_bytes,
        report.cached_bytes,
        report.staging_bytes,
        report.pinned_bytes,
        report.given_away_bytes,
        report.asked_bytes,
        report.bin_bytes,
        report.largest_cached_bytes,
        u64::from(report.immediate),
    ]);
    say_labels(&report.labels);
    say_sites(&report.sites);
    say(report.rounds.len() as f64);
    for round in &report.rounds {
        let kept = &round.kept;
        say_numbers(&[
            round.returned_bytes,
            round.waited_bytes,
            kept.live_bytes,
            kept.claimed_bytes,
            kept.exported_bytes,
            kept.lent_bytes,
            kept.mapped_bytes,
            kept.lost_bytes,
        ]);
        say(kept.unreached.len() as f64);
        for (name, bytes) in &kept.unreached {
            say_text(name);
            say_numbers(&[*bytes]);
        }
    }
}

fn say_labels(all: &[LabelTotal]) {
    say(all.len() as f64);
    for total in all {
        say_text(&total.label);
        say_numbers(&[total.bytes, total.count]);
    }
}

fn say_sites(all: &[SiteTotal]) {
    say(all.len() as f64);
    for total in all {
        say_text(&total.site);
        say_numbers(&[total.bytes, total.count]);
    }
}

/// Says numbers.
pub(crate) fn say_numbers(values: &[u64]) {
    for value in values {
        say(number_of(*value));
    }
}

/// Returns a number as JavaScript has it: `u64::MAX` is infinity.
pub(crate) fn number_of(value: u64) -> f64 {
    if value == u64::MAX { f64::INFINITY } else { value as f64 }
}
