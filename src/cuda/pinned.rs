//! Page-locked host memory: what the GPU copies from and to, or reads in place.
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;

use super::arena::check_range;
use super::context::Context;
use super::element::{DevicePtr, Element};
use super::error::GpuError;
use super::memory::Allocation;

/// `len` elements of page-locked host memory, mapped for the device, zero at first. The host
/// gets at them through [`read`](Self::read) and [`write`](Self::write), which refuse while
/// device work that was given the buffer is not known to be done (by
/// [`Stream::synchronize`](super::Stream::synchronize), or an event behind that work). A clone
/// or slice is the same memory, and is in use when any of them is.
///
/// On a Jetson the CPU caches this memory and the GPU does not: a kernel should read a mapped
/// image from it once.
pub struct Pinned<T> {
    block: Rc<Allocation>,
    offset: usize,
    len: usize,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Pinned<T> {
    fn clone(&self) -> Self {
        Self {
            block: self.block.clone(),
            offset: self.offset,
            len: self.len,
            of: PhantomData,
        }
    }
}

impl<T: Element> Pinned<T> {
    /// Allocates; the name shows in errors.
    ///
    /// # Errors
    /// [`GpuError::Limit`] over the context's limit; from the driver.
    pub fn new(context: &Context, name: &str, len: usize) -> Result<Self, GpuError> {
        let block = Allocation::pinned(context, name, len.saturating_mul(size_of::<T>()))?;
        Ok(Self {
            block,
            offset: 0,
            len,
            of: PhantomData,
        })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// A part of it, by elements.
    ///
    /// # Errors
    /// [`GpuError::Size`] past the end.
    pub fn slice(&self, range: Range<usize>) -> Result<Self, GpuError> {
        check_range("slice of a page-locked buffer, elements", &range, self.len)?;
        let offset = self.offset + range.start * size_of::<T>();
        Ok(Self {
            block: self.block.clone(),
            offset,
            len: range.len(),
            of: PhantomData,
        })
    }

    /// The device's address of the buffer itself, for kernels that read or write it in place
    /// (any kernel given it counts as writing).
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::new(self.block.base() + self.offset as u64)
    }

    /// The elements, to read.
    ///
    /// # Errors
    /// [`GpuError::Busy`] while device work writes them or a host writer is alive.
    pub fn read(&self) -> Result<PinnedRef<'_, T>, GpuError> {
        self.block.lock_shared()?;
        Ok(PinnedRef { buffer: self })
    }

    /// The elements, to write.
    ///
    /// # Errors
    /// [`GpuError::Busy`] while device work or the host uses them.
    pub fn write(&self) -> Result<PinnedMut<'_, T>, GpuError> {
        self.block.lock_exclusive()?;
        Ok(PinnedMut { buffer: self })
    }

    /// The same bytes as other elements, as [`DeviceBuffer::view`](super::DeviceBuffer::view).
    ///
    /// # Errors
    /// [`GpuError::Size`] when the bytes are no whole number of them, or not aligned.
    pub fn view<U: Element>(&self) -> Result<Pinned<U>, GpuError> {
        for (what, number, divisor) in [
            (
                "view of a page-locked buffer: bytes, a multiple of",
                self.bytes(),
                size_of::<U>(),
            ),
            (
                "view of a page-locked buffer: offset, a multiple of",
                // The block itself begins with a page.
                self.offset,
                align_of::<U>(),
            ),
        ] {
            if number % divisor.max(1) != 0 {
                return Err(GpuError::Size {
                    what,
                    found: number as u64,
                    expected: divisor as u64,
                });
            }
        }
        Ok(Pinned {
            block: self.block.clone(),
            offset: self.offset,
            len: self.bytes() / size_of::<U>().max(1),
            of: PhantomData,
        })
    }

    pub(super) fn block(&self) -> &Rc<Allocation> {
        &self.block
    }

    /// The host's address; null is not possible for what [`Pinned::new`] made.
    pub(super) fn host(&self) -> *mut T {
        let base = self
            .block
            .host()
            .map_or(std::ptr::null_mut(), |h| h.as_ptr());
        base.wrapping_add(self.offset).cast()
    }
}

/// Read access of the host; the device can read besides.
pub struct PinnedRef<'a, T: Element> {
    buffer: &'a Pinned<T>,
}

impl<T: Element> Deref for PinnedRef<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements from this address on are inside the block, which lives as long
        // as the buffer; they are aligned (blocks by page, slices by element), initialised
        // (zeroed, then any bits), and nobody writes them while the shared lock is held.
        unsafe { std::slice::from_raw_parts(self.buffer.host(), self.buffer.len) }
    }
}

impl<T: Element> Drop for PinnedRef<'_, T> {
    fn drop(&mut self) {
        self.buffer.block.unlock_shared();
    }
}

/// Write access of the host, alone.
pub struct PinnedMut<'a, T: Element> {
    buffer: &'a Pinned<T>,
}

impl<T: Element> Deref for PinnedMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as in PinnedRef; the exclusive lock keeps all others out.
        unsafe { std::slice::from_raw_parts(self.buffer.host(), self.buffer.len) }
    }
}

impl<T: Element> DerefMut for PinnedMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in PinnedRef; the exclusive lock keeps all others out.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.host(), self.buffer.len) }
    }
}

impl<T: Element> Drop for PinnedMut<'_, T> {
    fn drop(&mut self) {
        self.buffer.block.unlock_exclusive();
    }
}
