//! An image as features read it: a sum table (integral image) a channel, and depth.
//!
//! Sums are kept modulo 2^32. That of a region is exact as long as it is itself below 2^32:
//! regions have at most 254 x 254 pixels ([`MAX_HALF`]) of 16 bits. So images have no largest
//! area, and no sum depends on the order of additions.
use rayon::prelude::*;

use super::colour::{LAB_BIAS, LabTables};
use crate::frame::Size;

/// Largest half side of a region, px.
pub const MAX_HALF: i32 = 127;

/// Most channels of an image.
pub const MAX_CHANNELS: usize = 16;

/// Longest side of an image, px.
pub const MAX_SIDE: usize = 16_384;

/// What a channel's samples are.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// As they come: grey, RGB or other channels of 8 or 16 bits.
    #[default]
    Raw,
    /// RGB of 8 bits as CIELab.
    Lab,
}

/// What a forest reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Colour space.
    pub colour: Colour,
    /// Channels, 1 to [`MAX_CHANNELS`]; 3 in Lab.
    pub channels: u8,
    /// Bits of a sample, 8 or 16.
    pub bits: u8,
    /// Steps of depth in a metre (1000: millimetres; 256: as `roadloop synth` writes it).
    pub depth_steps_per_m: u32,
    /// Whether missing depth is filled from neighbours (right, left, above, below).
    pub fill_depth: bool,
}

impl Default for InputSpec {
    fn default() -> Self {
        Self {
            colour: Colour::Raw,
            channels: 3,
            bits: 8,
            depth_steps_per_m: 1000,
            fill_depth: false,
        }
    }
}

/// Which tables a feature reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Sum tables of the channels.
    pub colour: bool,
    /// Depth of each pixel.
    pub depth: bool,
    /// Sum tables of depth and of the pixels that have one.
    pub depth_sums: bool,
}

impl Needs {
    /// Bytes of the tables for an image.
    pub fn bytes(self, size: Size, channels: usize) -> u64 {
        let area = size.area() as u64;
        let table = (size.width as u64 + 1) * (size.height as u64 + 1) * 4;
        let of = |needed: bool, bytes: u64| if needed { bytes } else { 0 };
        of(self.colour, table * channels as u64)
            + of(self.depth, 2 * area)
            + of(self.depth_sums, 2 * table)
    }
}

/// Pixels to be read.
#[derive(Clone, Copy)]
pub enum Pixels<'a> {
    /// 8-bit grey, rows packed or not.
    Grey(&'a crate::frame::Image<u8>),
    /// 8-bit RGB.
    Rgb(&'a crate::frame::Rgb),
    /// Channels of 8 or 16 bits.
    Channels(&'a [crate::frame::Image<u16>]),
}

impl Pixels<'_> {
    /// Width and height; 0x0 without a channel.
    pub fn size(&self) -> Size {
        match self {
            Self::Grey(image) => image.size(),
            Self::Rgb(image) => image.size(),
            Self::Channels(list) => list.first().map_or(Size::new(0, 0), |image| image.size()),
        }
    }
}

/// One image's tables.
#[derive(Clone, Debug)]
pub struct Planes {
    size: Size,
    /// Entries of a row of a sum table, and of a whole one.
    stride: usize,
    table: usize,
    needs: Needs,
    channels: usize,
    /// What was added to the samples of each channel.
    bias: [u16; MAX_CHANNELS],
    sums: Vec<u32>,
    depth: Vec<u16>,
    depth_sums: Vec<u32>,
    depth_counts: Vec<u32>,
}

/// The four corners of a region `(left, right] x (top, bottom]`, inside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    left: usize,
    right: usize,
    top: usize,
    bottom: usize,
}

impl Region {
    /// Pixels in it.
    #[inline(always)]
    pub fn area(self) -> u32 {
        ((self.right - self.left) * (self.bottom - self.top)) as u32
    }
}

impl Planes {
    /// Tables of noughts for images of `size`.
    pub fn new(size: Size, spec: &InputSpec, needs: Needs) -> Self {
        let channels = usize::from(spec.channels);
        let table = (size.width + 1) * (size.height + 1);
        let of = |needed: bool, n: usize| vec![0u32; if needed { n } else { 0 }];
        let mut bias = [0; MAX_CHANNELS];
        if spec.colour == Colour::Lab {
            bias[1] = LAB_BIAS;
            bias[2] = LAB_BIAS;
        }
        Self {
            size,
            stride: size.width + 1,
            table,
            needs,
            channels,
            bias,
            sums: of(needs.colour, table * channels),
            depth: vec![0; if needs.depth { size.area() } else { 0 }],
            depth_sums: of(needs.depth_sums, table),
            depth_counts: of(needs.depth_sums, table),
        }
    }

    /// Width and height.
    #[inline(always)]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.needs.bytes(self.size, self.channels)
    }

    /// The region of half sizes `w`, `h` around `(x, y)`; `None` where it does not lie wholly
    /// inside the image, or (with `shrink`) where nothing of it does.
    #[inline(always)]
    pub fn region(&self, x: i32, y: i32, w: i32, h: i32, shrink: bool) -> Option<Region> {
        let (width, height) = (self.size.width as i32, self.size.height as i32);
        let (mut l, mut r, mut u, mut d) = (x - w, x + w, y - h, y + h);
        if shrink {
            l = l.max(-1);
            r = r.min(width - 1);
            u = u.max(-1);
            d = d.min(height - 1);
            if l >= r || u >= d {
                return None;
            }
        } else if l < 0 || r >= width || u < 0 || d >= height {
            return None;
        }
        Some(Region {
            left: (l + 1) as usize,
            right: (r + 1) as usize,
            top: (u + 1) as usize,
            bottom: (d + 1) as usize,
        })
    }

    /// The sum over a region by the sum table that begins at `first`.
    #[inline(always)]
    fn corners(&self, sums: &[u32], first: usize, r: Region) -> u32 {
        let (top, bottom) = (first + r.top * self.stride, first + r.bottom * self.stride);
        sums[bottom + r.right]
            .wrapping_sub(sums[top + r.right])
            .wrapping_sub(sums[bottom + r.left])
            .wrapping_add(sums[top + r.left])
    }

    /// Sum of a channel's samples over a region, bias included.
    #[inline(always)]
    pub fn sum(&self, channel: usize, region: Region) -> u32 {
        self.corners(&self.sums, channel * self.table, region)
    }

    /// The entry of a pixel inside the image, in the first sum table.
    #[inline(always)]
    pub fn entry(&self, x: i32, y: i32) -> u32 {
        (y as usize * self.stride + x as usize) as u32
    }

    /// Entries of a row of a sum table, and where that of a channel begins; `None` where there
    /// are no sum tables of colours, or more entries than 32 bits count.
    pub fn layout(&self, channel: usize) -> Option<(usize, usize)> {
        let all = self.table.checked_mul(self.channels)?;
        let known = self.needs.colour && u32::try_from(all).is_ok();
        known.then_some((self.stride, channel * self.table))
    }

    /// The sum over a region from the distances of its corners (bottom right, top right, bottom
    /// left, top left, modulo 2^32) to a pixel's entry.
    #[inline(always)]
    pub fn corner_sum(&self, at: &[u32; 4], entry: u32) -> u32 {
        let [a, b, c, d] = at.map(|at| self.sums[entry.wrapping_add(at) as usize]);
        a.wrapping_sub(b).wrapping_sub(c).wrapping_add(d)
    }

    /// What [`Planes::corner_sum`] reads for `n` entries from the `first` on.
    #[inline(always)]
    pub(super) fn corner_tables(&self, at: &[u32; 4], first: u32, n: usize) -> [&[u32]; 4] {
        at.map(|at| &self.sums[first.wrapping_add(at) as usize..][..n])
    }

    /// What is in each of a channel's samples beyond its value.
    #[inline(always)]
    pub fn bias(&self, channel: usize) -> u32 {
        self.bias[channel].into()
    }

    /// Sum of the depths in a region, and how many pixels have one.
    #[inline(always)]
    pub fn depth_sum(&self, region: Region) -> (u32, u32) {
        (
            self.corners(&self.depth_sums, 0, region),
            self.corners(&self.depth_counts, 0, region),
        )
    }

    /// Depth of a pixel inside the image, in steps; 0 = missing.
    #[inline(always)]
    pub fn depth(&self, x: i32, y: i32) -> u16 {
        self.depth[y as usize * self.size.width + x as usize]
    }

    /// Depth of all pixels, row by row.
    #[cfg(feature = "cuda")]
    pub(crate) fn depths(&self) -> &[u16] {
        &self.depth
    }

    /// As [`Planes::depth`]; `None` outside the image.
    #[inline(always)]
    pub fn depth_at(&self, x: i32, y: i32) -> Option<u16> {
        let (width, height) = (self.size.width as i32, self.size.height as i32);
        let inside = (0..width).contains(&x) && (0..height).contains(&y);
        inside.then(|| self.depth(x, y))
    }
}

/// Fills [`Planes`]; owns what that needs, for images up to any size.
#[derive(Clone, Debug)]
pub struct PlaneBuilder {
    spec: InputSpec,
    tables: Option<LabTables>,
    /// Samples of a channel, then the next.
    samples: Vec<u16>,
}

impl PlaneBuilder {
    /// A builder for what a forest reads.
    pub fn new(spec: &InputSpec) -> Self {
        Self {
            spec: *spec,
            tables: (spec.colour == Colour::Lab).then(LabTables::new),
            samples: Vec::new(),
        }
    }

    /// Takes the memory for images of a size, so that filling takes none.
    pub fn reserve(&mut self, size: Size) {
        let samples = size.area() * usize::from(self.spec.channels);
        self.samples.resize(samples.max(self.samples.len()), 0);
    }

    /// What a forest reads.
    pub fn spec(&self) -> &InputSpec {
        &self.spec
    }

    /// Sums the channels of `pixels`, from right to left if `mirrored`. Grey stands for each
    /// channel of a forest that has more.
    ///
    /// # Panics
    /// When sizes differ, or a list of channels is not as long as the forest's.
    pub fn fill(&mut self, planes: &mut Planes, pixels: Pixels<'_>, mirrored: bool) {
        let size = planes.size;
        assert_eq!(
            pixels.size(),
            size,
            "pixels of another size than the planes"
        );
        if !planes.needs.colour || size.area() == 0 {
            return;
        }
        self.reserve(size);
        let (channels, area) = (planes.channels, size.area());
        self.rows(pixels, mirrored, size, channels);
        let table = (size.width + 1) * (size.height + 1);
        planes
            .sums
            .par_chunks_mut(table)
            .zip(self.samples.par_chunks(area))
            .for_each(|(table, samples)| {
                sum_table(table, size, |x, y| samples[y * size.width + x].into());
            });
    }

    /// Samples by channel, from right to left if `mirrored`: what [`PlaneBuilder::fill`] sums.
    ///
    /// # Panics
    /// As there.
    #[cfg(feature = "cuda")]
    pub(crate) fn samples(&mut self, pixels: Pixels<'_>, mirrored: bool) -> &[u16] {
        let (size, channels) = (pixels.size(), usize::from(self.spec.channels));
        if size.area() == 0 {
            return &[];
        }
        self.reserve(size);
        self.rows(pixels, mirrored, size, channels);
        &self.samples[..channels * size.area()]
    }

    /// Samples by channel.
    fn rows(&mut self, pixels: Pixels<'_>, mirrored: bool, size: Size, channels: usize) {
        let (width, area) = (size.width, size.area());
        let at = |x: usize| if mirrored { width - 1 - x } else { x };
        let samples = &mut self.samples[..channels * area];
        match pixels {
            Pixels::Channels(list) => {
                assert_eq!(list.len(), channels, "channels");
                for (to, image) in samples.chunks_exact_mut(area).zip(list) {
                    assert_eq!(image.size(), size, "channel sizes");
                    for (to, from) in to.chunks_exact_mut(width).zip(image.rows()) {
                        for (x, to) in to.iter_mut().enumerate() {
                            *to = from[at(x)];
                        }
                    }
                }
            }
            Pixels::Grey(_) | Pixels::Rgb(_) => {
                let rgb = |x: usize, y: usize| match pixels {
                    Pixels::Grey(image) => [image.get(x, y); 3],
                    Pixels::Rgb(image) => image.get(x, y),
                    Pixels::Channels(_) => unreachable!("the other arm"),
                };
                if let (Some(tables), 3) = (&self.tables, channels) {
                    let (l, rest) = samples.split_at_mut(area);
                    let (a, b) = rest.split_at_mut(area);
                    l.par_chunks_exact_mut(width)
                        .zip(a.par_chunks_exact_mut(width))
                        .zip(b.par_chunks_exact_mut(width))
                        .enumerate()
                        .for_each(|(y, ((l, a), b))| {
                            for x in 0..width {
                                [l[x], a[x], b[x]] = tables.lab(rgb(at(x), y));
                            }
                        });
                } else {
                    assert!(
                        matches!(pixels, Pixels::Grey(_)) || channels == 3,
                        "RGB for a forest of {channels} channels"
                    );
                    for (c, to) in samples.chunks_exact_mut(area).enumerate() {
                        for (y, to) in to.chunks_exact_mut(width).enumerate() {
                            for (x, to) in to.iter_mut().enumerate() {
                                *to = rgb(at(x), y)[c % 3].into();
                            }
                        }
                    }
                }
            }
        }
    }

    /// Takes depth in the forest's steps, 0 = missing; from right to left if `mirrored`.
    ///
    /// # Panics
    /// When the size is another than that of the planes.
    pub fn fill_depth(
        &mut self,
        planes: &mut Planes,
        depth: impl Fn(usize, usize) -> u16 + Sync,
        mirrored: bool,
    ) {
        let size = planes.size;
        if !planes.needs.depth || size.area() == 0 {
            return;
        }
        let at = |x: usize| if mirrored { size.width - 1 - x } else { x };
        for (y, row) in planes.depth.chunks_exact_mut(size.width).enumerate() {
            for (x, to) in row.iter_mut().enumerate() {
                *to = depth(at(x), y);
            }
        }
        if self.spec.fill_depth {
            fill_holes(&mut planes.depth, size);
        }
        if planes.needs.depth_sums {
            let depth = &planes.depth;
            let at = |x: usize, y: usize| depth[y * size.width + x];
            let (sums, counts) = (&mut planes.depth_sums, &mut planes.depth_counts);
            rayon::join(
                || sum_table(sums, size, |x, y| at(x, y).into()),
                || sum_table(counts, size, |x, y| u32::from(at(x, y) > 0)),
            );
        }
    }
}

/// Entry `(x, y)` is the sum of the samples left of and above it, modulo 2^32.
fn sum_table(table: &mut [u32], size: Size, sample: impl Fn(usize, usize) -> u32) {
    let stride = size.width + 1;
    table[..stride].fill(0);
    for y in 0..size.height {
        let (above, row) = table[y * stride..][..2 * stride].split_at_mut(stride);
        row[0] = 0;
        let mut sum = 0u32;
        for x in 0..size.width {
            sum = sum.wrapping_add(sample(x, y));
            row[x + 1] = above[x + 1].wrapping_add(sum);
        }
    }
}

/// Missing pixels take their neighbour's depth: sweeps from the right, the left, the top and the
/// bottom, each on the result of the one before.
fn fill_holes(depth: &mut [u16], size: Size) {
    let (width, height) = (size.width, size.height);
    let mut carry = |to: usize, from: usize| {
        if depth[to] == 0 {
            depth[to] = depth[from];
        }
    };
    for y in 0..height {
        for x in (1..width).rev() {
            carry(y * width + x - 1, y * width + x);
        }
        for x in 1..width {
            carry(y * width + x, y * width + x - 1);
        }
    }
    for y in 1..height {
        for x in 0..width {
            carry(y * width + x, (y - 1) * width + x);
        }
    }
    for y in (1..height).rev() {
        for x in 0..width {
            carry((y - 1) * width + x, y * width + x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Image;

    const ALL: Needs = Needs {
        colour: true,
        depth: true,
        depth_sums: true,
    };

    #[test]
    fn sums_of_regions_are_those_of_their_pixels() {
        // Sums of the whole pass 2^32; those of regions are exact.
        let size = Size::new(331, 259);
        let spec = InputSpec {
            channels: 2,
            bits: 16,
            ..InputSpec::default()
        };
        let list = [1usize, 7].map(|k| {
            Image::from_fn(size.width, size.height, |x, y| {
                (65_535 - (x * k * 31 + y * 17) % 9000) as u16
            })
        });
        let mut planes = Planes::new(size, &spec, ALL);
        let mut builder = PlaneBuilder::new(&spec);
        for mirrored in [false, true] {
            builder.fill(&mut planes, Pixels::Channels(&list), mirrored);
            for (x, y, w, h) in [(127, 127, 127, 127), (200, 130, 127, 127), (5, 6, 1, 2)] {
                let region = planes.region(x, y, w, h, false).unwrap();
                assert_eq!(region.area(), (4 * w * h) as u32);
                for (c, image) in list.iter().enumerate() {
                    let mut sum = 0u64;
                    for v in y - h + 1..=y + h {
                        for u in x - w + 1..=x + w {
                            let u = if mirrored { 330 - u } else { u };
                            sum += u64::from(image.get(u as usize, v as usize));
                        }
                    }
                    assert_eq!(u64::from(planes.sum(c, region)), sum);
                }
            }
        }
    }

    #[test]
    fn regions_at_the_border() {
        let planes = Planes::new(Size::new(10, 8), &InputSpec::default(), ALL);
        assert!(planes.region(1, 1, 1, 1, false).is_some());
        assert!(planes.region(0, 1, 1, 1, false).is_none());
        assert!(planes.region(8, 6, 1, 1, false).is_some());
        assert!(planes.region(9, 6, 1, 1, false).is_none());
        // Shrunk: columns 0..=1 of 0 - 2 + 1 ..= 0 + 2.
        let shrunk = planes.region(0, 1, 2, 1, true).unwrap();
        assert_eq!(shrunk.area(), 3 * 2);
        assert!(planes.region(-4, 1, 2, 1, true).is_none());
        assert!(planes.region(12, 1, 2, 1, true).is_none());
    }

    #[test]
    fn holes_are_filled_from_the_right_first() {
        let mut depth = [0, 0, 5, 0, 0, 0, 0, 0, 0];
        fill_holes(&mut depth, Size::new(3, 3));
        assert_eq!(depth, [5; 9]);
        let mut depth = [0, 7, 0, 9, 0];
        fill_holes(&mut depth, Size::new(5, 1));
        assert_eq!(depth, [7, 7, 9, 9, 9]);
    }

    #[test]
    fn grey_stands_for_every_channel() {
        let grey = Image::from_fn(9, 5, |x, y| (x * 20 + y) as u8);
        let rgb = Image::from_fn(9, 5, |x, y| [(x * 20 + y) as u8; 3]);
        for colour in [Colour::Raw, Colour::Lab] {
            let spec = InputSpec {
                colour,
                ..InputSpec::default()
            };
            let mut builder = PlaneBuilder::new(&spec);
            let mut a = Planes::new(grey.size(), &spec, ALL);
            let mut b = a.clone();
            builder.fill(&mut a, Pixels::Grey(&grey), false);
            builder.fill(&mut b, Pixels::Rgb(&rgb), false);
            assert_eq!(a.sums, b.sums);
        }
    }
}
