//! V4L2 devices: memory-mapped and user-pointer streaming, single- and multi-planar.
//!
//! Only an index that was dequeued is ever given back, buffers are lent out only while they are
//! the program's, and nothing panics when a device goes away. `v4l` is asleep; of it only the
//! ioctl layer and the kernel's structures are used, in `sys` and `memory`, which have all the
//! unsafe code there is.
//!
//! # User pointers
//! With `memory = "userptr"` the driver writes to blocks of an [`Allocate`], the program's own pages
//! without. Where the driver refuses them, its own buffers are mapped instead, and that is said.
//! [`Device::with_memory`] takes another allocator. A frame is converted out of the block before
//! the driver has it back, so the block is not lent to the GPU yet.
mod controls;
mod memory;
mod sys;

pub use memory::{Allocate, Block, Pages};
#[cfg(target_arch = "aarch64")]
pub use sys::counter_ns;

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use memory::Mapping;
use sys::{Memory, Planes};

use super::{
    Buffer, CameraConfig, CamerasConfig, MemoryChoice, Negotiated, PixelFormat, Queue, QueueError,
    Ready,
    listing::{Listed, Offer, names_of},
};

/// A V4L2 capture device.
#[derive(Debug)]
pub struct Device {
    camera: CameraConfig,
    rate_hz: f64,
    wanted: u32,
    allocate: Arc<dyn Allocate>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    planes: Planes,
    memory: Memory,
    blocks: Vec<Box<dyn Block>>,
    /// Which buffers are the program's, a bit each.
    ours: u64,
    /// Where the data of the last dequeued buffer begins.
    offset: usize,
}

impl Device {
    /// The device of a camera; not open yet.
    pub fn new(config: &CamerasConfig, camera: &CameraConfig) -> Self {
        Self::with_memory(config, camera, Arc::new(Pages))
    }

    /// The same with blocks of `allocate` for `memory = "userptr"`.
    pub fn with_memory(
        config: &CamerasConfig,
        camera: &CameraConfig,
        allocate: Arc<dyn Allocate>,
    ) -> Self {
        Self {
            camera: camera.clone(),
            rate_hz: config.rate_hz,
            wanted: config.buffers,
            allocate,
            open: None,
        }
    }

    fn opened(&mut self) -> Result<&mut Open, QueueError> {
        self.open
            .as_mut()
            .ok_or(QueueError::Protocol("a call on a closed device"))
    }

    fn negotiate(&self) -> Result<(Open, Negotiated), QueueError> {
        let unusable = QueueError::Unusable;
        let fd = sys::open(&self.camera.device)?;
        let capabilities = match sys::capabilities(sys::borrow(&fd)) {
            Err(QueueError::Os { errno, .. }) if errno == rustix::io::Errno::NOTTY => {
                return Err(unusable("no V4L2 device".into()));
            }
            other => other?,
        };
        let planes = capabilities
            .planes
            .ok_or_else(|| unusable(format!("{} can't capture by streaming", capabilities.name)))?;
        let camera = &self.camera;
        let (width, height) = (camera.width as u32, camera.height as u32);
        let borrowed = sys::borrow(&fd);
        let code = camera.format.fourcc();
        let got = sys::set_format(borrowed, planes, code, (width, height))?;
        if got.code != code {
            let offered = sys::formats(borrowed, planes);
            return Err(unusable(format!(
                "format {} is not offered; there are {}",
                camera.format,
                in_words(&offered)
            )));
        }
        if (got.width, got.height) != (width, height) {
            return Err(unusable(format!(
                "{width}x{height} is not offered; nearest to it is {}x{}",
                got.width, got.height
            )));
        }
        if !got.progressive {
            return Err(unusable("interlaced pictures".into()));
        }
        if got.planes != 1 {
            return Err(unusable(format!(
                "pictures of {} planes, expected 1",
                got.planes
            )));
        }
        let mut differences = Vec::new();
        if got.full_range && camera.in_colour_or_yuv() {
            differences.push(
                "the driver says that its luma uses all of 0-255; it is converted as 16-235"
                    .to_owned(),
            );
        }
        let stride = match got.stride as usize {
            0 => camera.format.row_bytes(camera.width),
            stride => stride,
        };
        let needed = camera
            .format
            .picture_bytes(camera.width, camera.height, stride);
        if (got.bytes as usize) < needed {
            return Err(unusable(format!(
                "pictures of {} bytes, expected {needed}",
                got.bytes
            )));
        }
        let rate_hz = match sys::set_rate(borrowed, planes, self.rate_hz) {
            Ok(rate) => rate,
            Err(error) if error.is_gone() && !is_no_such_call(&error) => return Err(error),
            Err(_) => None,
        };
        match rate_hz {
            None => differences.push(format!(
                "rate_hz: {} was asked for, the driver does not say what it does",
                self.rate_hz
            )),
            Some(rate) if (rate - self.rate_hz).abs() > self.rate_hz / 100.0 => {
                differences.push(format!(
                    "rate_hz: {} was asked for, the driver made it {rate}",
                    self.rate_hz
                ));
            }
            Some(_) => {}
        }
        differences.extend(controls::apply(borrowed, camera)?);
        let (memory, blocks) = self.buffers(borrowed, planes, got.bytes, &mut differences)?;
        let kind = match (memory, planes) {
            (Memory::Mmap, Planes::Single) => "mapped",
            (Memory::Mmap, Planes::Multi) => "mapped, multi-planar",
            (Memory::Userptr, Planes::Single) => "user pointers",
            (Memory::Userptr, Planes::Multi) => "user pointers, multi-planar",
        };
        let negotiated = Negotiated {
            format: camera.format,
            width: camera.width,
            height: camera.height,
            stride,
            rate_hz,
            buffers: blocks.len(),
            device: format!("{}, {kind}", capabilities.name),
            differences,
        };
        let open = Open {
            fd,
            planes,
            memory,
            ours: mask(blocks.len()),
            blocks,
            offset: 0,
        };
        Ok((open, negotiated))
    }

    /// Takes buffers.
    fn buffers(
        &self,
        fd: BorrowedFd<'_>,
        planes: Planes,
        bytes: u32,
        differences: &mut Vec<String>,
    ) -> Result<(Memory, Vec<Box<dyn Block>>), QueueError> {
        let enough = |count: u32| {
            if (2..=64).contains(&count) {
                return Ok(count);
            }
            let text = format!("{count} buffers from the driver, expected 2 to 64");
            Err(QueueError::Unusable(text))
        };
        if self.camera.memory == MemoryChoice::Userptr {
            match sys::request_buffers(fd, planes, Memory::Userptr, self.wanted) {
                Ok(count) => {
                    let blocks: Option<Vec<_>> = (0..enough(count)?)
                        .map(|_| self.allocate.allocate(bytes as usize))
                        .collect();
                    let blocks = blocks
                        .ok_or_else(|| QueueError::Unusable("no memory for its pictures".into()))?;
                    return Ok((Memory::Userptr, blocks));
                }
                Err(error) if error.is_gone() => return Err(error),
                Err(error) => {
                    differences.push(format!("memory: user pointers are refused ({error})"));
                }
            }
        }
        let count = enough(sys::request_buffers(fd, planes, Memory::Mmap, self.wanted)?)?;
        let mut blocks: Vec<Box<dyn Block>> = Vec::new();
        for index in 0..count {
            let (offset, length) = sys::query_buffer(fd, planes, index)?;
            blocks.push(Box::new(Mapping::new(fd, offset, length)?));
        }
        Ok((Memory::Mmap, blocks))
    }
}

impl CameraConfig {
    fn in_colour_or_yuv(&self) -> bool {
        self.format.has_colour() && self.format.bayer().is_none()
    }
}

fn is_no_such_call(error: &QueueError) -> bool {
    matches!(
        error,
        QueueError::Os {
            errno: rustix::io::Errno::NOTTY,
            ..
        }
    )
}

/// The lowest `count` bits.
fn mask(count: usize) -> u64 {
    u64::MAX.checked_shr(64 - count.min(64) as u32).unwrap_or(0)
}

fn in_words(codes: &[[u8; 4]]) -> String {
    let name = |code: &[u8; 4]| match PixelFormat::of_fourcc(*code) {
        Some(format) => format.name().to_owned(),
        None => String::from_utf8_lossy(code).into_owned(),
    };
    let names: Vec<String> = codes.iter().map(name).collect();
    names.join(", ")
}

impl Open {
    fn fd(&self) -> BorrowedFd<'_> {
        sys::borrow(&self.fd)
    }

    /// Gives a buffer to the kernel.
    #[allow(unsafe_code)]
    fn give(&mut self, index: usize) -> Result<(), QueueError> {
        let bit = 1u64.checked_shl(index as u32).unwrap_or(0);
        let (true, Some(block)) = (self.ours & bit != 0, self.blocks.get(index)) else {
            return Err(QueueError::Protocol("a buffer given back that is not ours"));
        };
        // SAFETY: the block stays in `blocks` until the device is closed, after streaming was
        // stopped; it is read only while its bit is in `ours`.
        unsafe {
            sys::queue_buffer(self.fd(), self.planes, self.memory, index as u32, &**block)?;
        }
        self.ours &= !bit;
        Ok(())
    }
}

impl Queue for Device {
    fn open(&mut self) -> Result<Negotiated, QueueError> {
        if self.open.is_some() {
            return Err(QueueError::Protocol("opened twice"));
        }
        let (open, negotiated) = self.negotiate()?;
        self.open = Some(open);
        Ok(negotiated)
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        // The kernel gives the buffers up before they are unmapped or freed, and at the latest
        // when the last descriptor is closed: the order in which a struct is dropped is not relied
        // upon.
        let stopped = sys::stream(open.fd(), open.planes, false);
        let Open {
            fd,
            blocks,
            planes,
            memory,
            ..
        } = open;
        if memory == Memory::Mmap {
            drop(blocks);
            let _ = sys::request_buffers(sys::borrow(&fd), planes, memory, 0);
            drop(fd);
        } else {
            let _ = sys::request_buffers(sys::borrow(&fd), planes, memory, 0);
            drop(fd);
            drop(blocks);
        }
        if let Err(error) = stopped {
            log::debug!("{}: {error}", self.camera.device.display());
        }
    }

    fn start(&mut self) -> Result<(), QueueError> {
        let open = self.opened()?;
        for index in 0..open.blocks.len() {
            open.give(index)?;
        }
        sys::stream(open.fd(), open.planes, true)
    }

    fn stop(&mut self) -> Result<(), QueueError> {
        let open = self.opened()?;
        sys::stream(open.fd(), open.planes, false)?;
        open.ours = mask(open.blocks.len());
        Ok(())
    }

    fn poll(&mut self, wait_ns: u64) -> Result<Ready, QueueError> {
        sys::wait(self.opened()?.fd(), wait_ns)
    }

    fn dequeue(&mut self) -> Result<Buffer, QueueError> {
        let open = self.opened()?;
        let (buffer, offset) = sys::dequeue_buffer(open.fd(), open.planes, open.memory)?;
        if buffer.index >= open.blocks.len() {
            return Err(QueueError::Protocol(
                "a buffer from the driver that there is not",
            ));
        }
        open.ours |= 1 << buffer.index;
        open.offset = offset;
        Ok(buffer)
    }

    #[allow(unsafe_code)]
    fn bytes(&self, buffer: &Buffer) -> &[u8] {
        let Some(open) = &self.open else { return &[] };
        let ours = open.ours.checked_shr(buffer.index as u32).unwrap_or(0) & 1 == 1;
        match open.blocks.get(buffer.index) {
            // SAFETY: the buffer was dequeued and not given back: the driver does not write to it,
            // and giving it back takes the device by a mutable borrow.
            Some(block) if ours => unsafe {
                memory::bytes(&**block, open.offset, buffer.bytes_used)
            },
            _ => &[],
        }
    }

    fn requeue(&mut self, index: usize) -> Result<(), QueueError> {
        self.opened()?.give(index)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sets a control of a device by its name: for tools and tests.
///
/// # Errors
/// When there is no such device or control, or the value is refused.
pub fn set_control(device: &std::path::Path, name: &str, value: i64) -> Result<(), QueueError> {
    let fd = sys::open(device)?;
    let fd = sys::borrow(&fd);
    let controls = sys::controls(fd);
    let control = controls.iter().find(|c| c.name == name);
    let control = control.ok_or_else(|| QueueError::Unusable(format!("no control {name:?}")))?;
    sys::set_control(fd, control, value)
}

/// The capture devices of this machine, by node.
pub fn list() -> Vec<Listed> {
    let entries = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        paths.sort();
        paths
    };
    let links: Vec<(PathBuf, PathBuf)> = ["/dev/v4l/by-path", "/dev/v4l/by-id"]
        .into_iter()
        .flat_map(entries)
        .filter_map(|link| Some((std::fs::canonicalize(&link).ok()?, link)))
        .collect();
    let nodes = entries("/dev");
    let nodes = nodes.into_iter().filter(|node| {
        let name = node.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.starts_with("video"))
    });
    let mut all = Vec::new();
    for node in nodes {
        let described = sys::open(&node)
            .and_then(|fd| sys::capabilities(sys::borrow(&fd)).map(|caps| (fd, caps)));
        let mut listed = Listed {
            names: names_of(&node, &links),
            node,
            ..Listed::default()
        };
        match described {
            Ok((fd, capabilities)) => {
                let Some(planes) = capabilities.planes else {
                    continue;
                };
                let fd = sys::borrow(&fd);
                let formats = sys::formats(fd, planes);
                listed.description = capabilities.name;
                listed.formats = in_words(&formats);
                let offer = |code: [u8; 4]| Offer {
                    code,
                    sizes: sys::sizes(fd, code),
                };
                listed.offers = Some(formats.into_iter().map(offer).collect());
            }
            Err(error) => listed.description = error.to_string(),
        }
        all.push(listed);
    }
    all
}
