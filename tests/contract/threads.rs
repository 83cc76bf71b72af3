//! The law of `rig::driver::Driver` that needs threads.

use crate::bench::Open;
use rig::driver::{Alloc, Ask, Kind};

pub(crate) fn s10_3_threads_allocate_and_free_beside_each_other(open: Open<'_>) {
    let driver = open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 1..200 {
                    let ask = Ask { kind: Kind::Device, len_bytes: round * 64, paged: false };
                    let Alloc::Ready(region) = driver.alloc(ask) else { panic!("it fits") };
                    if let Some(bytes) = driver.bytes(region) {
                        bytes.fill_mixed(round as u8);
                        let mut seen = [0];
                        bytes.copy_out(ask.len_bytes - 1, &mut seen);
                        assert_eq!(seen, [round as u8]);
                    }
                    driver.free(region);
                }
            });
        }
    });
}
