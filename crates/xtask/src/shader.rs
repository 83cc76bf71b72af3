//! A shader as an engine needs it: without comments, spaces and long names.

use std::collections::BTreeMap;

/// Returns a shader that does the same in fewer bytes. Its entry points keep their names.
pub(crate) fn small(shader: &str) -> Option<String> {
    let lines = shader.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let parts = parts(&code);
    let mut names = BTreeMap::new();
    for (at, name) in parts.iter().enumerate() {
        let ahead = |by: usize| at.checked_sub(by).map_or("", |at| parts[at]);
        let is_made = match ahead(1) {
            // Behind an attribute is an entry point.
            "fn" => ahead(2) != ")",
            "let" | "struct" => true,
            _ => parts.get(at + 1) == Some(&":"),
        };
        if is_made && !names.contains_key(name) {
            names.insert(*name, LETTERS.get(names.len()..=names.len())?);
        }
    }
    let mut small = String::new();
    for part in &parts {
        if part.starts_with(is_of_word) && small.ends_with(is_of_word) {
            small.push(' ');
        }
        small.push_str(names.get(part).unwrap_or(part));
    }
    Some(small)
}

/// Returns the words of a text and each other character, without spaces.
fn parts(code: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(word.max(first.len_utf8()));
        parts.push(part);
        rest = behind.trim_start();
    }
    parts
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Short names, those first that the module's own code has most.
const LETTERS: &str = "etirsnhaolufcdgmybwpvkxz";

#[cfg(test)]
mod making {
    use crate::shader::small;

    #[test]
    fn what_an_engine_does_not_need_goes() {
        let shader = "// A comment.
            struct Job { len: u32, }
            @group(0) @binding(0) var<uniform> job: Job;
            fn twice(at: u32) -> u32 {
                let len = job.len * 2u; // The rest of a line.
                return at - len;
            }
            @compute @workgroup_size(64)
            fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                twice(id.x);
            }";
        let made = "struct e{t:u32,}@group(0)@binding(0)var<uniform>i:e;fn r(s:u32)->u32{\
            let t=i.t*2u;return s-t;}@compute@workgroup_size(64)fn main(\
            @builtin(global_invocation_id)n:vec3<u32>){r(n.x);}";
        assert_eq!(small(shader).as_deref(), Some(made));
    }
}
