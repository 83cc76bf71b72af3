//! Timelines: a device numbers its work, and a number tells what is done.
//!
//! The rules are S2.1, S2.3, S2.7, S8.6 and S8.9 of SEMANTICS.md.

use rig::memory::function;
use rig::{Device, Error, Hold, Kernel, Misuse, Result, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> Result<()> {
    // A device starts at 0: nothing was submitted, so nothing is left to be reached.
    let a = rig::memory::open("A")?;
    assert_eq!((a.submitted(), a.reached()), (0, 0));

    // Code is loaded once. A memory device runs Rust; a GPU will run shaders or kernels.
    let add = a.kernel(function("add", |call| {
        let amount = u32::from_ne_bytes(call.args().try_into().unwrap_or_default());
        call.update::<u32>(0, |numbers| numbers.iter_mut().for_each(|number| *number += amount));
    }))?;

    // Work is submitted with the buffers that it uses. The answer is a point: a device and a value.
    // Nobody waits here.
    let x = a.create_buffer(4)?;
    x.fill(0)?;
    let point = add.launch([1, 1, 1]).writes(&x).args(&5_u32.to_ne_bytes()).submit()?;
    println!("the first work is {point}");
    assert_eq!((point.to_string().as_str(), point.value()), ("A:1", 1));
    assert_eq!(a.submitted(), 1);

    // Waiting for a point waits for all work of its device up to there.
    point.wait()?;
    assert!(point.is_reached() && a.reached() >= 1);
    assert_eq!(x.read_as::<u32, _>(|numbers| numbers[0])?, 5);

    prepare(&a, &add)?;

    // A value that was never submitted is not waited for: nobody could know that it will come.
    let error = a.wait(1_000).expect_err("there is no such value");
    println!("waiting for A:1000: {error}");
    let what = Misuse::NotSubmitted { value: 1_000, submitted: 103 };
    assert!(matches!(error, Error::Misuse { what: said, .. } if said == what));
    Ok(())
}

fn prepare(a: &Device, add: &Kernel) -> Result<()> {
    // Work that is submitted often is prepared once. Its parts may follow one another, and a run
    // buffer is named by a number here, and given with each submission.
    let [x, y] = [a.create_buffer(4)?, a.create_buffer(4)?];
    x.fill(0)?;
    let step = a
        .prepare()
        .label("step")
        .launch(add, [1, 1, 1])
        .writes(run(0))
        .args(&1_u32.to_ne_bytes())
        .copy(run(0), &y)
        .after(0)
        .build()?;
    for _ in 0..100 {
        step.submit(&[&x], &[])?;
    }
    let last = a.point(101)?;
    println!("after 100 steps the last is {last}");
    last.wait()?;
    assert_eq!(y.read_as::<u32, _>(|numbers| numbers[0])?, 100);

    // A submission without parts takes a value too. It marks a place in the order of the work.
    let mark = a.prepare().build()?.submit(&[], &[])?;
    assert_eq!(mark.value(), 102);

    // Another device has values of its own. Its work can follow a point of the first.
    let b = rig::memory::open("B")?;
    let after = b.prepare().build()?.submit(&[], &[mark])?;
    println!("{after} was submitted to come after {mark}");
    assert_eq!(after.to_string(), "B:1");

    // A hold keeps something of the program's until the work that names it is done.
    let released = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&released);
    let hold = Hold::new(move || seen.store(true, Ordering::Relaxed));
    step.submit_holding(&[&x], &[], &[&hold])?.wait()?;
    // It is let go of in a drain, such as that of the next create.
    a.create_buffer(4)?;
    assert!(released.load(Ordering::Relaxed));
    Ok(())
}
