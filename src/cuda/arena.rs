//! Device memory: planned first, allocated in one piece, handed out as typed buffers.
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::element::{DevicePtr, Element};
use super::error::GpuError;
use super::memory::Allocation;
use super::stream::Stream;

/// Where each buffer starts: enough for every vector load and for whole cache lines.
pub const ALIGNMENT: usize = 256;

/// The plan of an arena: which buffers there will be. Costs nothing and needs no GPU, so that
/// memory can be stated and checked before start.
#[derive(Debug)]
pub struct ArenaLayout {
    id: u64,
    entries: Vec<Entry>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    offset: usize,
    bytes: usize,
}

/// A buffer to come: exchanged for a [`DeviceBuffer`] once there is an [`Arena`].
#[derive(Debug)]
pub struct Slot<T> {
    layout: u64,
    index: usize,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Slot<T> {}

impl Default for ArenaLayout {
    fn default() -> Self {
        Self::new()
    }
}

impl ArenaLayout {
    /// An empty plan.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// Plans a buffer of `len` elements. The name shows in the memory table.
    pub fn reserve<T: Element>(&mut self, name: impl Into<String>, len: usize) -> Slot<T> {
        // What does not fit into an address is far over every limit; Arena::new refuses it.
        let bytes = len.saturating_mul(size_of::<T>());
        let end = self
            .bytes
            .saturating_add(bytes)
            .checked_next_multiple_of(ALIGNMENT);
        self.entries.push(Entry {
            name: name.into(),
            offset: self.bytes,
            bytes,
        });
        self.bytes = end.unwrap_or(usize::MAX);
        Slot {
            layout: self.id,
            index: self.entries.len() - 1,
            len,
            of: PhantomData,
        }
    }

    /// Bytes of the whole, with the gaps between buffers.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Each buffer's name and bytes.
    pub fn table(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries
            .iter()
            .map(|e| (e.name.as_str(), e.bytes as u64))
    }
}

/// One block of device memory that holds every buffer of a layout. Not initialised.
pub struct Arena {
    layout: ArenaLayout,
    block: Rc<Allocation>,
}

impl Arena {
    /// Allocates the block.
    ///
    /// # Errors
    /// [`GpuError::Limit`] over the context's limit; from the driver, where the device has less.
    pub fn new(context: &Context, name: &str, layout: ArenaLayout) -> Result<Self, GpuError> {
        let block = Allocation::device(context, name, layout.bytes)?;
        Ok(Self { layout, block })
    }

    /// The buffer of a slot. Asked twice, it is the same memory.
    ///
    /// # Errors
    /// [`GpuError::NoSuchName`] for a slot of another layout.
    pub fn buffer<T: Element>(&self, slot: Slot<T>) -> Result<DeviceBuffer<T>, GpuError> {
        let entry = self
            .layout
            .entries
            .get(slot.index)
            .filter(|_| slot.layout == self.layout.id);
        let entry = entry.ok_or(GpuError::NoSuchName {
            what: "slot",
            name: slot.index.to_string(),
        })?;
        let address = self.block.base() + entry.offset as u64;
        Ok(DeviceBuffer::new(self.block.clone(), address, slot.len))
    }

    /// What was planned.
    pub fn layout(&self) -> &ArenaLayout {
        &self.layout
    }

    /// Sets every byte of the block, asynchronously.
    ///
    /// # Errors
    /// From the driver.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<(), GpuError> {
        stream.fill(
            &DeviceBuffer::new(self.block.clone(), self.block.base(), self.layout.bytes),
            byte,
        )
    }
}

/// `len` elements in device memory. A clone or slice is the same memory; the memory stays as
/// long as any of them, or a graph that uses it. What is in it, and in which order device work
/// changes it, is the streams' matter.
pub struct DeviceBuffer<T> {
    block: Rc<Allocation>,
    address: u64,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DeviceBuffer<T> {
    fn clone(&self) -> Self {
        Self {
            block: self.block.clone(),
            address: self.address,
            len: self.len,
            of: PhantomData,
        }
    }
}

impl<T: Element> DeviceBuffer<T> {
    pub(super) fn new(block: Rc<Allocation>, address: u64, len: usize) -> Self {
        Self {
            block,
            address,
            len,
            of: PhantomData,
        }
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

    /// What a kernel takes.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::new(self.address)
    }

    /// A part of it, by elements.
    ///
    /// # Errors
    /// [`GpuError::Size`] past the end.
    pub fn slice(&self, range: Range<usize>) -> Result<Self, GpuError> {
        check_range("slice of a device buffer, elements", &range, self.len)?;
        let address = self.address + (range.start * size_of::<T>()) as u64;
        Ok(Self {
            block: self.block.clone(),
            address,
            len: range.len(),
            of: PhantomData,
        })
    }

    /// The same bytes as other elements: for scratch memory that stages use one after the other.
    ///
    /// # Errors
    /// [`GpuError::Size`] when the bytes are no whole number of them, or not aligned.
    pub fn view<U: Element>(&self) -> Result<DeviceBuffer<U>, GpuError> {
        for (what, number, divisor) in [
            (
                "view of a device buffer: bytes, a multiple of",
                self.bytes() as u64,
                size_of::<U>(),
            ),
            (
                "view of a device buffer: address, a multiple of",
                self.address,
                align_of::<U>(),
            ),
        ] {
            if number % divisor.max(1) as u64 != 0 {
                return Err(GpuError::Size {
                    what,
                    found: number,
                    expected: divisor as u64,
                });
            }
        }
        Ok(DeviceBuffer::new(
            self.block.clone(),
            self.address,
            self.bytes() / size_of::<U>().max(1),
        ))
    }

    pub(super) fn block(&self) -> &Rc<Allocation> {
        &self.block
    }
}

pub(super) fn check_range(
    what: &'static str,
    range: &Range<usize>,
    len: usize,
) -> Result<(), GpuError> {
    if range.start <= range.end && range.end <= len {
        return Ok(());
    }
    let found = range.start.max(range.end) as u64;
    Err(GpuError::Size {
        what,
        found,
        expected: len as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_counted() {
        let mut layout = ArenaLayout::new();
        assert_eq!(layout.bytes(), 0);
        layout.reserve::<u8>("a", 1);
        layout.reserve::<u32>("b", 65);
        layout.reserve::<f64>("c", 0);
        assert_eq!(layout.bytes(), 256 + 512);
        assert_eq!(
            layout.table().collect::<Vec<_>>(),
            [("a", 1), ("b", 260), ("c", 0)]
        );
        assert_eq!(
            layout.entries.iter().map(|e| e.offset).collect::<Vec<_>>(),
            [0, 256, 768]
        );
    }

    #[test]
    fn sizes_past_the_address_space_saturate() {
        let mut layout = ArenaLayout::new();
        layout.reserve::<u64>("a", usize::MAX / 4);
        layout.reserve::<u8>("b", 5);
        assert_eq!(layout.bytes(), u64::MAX);
    }
}
