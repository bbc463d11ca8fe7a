//! The memory that a policy allocates.
//!
//! An instance begins with a page of memory, 64 KiB, of which its stack and its constants leave a part: 20 KiB in a built-in policy, far more than one decision allocates. Rust's own allocator may leave that part unused and ask for a second page at once. For the host this is two calls of the system that stop all of its threads for a moment, and twice as much memory to clear after each decision. So 16 KiB of the policy's own memory are given away first, and only what does not fit there comes from Rust's own allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A range of memory that is given away from its start to its end. What is freed is given away again if it was the last: an instance lives for one decision only.
pub(crate) struct Arena {
    /// The address of its first byte, and the one behind its last.
    range: fn() -> (usize, usize),
    /// The bytes that are given away. Nothing else runs on WebAssembly at the same time.
    used: AtomicUsize,
}

impl Arena {
    /// # Safety
    ///
    /// The range is always the same. Its memory can be read and written, its provenance is exposed, and nothing else uses it. Only one thread uses the arena.
    #[allow(
        unsafe_code,
        reason = "an allocator owns memory that Rust does not know of"
    )]
    pub(crate) const unsafe fn new(range: fn() -> (usize, usize)) -> Self {
        Self {
            range,
            used: AtomicUsize::new(0),
        }
    }

    /// Takes memory from the rest of the range, if it fits there.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let (start, end) = (self.range)();
        let free = start.checked_add(self.used.load(Relaxed))?;
        let from = free.checked_next_multiple_of(layout.align())?;
        let to = from.checked_add(layout.size())?;
        (to <= end).then(|| {
            self.used.store(to - start, Relaxed);
            with_exposed_provenance_mut(from)
        })
    }

    /// Where in the range an allocation is; `None` if it is not from here.
    fn place(&self, pointer: *mut u8) -> Option<usize> {
        let (start, end) = (self.range)();
        let is_inside = (start..end).contains(&pointer.addr());
        is_inside.then(|| pointer.addr() - start)
    }

    /// Whether nothing was given away behind this allocation.
    fn is_last(&self, place: usize, layout: Layout) -> bool {
        place + layout.size() == self.used.load(Relaxed)
    }

    /// Changes the size of the last allocation where it is, if there is room.
    fn resize(&self, place: usize, size: usize) -> bool {
        let (start, end) = (self.range)();
        let fits = place.checked_add(size).filter(|to| *to <= end - start);
        if let Some(to) = fits {
            self.used.store(to, Relaxed);
        }
        fits.is_some()
    }
}

#[allow(
    unsafe_code,
    reason = "an allocator is unsafe; this one owns its range and passes everything else on"
)]
// SAFETY: allocations from the range lie in it, are aligned, and do not overlap: each begins behind what is used. All others are the system's.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(pointer) => pointer,
            // SAFETY: as the caller guarantees.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match self.place(pointer) {
            Some(place) if self.is_last(place, layout) => self.used.store(place, Relaxed),
            Some(_) => {}
            // SAFETY: it is the system's, and as the caller guarantees.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.place(pointer) else {
            // SAFETY: it is the system's, and as the caller guarantees.
            return unsafe { System.realloc(pointer, layout, size) };
        };
        if self.is_last(place, layout) && self.resize(place, size) {
            return pointer;
        }
        // SAFETY: the caller guarantees that the size is valid for the alignment.
        let new = unsafe {
            let layout = Layout::from_size_align_unchecked(size, layout.align());
            self.alloc(layout)
        };
        if !new.is_null() {
            // SAFETY: both are valid for the smaller of the sizes, and they do not overlap.
            unsafe {
                new.copy_from_nonoverlapping(pointer, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
        }
        new
    }
}

/// On other targets, policies have the allocator of their C library.
#[cfg(all(feature = "arena", target_arch = "wasm32", target_os = "unknown"))]
mod of_instance {
    use super::Arena;

    /// More than one decision allocates. With the stack and the constants of a built-in policy, it fits into the page that an instance begins with.
    const SIZE: usize = 16 << 10;

    /// Memory of the policy's own, which no other allocator knows: Rust's may use what the linker leaves over.
    static mut MEMORY: [u128; SIZE / 16] = [0; SIZE / 16];

    fn memory() -> (usize, usize) {
        let start = (&raw mut MEMORY).expose_provenance();
        (start, start + SIZE)
    }

    #[allow(
        unsafe_code,
        reason = "an allocator owns memory that Rust does not know of"
    )]
    #[global_allocator]
    // SAFETY: nothing else names this memory, and there are no threads.
    static ALLOCATOR: Arena = unsafe { Arena::new(memory) };
}

#[cfg(test)]
#[allow(unsafe_code, reason = "an allocator is unsafe")]
mod tests {
    use super::*;

    const SIZE: usize = 1024;

    /// Each test has a thread, and so a range of its own.
    fn range() -> (usize, usize) {
        thread_local! {
            static MEMORY: usize = Box::leak(Box::new([0_u128; SIZE / 16]))
                .as_mut_ptr()
                .expose_provenance();
        }
        let start = MEMORY.with(|start| *start);
        (start, start + SIZE)
    }

    fn arena() -> Arena {
        // SAFETY: the range belongs to the thread, which has one arena.
        unsafe { Arena::new(range) }
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// What a test has allocated, filled with a byte of its own.
    struct Held(*mut u8, Layout, u8);

    impl Held {
        fn filled(pointer: *mut u8, layout: Layout, byte: u8) -> Self {
            assert!(!pointer.is_null() && pointer.addr() % layout.align() == 0);
            // SAFETY: it was allocated with this layout.
            unsafe { pointer.write_bytes(byte, layout.size()) };
            Self(pointer, layout, byte)
        }

        fn bytes(&self) -> &[u8] {
            // SAFETY: it was allocated with this layout and filled.
            unsafe { std::slice::from_raw_parts(self.0, self.1.size()) }
        }
    }

    #[test]
    fn what_was_allocated_last_grows_where_it_is_and_is_given_away_again() {
        let arena = arena();
        let (start, _) = range();
        // SAFETY: sizes are not zero, and layouts are those of the allocations.
        unsafe {
            let first = arena.alloc(layout(3, 1));
            let second = arena.alloc(layout(8, 8));
            assert_eq!((first.addr(), second.addr()), (start, start + 8));
            assert_eq!(arena.realloc(second, layout(8, 8), 100), second);
            let moved = arena.realloc(first, layout(3, 1), 4);
            assert_eq!(moved.addr(), start + 108);
            arena.dealloc(moved, layout(4, 1));
            arena.dealloc(second, layout(100, 8));
            assert_eq!(arena.alloc(layout(1, 1)), second);
        }
    }

    #[test]
    fn what_does_not_fit_is_the_systems() {
        let arena = arena();
        let (start, end) = range();
        let is_inside = |pointer: *mut u8| (start..end).contains(&pointer.addr());
        // SAFETY: sizes are not zero, and layouts are those of the allocations.
        unsafe {
            let large = arena.alloc(layout(SIZE + 1, 1));
            assert!(!is_inside(large));
            arena.dealloc(large, layout(SIZE + 1, 1));
            let whole = arena.alloc(layout(SIZE, 16));
            assert_eq!(whole.addr(), start);
            let more = arena.alloc(layout(1, 1));
            assert!(!is_inside(more));
            arena.dealloc(more, layout(1, 1));
            let moved = arena.realloc(whole, layout(SIZE, 16), SIZE + 16);
            assert!(!is_inside(moved));
            arena.dealloc(moved, layout(SIZE + 16, 16));
            assert!(is_inside(arena.alloc(layout(SIZE, 1))));
        }
    }

    #[test]
    fn no_allocation_changes_another_one() {
        let arena = arena();
        let mut held: Vec<Held> = Vec::new();
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for step in 0..20_000 {
            let byte = u8::try_from(step % 251).unwrap();
            // SAFETY: sizes are not zero, and layouts are those of the allocations.
            unsafe {
                match next(3) {
                    0 if held.len() < 20 => {
                        let layout = layout(1 + next(200), 1 << next(5));
                        held.push(Held::filled(arena.alloc(layout), layout, byte));
                    }
                    1 if !held.is_empty() => {
                        let Held(pointer, old, was) = held.swap_remove(next(held.len()));
                        let size = 1 + next(300);
                        let new = arena.realloc(pointer, old, size);
                        let kept = std::slice::from_raw_parts(new, old.size().min(size));
                        assert!(kept.iter().all(|it| *it == was));
                        held.push(Held::filled(new, layout(size, old.align()), byte));
                    }
                    _ => {
                        if let Some(Held(pointer, layout, _)) = held.pop() {
                            arena.dealloc(pointer, layout);
                        }
                    }
                }
            }
            for one in &held {
                assert!(one.bytes().iter().all(|it| *it == one.2), "step {step}");
            }
        }
    }
}
