//! Launches whose buffers are not what their code binds.

use crate::found::{open, open_importing};
use rig::bytes::page_bytes;
use rig::wgpu::wgsl;
use rig::{Error, Misuse, Result};

/// Returns why the driver rejected something.
fn why<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(Error::Misuse { what: Misuse::Rejected { why }, .. }) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn says<T: std::fmt::Debug>(answer: Result<T>, words: &[&str]) {
    let why = why(answer);
    assert!(words.iter().all(|word| why.contains(word)), "{why}");
}

#[test]
fn s8_8_what_code_writes_is_not_named_to_be_read() {
    let Some(d) = open("misread") else { return };
    let (from, into) = (d.create_buffer(64).unwrap(), d.create_buffer(64).unwrap());
    from.fill(1).unwrap();
    into.fill(0).unwrap();
    let kernel = d.kernel(wgsl(COPY, "copy")).unwrap();
    says(kernel.launch([1, 1, 1]).reads(&from).reads(&into).submit(), &["buffer 1", "read_write"]);
    assert_eq!((d.submitted(), d.lost()), (2, None));
    // What is only read may be named to be written.
    kernel.launch([1, 1, 1]).writes(&from).writes(&into).submit().unwrap();
    assert_eq!(bytes(&into)[..5], [1, 1, 1, 1, 0]);
}

#[test]
fn s8_8_memory_that_the_host_reads_is_written_by_no_launch() {
    let Some(d) = open_importing("misread host memory") else { return };
    let words = vec![0_u8; 4 * page_bytes() as usize].leak();
    let start = words.as_ptr().align_offset(page_bytes() as usize);
    let words: &'static [u8] = &words[start..start + page_bytes() as usize];
    let shared = rig::wrap_shared(words);
    let Some(there) = rig::borrow(&d, &shared).unwrap() else { return };
    let kernel = d.kernel(wgsl(ONES, "ones")).unwrap();
    says(kernel.launch([1, 1, 1]).reads(&there).submit(), &["buffer 0", "read_write"]);
    d.wait(d.submitted()).unwrap();
    assert_eq!(words[0], 0);
}

#[test]
fn s8_8_a_launch_whose_buffers_are_not_those_of_its_code_names_both() {
    let Some(d) = open("miscounted") else { return };
    let x = d.create_buffer(64).unwrap();
    let kernel = d.kernel(wgsl(COPY, "copy")).unwrap();
    says(kernel.launch([1, 1, 1]).writes(&x).submit(), &["given 1 binding", "0, 1"]);
    let y = d.create_buffer(64).unwrap();
    let three = kernel.launch([1, 1, 1]).reads(&x).writes(&y).args(&[1; 4]).submit();
    says(three, &["given 3 bindings", "0, 1"]);
    // One that it declares, and does not use.
    let unused = d.kernel(wgsl(UNUSED, "unused")).unwrap();
    says(unused.launch([1, 1, 1]).reads(&x).writes(&y).submit(), &["given 2 bindings", "1"]);
    let none = d.kernel(wgsl("@compute @workgroup_size(1) fn none() {}", "none")).unwrap();
    says(none.launch([1, 1, 1]).reads(&x).submit(), &["given 1 binding", "none"]);
    none.launch([1, 1, 1]).submit().unwrap();
}

#[test]
fn s8_8_code_that_binds_what_no_launch_has_does_not_load() {
    let Some(d) = open("misbound") else { return };
    says(d.kernel(wgsl(APART, "apart")), &["@group(1) @binding(0)"]);
    says(d.kernel(wgsl(TEXTURE, "textured")), &["@group(0) @binding(1)"]);
    assert_eq!((d.submitted(), d.lost()), (0, None));
}

#[test]
fn s8_8_wrong_code_is_shown_line_by_line() {
    let Some(d) = open("miswritten") else { return };
    let why =
        why(d.kernel(wgsl("@compute @workgroup_size(1)\nfn f() { let x: u32 = 1.5f; }", "f")));
    assert!(why.lines().count() > 3 && why.contains("wgsl:2:"), "{why}");
}

#[test]
fn s6_7_a_launch_reaches_no_bytes_beside_its_buffers() {
    let Some(d) = open("beside") else { return };
    let kernel = d.kernel(wgsl(ONES, "ones")).unwrap();
    let launch = |x: &rig::Buffer| kernel.launch([1, 1, 1]).writes(x).submit();
    let x = d.create_buffer(512).unwrap();
    x.fill(0xFF).unwrap();
    let part = x.view(256, 6).unwrap();
    says(launch(&part), &["6 bytes", "multiple of 4"]);
    launch(&x.view(256, 8).unwrap()).unwrap();
    assert_eq!(bytes(&x)[256..268], [1, 0, 0, 0, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    // What ends with its memory is bound in whole words.
    let odd = d.create_buffer(263).unwrap();
    odd.fill(0).unwrap();
    launch(&odd.view(256, 7).unwrap()).unwrap();
    assert_eq!(bytes(&odd)[256..], [1, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn s1_2_memory_that_the_host_always_addresses_is_none_of_a_gpus() {
    let Some(d) = open("never always") else { return };
    let (device, queue) = rig::wgpu::handles(&d).unwrap();
    let always = || rig::wgpu::Options {
        name: "always".into(),
        addressed: rig::driver::Addressed::Always,
        ..Default::default()
    };
    for opened in [rig::wgpu::open(always()), rig::wgpu::adopt(device, queue, always())] {
        assert!(matches!(opened, Err(Error::Unsupported { .. })), "{opened:?}");
    }
}

fn bytes(x: &rig::Buffer) -> Vec<u8> {
    let mut out = vec![0; x.len() as usize];
    x.blit_to(0, &mut out).unwrap();
    out
}

const COPY: &str = "
    @group(0) @binding(0) var<storage, read> src: array<u32>;
    @group(0) @binding(1) var<storage, read_write> dst: array<u32>;

    @compute @workgroup_size(1)
    fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
        dst[id.x] = src[id.x];
    }
";
const ONES: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;

    @compute @workgroup_size(1)
    fn ones() {
        for (var i = 0u; i < arrayLength(&words); i++) {
            words[i] = 1u;
        }
    }
";
const UNUSED: &str = "
    @group(0) @binding(0) var<storage, read> src: array<u32>;
    @group(0) @binding(1) var<storage, read_write> dst: array<u32>;

    @compute @workgroup_size(1)
    fn unused() {
        dst[0] = 1u;
    }
";
const APART: &str = "
    @group(1) @binding(0) var<storage, read_write> x: array<u32>;

    @compute @workgroup_size(1)
    fn apart() {
        x[0] = 1u;
    }
";
const TEXTURE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var image: texture_2d<f32>;

    @compute @workgroup_size(1)
    fn textured() {
        x[0] = textureDimensions(image).x;
    }
";
