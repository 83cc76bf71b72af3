//! Chrome trace JSON, written by hand: the format is small, and a build for browsers has no use
//! for a serializer.
//!
//! Times are microseconds with three decimals, written from integers. A device is a process, a
//! queue a thread of it, and what rig itself did another one. Plain functions for any thread.

use crate::profile::{Event, Trace, What};
use crate::report::Quoted;
use crate::timeline::{DeviceId, track};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::io::{Result, Write};

/// Writes a trace as one JSON object.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut next = |out: &mut _| separate(out, std::mem::take(&mut first));
    let threads = trace.events.iter().map(|event| (event.device, event.queue));
    let mut named = None;
    for (device, queue) in threads.collect::<BTreeSet<_>>() {
        if named != Some(device) {
            next(out)?;
            name(out, "process_name", (device, None), &track(device).name())?;
            named = Some(device);
        }
        next(out)?;
        let thread = queue.map_or_else(|| "rig".into(), |queue| format!("queue {queue}"));
        name(out, "thread_name", (device, queue), &thread)?;
    }
    for event in &trace.events {
        next(out)?;
        match &event.what {
            What::Held { held_bytes, cached_bytes, live_bytes } => {
                counter(out, event, "held", *held_bytes)?;
                next(out)?;
                counter(out, event, "cached", *cached_bytes)?;
                next(out)?;
                counter(out, event, "live", *live_bytes)?;
            }
            What::Loss(why) => loss(out, event, why)?,
            _ => span(out, event)?,
        }
    }
    write!(out, "\n],\"otherData\":{{\"left_out_count\":{}}}}}", trace.left_out_count)
}

fn separate(out: &mut impl Write, first: bool) -> Result<()> {
    out.write_all(if first { b"\n" } else { b",\n" })
}

fn name(
    out: &mut impl Write,
    kind: &str,
    (device, queue): (DeviceId, Option<u64>),
    name: &str,
) -> Result<()> {
    let (pid, tid, name) = (device.index(), thread(queue), Quoted(name));
    write!(out, "{{\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid}")?;
    write!(out, ",\"args\":{{\"name\":{name}}}}}")
}

fn span(out: &mut impl Write, event: &Event) -> Result<()> {
    let kind = kind(&event.what);
    let label = if event.label.is_empty() { kind } else { &*event.label };
    head(out, event, "X", label)?;
    write!(out, ",\"cat\":\"{kind}\",\"dur\":{},\"args\":{{", Us(event.took_ns))?;
    if let Some(value) = event.value {
        write!(out, "\"value\":{value},")?;
    }
    if let What::Round(number) = event.what {
        write!(out, "\"round\":{number},")?;
    }
    write!(out, "\"bytes\":{}}}}}", event.bytes)
}

fn loss(out: &mut impl Write, event: &Event, why: &str) -> Result<()> {
    head(out, event, "i", "lost")?;
    write!(out, ",\"cat\":\"loss\",\"s\":\"p\",\"args\":{{\"why\":{}}}}}", Quoted(why))
}

/// Writes a counter. Each has a name of its own: series of one name are drawn on top of each
/// other, and what is held contains the rest.
fn counter(out: &mut impl Write, event: &Event, name: &str, bytes: u64) -> Result<()> {
    head(out, event, "C", name)?;
    write!(out, ",\"args\":{{\"{name}\":{bytes}}}}}")
}

fn head(out: &mut impl Write, event: &Event, phase: &str, name: &str) -> Result<()> {
    let (pid, tid, ts) = (event.device.index(), thread(event.queue), Us(event.at_ns));
    write!(out, "{{\"name\":{},\"ph\":\"{phase}\",\"pid\":{pid}", Quoted(name))?;
    write!(out, ",\"tid\":{tid},\"ts\":{ts}")
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Submission => "submission",
        What::Part(op) => op,
        What::DirectCopy => "direct copy",
        What::Leg => "leg",
        What::HostMove => "host move",
        What::Wait => "wait",
        What::Round(_) => "round",
        What::Drain => "drain",
        What::Loss(_) => "loss",
        What::Held { .. } => "held",
    }
}

fn thread(queue: Option<u64>) -> u64 {
    queue.unwrap_or(RIG_THREAD)
}

/// The thread of what rig itself did: above every queue.
const RIG_THREAD: u64 = 1 << 16;

/// Nanoseconds as microseconds with three decimals.
struct Us(u64);

impl Display for Us {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::profile::{Event, Trace, What};
    use crate::timeline::{DeviceId, track};

    fn event(what: What, device: u16, at_ns: u64) -> Event {
        Event { at_ns, ..Event::now(what, DeviceId(device)) }
    }

    #[test]
    fn s11_7_a_trace_is_written_as_chrome_reads_it() {
        // The last indices, which no device of another test gets.
        track(DeviceId(65_533)).start(&"the \"gpu\"".into(), 0, false);
        track(DeviceId(65_534)).start(&"other".into(), 0, false);
        let held = What::Held { held_bytes: 3, cached_bytes: 1, live_bytes: 2 };
        let leg = event(What::Leg, 65_533, 1_000);
        let part = event(What::Part("launch"), 65_533, 4_321);
        let trace = Trace {
            events: vec![
                Event { queue: Some(1), value: Some(7), bytes: 4096, took_ns: 1_234_567, ..leg },
                Event { queue: Some(0), label: "step\n".into(), ..part },
                event(What::Round(2), 65_534, 5_000),
                event(held, 65_534, 6_007),
                event(What::Loss("no \\ progress".into()), 65_534, 7_070),
            ],
            left_out_count: 9,
        };
        let expected = [
            r#"{"displayTimeUnit":"ns","traceEvents":["#,
            concat!(
                r#"{"name":"process_name","ph":"M","pid":65533,"tid":65536"#,
                r#","args":{"name":"the \"gpu\""}},"#
            ),
            r#"{"name":"thread_name","ph":"M","pid":65533,"tid":0,"args":{"name":"queue 0"}},"#,
            r#"{"name":"thread_name","ph":"M","pid":65533,"tid":1,"args":{"name":"queue 1"}},"#,
            concat!(
                r#"{"name":"process_name","ph":"M","pid":65534,"tid":65536"#,
                r#","args":{"name":"other"}},"#
            ),
            r#"{"name":"thread_name","ph":"M","pid":65534,"tid":65536,"args":{"name":"rig"}},"#,
            concat!(
                r#"{"name":"leg","ph":"X","pid":65533,"tid":1,"ts":1.000"#,
                r#","cat":"leg","dur":1234.567,"args":{"value":7,"bytes":4096}},"#
            ),
            concat!(
                r#"{"name":"step\n","ph":"X","pid":65533,"tid":0,"ts":4.321"#,
                r#","cat":"launch","dur":0.000,"args":{"bytes":0}},"#
            ),
            concat!(
                r#"{"name":"round","ph":"X","pid":65534,"tid":65536,"ts":5.000"#,
                r#","cat":"round","dur":0.000,"args":{"round":2,"bytes":0}},"#
            ),
            r#"{"name":"held","ph":"C","pid":65534,"tid":65536,"ts":6.007,"args":{"held":3}},"#,
            concat!(
                r#"{"name":"cached","ph":"C","pid":65534,"tid":65536,"ts":6.007"#,
                r#","args":{"cached":1}},"#
            ),
            r#"{"name":"live","ph":"C","pid":65534,"tid":65536,"ts":6.007,"args":{"live":2}},"#,
            concat!(
                r#"{"name":"lost","ph":"i","pid":65534,"tid":65536,"ts":7.070"#,
                r#","cat":"loss","s":"p","args":{"why":"no \\ progress"}}"#
            ),
            r#"],"otherData":{"left_out_count":9}}"#,
        ]
        .join("\n");
        assert_eq!(trace.chrome_json(), expected);
        let mut written = Vec::new();
        trace.write_chrome(&mut written).unwrap();
        assert_eq!(written, expected.as_bytes());
    }

    #[test]
    fn s11_7_an_empty_trace_is_an_object_without_events() {
        let json = Trace::default().chrome_json();
        let (head, tail) = json.split_once('\n').unwrap();
        assert_eq!(head, r#"{"displayTimeUnit":"ns","traceEvents":["#);
        assert_eq!(tail, r#"],"otherData":{"left_out_count":0}}"#);
    }
}
