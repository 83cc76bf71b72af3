//! Binds a wasm for a page, as the command line of wasm-bindgen does: `bind WASM FOLDER`.
//!
//! It is a library's call here, so that no program has to be installed whose version is the one
//! that the wasm was built with.

#[cfg(not(target_family = "wasm"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(wasm), Some(folder)) = (args.next(), args.next()) else {
        return Err("bind WASM FOLDER".into());
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    bindgen.input_path(wasm).out_name("page").web(true)?.omit_default_module_path(false);
    bindgen.typescript(false).generate(folder)?;
    Ok(())
}

#[cfg(target_family = "wasm")]
fn main() {}
