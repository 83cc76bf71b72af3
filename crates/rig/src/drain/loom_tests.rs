//! What threads do at once to drains, in every order.

use crate::drain::take_used;
use crate::list::{Link, Linked, List};
use crate::timeline::Track;
use loom::thread;
use std::sync::Arc;

/// What work uses until it is dropped.
struct Item {
    link: Link<Item>,
    list: Arc<List<Item>>,
    used_by: u64,
}

impl Linked for Item {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn list(&self) -> &List<Self> {
        &self.list
    }
}

#[test]
fn s16_what_is_dropped_is_not_due_before_the_work_that_uses_it() {
    loom::model(|| {
        let shared = Arc::new((Arc::new(List::new()), Track::new()));
        let other = Arc::clone(&shared);
        let using = thread::spawn(move || {
            let (list, track) = &*other;
            for used_by in [1, 2] {
                track.assign(used_by);
                let (link, list) = (Link::new(), Arc::clone(list));
                List::push(Arc::new(Item { link, list, used_by }));
            }
        });
        let (taken, due) = take_used(&shared.0, &shared.1);
        taken.for_each(|item| assert!(due >= item.used_by));
        using.join().unwrap();
        drop(shared.0.take_all());
    });
}
