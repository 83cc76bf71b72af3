//! What an entry point binds, as its WGSL says.
//!
//! wgpu says less: it takes a launch that names a buffer to be read and has it written, and what it
//! says of a wrong list of buffers is in terms of layouts.

use crate::driver::Access;
use crate::drivers::wgpu::kernel::Given;
use ::wgpu::naga::front::wgsl;
use ::wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};
use ::wgpu::naga::{AddressSpace, GlobalVariable, StorageAccess};
use std::sync::Arc;

/// The bindings that an entry point uses; what is wrong with the code, where it is and wgpu says so
/// too.
#[derive(Clone, Debug)]
pub(crate) struct Bindings(Result<Arc<[Binding]>, Arc<str>>);

#[derive(Debug)]
struct Binding {
    index: u32,
    writes: bool,
}

impl Bindings {
    /// Looks at the bindings of an entry point; says which one no launch has.
    pub(crate) fn of(text: &str, entry: &str) -> Result<Self, Arc<str>> {
        let found = match globals(text, entry) {
            Ok(found) => found,
            Err(why) => return Ok(Self(Err(Arc::from(why)))),
        };
        let mut all = Vec::with_capacity(found.len());
        for global in found {
            let Some(at) = global.binding else { continue };
            let writes = match global.space {
                AddressSpace::Storage { access } => access.contains(StorageAccess::STORE),
                AddressSpace::Uniform => false,
                _ => return Err(no_buffer(at.group, at.binding)),
            };
            if at.group > 0 {
                return Err(no_buffer(at.group, at.binding));
            }
            all.push(Binding { index: at.binding, writes });
        }
        all.sort_unstable_by_key(|binding| binding.index);
        Ok(Self(Ok(all.into())))
    }

    /// Returns what is wrong with the code, line by line.
    pub(crate) fn wrong(&self) -> Option<Arc<str>> {
        self.0.as_ref().err().cloned()
    }

    /// Says why a launch cannot have these buffers and arguments.
    pub(crate) fn check(&self, given: &Given<'_>) -> Result<(), String> {
        let Self(Ok(all)) = self else { return Ok(()) };
        let count = given.buffers.len() + usize::from(given.args.is_some());
        let named = (0..).take(count);
        if !all.iter().map(|binding| binding.index).eq(named) {
            let used: Vec<_> = all.iter().map(|binding| binding.index.to_string()).collect();
            let used = if used.is_empty() { "none".into() } else { used.join(", ") };
            return Err(format!("it is given {count} bindings, and uses of them: {used}"));
        }
        let mut both = given.buffers.iter().zip(all.iter());
        match both.position(|(named, binding)| binding.writes && named.access == Access::Read) {
            Some(index) => Err(format!(
                "buffer {index} is named to be read, and the code declares it read_write"
            )),
            None => Ok(()),
        }
    }
}

/// Returns the variables that an entry point uses, or what is wrong with the code.
fn globals(text: &str, entry: &str) -> Result<Vec<GlobalVariable>, String> {
    let module = wgsl::parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).map_err(|error| error.emit_to_string(text))?;
    let at = module.entry_points.iter().position(|known| known.name == entry);
    let at = at.ok_or_else(|| format!("the code has no entry point {entry}"))?;
    let uses = info.get_entry_point(at);
    let used = module.global_variables.iter().filter(|(handle, _)| !uses[*handle].is_empty());
    Ok(used.map(|(_, variable)| variable.clone()).collect())
}

fn no_buffer(group: u32, binding: u32) -> Arc<str> {
    Arc::from(format!(
        "@group({group}) @binding({binding}) is no buffer of @group(0), and a launch binds no other"
    ))
}
