//! The operations that the failure walk fails in every call: what each needs, does and comes to.

use crate::scene::{BIG, Scene, Things};
use rig::driver::{Addressed, Queue};
use rig::memory::function;
use rig::{Buffer, Kind, Result, Use, borrow, copy, host, run};
use rig_support::{Answer, Known, Script};

/// An operation: the devices it needs, what is there before, and what it does.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// The knobs of the two devices.
    pub(crate) scripts: [fn(Script) -> Script; 2],
    /// Makes what is there before. Nothing fails yet.
    pub(crate) ready: fn(&Scene) -> Things,
    /// The operation itself.
    pub(crate) act: fn(&Scene, &mut Things) -> Result<()>,
    /// Whether it tells a loss that it meets.
    pub(crate) loss: Loss,
    /// Whether, when it succeeded, the second buffer has the bytes of the first.
    pub(crate) moves: bool,
}

/// Whether an operation tells a loss that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    Told,
    /// By its rule it does not (S9.15, S10.4, S12.5).
    Silent,
}

impl Operation {
    const fn new(
        name: &'static str,
        ready: fn(&Scene) -> Things,
        act: fn(&Scene, &mut Things) -> Result<()>,
    ) -> Self {
        let scripts: [fn(Script) -> Script; 2] = [|script| script, |script| script];
        Self { name, scripts, ready, act, loss: Loss::Told, moves: false }
    }

    const fn on(mut self, d: fn(Script) -> Script) -> Self {
        self.scripts[0] = d;
        self
    }

    const fn and(mut self, e: fn(Script) -> Script) -> Self {
        self.scripts[1] = e;
        self
    }

    const fn silent(mut self) -> Self {
        self.loss = Loss::Silent;
        self
    }

    /// An operation that copies the first buffer to the second.
    const fn copies(name: &'static str, ready: fn(&Scene) -> Things) -> Self {
        let act = |_: &Scene, things: &mut Things| copy(&things.buffers[0], &things.buffers[1]);
        Self { moves: true, ..Self::new(name, ready, act) }
    }
}

/// All of them.
pub(crate) const OPERATIONS: &[&[Operation]] =
    &[CREATES, COPIES, HOST_ACCESSES, FILES, WORK, RETURNS];

const CREATES: &[Operation] = &[
    Operation::new("create", |_| Things::default(), create),
    Operation::new("create, answered later", |_| Things::default(), create)
        .on(|script| script.allocs(Answer::AtService)),
    Operation::new("create in a round", crowded, create).on(two_queues),
    Operation::new(
        "create Pinned",
        |_| Things::default(),
        |scene, things| {
            things.buffers.push(scene.d.create_buffer_in(Kind::Pinned, BIG)?);
            Ok(())
        },
    )
    .on(pinned),
    Operation::new("borrow", |_| host_buffer(), borrow_on_d),
    Operation::new("borrow a peer's memory", |scene| on_e(scene, BIG), borrow_on_d)
        .on(|script| script.peers(Known::Scripted)),
];

const COPIES: &[Operation] = &[
    Operation::copies("copy: host", |scene| used(scene, host_and_d(scene))).on(always),
    Operation::copies("copy: direct", |scene| used(scene, d_and_d(scene))),
    Operation::copies("copy: direct from a borrow", |scene| {
        let things = host_and_d(scene);
        let borrowed = borrow(&scene.d, &things.buffers[0]).unwrap().unwrap();
        Things { buffers: vec![borrowed, things.buffers[1].clone()], ..things }
    }),
    Operation::copies("copy: direct from Pinned", |scene| {
        let pinned = scene.d.create_buffer_in(Kind::Pinned, BIG).unwrap();
        pinned.fill(7).unwrap();
        Things::of([pinned, scene.d.create_buffer(BIG).unwrap()])
    })
    .on(pinned),
    Operation::copies("copy: direct to a named peer", |scene| {
        let things = d_and_e(scene);
        let borrowed = borrow(&scene.d, &things.buffers[1]).unwrap().unwrap();
        Things { buffers: vec![things.buffers[0].clone(), borrowed], ..things }
    })
    .on(|script| script.peers(Known::Scripted)),
    Operation::copies("copy: direct to an unnamed peer", d_and_e)
        .on(|script| script.peers(Known::Scripted)),
    Operation::copies("copy: staged through", d_and_e),
    Operation::copies("copy: staged in", |scene| used(scene, host_and_d(scene))),
    Operation::copies("copy: staged out", |scene| used(scene, d_and_host(scene))),
    Operation::copies("copy: staged in, own halves", host_and_d).on(maps_none),
    Operation::copies("copy: staged out, own halves", d_and_host).on(maps_none),
    Operation::copies("copy: staged through, own halves", d_and_e).on(maps_none).and(maps_none),
    Operation::copies("copy: staged between halves", d_and_e).and(maps_none),
    Operation::copies("copy: file to device", |scene| {
        let file = scene.file(BIG);
        file.fill(3).unwrap();
        Things::of([file, scene.d.create_buffer(BIG).unwrap()])
    }),
    Operation::copies("copy: device to file", |scene| {
        let buffer = scene.d.create_buffer(BIG).unwrap();
        buffer.fill(3).unwrap();
        Things::of([buffer, scene.file(BIG)])
    }),
];

const HOST_ACCESSES: &[Operation] = &[
    Operation::new("blit to", |scene| used(scene, on_d(scene, BIG)), blit_to),
    Operation::new("blit from", |scene| used(scene, on_d(scene, BIG)), blit_from),
    Operation::new("fill", |scene| used(scene, on_d(scene, BIG)), fill),
    Operation::new("blit to, mapped", |scene| used(scene, on_d(scene, BIG)), blit_to).on(mapped),
    Operation::new("fill, addressed", |scene| used(scene, on_d(scene, BIG)), fill).on(always),
    Operation::new("read", |scene| used(scene, on_d(scene, BIG)), read).on(always),
    Operation::new("write", |scene| used(scene, on_d(scene, BIG)), write).on(always),
    Operation::new("read, mapped", |scene| used(scene, on_d(scene, BIG)), read).on(mapped),
    Operation::new("write, mapped", |scene| used(scene, on_d(scene, BIG)), write).on(mapped),
    Operation::new(
        "export",
        |scene| used(scene, on_d(scene, BIG)),
        |_, things| {
            let export = things.buffers[0].export()?;
            export.copy_out(0, &mut [0; 100])
        },
    )
    .on(always),
    Operation::new(
        "wait for a buffer",
        |scene| used(scene, on_d(scene, BIG)),
        |_, things| things.buffers[0].wait(Use::Write),
    ),
];

const FILES: &[Operation] = &[
    Operation::new(
        "create and open a file",
        |_| Things::default(),
        |scene, things| {
            things.buffers.push(scene.try_file(BIG)?);
            Ok(())
        },
    ),
    Operation::copies("copy: file to host", |scene| {
        let file = scene.file(BIG);
        file.fill(3).unwrap();
        Things::of([file, host_buffer().buffers[0].view(0, BIG).unwrap()])
    }),
    Operation::copies("copy: host to file", |scene| {
        Things::of([host_buffer().buffers[0].view(0, BIG).unwrap(), scene.file(BIG)])
    }),
    Operation::copies("copy: file to file", |scene| {
        let file = scene.file(BIG);
        file.fill(3).unwrap();
        Things::of([file, scene.file(BIG)])
    }),
    Operation::new(
        "blit to, file",
        |scene| {
            let file = scene.file(BIG);
            file.fill(1).unwrap();
            Things::of([file])
        },
        blit_to,
    ),
    Operation::new("blit from, file", |scene| Things::of([scene.file(BIG)]), blit_from),
    Operation::new("fill, file", |scene| Things::of([scene.file(BIG)]), fill),
];

const WORK: &[Operation] = &[
    Operation::new(
        "prepare",
        |scene| on_d(scene, BIG),
        |scene, things| {
            things.work = Some(scene.d.prepare().fill(&things.buffers[0], 1).build()?);
            Ok(())
        },
    ),
    Operation::new("submit", |scene| prepared(scene, on_d(scene, BIG)), submit),
    Operation::new("submit behind another device, in the queue", behind_e, submit),
    Operation::new("submit behind another device, waiting", behind_e, submit)
        .on(|script| script.understands(Known::Nobody, 0)),
    Operation::new("submit behind a batch", behind_e, submit).and(Script::batches),
    Operation::new(
        "submit without room",
        |scene| used(scene, prepared(scene, on_d(scene, BIG))),
        submit,
    )
    .on(|script| script.queue_parts(1)),
    Operation::new("submit on mapped memory", |scene| prepared(scene, on_d(scene, BIG)), submit)
        .on(mapped),
    Operation::new(
        "wait for a value",
        |scene| used(scene, on_d(scene, BIG)),
        |scene, _| scene.d.wait(scene.d.submitted()),
    ),
    Operation::new("load code", |_| Things::default(), load),
    Operation::new("load code into device memory", |_| Things::default(), load)
        .on(|script| script.code_bytes(1_000)),
    Operation::new("load code, answered later", |_| Things::default(), load)
        .on(|script| script.code_bytes(1_000).loads(Answer::AtService)),
];

const RETURNS: &[Operation] = &[
    Operation::new("trim", cached, |scene, _| scene.d.trim().map(drop)).silent(),
    Operation::new("free_cache", cached, |scene, _| scene.d.free_cache().map(drop)).silent(),
    Operation::new("set_budget", cached, |scene, _| scene.d.set_budget(0)).silent(),
    Operation::new(
        "free",
        |scene| used(scene, on_d(scene, BIG)),
        |_, things| things.buffers[0].free(),
    )
    .silent(),
    Operation::new("close", |scene| used(scene, on_d(scene, BIG)), |scene, _| scene.d.close())
        .silent(),
];

fn always(script: Script) -> Script {
    script.addressed(Addressed::Always)
}

fn mapped(script: Script) -> Script {
    script.addressed(Addressed::WhileMapped).maps(Answer::AtService)
}

fn maps_none(script: Script) -> Script {
    script.maps_host(None)
}

fn pinned(script: Script) -> Script {
    script.facts(|facts| facts.pinned = true)
}

fn two_queues(script: Script) -> Script {
    script.queues([Queue::ALL, Queue::ALL])
}

fn create(scene: &Scene, things: &mut Things) -> Result<()> {
    things.buffers.push(scene.d.create_buffer(BIG)?);
    Ok(())
}

fn borrow_on_d(scene: &Scene, things: &mut Things) -> Result<()> {
    things.buffers.extend(borrow(&scene.d, &things.buffers[0])?);
    Ok(())
}

fn blit_to(_: &Scene, things: &mut Things) -> Result<()> {
    let mut out = vec![0; BIG as usize];
    things.buffers[0].blit_to(0, &mut out)?;
    assert!(out.iter().all(|byte| *byte == 1), "the bytes are those that the work wrote");
    Ok(())
}

fn blit_from(_: &Scene, things: &mut Things) -> Result<()> {
    things.buffers[0].blit_from(0, &vec![2; BIG as usize])
}

fn fill(_: &Scene, things: &mut Things) -> Result<()> {
    things.buffers[0].fill(2)
}

fn read(_: &Scene, things: &mut Things) -> Result<()> {
    things.buffers[0].read(|bytes| assert!(bytes.iter().all(|byte| *byte == 1)))
}

fn write(_: &Scene, things: &mut Things) -> Result<()> {
    things.buffers[0].write(|bytes| bytes.fill(2))
}

fn submit(_: &Scene, things: &mut Things) -> Result<()> {
    let run: Vec<&Buffer> = things.buffers.first().into_iter().collect();
    things.work.as_ref().expect("it was prepared").submit(&run, &things.waits).map(drop)
}

fn load(scene: &Scene, things: &mut Things) -> Result<()> {
    things.kernel = Some(scene.d.kernel(function("nothing", |_| {}))?);
    Ok(())
}

fn on_d(scene: &Scene, len: u64) -> Things {
    Things::of([scene.d.create_buffer(len).unwrap()])
}

fn on_e(scene: &Scene, len: u64) -> Things {
    Things::of([scene.e.create_buffer(len).unwrap()])
}

fn host_buffer() -> Things {
    let buffer = host().create_buffer(4 * BIG).unwrap();
    buffer.fill(5).unwrap();
    Things::of([buffer])
}

fn host_and_d(scene: &Scene) -> Things {
    let whole = host_buffer().buffers[0].view(0, BIG).unwrap();
    Things::of([whole, scene.d.create_buffer(BIG).unwrap()])
}

fn d_and_host(scene: &Scene) -> Things {
    let source = scene.d.create_buffer(BIG).unwrap();
    source.fill(6).unwrap();
    Things::of([source, host_buffer().buffers[0].view(0, BIG).unwrap()])
}

fn d_and_d(scene: &Scene) -> Things {
    let source = scene.d.create_buffer(BIG).unwrap();
    source.fill(6).unwrap();
    Things::of([source, scene.d.create_buffer(BIG).unwrap()])
}

fn d_and_e(scene: &Scene) -> Things {
    let source = scene.d.create_buffer(BIG).unwrap();
    source.fill(6).unwrap();
    Things::of([source, scene.e.create_buffer(BIG).unwrap()])
}

/// Hands over work that fills the device's buffers with 1 and has not run.
fn used(scene: &Scene, things: Things) -> Things {
    for buffer in &things.buffers {
        if buffer.device() == *scene.d {
            let fill = scene.d.prepare().fill(buffer, 1).build().unwrap();
            fill.submit(&[], &[]).unwrap();
        }
    }
    things
}

fn prepared(scene: &Scene, things: Things) -> Things {
    let work = scene.d.prepare().fill(run(0), 1).build().unwrap();
    Things { work: Some(work), ..things }
}

/// Work on d that follows work of e which has not run.
fn behind_e(scene: &Scene) -> Things {
    let point = scene.e.prepare().build().unwrap().submit(&[], &[]).unwrap();
    Things { waits: vec![point], ..prepared(scene, on_d(scene, BIG)) }
}

/// A budget that only what is on its way back leaves room in.
fn crowded(scene: &Scene) -> Things {
    drop(used(scene, on_d(scene, BIG)));
    scene.d.set_budget(BIG + BIG / 2).unwrap();
    Things::default()
}

/// Two cached buffers, of which work that has not run uses one.
fn cached(scene: &Scene) -> Things {
    let things = d_and_d(scene);
    drop(used(scene, Things::of([things.buffers[0].clone()])));
    drop(things);
    Things::default()
}
