//! The laws of `rig::driver::Driver` on a GPU, with memory that the host never addresses, with
//! memory that it addresses while it is mapped, with host memory that the GPU maps, with values
//! that are submitted together, and on GL.

use crate::bench::{Bench, span, write};
use crate::found::{driver, driver_on_gl, options, ready};
use rig::driver::{Access, Addressed, Driver, Kind, Load, Op, Part};
use rig::drivers;
use rig::wgpu::{Batching, MapsHost, Options, wgsl};
use std::sync::Arc;

/// Makes a module of tests: each law on one kind of GPU.
macro_rules! suite {
    ($name:ident, $open:expr, [$($own:ident),*] [$($law:ident),*]) => {
        suite!($name, $open, [$($own,)* $($law),*]);
    };
    ($name:ident, $open:expr, [$($law:ident),* $(,)?]) => {
        mod $name {
            $(#[test]
            fn $law() {
                if let Some(first) = $open() {
                    let first = std::cell::Cell::new(Some(first));
                    let open = || first.take().or_else($open).expect("there was an adapter");
                    crate::laws::$law(&open);
                }
            })*
        }
    };
}

macro_rules! device {
    ($name:ident, $open:expr) => {
        crate::laws::of_every_device!(suite!(
            $name,
            $open,
            [s4_7_mapped_host_memory_is_the_same_bytes]
        ));
    };
}

fn open_apart() -> Option<Arc<dyn Driver>> {
    driver(Addressed::Never, MapsHost::Never)
}

fn open_mapped() -> Option<Arc<dyn Driver>> {
    driver(Addressed::WhileMapped, MapsHost::Never)
}

fn open_batching() -> Option<Arc<dyn Driver>> {
    let options = options("a driver that batches", Addressed::Never)?;
    let options = Options { batching: Batching::On, ..options };
    Some(ready(drivers::wgpu::driver(options)).expect("the adapter opens"))
}

fn open_importing() -> Option<Arc<dyn Driver>> {
    driver(Addressed::Never, MapsHost::WhereItCan)
}

device!(apart, crate::contract::open_apart);
device!(mapped, crate::contract::open_mapped);
device!(importing, crate::contract::open_importing);
device!(batching, crate::contract::open_batching);
device!(on_gl, crate::found::driver_on_gl);

#[test]
fn s10_3_threads_allocate_and_free_beside_each_other() {
    let opens =
        [open_apart, open_mapped, open_importing, open_batching, crate::found::driver_on_gl];
    for open in opens {
        if let Some(driver) = open() {
            crate::thread_law::s10_3_threads_allocate_and_free_beside_each_other(&|| {
                driver.clone()
            });
        }
    }
}

#[test]
fn s8_1_a_launch_runs_its_wgsl_with_its_buffers_and_arguments() {
    let opened = [open_apart(), open_mapped(), open_importing(), open_batching(), driver_on_gl()];
    for driver in opened.into_iter().flatten() {
        let bench = Bench::new(&move || Arc::clone(&driver));
        let Load::Ready { kernel, code_bytes: 0 } = bench.driver.load(&wgsl(ADD, "add")) else {
            panic!("it is valid WGSL");
        };
        let (a, b) = (bench.alloc(16), bench.alloc(16));
        bench.put(a, 0, bytes_of([1, 2, 3, 4]).as_slice());
        let (groups, args) = ([4, 1, 1], 10_u32.to_ne_bytes().to_vec());
        let op = Op::Launch { kernel, groups, args, args_span: None, buffers: vec![0, 1] };
        let parts = [Part { queue: 0, after: vec![], op }];
        for _ in 0..2 {
            bench.run(&parts, &[span(a, 0, 16), write(b, 0, 16)]);
        }
        assert_eq!(bench.get(b, 0, 16), bytes_of([22, 24, 26, 28]));
        bench.driver.unload(kernel);
        bench.free(a);
        bench.free(b);
    }
}

#[test]
fn s7_6_a_half_keeps_what_goes_up_apart_from_what_comes_down() {
    let Some(driver) = open_apart() else { return };
    let bench = Bench::new(&move || Arc::clone(&driver));
    let ask = rig::driver::Ask { kind: Kind::Transfer, len_bytes: 4096, paged: false };
    let rig::driver::Alloc::Ready(half) = bench.driver.alloc(ask) else { panic!("4096 bytes fit") };
    for access in [Access::Read, Access::Write] {
        bench.poll_transfer(half, access);
    }
    let a = bench.alloc(16);
    bench.put(a, 0, &[7; 16]);
    bench.while_mapped(half, Access::Write, |bytes| bytes.copy_in(0, &[9; 16]));
    bench.run(&[crate::bench::copy(0, 1)], &[span(a, 0, 16), write(half, 0, 16)]);
    bench.while_mapped(half, Access::Read, |bytes| {
        let mut seen = [0; 16];
        bytes.copy_out(0, &mut seen);
        assert_eq!(seen, [7; 16]);
    });
    bench.run(&[crate::bench::copy(0, 1)], &[span(half, 0, 16), write(a, 0, 16)]);
    assert_eq!(bench.get(a, 0, 16), [9; 16]);
    bench.free(half);
    bench.free(a);
}

fn bytes_of(words: [u32; 4]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

const ADD: &str = "
    @group(0) @binding(0) var<storage, read> from_words: array<u32>;
    @group(0) @binding(1) var<storage, read_write> to_words: array<u32>;
    @group(0) @binding(2) var<uniform> by: u32;

    @compute @workgroup_size(1)
    fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        to_words[id.x] += from_words[id.x] + by;
    }
";
