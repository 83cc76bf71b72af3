//! S0.5: the places in which all but drops and facts is misuse.

use crate::bench::{WATCHDOG, bytes_of, lost, misuse};
use rig::memory::{Call, function};
use rig::{
    Buffer, Claims, Device, Export, FileMode, Hold, Kernel, Misuse, Opener, Prepared, Profile,
    ReadClaim, Result, Use, add_collector, borrow, copy, host, wrap, wrap_raw,
};
use rig_support::{Scratch, drain};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What a place tries its calls on.
struct Things {
    device: Device,
    files: Device,
    x: Buffer,
    h: Buffer,
    kernel: Kernel,
    prepared: Prepared,
    export: Export,
    claims: Claims,
    /// Guards what is dropped inside.
    given: Mutex<Option<(Buffer, ReadClaim, Export)>>,
    /// Guards the way out, which several threads may take.
    tell: Mutex<Sender<Seen>>,
    told: AtomicBool,
}

/// What the calls answered, by name, and which facts were wrong.
struct Seen(Vec<(&'static str, Result<()>)>);

impl Things {
    fn new(name: &str) -> (Arc<Self>, Receiver<Seen>) {
        let device = rig::memory::open(name).unwrap();
        let files = rig::file::open(&format!("{name}, files")).unwrap();
        let x = device.create_buffer(64).unwrap();
        let h = host().create_buffer(64).unwrap();
        let kernel = device.kernel(function("nothing", |_| {})).unwrap();
        let prepared = device.prepare().fill(&x, 1).build().unwrap();
        let export = host().create_buffer(8).unwrap().export().unwrap();
        let claims = Claims::with(&[], &[], Clone::clone).unwrap();
        let other = device.create_buffer(64).unwrap();
        let given = (other.clone(), other.claim_read().unwrap(), h.export().unwrap());
        let (tell, seen) = channel();
        let (given, tell) = (Mutex::new(Some(given)), Mutex::new(tell));
        let told = AtomicBool::new(false);
        let things =
            Self { device, files, x, h, kernel, prepared, export, claims, given, tell, told };
        (Arc::new(things), seen)
    }

    /// Tries everything once, and tells what came of it.
    fn try_all(&self) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        self.ask_facts();
        let mut seen = self.try_buffers();
        seen.extend(self.try_devices());
        drop(self.given.lock().unwrap().take());
        self.tell.lock().unwrap().send(Seen(seen)).unwrap();
    }

    fn try_buffers(&self) -> Vec<(&'static str, Result<()>)> {
        let Self { x, h, export, .. } = self;
        vec![
            ("view", x.view(0, 1).map(drop)),
            ("wait", x.wait(Use::Read)),
            ("read", h.read(|_| ())),
            ("write", h.write(|_| ())),
            ("read_as", h.read_as::<u32, _>(|_| ())),
            ("write_as", h.write_as::<u32, _>(|_| ())),
            ("export", h.export().map(drop)),
            ("copy_out", export.copy_out(0, &mut [0])),
            ("copy_in", export.copy_in(0, &[0])),
            ("blit_to", x.blit_to(0, &mut [0])),
            ("blit_from", x.blit_from(0, &[0])),
            ("fill", x.fill(0)),
            ("copy", copy(h, x)),
            ("borrow", borrow(&self.device, h).map(drop)),
            ("share", x.share()),
            ("lend", x.lend().map(drop)),
            ("claim_read", x.claim_read().map(drop)),
            ("Claims::with", Claims::with(&[x], &[], |_| ())),
            ("consume", self.claims.consume(x, "inside").map(drop)),
            ("free", x.free()),
        ]
    }

    fn try_devices(&self) -> Vec<(&'static str, Result<()>)> {
        let Self { device, files, .. } = self;
        let path = Scratch::new();
        vec![
            ("create_buffer", device.create_buffer(8).map(drop)),
            ("create_buffer_now", device.create_buffer_now(8).map(drop)),
            ("create_file", files.create_file(&path, 1).map(drop)),
            ("open_file", files.open_file(&path, FileMode::ReadOnly).map(drop)),
            ("kernel", device.kernel(function("another", |_| {})).map(drop)),
            ("prepare", device.prepare().build().map(drop)),
            ("submit", self.prepared.submit(&[], &[]).map(drop)),
            ("prepare", self.kernel.launch([1; 3]).submit().map(drop)),
            ("prepare", device.record_use(&[&self.x], &[]).map(drop)),
            ("wait", device.wait(0)),
            ("wait", device.point(1).unwrap().wait()),
            ("set_budget", device.set_budget(u64::MAX)),
            ("set_cache", device.set_cache(device.cache_options())),
            ("trim", device.trim().map(drop)),
            ("free_cache", device.free_cache().map(drop)),
            ("close", device.close()),
            ("open", rig::memory::open("s0.5 never opened").map(drop)),
        ]
    }

    fn ask_facts(&self) {
        let Self { device, x, h, .. } = self;
        assert!(device.name().starts_with("s0.5") && device.lost().is_none());
        assert!(!device.is_settled() && device.submitted() >= 1 && device.reached() >= 1);
        assert!(device.point(1).is_ok() && device.held() >= 64 && device.cached() < 1 << 20);
        assert!(device.stats().live_bytes > 0 && device.budget() > 0);
        assert!(!rig::devices().is_empty() && !rig::stats().devices.is_empty());
        assert!(!rig::snapshot().devices.is_empty());
        assert!(x.spans() && !x.overlaps(h) && x.dead().is_none() && !x.is_read_only());
        assert!(x.stamps().write.is_some() && x.label().is_none() && x.device() == *device);
        assert!(!format!("{x:?} {device:?} {:?}", self.prepared).is_empty());
    }
}

/// Asserts that every call but those named was refused, and told the place.
fn assert_refused(seen: &Receiver<Seen>, inside: &'static str, but: &[&str]) {
    let Seen(seen) = seen.recv_timeout(WATCHDOG).expect("the place was reached");
    assert_eq!(seen.len(), 37);
    for (name, answer) in seen {
        if but.contains(&name) {
            answer.unwrap();
            continue;
        }
        match answer {
            Err(rig::Error::Misuse { call, what: Misuse::Reentrant { inside: place } }) => {
                assert_eq!((call, place), (name, inside));
            }
            other => panic!("{name} inside {inside}: {other:?}"),
        }
    }
}

#[test]
fn s0_5_a_holds_release_may_drop_and_ask_facts_only() {
    let (things, seen) = Things::new("s0.5 hold");
    let inner = Arc::clone(&things);
    let hold = Hold::new(move || inner.try_all());
    things.prepared.submit_holding(&[], &[], &[&hold]).unwrap();
    drain(&things.device);
    assert_refused(&seen, "a hold's release", &[]);
}

#[test]
fn s0_5_an_unused_holds_release_may_drop_and_ask_facts_only() {
    let (things, seen) = Things::new("s0.5 unused hold");
    things.prepared.submit(&[], &[]).unwrap();
    let inner = Arc::clone(&things);
    drop(Hold::new(move || inner.try_all()));
    assert_refused(&seen, "a hold's release", &[]);
}

#[test]
fn s0_5_a_profile_sink_may_drop_and_ask_facts_only() {
    let (things, seen) = Things::new("s0.5 sink");
    things.prepared.submit(&[], &[]).unwrap();
    let inner = Arc::clone(&things);
    let mine = things.device.id();
    let profile = Profile::with_sink(move |event| {
        if event.device == mine {
            inner.try_all();
        }
    });
    things.prepared.submit(&[], &[]).unwrap();
    drop(profile);
    assert_refused(&seen, "a profile sink", &[]);
}

#[test]
fn s0_5_a_keepers_destructor_may_drop_and_ask_facts_only() {
    struct Keeper(Arc<Things>, #[expect(dead_code, reason = "it keeps")] Vec<u8>);
    impl Drop for Keeper {
        fn drop(&mut self) {
            self.0.try_all();
        }
    }
    let (things, seen) = Things::new("s0.5 keeper");
    things.prepared.submit(&[], &[]).unwrap();
    let mut bytes = vec![0; 8];
    // SAFETY: the keeper has the bytes until it is dropped, and nobody else reaches them.
    let wrapped = unsafe { wrap_raw(bytes.as_mut_ptr(), 8, Keeper(Arc::clone(&things), bytes)) };
    drop(wrapped);
    drain(&host());
    assert_refused(&seen, "a keeper's destructor", &[]);
}

#[test]
fn s0_5_a_collector_may_also_free() {
    let (things, seen) = Things::new("s0.5 collector");
    things.prepared.submit(&[], &[]).unwrap();
    let inner = Arc::clone(&things);
    let collector = add_collector(move || inner.try_all());
    things.device.set_budget(things.device.held()).unwrap();
    let _ = things.device.create_buffer(64);
    drop(collector);
    assert_refused(&seen, "a collector", &["free"]);
    assert!(things.x.dead().is_some());
}

#[test]
fn s0_5_a_launch_that_runs_inside_submit_may_drop_and_ask_facts_only() {
    let (things, seen) = Things::new("s0.5 launch");
    things.prepared.submit(&[], &[]).unwrap();
    let inner = Arc::clone(&things);
    let code = function("tries", move |_: &Call<'_>| inner.try_all());
    things.device.kernel(code).unwrap().launch([1; 3]).submit().unwrap();
    assert_refused(&seen, "a launch", &[]);
}

#[test]
fn s0_5_an_opener_that_asks_for_its_own_name_is_refused() {
    let opener = Opener::new("memory", || {
        let again = rig::memory::open("s0.5 own name");
        assert_eq!(misuse(again), Misuse::Reentrant { inside: "the opener of this name" });
        let other = rig::memory::open("s0.5 other name").unwrap();
        assert_eq!(other.create_buffer(8).unwrap().len(), 8);
        Ok(Arc::clone(other.driver()))
    });
    assert_eq!(Device::open("s0.5 own name", opener).unwrap().name(), "s0.5 own name");
}

#[test]
fn s0_5_a_panic_of_a_launch_inside_submit_is_a_fault_of_its_device() {
    let device = rig::memory::open("s0.5 panic").unwrap();
    let kernel = device.kernel(function("bad", |_: &Call<'_>| panic!("on purpose"))).unwrap();
    let told = lost(kernel.launch([1; 3]).submit());
    assert_eq!(told, ("s0.5 panic".into(), "launch of bad panicked: on purpose".into()));
    assert_eq!((device.submitted(), device.reached()), (1, 0));
    assert!(rig::memory::open("s0.5 panic").unwrap().create_buffer(8).is_ok(), "it may reopen");
}

#[test]
fn s0_5_closures_of_accesses_and_claims_may_call_anything() {
    let device = rig::memory::open("s0.5 closures").unwrap();
    let (h, x) = (wrap(vec![3_u8; 64]), device.create_buffer(64).unwrap());
    let anything = || -> Result<Vec<u8>> {
        let other = device.create_buffer(64)?;
        copy(&x, &other)?;
        device.record_use(&[&other], &[])?.wait()?;
        device.trim()?;
        other.read(<[u8]>::to_vec)
    };
    x.fill(7).unwrap();
    assert_eq!(h.read(|_| anything()).unwrap().unwrap(), [7; 64]);
    assert_eq!(h.write(|_| anything()).unwrap().unwrap(), [7; 64]);
    let nested = Claims::with(&[&x], &[&[&h]], |_| anything()).unwrap();
    assert_eq!(nested.unwrap(), bytes_of(&x));
}
