//! The names by which a wasm and its page know each other's functions, which are short in the
//! package. Those of two words or more are known to nobody else.

use crate::module::{EXPORTS, IMPORTS, Module, put, section, take, text};
use std::collections::BTreeMap;

/// What a JavaScript property that is such a name matches.
pub(crate) const LONG: &str = "[a-z]+(?:_[a-z]+)+";

/// Short names by the long ones.
pub(crate) type Names = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads short names out of a JSON object whose values are texts; neither has escapes.
pub(crate) fn names(json: &str) -> Names {
    let texts: Vec<_> = json.split('"').skip(1).step_by(2).map(|text| text.into()).collect();
    texts.chunks_exact(2).map(|pair: &[Vec<u8>]| (pair[0].clone(), pair[1].clone())).collect()
}

/// Returns a module whose imports and exports have their short names, where they have any.
pub(crate) fn shortened(bytes: &[u8], names: &Names) -> Option<Vec<u8>> {
    let module = Module::read(bytes)?;
    let mut out = bytes[..module.sections.first()?.start].to_vec();
    for part in &module.sections {
        let bytes = &bytes[..part.content.end];
        if !matches!(part.id, IMPORTS | EXPORTS) {
            out.extend_from_slice(&bytes[part.start..]);
            continue;
        }
        let (mut at, mut content) = (part.content.start, Vec::new());
        let count = take(bytes, &mut at)?;
        put(&mut content, count);
        for _ in 0..count {
            if part.id == IMPORTS {
                text_out(&mut content, text(bytes, &mut at)?);
            }
            let name = text(bytes, &mut at)?;
            text_out(&mut content, names.get(name).map_or(name, Vec::as_slice));
            // What it is, and a number.
            let from = at;
            at += 1;
            take(bytes, &mut at)?;
            content.extend_from_slice(&bytes[from..at]);
        }
        section(&mut out, part.id, &content);
    }
    Some(out)
}

fn text_out(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod naming {
    use crate::edge::{names, shortened};
    use crate::module::{EXPORTS, IMPORTS, section};

    #[test]
    fn imports_and_exports_get_the_names_that_the_page_has_for_them() {
        let module = |import: &[u8], export: &[u8]| {
            let mut out = b"\0asm\x01\0\0\0".to_vec();
            section(&mut out, 1, &[1, 0x60, 0, 0]);
            section(&mut out, IMPORTS, &[b"\x01\x04page", import, &[0, 0]].concat());
            section(&mut out, 3, &[1, 0]);
            section(&mut out, EXPORTS, &[b"\x02\x04pump\0\x01", export, &[0, 0]].concat());
            out
        };
        let names = names("{\n  \"say_text\": \"a\",\n  \"drop_kept\": \"bc\"\n}");
        let made = shortened(&module(b"\x08say_text", b"\x09drop_kept"), &names);
        assert_eq!(made, Some(module(b"\x01a", b"\x02bc")));
    }
}
