//! Buffers and bindings at the limits of a GPU, and little of what is large.

use crate::bench::pattern;
use crate::found::{open, skipped};
use rig::wgpu::{handles, wgsl};
use rig::{Buffer, Device, Error, Misuse, Profile, What, copy};

/// Opens a device that makes buffers of `len` bytes, or says aloud that the GPU makes none.
fn open_for(name: &str, len: u64) -> Option<Device> {
    let device = open(name)?;
    let most = device.facts().largest_bytes;
    if most < len {
        skipped(&format!("{name}: the largest buffer of this GPU has {most} bytes"));
    }
    (most >= len).then_some(device)
}

/// Opens a device that makes buffers `more` bytes longer than its longest binding, whose length is
/// answered too.
fn open_beyond_binding(name: &str, more: u64) -> Option<(Device, u64)> {
    let device = open(name)?;
    let most = handles(&device).unwrap().0.limits().max_storage_buffer_binding_size;
    let device = open_for(name, most.saturating_add(more))?;
    Some((device, most))
}

fn bytes(x: &Buffer, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    x.blit_to(offset, &mut out).unwrap();
    out
}

#[test]
fn s4_2_a_buffer_above_wgpus_default_limit_is_made_where_the_adapter_allows_it() {
    let len = wgpu::Limits::default().max_buffer_size + 4_099;
    let Some(d) = open_for("above the default", len) else { return };
    let x = d.create_buffer(len).unwrap();
    assert_eq!(x.len(), len);
    x.blit_from(len - 5, &[1, 2, 3, 4, 5]).unwrap();
    x.blit_from(0, &[9]).unwrap();
    assert_eq!((bytes(&x, len - 5, 5), bytes(&x, 0, 1)), (vec![1, 2, 3, 4, 5], vec![9]));
}

#[test]
fn s4_2_a_buffer_above_the_adapters_own_limit_is_unsupported() {
    let Some(d) = open("above the adapter's") else { return };
    let most = d.facts().largest_bytes;
    assert!(most <= handles(&d).unwrap().0.limits().max_buffer_size);
    for len in [most + 1, u64::MAX] {
        let refused = d.create_buffer(len);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{len}: {refused:?}");
    }
    assert_eq!((d.held(), d.lost()), (0, None));
}

#[test]
fn s8_2_a_launch_on_more_than_a_binding_holds_names_both_lengths() {
    let Some((d, most)) = open_beyond_binding("above a binding", 4) else { return };
    let x = d.create_buffer(most + 4).unwrap();
    let kernel = d.kernel(wgsl(ONE, "one")).unwrap();
    let wrong = kernel.launch([1, 1, 1]).writes(&x).submit().unwrap_err();
    assert!(matches!(wrong, Error::Misuse { what: Misuse::Rejected { .. }, .. }), "{wrong}");
    let text = wrong.to_string();
    assert!(text.contains(&(most + 4).to_string()) && text.contains(&most.to_string()), "{text}");
    assert_eq!((d.submitted(), d.lost()), (0, None));
    kernel.launch([1, 1, 1]).writes(&x.view(0, most).unwrap()).submit().unwrap().wait().unwrap();
    assert_eq!(bytes(&x, 0, 4), 1_u32.to_ne_bytes());
}

#[test]
fn s6_7_fills_and_copies_longer_than_a_binding_are_exact() {
    let Some((d, most)) = open_beyond_binding("longer than a binding", 51) else { return };
    let len = most + 43;
    let (x, y) = (d.create_buffer(len + 8).unwrap(), d.create_buffer(len + 8).unwrap());
    y.fill(0xEE).unwrap();
    x.fill(0xEE).unwrap();
    x.view(1, len).unwrap().fill(7).unwrap();
    // The pass works on so many bytes at a time.
    let borders: Vec<u64> = (0..len).step_by(32 << 20).chain([len]).collect();
    for at in &borders {
        let seen = bytes(&x, at.saturating_sub(9), 17);
        let start = at.saturating_sub(9);
        let inside = |at: u64| (1..=len).contains(&at);
        let wanted: Vec<_> =
            (start..start + 17).map(|at| if inside(at) { 7 } else { 0xEE }).collect();
        assert_eq!(seen, wanted, "a fill around {at}");
    }
    for (seed, at) in (0..).zip(&borders) {
        x.blit_from(1 + at.saturating_sub(9), &pattern(9, seed)).unwrap();
    }
    copy(&x.view(1, len).unwrap(), &y.view(2, len).unwrap()).unwrap();
    for (seed, at) in (0..).zip(&borders) {
        assert_eq!(bytes(&y, 2 + at.saturating_sub(9), 9), pattern(9, seed), "up to {at}");
    }
    assert_eq!((bytes(&y, 0, 2), bytes(&y, len + 2, 6)), (vec![0xEE; 2], vec![0xEE; 6]));
}

#[test]
fn s7_5_a_read_of_4_bytes_of_a_large_buffer_moves_4_bytes() {
    let len = 256 << 20;
    let Some(d) = open_for("small read", len) else { return };
    let x = d.create_buffer(len).unwrap();
    x.blit_from(len - 5, &[1, 2, 3, 4]).unwrap();
    let before = d.submitted();
    let profile = Profile::start();
    assert_eq!(bytes(&x, len - 5, 4), [1, 2, 3, 4]);
    let trace = profile.stop();
    let of_device = trace.events().iter().filter(|event| event.device == d.id());
    let legs: Vec<u64> =
        of_device.filter(|event| event.what == What::Leg).map(|event| event.bytes).collect();
    assert_eq!((legs, d.submitted() - before), (vec![4], 1));
}

const ONE: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;

    @compute @workgroup_size(1)
    fn one() {
        words[0] = 1u;
    }
";
