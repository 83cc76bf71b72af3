//! Stamps: memory remembers who wrote it and who used it, and the next one waits for just that.
//!
//! The rules are S3.2, S3.4 and S3.6 of SEMANTICS.md.

use rig::memory::function;
use rig::{Code, Device, Result, Stamps, Use};

fn main() -> Result<()> {
    let a = rig::memory::open("A")?;
    let b = rig::memory::open("B")?;
    let on_a = a.kernel(increment())?;
    let on_b = b.kernel(increment())?;

    // A new buffer has no stamps: nobody has to be waited for.
    let x = a.create_buffer(4)?;
    assert_eq!(x.stamps(), Stamps::default());

    // The host leaves none either. A call of the host is over when it returns.
    x.write_as::<u32, _>(|numbers| numbers[0] = 0)?;
    assert_eq!(x.stamps(), Stamps::default());

    // Work that writes sets both stamps of its device: the last write, and the last use.
    let first = on_a.launch([1, 1, 1]).writes(&x).submit()?;
    show("A wrote x", &x.stamps(), [&a, &b]);
    assert_eq!(x.stamps().write, Some(first));
    assert_eq!(x.stamps().use_by(&a), Some(first));

    // Work that reads sets the last use alone.
    let y = a.create_buffer(4)?;
    let second = a.prepare().copy(&x, &y).build()?.submit(&[], &[])?;
    show("A read x", &x.stamps(), [&a, &b]);
    assert_eq!((x.stamps().write, x.stamps().use_by(&a)), (Some(first), Some(second)));
    assert_eq!(y.stamps().write, Some(second));

    // Each device has its own last use. B reaches the same bytes by a borrow, and the stamps are of
    // the memory, whoever comes to it on which way.
    let there = x.borrow(&b)?.expect("a memory device reaches the host's memory");
    let third = on_b.launch([1, 1, 1]).writes(&there).submit()?;
    show("B wrote x", &x.stamps(), [&a, &b]);
    assert_eq!(x.stamps(), there.stamps());
    assert_eq!(x.stamps().write, Some(third));
    assert_eq!(x.stamps().uses, [second, third]);

    // Who follows what is a rule of four lines.
    //   Work that reads on a device follows the last write, if that is another device's.
    //   Work that writes on a device follows the last use of each other device.
    //   The host, reading, follows the last write.
    //   The host, writing, follows the last use of every device.
    // So the next launch on A, which writes, waits for B:1 first, and nobody has to say so.
    let fourth = on_a.launch([1, 1, 1]).writes(&x).submit()?;
    assert!(third.is_reached());

    // And a read of the host waits for A:3, the last write, and for nothing else.
    assert_eq!(x.read_as::<u32, _>(|numbers| numbers[0])?, 3);
    assert!(fourth.is_reached());

    // One can wait for the same without touching the bytes.
    x.wait(Use::Read)?;
    x.wait(Use::Write)?;

    // Stamps stay after they are reached: they tell what happened, not what is left to happen.
    show("at the end", &x.stamps(), [&a, &b]);
    assert_eq!(x.stamps().write, Some(fourth));
    Ok(())
}

/// Code that adds 1 to each number of a buffer.
fn increment() -> Code {
    function("increment", |call| {
        call.update::<u32>(0, |numbers| numbers.iter_mut().for_each(|number| *number += 1));
    })
}

fn show(when: &str, stamps: &Stamps, devices: [&Device; 2]) {
    let text = |point: Option<rig::Point>| point.map_or("-".into(), |point| point.to_string());
    let [a, b] = devices.map(|device| text(stamps.use_by(device)));
    println!("{when:<10}  last write {:<4}  last use by A {a:<4}  by B {b}", text(stamps.write));
}
