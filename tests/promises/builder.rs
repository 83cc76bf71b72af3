//! What a builder of work takes and refuses (S8.2).

use rig::{Builder, Device, Misuse, run};

fn device(name: &str) -> Device {
    rig::memory::open(name).expect("a memory device opens")
}

fn refusal(builder: Builder) -> Misuse {
    let error = builder.build().expect_err("the work is wrong");
    error.misuse().expect("the call is wrong").clone()
}

#[test]
fn s8_2_what_is_said_of_a_part_that_is_not_there_is_misuse() {
    let device = device("builder: said of no part");
    let args = device.create_buffer(4).expect("room");
    let lacks = |said, of| Misuse::NoPart { said, of };
    assert_eq!(refusal(device.prepare().args(&[1])), lacks("args", "a launch"));
    assert_eq!(refusal(device.prepare().fill(&args, 0).args(&[1])), lacks("args", "a launch"));
    assert_eq!(refusal(device.prepare().args_in(&args)), lacks("args_in", "a launch"));
    assert_eq!(refusal(device.prepare().queue(0)), lacks("queue", "a part"));
    assert_eq!(refusal(device.prepare().after(0)), lacks("after", "a part"));
    assert_eq!(device.submitted(), 0);
}

#[test]
fn s8_2_an_index_of_a_run_buffer_past_65_535_is_misuse() {
    let device = device("builder: run index");
    for index in [65_536, usize::MAX] {
        let Misuse::Option { given, .. } = refusal(device.prepare().reads(run(index))) else {
            panic!("the index is told");
        };
        assert_eq!(*given, *index.to_string());
    }
    assert!(device.prepare().reads(run(65_535)).build().is_ok());
}

#[test]
fn s4_15_dead_memory_that_serves_a_run_buffer_is_dead_and_overlaps_nothing() {
    let device = device("builder: dead and served again");
    let fixed = device.create_buffer(64).expect("room");
    let keep = device.prepare().copy(run(0), &fixed).build().expect("good work");
    fixed.free().expect("nothing is in the way");
    let again = device.create_buffer(64).expect("the same memory");
    let error = keep.submit(&[&again], &[]).expect_err("the fixed buffer is dead");
    assert!(matches!(error.misuse(), Some(Misuse::Dead { .. })), "{error}");
}
