//! Code that is a Rust function, and the run of a value's parts over host memory.
//!
//! For drivers over host memory: [`Functions`] loads what [`function`] made and runs the parts of
//! one value in order. Bytes move only by the ways of [`HostBytes`] that bear a racing access, so
//! host bytes beside device work are mixed at worst (S6.5). Any thread may call anything; one leaf
//! lock guards the table of functions, and no function runs under it.

use crate::bytes::HostBytes;
use crate::driver::{Access, Code, Fault, Load, Op, Part, Span, Work};
use crate::drivers::pages::Pages;
use crate::drivers::slab::Slab;
use crate::error::text;
use crate::sync::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes code of a Rust function, for devices over host memory.
///
/// The function runs once for each launch, whatever the groups, which [`Call::groups`] tells. A
/// panic in it is a fault of the device. It runs inside `submit` on a memory device: calls of this
/// library other than drops and facts are misuse there (S0.5).
pub fn function(name: impl AsRef<str>, f: impl Fn(&Call<'_>) + Send + Sync + 'static) -> Code {
    let name: Arc<str> = Arc::from(name.as_ref());
    let function = Function { name: Arc::clone(&name), run: Arc::new(f) };
    MADE.store(true, Ordering::Relaxed);
    Code { source: Arc::new(function), entry: name }
}

/// The functions that a driver over host memory has loaded.
#[derive(Debug)]
pub struct Functions {
    /// Guards the table from kernel numbers to functions. A leaf lock, held for one look-up.
    table: Mutex<Slab<Function>>,
}

impl Default for Functions {
    fn default() -> Self {
        Self::new()
    }
}

impl Functions {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self { table: Mutex::new(Slab::new()) }
    }

    /// Loads code of [`function`], without device memory; rejects any other.
    pub fn load(&self, code: &Code) -> Load {
        let source: &dyn Any = &*code.source;
        match source.downcast_ref::<Function>().filter(|_| any()) {
            Some(function) => {
                let kernel = self.table.lock().insert(function.clone());
                Load::Ready { kernel, code_bytes: 0 }
            }
            None => Load::Rejected(Arc::from("this device runs Rust functions only")),
        }
    }

    /// Drops loaded code, and says whether it was there.
    pub fn unload(&self, kernel: u64) -> bool {
        let function = any().then(|| self.table.lock().remove(kernel));
        function.flatten().is_some()
    }

    /// Returns why these parts could not run on these spans; nothing ran.
    ///
    /// # Errors
    /// The reason for a rejection: native work, code that is not loaded, a span outside memory.
    pub fn check(&self, pages: &Pages, work: &Work<'_>) -> Result<(), Arc<str>> {
        if work.parts.is_empty() {
            return Ok(());
        }
        if let Some(at) = pages.first_outside(work.spans) {
            return Err(Arc::from(outside(at)));
        }
        let mut unknown = work.parts.iter().filter_map(|part| match &part.op {
            Op::Native(_) => Some("this device runs no native work"),
            Op::Launch { kernel, .. } | Op::Load { kernel, .. } => {
                self.found(*kernel).is_none().then_some("the kernel is not loaded")
            }
            Op::Copy { .. } | Op::Fill { .. } => None,
        });
        unknown.next().map_or(Ok(()), |why| Err(Arc::from(why)))
    }

    /// Runs the parts of one value in order, each after all before it.
    ///
    /// # Errors
    /// A fault, "launch of NAME panicked: TEXT", after which no later part ran; or a broken law,
    /// for work that [`Functions::check`] did not pass.
    pub fn run(&self, pages: &Pages, work: &Work<'_>) -> Result<(), Fault> {
        work.parts.iter().try_for_each(|part| self.run_part(pages, work.spans, part))
    }

    fn found(&self, kernel: u64) -> Option<Function> {
        if any() { self.table.lock().get(kernel).cloned() } else { None }
    }

    fn run_part(&self, pages: &Pages, spans: &[Span], part: &Part) -> Result<(), Fault> {
        let bytes = |at: usize| span_bytes(pages, spans, at);
        match &part.op {
            Op::Copy { src, dst } => bytes(*src)?.copy_mixed_to(bytes(*dst)?),
            Op::Fill { dst, byte } => bytes(*dst)?.fill_mixed(*byte),
            Op::Load { dst, .. } => bytes(*dst)?.fill_mixed(CODE_BYTE),
            Op::Native(_) => return Err(Fault::new("native work on a device that runs none")),
            Op::Launch { kernel, groups, args, args_span, buffers } => {
                let function =
                    self.found(*kernel).ok_or_else(|| Fault::new("the kernel is not loaded"))?;
                let args_span = args_span.map(bytes).transpose()?;
                let call = Call { groups: *groups, args, args_span, pages, spans, buffers };
                return function.run(&call);
            }
        }
        Ok(())
    }
}

/// One launch, as its function sees it. Buffers are numbered in the order the launch named them.
///
/// An index or a range past the end, and a write to a buffer that the launch only reads, panic,
/// which is a fault of the device.
#[derive(Debug)]
pub struct Call<'a> {
    groups: [u32; 3],
    args: &'a [u8],
    args_span: Option<HostBytes>,
    pages: &'a Pages,
    spans: &'a [Span],
    buffers: &'a [usize],
}

impl Call<'_> {
    /// Returns the groups in x, y and z.
    pub fn groups(&self) -> [u32; 3] {
        self.groups
    }

    /// Returns the argument bytes: those given by value, then those in memory.
    pub fn args(&self) -> Vec<u8> {
        let mut args = self.args.to_vec();
        if let Some(bytes) = self.args_span {
            let by_value = args.len();
            args.resize(by_value + len_of(bytes), 0);
            bytes.copy_out(0, &mut args[by_value..]);
        }
        args
    }

    /// Returns how many buffers the launch named.
    pub fn count(&self) -> usize {
        self.buffers.len()
    }

    /// Returns a buffer's bytes.
    pub fn len_bytes(&self, index: usize) -> u64 {
        self.span(index).len
    }

    /// Copies bytes out of a buffer.
    pub fn read(&self, index: usize, offset: u64, into: &mut [u8]) {
        self.part(index, offset, into.len()).copy_out(0, into);
    }

    /// Copies bytes into a buffer.
    pub fn write(&self, index: usize, offset: u64, from: &[u8]) {
        assert!(self.span(index).access == Access::Write, "buffer {index} is only read");
        self.part(index, offset, from.len()).copy_in(0, from);
    }

    /// Returns a buffer's elements.
    pub fn values<T: bytemuck::Pod>(&self, index: usize) -> Vec<T> {
        let (len, size) = (self.len_bytes(index) as usize, size_of::<T>());
        assert!(size > 0 && len % size == 0, "buffer {index} of {len} bytes holds a part element");
        let mut values = vec![T::zeroed(); len / size];
        self.read(index, 0, bytemuck::cast_slice_mut(&mut values));
        values
    }

    /// Writes elements from a buffer's start.
    pub fn set<T: bytemuck::Pod>(&self, index: usize, values: &[T]) {
        self.write(index, 0, bytemuck::cast_slice(values));
    }

    /// Copies a buffer's elements out, changes them, and copies all of them back.
    pub fn update<T: bytemuck::Pod>(&self, index: usize, f: impl FnOnce(&mut [T])) {
        let mut values = self.values::<T>(index);
        f(&mut values);
        self.set(index, &values);
    }

    fn span(&self, index: usize) -> &Span {
        let Some(&at) = self.buffers.get(index) else {
            panic!("buffer {index} of {} was asked for", self.buffers.len());
        };
        &self.spans[at]
    }

    fn part(&self, index: usize, offset: u64, len: usize) -> HostBytes {
        let span = self.span(index);
        let (len, has) = (len as u64, span.len);
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= has),
            "{len} bytes at {offset} of buffer {index}, which has {has}"
        );
        let bytes = self.pages.span(span).expect("a region stays while work names it");
        bytes.range(offset, len)
    }
}

#[derive(Clone)]
struct Function {
    name: Arc<str>,
    run: Arc<dyn Fn(&Call<'_>) + Send + Sync>,
}

impl Function {
    fn run(&self, call: &Call<'_>) -> Result<(), Fault> {
        // The function's captures may be left half changed, which is the program's to bear: the
        // device is lost and runs nothing more.
        catch_unwind(AssertUnwindSafe(|| (self.run)(call))).map_err(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no text".to_owned());
            Fault::new(text!("launch of ", self.name, " panicked: ", text))
        })
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function({})", self.name)
    }
}

/// Whether there is any function.
fn any() -> bool {
    MADE.load(Ordering::Relaxed)
}

fn span_bytes(pages: &Pages, spans: &[Span], at: usize) -> Result<HostBytes, Fault> {
    let bytes = spans.get(at).and_then(|span| pages.span(span));
    bytes.ok_or_else(|| Fault::new(outside(at)))
}

fn outside(at: usize) -> String {
    text!("span ", at as u64, " is outside its region")
}

fn len_of(bytes: HostBytes) -> usize {
    usize::try_from(bytes.len_bytes()).expect("host bytes fit the address space")
}

/// Whether a function was made, so that a program that makes none has no code to run one.
static MADE: AtomicBool = AtomicBool::new(false);
/// What device memory of loaded code is filled with, where a driver asks for any.
const CODE_BYTE: u8 = 0xC0;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::driver::{Access, Ask, Code, Kind, Load, Native, Op, Part, Region, Span, Work};
    use crate::drivers::function::{Call, Functions, function};
    use crate::drivers::pages::Pages;
    use std::sync::{Arc, Mutex};

    struct Bench {
        pages: Pages,
        functions: Functions,
    }

    impl Bench {
        fn new() -> Self {
            Self { pages: Pages::new(), functions: Functions::new() }
        }

        fn region(&self, bytes: &[u8]) -> Region {
            let ask = Ask { kind: Kind::Device, len_bytes: bytes.len() as u64, paged: false };
            let region = self.pages.alloc(ask).expect("a few bytes");
            self.pages.bytes(region).expect("it is there").copy_in(0, bytes);
            region
        }

        fn launch(&self, code: &Code, args: &[u8], spans: &[Span]) -> Result<(), String> {
            let Load::Ready { kernel, code_bytes: 0 } = self.functions.load(code) else {
                panic!("a function loads");
            };
            let op = Op::Launch {
                kernel,
                groups: [2, 3, 4],
                args: args.to_vec(),
                args_span: spans.len().checked_sub(1).filter(|&at| at > 0),
                buffers: vec![0],
            };
            let parts = [Part { queue: 0, after: vec![], op }];
            let work = Work { prepared: None, parts: &parts, spans };
            self.functions.check(&self.pages, &work).map_err(|why| why.to_string())?;
            let outcome = self.functions.run(&self.pages, &work);
            assert!(self.functions.unload(kernel));
            outcome.map_err(|fault| fault.0.to_string())
        }
    }

    fn whole(region: Region, len: u64, access: Access) -> Span {
        Span { region, offset: 0, len, access, is_last: true }
    }

    #[test]
    fn s14_a_function_doubles_floats_in_place() {
        let bench = Bench::new();
        let region = bench.region(bytemuck::bytes_of(&[1.0_f32, 2.0, 3.0]));
        let double = function("double", |call: &Call<'_>| {
            call.update::<f32>(0, |xs| xs.iter_mut().for_each(|x| *x *= 2.0));
        });
        bench.launch(&double, &[], &[whole(region, 12, Access::Write)]).unwrap();
        let mut xs = [0.0_f32; 3];
        bench.pages.bytes(region).unwrap().copy_out(0, bytemuck::bytes_of_mut(&mut xs));
        assert_eq!(xs, [2.0, 4.0, 6.0]);
    }

    #[test]
    fn s8_2_a_function_sees_groups_and_arguments_by_value_and_in_memory() {
        let bench = Bench::new();
        let seen = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&seen);
        let look = function("look", move |call: &Call<'_>| {
            let counts = (call.count(), call.len_bytes(0));
            *tell.lock().unwrap() = Some((call.groups(), call.args(), counts));
        });
        let (data, args) = (bench.region(&[9; 5]), bench.region(&[3, 4]));
        let spans = [whole(data, 5, Access::Read), whole(args, 2, Access::Read)];
        bench.launch(&look, &[1, 2], &spans).unwrap();
        let seen = seen.lock().unwrap().take();
        assert_eq!(seen, Some(([2, 3, 4], vec![1, 2, 3, 4], (1, 5))));
    }

    #[test]
    fn s0_5_a_panic_of_a_launch_is_a_fault_with_its_text() {
        let bench = Bench::new();
        let region = bench.region(&[0; 8]);
        let panics =
            |code: Code, access| bench.launch(&code, &[], &[whole(region, 7, access)]).unwrap_err();
        let text = panics(function("bad", |_: &Call<'_>| panic!("no {}", 7)), Access::Read);
        assert_eq!(text, "launch of bad panicked: no 7");
        let text = panics(function("w", |call: &Call<'_>| call.write(0, 0, &[1])), Access::Read);
        assert_eq!(text, "launch of w panicked: buffer 0 is only read");
        let past = function("past", |call: &Call<'_>| call.write(0, 6, &[1, 2]));
        let text = panics(past, Access::Write);
        assert_eq!(text, "launch of past panicked: 2 bytes at 6 of buffer 0, which has 7");
        let odd = function("odd", |call: &Call<'_>| drop(call.values::<u32>(0)));
        assert!(panics(odd, Access::Read).contains("part element"));
        let none = function("none", |call: &Call<'_>| assert_eq!(call.len_bytes(1), 0));
        assert!(panics(none, Access::Read).contains("buffer 1 of 1"));
    }

    #[test]
    fn s8_3_work_that_cannot_run_is_rejected_before_any_of_it_ran() {
        let bench = Bench::new();
        let region = bench.region(&[0; 8]);
        let part = |op| Part { queue: 0, after: vec![], op };
        let fill = part(Op::Fill { dst: 0, byte: 1 });
        let native = part(Op::Native(Native(Arc::new(()))));
        let launch = part(Op::Load { kernel: 7, dst: 0 });
        for (bad, len) in [(native, 8), (launch, 8), (fill.clone(), 9)] {
            let spans = [whole(region, len, Access::Write)];
            let parts = [fill.clone(), bad];
            let work = Work { prepared: None, parts: &parts, spans: &spans };
            assert!(bench.functions.check(&bench.pages, &work).is_err());
        }
        let code = Code { source: Arc::new(7_u32), entry: Arc::from("main") };
        assert!(matches!(bench.functions.load(&code), Load::Rejected(_)));
    }
}
