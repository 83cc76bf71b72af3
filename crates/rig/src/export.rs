//! Exports: host bytes handed out for good (S6.5).
//!
//! An export keeps the memory alive past its buffers' death, and is ordered by nothing. Its copies
//! move bytes by race-tolerant accesses, so that work beside them gives mixed bytes and never
//! undefined behaviour. Any thread may use one. The two raw doors are this file's unsafe code.

use crate::allocation::{Allocation, Pin};
use crate::bytes::HostBytes;
use crate::claim::{Answer, Ask, Pass};
use crate::entry;
use crate::error::{Misuse, Outcome, Result, check_range};
use crate::timeline::Access;
use crate::wait;
use std::sync::Arc;

/// Bytes handed out for good: reachable while it exists, and ordered by nothing (S6.5).
///
/// Its copies check bounds and hold an access claim, wait for no work and ignore losses. Beside
/// device work they give mixed bytes, never undefined behaviour.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let buffer = rig::host().create_buffer(4)?;
/// buffer.fill(1)?;
/// let export = buffer.export()?;
/// buffer.free()?; // The export keeps the bytes.
///
/// export.copy_in(2, &[9, 9])?;
/// let mut bytes = [0; 4];
/// export.copy_out(0, &mut bytes)?;
/// assert_eq!(bytes, [1, 1, 9, 9]);
/// # Ok(())
/// # }
/// ```
pub struct Export {
    record: Pin,
    bytes: HostBytes,
}

impl Export {
    /// Makes an export of memory that was pinned before it was claimed.
    pub(crate) fn new(record: Pin, bytes: HostBytes) -> Self {
        Self { record, bytes }
    }

    /// Returns where the bytes are, if no access that conflicts is running: of one thread, nothing
    /// can begin until it gives it up.
    pub(crate) fn place(&self, call: &'static str, access: Access) -> Outcome<HostBytes> {
        entry::check(call)?;
        if access == Access::Write && self.record.is_read_only() {
            return Misuse::ReadOnly.of(call);
        }
        let ask = if access == Access::Write { Ask::MoverWrite } else { Ask::MoverRead };
        ExportClaim::new(call, &self.record, ask).map(|_claim| self.bytes)
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes.len_bytes()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, as they are at this moment. Waits for no work.
    ///
    /// # Errors
    ///
    /// `Misuse`: past the end; something that writes them is running (`Busy`).
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        entry::check("copy_out")?;
        check_range("copy_out", offset, into.len() as u64, self.len())?;
        let _claim = ExportClaim::new("copy_out", &self.record, Ask::MoverRead)?;
        self.bytes.copy_out(offset, into);
        Ok(())
    }

    /// Copies bytes in. Waits for no work.
    ///
    /// # Errors
    ///
    /// `Misuse`: past the end; read-only memory; something that uses them is running (`Busy`).
    pub fn copy_in(&self, offset: u64, from: &[u8]) -> Result<()> {
        entry::check("copy_in")?;
        check_range("copy_in", offset, from.len() as u64, self.len())?;
        if self.record.is_read_only() {
            return Misuse::ReadOnly.of("copy_in");
        }
        let _claim = ExportClaim::new("copy_in", &self.record, Ask::MoverWrite)?;
        self.bytes.copy_in(offset, from);
        Ok(())
    }

    /// Returns the bytes themselves.
    ///
    /// # Safety
    ///
    /// Nothing may write them while the slice is used: no work of a device, and no access through
    /// a buffer or an export of this memory. rig orders nothing of it.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the export keeps the memory, and the caller keeps writers away.
        unsafe {
            let (start, len) = self.bytes.raw();
            std::slice::from_raw_parts(start, len)
        }
    }

    /// Returns the bytes themselves, to change.
    ///
    /// # Safety
    ///
    /// As [`Export::bytes`]; and nothing may read them either, and the memory is not read-only.
    #[expect(clippy::mut_from_ref, reason = "the caller vouches that nothing else has them")]
    pub unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the export keeps the memory, and the caller keeps everything else away.
        unsafe {
            let (start, len) = self.bytes.raw();
            std::slice::from_raw_parts_mut(start, len)
        }
    }
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Export({} bytes)", self.len())
    }
}

/// The claim of one export's copy. Work that is being handed over does not stand in its way; only
/// the host's own accesses do.
struct ExportClaim<'a> {
    record: &'a Arc<Allocation>,
    ask: Option<Ask>,
}

impl<'a> ExportClaim<'a> {
    fn new(call: &'static str, record: &'a Arc<Allocation>, ask: Ask) -> Outcome<Self> {
        match record.ask(ask, Pass::Mixed) {
            Answer::Granted => Ok(Self { record, ask: Some(ask) }),
            // A free ended the buffers, and with them every access but those of exports.
            Answer::Dead => Ok(Self { record, ask: None }),
            answer => wait::judge_claim(call, record, answer).map(|_| Self { record, ask: None }),
        }
    }
}

impl Drop for ExportClaim<'_> {
    fn drop(&mut self) {
        if let Some(ask) = self.ask {
            self.record.release(ask);
        }
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::device::host;
    use crate::error::Misuse;
    use std::thread;

    #[test]
    fn s6_5_an_export_reaches_its_bytes_beside_accesses_and_after_all_handles() {
        let buffer = host().create_buffer(16).unwrap();
        let export = buffer.view(4, 8).unwrap().export().unwrap();
        thread::scope(|threads| {
            for byte in 1..3_u8 {
                let export = &export;
                let copied = move || export.copy_in(4 * u64::from(byte - 1), &[byte; 4]);
                threads.spawn(move || {
                    // The copy of the other thread may run.
                    while let Err(error) = copied() {
                        assert_eq!(error.misuse(), Some(&Misuse::Busy));
                        thread::yield_now();
                    }
                });
            }
        });
        // SAFETY: the threads have ended, and nothing else writes.
        let seen = buffer.read(|bytes| (bytes[4..12].to_vec(), unsafe { export.bytes() }.to_vec()));
        let wanted: Vec<u8> = [[1; 4], [2; 4]].concat();
        assert_eq!(seen.unwrap(), (wanted.clone(), wanted));
        buffer.free().unwrap();
        drop(buffer);
        // SAFETY: no handle is left.
        unsafe { export.bytes_mut() }.fill(6);
        let mut out = [0; 3];
        export.copy_out(5, &mut out).unwrap();
        assert_eq!(out, [6; 3]);
    }
}
