//! Opening: openers that fail, block, are shared or dropped, and losses around them (S1.4, S12.7).

use crate::bench::{Woken, finish, lost, misuse, unsupported};
use rig::driver::{Driver, Fault};
use rig::{Device, Misuse, Opener, Result, devices};
use rig_support::{Answer, Call, Script, look};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// An opener that answers nothing before it is told, and counts how often it is asked.
#[derive(Clone, Default)]
struct Told {
    ready: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Told {
    fn opener(&self, name: &str) -> Opener {
        let (told, name) = (self.clone(), name.to_owned());
        Opener::future(
            "scripted",
            poll_fn(move |_| {
                told.asked.fetch_add(1, Ordering::Relaxed);
                if told.ready.load(Ordering::Relaxed) {
                    Poll::Ready(Ok(driver(&name)))
                } else {
                    Poll::Pending
                }
            }),
        )
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

fn driver(name: &str) -> Arc<dyn Driver> {
    Script::new(name).build().0
}

fn opener(name: &str) -> Opener {
    let driver = driver(name);
    Opener::new("scripted", move || Ok(driver))
}

fn start(name: &str, opener: Opener) -> Pin<Box<dyn Future<Output = Result<Device>> + '_>> {
    Box::pin(Device::open_async(name, opener))
}

#[test]
fn s1_4_a_failing_opener_is_unsupported_with_its_reason_and_frees_the_name() {
    let open = Device::open("s1_4 fails", Opener::new("scripted", || Err(Fault::new("no card"))));
    assert_eq!(unsupported(open), "no card");
    Device::open("s1_4 fails", opener("s1_4 fails")).unwrap().close().unwrap();
}

#[test]
fn s1_4_a_panic_of_an_opener_frees_the_name() {
    let open = Device::open("s1_4 panics", Opener::new("scripted", || panic!("on purpose")));
    let why = unsupported(open);
    assert!(why.contains("on purpose"), "{why}");
    Device::open("s1_4 panics", opener("s1_4 panics")).unwrap().close().unwrap();
}

#[test]
fn s1_4_a_blocked_opener_delays_no_other_name() {
    let (go, gone) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    std::thread::scope(|threads| {
        let blocked = threads.spawn(move || {
            let open = move || {
                entered.send(()).unwrap();
                gone.recv_timeout(Duration::from_secs(60)).expect("the other open goes on");
                Ok(driver("s1_4 blocked"))
            };
            Device::open("s1_4 blocked", Opener::new("scripted", open))
        });
        inside.recv().unwrap();
        let other = Device::open("s1_4 other", opener("s1_4 other")).unwrap();
        go.send(()).unwrap();
        blocked.join().unwrap().unwrap().close().unwrap();
        other.close().unwrap();
    });
}

#[test]
fn s1_4_whoever_opens_the_name_drives_the_shared_opener() {
    let (first, second) = (Told::default(), Told::default());
    let mut one = start("s1_4 shared", first.opener("s1_4 shared"));
    assert!(look(one.as_mut()).is_pending());
    let mut two = start("s1_4 shared", second.opener("s1_4 shared"));
    assert!(look(two.as_mut()).is_pending());
    drop(one);
    first.ready.store(true, Ordering::Relaxed);
    let Poll::Ready(Ok(device)) = look(two.as_mut()) else { panic!("the first opener is ready") };
    assert_eq!((first.asked(), second.asked()), (3, 0));
    device.close().unwrap();
}

#[test]
fn s1_4_a_name_whose_openers_are_all_dropped_is_free() {
    let told = Told::default();
    let mut one = start("s1_4 dropped", told.opener("s1_4 dropped"));
    assert!(look(one.as_mut()).is_pending());
    drop(one);
    Device::open("s1_4 dropped", opener("s1_4 dropped")).unwrap().close().unwrap();
    assert_eq!(told.asked(), 1);
}

#[test]
fn s1_2_a_name_being_opened_by_another_driver_is_taken() {
    let told = Told::default();
    let mut one = start("s1_2 opening", told.opener("s1_2 opening"));
    assert!(look(one.as_mut()).is_pending());
    let taken = misuse(rig::memory::open("s1_2 opening"));
    assert_eq!(taken, Misuse::NameTaken { driver: "scripted" });
}

#[test]
fn s0_5_an_opener_that_asks_for_its_own_name_is_reentrant() {
    let own = Opener::new("scripted", || {
        let asked = Device::open("s0_5 own", opener("s0_5 own"));
        assert!(matches!(misuse(asked), Misuse::Reentrant { .. }));
        // Another name, and any other call, may be asked for.
        Device::open("s0_5 another", opener("s0_5 another")).unwrap().close().unwrap();
        Ok(driver("s0_5 own"))
    });
    Device::open("s0_5 own", own).unwrap().close().unwrap();
}

#[test]
fn s12_7_a_device_lost_while_it_opens_fails_the_open_and_frees_the_name() {
    let (driver, control) = Script::new("s12_7").build();
    control.fault("unplugged");
    let open = Device::open("s12_7", Opener::new("scripted", move || Ok(driver)));
    let why = unsupported(open);
    assert!(why.contains("unplugged"), "{why}");
    control.check();
    Device::open("s12_7", opener("s12_7")).unwrap().close().unwrap();
}

#[test]
fn s12_7_listeners_hear_a_loss_once() {
    let d = Script::new("s12_7 once").open();
    let device = d.device.clone();
    let mut listening = pin!(device.lost_async());
    assert!(look(listening.as_mut()).is_pending());
    d.device_lost("first");
    d.device_lost("second");
    assert_eq!(look(listening), Poll::Ready("first".into()));
    assert_eq!(finish(d.lost_async()).as_ref(), "first", "who listens later hears the same");
    assert_eq!(d.control.count(Call::Stop), 1);
}

#[test]
fn s12_7_a_loss_right_after_the_open_is_told_by_the_next_call() {
    let d = Script::new("s12_7 after").open();
    d.control.fault("unplugged");
    d.device_lost("a program saw it");
    let told = ("s12_7 after".to_owned(), "a program saw it".to_owned());
    assert_eq!(lost(d.create_buffer(1)), told);
    assert_eq!(lost(d.create_buffer(1)), told);
}

#[test]
fn s1_3_20_reopenings_leave_nothing() {
    let ids: Vec<_> = (0..20)
        .map(|_| {
            let d = Script::new("s1_3 often").stops(Answer::AtService).open();
            let x = d.create_buffer(100_000).unwrap();
            x.fill(1).unwrap();
            d.id()
        })
        .collect();
    assert!(ids.is_sorted_by(|one, next| one.index() < next.index()), "no index comes again");
    assert!(devices().iter().all(|device| device.name() != "s1_3 often"));
}

#[test]
fn s0_6_who_waits_for_a_loss_no_longer_leaves_nothing_behind() {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let device = Script::new("s0_6 loss").open();
    let tasks = [(); 3].map(|()| Arc::new(Task));
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let mut waiting = pin!(device.lost_async());
        for _ in 0..2 {
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert!(tasks.iter().all(|task| Arc::strong_count(task) == 1));
}

#[test]
fn s1_4_who_waits_for_a_name_goes_on_when_whoever_drove_its_opener_is_dropped() {
    type Open = Pin<Box<dyn Future<Output = Result<Device>> + Send>>;
    const NAME: &str = "s1_4 passed on";
    let (woken, wakes) = Woken::pair();
    let second: Open = Box::pin(Device::open_async(NAME, opener(NAME)));
    let second = Arc::new(Mutex::new(second));
    let (other, waker, mut asked) = (Arc::clone(&second), woken.clone(), 0);
    let first = poll_fn(move |cx| {
        asked += 1;
        if asked > 1 {
            return Poll::Ready(Ok(driver(NAME)));
        }
        // What it waits for is there at once; the second asks for the name after that.
        cx.waker().wake_by_ref();
        let (other, waker) = (Arc::clone(&other), waker.clone());
        let asking = std::thread::spawn(move || {
            let mut second = other.lock().unwrap();
            second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        assert!(asking.join().unwrap());
        Poll::Pending
    });
    let mut one = start(NAME, Opener::future("scripted", first));
    assert!(look(one.as_mut()).is_pending());
    while wakes.try_recv().is_ok() {}
    drop(one);
    wakes.try_recv().expect("the second drives the opener now");
    let mut second = second.lock().unwrap();
    let opened = second.as_mut().poll(&mut Context::from_waker(&woken));
    let Poll::Ready(Ok(device)) = opened else { panic!("the opener is ready") };
    device.close().unwrap();
}
