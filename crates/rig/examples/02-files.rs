//! Files: buffers whose bytes are on disk, copied to and from any device in one call.
//!
//! The rules are S1.10, S1.11 and S1.12 of SEMANTICS.md.

use rig::driver::FileMode;
use rig::{Error, Misuse, Result};

fn main() -> Result<()> {
    // A device of files has no memory and no timeline. Each of its buffers is a file.
    let disk = rig::file::open("disk")?;
    let path = std::env::temp_dir().join(format!("rig-example-{}.bin", std::process::id()));
    let outcome = tell(&disk, &path);
    // The file itself is the program's: rig closes it, and never deletes it.
    drop(std::fs::remove_file(&path));
    outcome
}

fn tell(disk: &rig::Device, path: &std::path::Path) -> Result<()> {
    // A file that is created has a fixed length, here 4,000 records of 12 bytes.
    let records = disk.create_file(path, RECORD * COUNT)?;
    assert_eq!(disk.held(), 0, "files are charged to no budget");

    // The bytes come from a device, in one call. The thread that calls writes the file.
    let device = rig::memory::open("M")?;
    let there = device.create_buffer(RECORD * COUNT)?;
    there.write_as::<[u32; 3], _>(|records| {
        (0..).zip(records).for_each(|(at, record)| *record = [at, at * at, 7]);
    })?;
    rig::copy(&there, &records)?;
    println!("wrote {} records to {records:?}", COUNT);

    // A view of a file is a range of it. Offsets and lengths are exact to the byte.
    let third = records.view(3 * RECORD, RECORD)?;
    let mut record = [0_u32; 3];
    third.blit_to(0, as_bytes(&mut record))?;
    assert_eq!(record, [3, 9, 7]);
    third.view(8, 4)?.blit_from(0, &[8, 0, 0, 0])?;

    // The host does not address a file, so it cannot be read in place.
    let in_place = records.read(|_| ());
    assert!(matches!(in_place, Err(Error::Unsupported { .. })));

    // A file that exists opens with the length that it has, here read-only.
    let again = disk.open_file(path, FileMode::ReadOnly)?;
    assert_eq!(again.len(), RECORD * COUNT);
    assert!(!again.overlaps(&records), "two opens are two buffers");
    let fresh = device.create_buffer(again.len())?;
    rig::copy(&again, &fresh)?;
    assert_eq!(fresh.read_as::<[u32; 3], _>(|records| records[3])?, [3, 9, 8]);
    let refused = again.fill(0);
    assert!(matches!(refused, Err(Error::Misuse { what: Misuse::ReadOnly, .. })));

    // What fails for one file is told with the system's words, and the device goes on.
    let missing =
        disk.open_file(path.with_extension("none"), FileMode::ReadOnly).expect_err("there is none");
    println!("a file that is missing: {missing}");
    assert!(matches!(missing, Error::Unsupported { .. }));
    assert_eq!(disk.lost(), None);
    third.blit_to(0, as_bytes(&mut record))?;
    assert_eq!(record, [3, 9, 8]);
    Ok(())
}

fn as_bytes(record: &mut [u32; 3]) -> &mut [u8] {
    bytemuck::cast_slice_mut(record)
}

const RECORD: u64 = 12;
const COUNT: u64 = 4_000;
