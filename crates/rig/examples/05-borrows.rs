//! Borrows: a buffer on another device over the same bytes, without a copy.
//!
//! The rules are S4.8 and S4.11 of SEMANTICS.md, and the table of borrows above them.

use rig::memory::function;
use rig::{Result, Use};

fn main() -> Result<()> {
    let host = rig::host();
    let device = rig::memory::open("M")?;
    let increment = device.kernel(function("increment", |call| {
        call.update::<u32>(0, |numbers| numbers.iter_mut().for_each(|number| *number += 1));
    }))?;

    // Here are a million numbers in memory of the host.
    let numbers = host.create_buffer(4 << 20)?;
    numbers.write_as::<u32, _>(|numbers| numbers.fill(1))?;

    // A borrow lets the device work on them where they lie. Nothing is copied or allocated: the
    // device only has to be told where they are.
    let held = device.held();
    let there = numbers.borrow(&device)?.expect("a memory device reaches the host's memory");
    println!("{numbers:?}\n  borrowed as {there:?}");
    assert_eq!((there.device(), device.held()), (device.clone(), held));

    // Work takes buffers that are on its own device: the borrow, not the original.
    assert!(increment.launch([1, 1, 1]).writes(&numbers).submit().is_err());
    let point = increment.launch([1, 1, 1]).writes(&there).submit()?;

    // Both are the same memory, with the same stamps. So the host's read waits for the device.
    assert_eq!(numbers.stamps().write, Some(point));
    assert_eq!(numbers.read_as::<u32, _>(|numbers| numbers[999_999])?, 2);

    // It goes both ways: the host borrows what a device has, if it can address it.
    let own = device.create_buffer(4)?;
    own.fill(0)?;
    increment.launch([1, 1, 1]).writes(&own).submit()?;
    let on_host = own.borrow(&host)?.expect("the host addresses a memory device's bytes");
    assert_eq!(on_host.read_as::<u32, _>(|numbers| numbers[0])?, 1);

    // Where the bytes cannot be reached in place, the answer is none, and a copy is the way.
    let disk = rig::file::open("disk")?;
    assert!(own.borrow(&disk)?.is_none(), "files hold no memory");

    // A borrow of a borrow is a borrow of the original: nothing piles up.
    let other = rig::memory::open("N")?;
    let twice = there.borrow(&other)?.expect("another memory device");
    assert!(twice.overlaps(&numbers) && twice.device() == other);
    drop(twice);

    // A view of a borrow reaches only its part, and stamps the whole memory all the same.
    let second_half = there.view(2 << 20, 2 << 20)?;
    let point = increment.launch([1, 1, 1]).writes(&second_half).submit()?;
    assert_eq!(there.stamps().write, Some(point));
    let ends = numbers.read_as::<u32, _>(|numbers| [numbers[0], numbers[(1 << 20) - 1]])?;
    println!("the first number is {}, the last is {}", ends[0], ends[1]);
    assert_eq!(ends, [2, 3]);

    // The bytes live as long as any buffer over them does. Here the original goes first.
    drop(numbers);
    increment.launch([1, 1, 1]).writes(&there).submit()?;
    there.wait(Use::Read)?;
    let back = there.borrow(&host)?.expect("it is the host's own memory");
    assert_eq!(back.read_as::<u32, _>(|numbers| numbers[0])?, 3);

    // When the last borrow goes, its device stops reaching the bytes, once its work is done. Only
    // then does the memory return to the host's cache. Most calls on a device take up what was let
    // go of, and a thread of rig's own looks now and then. A trim does it at once.
    drop((there, second_half, back));
    rig::devices().iter().try_for_each(|device| device.trim().map(drop))?;
    println!("after the last borrow: {} bytes in the host's cache", host.cached());
    assert_eq!(host.cached(), 4 << 20);
    Ok(())
}
