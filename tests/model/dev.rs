//! The devices of a random program, each beside what the reference knows of it.

use crate::profile::Profile;
use rig::driver::Fault;
use rig::memory::Options;
use rig::{Device, Opener, Result};
use rig_support::{Answer, Control};

/// A device, open or lost.
pub(crate) struct Dev {
    pub(crate) device: Device,
    pub(crate) control: Option<Control>,
    pub(crate) kind: Kind,
    pub(crate) profile: Profile,
    pub(crate) name: String,
    pub(crate) submitted: u64,
    pub(crate) reached: u64,
    pub(crate) state: State,
    pub(crate) budget: u64,
    /// Whether the test said that its stop may end.
    pub(crate) answered: bool,
}

/// The driver of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Host,
    Memory,
    File,
    Scripted,
    /// A real device, which goes on by itself.
    Gpu,
}

/// How a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Well,
    /// A fault is on its way, and the library may have met it.
    Ill,
    Lost {
        settled: bool,
    },
}

impl Dev {
    /// Opens a device under a name.
    pub(crate) fn open(kind: Kind, profile: Profile, name: &str) -> Result<Self> {
        let (device, control) = match kind {
            Kind::Host => (rig::host(), None),
            Kind::Memory => (Device::open(name, rig::memory::opener(Options::default()))?, None),
            Kind::File => (Device::open(name, rig::file::opener())?, None),
            Kind::Scripted => {
                let (driver, control) = profile.script(name).build();
                let opener = Opener::new("scripted", move || Ok::<_, Fault>(driver));
                (Device::open_with(name, opener, profile.cache())?, Some(control))
            }
            Kind::Gpu => {
                let gpu = profile.gpu.expect("its profile says how it is opened");
                ((gpu.open)(name).expect("it opened before"), None)
            }
        };
        Ok(Self {
            submitted: profile.first_value,
            reached: profile.first_value,
            budget: profile.budget_bytes,
            state: State::Well,
            answered: false,
            name: name.to_owned(),
            device,
            control,
            kind,
            profile,
        })
    }

    /// Lets a GPU come to the end of its work, which others do by themselves, and a lost device to
    /// the end of its stop: that runs where the last call in flight ends, which may be the tick's.
    pub(crate) fn await_idle(&self) {
        if self.kind == Kind::Gpu {
            let _ = self.device.wait(self.device.submitted());
        }
        if self.device.lost().is_some() && self.is_stopped() {
            self.device.close().expect("only the host is not closed");
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost { .. })
    }

    /// Whether the stop of the device, which is lost, is over.
    pub(crate) fn is_stopped(&self) -> bool {
        self.profile.stops == Answer::AtOnce || self.answered
    }

    pub(crate) fn has_timeline(&self) -> bool {
        !self.profile.queues.is_empty()
    }
}
