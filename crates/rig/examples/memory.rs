//! The main job.
fn main() -> rig::Result<()> {
    let m = rig::memory::open("M")?;
    m.set_budget(1 << 20)?;
    for _ in 0..100 {
        m.create_buffer(256 << 10)?;
    }
    println!("100 buffers of 256 KiB allocated, none kept");
    let live: Vec<_> = (0..4).map(|_| m.create_buffer(256 << 10)).collect::<rig::Result<_>>()?;
    let e = m.create_buffer(256 << 10).unwrap_err();
    println!("{e}");
    if let rig::Error::OutOfMemory { report, .. } = &e {
        println!("{report}");
    }
    println!("{:?}", m.stats().kind_counts);
    drop(live);
    let b = m.create_buffer(1 << 20)?;
    println!("{:?} {b:?}", m.stats().kind_counts);
    drop(b);
    let n = 65536u64;
    let h = rig::host().create_buffer(4 * n)?;
    let x = m.create_buffer(4 * n)?;
    h.write_as::<f32, _>(|xs| {
        for (i, v) in xs.iter_mut().enumerate() {
            *v = i as f32
        }
    })?;
    rig::copy(&h, &x)?;
    let double = m.kernel(rig::memory::function("double", |c| {
        c.update::<f32>(0, |xs| xs.iter_mut().for_each(|x| *x *= 2.0))
    }))?;
    let done = double.launch([1024, 1, 1]).writes(&x).submit()?;
    println!("{done} {x:?} {h:?}");
    done.wait()?;
    rig::copy(&x, &h)?;
    println!("{}", h.read_as::<f32, _>(|xs| xs[65535])?);
    m.close()?;
    println!("{m:?} {:?}", x.read(|_| ()).unwrap_err());
    drop(x);
    println!("{}", m.held());
    Ok(())
}
