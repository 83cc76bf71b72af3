//! Has the linker tell what refers to what, for the task that sweeps the wasm.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-cdylib-link-arg=--emit-relocs");
    }
}
