//! A device that is lost, and which calls still answer.

use crate::devices::Found;
use crate::page::{heading, say, size};
use crate::table::Table;
use rig::{Buffer, Code, Device, Error, Result, Use};

/// Loses the device, and really calls everything.
pub fn show(found: &Found) -> Result<()> {
    let device = &found.device;
    heading(&format!("{}: when the device is lost", device.name()));
    say("A GPU can fail, be unplugged or be reset. Then its device is lost, for good and for one \
         reason, which every later error names. No call hangs and none panics. Here the device is \
         given broken work. After that, each call below is really made, and the table says what \
         it answered.");
    println!("  X  memory of the device");
    println!("  B  a borrow on the device, over memory of the host");
    println!("  H  memory of the host that the device used, in work that was done before the loss");
    println!("  K  memory of the host that the device was writing when it was lost\n");
    let double = device.kernel(found.double.clone())?;
    let x = device.create_buffer(LEN)?;
    let [g, h, k] = [create_on_host()?, create_on_host()?, create_on_host()?];
    let [b, h_there, k_there] = [&g, &h, &k].map(|buffer| buffer.borrow(device));
    let (Some(b), Some(h_there), Some(k_there)) = (b?, h_there?, k_there?) else {
        say("This device borrows no host memory, so only calls on the device itself are made.");
        device.device_lost("the program said so");
        show_device(device, &found.double);
        return Ok(());
    };
    double.launch([1, 1, 1]).writes(&h_there).submit()?.wait()?;
    (found.crash)(device, &k_there)?;
    show_memory([&x, &b, &h, &k])?;
    say(
        "Nobody knows which bytes of K were written, so rig shows none of them, now or later. The \
         work on H was done, so H is as good as ever.",
    );
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

fn create_on_host() -> Result<Buffer> {
    rig::host().create_buffer(LEN)
}

/// A call on a buffer, with other memory of the host to copy from and to.
type Call = fn(&Buffer, &Buffer) -> Result<()>;

/// What is called, and what each of X, B, H and K promises to answer.
const CALLS: [(&str, Call, [&str; 4]); 12] = [
    ("ask for length and stamps", |of, _| facts(of), [OK, OK, OK, OK]),
    ("wait until it may be read", |of, _| of.wait(Use::Read), [LOST, LOST, OK, LOST]),
    ("copy from it", |of, other| rig::copy(of, other), [LOST, LOST, OK, LOST]),
    ("take bytes out", |of, _| of.blit_to(0, &mut [0; 4]), [LOST, LOST, OK, LOST]),
    ("wait until it may be written", |of, _| of.wait(Use::Write), [LOST, LOST, OK, LOST]),
    ("copy into it", |of, other| rig::copy(other, of), [LOST, LOST, OK, LOST]),
    ("put bytes in", |of, _| of.blit_from(0, &[0; 4]), [LOST, LOST, OK, LOST]),
    ("fill it", |of, _| of.fill(0), [LOST, LOST, OK, LOST]),
    ("claim it for reading", |of, _| of.claim_read().map(drop), [LOST, LOST, OK, LOST]),
    ("borrow it on the host", |of, _| of.borrow(&rig::host()).map(drop), [LOST, LOST, OK, LOST]),
    ("take a view of it", |of, _| of.view(0, 4).map(drop), [OK, OK, OK, OK]),
    ("free it", |of, _| of.free(), [OK, OK, OK, OK]),
];

fn facts(buffer: &Buffer) -> Result<()> {
    let _ = (buffer.len(), buffer.label(), buffer.stamps());
    Ok(())
}

fn show_memory(buffers: [&Buffer; 4]) -> Result<()> {
    let other = create_on_host()?;
    let mut table = Table::new(["call", "X", "B", "H", "K"]);
    for (name, call, promised) in CALLS {
        let answers = buffers.map(|buffer| answer(&call(buffer, &other)));
        assert_eq!(answers, promised, "{name}");
        let [x, b, h, k] = answers;
        table.row([name, x, b, h, k]);
    }
    table.print();
    Ok(())
}

fn show_device(device: &Device, code: &Code) {
    let mut table = Table::new(["call on the device", "answer"]);
    table.row(["create a buffer", answer(&device.create_buffer(LEN))]);
    table.row(["load code", answer(&device.kernel(code.clone()))]);
    table.row(["prepare work", answer(&device.prepare().build())]);
    let first = device.wait(1);
    table.row(["wait for its first work, long done", answer(&first)]);
    table.row(["ask how much work it was given", &device.submitted().to_string()]);
    table.row(["ask how much work it did", &device.reached().to_string()]);
    table.row(["ask why it was lost", &device.lost().unwrap_or_default()]);
    table.print();
    assert!(matches!(first, Err(Error::Lost { .. })), "however old the work is");
}

/// Names the answer of a call.
fn answer<T>(result: &Result<T>) -> &'static str {
    result.as_ref().map_or_else(Error::code, |_| OK)
}

const LEN: u64 = 1 << 10;
const OK: &str = "answers";
const LOST: &str = "Lost";
