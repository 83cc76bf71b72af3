//! Closing devices (S12.5, and Close of S15).

use crate::bench::{bytes_of, finish, lost, misuse};
use rig::{Error, Misuse, host, memory, wrap};
use rig_support::{Answer, Call, Script, Sleep, drain, look, until};
use std::pin::pin;
use std::task::Poll;

const LEN: u64 = 64 << 10;

#[test]
fn s12_5_close_waits_for_the_work_submitted_before_it() {
    let d = Script::new("s12_5 work").open();
    let x = d.create_buffer(LEN).unwrap();
    let work = d.prepare().fill(&x, 1).build().unwrap();
    for _ in 0..3 {
        work.submit(&[], &[]).unwrap();
    }
    assert_eq!(d.reached(), 0);
    d.close().unwrap();
    assert_eq!((d.reached(), d.lost().as_deref(), d.is_settled()), (3, Some("closed"), true));
    assert_eq!(lost(d.wait(1)).1, "closed");
}

#[test]
fn s12_5_close_returns_after_the_stop() {
    let d = Script::new("s12_5 stop").stops(Answer::WhenTold).open();
    let mut closing = pin!(d.close_async());
    assert!(look(closing.as_mut()).is_pending());
    assert_eq!((d.control.count(Call::Stop), d.is_settled()), (1, false));
    d.control.answer_stop();
    // The tick may drain meanwhile, which is waited for.
    until("it returns", || matches!(look(closing.as_mut()), Poll::Ready(Ok(()))));
    assert!(d.is_settled());
}

#[test]
fn s12_5_two_closes_make_one_stop() {
    let d = Script::new("s12_5 two").open();
    d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    d.control.gate();
    std::thread::scope(|threads| {
        let closing = [(); 2].map(|()| threads.spawn(|| d.close()));
        d.control.await_calls(Call::Block, 2);
        d.control.open_gate();
        closing.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    assert_eq!((d.control.count(Call::Stop), d.reached()), (1, 1));
    d.close().unwrap();
    assert_eq!(d.control.count(Call::Stop), 1);
}

#[test]
fn s12_5_close_of_a_lost_device_waits_for_its_stop() {
    let d = Script::new("s12_5 lost").stops(Answer::AtService).open();
    d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    d.device_lost("unplugged");
    finish(d.close_async()).unwrap();
    assert_eq!((d.is_settled(), d.lost().as_deref()), (true, Some("unplugged")));
}

#[test]
fn s12_5_a_fault_while_closing_is_the_reason() {
    let d = Script::new("s12_5 fault").open();
    d.prepare().build().unwrap().submit(&[], &[]).unwrap();
    d.control.sleeps([Sleep::Fault("the power went".into())]);
    d.close().unwrap();
    assert_eq!((d.lost().as_deref(), d.reached()), (Some("the power went"), 0));
}

#[test]
fn s12_5_closing_the_host_is_misuse() {
    assert_eq!(misuse(host().close()), Misuse::HostClose);
}

#[test]
fn s12_5_what_the_program_brought_is_never_destroyed() {
    let d = Script::new("s12_5 brought").maps_host(Some(1)).open();
    let wrapped = wrap(vec![7_u8; LEN as usize]);
    let on_d = wrapped.borrow(&d).unwrap().expect("d maps any host memory");
    d.close().unwrap();
    assert_eq!(bytes_of(&wrapped), vec![7; LEN as usize]);
    wrapped.fill(8).unwrap();
    drop(on_d);
    drain(&d);
    assert_eq!(bytes_of(&wrapped), vec![8; LEN as usize]);
}

#[test]
fn s12_5_a_closed_name_opens_again() {
    let m = memory::open("s12_5 again").unwrap();
    m.prepare().build().unwrap().submit(&[], &[]).unwrap();
    m.close().unwrap();
    let again = memory::open("s12_5 again").unwrap();
    assert_eq!((again.submitted(), again == m), (0, false));
    again.close().unwrap();
}

#[test]
fn s15_close_racing_submits_gives_each_a_point_or_the_loss() {
    for round in 0..20 {
        let d = Script::new(format!("s15 close {round}")).open();
        let x = d.create_buffer(LEN).unwrap();
        let work = d.prepare().fill(&x, 1).build().unwrap();
        let taken = std::thread::scope(|threads| {
            let submitting = [(); 2].map(|()| {
                threads.spawn(|| {
                    let submit = |_| match work.submit(&[], &[]) {
                        Ok(_) => true,
                        Err(Error::Lost { why, .. }) => {
                            assert_eq!(&*why, "closed");
                            false
                        }
                        Err(other) => panic!("{other}"),
                    };
                    (0..200).map(submit).filter(|taken| *taken).count()
                })
            });
            d.close().unwrap();
            submitting.map(|thread| thread.join().unwrap())
        });
        assert_eq!(d.submitted(), taken.iter().sum::<usize>() as u64);
        assert_eq!(d.control.count(Call::Stop), 1);
    }
}
