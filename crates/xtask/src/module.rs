//! A wasm as far as it is read here: its sections, its imports, the bounds of its functions and
//! their names. No instruction is read.

use std::collections::BTreeMap;
use std::ops::Range;

/// A module.
pub(crate) struct Module<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) sections: Vec<Section<'a>>,
    /// How many functions are imported; those with bodies come after.
    pub(crate) imported: usize,
    /// Where each body is.
    pub(crate) bodies: Vec<Range<usize>>,
    /// The names of functions, where there are any.
    pub(crate) names: BTreeMap<usize, &'a [u8]>,
}

/// A section of a module.
pub(crate) struct Section<'a> {
    pub(crate) id: u8,
    /// Of a custom section, its name.
    pub(crate) name: &'a [u8],
    /// Where it starts, with its number and length.
    pub(crate) start: usize,
    pub(crate) content: Range<usize>,
}

impl<'a> Module<'a> {
    /// Reads a module; none where it is none, or imports what is no function.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut module = Self {
            bytes,
            sections: Vec::new(),
            imported: 0,
            bodies: Vec::new(),
            names: BTreeMap::new(),
        };
        let mut at = HEAD_BYTES;
        while at < bytes.len() {
            let (start, id) = (at, bytes[at]);
            at += 1;
            let len = take(bytes, &mut at)?;
            let content = at..at.checked_add(len).filter(|end| *end <= bytes.len())?;
            let mut name: &[u8] = b"";
            match id {
                IMPORTS => module.read_imports(content.clone())?,
                CODE => module.read_bodies(content.clone())?,
                CUSTOM => name = text(bytes, &mut at)?,
                _ => {}
            }
            if name == NAME {
                module.read_names(at..content.end)?;
            }
            at = content.end;
            module.sections.push(Section { id, name, start, content });
        }
        Some(module)
    }

    /// Returns the body of each function.
    pub(crate) fn all_bodies(&self) -> Vec<&'a [u8]> {
        self.bodies.iter().map(|body| &self.bytes[body.clone()]).collect()
    }

    /// Returns the sections of a number.
    pub(crate) fn section(&self, id: u8) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// Returns a custom section.
    pub(crate) fn custom(&self, name: &[u8]) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.id == CUSTOM && section.name == name)
    }

    /// Counts the imports, which are functions all.
    fn read_imports(&mut self, content: Range<usize>) -> Option<()> {
        let bytes = &self.bytes[..content.end];
        let mut at = content.start;
        self.imported = take(bytes, &mut at)?;
        for _ in 0..self.imported {
            text(bytes, &mut at)?;
            text(bytes, &mut at)?;
            let is_function = *bytes.get(at)? == 0;
            at += 1;
            take(bytes, &mut at).filter(|_| is_function)?;
        }
        Some(())
    }

    fn read_bodies(&mut self, content: Range<usize>) -> Option<()> {
        let bytes = &self.bytes[..content.end];
        let mut at = content.start;
        for _ in 0..take(bytes, &mut at)? {
            let len = text(bytes, &mut at)?.len();
            self.bodies.push(at - len..at);
        }
        Some(())
    }

    fn read_names(&mut self, content: Range<usize>) -> Option<()> {
        let bytes = &self.bytes[..content.end];
        let mut at = content.start;
        while at < bytes.len() {
            let kind = bytes[at];
            at += 1;
            let part = text(bytes, &mut at)?;
            if kind != FUNCTION_NAMES {
                continue;
            }
            let mut inside = 0;
            for _ in 0..take(part, &mut inside)? {
                let index = take(part, &mut inside)?;
                self.names.insert(index, text(part, &mut inside)?);
            }
        }
        Some(())
    }
}

/// Reads a number.
pub(crate) fn take(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

/// Reads bytes that follow their length.
pub(crate) fn text<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = take(bytes, at)?;
    let from = *at;
    *at = from.checked_add(len)?;
    bytes.get(from..*at)
}

/// Writes a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a section.
pub(crate) fn section(out: &mut Vec<u8>, id: u8, content: &[u8]) {
    out.push(id);
    put(out, content.len());
    out.extend_from_slice(content);
}

/// Before the sections: the magic number and the version.
pub(crate) const HEAD_BYTES: usize = 8;
pub(crate) const CUSTOM: u8 = 0;
pub(crate) const IMPORTS: u8 = 2;
pub(crate) const EXPORTS: u8 = 7;
pub(crate) const CODE: u8 = 10;
pub(crate) const DATA: u8 = 11;
pub(crate) const NAME: &[u8] = b"name";
/// The part of the names that is about functions.
pub(crate) const FUNCTION_NAMES: u8 = 1;
