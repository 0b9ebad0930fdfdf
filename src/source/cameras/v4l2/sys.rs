//! The calls of V4L2, each as a safe function: `v4l`'s ioctl layer and structures alone. Its
//! streams and devices are not used: they give buffers back that are the kernel's, and panic when
//! they are dropped.
#![allow(unsafe_code)]

use std::{
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    os::raw::c_void,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use v4l::{
    v4l_sys::{
        V4L2_BUF_FLAG_ERROR, V4L2_BUF_FLAG_TIMESTAMP_COPY, V4L2_BUF_FLAG_TIMESTAMP_MASK,
        V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC, V4L2_BUF_FLAG_TSTAMP_SRC_MASK,
        V4L2_BUF_FLAG_TSTAMP_SRC_SOE, V4L2_CAP_DEVICE_CAPS, V4L2_CAP_STREAMING,
        V4L2_CAP_VIDEO_CAPTURE, V4L2_CAP_VIDEO_CAPTURE_MPLANE,
        v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE,
        v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE, v4l2_buffer, v4l2_capability,
        v4l2_ext_control, v4l2_ext_controls, v4l2_field_V4L2_FIELD_NONE, v4l2_fmtdesc, v4l2_format,
        v4l2_fract, v4l2_frmivalenum, v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE,
        v4l2_frmsizeenum, v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE,
        v4l2_memory_V4L2_MEMORY_MMAP, v4l2_memory_V4L2_MEMORY_USERPTR, v4l2_plane,
        v4l2_query_ext_ctrl, v4l2_requestbuffers, v4l2_streamparm,
    },
    v4l2::{self, vidioc},
};

use super::memory::Block;
use crate::source::cameras::{
    Buffer, QueueError, Ready, StampFlag,
    listing::{Rates, Sizes},
};

/// Structures of the kernel's interface: plain data for which all zeros is a valid value.
///
/// # Safety
/// Only for such structures.
unsafe trait Plain: Sized {}
// SAFETY: C structures of integers, arrays of integers and unions of such; pointers in them may
// be null.
unsafe impl Plain for v4l2_capability {}
// SAFETY: as above.
unsafe impl Plain for v4l2_fmtdesc {}
// SAFETY: as above.
unsafe impl Plain for v4l2_format {}
// SAFETY: as above.
unsafe impl Plain for v4l2_frmsizeenum {}
// SAFETY: as above.
unsafe impl Plain for v4l2_frmivalenum {}
// SAFETY: as above.
unsafe impl Plain for v4l2_streamparm {}
// SAFETY: as above.
unsafe impl Plain for v4l2_requestbuffers {}
// SAFETY: as above.
unsafe impl Plain for v4l2_buffer {}
// SAFETY: as above.
unsafe impl Plain for v4l2_plane {}
// SAFETY: as above.
unsafe impl Plain for v4l2_query_ext_ctrl {}
// SAFETY: as above.
unsafe impl Plain for v4l2_ext_control {}
// SAFETY: as above.
unsafe impl Plain for v4l2_ext_controls {}

fn zeroed<T: Plain>() -> T {
    // SAFETY: all zeros is a valid value of a `Plain` structure.
    unsafe { mem::zeroed() }
}

/// Calls that a signal interrupts are made again so often.
const AGAIN: usize = 10;

/// One call with its argument.
///
/// # Safety
/// `T` is the structure that `request` stands for, and pointers in it are null or point to what
/// the request says, for as long as the call lasts.
unsafe fn ioctl<T>(
    fd: BorrowedFd<'_>,
    call: &'static str,
    request: vidioc::_IOC_TYPE,
    argument: &mut T,
) -> Result<(), QueueError> {
    let mut errno = Errno::INTR;
    for _ in 0..AGAIN {
        let pointer: *mut T = argument;
        // SAFETY: the caller's promise; the structure is borrowed for the call.
        let result = unsafe { v4l2::ioctl(fd.as_raw_fd(), request, pointer.cast::<c_void>()) };
        let Err(error) = result else { return Ok(()) };
        errno = Errno::from_raw_os_error(error.raw_os_error().unwrap_or(0));
        if errno != Errno::INTR {
            break;
        }
    }
    Err(QueueError::Os { call, errno })
}

/// Which of the two interfaces a device speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Single-planar.
    Single,
    /// Multi-planar; only pictures of one plane are used.
    Multi,
}

impl Planes {
    fn kind(self) -> u32 {
        match self {
            Self::Single => v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE,
            Self::Multi => v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE,
        }
    }
}

/// Whose memory the buffers are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Mmap,
    Userptr,
}

impl Memory {
    fn kind(self) -> u32 {
        match self {
            Self::Mmap => v4l2_memory_V4L2_MEMORY_MMAP,
            Self::Userptr => v4l2_memory_V4L2_MEMORY_USERPTR,
        }
    }
}

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Driver, card and bus.
    pub name: String,
    /// `None` for what can't capture by streaming.
    pub planes: Option<Planes>,
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub fn capabilities(fd: BorrowedFd<'_>) -> Result<Capabilities, QueueError> {
    let mut c: v4l2_capability = zeroed();
    // SAFETY: the request's structure, without pointers.
    unsafe { ioctl(fd, "VIDIOC_QUERYCAP", vidioc::VIDIOC_QUERYCAP, &mut c)? };
    let flags = if c.capabilities & V4L2_CAP_DEVICE_CAPS != 0 {
        c.device_caps
    } else {
        c.capabilities
    };
    let planes = if flags & V4L2_CAP_STREAMING == 0 {
        None
    } else if flags & V4L2_CAP_VIDEO_CAPTURE != 0 {
        Some(Planes::Single)
    } else if flags & V4L2_CAP_VIDEO_CAPTURE_MPLANE != 0 {
        Some(Planes::Multi)
    } else {
        None
    };
    let name = [&c.driver[..], &c.card[..], &c.bus_info[..]]
        .map(text)
        .join(", ");
    Ok(Capabilities { name, planes })
}

/// The codes of the formats that a device offers.
pub fn formats(fd: BorrowedFd<'_>, planes: Planes) -> Vec<[u8; 4]> {
    let mut all = Vec::new();
    for index in 0..256 {
        let mut d: v4l2_fmtdesc = zeroed();
        d.index = index;
        d.type_ = planes.kind();
        // SAFETY: the request's structure, without pointers.
        if unsafe { ioctl(fd, "VIDIOC_ENUM_FMT", vidioc::VIDIOC_ENUM_FMT, &mut d) }.is_err() {
            break;
        }
        all.push(d.pixelformat.to_le_bytes());
    }
    all
}

/// The sizes that a device offers of a format, and their rates; none where it does not say.
pub fn sizes(fd: BorrowedFd<'_>, code: [u8; 4]) -> Vec<Sizes> {
    let mut all = Vec::new();
    for index in 0..256 {
        let mut e: v4l2_frmsizeenum = zeroed();
        e.index = index;
        e.pixel_format = u32::from_le_bytes(code);
        let request = vidioc::VIDIOC_ENUM_FRAMESIZES;
        // SAFETY: the request's structure, without pointers.
        if unsafe { ioctl(fd, "VIDIOC_ENUM_FRAMESIZES", request, &mut e) }.is_err() {
            break;
        }
        let discrete = e.type_ == v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE;
        let (least, greatest, step) = if discrete {
            // SAFETY: the kernel filled the member of this type; integers, any bits.
            let one = unsafe { e.__bindgen_anon_1.discrete };
            let size = [one.width, one.height];
            (size, size, [1, 1])
        } else {
            // SAFETY: as above.
            let s = unsafe { e.__bindgen_anon_1.stepwise };
            (
                [s.min_width, s.min_height],
                [s.max_width, s.max_height],
                [s.step_width, s.step_height],
            )
        };
        all.push(Sizes {
            least,
            greatest,
            step,
            rates: rates(fd, code, greatest),
        });
        if !discrete {
            break;
        }
    }
    all
}

/// The rates that a device offers of a format and size.
fn rates(fd: BorrowedFd<'_>, code: [u8; 4], [width, height]: [u32; 2]) -> Vec<Rates> {
    let hz = |interval: v4l2_fract| {
        f64::from(interval.denominator) / f64::from(interval.numerator.max(1))
    };
    let mut all = Vec::new();
    for index in 0..256 {
        let mut e: v4l2_frmivalenum = zeroed();
        e.index = index;
        e.pixel_format = u32::from_le_bytes(code);
        (e.width, e.height) = (width, height);
        let request = vidioc::VIDIOC_ENUM_FRAMEINTERVALS;
        // SAFETY: the request's structure, without pointers.
        if unsafe { ioctl(fd, "VIDIOC_ENUM_FRAMEINTERVALS", request, &mut e) }.is_err() {
            break;
        }
        let discrete = e.type_ == v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE;
        // The longest interval is the slowest rate.
        let (slow, fast) = if discrete {
            // SAFETY: the kernel filled the member of this type; integers, any bits.
            let one = unsafe { e.__bindgen_anon_1.discrete };
            (one, one)
        } else {
            // SAFETY: as above.
            let s = unsafe { e.__bindgen_anon_1.stepwise };
            (s.max, s.min)
        };
        all.push(Rates {
            least: hz(slow),
            greatest: hz(fast),
        });
        if !discrete {
            break;
        }
    }
    all
}

/// A picture's format as the driver has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub code: [u8; 4],
    pub width: u32,
    pub height: u32,
    /// Bytes a row; 0 where the driver does not say.
    pub stride: u32,
    pub bytes: u32,
    pub planes: u8,
    /// Not interlaced.
    pub progressive: bool,
    /// Luma uses all of 0-255.
    pub full_range: bool,
}

/// Full-range quantization (`V4L2_QUANTIZATION_FULL_RANGE`).
const FULL_RANGE: u32 = 1;

pub fn set_format(
    fd: BorrowedFd<'_>,
    planes: Planes,
    code: [u8; 4],
    (width, height): (u32, u32),
) -> Result<Format, QueueError> {
    let mut f: v4l2_format = zeroed();
    f.type_ = planes.kind();
    let pixelformat = u32::from_le_bytes(code);
    match planes {
        Planes::Single => {
            // SAFETY: writing `Copy` fields of a union whose bytes are all zero.
            let pix = unsafe { &mut f.fmt.pix };
            (pix.width, pix.height) = (width, height);
            pix.pixelformat = pixelformat;
            pix.field = v4l2_field_V4L2_FIELD_NONE;
        }
        Planes::Multi => {
            // SAFETY: as above; the structure is packed, no reference to a field is made.
            let pix = unsafe { &mut f.fmt.pix_mp };
            pix.width = width;
            pix.height = height;
            pix.pixelformat = pixelformat;
            pix.field = v4l2_field_V4L2_FIELD_NONE;
            pix.num_planes = 1;
        }
    }
    // SAFETY: the request's structure, without pointers.
    unsafe { ioctl(fd, "VIDIOC_S_FMT", vidioc::VIDIOC_S_FMT, &mut f)? };
    Ok(match planes {
        Planes::Single => {
            // SAFETY: the kernel filled the member of this type; integers, any bits.
            let pix = unsafe { f.fmt.pix };
            Format {
                code: pix.pixelformat.to_le_bytes(),
                width: pix.width,
                height: pix.height,
                stride: pix.bytesperline,
                bytes: pix.sizeimage,
                planes: 1,
                progressive: pix.field <= v4l2_field_V4L2_FIELD_NONE,
                full_range: pix.quantization == FULL_RANGE,
            }
        }
        Planes::Multi => {
            // SAFETY: as above.
            let pix = unsafe { f.fmt.pix_mp };
            let plane = pix.plane_fmt[0];
            let field = pix.field;
            Format {
                code: u32::to_le_bytes(pix.pixelformat),
                width: pix.width,
                height: pix.height,
                stride: plane.bytesperline,
                bytes: plane.sizeimage,
                planes: pix.num_planes,
                progressive: field <= v4l2_field_V4L2_FIELD_NONE,
                full_range: u32::from(pix.quantization) == FULL_RANGE,
            }
        }
    })
}

/// Asks for a rate and gives the one that the driver has chosen; `None` where it has none.
pub fn set_rate(
    fd: BorrowedFd<'_>,
    planes: Planes,
    rate_hz: f64,
) -> Result<Option<f64>, QueueError> {
    let mut p: v4l2_streamparm = zeroed();
    p.type_ = planes.kind();
    // SAFETY: writing `Copy` fields of a union whose bytes are all zero.
    let capture = unsafe { &mut p.parm.capture };
    capture.timeperframe.numerator = 1000;
    capture.timeperframe.denominator = (rate_hz * 1000.0).round() as u32;
    // SAFETY: the request's structure, without pointers.
    unsafe { ioctl(fd, "VIDIOC_S_PARM", vidioc::VIDIOC_S_PARM, &mut p)? };
    // SAFETY: the kernel filled the member of this type; integers, any bits.
    let time = unsafe { p.parm.capture.timeperframe };
    let known = time.numerator != 0 && time.denominator != 0;
    Ok(known.then(|| f64::from(time.denominator) / f64::from(time.numerator)))
}

/// Asks for buffers and gives how many there are.
pub fn request_buffers(
    fd: BorrowedFd<'_>,
    planes: Planes,
    memory: Memory,
    count: u32,
) -> Result<u32, QueueError> {
    let mut r: v4l2_requestbuffers = zeroed();
    r.count = count;
    r.type_ = planes.kind();
    r.memory = memory.kind();
    // SAFETY: the request's structure, without pointers.
    unsafe { ioctl(fd, "VIDIOC_REQBUFS", vidioc::VIDIOC_REQBUFS, &mut r)? };
    Ok(r.count)
}

/// A buffer's structures.
fn buffer(planes: Planes, memory: Memory, index: u32) -> (v4l2_buffer, v4l2_plane) {
    let mut b: v4l2_buffer = zeroed();
    b.index = index;
    b.type_ = planes.kind();
    b.memory = memory.kind();
    (b, zeroed())
}

/// One call about a buffer. The plane is lent to the call where the interface has planes.
fn buffer_call(
    fd: BorrowedFd<'_>,
    call: &'static str,
    request: vidioc::_IOC_TYPE,
    planes: Planes,
    (b, plane): (&mut v4l2_buffer, &mut v4l2_plane),
) -> Result<(), QueueError> {
    if planes == Planes::Multi {
        b.m.planes = plane;
        b.length = 1;
    }
    // SAFETY: `buffer_call` is private and called with the requests of `v4l2_buffer` alone; the
    // only pointer is to `plane`, one plane long as `length` says, and lives during the call.
    unsafe { ioctl(fd, call, request, b) }
}

/// Where a buffer lies in the device's memory: offset and length.
pub fn query_buffer(
    fd: BorrowedFd<'_>,
    planes: Planes,
    index: u32,
) -> Result<(u32, usize), QueueError> {
    let (mut b, mut plane) = buffer(planes, Memory::Mmap, index);
    let request = vidioc::VIDIOC_QUERYBUF;
    buffer_call(fd, "VIDIOC_QUERYBUF", request, planes, (&mut b, &mut plane))?;
    Ok(match planes {
        // SAFETY: the kernel filled this member, as the memory is MMAP; an integer.
        Planes::Single => (unsafe { b.m.offset }, b.length as usize),
        // SAFETY: as above.
        Planes::Multi => (unsafe { plane.m.mem_offset }, plane.length as usize),
    })
}

/// Gives a buffer to the kernel.
///
/// # Safety
/// With [`Memory::Userptr`], `block` must stay where it is, and unread and unwritten, until the
/// buffer is dequeued or streaming is stopped.
pub unsafe fn queue_buffer(
    fd: BorrowedFd<'_>,
    planes: Planes,
    memory: Memory,
    index: u32,
    block: &dyn Block,
) -> Result<(), QueueError> {
    let (mut b, mut plane) = buffer(planes, memory, index);
    if memory == Memory::Userptr {
        let address = block.address().as_ptr() as std::os::raw::c_ulong;
        let length = block.len() as u32;
        match planes {
            Planes::Single => {
                b.m.userptr = address;
                b.length = length;
            }
            Planes::Multi => {
                plane.m.userptr = address;
                plane.length = length;
            }
        }
    }
    buffer_call(
        fd,
        "VIDIOC_QBUF",
        vidioc::VIDIOC_QBUF,
        planes,
        (&mut b, &mut plane),
    )
}

/// Takes the oldest filled buffer; besides the offset of its data.
pub fn dequeue_buffer(
    fd: BorrowedFd<'_>,
    planes: Planes,
    memory: Memory,
) -> Result<(Buffer, usize), QueueError> {
    let (mut b, mut plane) = buffer(planes, memory, 0);
    buffer_call(
        fd,
        "VIDIOC_DQBUF",
        vidioc::VIDIOC_DQBUF,
        planes,
        (&mut b, &mut plane),
    )?;
    let (used, offset) = match planes {
        Planes::Single => (b.bytesused as usize, 0),
        Planes::Multi => {
            let offset = plane.data_offset as usize;
            ((plane.bytesused as usize).saturating_sub(offset), offset)
        }
    };
    let seconds = (b.timestamp.tv_sec as u64).wrapping_mul(1_000_000_000);
    let stamp_ns = seconds.wrapping_add((b.timestamp.tv_usec as u64).wrapping_mul(1000));
    let flag = match b.flags & V4L2_BUF_FLAG_TIMESTAMP_MASK {
        V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC => StampFlag::Monotonic,
        V4L2_BUF_FLAG_TIMESTAMP_COPY => StampFlag::Copied,
        _ => StampFlag::Unknown,
    };
    let start = b.flags & V4L2_BUF_FLAG_TSTAMP_SRC_MASK == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    let buffer = Buffer {
        index: b.index as usize,
        sequence: b.sequence,
        stamp_ns,
        flag,
        end_of_frame: !start,
        bytes_used: used,
        error: b.flags & V4L2_BUF_FLAG_ERROR != 0,
    };
    Ok((buffer, offset))
}

/// Starts or stops streaming.
pub fn stream(fd: BorrowedFd<'_>, planes: Planes, on: bool) -> Result<(), QueueError> {
    let mut kind = planes.kind() as std::os::raw::c_int;
    let (call, request) = if on {
        ("VIDIOC_STREAMON", vidioc::VIDIOC_STREAMON)
    } else {
        ("VIDIOC_STREAMOFF", vidioc::VIDIOC_STREAMOFF)
    };
    // SAFETY: both requests take an int.
    unsafe { ioctl(fd, call, request, &mut kind) }
}

/// Waits for a frame.
pub fn wait(fd: BorrowedFd<'_>, wait_ns: u64) -> Result<Ready, QueueError> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let time = Timespec {
        tv_sec: (wait_ns / 1_000_000_000) as _,
        tv_nsec: (wait_ns % 1_000_000_000) as _,
    };
    match poll(&mut fds, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => return Ok(Ready::Nothing),
        Ok(_) => {}
        Err(errno) => {
            let call = "poll";
            return Err(QueueError::Os { call, errno });
        }
    }
    let got = fds[0].revents();
    Ok(if got.intersects(PollFlags::HUP | PollFlags::NVAL) {
        Ready::Gone
    } else if got.contains(PollFlags::ERR) {
        Ready::Error
    } else if got.contains(PollFlags::IN) {
        Ready::Frame
    } else {
        Ready::Nothing
    })
}

/// A control of a device.
#[derive(Clone, Debug)]
pub struct Control {
    pub id: u32,
    pub name: String,
    pub kind: u32,
    pub flags: u32,
    pub minimum: i64,
    pub maximum: i64,
    pub step: u64,
}

/// Flags that make a query go on to the next control, compound ones left out.
const NEXT: u32 = v4l::v4l_sys::V4L2_CTRL_FLAG_NEXT_CTRL;

/// All controls of a device.
pub fn controls(fd: BorrowedFd<'_>) -> Vec<Control> {
    let mut all: Vec<Control> = Vec::new();
    let mut id = 0;
    // A driver has some hundreds at most.
    while all.len() < 4096 {
        let mut q: v4l2_query_ext_ctrl = zeroed();
        q.id = id | NEXT;
        let request = vidioc::VIDIOC_QUERY_EXT_CTRL;
        // SAFETY: the request's structure, without pointers.
        if unsafe { ioctl(fd, "VIDIOC_QUERY_EXT_CTRL", request, &mut q) }.is_err() || q.id <= id {
            break;
        }
        id = q.id;
        all.push(Control {
            id,
            name: text(&q.name.map(|c| c as u8)),
            kind: q.type_,
            flags: q.flags,
            minimum: q.minimum,
            maximum: q.maximum,
            step: q.step,
        });
    }
    all
}

/// `V4L2_CTRL_TYPE_INTEGER64`: the value has 64 bits.
pub const INTEGER_64: u32 = 5;

fn control_call(
    fd: BorrowedFd<'_>,
    call: &'static str,
    request: vidioc::_IOC_TYPE,
    control: &mut v4l2_ext_control,
) -> Result<(), QueueError> {
    let mut c: v4l2_ext_controls = zeroed();
    c.count = 1;
    c.controls = control;
    // SAFETY: `control_call` is private and called with the requests of `v4l2_ext_controls`
    // alone; the pointer is to one control, as `count` says, and lives during the call. Its value
    // is no pointer: controls with payload are not used.
    unsafe { ioctl(fd, call, request, &mut c) }
}

/// Sets a control of a number.
pub fn set_control(fd: BorrowedFd<'_>, control: &Control, value: i64) -> Result<(), QueueError> {
    let mut c: v4l2_ext_control = zeroed();
    c.id = control.id;
    if control.kind == INTEGER_64 {
        c.__bindgen_anon_1.value64 = value;
    } else {
        c.__bindgen_anon_1.value =
            i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX });
    }
    control_call(fd, "VIDIOC_S_EXT_CTRLS", vidioc::VIDIOC_S_EXT_CTRLS, &mut c)
}

/// Reads a control of a number.
pub fn control(fd: BorrowedFd<'_>, control: &Control) -> Result<i64, QueueError> {
    let mut c: v4l2_ext_control = zeroed();
    c.id = control.id;
    control_call(fd, "VIDIOC_G_EXT_CTRLS", vidioc::VIDIOC_G_EXT_CTRLS, &mut c)?;
    // SAFETY: integers, any bits; the kernel filled the one of the control's type.
    Ok(unsafe {
        if control.kind == INTEGER_64 {
            c.__bindgen_anon_1.value64
        } else {
            i64::from(c.__bindgen_anon_1.value)
        }
    })
}

/// Opens a device, not to be inherited, not to be waited for.
pub fn open(path: &std::path::Path) -> Result<std::os::fd::OwnedFd, QueueError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| QueueError::Os {
        call: "open",
        errno,
    })
}

/// A file descriptor borrowed for a call.
pub fn borrow(fd: &std::os::fd::OwnedFd) -> BorrowedFd<'_> {
    fd.as_fd()
}

/// The processor's counter, ns, as Tegra stamps frames.
#[cfg(target_arch = "aarch64")]
pub fn counter_ns() -> Option<u64> {
    let (count, rate): (u64, u64);
    // SAFETY: reads two registers that the kernel lets user space read; no memory is touched.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
        std::arch::asm!("mrs {}, cntfrq_el0", out(reg) rate, options(nomem, nostack));
    }
    if rate == 0 {
        return None;
    }
    Some((u128::from(count) * 1_000_000_000 / u128::from(rate)) as u64)
}
