//! What only a panic reaches is taken out of a wasm: its texts, the lines of the source that it
//! names, and the code that writes of them.
//!
//! Nobody could read them there. The linker tells what every function and every piece of data
//! refers to, so what is reached from the exports, other than through a panic, is known exactly.

use crate::module::{CODE, CUSTOM, DATA, EXPORTS, HEAD_BYTES, Module, put, section, take, text};
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns a module whose panics trap at once, without what only they would reach. It has to have
/// the names of functions, and to be linked with `--emit-relocs`. Other texts have to be made
/// without `format!`.
pub(crate) fn without_panics(bytes: &[u8]) -> Option<Vec<u8>> {
    let module = Module::read(bytes)?;
    let linked = Linked::read(&module)?;
    let reached = linked.reach(&module, exported(&module)?);
    let writes =
        |index| reached.functions[index] && is_named(&module, module.imported + index, WRITE);
    if (0..module.bodies.len()).any(writes) {
        return None;
    }
    let mut code = Vec::new();
    put(&mut code, module.bodies.len());
    for (index, body) in module.all_bodies().into_iter().enumerate() {
        let body = match instead(&module, module.imported + index) {
            Some(body) => body,
            None if reached.functions[index] => body,
            None => TRAP,
        };
        put(&mut code, body.len());
        code.extend_from_slice(body);
    }
    let mut out = bytes[..HEAD_BYTES].to_vec();
    for part in &module.sections {
        match part.id {
            CODE => section(&mut out, CODE, &code),
            DATA => section(&mut out, DATA, &linked.data(&module, &part.content, &reached)),
            CUSTOM if part.name == LINKING || part.name.starts_with(b"reloc.") => {}
            _ => out.extend_from_slice(&bytes[part.start..part.content.end]),
        }
    }
    Some(out)
}

/// What the linker tells.
struct Linked {
    symbols: Vec<Symbol>,
    /// What is referred to from each place of the code and of the data.
    refers: BTreeMap<usize, usize>,
}

/// What may be referred to.
enum Symbol {
    /// A function, by its index among all.
    Function(usize),
    /// A piece of data, by its place in the module.
    Data(Range<usize>),
    /// What is no matter here.
    Other,
}

/// What was reached.
struct Reached {
    /// Of each function that has a body, whether it was.
    functions: Vec<bool>,
    /// Of each symbol, whether it was.
    symbols: Vec<bool>,
}

impl Linked {
    fn read(module: &Module<'_>) -> Option<Self> {
        let symbols = read_symbols(module, &segments(module)?)?;
        let mut linked = Self { symbols, refers: BTreeMap::new() };
        for (name, id) in [(&b"reloc.CODE"[..], CODE), (b"reloc.DATA", DATA)] {
            linked.read_refers(module, module.custom(name)?.content.clone(), id)?;
        }
        Some(linked)
    }

    fn read_refers(&mut self, module: &Module<'_>, of: Range<usize>, id: u8) -> Option<()> {
        let bytes = &module.bytes[..of.end];
        let base = module.section(id)?.content.start;
        let mut at = of.start;
        text(bytes, &mut at)?;
        take(bytes, &mut at)?;
        for _ in 0..take(bytes, &mut at)? {
            let kind = *bytes.get(at)?;
            at += 1;
            let place = base + take(bytes, &mut at)?;
            let symbol = take(bytes, &mut at)?;
            if ADDED.contains(&kind) {
                take(bytes, &mut at)?;
            }
            if kind != TYPE_INDEX {
                self.refers.insert(place, symbol);
            }
        }
        Some(())
    }

    /// Follows what is referred to, from these functions.
    fn reach(&self, module: &Module<'_>, roots: Vec<usize>) -> Reached {
        let mut reached = Reached {
            functions: vec![false; module.bodies.len()],
            symbols: vec![false; self.symbols.len()],
        };
        let mut left: Vec<Range<usize>> = Vec::new();
        let enter = |function: usize, reached: &mut Reached| {
            let index = function.checked_sub(module.imported)?;
            let is_new = !std::mem::replace(&mut reached.functions[index], true);
            let is_followed = is_new && instead(module, function).is_none();
            is_followed.then(|| module.bodies[index].clone())
        };
        left.extend(roots.into_iter().filter_map(|root| enter(root, &mut reached)));
        while let Some(part) = left.pop() {
            for (&place, &symbol) in self.refers.range(part) {
                if self.is_line(module, symbol)
                    || self.is_told(module, place)
                    || std::mem::replace(&mut reached.symbols[symbol], true)
                {
                    continue;
                }
                match &self.symbols[symbol] {
                    Symbol::Function(index) => left.extend(enter(*index, &mut reached)),
                    Symbol::Data(place) => left.push(place.clone()),
                    Symbol::Other => {}
                }
            }
        }
        reached
    }

    /// Whether a piece of data is a line of the source, which callers hand to what panics: where
    /// the name of its file is, the length of that, two numbers.
    fn is_line(&self, module: &Module<'_>, symbol: usize) -> bool {
        let Symbol::Data(place) = &self.symbols[symbol] else { return false };
        let file = self.refers.get(&place.start).map(|file| &self.symbols[*file]);
        let Some(Symbol::Data(file)) = file else { return false };
        let file = &module.bytes[file.clone()];
        place.len() == LINE_BYTES && [&b".rs"[..], b".rs\0"].iter().any(|end| file.ends_with(end))
    }

    /// Whether what is referred to from a place of the code goes to what panics: that is called
    /// with nothing between but more values.
    fn is_told(&self, module: &Module<'_>, place: usize) -> bool {
        let is_code = module.section(CODE).is_some_and(|code| code.content.contains(&place));
        if !is_code || module.bytes[place - 1] != CONSTANT {
            return false;
        }
        let mut at = place;
        // What is skipped first is the constant itself.
        while take(module.bytes, &mut at).is_some() {
            while module.bytes.get(at) == Some(&ADD) {
                at += 1;
            }
            let operation = module.bytes.get(at).copied().unwrap_or_default();
            at += 1;
            if operation == CALL {
                let called = self.refers.get(&at).map(|called| &self.symbols[*called]);
                let Some(Symbol::Function(called)) = called else { return false };
                return instead(module, *called) == Some(TRAP);
            }
            if ![CONSTANT, LOCAL].contains(&operation) {
                return false;
            }
        }
        false
    }

    /// Returns the data, with zeros for what was not reached.
    fn data(&self, module: &Module<'_>, content: &Range<usize>, reached: &Reached) -> Vec<u8> {
        let mut data = module.bytes[content.clone()].to_vec();
        let places = |is_reached: bool| {
            let symbols = self.symbols.iter().zip(&reached.symbols);
            symbols.filter_map(move |(symbol, reached)| match symbol {
                Symbol::Data(place) if *reached == is_reached => {
                    Some(place.start - content.start..place.end - content.start)
                }
                _ => None,
            })
        };
        places(false).for_each(|place| data[place].fill(0));
        // Pieces may share bytes.
        for place in places(true) {
            let from = content.start + place.start..content.start + place.end;
            data[place].copy_from_slice(&module.bytes[from]);
        }
        data
    }
}

/// Returns the functions that are exported.
fn exported(module: &Module<'_>) -> Option<Vec<usize>> {
    let content = module.section(EXPORTS)?.content.clone();
    let bytes = &module.bytes[..content.end];
    let mut at = content.start;
    let mut functions = Vec::new();
    for _ in 0..take(bytes, &mut at)? {
        text(bytes, &mut at)?;
        let is_function = *bytes.get(at)? == 0;
        at += 1;
        let index = take(bytes, &mut at)?;
        functions.extend(is_function.then_some(index));
    }
    Some(functions)
}

/// Returns where the bytes of each segment of data are.
fn segments(module: &Module<'_>) -> Option<Vec<Range<usize>>> {
    let content = module.section(DATA)?.content.clone();
    let bytes = &module.bytes[..content.end];
    let mut at = content.start;
    let mut segments = Vec::new();
    for _ in 0..take(bytes, &mut at)? {
        // Active, of the first memory, at a constant: `i32.const` and `end`.
        (take(bytes, &mut at)? == 0 && *bytes.get(at)? == 0x41).then_some(())?;
        at += 1;
        take(bytes, &mut at)?;
        at += 1;
        let len = text(bytes, &mut at)?.len();
        segments.push(at - len..at);
    }
    Some(segments)
}

fn read_symbols(module: &Module<'_>, segments: &[Range<usize>]) -> Option<Vec<Symbol>> {
    let content = module.custom(LINKING)?.content.clone();
    let bytes = &module.bytes[..content.end];
    let mut at = content.start;
    text(bytes, &mut at)?;
    take(bytes, &mut at)?;
    while *bytes.get(at)? != SYMBOLS {
        at += 1;
        text(bytes, &mut at)?;
    }
    at += 1;
    take(bytes, &mut at)?;
    let count = take(bytes, &mut at)?;
    (0..count).map(|_| read_symbol(bytes, &mut at, segments)).collect()
}

fn read_symbol(bytes: &[u8], at: &mut usize, segments: &[Range<usize>]) -> Option<Symbol> {
    let kind = *bytes.get(*at)?;
    *at += 1;
    let flags = take(bytes, at)?;
    let is_defined = flags & UNDEFINED == 0;
    match kind {
        OF_DATA => {
            text(bytes, at)?;
            if !is_defined {
                return Some(Symbol::Other);
            }
            let [segment, offset, len] = [take(bytes, at)?, take(bytes, at)?, take(bytes, at)?];
            // Names of the linker's own may lie past the end.
            let Some(segment) = segments.get(segment) else { return Some(Symbol::Other) };
            let start = (segment.start + offset).min(segment.end);
            Some(Symbol::Data(start..(start + len).min(segment.end)))
        }
        OF_SECTION => take(bytes, at).map(|_| Symbol::Other),
        kind => {
            let index = take(bytes, at)?;
            if is_defined || flags & NAMED != 0 {
                text(bytes, at)?;
            }
            Some(if kind == OF_FUNCTION { Symbol::Function(index) } else { Symbol::Other })
        }
    }
}

/// Returns what a function is made into, where it only panics, or shows a value in the text of a
/// panic.
fn instead(module: &Module<'_>, function: usize) -> Option<&'static [u8]> {
    let holds = |part: &&str| is_named(module, function, part);
    match () {
        () if PANICS.iter().any(holds) => Some(TRAP),
        () if SHOWS.iter().any(holds) => Some(NOTHING),
        () => None,
    }
}

/// Whether the name of a function has a part.
fn is_named(module: &Module<'_>, function: usize, part: &str) -> bool {
    let name = module.names.get(&function).copied().unwrap_or_default();
    name.windows(part.len()).any(|at| at == part.as_bytes())
}

const LINKING: &[u8] = b"linking";
/// The part of what the linker tells that lists the symbols, and the kinds and flags of these.
const SYMBOLS: u8 = 8;
const OF_FUNCTION: u8 = 0;
const OF_DATA: u8 = 1;
const OF_SECTION: u8 = 3;
const UNDEFINED: usize = 0x10;
const NAMED: usize = 0x40;
/// References to types, which are no symbols; and those that add a number to what they refer to.
const TYPE_INDEX: u8 = 6;
const ADDED: [u8; 7] = [3, 4, 5, 8, 9, 11, 23];
const LINE_BYTES: usize = 16;
/// Instructions: `call`, `local.get`, `i32.const`, `i32.add`.
const CALL: u8 = 0x10;
const LOCAL: u8 = 0x20;
const CONSTANT: u8 = 0x41;
const ADD: u8 = 0x6a;
/// No variables; `unreachable`; `end`.
const TRAP: &[u8] = &[0, 0x00, 0x0b];
/// No variables; `i32.const 0`, which is `Ok`; `end`.
const NOTHING: &[u8] = &[0, 0x41, 0, 0x0b];
/// Parts of the names, as compilers write them, of functions that end in a panic and nothing else.
const PANICS: &[&str] = &[
    "4core9panicking",
    "13expect_failed",
    "13unwrap_failed",
    "16slice_error_fail",
    "16slice_index_fail",
    "17len_mismatch_fail",
    "22panic_already_borrowed",
    "30panic_already_mutably_borrowed",
    "19panic_access_error",
    "12handle_error",
    "17capacity_overflow",
    "18handle_alloc_error",
    "17rust_begin_unwind",
];
/// Parts of the names of functions that show a value, which only a panic does without [`WRITE`].
const SHOWS: &[&str] = &["5Debug3fmt", "Debug$GT$3fmt", "7Display3fmt", "Display$GT$3fmt"];
/// Part of the name of the function that makes every text of `format!`.
const WRITE: &str = "4core3fmt5write";

#[cfg(test)]
mod sweeping {
    use crate::module::{
        CODE, CUSTOM, DATA, EXPORTS, FUNCTION_NAMES, HEAD_BYTES, Module, NAME, put, section,
    };
    use crate::sweep::{NOTHING, TRAP, without_panics};

    /// An exported function 0 refers to a piece of data "ab" and to a line, and calls function 1,
    /// which panics, with "ef" and a line. Function 1 refers to function 2 and "cd"; "ab" to
    /// function 3, which shows a value.
    fn module() -> Vec<u8> {
        let mut out = b"\0asm\x01\0\0\0".to_vec();
        section(&mut out, EXPORTS, &[1, 1, b'e', 0, 0]);
        let push = [0x41, 0x80, 0x80, 0x80, 0x80, 0];
        let [used, called] = [[&push[..], &[0x1a]].concat(), [0x10, 0, 0, 0, 0, 0, 0x0b].to_vec()];
        let first = [&used, &used, &push[..], &[0x41, 2], &push, &called].concat();
        let mut code = vec![4];
        for body in [&first[..], &[1; 6], &[2; 6], &[3; 6]] {
            put(&mut code, body.len());
            code.extend_from_slice(body);
        }
        section(&mut out, CODE, &code);
        let data = b"ababcdcdf.rs\x05\0\0\0\x04\0\0\0\x09\0\0\0\x09\0\0\0efef";
        section(&mut out, DATA, &[&[1, 0, 0x41, 0, 0x0b, data.len() as u8], &data[..]].concat());
        // The functions, then "ab", "cd", the name of a file, the line and "ef": place and length.
        let functions = [0, 1, 2, 3].map(|index| [0, 0, index, 1, b'f']).concat();
        let pieces = [(0, 4), (4, 4), (8, 4), (12, 16), (28, 4)];
        let pieces = pieces.map(|(at, len)| [1, 0, 1, b'd', 0, at, len]).concat();
        let symbols = [&[9][..], &functions, &pieces].concat();
        custom(&mut out, "linking", &[&[2, 8, symbols.len() as u8][..], &symbols].concat());
        let addresses = [(3, 4), (10, 7), (17, 8), (25, 7), (40, 5)];
        let addresses = addresses.map(|(at, symbol)| [4, at, symbol, 0]).concat();
        let calls = [[0, 31, 1], [0, 39, 2]].concat();
        custom(&mut out, "reloc.CODE", &[&[1, 7], &addresses[..], &calls].concat());
        custom(&mut out, "reloc.DATA", &[2, 2, 2, 6, 3, 5, 18, 6, 0]);
        let panics = "_RNvNtCs_4core9panicking5panic";
        let shows = "_RNvXs_NtCs_4core3fmtcNtB5_5Debug3fmt";
        let [panics, shows] = [(1, panics), (3, shows)]
            .map(|(index, name)| [&[index, name.len() as u8], name.as_bytes()].concat());
        let named = [&[2][..], &panics, &shows].concat();
        let named = [&[FUNCTION_NAMES, named.len() as u8][..], &named].concat();
        custom(&mut out, std::str::from_utf8(NAME).expect("a text"), &named);
        out
    }

    fn custom(out: &mut Vec<u8>, name: &str, content: &[u8]) {
        let named = [&[name.len() as u8], name.as_bytes(), content].concat();
        section(out, CUSTOM, &named);
    }

    #[test]
    fn what_only_a_panic_reaches_is_taken_out_and_the_rest_stays() {
        let made = without_panics(&module()).expect("a module as it is linked");
        let read = Module::read(&made).expect("a module");
        assert_eq!(read.all_bodies()[1..], [TRAP, TRAP, NOTHING]);
        assert_eq!(read.bodies[0].len(), 35);
        let data = read.section(DATA).expect("data").content.clone();
        assert_eq!(&made[data][6..], [&b"abab"[..], &[0; 28]].concat());
        let customs = read.sections.iter().filter(|section| section.id == CUSTOM);
        assert_eq!(customs.map(|custom| custom.name).collect::<Vec<_>>(), [NAME]);
    }

    #[test]
    fn a_module_whose_linker_told_nothing_is_refused() {
        let bytes = module();
        let read = Module::read(&bytes).expect("a module");
        let told = read.custom(b"linking").expect("a section").start;
        assert_eq!(without_panics(&bytes[..told]), None);
        assert_eq!(without_panics(&bytes[..HEAD_BYTES]), None);
    }
}
