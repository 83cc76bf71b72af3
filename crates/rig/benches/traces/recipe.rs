//! Traces made by code, each with its recipe, the same in every run.

use crate::measure::Random;
use crate::trace::{Event, Trace};

/// Returns all of them.
pub(crate) fn all() -> Vec<Trace> {
    vec![
        training("training, growing lengths", |step| 128 + 12 * step),
        training("training, fixed lengths", |_| 1_024),
        caches(),
        frames(),
        adversary(),
    ]
}

/// Events as they are made, with an id for each allocation.
#[derive(Default)]
struct Maker {
    events: Vec<Event>,
    count: usize,
}

impl Maker {
    fn create(&mut self, len: u64) -> usize {
        let id = self.count;
        self.count += 1;
        self.events.push(Event::Create { id, len });
        id
    }

    fn drop(&mut self, id: usize) {
        self.events.push(Event::Drop { id });
    }

    fn drop_all(&mut self, ids: impl IntoIterator<Item = usize>) {
        ids.into_iter().for_each(|id| self.drop(id));
    }
}

/// A transformer of 12 layers, width 768 and 12 heads in half precision, trained for 128 steps on
/// batches of 8 sequences whose length a step says. Weights, gradients and two moments live
/// throughout. Forward keeps of each layer what backward needs: the normed input, query, key and
/// value, the attention scores, the attended values and the widened layer; what else it makes goes
/// at once. Backward makes the gradient of each layer and lets go of what that layer kept.
fn training(name: &str, length: impl Fn(u64) -> u64) -> Trace {
    const LAYERS: u64 = 12;
    const WIDTH: u64 = 768;
    const BATCH: u64 = 8;
    const HEADS: u64 = 12;
    let mut maker = Maker::default();
    let mut live = Vec::new();
    for _ in 0..LAYERS {
        for elements in [3 * WIDTH * WIDTH, WIDTH * WIDTH, 4 * WIDTH * WIDTH, 4 * WIDTH * WIDTH] {
            live.extend([2, 2, 4, 4].map(|bytes| maker.create(bytes * elements)));
        }
    }
    for step in 0..128 {
        let tokens = BATCH * length(step);
        let (row, scores) = (2 * tokens * WIDTH, 2 * BATCH * HEADS * length(step) * length(step));
        let mut kept = Vec::new();
        let mut input = maker.create(row);
        for _ in 0..LAYERS {
            let mut of_layer = vec![input];
            of_layer.extend([row, 3 * row, scores].map(|len| maker.create(len)));
            let masked = maker.create(scores);
            of_layer.push(maker.create(row));
            maker.drop(masked);
            let sum = maker.create(row);
            of_layer.extend([4 * row, 4 * row].map(|len| maker.create(len)));
            maker.drop(sum);
            input = maker.create(row);
            kept.push(of_layer);
        }
        let mut gradient = maker.create(row);
        maker.drop(input);
        while let Some(of_layer) = kept.pop() {
            let wide = maker.create(4 * row);
            let of_scores = maker.create(scores);
            let next = maker.create(row);
            maker.drop_all([gradient, wide, of_scores]);
            maker.drop_all(of_layer);
            gradient = next;
        }
        maker.drop(gradient);
    }
    maker.drop_all(live);
    Trace::made(name, maker.events)
}

/// A model of 16 layers that answers 8 conversations at once for 1,500 steps. Each step makes the
/// key and the value cache of each layer anew, one row of 2,048 bytes longer, and lets the old one
/// go; a conversation that reaches its length, between 64 and 1,000 rows, ends and another starts
/// with a prompt of 16 to 200 rows. Each layer needs three short-lived rows besides.
fn caches() -> Trace {
    const LAYERS: usize = 16;
    const ROW: u64 = 2_048;
    let (mut maker, mut random) = (Maker::default(), Random::new(11));
    let mut talks: Vec<Option<(u64, u64, Vec<usize>)>> = vec![None; 8];
    for _ in 0..1_500 {
        for talk in &mut talks {
            let (rows, end, old) = talk.take().unwrap_or_else(|| {
                let rows = 16 + random.below(185);
                (rows, rows + 64 + random.below(937), Vec::new())
            });
            let mut new = Vec::new();
            let mut old = old.into_iter();
            for _ in 0..LAYERS {
                let short = [ROW, ROW, 4 * ROW].map(|len| maker.create(len));
                new.extend([(); 2].map(|()| maker.create(rows * ROW)));
                maker.drop_all(old.by_ref().take(2));
                maker.drop_all(short);
            }
            if rows < end {
                *talk = Some((rows + 1, end, new));
            } else {
                maker.drop_all(new);
            }
        }
    }
    talks.into_iter().flatten().for_each(|(_, _, live)| maker.drop_all(live));
    Trace::made("key and value caches", maker.events)
}

/// A renderer of 2,000 frames, three in flight. Each frame makes six targets of the window's size,
/// some 60 small uploads of 256 bytes to 64 KiB and a large one now and then, and lets go of the
/// frame three before. The window changes its size every 250 frames. Meshes and textures of 64 KiB
/// to 16 MiB stream in and out, about 200 at a time.
fn frames() -> Trace {
    let (mut maker, mut random) = (Maker::default(), Random::new(5));
    let mut flying = std::collections::VecDeque::new();
    let mut assets = Vec::new();
    let (mut width, mut height) = (1_920, 1_080);
    for frame in 0..2_000 {
        if frame % 250 == 249 {
            (width, height) = (800 + random.below(2_000), 600 + random.below(1_000));
        }
        let pixels = width * height;
        let mut made = Vec::new();
        made.extend([8, 4, 4, 8, 2, 1].map(|bytes| maker.create(bytes * pixels)));
        for _ in 0..50 + random.below(20) {
            made.push(maker.create((256 << random.below(8)) + 16 * random.below(16)));
        }
        if random.below(10) == 0 {
            made.push(maker.create((1 << 20) + random.below(3 << 20)));
        }
        flying.push_back(made);
        if flying.len() > 3 {
            maker.drop_all(flying.pop_front().unwrap_or_default());
        }
        if assets.len() < 200 || random.below(2) == 0 {
            assets.push(maker.create((64 << 10 << random.below(8)) + 4_096 * random.below(16)));
        }
        if assets.len() > 200 {
            let place = random.below(assets.len() as u64) as usize;
            maker.drop(assets.swap_remove(place));
        }
    }
    flying.into_iter().for_each(|made| maker.drop_all(made));
    maker.drop_all(assets);
    Trace::made("a renderer's frames", maker.events)
}

/// An adversarial mix for size classes: 12,000 allocations, each a few bytes above an eighth
/// between two powers of two from 64 KiB to 4 MiB, so that its class wastes most. The eighths come
/// at random from a band of twelve that moves up by one every 300 allocations and starts anew at
/// the top. Each allocation lives for up to 600 others, so that no class is ever full or empty for
/// long.
fn adversary() -> Trace {
    let (mut maker, mut random) = (Maker::default(), Random::new(3));
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); 12_600];
    for step in 0..12_000 {
        maker.drop_all(std::mem::take(&mut ends[step]));
        let class = (step as u64 / 300 + random.below(12)) % 48;
        let len = ((8 + class % 8) << 13 << (class / 8)) + 1 + random.below(16);
        ends[step + 1 + random.below(600) as usize].push(maker.create(len));
    }
    ends.into_iter().for_each(|ending| maker.drop_all(ending));
    Trace::made("an adversary of classes", maker.events)
}
