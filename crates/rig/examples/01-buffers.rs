//! Buffers and views: how memory is made, reached, shared, and let go of.
//!
//! The rules are S4.1, S4.5, S4.6 and S4.12 of SEMANTICS.md.

use rig::{Device, Error, Misuse, Result};

fn main() -> Result<()> {
    // A device without hardware, made of the computer's own memory.
    let device = rig::memory::open("M")?;
    use_buffers(&device)?;
    come_back(&device)
}

fn use_buffers(device: &Device) -> Result<()> {
    // The host is the program's own side. It is always open, and has memory like any device.
    let host = rig::host();
    let table = host.buffer(1 << 20).label("table").create()?;
    println!("made {table:?}");

    // Host memory is reached in place: the closure gets the bytes, and nobody else meanwhile.
    table.write(|bytes| bytes.fill(0))?;
    table.write_as::<u32, _>(|numbers| numbers[3] = 42)?;
    assert_eq!(table.read_as::<u32, _>(|numbers| numbers[3])?, 42);

    // A buffer is cheap to clone, and a clone is the same buffer.
    let same = table.clone();
    assert!(same.overlaps(&table) && same.len() == table.len());

    // A view is a buffer over part of another. It has its own range, and the same bytes.
    let row = table.view(8, 16)?;
    assert_eq!((row.offset(), row.len(), row.spans()), (8, 16, false));
    assert_eq!(row.read_as::<u32, _>(|numbers| numbers.to_vec())?, [0, 42, 0, 0]);
    row.view(4, 4)?.fill(0xff)?;
    assert_eq!(table.read_as::<u32, _>(|numbers| numbers[3])?, u32::MAX);

    // Two views overlap if they share a byte. A copy between overlapping ones is refused.
    let next = table.view(24, 16)?;
    assert!(row.overlaps(&table) && !row.overlaps(&next));
    rig::copy(&row, &next)?;
    let overlapping = table.view(20, 16)?;
    let refused = rig::copy(&row, &overlapping);
    assert!(matches!(refused, Err(Error::Misuse { what: Misuse::Overlap, .. })));

    // A caller's mistake is an error that says what was wrong. It never panics, and changes
    // nothing.
    let past_the_end = table.view(1 << 20, 1).expect_err("there is no such byte");
    println!("a view past the end: {past_the_end}");

    // A device makes buffers in the same way. Copies and blits reach any buffer on any device,
    // whoever has to move the bytes.
    let there = device.create_buffer(16)?;
    rig::copy(&row, &there)?;
    let mut bytes = [0_u8; 4];
    there.blit_to(4, &mut bytes)?;
    assert_eq!(bytes, [0xff; 4]);

    // Memory that the program has already can be a buffer too, without a copy.
    let wrapped = rig::wrap(vec![1.0_f32, 2.0, 3.0, 4.0]);
    rig::copy(&wrapped, &there)?;
    assert_eq!(there.read_as::<f32, _>(|numbers| numbers[2])?, 3.0);

    // Memory lives as long as any buffer over it does: here a view keeps all of it.
    drop((table, same));
    assert_eq!(row.read_as::<u32, _>(|numbers| numbers[1])?, u32::MAX);

    // `free` ends a buffer early, with all of its clones, views and borrows.
    row.free()?;
    let dead = next.read(|_| ()).expect_err("its bytes are gone");
    println!("a view of what was freed: {dead}");
    assert!(matches!(dead, Error::Misuse { what: Misuse::Dead { .. }, .. }));
    Ok(())
}

fn come_back(device: &Device) -> Result<()> {
    // That is hardly ever needed, since nothing has to be freed by hand. What was let go of serves
    // the next buffer of its size.
    let before = device.stats();
    for _ in 0..1_000 {
        device.create_buffer(64 << 10)?;
    }
    let after = device.stats();
    let asked = after.requested_count - before.requested_count;
    let made = after.actual_count - before.actual_count;
    println!("{asked} buffers asked for, {made} made by the driver");
    assert_eq!((asked, made), (1_000, 1));
    Ok(())
}
