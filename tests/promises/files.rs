//! Files as buffers (S1.10 to S1.12).

use crate::bench::{bytes_of, misuse, pattern, unsupported};
use rig::{Device, FileMode, Misuse, copy, file, host};
use rig_support::{Scratch, drain};
use std::fs;

/// Opens a device of files of its own for a test.
fn files(name: &str) -> Device {
    file::open(name).unwrap()
}

#[test]
fn s1_10_a_file_is_created_at_a_length_and_read_and_written_at_offsets() {
    let (device, path) = (files("s1_10 created"), Scratch::new());
    let file = device.create_file(&path, 1_000).unwrap();
    assert_eq!((file.len(), fs::metadata(&path).unwrap().len()), (1_000, 1_000));
    let bytes = pattern(300, 1);
    file.blit_from(123, &bytes).unwrap();
    assert_eq!(fs::read(&path).unwrap()[123..423], bytes);
    let mut seen = [0; 300];
    file.blit_to(123, &mut seen).unwrap();
    assert_eq!(seen[..], bytes);
    device.close().unwrap();
}

#[test]
fn s1_10_a_file_that_exists_opens_at_its_length_which_stays() {
    let (device, path) = (files("s1_10 opened"), Scratch::new());
    fs::write(&path, pattern(500, 2)).unwrap();
    let file = device.open_file(&path, FileMode::ReadOnly).unwrap();
    fs::write(&path, pattern(900, 2)).unwrap();
    assert_eq!(bytes_of(&file), pattern(500, 2));
    assert_eq!(misuse(file.view(0, 501)), Misuse::OutOfRange { end_bytes: 501, len_bytes: 500 });
    device.close().unwrap();
}

#[test]
fn s1_10_files_are_charged_to_nothing_and_take_no_value() {
    let (device, path) = (files("s1_10 free"), Scratch::new());
    let file = device.create_file(&path, 1 << 20).unwrap();
    file.fill(7).unwrap();
    assert_eq!((device.held(), device.submitted()), (0, 0));
    drop(file);
    drain(&device);
    assert_eq!((device.held(), device.cached()), (0, 0));
    unsupported(device.create_buffer(10));
    device.close().unwrap();
}

#[test]
fn s1_10_two_opens_of_one_file_never_overlap() {
    let (device, path) = (files("s1_10 twice"), Scratch::new());
    let one = device.create_file(&path, 64).unwrap();
    let two = device.open_file(&path, FileMode::ReadWrite).unwrap();
    assert!(one.overlaps(&one) && !one.overlaps(&two));
    one.fill(9).unwrap();
    copy(&one, &two).unwrap();
    assert_eq!(bytes_of(&two), [9; 64]);
    device.close().unwrap();
}

#[test]
fn s1_11_a_missing_file_is_unsupported_with_the_systems_text() {
    let (device, path) = (files("s1_11 missing"), Scratch::new());
    let system = fs::File::open(&path).unwrap_err().to_string();
    let why = unsupported(device.open_file(&path, FileMode::ReadOnly));
    assert!(why.contains(&system), "{why}");
    assert_eq!(device.lost(), None);
    device.close().unwrap();
}

#[test]
fn s1_11_a_shortened_file_fails_alone() {
    let (device, path) = (files("s1_11 shortened"), Scratch::new());
    let (file, other) = (device.create_file(&path, 100).unwrap(), Scratch::new());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    unsupported(file.blit_to(0, &mut [0; 100]));
    unsupported(copy(&file, &host().create_buffer(100).unwrap()));
    assert_eq!(device.lost(), None);
    device.create_file(&other, 10).unwrap().fill(1).unwrap();
    file.blit_from(0, &[1; 100]).unwrap();
    assert_eq!(bytes_of(&file), [1; 100], "a write makes it long again");
    device.close().unwrap();
}

#[test]
fn s1_12_a_file_opened_read_only_makes_a_read_only_buffer() {
    let (device, path) = (files("s1_12"), Scratch::new());
    fs::write(&path, pattern(16, 3)).unwrap();
    let file = device.open_file(&path, FileMode::ReadOnly).unwrap();
    assert!(file.is_read_only());
    let empty = file.view(0, 0).unwrap();
    let none = host().create_buffer(0).unwrap();
    assert_eq!(misuse(file.fill(0)), Misuse::ReadOnly);
    assert_eq!(misuse(empty.fill(0)), Misuse::ReadOnly);
    assert_eq!(misuse(file.blit_from(0, &[])), Misuse::ReadOnly);
    assert_eq!(misuse(copy(&none, &empty)), Misuse::ReadOnly);
    assert_eq!(misuse(file.wait(rig::Use::Write)), Misuse::ReadOnly);
    assert_eq!(fs::read(&path).unwrap(), pattern(16, 3));
    device.close().unwrap();
}

#[test]
fn s12_5_a_file_device_ends_at_once() {
    let (device, path) = (files("s12_5 files"), Scratch::new());
    let file = device.create_file(&path, 10).unwrap();
    device.close().unwrap();
    assert_eq!(device.lost().as_deref(), Some("closed"));
    assert!(matches!(file.fill(1), Err(rig::Error::Lost { .. })));
    assert_eq!(fs::metadata(&path).unwrap().len(), 10);
}
