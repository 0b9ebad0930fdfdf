use std::fmt;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Size {
    /// A size of `width` x `height`.
    pub const fn new(width: usize, height: usize) -> Self {
        Self { width, height }
    }

    /// Pixels in all.
    pub const fn area(self) -> usize {
        self.width * self.height
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// An image: row 0 is the top row, x to the right; rows lie `stride` elements apart.
///
/// Equality compares size and pixels, never the padding between rows.
#[derive(Clone)]
pub struct Image<T> {
    size: Size,
    stride: usize,
    data: Vec<T>,
}

impl<T: Copy + Default> Image<T> {
    /// An image of default (zero) pixels, rows packed.
    pub fn new(width: usize, height: usize) -> Self {
        Self::filled(width, height, T::default())
    }
}

impl<T: Copy> Image<T> {
    /// An image with every pixel `value`, rows packed.
    pub fn filled(width: usize, height: usize, value: T) -> Self {
        Self {
            size: Size::new(width, height),
            stride: width,
            data: vec![value; width * height],
        }
    }

    /// An image with every pixel `value` whose rows lie `stride` elements apart (pitched device
    /// memory, for one).
    ///
    /// # Panics
    /// When `stride` is less than `width`.
    pub fn with_stride(width: usize, height: usize, stride: usize, value: T) -> Self {
        assert!(stride >= width, "stride {stride} of {width} px");
        Self {
            size: Size::new(width, height),
            stride,
            data: vec![value; stride * height],
        }
    }

    /// Takes packed rows; `None` unless there are exactly `width * height` pixels.
    pub fn from_vec(width: usize, height: usize, data: Vec<T>) -> Option<Self> {
        (Some(data.len()) == width.checked_mul(height)).then_some(Self {
            size: Size::new(width, height),
            stride: width,
            data,
        })
    }

    /// An image whose pixel at `(x, y)` is `f(x, y)`.
    pub fn from_fn(width: usize, height: usize, mut f: impl FnMut(usize, usize) -> T) -> Self {
        let data = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| f(x, y))
            .collect();
        Self {
            size: Size::new(width, height),
            stride: width,
            data,
        }
    }

    /// The pixel at column `x` of row `y`.
    ///
    /// # Panics
    /// Outside the image.
    #[inline]
    pub fn get(&self, x: usize, y: usize) -> T {
        self.row(y)[x]
    }

    /// Sets the pixel at column `x` of row `y`.
    ///
    /// # Panics
    /// Outside the image.
    #[inline]
    pub fn set(&mut self, x: usize, y: usize, value: T) {
        self.row_mut(y)[x] = value;
    }

    /// Sets every pixel.
    pub fn fill(&mut self, value: T) {
        self.data.fill(value);
    }

    /// Copies the pixels of an image of the same size; allocates nothing.
    ///
    /// # Panics
    /// When the sizes differ.
    pub fn copy_from(&mut self, other: &Self) {
        assert_eq!(
            self.size, other.size,
            "copy between images of different sizes"
        );
        for (to, from) in self.rows_mut().zip(other.rows()) {
            to.copy_from_slice(from);
        }
    }
}

impl<T> Image<T> {
    /// Width and height.
    #[inline]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Pixels in a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.size.width
    }

    /// Rows.
    #[inline]
    pub fn height(&self) -> usize {
        self.size.height
    }

    /// Elements from the start of one row to the start of the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Row `y`, `width` pixels.
    ///
    /// # Panics
    /// Below the image.
    #[inline]
    pub fn row(&self, y: usize) -> &[T] {
        assert!(y < self.size.height, "row {y} of an image of {}", self.size);
        &self.data[y * self.stride..][..self.size.width]
    }

    /// Row `y`, `width` pixels, to write.
    ///
    /// # Panics
    /// Below the image.
    #[inline]
    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        assert!(y < self.size.height, "row {y} of an image of {}", self.size);
        &mut self.data[y * self.stride..][..self.size.width]
    }

    /// The rows from top to bottom.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[T]> + '_ {
        (0..self.size.height).map(|y| self.row(y))
    }

    /// The rows from top to bottom, to write.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [T]> + '_ {
        let Size { width, height } = self.size;
        self.data
            .chunks_mut(self.stride.max(1))
            .take(height)
            .map(move |row| &mut row[..width])
    }

    /// The pixels from the top left, row by row, without padding.
    pub fn pixels(&self) -> impl Iterator<Item = &T> + '_ {
        self.rows().flatten()
    }

    /// All elements, `stride` a row.
    #[inline]
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All elements, `stride` a row, to write.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}

impl<T: PartialEq> PartialEq for Image<T> {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size && self.rows().eq(other.rows())
    }
}

impl<T: Eq> Eq for Image<T> {}

impl<T> fmt::Debug for Image<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, stride {})", self.size, self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_an_empty_image() {
        for (w, h) in [(0, 0), (0, 3), (3, 0)] {
            let mut image = Image::<u8>::new(w, h);
            assert_eq!(image.rows().len(), h);
            assert_eq!(image.pixels().count(), 0);
            assert!(image.rows_mut().all(|row| row.is_empty()));
        }
    }

    #[test]
    fn equality_is_of_size_and_pixels() {
        let a = Image::from_fn(3, 2, |x, y| (10 * y + x) as u8);
        assert_eq!(
            Image::from_vec(3, 2, vec![0, 1, 2, 10, 11, 12]),
            Some(a.clone())
        );
        assert_ne!(a, Image::from_vec(2, 3, vec![0, 1, 2, 10, 11, 12]).unwrap());
        assert_eq!(Image::from_vec(3, 2, vec![0u8; 5]), None);
    }
}
