//! S15, "Access": every verb is byte-exact at any offset and length, and at sizes above 32 bits.

use crate::bench::{buffer_of, bytes_of, host_buffer_of, misuse, own_halves, pattern};
use rig::driver::Addressed;
use rig::{Buffer, Device, Export, Misuse, copy, host};
use rig_support::{Scratch, Script};

/// Every verb at lengths 0 to 9 and offsets 0 to 9, against a vector.
fn walk(device: &Device) {
    let len = 20;
    let mut model = pattern(len, 1);
    let x = buffer_of(device, &model);
    walk_buffer(&x, &mut model);
}

fn walk_buffer(x: &Buffer, model: &mut [u8]) {
    for offset in 0..10 {
        for len in 0..10 {
            let at = offset as usize..(offset + len) as usize;
            let part = x.view(offset, len).unwrap();
            let bytes = pattern(len, offset + 3 * len);
            x.blit_from(offset, &bytes).unwrap();
            model[at.clone()].copy_from_slice(&bytes);
            let mut seen = vec![0; len as usize];
            x.blit_to(offset, &mut seen).unwrap();
            assert_eq!(seen, bytes);
            assert_eq!(bytes_of(x), model);
            part.fill(offset as u8).unwrap();
            model[at.clone()].fill(offset as u8);
            assert_eq!(bytes_of(x), model);
            let h = host_buffer_of(&pattern(len, 5 * offset + len));
            copy(&h, &part).unwrap();
            model[at.clone()].copy_from_slice(&bytes_of(&h));
            assert_eq!(bytes_of(x), model);
            h.fill(0).unwrap();
            copy(&part, &h).unwrap();
            assert_eq!(bytes_of(&h), model[at]);
        }
    }
}

#[test]
fn s15_access_every_verb_on_host_memory() {
    walk(&host());
}

#[test]
fn s15_access_every_verb_on_a_memory_device() {
    walk(&rig::memory::open("s15 access memory").unwrap());
}

#[test]
fn s15_access_every_verb_through_staging() {
    walk(&own_halves(Script::new("s15 access staged")).open());
}

#[test]
fn s15_access_every_verb_through_a_devices_own_halves() {
    for (name, transfer) in
        [("s15 access own", Addressed::Always), ("s15 access own, mapped", Addressed::WhileMapped)]
    {
        let script = Script::new(name).maps_host(None).transfer(transfer);
        walk(&own_halves(script).open());
    }
}

#[test]
fn s15_access_every_verb_on_memory_that_is_mapped() {
    walk(&Script::new("s15 access mapped").addressed(Addressed::WhileMapped).open());
}

#[test]
fn s15_access_in_place_verbs_at_lengths_and_offsets_0_to_9() {
    let device = Script::new("s15 access in place").addressed(Addressed::WhileMapped).open();
    let memory = rig::memory::open("s15 access in place, memory").unwrap();
    for (device, exports) in [(&host(), true), (&memory, true), (&device, false)] {
        let mut model = pattern(20, 4);
        let x = buffer_of(device, &model);
        for offset in 0..10 {
            for len in 0..10 {
                let at = offset as usize..(offset + len) as usize;
                let part = x.view(offset, len).unwrap();
                assert_eq!(part.read(<[u8]>::to_vec).unwrap(), model[at.clone()]);
                let new = pattern(len, offset + 2 * len);
                part.write(|bytes| bytes.copy_from_slice(&new)).unwrap();
                model[at.clone()].copy_from_slice(&new);
                assert_eq!(part.read_as::<u8, _>(<[u8]>::to_vec).unwrap(), new);
                if exports {
                    let export = part.export().unwrap();
                    export_walk(&export, &new);
                }
                assert_eq!(x.read(<[u8]>::to_vec).unwrap(), model);
            }
        }
    }
}

/// Copies each part of an export out and in again.
fn export_walk(export: &Export, bytes: &[u8]) {
    for from in 0..bytes.len() {
        let mut seen = vec![0; bytes.len() - from];
        export.copy_out(from as u64, &mut seen).unwrap();
        assert_eq!(seen, bytes[from..]);
        export.copy_in(from as u64, &seen).unwrap();
    }
}

#[test]
fn s15_access_sizes_around_2_to_the_32_on_host_memory() {
    big(&host());
}

#[test]
fn s15_access_sizes_around_2_to_the_32_through_staging() {
    big(&own_halves(Script::new("s15 big staged")).open());
}

/// Moves bytes about the 32-bit border of a buffer; most of its memory is never touched.
fn big(device: &Device) {
    const EDGE: u64 = 1 << 32;
    let x = device.create_buffer(EDGE + 9).unwrap();
    assert_eq!(x.len(), EDGE + 9);
    let bytes = pattern(9, 3);
    for offset in [EDGE - 9, EDGE - 4, EDGE, 0] {
        x.blit_from(offset, &bytes).unwrap();
        let mut seen = [0; 9];
        x.blit_to(offset, &mut seen).unwrap();
        assert_eq!(seen[..], bytes, "at {offset}");
    }
    let past = Misuse::OutOfRange { end_bytes: EDGE + 10, len_bytes: EDGE + 9 };
    assert_eq!(misuse(x.blit_to(EDGE + 1, &mut [0; 9])), past);
    assert_eq!(misuse(x.view(1, EDGE + 9)), past);
    let last = x.view(EDGE, 9).unwrap();
    assert_eq!(last.offset(), EDGE);
    last.fill(7).unwrap();
    assert_eq!(bytes_of(&last), [7; 9]);
    assert_eq!(bytes_of(&x.view(0, 9).unwrap()), bytes, "no offset is cut to 32 bits");
    copy(&x.view(0, 9).unwrap(), &last).unwrap();
    assert_eq!(bytes_of(&last), bytes);
    assert!(!last.overlaps(&x.view(0, EDGE).unwrap()));
}

#[test]
fn s6_6_blits_reach_files() {
    let path = Scratch::new();
    let file = rig::file::open("s6.6 files").unwrap().create_file(&path, 20).unwrap();
    let mut model = vec![0; 20];
    walk_buffer(&file, &mut model);
    assert_eq!(std::fs::read(&path).unwrap(), model);
}

#[test]
fn s6_7_odd_offsets_and_lengths_are_byte_exact_between_views_of_one_buffer() {
    let device = own_halves(Script::new("s6.7")).open();
    let mut model = pattern(64, 7);
    let x = buffer_of(&device, &model);
    for (from, to, len) in [(0, 33, 31), (1, 32, 9), (35, 2, 27), (63, 0, 1), (5, 8, 3)] {
        copy(&x.view(from, len).unwrap(), &x.view(to, len).unwrap()).unwrap();
        let (from, to, len) = (from as usize, to as usize, len as usize);
        model.copy_within(from..from + len, to);
        assert_eq!(bytes_of(&x), model);
    }
}
