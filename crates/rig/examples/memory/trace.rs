//! Stamps, call by call: what the memory remembers, and who waits for whom because of it.

use crate::devices::Found;
use crate::is_addressed;
use crate::page::{explain, heading, number, say};
use crate::table::Table;
use rig::{Buffer, Device, Point, Result, Stamps};

/// Runs the program that copies, doubles and copies back, and prints the stamps after each call.
pub fn show(found: &Found) -> Result<()> {
    let (device, name) = (&found.device, found.device.name());
    heading(&format!("{name}: who used the memory last"));
    explain(
        "A device numbers the work that it is given: mem:1, mem:2 and so on. Memory remembers \
         which work wrote it last and which used it last, be it to read or to write. These are its \
         stamps. Whoever uses the memory next waits for the stamps that concern it, and for \
         nothing else.",
    );
    explain(
        "H is memory of the host, X is memory of the device, and each holds 65,536 numbers. The \
         host puts 0, 1, 2, .. into H. They are copied to X, the device doubles them there, and \
         they are copied back. The columns given and done say how much work the device was given \
         and has done.",
    );
    let double = device.kernel(found.double.clone())?;
    let mut trace = Trace::new(device);
    let h = rig::host().create_buffer(LEN)?;
    trace.note("create H", [Some(&h), None], "");
    let x = device.create_buffer(LEN)?;
    trace.note("create X", [Some(&h), Some(&x)], "");
    count_up(&h)?;
    trace.note("the host writes H", [Some(&h), Some(&x)], "");
    rig::copy(&h, &x)?;
    trace.note("copy H to X", [Some(&h), Some(&x)], "");
    let doubled = double.launch([GROUPS, 1, 1]).writes(&x).submit()?;
    trace.note("submit: double X", [Some(&h), Some(&x)], &doubled.to_string());
    doubled.wait()?;
    trace.note(&format!("wait for {doubled}"), [Some(&h), Some(&x)], "");
    rig::copy(&x, &h)?;
    trace.note("copy X to H", [Some(&h), Some(&x)], "");
    let last = last_of(&h)?;
    trace.note("read the end of H", [Some(&h), Some(&x)], &last);
    assert_eq!(last, number(2 * (COUNT - 1)), "the numbers were doubled");
    let stamps = x.stamps();
    let from_cache = device.stats().kind_counts[0];
    drop(x);
    trace.note("let go of X", [Some(&h), None], "");
    let y = device.create_buffer(LEN)?;
    let reused = device.stats().kind_counts[0] > from_cache;
    let whose = if reused { "X's memory" } else { "new memory" };
    trace.note("create Y, as large", [Some(&h), Some(&y)], whose);
    trace.table.print();

    assert!(reused, "what was let go of serves the next buffer");
    assert_eq!(y.stamps(), Stamps::default(), "and starts anew");
    check_copies(device, doubled, &h, &stamps);
    explain(
        "Nobody freed X. The program let go of it, and its memory served Y, which starts without \
         stamps.",
    );
    Ok(())
}

/// Says who moved the bytes of the two copies, and checks it by their stamps.
fn check_copies(device: &Device, doubled: Point, h: &Buffer, x: &Stamps) {
    assert_eq!(h.stamps(), Stamps::default(), "the host leaves no stamps");
    if is_addressed(device) {
        explain(
            "The host reaches this device's memory by address, so the host itself moved the bytes \
             of both copies. What the host does is done when the call returns: it takes no number \
             and leaves no stamp. Only the work in the middle shows. A GPU with memory of its own \
             moves the bytes itself, and its copies take numbers.",
        );
        assert_eq!(device.submitted(), doubled.value(), "the copies took no value");
        assert_eq!((x.write, x.use_by(device)), (Some(doubled), Some(doubled)));
    } else {
        explain(
            "The host cannot reach this device's memory, so both copies passed through memory that \
             both reach. The device moved the bytes to X and away from it. That is work with \
             numbers of its own, and X shows them.",
        );
        let back = device.point(doubled.value() + 1).ok();
        assert_eq!(device.submitted(), doubled.value() + 1, "each copy took one value");
        assert_eq!((x.write, x.use_by(device)), (Some(doubled), back));
    }
}

/// Runs the program again through a borrow: the device reaches the host's memory where it lies.
pub fn show_borrow(found: &Found) -> Result<()> {
    let device = &found.device;
    heading(&format!("{}: the same bytes, borrowed", device.name()));
    explain(
        "A borrow is a buffer on another device over the same bytes. Making one moves no byte. \
         There is one set of stamps for both: what the device does to B, a borrow of H, is done to \
         H. At the end the device works on B itself, without any copy.",
    );
    let double = device.kernel(found.double.clone())?;
    let mut trace = Trace::new(device);
    let h = rig::host().create_buffer(LEN)?;
    let x = device.create_buffer(LEN)?;
    count_up(&h)?;
    let both = [Some(&h), Some(&x)];
    trace.note("create H and X, write H", both, "");
    let Some(b) = h.borrow(device)? else {
        say("This device cannot reach the host's memory where it lies, so there is no borrow.");
        return Ok(());
    };
    trace.note("B = borrow of H", both, "");
    rig::copy(&b, &x)?;
    trace.note("copy B to X", both, "");
    let point = double.launch([GROUPS, 1, 1]).writes(&x).submit()?;
    trace.note("submit: double X", both, &point.to_string());
    rig::copy(&x, &b)?;
    trace.note("copy X to B", both, "");
    trace.note("read the end of H", both, &last_of(&h)?);
    let point = double.launch([GROUPS, 1, 1]).writes(&b).submit()?;
    trace.note("submit: double B", both, &point.to_string());
    let last = last_of(&h)?;
    trace.note("read the end of H", both, &last);
    drop(b);
    trace.note("let go of B", both, "");
    trace.table.print();

    assert_eq!(h.stamps().write, Some(point), "work on a borrow stamps what is borrowed");
    assert_eq!(last, number(4 * (COUNT - 1)), "the host's numbers were doubled in place");
    say(&format!(
        "The last read of H waited for {point} by itself, since that wrote H last. The program \
         never said that B and H have to do with each other."
    ));
    Ok(())
}

/// Puts 0, 1, 2, .. into a buffer of the host.
fn count_up(buffer: &Buffer) -> Result<()> {
    buffer.write_as::<f32, _>(|values| {
        values.iter_mut().enumerate().for_each(|(at, value)| *value = at as f32);
    })
}

fn last_of(buffer: &Buffer) -> Result<String> {
    buffer.read_as::<f32, _>(|values| number(values[values.len() - 1] as u64))
}

/// A table of the stamps of H and X, one row a call.
struct Trace<'a> {
    device: &'a Device,
    table: Table,
}

impl<'a> Trace<'a> {
    fn new(device: &'a Device) -> Self {
        let titles =
            ["call", "H written", "H used", "X written", "X used", "given", "done", "answer"];
        Self { device, table: Table::new(&titles) }
    }

    /// Adds a row with what the stamps and the device say now.
    fn note(&mut self, call: &str, buffers: [Option<&Buffer>; 2], answer: &str) {
        let [h, x] = buffers.map(|buffer| self.cells(buffer));
        let [given, done] = [self.device.submitted(), self.device.reached()].map(number);
        self.table.row(&[call, &h[0], &h[1], &x[0], &x[1], &given, &done, answer]);
    }

    fn cells(&self, buffer: Option<&Buffer>) -> [String; 2] {
        let Some(buffer) = buffer else { return [String::new(), String::new()] };
        let stamps = buffer.stamps();
        [stamps.write, stamps.use_by(self.device)]
            .map(|point| point.map_or("-".into(), |point| point.to_string()))
    }
}

const COUNT: u64 = 65_536;
const LEN: u64 = 4 * COUNT;
const GROUPS: u32 = 1_024;
