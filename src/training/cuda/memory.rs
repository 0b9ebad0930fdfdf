//! Device memory that grows with need, and its twin on the host.
use crate::cuda::{Arena, ArenaLayout, Context, DeviceBuffer, Element, GpuError, Pinned, Stream};

/// A buffer of its own.
pub fn buffer<T: Element>(
    context: &Context,
    name: &'static str,
    n: usize,
) -> Result<DeviceBuffer<T>, GpuError> {
    let mut layout = ArenaLayout::new();
    let slot = layout.reserve::<T>(name, n.max(1));
    Arena::new(context, name, layout)?.buffer(slot)
}

/// Device memory that is taken anew, half as much again, when there is too little. What was in it
/// is lost then.
pub struct Room<T> {
    name: &'static str,
    buffer: Option<DeviceBuffer<T>>,
}

impl<T: Element> Room<T> {
    pub fn new(name: &'static str) -> Self {
        Self { name, buffer: None }
    }

    /// Gives the memory back.
    pub fn release(&mut self) {
        self.buffer = None;
    }

    /// `n` elements of it, with none in reserve where it has to be taken anew.
    pub fn exactly(&mut self, context: &Context, n: usize) -> Result<DeviceBuffer<T>, GpuError> {
        if self.buffer.as_ref().is_none_or(|b| b.len() < n) {
            self.buffer = None;
            self.buffer = Some(buffer(context, self.name, n)?);
        }
        self.get(context, n)
    }

    /// `n` elements of it.
    pub fn get(&mut self, context: &Context, n: usize) -> Result<DeviceBuffer<T>, GpuError> {
        if self.buffer.as_ref().is_none_or(|b| b.len() < n) {
            self.buffer = None;
            self.buffer = Some(buffer(context, self.name, n + n / 2)?);
        }
        match &self.buffer {
            Some(buffer) => buffer.slice(0..n),
            None => buffer(context, self.name, n),
        }
    }
}

/// Device memory with page-locked memory of the same length.
pub struct Pair<T> {
    name: &'static str,
    room: Room<T>,
    host: Option<Pinned<T>>,
}

impl<T: Element> Pair<T> {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            room: Room::new(name),
            host: None,
        }
    }

    /// `n` elements on the host.
    pub fn host(&mut self, context: &Context, n: usize) -> Result<Pinned<T>, GpuError> {
        if self.host.as_ref().is_none_or(|p| p.len() < n) {
            self.host = None;
            self.host = Some(Pinned::new(context, self.name, (n + n / 2).max(1))?);
        }
        match &self.host {
            Some(host) => host.slice(0..n),
            None => Pinned::new(context, self.name, n),
        }
    }

    /// Brings a list to the device. What was brought before must be known to be there.
    pub fn load(&mut self, stream: &Stream, list: &[T]) -> Result<DeviceBuffer<T>, GpuError> {
        let context = stream.context().clone();
        let host = self.host(&context, list.len())?;
        host.write()?.copy_from_slice(list);
        let device = self.room.get(&context, list.len())?;
        stream.copy_to_device(&host, &device)?;
        Ok(device)
    }

    /// What was brought last, `n` elements.
    pub fn there(&mut self, context: &Context, n: usize) -> Result<DeviceBuffer<T>, GpuError> {
        self.room.get(context, n)
    }

    /// Brings a list back, where it is once the stream is done.
    pub fn fetch(
        &mut self,
        stream: &Stream,
        from: &DeviceBuffer<T>,
    ) -> Result<Pinned<T>, GpuError> {
        let host = self.host(&stream.context().clone(), from.len())?;
        stream.copy_to_host(from, &host)?;
        Ok(host)
    }
}
