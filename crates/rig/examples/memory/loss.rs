//! A device that is lost, and which calls still answer.

use crate::devices::Found;
use crate::page::{explain, heading, say, size};
use crate::table::Table;
use rig::{Buffer, Code, Device, Error, Result, Use};
use std::iter;

/// Loses the device, and really calls everything.
pub fn show(found: &Found) -> Result<()> {
    let device = &found.device;
    heading(&format!("{}: when the device is lost", device.name()));
    explain(
        "A GPU can fail, be unplugged or be reset. Then its device is lost, for good and for \
             one reason, which every later error names. No call hangs and none panics.",
    );
    say(&format!(
        "{} After that, each call below is really made, and the table says what it answered.",
        found.blow
    ));
    let x = device.create_buffer(LEN)?;
    match borrow(found)? {
        Some(borrowed) => show_borrowed(found, &x, &borrowed)?,
        None => show_own(found, &x)?,
    }
    show_device(device, &found.double);
    let held = device.held();
    let again = (found.open)()?;
    say(&format!(
        "The lost device holds {} now: its memory went back. Its name was opened again. That is a \
         new device, which was given {} pieces of work so far.",
        size(held),
        again.submitted()
    ));
    assert_eq!(held, 0);
    assert!(again != *device && again.submitted() == 0);
    Ok(())
}

/// Memory of the host that the device reaches where it lies, and borrows of it.
struct Borrowed {
    b: Buffer,
    h: Buffer,
    k: Buffer,
    k_there: Buffer,
}

/// Borrows memory of the host, and uses one part of it in work that is done; none where the device
/// reaches no memory of the host.
fn borrow(found: &Found) -> Result<Option<Borrowed>> {
    let device = &found.device;
    let create = || rig::host().create_buffer(LEN);
    let [h, k] = [create()?, create()?];
    let (b, h_there, k_there) = (create()?.borrow(device)?, h.borrow(device)?, k.borrow(device)?);
    let (Some(b), Some(h_there), Some(k_there)) = (b, h_there, k_there) else { return Ok(None) };
    let double = device.kernel(found.double.clone())?;
    double.launch([1, 1, 1]).writes(&h_there).submit()?.wait()?;
    Ok(Some(Borrowed { b, h, k, k_there }))
}

fn show_borrowed(found: &Found, x: &Buffer, borrowed: &Borrowed) -> Result<()> {
    let Borrowed { b, h, k, k_there } = borrowed;
    println!("  X  memory of the device");
    println!("  B  a borrow on the device, over memory of the host");
    println!("  H  memory of the host that the device used, in work that was done before the loss");
    println!("  K  memory of the host that the device was writing when it was lost\n");
    (found.crash)(&found.device, k_there)?;
    show_memory(&[("X", x, LOST), ("B", b, LOST), ("H", h, OK), ("K", k, LOST)])?;
    explain(
        "Nobody knows which bytes of K were written, so rig shows none of them, now or later. The \
         work on H was done, so H is as good as ever.",
    );
    Ok(())
}

fn show_own(found: &Found, x: &Buffer) -> Result<()> {
    println!("  X  memory of the device");
    println!("  H  memory of the host that was copied to the device\n");
    let h = rig::host().create_buffer(LEN)?;
    rig::copy(&h, x)?;
    (found.crash)(&found.device, x)?;
    show_memory(&[("X", x, LOST), ("H", &h, OK)])?;
    explain("This device reaches no memory of the host where it lies, so it can harm none.");
    Ok(())
}

/// A call on a buffer, with other memory of the host to copy from and to.
type Call = fn(&Buffer, &Buffer) -> Result<()>;

/// What is called, and what memory answers that the loss harmed; other memory answers all.
const CALLS: [(&str, Call, &str); 12] = [
    ("ask for length and stamps", |of, _| facts(of), OK),
    ("wait until it may be read", |of, _| of.wait(Use::Read), LOST),
    ("copy from it", |of, other| rig::copy(of, other), LOST),
    ("take bytes out", |of, _| of.blit_to(0, &mut [0; 4]), LOST),
    ("wait until it may be written", |of, _| of.wait(Use::Write), LOST),
    ("copy into it", |of, other| rig::copy(other, of), LOST),
    ("put bytes in", |of, _| of.blit_from(0, &[0; 4]), LOST),
    ("fill it", |of, _| of.fill(0), LOST),
    ("claim it for reading", |of, _| of.claim_read().map(drop), LOST),
    ("borrow it on the host", |of, _| of.borrow(&rig::host()).map(drop), LOST),
    ("take a view of it", |of, _| of.view(0, 4).map(drop), OK),
    ("free it", |of, _| of.free(), OK),
];

fn facts(buffer: &Buffer) -> Result<()> {
    let _ = (buffer.len(), buffer.label(), buffer.stamps());
    Ok(())
}

/// Calls everything on each buffer, under the letter of its column; `fate` is `LOST` where the loss
/// harmed it.
fn show_memory(columns: &[(&str, &Buffer, &str)]) -> Result<()> {
    let other = rig::host().create_buffer(LEN)?;
    let titles: Vec<&str> = iter::once("call").chain(columns.iter().map(|c| c.0)).collect();
    let mut table = Table::new(&titles);
    for (name, call, harmed) in CALLS {
        let mut row = vec![name];
        for (letter, buffer, fate) in columns {
            let answer = answer(&call(buffer, &other));
            let promised = if *fate == LOST { harmed } else { OK };
            assert_eq!(answer, promised, "{name}: {letter}");
            row.push(answer);
        }
        table.row(&row);
    }
    table.print();
    Ok(())
}

fn show_device(device: &Device, code: &Code) {
    let mut table = Table::new(&["call on the device", "answer"]);
    table.row(&["create a buffer", answer(&device.create_buffer(LEN))]);
    table.row(&["load code", answer(&device.kernel(code.clone()))]);
    table.row(&["prepare work", answer(&device.prepare().build())]);
    let first = device.wait(1);
    table.row(&["wait for its first work, long done", answer(&first)]);
    table.row(&["ask how much work it was given", &device.submitted().to_string()]);
    table.row(&["ask how much work it did", &device.reached().to_string()]);
    table.row(&["ask why it was lost", &device.lost().unwrap_or_default()]);
    table.print();
    assert!(matches!(first, Err(Error::Lost { .. })), "however old the work is");
}

/// Names the answer of a call.
fn answer<T>(result: &Result<T>) -> &'static str {
    result.as_ref().map_or_else(Error::code, |_| OK)
}

/// From this length on, memory of the host starts on a page, so that a GPU can reach it.
const LEN: u64 = 64 << 10;
const OK: &str = "answers";
const LOST: &str = "Lost";
