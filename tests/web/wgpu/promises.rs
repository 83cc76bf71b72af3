//! Promises of the library on a GPU of the page, reached through wgpu.

use rig::wgpu::{encode, wgsl};
use rig::{Device, Error, Misuse, Result};
use std::pin::Pin;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// Lets a turn of the event loop pass.
    #[wasm_bindgen(js_namespace = globalThis)]
    async fn passed();
}

/// A promise, on a GPU that nobody else uses.
pub(crate) type Promise = fn(Device) -> Pin<Box<dyn Future<Output = Result<()>>>>;

macro_rules! promises {
    ($($name:ident),* $(,)?) => {
        /// All of them by their names.
        pub(crate) const ALL: &[(&str, Promise)] =
            &[$((stringify!($name), |gpu| Box::pin($name(gpu)))),*];
    };
}

promises![
    s7_1_bytes_come_back_as_they_were_sent,
    s9_3_buffers_that_nobody_holds_serve_the_next_ones,
    s8_5_kernels_double_what_the_host_sent,
    s8_8_a_wrong_encoding_is_told_by_the_wait_and_loses_nothing,
    s10_9_what_does_not_fit_is_an_error_with_three_rounds,
    s12_1_a_device_that_was_destroyed_is_lost_to_its_next_work,
    s9_15_what_was_cached_goes_back_by_the_tick,
];

async fn s7_1_bytes_come_back_as_they_were_sent(gpu: Device) -> Result<()> {
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at * 7 + at / 251) as u8).collect();
    let x = gpu.create_buffer_async(bytes.len() as u64 + 16).await?;
    for offset in [0, 1, 2, 7, 16] {
        x.blit_from_async(offset, &bytes).await?;
        let mut back = vec![0; bytes.len()];
        x.blit_to_async(offset, &mut back).await?;
        assert!(back == bytes, "at {offset}");
    }
    Ok(())
}

async fn s9_3_buffers_that_nobody_holds_serve_the_next_ones(gpu: Device) -> Result<()> {
    gpu.set_budget(8 << 20)?;
    for round in 0..200u32 {
        let x = gpu.create_buffer_async(1 << 20).await?;
        x.fill_async(round as u8).await?;
        let mut byte = [0];
        x.blit_to_async(4_096, &mut byte).await?;
        assert_eq!(byte, [round as u8]);
        assert!(gpu.held() <= gpu.budget());
    }
    let stats = gpu.stats();
    assert!(stats.actual_count <= 8, "{} allocations", stats.actual_count);
    Ok(())
}

async fn s8_5_kernels_double_what_the_host_sent(gpu: Device) -> Result<()> {
    let double = gpu.kernel_async(wgsl(DOUBLE, "double")).await?;
    let x = gpu.create_buffer_async(4 * 4_096).await?;
    let values: Vec<u8> = (0..4_096u32).flat_map(u32::to_ne_bytes).collect();
    x.blit_from_async(0, &values).await?;
    for _ in 0..3 {
        double.launch([64, 1, 1]).writes(&x).submit_async().await?;
    }
    let mut back = vec![0; values.len()];
    x.blit_to_async(0, &mut back).await?;
    let expected: Vec<u8> = (0..4_096u32).flat_map(|at| (8 * at).to_ne_bytes()).collect();
    assert!(back == expected);
    Ok(())
}

async fn s8_8_a_wrong_encoding_is_told_by_the_wait_and_loses_nothing(gpu: Device) -> Result<()> {
    let x = gpu.create_buffer_async(64).await?;
    let too_long = encode(|encoder, places| {
        encoder.clear_buffer(&places[0].buffer, places[0].offset, Some(1 << 40));
    });
    let wrong = gpu.prepare().native(too_long).writes(&x).build()?;
    let point = wrong.submit_async(&[], &[]).await?;
    let told = point.wait_async().await.expect_err("it fails");
    assert!(matches!(told, Error::Misuse { what: Misuse::Rejected { .. }, .. }), "{told}");
    x.fill_async(9).await?;
    let mut byte = [0];
    x.blit_to_async(63, &mut byte).await?;
    assert_eq!(byte, [9]);
    Ok(())
}

async fn s10_9_what_does_not_fit_is_an_error_with_three_rounds(gpu: Device) -> Result<()> {
    gpu.set_budget(1 << 20)?;
    let kept = gpu.create_buffer_async(1 << 20).await?;
    let told = gpu.create_buffer_async(1 << 20).await.expect_err("it fails");
    let Error::OutOfMemory { report, .. } = &told else { panic!("{told}") };
    assert_eq!(report.rounds.len(), 3);
    drop(kept);
    gpu.create_buffer_async(1 << 20).await?;
    Ok(())
}

async fn s12_1_a_device_that_was_destroyed_is_lost_to_its_next_work(gpu: Device) -> Result<()> {
    let x = gpu.create_buffer_async(64).await?;
    x.fill_async(1).await?;
    rig::wgpu::handles(&gpu)?.0.destroy();
    let mut byte = [0];
    let told = x.blit_to_async(0, &mut byte).await.expect_err("it fails");
    assert!(matches!(told, Error::Lost { .. }), "{told}");
    assert!(!gpu.lost_async().await.is_empty());
    assert!(matches!(gpu.create_buffer_async(64).await, Err(Error::Lost { .. })));
    Ok(())
}

async fn s9_15_what_was_cached_goes_back_by_the_tick(gpu: Device) -> Result<()> {
    let x = gpu.create_buffer_async(1 << 20).await?;
    x.fill_async(1).await?;
    drop(x);
    while gpu.held() > 0 {
        passed().await;
    }
    Ok(())
}

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;

    @compute @workgroup_size(64)
    fn double(@builtin(global_invocation_id) id: vec3<u32>) {
        x[id.x] *= 2u;
    }
";
