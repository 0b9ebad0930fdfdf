//! Pictures to page-locked memory and back, rows one after the other.
use crate::frame::{Image, MonoImage};

/// An image's rows one after the other.
pub(super) fn pack<T: Copy>(image: &Image<T>, to: &mut [T]) {
    for (row, to) in image.rows().zip(to.chunks_exact_mut(image.width().max(1))) {
        to.copy_from_slice(row);
    }
}

/// The way back.
pub(super) fn unpack<T: Copy>(from: &[T], image: &mut Image<T>) {
    let width = image.width().max(1);
    for (row, from) in image.rows_mut().zip(from.chunks_exact(width)) {
        row.copy_from_slice(from);
    }
}

/// A picture's bytes, row after row, as the kernels read them.
pub(super) fn pack_mono(image: &MonoImage, to: &mut [u8]) {
    match image {
        MonoImage::Grey8(image) => pack(image, to),
        MonoImage::Grey16(image) => {
            let mut to = to.as_chunks_mut::<2>().0.iter_mut();
            for row in image.rows() {
                for (pixel, to) in row.iter().zip(&mut to) {
                    *to = pixel.to_le_bytes();
                }
            }
        }
        MonoImage::Rgb8(image) => pack(image, to.as_chunks_mut::<3>().0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_packed_as_the_kernels_read_them() {
        let mut grey = Image::with_stride(2, 2, 5, 9u16);
        grey.set(0, 0, 0x1234);
        grey.set(1, 1, 0xabcd);
        let mut to = [7; 9];
        pack_mono(&MonoImage::Grey16(grey), &mut to[..8]);
        assert_eq!(to, [0x34, 0x12, 9, 0, 9, 0, 0xcd, 0xab, 7]);
        let colour = Image::from_fn(2, 1, |x, _| [x as u8, 5, 6]);
        let mut to = [0; 6];
        pack_mono(&MonoImage::Rgb8(colour), &mut to);
        assert_eq!(to, [0, 5, 6, 1, 5, 6]);
    }
}
