//! The return list: a lock-free list on which drops put what they leave, for a drain to take.
//!
//! A drop pushes without a lock, an allocation or a wait, on any thread and inside any callback
//! (S4.13). A drain takes the whole list with one exchange, so the usual trouble of lock-free
//! lists (an item that leaves and comes back between two looks) cannot happen. An item is on the
//! list at most once: its link says so.
//!
//! The unsafe code keeps one count straight: a pointer on a list stands for one reference to its
//! item, made by `into_raw` in a push and ended by `from_raw` when the item is taken. Only the
//! caller whose exchange moved a pointer uses it afterwards. And it hands the reference of a share
//! on at its end, so that no share has to be able to be empty.

use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

/// An item that can be on one list at a time. An item's link and list never change.
pub(crate) trait Linked: Sized {
    /// Returns the item's link.
    fn link(&self) -> &Link<Self>;

    /// Returns the list that the item goes on, which the item keeps alive.
    fn list(&self) -> &List<Self>;
}

/// What an item carries to be on a list.
#[derive(Debug)]
pub(crate) struct Link<T> {
    next: AtomicPtr<T>,
    queued: AtomicBool,
}

impl<T> Link<T> {
    pub(crate) fn new() -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), queued: AtomicBool::new(false) }
    }
}

/// An item that is shared by those who have a [`Share`] of it, and goes on its list after them.
pub(crate) trait Shared: Linked {
    /// Takes one share off; answers whether the item goes on its list now.
    fn leave(&self) -> bool;
}

/// A share of an item, which leaves it on drop.
pub(crate) struct Share<T: Shared>(ManuallyDrop<Arc<T>>);

impl<T: Shared> Share<T> {
    /// Makes a share that the item counts already.
    pub(crate) fn counted(item: Arc<T>) -> Self {
        Self(ManuallyDrop::new(item))
    }

    /// Returns the item.
    pub(crate) fn item(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Shared> Drop for Share<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody looks at the field after this, which takes the reference out of it once.
        let item = unsafe { ManuallyDrop::take(&mut self.0) };
        if item.leave() {
            List::push(item);
        }
    }
}

/// A list that owns a reference to each item on it. One that ends is empty, since items keep it.
#[derive(Debug)]
pub(crate) struct List<T: Linked> {
    /// The newest item, from `Arc::into_raw`.
    head: AtomicPtr<T>,
    /// A list goes to another thread only where the references on it may.
    owns: PhantomData<Arc<T>>,
}

impl<T: Linked> List<T> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Puts an item on its list, unless it is there.
    pub(crate) fn push(item: Arc<T>) {
        // ORDERING: pairs with the swap in `Items::next`. If the item is there already, what was
        // done to it before this push is seen by the drain that takes it; if it is not, the drain
        // that took it last is done with the link.
        if item.link().queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let raw = Arc::into_raw(item).cast_mut();
        // SAFETY: the pointer is from `into_raw` just now, and the reference it stands for is
        // ours until the exchange below gives it to the list; nothing of the item, nor of the
        // list that it keeps alive, is touched after that.
        let item = unsafe { &*raw };
        let list = item.list();
        let mut head = list.head.load(Ordering::Relaxed);
        loop {
            item.link().next.store(head, Ordering::Relaxed);
            // ORDERING: releases the link and all that the dropping thread did, to `take_all`.
            match list.head.compare_exchange_weak(head, raw, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether nothing is on the list; a push at the same time may be missed.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, oldest first.
    pub(crate) fn take_all(&self) -> Items<T> {
        // ORDERING: acquires what the pushes released. Releases that this drain has begun, to who
        // finds the list empty and waits for it.
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut oldest = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the pointer stands for a reference that the list gave us with the swap.
            let link = unsafe { &*newest }.link();
            let next = link.next.load(Ordering::Relaxed);
            link.next.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = next;
        }
        Items { next: oldest }
    }
}

/// What a drain took.
#[derive(Debug)]
pub(crate) struct Items<T: Linked> {
    next: *mut T,
}

impl<T: Linked> Iterator for Items<T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: the pointer is from `into_raw`, and its reference is ours alone since the swap
        // in `take_all`; it is turned back exactly once, since `next` moves on.
        let item = unsafe { Arc::from_raw(self.next) };
        self.next = item.link().next.load(Ordering::Relaxed);
        // ORDERING: pairs with the swap in `push`. Releases the link, which is free from here on;
        // acquires what was done before each push that found the item here and left it.
        item.link().queued.swap(false, Ordering::AcqRel);
        Some(item)
    }
}

impl<T: Linked> Drop for Items<T> {
    #[inline]
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::list::{Link, Linked, List};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    /// An item with a number, which counts its end where it is told to.
    struct Item {
        link: Link<Item>,
        list: Arc<List<Item>>,
        number: u32,
        ended: Arc<AtomicU32>,
    }

    impl Linked for Item {
        fn link(&self) -> &Link<Self> {
            &self.link
        }

        fn list(&self) -> &List<Self> {
            &self.list
        }
    }

    impl Drop for Item {
        fn drop(&mut self) {
            self.ended.fetch_add(1, Relaxed);
        }
    }

    struct Made {
        list: Arc<List<Item>>,
        items: Vec<Arc<Item>>,
        ended: Arc<AtomicU32>,
    }

    fn made(count: u32) -> Made {
        let (list, ended) = (Arc::new(List::new()), Arc::new(AtomicU32::new(0)));
        let item = |number| {
            let (list, ended) = (Arc::clone(&list), Arc::clone(&ended));
            Arc::new(Item { link: Link::new(), list, number, ended })
        };
        Made { items: (0..count).map(item).collect(), list, ended }
    }

    fn numbers(list: &List<Item>) -> Vec<u32> {
        list.take_all().map(|item| item.number).collect()
    }

    #[test]
    fn s9_1_a_drain_takes_what_the_list_held_oldest_first() {
        for count in [0, 1, 2, 3, 100] {
            let Made { list, items, .. } = made(count);
            assert!(list.is_empty());
            items.iter().cloned().for_each(List::push);
            assert_eq!(list.is_empty(), count == 0);
            let taken = list.take_all();
            assert!(list.is_empty());
            // The first is on its way out: this drain sees what is done to it until it comes.
            items.iter().take(1).cloned().for_each(List::push);
            assert_eq!(taken.map(|item| item.number).collect::<Vec<_>>(), Vec::from_iter(0..count));
            assert!(list.is_empty());
        }
    }

    #[test]
    fn s9_6_an_item_is_on_the_list_at_most_once_and_may_come_back() {
        let Made { list, items, .. } = made(2);
        for index in [0, 1, 0, 0, 1] {
            List::push(Arc::clone(&items[index]));
        }
        assert_eq!(Arc::strong_count(&items[0]), 2, "one reference is on the list");
        assert_eq!(numbers(&list), [0, 1]);
        assert_eq!(numbers(&list), [0; 0]);
        for index in [1, 0] {
            List::push(Arc::clone(&items[index]));
        }
        assert_eq!(numbers(&list), [1, 0]);
        assert_eq!(Arc::strong_count(&items[0]), 1);
    }

    #[test]
    fn s4_13_an_item_taken_may_go_back_at_once() {
        let Made { list, items, .. } = made(3);
        items.into_iter().for_each(List::push);
        for item in list.take_all() {
            if item.number != 1 {
                List::push(item);
            }
        }
        assert_eq!(numbers(&list), [0, 2]);
    }

    #[test]
    fn s4_13_what_a_drain_leaves_is_dropped_once() {
        let Made { list, items, ended } = made(4);
        items.into_iter().for_each(List::push);
        let mut taken = list.take_all();
        assert_eq!(taken.next().map(|item| item.number), Some(0));
        assert_eq!(ended.load(Relaxed), 1);
        drop(taken);
        assert_eq!(ended.load(Relaxed), 4);
        assert_eq!(Arc::strong_count(&list), 1);
    }

    #[test]
    fn s4_13_the_last_reference_may_be_the_one_on_the_list() {
        let Made { list, items, ended } = made(2);
        items.into_iter().for_each(List::push);
        assert_eq!(ended.load(Relaxed), 0);
        drop(list.take_all());
        assert_eq!(ended.load(Relaxed), 2);
        // The items kept the list alive; nothing does now but this test.
        assert_eq!(Arc::strong_count(&list), 1);
    }

    #[test]
    fn s9_6_threads_that_push_and_drain_lose_nothing_and_take_nothing_twice() {
        const EACH: u32 = if cfg!(miri) { 20 } else { 2_000 };
        let Made { list, items, ended } = made(4 * EACH);
        let mut items = items.into_iter();
        let drained = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mine: Vec<_> = items.by_ref().take(EACH as usize).collect();
                scope.spawn(|| mine.into_iter().for_each(List::push));
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while drained.load(Relaxed) < 4 * EACH {
                        let count = list.take_all().count() as u32;
                        drained.fetch_add(count, Relaxed);
                        std::thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(drained.load(Relaxed), 4 * EACH);
        assert_eq!(ended.load(Relaxed), 4 * EACH);
        assert!(list.is_empty());
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::list::{Link, Linked, List};
    use crate::sync::{AtomicU64, Ordering};
    use loom::thread;
    use std::sync::Arc;

    struct Item {
        link: Link<Item>,
        list: Arc<List<Item>>,
        number: usize,
        /// What its users leave; relaxed, so that only the list orders it.
        left: AtomicU64,
    }

    impl Linked for Item {
        fn link(&self) -> &Link<Self> {
            &self.link
        }

        fn list(&self) -> &List<Self> {
            &self.list
        }
    }

    fn items(list: &Arc<List<Item>>) -> [Arc<Item>; 2] {
        [0, 1].map(|number| {
            let (link, left) = (Link::new(), AtomicU64::new(0));
            Arc::new(Item { link, list: Arc::clone(list), number, left })
        })
    }

    #[test]
    fn s4_13_what_two_threads_push_a_third_takes_once_with_all_that_they_left() {
        loom::model(|| {
            let list = Arc::new(List::new());
            let pushers = items(&list).map(|item| {
                thread::spawn(move || {
                    item.left.store(1, Ordering::Relaxed);
                    List::push(item);
                })
            });
            let mut taken = [0; 2];
            let mut drain = || {
                for item in list.take_all() {
                    taken[item.number] += 1;
                    assert_eq!(item.left.load(Ordering::Relaxed), 1, "what it left is seen");
                    assert_eq!(Arc::strong_count(&item), 1, "nobody else has it");
                }
            };
            drain();
            for thread in pushers {
                thread.join().unwrap();
            }
            drain();
            assert_eq!(taken, [1, 1]);
            assert_eq!(Arc::strong_count(&list), 1);
        });
    }

    #[test]
    fn s4_13_no_push_of_an_item_on_its_way_out_is_lost() {
        loom::model(|| {
            let list = Arc::new(List::new());
            let [item, _] = items(&list);
            let pushers = [(); 2].map(|()| {
                let item = Arc::clone(&item);
                thread::spawn(move || {
                    item.left.fetch_add(1, Ordering::Relaxed);
                    List::push(item);
                })
            });
            // The last drain to take the item sees what both left, whoever's push put it there.
            let mut seen = 0;
            let mut drain = || {
                for item in list.take_all() {
                    seen = item.left.load(Ordering::Relaxed);
                }
            };
            drain();
            for thread in pushers {
                thread.join().unwrap();
            }
            drain();
            assert_eq!(seen, 2);
            assert_eq!(Arc::strong_count(&item), 1);
        });
    }

    #[test]
    fn s9_6_of_two_drains_at_once_each_item_falls_to_one() {
        loom::model(|| {
            let list = Arc::new(List::new());
            items(&list).into_iter().for_each(List::push);
            let other = Arc::clone(&list);
            let draining = thread::spawn(move || other.take_all().count());
            let count = list.take_all().count();
            assert_eq!(count + draining.join().unwrap(), 2);
            assert!(list.is_empty());
        });
    }
}
