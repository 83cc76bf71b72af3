//! What may go to another thread, and be used by several: all of it. These are checked when this
//! file is compiled.

use rig::{
    Buffer, BufferBuilder, Builder, CacheOptions, Claims, Collector, Device, Error, Export, Hold,
    Kernel, Launch, LentBuffer, Misuse, Named, Opener, Point, Prepared, Profile, ReadClaim, Report,
    Returned, Snapshot, Stamps, Stats, Trace, Use,
};

const fn used_anywhere<T: Send + Sync>() {}

const fn goes_anywhere<T: Send>() {}

fn polled_anywhere<F: Future + Send>(_: &F) {}

const _: () = {
    used_anywhere::<Device>();
    used_anywhere::<Point>();
    used_anywhere::<Buffer>();
    used_anywhere::<Export>();
    used_anywhere::<ReadClaim>();
    used_anywhere::<Claims>();
    used_anywhere::<Hold>();
    used_anywhere::<Prepared>();
    used_anywhere::<Kernel>();
    used_anywhere::<Stats>();
    used_anywhere::<Report>();
    used_anywhere::<Snapshot>();
    used_anywhere::<Profile>();
    used_anywhere::<Error>();
    used_anywhere::<Misuse>();
    used_anywhere::<Stamps>();
    used_anywhere::<Trace>();
    used_anywhere::<Collector>();
    used_anywhere::<LentBuffer>();
    used_anywhere::<CacheOptions>();
    used_anywhere::<Returned>();
    used_anywhere::<Named>();
    used_anywhere::<Use>();
    used_anywhere::<Builder>();
    used_anywhere::<BufferBuilder<'_>>();
    used_anywhere::<Launch>();
    // An opener's future is its own thread's to poll.
    goes_anywhere::<Opener>();
};

/// The futures of the async forms. Never called: what counts is that it compiles.
fn every_future_is_send(device: &Device, buffer: &Buffer, prepared: &Prepared, launch: Launch) {
    let code = rig::memory::function("nothing", |_| ());
    let opener = || rig::memory::opener(rig::memory::Options::default());
    polled_anywhere(&Device::open_async("name", opener()));
    polled_anywhere(&Device::open_with_async("name", opener(), CacheOptions::default()));
    polled_anywhere(&device.create_buffer_async(1));
    polled_anywhere(&device.buffer(1).create_async());
    polled_anywhere(&device.wait_async(1));
    polled_anywhere(&device.close_async());
    polled_anywhere(&device.kernel_async(code));
    polled_anywhere(&device.record_use_async(&[buffer], &[]));
    polled_anywhere(&prepared.submit_async(&[buffer], &[]));
    polled_anywhere(&prepared.submit_holding_async(&[buffer], &[], &[]));
    polled_anywhere(&launch.submit_async());
    polled_anywhere(&buffer.wait_async(Use::Read));
    polled_anywhere(&buffer.free_async());
    polled_anywhere(&buffer.read_async(<[u8]>::len));
    polled_anywhere(&buffer.write_async(|bytes| bytes.len()));
    polled_anywhere(&buffer.read_as_async::<f32, _>(<[f32]>::len));
    polled_anywhere(&buffer.write_as_async::<f32, _>(|floats| floats.len()));
    polled_anywhere(&buffer.export_async());
    polled_anywhere(&buffer.blit_to_async(0, &mut [0]));
    polled_anywhere(&buffer.blit_from_async(0, &[0]));
    polled_anywhere(&buffer.fill_async(0));
    polled_anywhere(&rig::copy_async(buffer, buffer));
}

#[test]
fn s0_6_the_futures_of_all_async_forms_go_to_any_thread() {
    let _compiles: fn(&Device, &Buffer, &Prepared, Launch) = every_future_is_send;
    let h = rig::host().create_buffer(16).unwrap();
    let (filled, read) = {
        let h = &h;
        std::thread::scope(|scope| {
            let filling = h.fill_async(7);
            let filled = scope.spawn(move || crate::watch::end(filling)).join().unwrap();
            let reading = h.read_async(|bytes| bytes[15]);
            (filled, scope.spawn(move || crate::watch::end(reading)).join().unwrap())
        })
    };
    filled.unwrap();
    assert_eq!(read.unwrap(), 7);
}
