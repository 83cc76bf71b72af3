//! Measures of a whole process: what a piece of a program asks for, its time, the statistics at
//! exit (S11.4 to S11.6), and what the tick gives back while it idles (S9.15).
//!
//! The figures are the process's, so nothing else runs in it: each test runs this program again,
//! for itself alone, and looks at what that printed.

use rig::driver::Addressed;
use rig_support::{Call, Script, drain};
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs `piece` in a process of its own and answers what that printed; `name` is the test's.
fn alone(name: &str, settings: &[(&str, &str)], piece: impl FnOnce() -> rig::Result<()>) -> Output {
    if std::env::var_os(ALONE).is_some() {
        piece().expect("the piece succeeds");
        std::process::exit(0);
    }
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    command
        .env_remove("RIG_MANAGED_POOL")
        .env_remove("RIG_POOL_STATS")
        .env_remove("RIG_TRACE_POOL")
        .envs(settings.iter().copied());
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    output
}

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn s11_4_allocated_answers_the_bytes_requested_on_all_devices_but_the_host() {
    alone("s11_4_allocated_answers_the_bytes_requested_on_all_devices_but_the_host", &[], || {
        let [m, n] = [rig::memory::open("M")?, rig::memory::open("N")?];
        let bytes = rig::allocated!({
            rig::host().create_buffer(1 << 20)?;
            m.create_buffer(1_000)?.free()?;
            n.create_buffer(24)?
        });
        assert_eq!(bytes, 1_024);
        assert_eq!(rig::allocated!(rig::host().create_buffer(7)?), 0);
        Ok(())
    });
}

#[test]
fn s11_4_a_device_that_is_gone_still_counts() {
    alone("s11_4_a_device_that_is_gone_still_counts", &[], || {
        let kept = rig::memory::open("kept")?;
        let bytes = rig::allocated!({
            let gone = rig::memory::open("gone")?;
            gone.create_buffer(1_000)?;
            gone.close()?;
            drop(gone);
            kept.create_buffer(24)?;
            assert!(rig::devices().iter().all(|device| device.name() != "gone"));
        });
        assert_eq!(bytes, 1_024);
        Ok(())
    });
}

#[test]
fn s11_5_time_prints_one_line_and_answers_the_expressions_value() {
    let name = "s11_5_time_prints_one_line_and_answers_the_expressions_value";
    let output = alone(name, &[], || {
        let m = rig::memory::open("M")?;
        let buffer = rig::time!({
            rig::host().create_buffer(2_048)?;
            m.create_buffer(1 << 20)?
        });
        assert_eq!(buffer.len(), 1 << 20);
        Ok(())
    });
    let (stdout, _) = printed(&output);
    let line = stdout.lines().find(|line| line.contains(" seconds")).unwrap();
    let (seconds, rest) = line.split_once(" seconds").unwrap();
    assert_eq!((seconds.len(), seconds.trim().split('.').nth(1).unwrap().len()), (10, 6), "{line}");
    assert!(rest.contains(" (1 host allocation: 2 KiB, "), "{line}");
    assert!(rest.contains(" (1 device allocation: 1 MiB, "), "{line}");
    assert!(rest.contains("% rig time of which ") && rest.ends_with("% in drivers)"), "{line}");
}

#[test]
fn s11_6_statistics_are_printed_at_exit_where_the_environment_asks() {
    let name = "s11_6_statistics_are_printed_at_exit_where_the_environment_asks";
    let piece = || {
        let m = rig::memory::open("M")?;
        (0..3).try_for_each(|_| m.create_buffer(1_024).map(drop))
    };
    for (value, told) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        let (_, stderr) = printed(&alone(name, &[("RIG_POOL_STATS", value)], piece));
        let line = "requested 3 allocations: 3 KiB";
        assert_eq!(stderr.contains(line), told, "{value}: {stderr}");
    }
    let (_, stderr) = printed(&alone(name, &[], piece));
    assert!(!stderr.contains("requested"), "by default nothing is printed: {stderr}");
}

#[test]
fn s11_6_call_sites_of_live_memory_stand_in_the_report_where_the_environment_asks() {
    let name = "s11_6_call_sites_of_live_memory_stand_in_the_report_where_the_environment_asks";
    let piece = || {
        let m = rig::memory::open("M")?;
        m.set_budget(1_024)?;
        let _live = m.create_buffer(1_024)?;
        let Err(rig::Error::OutOfMemory { report, .. }) = m.create_buffer(512) else {
            panic!("there is no room");
        };
        println!("{report}");
        Ok(())
    };
    for (value, told) in [("true", true), ("false", false), ("maybe", false)] {
        let (stdout, _) = printed(&alone(name, &[("RIG_TRACE_POOL", value)], piece));
        let line = format!("1 KiB in 1 allocation from {}:", file!());
        assert_eq!(stdout.contains(&line), told, "{value}: {stdout}");
    }
}

/// Drops four buffers at once, and answers whether the tick gave back what nobody needed since, in
/// the time of seven scans.
fn spike_goes() -> rig::Result<bool> {
    let d = Script::new("spike").addressed(Addressed::Always).open();
    let spike: rig::Result<Vec<_>> = (0..4).map(|_| d.create_buffer(1 << 20)).collect();
    drop(spike?);
    drain(&d);
    assert_eq!(d.cached(), 4 << 20);
    let (control, (tell, told)) = (d.control.clone(), channel());
    std::thread::spawn(move || {
        control.await_calls(Call::Free, 4);
        let _ = tell.send(());
    });
    let goes = told.recv_timeout(SEVEN_SCANS).is_ok();
    assert_eq!(d.cached(), if goes { 0 } else { 4 << 20 });
    Ok(goes)
}

#[test]
fn s9_15_the_tick_scans_and_returns_a_spike_after_six_scans() {
    let name = "s9_15_the_tick_scans_and_returns_a_spike_after_six_scans";
    alone(name, &[], || {
        assert!(spike_goes()?);
        Ok(())
    });
}

#[test]
fn s9_15_with_managed_pool_off_the_tick_neither_scans_nor_reclaims() {
    let name = "s9_15_with_managed_pool_off_the_tick_neither_scans_nor_reclaims";
    alone(name, &[("RIG_MANAGED_POOL", "false")], || {
        assert!(!spike_goes()?);
        Ok(())
    });
}

/// Six scans take 17 seconds, the seventh comes 5 after them (S9.15).
const SEVEN_SCANS: Duration = Duration::from_secs(22);

/// Set in the process that runs a piece alone.
const ALONE: &str = "RIG_TEST_ALONE";
