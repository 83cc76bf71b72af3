//! Kernels: WGSL launched on a GPU, and work that is prepared once and submitted many times.
//!
//! The rules are S8.1, S8.4, S8.6 and S8.8 of SEMANTICS.md.

use rig::wgpu::{Options, encode, wgsl};
use rig::{Buffer, Device, Error, Kernel, Misuse, Result, run};

fn main() -> Result<()> {
    let gpu = match rig::wgpu::open(Options::default()) {
        Err(Error::Unsupported { why, .. }) => {
            println!("there is no GPU to launch on: {why}");
            return Ok(());
        }
        opened => opened?,
    };
    println!("on {}", gpu.facts().architecture);
    let add = launch(&gpu)?;
    prepare(&gpu, &add)?;
    encode_own(&gpu)
}

fn launch(gpu: &Device) -> Result<Kernel> {
    // Code is loaded once. What is wrong with it is an error of the call that loads it.
    let wrong = gpu.kernel(wgsl("fn add( {", "add")).expect_err("this is no WGSL");
    println!("wrong WGSL: {}", wrong.to_string().lines().next().unwrap_or_default());
    assert!(matches!(wrong, Error::Misuse { what: Misuse::Rejected { .. }, .. }));
    let add = gpu.kernel(wgsl(ADD, "add"))?;

    // The buffers of a launch are bound in their order, from @binding(0) on. Its arguments, if it
    // has any, come at the binding behind them.
    let (x, sum) = (create(gpu, 5)?, create(gpu, 100)?);
    let factor = 3_u32.to_ne_bytes();
    let point = add.launch(GROUPS).reads(&x).writes(&sum).args(&factor).submit()?;

    // It returned at once. Whoever reads the result waits for it, and nobody has to say so.
    assert_eq!(sum.stamps().write, Some(point));
    assert_eq!(read(&sum)?, [115; COUNT]);
    assert!(point.is_reached());
    Ok(add)
}

fn prepare(gpu: &Device, add: &Kernel) -> Result<()> {
    // Work that is done again and again is put together and checked once: here a launch, and a copy
    // that follows it. `sum` is fixed in it; the others are given with each submission.
    let sum = create(gpu, 0)?;
    let factor = 1_u32.to_ne_bytes();
    let step = gpu
        .prepare()
        .launch(add, GROUPS)
        .reads(run(0))
        .writes(&sum)
        .args(&factor)
        .copy(&sum, run(1))
        .after(0)
        .build()?;

    // Each submission takes one value, and none waits. So ten are on their way at once.
    let before = gpu.submitted();
    let batches: Vec<Buffer> = (1..=10).map(|n| create(gpu, n)).collect::<Result<_>>()?;
    let sums: Vec<Buffer> = (1..=10).map(|_| create(gpu, 0)).collect::<Result<_>>()?;
    let filled = gpu.submitted();
    for (batch, so_far) in batches.iter().zip(&sums) {
        step.submit(&[batch, so_far], &[])?;
    }
    assert_eq!(gpu.submitted(), filled + 10);
    println!("20 buffers took {} values, and 10 steps took 10", filled - before);

    // Submissions of one device run in their order: each sum holds all batches up to its own.
    for (at, so_far) in (1..).zip(&sums) {
        assert_eq!(read(so_far)?, [at * (at + 1) / 2; COUNT]);
    }

    // A submission that is refused takes no value and changes nothing.
    let refused = step.submit(&[&batches[0]], &[]).expect_err("one buffer is missing");
    println!("a missing buffer: {refused}");
    assert_eq!(read(&sum)?, [55; COUNT]);
    Ok(())
}

fn encode_own(gpu: &Device) -> Result<()> {
    // What rig has no call for, a program encodes itself: passes of any kind, copies of textures,
    // or, as here, the clearing of a part. It runs inside each submission, with the wgpu::Buffer,
    // offset and length of each buffer that the submission names.
    let x = create(gpu, 7)?;
    let clear = encode(|encoder, buffers| {
        let whole = &buffers[0];
        encoder.clear_buffer(&whole.buffer, whole.offset, Some(whole.len / 2));
    });
    let clear = gpu.prepare().native(clear).writes(&x).build()?;
    let point = clear.submit(&[], &[])?;
    assert_eq!(x.stamps().write, Some(point));
    let numbers = read(&x)?;
    assert_eq!((numbers[COUNT / 2 - 1], numbers[COUNT / 2]), (0, 7));

    // An encoding that wgpu refuses is an error of its submission, of which nothing runs. It takes
    // no value, harms no buffer, and reaches no handler of errors.
    let wrong = encode(|encoder, buffers| encoder.clear_buffer(&buffers[0].buffer, 1, None));
    let wrong = gpu.prepare().native(wrong).writes(&x).build()?;
    let before = gpu.submitted();
    let error = wrong.submit(&[], &[]).expect_err("1 is no offset to clear from");
    assert!(matches!(error, Error::Misuse { what: Misuse::Rejected { .. }, .. }));
    assert_eq!((gpu.submitted(), gpu.lost()), (before, None));
    println!("a wrong encoding is refused, and the device goes on");
    Ok(())
}

/// Makes a buffer of one number, again and again.
fn create(gpu: &Device, number: u32) -> Result<Buffer> {
    let buffer = gpu.create_buffer(4 * COUNT as u64)?;
    rig::copy(&rig::wrap(vec![number; COUNT]), &buffer)?;
    Ok(buffer)
}

fn read(buffer: &Buffer) -> Result<Vec<u32>> {
    let on_host = rig::host().create_buffer(buffer.len())?;
    rig::copy(buffer, &on_host)?;
    on_host.read_as::<u32, _>(|numbers| numbers.to_vec())
}

const COUNT: usize = 4_096;
const GROUPS: [u32; 3] = [COUNT as u32 / 64, 1, 1];
const ADD: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> sum: array<u32>;
    @group(0) @binding(2) var<uniform> factor: vec4<u32>;

    @compute @workgroup_size(64)
    fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        sum[id.x] += factor.x * x[id.x];
    }
";
