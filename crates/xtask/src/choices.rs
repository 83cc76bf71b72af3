//! What a module is free to say in another way is said so that gzip finds more of what it saw.
//!
//! Which local of a type has which number is free, and a third of the code is locals that are read
//! and set: two at a time change numbers, where that makes their function smaller behind those
//! before it. How a load or a store is said to be aligned is a hint: each says what most say.

use crate::likeness::SEEN_BYTES;
use crate::module::{CODE, Module, put, section};
use flate2::{Compress, Compression, FlushCompress};
use wasmparser::{FunctionBody, Operator, Parser, Payload, ValType};

/// Returns a module that does the same by other choices.
pub(crate) fn likened(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes = &aligned(bytes)?;
    let module = Module::read(bytes)?;
    let code = module.section(CODE)?;
    let mut gzip = Gzip::new();
    let mut seen = bytes[..code.start].to_vec();
    let mut bodies = Vec::new();
    put(&mut bodies, module.bodies.len());
    for function in functions(bytes)? {
        let from = bodies.len();
        let numbers = function.least(&mut gzip, last(&seen));
        function.write(&numbers, &mut bodies);
        seen.extend_from_slice(&bodies[from..]);
    }
    let mut out = bytes[..code.start].to_vec();
    section(&mut out, CODE, &bodies);
    out.extend_from_slice(&bytes[code.content.end..]);
    Some(out)
}

/// Returns a module whose loads and stores all say that they are aligned to their size.
fn aligned(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = bytes.to_vec();
    for payload in Parser::new(0).parse_all(bytes) {
        let Payload::CodeSectionEntry(body) = payload.ok()? else { continue };
        for operator in body.get_operators_reader().ok()?.into_iter_with_offsets() {
            let (_, at) = operator.ok()?;
            if let Some(hint) = bytes[at].checked_sub(FIRST_LOAD).map(usize::from)
                && let Some(hint) = HINTS.get(hint)
            {
                out[at + 1] = *hint;
            }
        }
    }
    Some(out)
}

/// Reads the functions that have bodies.
fn functions(bytes: &[u8]) -> Option<Vec<Function<'_>>> {
    let (mut types, mut indexes) = (Vec::new(), Vec::new());
    let mut functions = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::TypeSection(section) => {
                let all = section.into_iter_err_on_gc_types();
                types = all.collect::<Result<_, _>>().ok()?;
            }
            Payload::FunctionSection(section) => {
                indexes = section.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
            }
            Payload::CodeSectionEntry(body) => {
                let index = *indexes.get(functions.len())?;
                let params = types.get(index as usize)?.params();
                functions.push(Function::read(bytes, &body, params)?);
            }
            _ => {}
        }
    }
    Some(functions)
}

/// A function, taken apart where it names a local.
struct Function<'a> {
    /// The type of each local, those of the parameters first.
    types: Vec<ValType>,
    params: usize,
    /// What is ahead of each name of a local, and the local.
    parts: Vec<(&'a [u8], usize)>,
    rest: &'a [u8],
}

impl<'a> Function<'a> {
    fn read(bytes: &'a [u8], body: &FunctionBody<'a>, params: &[ValType]) -> Option<Self> {
        let mut types = params.to_vec();
        for local in body.get_locals_reader().ok()? {
            let (count, of) = local.ok()?;
            types.extend(std::iter::repeat_n(of, count as usize));
        }
        let mut operators = body.get_operators_reader().ok()?;
        let mut from = body.range().start;
        let mut parts = Vec::new();
        while !operators.eof() {
            let at = operators.original_position();
            let (Operator::LocalGet { local_index }
            | Operator::LocalSet { local_index }
            | Operator::LocalTee { local_index }) = operators.read().ok()?
            else {
                continue;
            };
            parts.push((&bytes[from..=at], local_index as usize));
            from = operators.original_position();
        }
        let rest = &bytes[from..body.range().end];
        Some(Self { types, params: params.len(), parts, rest })
    }

    /// Returns the number of each local by which the function is the least behind what was seen.
    fn least(&self, gzip: &mut Gzip, seen: &[u8]) -> Vec<usize> {
        let all = self.params..self.types.len();
        let is_alike = |(a, b): &(usize, usize)| self.types[*a] == self.types[*b];
        let pairs = all.clone().flat_map(|a| (a + 1..all.end).map(move |b| (a, b)));
        let pairs: Vec<_> = pairs.filter(is_alike).collect();
        let mut numbers: Vec<usize> = (0..self.types.len()).collect();
        let mut len = |numbers: &[usize]| {
            let mut body = Vec::new();
            self.write(numbers, &mut body);
            gzip.len(seen, &body)
        };
        let mut least = len(&numbers);
        let mut left = pairs.len();
        for (a, b) in pairs.iter().cycle() {
            if left == 0 {
                break;
            }
            numbers.swap(*a, *b);
            let found = len(&numbers);
            if found < least {
                (least, left) = (found, pairs.len());
            } else {
                numbers.swap(*a, *b);
                left -= 1;
            }
        }
        numbers
    }

    /// Writes the function behind its length.
    fn write(&self, numbers: &[usize], out: &mut Vec<u8>) {
        let mut body = Vec::new();
        for (part, local) in &self.parts {
            body.extend_from_slice(part);
            put(&mut body, numbers[*local]);
        }
        body.extend_from_slice(self.rest);
        put(out, body.len());
        out.extend_from_slice(&body);
    }
}

/// What gzip makes of bytes.
struct Gzip {
    compress: Compress,
    out: Vec<u8>,
}

impl Gzip {
    fn new() -> Self {
        Self { compress: Compress::new(Compression::best(), false), out: Vec::new() }
    }

    /// Returns how many bytes some have behind others.
    fn len(&mut self, seen: &[u8], bytes: &[u8]) -> usize {
        self.compress.reset();
        self.out.clear();
        self.out.reserve(bytes.len() + SLACK_BYTES);
        let set = self.compress.set_dictionary(seen);
        let done = self.compress.compress_vec(bytes, &mut self.out, FlushCompress::Finish);
        if set.is_ok() && done.is_ok() { self.out.len() } else { usize::MAX }
    }
}

/// Returns what gzip still sees.
fn last(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(SEEN_BYTES)..]
}

/// The first of the loads and stores, and of each the power of two that its size is.
const FIRST_LOAD: u8 = 0x28;
const HINTS: [u8; 23] = [2, 3, 2, 3, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 3, 2, 3, 0, 1, 0, 1, 2];
/// Gzip makes no more than this of bytes that it finds nothing in.
const SLACK_BYTES: usize = 1024;

#[cfg(test)]
mod choosing {
    use crate::choices::likened;
    use crate::module::{CODE, Module, put, section};

    /// Returns what becomes of functions that have neither parameters nor results.
    fn bodies_of(functions: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut code = vec![functions.len() as u8];
        for function in functions {
            put(&mut code, function.len());
            code.extend_from_slice(function);
        }
        let indexes: Vec<u8> = [code[0]].into_iter().chain(functions.iter().map(|_| 0)).collect();
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        for (id, content) in [(1, &[1, 0x60, 0, 0][..]), (3, &indexes), (CODE, &code)] {
            section(&mut module, id, content);
        }
        let made = likened(&module).expect("the module is one");
        let made = Module::read(&made).expect("so is what was made");
        made.all_bodies().into_iter().map(Vec::from).collect()
    }

    #[test]
    fn what_is_alike_but_for_its_numbers_becomes_the_same() {
        // Locals 0 to 3 have 32 bits and 4 has 64. They are read in turn, and dropped.
        let body = |numbers: [u8; 5]| {
            let reads = numbers.repeat(4).into_iter().flat_map(|number| [0x20, number, 0x1a]);
            [2, 4, 0x7f, 1, 0x7e].into_iter().chain(reads).chain([0x0b]).collect::<Vec<_>>()
        };
        let made = bodies_of(&[body([2, 0, 1, 4, 3]), body([2, 1, 0, 4, 3])]);
        assert_eq!(made[0], made[1]);
        assert_eq!(made[0], body([2, 0, 1, 4, 3]));
    }

    #[test]
    fn loads_and_stores_say_that_they_are_aligned_and_nothing_else_changes() {
        // An i64 of 8 bytes and one of 4, loaded and stored; 0x28 is a number here too.
        let body = |of_8: u8, of_4: u8| {
            let load = [0x41, 0x28, 0x41, 0x28, 0x29, of_8, 0x28, 0x37, of_8, 0x08];
            let less = [0x41, 0x28, 0x41, 0x28, 0x34, of_4, 0x28, 0x3e, of_4, 0x08];
            [0].into_iter().chain(load).chain(less).chain([0x0b]).collect::<Vec<_>>()
        };
        assert_eq!(bodies_of(&[body(2, 0), body(3, 2)]), [body(3, 2), body(3, 2)]);
    }
}
