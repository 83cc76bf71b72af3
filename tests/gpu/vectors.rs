//! Vector A of S14 on a GPU that maps no host memory: its halves are its own.

use crate::found::{open, open_importing, open_mapped};
use rig::wgpu::wgsl;
use rig::{Buffer, Device, Prepared, Stamps, copy, host};
use rig_support::drain;

/// The bytes of H and X.
pub(crate) const N: u64 = 262_144;

/// The stamps of a buffer as the table writes them: the write, then the device's use.
pub(crate) fn cell(stamps: Option<Stamps>, device: &Device) -> (u64, u64) {
    let Some(stamps) = stamps else { return (0, 0) };
    let value = |point: Option<rig::Point>| point.map_or(0, rig::Point::value);
    (value(stamps.write), value(stamps.use_by(device)))
}

fn row(d: &Device, h: &Buffer, x: &Buffer) -> [(u64, u64); 3] {
    [cell(Some(h.stamps()), d), cell(Some(x.stamps()), d), cell(d.half_stamps(0, 0), d)]
}

/// Work that doubles X in place.
pub(crate) fn doubles(d: &Device, x: &Buffer) -> Prepared {
    let kernel = d.kernel(wgsl(DOUBLE, "double")).unwrap();
    d.prepare().launch(&kernel, [1_024, 1, 1]).writes(x).build().unwrap()
}

/// Stores its index into each float of H.
pub(crate) fn numbered(h: &Buffer) {
    h.write_as::<f32, _>(|floats| (0..).zip(floats).for_each(|(at, float)| *float = at as f32))
        .unwrap();
}

pub(crate) fn last_float(h: &Buffer) -> f32 {
    h.read_as::<f32, _>(|floats| floats[65_535]).unwrap()
}

#[test]
fn s14_a_copies_through_a_half_of_the_devices_own() {
    let Some(d) = open("vector a") else { return };
    let h = host().create_buffer(N).unwrap();
    let x = d.create_buffer(N).unwrap();
    assert_eq!(d.held(), N);
    numbered(&h);
    copy(&h, &x).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (1, 1), (0, 1)]);
    assert_eq!((d.submitted(), d.reached()), (1, 1));

    let prepared = doubles(&d, &x);
    prepared.submit(&[], &[]).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (2, 2), (0, 1)]);
    d.wait(2).unwrap();
    assert_eq!(d.reached(), 2);

    copy(&x, &h).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (2, 3), (3, 3)]);
    assert_eq!(last_float(&h), 131_070.0);

    copy(&h, &x).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (4, 4), (3, 4)]);

    drop((prepared, x));
    drain(&d);
    assert_eq!((d.cached(), d.submitted()), (N, 4));
    let served = d.stats().kind_counts[0];
    let x = d.create_buffer(N).unwrap();
    assert_eq!(cell(Some(x.stamps()), &d), (0, 0));
    assert_eq!(d.stats().kind_counts[0], served + 1);
    drop(x);
    d.close().unwrap();
    assert_eq!(d.held(), 0);
}

#[test]
fn s14_b_copies_through_a_borrow_of_the_hosts_own_pages() {
    let Some(d) = open_importing("vector b") else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    let hb = h.borrow(&d).unwrap().expect("the device maps host memory");
    copy(&hb, &x).unwrap();
    assert_eq!(row(&d, &h, &x)[..2], [(0, 1), (1, 1)]);
    doubles(&d, &x).submit(&[], &[]).unwrap();
    assert_eq!(row(&d, &h, &x)[..2], [(0, 1), (2, 2)]);
    copy(&x, &hb).unwrap();
    assert_eq!(row(&d, &h, &x)[..2], [(3, 3), (2, 3)]);
    assert_eq!(last_float(&h), 131_070.0);

    // In place, with no copy anywhere: the device doubles the host's own floats.
    doubles(&d, &hb).submit(&[], &[]).unwrap();
    assert_eq!(last_float(&h), 262_140.0);
    drop((hb, h, x));
    d.close().unwrap();
}

#[test]
fn s14_c_copies_by_the_host_where_it_addresses_the_devices_memory() {
    let Some(d) = open_mapped("vector c") else { return };
    let (h, x) = (host().create_buffer(N).unwrap(), d.create_buffer(N).unwrap());
    numbered(&h);
    copy(&h, &x).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0); 3]);
    doubles(&d, &x).submit(&[], &[]).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (1, 1), (0, 0)]);
    copy(&x, &h).unwrap();
    assert_eq!(row(&d, &h, &x), [(0, 0), (1, 1), (0, 0)]);
    assert_eq!((d.submitted(), d.reached(), last_float(&h)), (1, 1, 131_070.0));
}

#[test]
fn s1_9_an_access_and_work_take_turns_on_memory_that_is_mapped() {
    let Some(d) = open_mapped("taking turns") else { return };
    let x = d.create_buffer(64).unwrap();
    let fill = d.prepare().fill(&x.view(0, 32).unwrap(), 5).build().unwrap();
    for round in 0..20 {
        x.write(|bytes| bytes.fill(round)).unwrap();
        x.read(|bytes| assert_eq!(bytes, [round; 64])).unwrap();
        fill.submit(&[], &[]).unwrap();
        x.read(|bytes| {
            // Reads nest, and share the map.
            x.read(|inner| assert_eq!(inner.as_ptr(), bytes.as_ptr())).unwrap();
            assert_eq!((&bytes[..32], &bytes[32..]), (&[5; 32][..], &[round; 32][..]));
        })
        .unwrap();
    }
}

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> floats: array<f32>;

    @compute @workgroup_size(64)
    fn double(@builtin(global_invocation_id) id: vec3<u32>) {
        floats[id.x] *= 2.0;
    }
";
