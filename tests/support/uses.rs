//! What a program can do with a buffer, to be asked one after another.

use rig::{Buffer, Claims, Error, Result, Use, copy, host};

/// A call on a buffer, by name.
pub type Named = (&'static str, fn(&Buffer) -> Result<()>);

/// Calls that read, of any buffer.
pub const READS: [Named; 3] = [
    ("wait to read", |buffer| buffer.wait(Use::Read)),
    ("blit to bytes", |buffer| buffer.blit_to(0, &mut [0; 8])),
    ("copy from", |buffer| copy(buffer, &host().create_buffer(buffer.len())?)),
];

/// Calls that write, of any buffer. They leave its bytes as the host wrote them.
pub const WRITES: [Named; 4] = [
    ("wait to write", |buffer| buffer.wait(Use::Write)),
    ("blit from bytes", |buffer| buffer.blit_from(0, &[])),
    ("blit from 4 bytes", |buffer| buffer.blit_from(0, &[0; 4])),
    ("copy into", |buffer| {
        let whole = host().create_buffer(4)?;
        whole.fill(0)?;
        copy(&whole, &buffer.view(0, 4)?)
    }),
];

/// Calls that need that no work is left which might use the memory.
pub const CLAIMS: [Named; 2] = [
    ("claim to read", |buffer| buffer.claim_read().map(drop)),
    ("claim all", |buffer| Claims::with(&[buffer], &[], |_| ())),
];

/// A read in place, of a buffer that the host addresses.
pub const READ: Named = ("read", |buffer| buffer.read(|_| ()));

/// A write in place, of a buffer that the host addresses.
pub const WRITE: Named = ("write", |buffer| buffer.write(|_| ()));

/// An export, after which the memory is outside the claims.
pub const EXPORT: Named = ("export", |buffer| buffer.export().map(drop));

/// A fill, which changes every byte.
pub const FILL: Named = ("fill", |buffer| buffer.fill(0));

/// Asks that each call succeeds.
pub fn succeed(buffer: &Buffer, calls: &[Named]) {
    for (name, call) in calls {
        call(buffer).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Asks that each call is Lost, of a device.
pub fn are_lost(buffer: &Buffer, calls: &[Named], device: &str) {
    for (name, call) in calls {
        is_lost(name, call(buffer), device);
    }
}

/// Asks that a call is Lost, of a device.
pub fn is_lost<T>(call: &str, answer: Result<T>, device: &str) {
    match answer {
        Err(Error::Lost { device: lost, .. }) => assert_eq!(&*lost, device, "{call}"),
        Err(other) => panic!("{call}: {other}"),
        Ok(_) => panic!("{call} succeeded"),
    }
}
