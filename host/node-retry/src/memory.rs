//! The allocator of the module: small, since the module is downloaded. Freed blocks are used again for others of their size, which is a power of two; none is split or joined, as suits short texts.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// The smallest block, which has room for the address of the next free one.
const SMALLEST: usize = 16;

/// Blocks of up to 2^31 bytes.
const SIZES: usize = 32;

const PAGE: usize = 64 << 10;

struct Blocks(UnsafeCell<State>);

struct State {
    /// The first free block of each size.
    free: [*mut u8; SIZES],
    /// What is left of the memory that was added last.
    next: usize,
    end: usize,
}

// SAFETY: a module without threads.
unsafe impl Sync for Blocks {}

#[global_allocator]
static BLOCKS: Blocks = Blocks(UnsafeCell::new(State {
    free: [null_mut(); SIZES],
    next: 0,
    end: 0,
}));

fn size_of(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    size.checked_next_power_of_two().unwrap_or(usize::MAX)
}

// SAFETY: a block is as large as its layout, aligned to its size, and given out once until it is freed.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = size_of(layout);
        let index = size.trailing_zeros() as usize;
        // SAFETY: nobody else runs.
        let state = unsafe { &mut *self.0.get() };
        let Some(free) = state.free.get_mut(index) else {
            return null_mut();
        };
        if !free.is_null() {
            let block = *free;
            // SAFETY: a free block begins with the address of the next one.
            *free = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        let start = state.next.next_multiple_of(size);
        if start.saturating_add(size) > state.end {
            let pages = size.div_ceil(PAGE);
            let before = core::arch::wasm32::memory_grow::<0>(pages);
            if before == usize::MAX {
                return null_mut();
            }
            let start = before * PAGE;
            // What follows the last memory goes on with it.
            if start != state.end {
                state.next = start;
            }
            state.end = start + pages * PAGE;
            // SAFETY: there is more room now, or none at all.
            return unsafe { self.alloc(layout) };
        }
        state.next = start + size;
        start as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let index = size_of(layout).trailing_zeros() as usize;
        // SAFETY: nobody else runs.
        let state = unsafe { &mut *self.0.get() };
        if let Some(free) = state.free.get_mut(index) {
            // SAFETY: the block is no longer used, and has room for an address.
            unsafe { block.cast::<*mut u8>().write(*free) };
            *free = block;
        }
    }
}
