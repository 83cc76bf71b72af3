//! Loss: a device ends for good, everybody is told, and nothing that was safe is harmed.
//!
//! The rules are S1.3, S12.2 and S12.5 of SEMANTICS.md, and the table of losses above them.

use rig::memory::function;
use rig::{Error, Result, Use};

fn main() -> Result<()> {
    let host = rig::host();
    let device = rig::memory::open("M")?;
    let fill = device.kernel(function("fill", |call| call.set(0, &[7_u32])))?;
    let broken = device.kernel(function("broken", |_| panic!("a fault on purpose")))?;

    // Three buffers: the device's own, one of the host that it wrote before, and one of the host
    // that it is writing when it fails.
    let own = device.create_buffer(4)?;
    let safe = host.create_buffer(4)?;
    let torn = host.create_buffer(4)?;
    let safe_there = safe.borrow(&device)?.expect("a memory device reaches the host's memory");
    let torn_there = torn.borrow(&device)?.expect("a memory device reaches the host's memory");
    let done = fill.launch([1, 1, 1]).writes(&safe_there).submit()?;
    done.wait()?;

    // A panic in a memory device's code is to it what a fault is to a GPU. The submission that met
    // it tells the loss, and every call on the device does from then on.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = broken.launch([1, 1, 1]).writes(&torn_there).submit();
    std::panic::set_hook(usual);
    let error = outcome.expect_err("the work failed");
    println!("the submission: {error}");
    assert!(matches!(error, Error::Lost { .. }));
    assert!(is_lost(&device.create_buffer(4)));
    assert!(is_lost(&device.wait(1)), "however old the work is");

    // Facts still answer: what was given to the device, what it did, and why it ended.
    assert_eq!((device.submitted(), device.reached()), (2, 1));
    let why = device.lost().expect("the device is lost");
    println!("it did {} of {}, and ended since: {why}", device.reached(), device.submitted());
    let (name, first) = rig::failure().expect("the first loss of the process");
    assert_eq!((&*name, &first), ("M", &why));

    // Its memory is gone, and so is what it was writing: nobody knows which bytes it reached.
    let mut bytes = [0; 4];
    assert!(is_lost(&own.blit_to(0, &mut bytes)));
    assert!(is_lost(&torn.read(|_| ())));
    assert!(is_lost(&torn.wait(Use::Write)), "writing over it repairs nothing");

    // What it had finished is as good as ever.
    assert_eq!(safe.read_as::<u32, _>(|numbers| numbers[0])?, 7);
    safe.write_as::<u32, _>(|numbers| numbers[0] = 8)?;

    // Letting go works as always. All memory comes back, as the next call on the device shows.
    drop((own, torn, torn_there, safe_there));
    assert!(is_lost(&device.create_buffer(4)));
    assert_eq!(device.held(), 0);

    // Opening the name again gives a new device. It starts at 0 and is not equal to the old one.
    let again = rig::memory::open("M")?;
    assert!(again != device && again.submitted() == 0);
    let there = safe.borrow(&again)?.expect("the memory was not harmed");
    let read = again.prepare().reads(&there).build()?.submit(&[], &[])?;
    println!("the new device did {read}");

    // A program that is done with a device closes it: its work is waited for, then it is lost
    // with the reason "closed". Other devices and the host go on.
    again.close()?;
    assert_eq!(again.lost().as_deref(), Some("closed"));
    assert_eq!(safe.read_as::<u32, _>(|numbers| numbers[0])?, 8);
    assert_eq!(rig::failure().map(|(_, why)| why), Some(first), "a close is no failure");
    Ok(())
}

/// Whether a call told a loss.
fn is_lost<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::Lost { .. }))
}
