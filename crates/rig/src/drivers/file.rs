//! Files: each open is a region, read and written by the calling thread at offsets.
//!
//! A region's length is fixed when it opens, and two opens are two regions that never overlap
//! (S1.10). Nothing is buffered. What fails concerns one file and names its path; nothing here
//! faults (S1.11). Any thread may call anything; one leaf lock guards the table, and no system
//! call runs under it. Where the platform has no files, creating and opening are refused.

use crate::driver::{
    Addressed, Alloc, Ask, Code, Driver, Facts, Fault, FileError, FileIo, FileMode, HandOver, Lent,
    Load, Producer, Region, Stopped, Work,
};
use crate::drivers::position;
use crate::drivers::slab::Slab;
use crate::sync::Mutex;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Makes the driver of one device of files.
pub fn driver() -> Arc<dyn Driver> {
    Arc::new(Files { table: Mutex::new(Slab::new()) })
}

/// A device whose buffers are files.
#[derive(Debug)]
struct Files {
    /// Guards the table from numbers to open files. A leaf lock, held for one look-up.
    table: Mutex<Slab<Arc<OpenFile>>>,
}

impl Driver for Files {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn facts(&self) -> Facts {
        Facts { addressed: Addressed::Never, ..Facts::host("files") }
    }

    fn alloc(&self, _: Ask) -> Alloc {
        Alloc::Refused
    }

    fn free(&self, region: Region) {
        // The file closes here, or with the last read or write of it that is under way.
        let open = self.table.lock().remove(region.0);
        debug_assert!(open.is_some(), "a file is freed once");
    }

    fn lend(&self, _: Region) -> Option<Lent> {
        None
    }

    fn file(&self) -> Option<&dyn FileIo> {
        Some(self)
    }

    fn load(&self, _: &Code) -> Load {
        Load::Rejected(Arc::from("files run no code"))
    }

    fn hand_over(&self, _: u64, _: &Work<'_>, _: &[Producer<'_>]) -> HandOver {
        HandOver::Rejected(Arc::from("files have no timeline"))
    }

    fn reached(&self) -> Result<u64, Fault> {
        Ok(0)
    }

    fn stop(&self) {}

    fn poll_stopped(&self, _: &Waker) -> Poll<Stopped> {
        Poll::Ready(Stopped::Settled)
    }
}

impl FileIo for Files {
    fn create(&self, path: &Path, len: u64) -> Result<Region, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, fresh) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                check_regular(path)?;
                (options.open(path).map_err(|error| failed(path, error))?, false)
            }
            Err(error) => return Err(failed(path, error)),
        };
        if let Err(error) = file.set_len(len) {
            if fresh {
                // The call changed nothing, as far as the system lets us.
                let _ = fs::remove_file(path);
            }
            return Err(failed(path, error));
        }
        Ok(self.insert(path, file, len, FileMode::ReadWrite))
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<(Region, u64), FileError> {
        check_regular(path)?;
        let writes = mode == FileMode::ReadWrite;
        let file = OpenOptions::new().read(true).write(writes).open(path);
        let file = file.map_err(|error| failed(path, error))?;
        let len = file.metadata().map_err(|error| failed(path, error))?.len();
        Ok((self.insert(path, file, len, mode), len))
    }

    fn read_at(&self, file: Region, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.find(file, offset, into.len())?.read_at(offset, into)
    }

    fn write_at(&self, file: Region, offset: u64, from: &[u8]) -> Result<(), FileError> {
        self.find(file, offset, from.len())?.write_at(offset, from)
    }
}

impl Files {
    fn insert(&self, path: &Path, file: File, len: u64, mode: FileMode) -> Region {
        let open = OpenFile { path: path.to_owned(), file, len, mode };
        Region(self.table.lock().insert(Arc::new(open)), 0)
    }

    /// Returns the open file, once the range is found to lie within it.
    fn find(&self, region: Region, offset: u64, len: usize) -> Result<Arc<OpenFile>, FileError> {
        let open = self.table.lock().get(region.0).cloned();
        let open = open.ok_or_else(|| FileError::Failed(Arc::from("the file is closed")))?;
        match offset.checked_add(len as u64) {
            Some(end) if end <= open.len => Ok(open),
            _ => Err(open.failed(format!("{len} bytes at {offset} of {}", open.len))),
        }
    }
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: File,
    /// Its length when it opened, which the buffer keeps.
    len: u64,
    mode: FileMode,
}

impl OpenFile {
    fn read_at(&self, mut offset: u64, mut into: &mut [u8]) -> Result<(), FileError> {
        while !into.is_empty() {
            match position::read_at(&self.file, offset, into) {
                Ok(0) => {
                    let text = format!("was shortened, and ends before byte {offset}");
                    return Err(self.failed(text));
                }
                Ok(moved) => {
                    into = &mut into[moved..];
                    offset += moved as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn write_at(&self, mut offset: u64, mut from: &[u8]) -> Result<(), FileError> {
        if self.mode == FileMode::ReadOnly {
            return Err(self.failed("was opened read-only"));
        }
        while !from.is_empty() {
            match position::write_at(&self.file, offset, from) {
                Ok(0) => return Err(self.failed("takes no more bytes")),
                Ok(moved) => {
                    from = &from[moved..];
                    offset += moved as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, why: impl std::fmt::Display) -> FileError {
        failed(&self.path, why)
    }
}

/// Refuses what has no fixed length, before it is opened: opening a pipe would block.
fn check_regular(path: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(path).map_err(|error| failed(path, error))?;
    if metadata.is_file() { Ok(()) } else { Err(failed(path, "is not a file of fixed length")) }
}

fn failed(path: &Path, why: impl std::fmt::Display) -> FileError {
    FileError::Failed(Arc::from(format!("{}: {why}", path.display())))
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::driver::{Alloc, Ask, FileError, FileIo, FileMode, Kind, Region};
    use crate::drivers::file;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A folder of one test, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("rig-file-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).expect("a temporary folder");
            Self(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn with_files(f: impl FnOnce(&dyn FileIo, &dyn Fn(Region), &Folder)) {
        let driver = file::driver();
        let folder = Folder::new();
        f(driver.file().expect("files"), &|region| driver.free(region), &folder);
    }

    fn text<T: std::fmt::Debug>(answer: Result<T, FileError>, path: &Path) -> String {
        let Err(FileError::Failed(text)) = answer else { panic!("{answer:?} is no failure") };
        assert!(text.starts_with(&path.display().to_string()), "{text} names no path");
        text.to_string()
    }

    #[test]
    fn s1_10_a_created_file_has_its_length_and_keeps_what_is_written() {
        with_files(|files, free, folder| {
            let path = folder.path("a");
            let region = files.create(&path, 11).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 11);
            files.write_at(region, 3, b"hello").unwrap();
            let mut seen = [9; 11];
            files.read_at(region, 0, &mut seen).unwrap();
            assert_eq!(&seen, b"\0\0\0hello\0\0\0");
            free(region);
            assert_eq!(std::fs::read(&path).unwrap(), seen);
        });
    }

    #[test]
    fn s1_10_every_offset_and_length_is_byte_exact() {
        with_files(|files, free, folder| {
            let path = folder.path("a");
            let mut model = vec![0; 32];
            let region = files.create(&path, 32).unwrap();
            for offset in 0..15 {
                for len in 0..18 {
                    let from: Vec<u8> = (0..len).map(|at| (offset * 18 + at) as u8).collect();
                    model[offset..offset + len].copy_from_slice(&from);
                    files.write_at(region, offset as u64, &from).unwrap();
                    let mut into = vec![0; len];
                    files.read_at(region, offset as u64, &mut into).unwrap();
                    assert_eq!(into, from);
                }
                assert_eq!(std::fs::read(&path).unwrap(), model);
            }
            free(region);
        });
    }

    #[test]
    fn s1_10_a_file_that_exists_is_cut_to_the_length_created() {
        with_files(|files, free, folder| {
            let path = folder.path("a");
            std::fs::write(&path, b"0123456789").unwrap();
            let region = files.create(&path, 4).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"0123");
            free(region);
        });
    }

    #[test]
    fn s1_10_two_opens_are_two_regions_over_one_file() {
        with_files(|files, free, folder| {
            let path = folder.path("a");
            let a = files.create(&path, 4).unwrap();
            let (b, len) = files.open(&path, FileMode::ReadWrite).unwrap();
            let (c, _) = files.open(&path, FileMode::ReadOnly).unwrap();
            assert!(a != b && b != c && a != c);
            assert_eq!(len, 4);
            files.write_at(a, 0, b"ab").unwrap();
            files.write_at(b, 2, b"cd").unwrap();
            free(a);
            let mut seen = [0; 4];
            files.read_at(c, 0, &mut seen).unwrap();
            assert_eq!(&seen, b"abcd");
            free(b);
            free(c);
            assert!(matches!(files.read_at(c, 0, &mut seen), Err(FileError::Failed(_))));
        });
    }

    #[test]
    fn s1_11_a_missing_or_shortened_file_fails_with_its_path_and_text() {
        with_files(|files, free, folder| {
            let missing = folder.path("missing");
            let expected = std::fs::metadata(&missing).unwrap_err().to_string();
            assert!(text(files.open(&missing, FileMode::ReadOnly), &missing).ends_with(&expected));
            let inside = folder.path("none/a");
            text(files.create(&inside, 1), &inside);
            assert!(text(files.create(&folder.0, 1), &folder.0).contains("fixed length"));
            let path = folder.path("a");
            let region = files.create(&path, 10).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
            let mut into = [0; 3];
            files.read_at(region, 1, &mut into).unwrap();
            let shortened = text(files.read_at(region, 2, &mut into), &path);
            assert!(shortened.ends_with("was shortened, and ends before byte 4"), "{shortened}");
            files.read_at(region, 10, &mut []).unwrap();
            free(region);
        });
    }

    #[test]
    fn s1_11_a_create_that_fails_leaves_no_file() {
        with_files(|files, _, folder| {
            let path = folder.path("huge");
            text(files.create(&path, u64::MAX), &path);
            assert!(!path.exists());
        });
    }

    #[test]
    fn s1_12_a_file_opened_read_only_is_not_written() {
        with_files(|files, free, folder| {
            let path = folder.path("a");
            std::fs::write(&path, b"0123").unwrap();
            let (region, _) = files.open(&path, FileMode::ReadOnly).unwrap();
            assert!(text(files.write_at(region, 0, b"x"), &path).contains("read-only"));
            text(files.write_at(region, 0, b""), &path);
            assert_eq!(std::fs::read(&path).unwrap(), b"0123");
            free(region);
        });
    }

    #[test]
    fn s1_10_a_file_of_length_0_opens_and_takes_no_bytes() {
        with_files(|files, free, folder| {
            let path = folder.path("empty");
            let region = files.create(&path, 0).unwrap();
            files.read_at(region, 0, &mut []).unwrap();
            files.write_at(region, 0, &[]).unwrap();
            assert!(text(files.write_at(region, 0, &[1]), &path).contains("1 bytes at 0 of 0"));
            let (again, len) = files.open(&path, FileMode::ReadWrite).unwrap();
            assert_eq!(len, 0);
            free(again);
            free(region);
        });
    }

    #[test]
    fn s1_10_files_allocate_no_memory_and_have_no_queue() {
        let driver = file::driver();
        let ask = Ask { kind: Kind::Device, len_bytes: 1, paged: false };
        assert_eq!(driver.alloc(ask), Alloc::Refused);
        assert!(driver.facts().queues.is_empty());
    }
}
