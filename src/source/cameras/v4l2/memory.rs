//! Memory that a driver writes to.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
};

use rustix::io::Errno;
use v4l::v4l2;

use crate::source::cameras::QueueError;

/// A block of memory that a driver may write to.
///
/// # Safety
/// `len` bytes from `address` on are initialised, may be read and written by whoever has the block,
/// stay where they are as long as the block lives, and belong to nobody else.
pub unsafe trait Block: Send + fmt::Debug {
    /// Where it begins; for [`MemoryChoice::Userptr`](crate::source::cameras::MemoryChoice) at a
    /// page.
    fn address(&self) -> NonNull<u8>;

    /// Bytes.
    fn len(&self) -> usize;

    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Gives blocks for [`MemoryChoice::Userptr`](crate::source::cameras::MemoryChoice): page-locked
/// memory of the GPU, say, so that frames need no copy on their way there.
pub trait Allocate: Send + Sync + fmt::Debug {
    /// A block of at least so many bytes, at the start of a page; `None` when there is no memory.
    fn allocate(&self, bytes: usize) -> Option<Box<dyn Block>>;
}

/// Pages of the program's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages;

/// The largest page of the machines that this runs on.
const PAGE: usize = 1 << 16;

impl Allocate for Pages {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn Block>> {
        let layout = Layout::from_size_align(bytes.max(1), PAGE)
            .ok()?
            .pad_to_align();
        // SAFETY: the layout is not of size 0.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Box::new(Page { address, layout }))
    }
}

#[derive(Debug)]
struct Page {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to the value alone, whichever thread has it.
unsafe impl Send for Page {}

// SAFETY: `alloc_zeroed` gave so many bytes, freed in `drop`.
unsafe impl Block for Page {
    fn address(&self) -> NonNull<u8> {
        self.address
    }

    fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed` with this layout, freed once.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

/// A buffer of the driver's, mapped.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: as for `Page`; a mapping is the process's, not a thread's.
unsafe impl Send for Mapping {}

// SAFETY: `mmap` gave so many bytes, unmapped in `drop`. The driver writes to them only between
// QBUF and DQBUF, when the queue lends nobody the block.
unsafe impl Block for Mapping {
    fn address(&self) -> NonNull<u8> {
        self.address
    }

    fn len(&self) -> usize {
        self.bytes
    }
}

const PROT_READ: i32 = 1;
const PROT_WRITE: i32 = 2;
const MAP_SHARED: i32 = 1;

impl Mapping {
    /// Maps a buffer of a device.
    pub fn new(fd: BorrowedFd<'_>, offset: u32, bytes: usize) -> Result<Self, QueueError> {
        let none = std::ptr::null_mut();
        let (protection, fd) = (PROT_READ | PROT_WRITE, fd.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe {
            v4l2::mmap(
                none,
                bytes,
                protection,
                MAP_SHARED,
                fd,
                i64::from(offset) as _,
            )
        };
        let failed = |errno| QueueError::Os {
            call: "mmap",
            errno,
        };
        let address =
            mapped.map_err(|e| failed(Errno::from_raw_os_error(e.raw_os_error().unwrap_or(0))))?;
        let address = NonNull::new(address.cast()).ok_or(failed(Errno::INVAL))?;
        Ok(Self { address, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once. Nothing can be done where it fails.
        if let Err(e) = unsafe { v4l2::munmap(self.address.as_ptr().cast(), self.bytes) } {
            log::debug!("munmap: {e}");
        }
    }
}

/// So many bytes of a block from `offset` on, as far as it goes.
///
/// # Safety
/// Nobody writes to the block as long as the bytes are borrowed.
pub unsafe fn bytes(block: &dyn Block, offset: usize, length: usize) -> &[u8] {
    let offset = offset.min(block.len());
    let length = length.min(block.len() - offset);
    // SAFETY: within the block, which is initialised and lives as long as the borrow; the caller
    // keeps writers away.
    unsafe { std::slice::from_raw_parts(block.address().as_ptr().add(offset), length) }
}
