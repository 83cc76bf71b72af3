//! S7.2, rows 9 to 12, and S15 "Files": copies from and to files.

use crate::bench::{
    buffer_of, bytes_of, finish, host_buffer_of, lost, misuse, own_halves, pattern, poll,
    unsupported,
};
use rig::driver::Addressed;
use rig::{Buffer, Device, FileMode, Misuse, copy, copy_async, host, wrap};
use rig_support::{Scratch, Script, drain};
use std::ops::Deref;

/// A file open to read and write, and where it is.
struct File {
    buffer: Buffer,
    path: Scratch,
}

impl File {
    fn new(device: &Device, bytes: &[u8]) -> Self {
        let path = Scratch::new();
        std::fs::write(&path, bytes).unwrap();
        Self { buffer: device.open_file(&path, FileMode::ReadWrite).unwrap(), path }
    }

    fn read(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

impl Deref for File {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

#[test]
fn s7_2_between_a_file_and_memory_that_the_host_addresses_the_file_is_read_and_written() {
    let files = rig::file::open("s7.2 addressed files").unwrap();
    let m = rig::memory::open("s7.2 files, memory").unwrap();
    let w = Script::new("s7.2 files, mapped").addressed(Addressed::WhileMapped).open();
    let f = File::new(&files, &pattern(100, 1));
    for (at, device) in [&host(), &m, &w.device].into_iter().enumerate() {
        let x = device.create_buffer(100).unwrap();
        f.blit_from(0, &pattern(100, at as u64)).unwrap();
        copy(&f, &x).unwrap();
        assert_eq!(bytes_of(&x), pattern(100, at as u64));
        x.fill(at as u8).unwrap();
        copy(&x, &f).unwrap();
        assert_eq!(f.read(), [at as u8; 100]);
        assert_eq!((device.submitted(), f.stamps()), (0, Default::default()));
    }
}

#[test]
fn s7_2_between_a_file_and_a_devices_memory_it_is_staged() {
    let files = rig::file::open("s7.2 staged files").unwrap();
    let d = own_halves(Script::new("s7.2 files, staged")).open();
    let len = 2 * d.facts().half_bytes + 3;
    let (f, x) = (File::new(&files, &pattern(len, 2)), d.create_buffer(len).unwrap());
    copy(&f, &x).unwrap();
    assert_eq!(d.submitted(), 3);
    let g = File::new(&files, &vec![0; len as usize]);
    copy(&x, &g).unwrap();
    assert_eq!(d.submitted(), 6);
    assert!(g.read() == pattern(len, 2));
}

#[test]
fn s7_2_between_files_it_is_read_into_a_half_and_written() {
    let files = rig::file::open("s7.2 two files").unwrap();
    let len = (9 << 20) + 5;
    let f = File::new(&files, &pattern(len, 3));
    let g = File::new(&files, &vec![0; len as usize]);
    copy(&f, &g).unwrap();
    assert!(g.read() == pattern(len, 3));
    let (left, right) = (f.view(0, 1000).unwrap(), f.view(1000, 1000).unwrap());
    copy(&left, &right).unwrap();
    assert_eq!(f.read()[1000..2000], pattern(len, 3)[..1000]);
    let refused = copy(&f.view(0, 2).unwrap(), &f.view(1, 2).unwrap());
    assert_eq!(misuse(refused), Misuse::Overlap);
}

#[test]
fn s15_files_40_mib_at_an_odd_offset() {
    let files = rig::file::open("s15 large files").unwrap();
    let d = Script::new("s15 files, staged").silent().open();
    let len: u64 = 40 << 20;
    let path = Scratch::new();
    let f = files.create_file(&path, len + 9).unwrap();
    let part = f.view(7, len).unwrap();
    let bytes = pattern(len, 4);
    part.blit_from(0, &bytes).unwrap();
    let x = d.create_buffer(len + 1).unwrap();
    let odd = x.view(1, len).unwrap();
    copy(&part, &odd).unwrap();
    let h = wrap(vec![0_u8; len as usize]);
    copy(&odd, &h).unwrap();
    assert!(h.read(|seen| seen == bytes).unwrap());
    f.fill(0).unwrap();
    copy(&odd, &part).unwrap();
    let seen = std::fs::read(&path).unwrap();
    assert!(
        seen[7..len as usize + 7] == bytes[..] && seen[..7] == [0; 7] && seen.ends_with(&[0; 2])
    );
}

#[test]
fn s15_files_both_buffers_outlive_a_transfer() {
    let files = rig::file::open("s15 outlive files").unwrap();
    let d = own_halves(Script::new("s15 files, outlive")).open();
    let len = 3 * d.facts().half_bytes;
    let File { buffer: f, path } = File::new(&files, &vec![0; len as usize]);
    let x = d.create_buffer(len).unwrap();
    x.fill(6).unwrap();
    let copying = async move { copy_async(&x, &f).await };
    let mut copying = Box::pin(copying);
    assert!(poll(copying.as_mut()).is_pending());
    drain(&d);
    drain(&files);
    let live = d.stats().live_bytes;
    assert!(live >= len, "the call keeps what it moves");
    d.control.run_all();
    assert!(poll(copying.as_mut()).is_pending());
    d.control.run_all();
    finish(copying).unwrap();
    assert!(std::fs::read(&path).unwrap() == vec![6; len as usize]);
    drain(&d);
    assert_eq!(d.stats().live_bytes, 0);
}

#[test]
fn s15_files_read_only_ones_refuse_at_length_0() {
    let files = rig::file::open("s15 read-only files").unwrap();
    let (path, other) = (Scratch::new(), Scratch::new());
    std::fs::write(&path, [1; 8]).unwrap();
    let f = files.open_file(&path, FileMode::ReadOnly).unwrap();
    let (none, h) = (f.view(3, 0).unwrap(), host().create_buffer(0).unwrap());
    let g = files.create_file(&other, 0).unwrap();
    for answer in [none.fill(1), none.blit_from(0, &[]), copy(&h, &none), copy(&g, &none)] {
        assert_eq!(misuse(answer), Misuse::ReadOnly);
    }
    copy(&none, &g).unwrap();
    assert_eq!(bytes_of(&f), [1; 8]);
}

#[test]
fn s15_files_a_shortened_one_fails_each_route_and_loses_nothing() {
    let files = rig::file::open("s15 shortened files").unwrap();
    let d = own_halves(Script::new("s15 shortened, staged")).open();
    let (f, g) = (File::new(&files, &[1; 100]), File::new(&files, &[2; 100]));
    std::fs::File::options().write(true).open(&f.path).unwrap().set_len(10).unwrap();
    let x = buffer_of(&d, &[7; 100]);
    let h = host_buffer_of(&[0; 100]);
    for dst in [&x, &h, &g.buffer] {
        assert!(unsupported(copy(&f, dst)).contains("was shortened"));
    }
    assert_eq!((bytes_of(&x), g.read()), (vec![7; 100], vec![2; 100]));
    assert!(files.lost().is_none());
    copy(&g, &x).unwrap();
    assert_eq!(bytes_of(&x), [2; 100]);
}

#[test]
fn s7_1_copies_of_a_lost_devices_files_are_lost() {
    let files = rig::file::open("s7.1 files").unwrap();
    let (f, g) = (File::new(&files, &[1; 100]), host_buffer_of(&[0; 100]));
    files.close().unwrap();
    assert_eq!(lost(copy(&f, &g)).1, "closed");
    assert_eq!(lost(copy(&g, &f)).1, "closed");
}
