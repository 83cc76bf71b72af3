//! S8.3: work whose arguments find no room on the device.

use crate::found::{open, open_batching};
use crate::process::{alone, limit_memory};
use rig::wgpu::wgsl;
use rig::{Buffer, Builder, Device, Error, Kernel, Point, Prepared, Report, Result};
use std::sync::Arc;

/// A device with a kernel and a buffer that it has used.
struct Scene {
    d: Device,
    add: Kernel,
    x: Buffer,
}

impl Scene {
    fn new(d: Device) -> Self {
        let add = d.kernel(wgsl(ADD, "add")).unwrap();
        let x = d.create_buffer(64).unwrap();
        x.fill(0).unwrap();
        let scene = Self { d, add, x };
        scene.launch().unwrap().wait().unwrap();
        assert_eq!(scene.seen(), 1);
        scene
    }

    /// Adds one, with the most arguments that a launch has.
    fn launch(&self) -> Result<Point> {
        self.add.launch([1, 1, 1]).writes(&self.x).args(&ONE).submit()
    }

    /// Adds one 20 times, with more arguments than the device keeps a page for.
    fn many(&self) -> Prepared {
        let launches =
            |parts: Builder, _| parts.launch(&self.add, [1, 1, 1]).writes(&self.x).args(&ONE);
        (0..20).fold(self.d.prepare(), launches).build().unwrap()
    }

    fn seen(&self) -> u32 {
        let mut out = [0; 4];
        self.x.blit_to(0, &mut out).unwrap();
        u32::from_ne_bytes(out)
    }

    /// Takes all the room there is, and leaves the process some for itself; none where that cannot
    /// be.
    fn fill_up(&self) -> Option<Vec<Buffer>> {
        self.d.set_budget(u64::MAX).unwrap();
        // wgpu takes 64 MiB at a time from the system, so it gets no more.
        if !limit_memory(48 << 20) {
            return None;
        }
        let mut taken = Vec::new();
        for len in [4 << 20, 64 << 10, 4 << 10, 256] {
            while let Ok(buffer) = self.d.create_buffer(len) {
                taken.push(buffer);
            }
        }
        Some(taken)
    }
}

/// Takes an OutOfMemory apart: bytes asked, the report.
fn out_of_memory<T: std::fmt::Debug>(answer: Result<T>) -> (u64, Arc<Report>) {
    match answer {
        Err(Error::OutOfMemory { asked_bytes, report, .. }) => (asked_bytes, report),
        other => panic!("{other:?}"),
    }
}

#[test]
fn s8_3_arguments_that_find_no_room_are_out_of_memory_and_lose_nothing() {
    let name = "room::s8_3_arguments_that_find_no_room_are_out_of_memory_and_lose_nothing";
    alone(name, || {
        let Some(d) = open("no room for arguments") else { return };
        let scene = Scene::new(d);
        let many = scene.many();
        many.submit(&[], &[]).unwrap().wait().unwrap();
        let submitted = scene.d.submitted();
        let Some(taken) = scene.fill_up() else { return };
        // More arguments than the page that the device keeps, and those of a page.
        for answer in [many.submit(&[], &[]), scene.launch()] {
            let (asked, report) = out_of_memory(answer);
            assert_eq!((report.rounds.len(), report.live_bytes), (3, scene.d.held()));
            assert!(asked > 0, "{asked} bytes were asked for");
        }
        assert_eq!((scene.d.submitted(), scene.d.lost()), (submitted, None));
        drop(taken);
        // What a round takes out of the cache serves.
        many.submit(&[], &[]).unwrap();
        scene.launch().unwrap().wait().unwrap();
        assert_eq!(scene.seen(), 42);
    });
}

#[test]
fn s8_3_values_that_wait_for_each_other_run_beside_one_that_finds_no_room() {
    let name = "room::s8_3_values_that_wait_for_each_other_run_beside_one_that_finds_no_room";
    alone(name, || {
        let Some(d) = open_batching("no room for a batch") else { return };
        let scene = Scene::new(d);
        let many = scene.many();
        let Some(taken) = scene.fill_up() else { return };
        let submitted = scene.d.submitted();
        out_of_memory(many.submit(&[], &[]));
        out_of_memory(scene.launch());
        assert_eq!((scene.d.submitted(), scene.d.lost()), (submitted, None));
        drop(taken);
        // Room is there when a value is taken, and its submission finds none and needs none.
        scene.launch().unwrap();
        scene.d.free_cache().unwrap();
        let taken = scene.fill_up();
        out_of_memory(many.submit(&[], &[]));
        assert_eq!(scene.d.lost(), None);
        drop(taken);
        many.submit(&[], &[]).unwrap();
        assert_eq!((scene.seen(), scene.d.lost()), (22, None));
    });
}

/// Arguments: 1 and zeros.
const ONE: [u8; 4096] = {
    let mut args = [0; 4096];
    args[0] = 1;
    args
};

const ADD: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @group(0) @binding(1) var<uniform> by: vec4<u32>;

    @compute @workgroup_size(1)
    fn add() {
        words[0] += by.x;
    }
";
