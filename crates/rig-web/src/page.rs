//! What the page's half does for this one, as functions of numbers.
//!
//! Objects of the page are numbers here: arrays (also the ranges of mapped GPU buffers), GPU
//! devices, GPU buffers. `js/instance.ts` and `js/imports.ts` implement every function of this
//! file, under its name.

use rig::bytes::{Arrays, InArray};
use std::time::Duration;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    safe fn now_ms() -> f64;
    /// Has a pump follow the call in progress.
    pub(crate) safe fn wants_pump();
    safe fn array_make(len: f64) -> u32;
    safe fn array_drop(array: u32);
    pub(crate) safe fn array_len(array: u32) -> f64;
    safe fn array_copy(src: u32, src_offset: f64, dst: u32, dst_offset: f64, len: f64);
    safe fn array_fill(array: u32, offset: f64, len: f64, byte: u32);
    fn array_out(array: u32, offset: f64, into: *mut u8, len: usize);
    fn array_in(from: *const u8, len: usize, array: u32, offset: f64);

    /// Says the next value of an answer or of an error, which is a number.
    pub(crate) safe fn say(number: f64);
    #[link_name = "say_text"]
    fn page_say_text(text: *const u8, len: usize);
    /// Settles the promise of a ticket, with a number and what was said.
    pub(crate) safe fn settle(ticket: f64, value: f64);
    /// Rejects the promise of a ticket with the error that was said.
    pub(crate) safe fn settle_error(ticket: f64);
    /// Answers the call in progress with the error that was said.
    pub(crate) safe fn answer_error();
    safe fn collect(round: u32, turn: u32) -> u32;

    /// Answers the length of a text of a GPU device that `gpu_text_into` then copies.
    safe fn gpu_text(gpu: u32, what: u32, at: f64) -> usize;
    fn gpu_text_into(into: *mut u8);
    pub(crate) safe fn gpu_largest(gpu: u32) -> f64;
    pub(crate) safe fn gpu_alloc(gpu: u32, len: f64) -> f64;
    pub(crate) safe fn gpu_half(gpu: u32, len: f64) -> f64;
    pub(crate) safe fn gpu_verdict(gpu: u32, buffer: f64) -> u32;
    pub(crate) safe fn gpu_free(gpu: u32, buffer: f64);
    /// Leaves a GPU buffer to the program: its end here is none of the GPU buffer's.
    pub(crate) safe fn gpu_let_go(gpu: u32, buffer: f64);
    pub(crate) safe fn gpu_map(gpu: u32, buffer: f64, write: u32) -> u32;
    /// Answers the array of what was asked to be mapped, 0 while it is not there; the greatest
    /// number where nothing was.
    pub(crate) safe fn gpu_mapped(gpu: u32, buffer: f64) -> u32;
    pub(crate) safe fn gpu_copy(gpu: u32, src: f64, src_at: f64, dst: f64, dst_at: f64, len: f64);
    pub(crate) safe fn gpu_fill(gpu: u32, dst: f64, dst_at: f64, len: f64, byte: u32);
    pub(crate) safe fn gpu_write(gpu: u32, src: u32, src_at: f64, dst: f64, dst_at: f64, len: f64);
    pub(crate) safe fn gpu_native(gpu: u32, commands: f64);
    pub(crate) safe fn gpu_end(gpu: u32, value: f64) -> u32;
    pub(crate) safe fn gpu_nudge(gpu: u32);
    pub(crate) safe fn gpu_stop(gpu: u32);
}

/// What a text of a GPU device is about.
#[derive(Clone, Copy)]
pub(crate) enum About {
    /// Its hardware's name.
    Architecture = 0,
    /// Why it is lost.
    Loss = 1,
    /// Why work was found wrong: the value's, or of value 0 what was just offered.
    Rejection = 2,
}

/// Returns a text of a GPU device; empty where there is none.
pub(crate) fn text(gpu: u32, about: About, at: f64) -> String {
    let mut bytes = vec![0; gpu_text(gpu, about as u32, at)];
    if bytes.is_empty() {
        return String::new();
    }
    // SAFETY: the page writes as many bytes as it just said the text has.
    unsafe { gpu_text_into(bytes.as_mut_ptr()) };
    written(bytes)
}

/// Makes a text of bytes that the page wrote as one.
pub(crate) fn written(bytes: Vec<u8>) -> String {
    // SAFETY: the page's encoder of texts writes UTF-8, and zeros were there before.
    unsafe { String::from_utf8_unchecked(bytes) }
}

/// Returns the time since some moment, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    (now_ms() * 1e6) as u64
}

/// The page's arrays.
pub(crate) const ARRAYS: Arrays = Arrays {
    make: |len| array_make(len as f64),
    drop: |array| array_drop(array),
    copy: |from, to, len| {
        array_copy(from.array, from.offset as f64, to.array, to.offset as f64, len as f64);
    },
    fill: |at, byte, len| array_fill(at.array, at.offset as f64, len as f64, u32::from(byte)),
    copy_out: |InArray { array, offset }, into| {
        // SAFETY: the page writes into the slice, and nothing else.
        unsafe { array_out(array, offset as f64, into.as_mut_ptr(), into.len()) }
    },
    copy_in: |from, InArray { array, offset }| {
        // SAFETY: the page reads the slice, and nothing else.
        unsafe { array_in(from.as_ptr(), from.len(), array, offset as f64) }
    },
};

/// Lets an array of the page go when it is dropped.
pub(crate) struct Array(pub(crate) u32);

impl Drop for Array {
    fn drop(&mut self) {
        array_drop(self.0);
    }
}

/// Says the next value of an answer or of an error, which is a text.
pub(crate) fn say_text(text: &str) {
    // SAFETY: the page copies the text before it answers.
    unsafe { page_say_text(text.as_ptr(), text.len()) }
}

/// Starts a turn of the engine's collector; answers whether another may help.
pub(crate) fn collects(round: u64, turn: u64) -> bool {
    collect(round as u32, turn as u32) != 0
}

/// Returns a span of time in milliseconds, or -1 for none.
pub(crate) fn in_ms(wait: Option<Duration>) -> f64 {
    wait.map_or(-1.0, |wait| wait.as_secs_f64() * 1e3)
}
