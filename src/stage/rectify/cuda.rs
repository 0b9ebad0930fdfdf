//! The rectify stage on the GPU (`kernels/rectify.cu`).
use super::{RectifyError, cpu};
use crate::{
    calib::Rectification,
    cuda::{
        Arena, ArenaLayout, Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape,
        Module, Priority, Stream,
    },
    device_struct,
    frame::{Mask, Size},
};

const THREADS: u32 = 256;

device_struct! {
    /// As in the kernel file.
    struct Tap {
        x: u16,
        y: u16,
        a: u16,
        b: u16,
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What the CPU refuses too.
    #[error(transparent)]
    Rectify(#[from] RectifyError),
    /// The GPU.
    #[error("rectify: {0}")]
    Gpu(#[from] GpuError),
}

type Grey = Function<(
    DevicePtr<Tap>,
    DevicePtr<u8>,
    DevicePtr<u8>,
    DevicePtr<u8>,
    DevicePtr<u8>,
    u32,
    u32,
)>;
type Colour = Function<(DevicePtr<Tap>, DevicePtr<u8>, DevicePtr<u8>, u32, u32)>;
type MaskDisparity = Function<(DevicePtr<u16>, DevicePtr<u8>, u64)>;

/// The rectification of images of one size; rows lie one after the other.
pub struct Plan {
    size: Size,
    bytes: u64,
    grey: Grey,
    colour: Colour,
    mask_disparity: MaskDisparity,
    /// Of the left, then the right image; `None`: images are rectified already.
    taps: Option<DeviceBuffer<Tap>>,
    mask_pixels: Option<DeviceBuffer<u8>>,
    mask: Option<Mask>,
}

impl Plan {
    /// As [`cpu::Plan::new`]; waits until its tables are on the device.
    ///
    /// # Errors
    /// What the CPU refuses; from the driver.
    pub fn new(
        context: &Context,
        rectification: &Rectification,
        size: Size,
        raw_mask: Option<&Mask>,
    ) -> Result<Self, PlanError> {
        let reference = cpu::Plan::new(rectification, size, raw_mask)?;
        let area = size.area();
        let taps: Option<Vec<Tap>> = reference.taps.as_ref().map(|images| {
            let tap = |&cpu::Tap { x, y, a, b }: &cpu::Tap| Tap { x, y, a, b };
            images.iter().flat_map(|i| i.pixels()).map(tap).collect()
        });
        let mask = reference.mask().cloned();
        let stream = Stream::new(context, Priority::Normal)?;
        let mut layout = ArenaLayout::new();
        let taps = taps.map(|taps| (layout.reserve::<Tap>("rectify maps", 2 * area), taps));
        let pixels = mask.as_ref().map(|mask| {
            let pixels: Vec<u8> = mask.pixels().copied().collect();
            (layout.reserve::<u8>("rectify mask", area), pixels)
        });
        let bytes = layout.bytes();
        let arena = (bytes > 0)
            .then(|| Arena::new(context, "rectify", layout))
            .transpose()?;
        let module = Module::load(context, "rectify")?;
        let mut plan = Self {
            size,
            bytes,
            grey: module.function("rectify_grey")?,
            colour: module.function("rectify_rgb")?,
            mask_disparity: module.function("rectify_mask")?,
            taps: None,
            mask_pixels: None,
            mask,
        };
        if let Some(arena) = arena {
            if let Some((slot, taps)) = taps {
                let buffer = arena.buffer(slot)?;
                stream.upload(&taps, &buffer)?;
                plan.taps = Some(buffer);
            }
            if let Some((slot, pixels)) = pixels {
                let buffer = arena.buffer(slot)?;
                stream.upload(&pixels, &buffer)?;
                plan.mask_pixels = Some(buffer);
            }
        }
        Ok(plan)
    }

    /// Which pixels of the rectified left image may be used; as the CPU's.
    pub fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// Whether images are rectified already: [`enqueue`](Self::enqueue) copies them then, and
    /// who can do without the copy need not call it.
    pub fn is_identity(&self) -> bool {
        self.taps.is_none()
    }

    /// Bytes of device memory that it holds.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }

    /// Rectifies the left image and, where given, the right one: `(raw, rectified)` each.
    ///
    /// # Errors
    /// [`GpuError::Size`] for images of another size; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        left: (&DeviceBuffer<u8>, &DeviceBuffer<u8>),
        right: Option<(&DeviceBuffer<u8>, &DeviceBuffer<u8>)>,
    ) -> Result<(), GpuError> {
        for (raw, out) in [Some(left), right].into_iter().flatten() {
            self.check(raw.len(), self.size.area())?;
            self.check(out.len(), self.size.area())?;
        }
        let Some(taps) = &self.taps else {
            stream.copy_on_device(left.0, left.1)?;
            return right.map_or(Ok(()), |(raw, out)| stream.copy_on_device(raw, out));
        };
        let mut shape = self.shape();
        shape.grid[1] = if right.is_some() { 2 } else { 1 };
        let (raw, out) = right.unwrap_or(left);
        self.grey.launch(
            stream,
            shape,
            &(
                taps.ptr(),
                left.0.ptr(),
                raw.ptr(),
                left.1.ptr(),
                out.ptr(),
                self.size.width as u32,
                self.size.height as u32,
            ),
        )
    }

    /// Rectifies the left image in colour, three bytes a pixel.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_rgb(
        &self,
        stream: &Stream,
        raw: &DeviceBuffer<u8>,
        out: &DeviceBuffer<u8>,
    ) -> Result<(), GpuError> {
        self.check(raw.len(), 3 * self.size.area())?;
        self.check(out.len(), 3 * self.size.area())?;
        let Some(taps) = &self.taps else {
            return stream.copy_on_device(raw, out);
        };
        self.colour.launch(
            stream,
            self.shape(),
            &(
                taps.ptr(),
                raw.ptr(),
                out.ptr(),
                self.size.width as u32,
                self.size.height as u32,
            ),
        )
    }

    /// Makes masked pixels of a stored disparity invalid.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_mask(
        &self,
        stream: &Stream,
        disparity: &DeviceBuffer<u16>,
    ) -> Result<(), GpuError> {
        self.check(disparity.len(), self.size.area())?;
        let Some(mask) = &self.mask_pixels else {
            return Ok(());
        };
        let pixels = self.size.area() as u64;
        self.mask_disparity
            .launch(stream, self.shape(), &(disparity.ptr(), mask.ptr(), pixels))
    }

    fn shape(&self) -> LaunchShape {
        LaunchShape::covering(self.size.area(), THREADS)
    }

    fn check(&self, found: usize, expected: usize) -> Result<(), GpuError> {
        if found == expected {
            return Ok(());
        }
        Err(GpuError::Size {
            what: "rectify: bytes or pixels of an image",
            found: found as u64,
            expected: expected as u64,
        })
    }
}
