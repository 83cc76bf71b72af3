//! Scripted devices that are open, and what tests do with any device.

use crate::control::Control;
use crate::script::{Script, StopEnd};
use rig::driver::Fault;
use rig::memory::function;
use rig::{Device, Kernel, Opener, Point};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// An open scripted device, and the handle to its driver. It ends with this value: then everything
/// has to be back at the driver, and no law broken.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// The handle.
    pub control: Control,
}

impl Script {
    /// Opens a device under the script's name, which no other test that runs meanwhile may use.
    pub fn open(self) -> Opened {
        let name = self.name.clone();
        let (driver, control) = self.build();
        let opener = Opener::new("scripted", move || Ok::<_, Fault>(driver));
        let device = Device::open(&name, opener).expect("a scripted device opens");
        Opened { device, control }
    }
}

impl Deref for Opened {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.device.device_lost("the test is over");
        self.control.answer_stop();
        if std::thread::panicking() {
            // One look at the stop frees the name; a wait might never end.
            let _ = look(pin!(self.device.close_async()));
            return;
        }
        self.device.close().expect("only the host cannot be closed");
        if self.control.shared.script.stop_end == StopEnd::Settles {
            drain(&self.device);
            self.control.await_returned();
        }
        self.control.check();
    }
}

/// Polls a future once, with a waker that does nothing.
pub fn look<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes back what was dropped on a device, also what another thread is taking back.
pub fn drain(device: &Device) {
    // Sets what is set already: a drain, and nothing to return.
    device.set_budget(device.budget()).expect("no callback runs");
    let mut drained = pin!(Device::drain_out());
    while drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        std::thread::yield_now();
    }
}

/// Waits until something is true that another thread makes true; panics after a minute.
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::yield_now();
    }
}

/// Loads code that doubles the floats of one buffer in place.
pub fn double(device: &Device) -> Kernel {
    let code = function("double", |call| {
        call.update::<f32>(0, |floats| floats.iter_mut().for_each(|float| *float *= 2.0));
    });
    device.kernel(code).expect("devices over host memory run functions")
}

/// Returns a point of a device, submitted or not.
pub fn point(device: &Device, value: u64) -> Point {
    Point::from_word(device.id().index() << 48 | value).expect("no device but the host has 0")
}
