//! What the page names by number, and how calls take and answer numbers.
//!
//! A text or a list of numbers is put into [`text_in`] or [`list_in`] ahead of the call that takes
//! it. A call that fails answers NaN and has told its error.

use crate::driver::Web;
use crate::page;
use crate::table::Table;
use crate::told::say_error;
use rig::embed::{Claimed, Failed, InPlace};
use rig::{Buffer, Device, Export, ReadClaim};
use std::any::Any;
use std::cell::RefCell;

/// Everything that the page names by number.
pub(crate) struct Named {
    /// By the index of each; the host is the first.
    pub(crate) devices: Vec<Device>,
    pub(crate) kept: Table<Kept>,
    pub(crate) text: Vec<u8>,
    pub(crate) site: Vec<u8>,
    pub(crate) list: Vec<f64>,
}

/// What ends when the page drops its number.
pub(crate) enum Kept {
    /// A handle.
    Buffer(Buffer),
    /// An access in place.
    Access(#[expect(dead_code, reason = "it ends when it is dropped")] InPlace),
    /// A claim for reading.
    Read(#[expect(dead_code, reason = "it ends when it is dropped")] ReadClaim),
    /// The claims of one call.
    Claims(Claimed),
    /// Bytes handed out.
    Export(Export),
}

thread_local! {
    pub(crate) static NAMED: RefCell<Named> = const {
        RefCell::new(Named {
            devices: Vec::new(),
            kept: Table::new(),
            text: Vec::new(),
            site: Vec::new(),
            list: Vec::new(),
        })
    };
}

/// Returns room for a text of this length.
#[unsafe(no_mangle)]
extern "C" fn text_in(len: usize) -> *mut u8 {
    NAMED.with_borrow_mut(|named| {
        named.text = vec![0; len];
        named.text.as_mut_ptr()
    })
}

/// Returns room for the place of the program that makes a buffer.
#[unsafe(no_mangle)]
extern "C" fn site_in(len: usize) -> *mut u8 {
    NAMED.with_borrow_mut(|named| {
        named.site = vec![0; len];
        named.site.as_mut_ptr()
    })
}

/// Returns room for a list of so many numbers.
#[unsafe(no_mangle)]
extern "C" fn list_in(count: usize) -> *mut f64 {
    NAMED.with_borrow_mut(|named| {
        named.list = vec![0.0; count];
        named.list.as_mut_ptr()
    })
}

/// Returns the driver of a GPU device of the page.
pub(crate) fn web(device: &Device) -> Option<&Web> {
    let driver: &dyn Any = &**device.driver();
    driver.downcast_ref()
}

/// Answers the number that is made of what a call came to, or says its error.
pub(crate) fn told<T>(result: Result<T, impl Into<Failed>>, number: impl FnOnce(T) -> f64) -> f64 {
    match result {
        Ok(answer) => number(answer),
        Err(error) => failed(error.into()),
    }
}

/// Says the error of the call in progress; answers NaN.
#[cold]
#[inline(never)]
pub(crate) fn failed(error: Failed) -> f64 {
    say_error(&error);
    page::answer_error();
    f64::NAN
}

pub(crate) fn text() -> String {
    taken(|named| &mut named.text)
}

pub(crate) fn site() -> String {
    taken(|named| &mut named.site)
}

fn taken(of: fn(&mut Named) -> &mut Vec<u8>) -> String {
    let bytes = NAMED.with_borrow_mut(|named| std::mem::take(of(named)));
    page::written(bytes)
}

pub(crate) fn list() -> Vec<f64> {
    NAMED.with_borrow_mut(|named| std::mem::take(&mut named.list))
}

pub(crate) fn enter(buffer: Buffer) -> f64 {
    keep(Kept::Buffer(buffer))
}

pub(crate) fn keep(kept: Kept) -> f64 {
    NAMED.with_borrow_mut(|named| named.kept.insert(kept))
}

/// The page's classes hold indices that were answered here.
pub(crate) fn device_of(index: u32) -> Device {
    let device = NAMED.with_borrow(|named| named.devices.get(index as usize).cloned());
    device.expect("a device of the page is in the table")
}

pub(crate) fn buffers_of(numbers: &[f64]) -> Vec<Buffer> {
    numbers.iter().map(|number| buffer_of(*number)).collect()
}

/// The page's classes look whether their handle was disposed first.
pub(crate) fn buffer_of(number: f64) -> Buffer {
    let buffer = NAMED.with_borrow(|named| match named.kept.find(number) {
        Some(Kept::Buffer(buffer)) => Some(buffer.clone()),
        _ => None,
    });
    buffer.expect("a buffer of the page is in the table")
}
