//! Kernels: code loaded on a device once, and launched in submissions.
//!
//! Code that needs device memory is charged to the device like any allocation, and written there
//! by a value of its own. Any thread may launch; what the driver made is dropped once no work uses
//! it.

use crate::allocation::Tag;
use crate::allocation::owner::{Keep, Made, Owner};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::{Access, Code, Driver, Kind, Load, Op, Part, Span, Work};
use crate::entry;
use crate::error::{Failed, Misuse, Outcome, Result};
use crate::hand::{Job, Touch, hand_over};
use crate::life;
use crate::reclaim::{self, Want};
use crate::tick;
use crate::wait;
use std::sync::Arc;
use std::task::Waker;

/// Code loaded on a device.
///
/// Cheap to clone. The code is dropped once no kernel, prepared submission or running work needs
/// it.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("kernel example")?;
/// let double = device.kernel(rig::memory::function("double", |call| {
///     call.update::<u32>(0, |numbers| numbers.iter_mut().for_each(|number| *number *= 2));
/// }))?;
/// let x = device.create_buffer(4)?;
/// x.write_as::<u32, _>(|numbers| numbers[0] = 21)?;
/// double.launch([1, 1, 1]).writes(&x).submit()?;
/// assert_eq!(x.read_as::<u32, _>(|numbers| numbers[0])?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Kernel {
    pub(crate) loaded: Arc<Loaded>,
}

pub(crate) struct Loaded {
    pub(crate) owner: Arc<Owner>,
    pub(crate) entry: Arc<str>,
    pub(crate) keep: Keep,
    /// The code in device memory, where the driver wants it there.
    pub(crate) memory: Option<Buffer>,
}

impl Kernel {
    /// Returns the device.
    pub fn device(&self) -> Device {
        Device::of(&self.loaded.owner)
    }

    /// Returns the entry point's name.
    pub fn name(&self) -> &str {
        &self.loaded.entry
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} on {})", self.loaded.entry, self.loaded.owner.name)
    }
}

impl Device {
    /// Loads code. Waits for the driver's verdict, and where the code lies in device memory, for
    /// room and for what used that memory.
    ///
    /// # Errors
    ///
    /// - `Misuse`: the driver rejected the code.
    /// - `OutOfMemory`: no room for the code.
    /// - `Unsupported`: the host and devices of files run none.
    /// - `Lost`: the device is lost.
    pub async fn kernel_async(&self, code: Code) -> Result<Kernel> {
        entry::check(CALL)?;
        let owner = &self.owner;
        if !owner.has_timeline() {
            return Err(Failed::unsupported(&owner.name, "this device runs no code").into());
        }
        life::drain(owner);
        life::check_lost(owner)?;
        let answer = life::InFlight::new(owner)?.driver().load(&code);
        let (keep, code_bytes) = loaded(owner, answer).await?;
        let memory = match code_bytes {
            0 => None,
            len => Some(load_into_memory(owner, keep.number(), len, &code.entry).await?),
        };
        let entry = Arc::clone(&code.entry);
        tick::arm(owner);
        let loaded = Loaded { owner: Arc::clone(owner), entry, keep, memory };
        Ok(Kernel { loaded: Arc::new(loaded) })
    }
}

/// Waits for the driver's verdict; answers the kernel, which is unloaded with its `Keep`, and the
/// bytes its code needs.
async fn loaded(owner: &Arc<Owner>, mut answer: Load) -> Outcome<(Keep, u64)> {
    let mut keep: Option<Keep> = None;
    let made = |kernel| Keep::new(owner, Made::Kernel(kernel));
    loop {
        match answer {
            Load::Ready { kernel, code_bytes } => {
                return Ok((keep.unwrap_or_else(|| made(kernel)), code_bytes));
            }
            Load::Rejected(why) => return Misuse::Rejected { why }.of(CALL),
            Load::Fault(fault) => return Err(life::fault(owner, &fault)),
            Load::Pending(kernel) => {
                keep.get_or_insert_with(|| made(kernel));
                let poll =
                    |driver: &Arc<dyn Driver>, waker: &Waker| driver.poll_load(kernel, waker);
                answer = wait::answer(owner, poll).await?;
            }
        }
    }
}

async fn load_into_memory(
    owner: &Arc<Owner>,
    kernel: u64,
    len: u64,
    label: &Arc<str>,
) -> Outcome<Buffer> {
    let tag = Tag { label: Some(Arc::clone(label)), site: None };
    let at = reclaim::create(owner, Want { kind: Kind::Device, len, tag }).await?;
    let buffer = Buffer::whole(at, len);
    let queue = owner.facts.queues.iter().position(|queue| queue.copies).unwrap_or(0);
    let parts = [Part { queue, after: Vec::new(), op: Op::Load { kernel, dst: 0 } }];
    let span =
        Span { region: buffer.region(), offset: 0, len, access: Access::Write, is_last: true };
    let work = Work { prepared: None, parts: &parts, spans: &[span] };
    let touches = [Touch { at: &buffer.at, access: Access::Write }];
    let job = Job::of(CALL, work, &touches);
    let point = hand_over(owner, &job).await?;
    wait::reach(owner, point.value()).await?;
    Ok(buffer)
}

const CALL: &str = "kernel";
