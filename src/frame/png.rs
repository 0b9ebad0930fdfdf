//! PNG files from images.
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
};

use super::{Disparity, INVALID, Image, Labels, Rgb, Size};

fn write(
    path: &Path,
    size: Size,
    colour: ::png::ColorType,
    depth: ::png::BitDepth,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut encode = || -> std::io::Result<()> {
        let mut encoder = ::png::Encoder::new(&mut file, size.width as u32, size.height as u32);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        encoder.set_compression(::png::Compression::Fast);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(bytes)?;
        writer.finish()?;
        file.flush()
    };
    encode().inspect_err(|_| remove(path))
}

/// Writes 8-bit grey.
///
/// # Errors
/// As the file system gives them.
pub fn write_grey(path: &Path, image: &Image<u8>) -> std::io::Result<()> {
    let bytes: Vec<u8> = image.pixels().copied().collect();
    write(
        path,
        image.size(),
        ::png::ColorType::Grayscale,
        ::png::BitDepth::Eight,
        &bytes,
    )
}

/// Writes 8-bit grey: for each pixel of the image the index of its class.
///
/// # Errors
/// As the file system gives them.
pub fn write_labels(path: &Path, labels: &Labels) -> std::io::Result<()> {
    let rows = 0..labels.size.height;
    let bytes: Vec<u8> = rows.flat_map(|y| labels.pixels(y)).collect();
    write(
        path,
        labels.size,
        ::png::ColorType::Grayscale,
        ::png::BitDepth::Eight,
        &bytes,
    )
}

/// Writes 16-bit grey, samples as they are.
///
/// # Errors
/// As the file system gives them.
pub fn write_grey16(path: &Path, image: &Image<u16>) -> std::io::Result<()> {
    let bytes: Vec<u8> = image.pixels().flat_map(|v| v.to_be_bytes()).collect();
    write(
        path,
        image.size(),
        ::png::ColorType::Grayscale,
        ::png::BitDepth::Sixteen,
        &bytes,
    )
}

/// Writes 8-bit colour.
///
/// # Errors
/// As the file system gives them.
pub fn write_rgb(path: &Path, image: &Rgb) -> std::io::Result<()> {
    let bytes: Vec<u8> = image.pixels().flatten().copied().collect();
    write(
        path,
        image.size(),
        ::png::ColorType::Rgb,
        ::png::BitDepth::Eight,
        &bytes,
    )
}

/// Writes 8-bit colour with transparency (255: opaque) of the same size.
///
/// # Errors
/// As the file system gives them.
pub fn write_rgba(path: &Path, image: &Rgb, alpha: &Image<u8>) -> std::io::Result<()> {
    let bytes: Vec<u8> = image
        .pixels()
        .zip(alpha.pixels())
        .flat_map(|(&[r, g, b], &a)| [r, g, b, a])
        .collect();
    write(
        path,
        image.size(),
        ::png::ColorType::Rgba,
        ::png::BitDepth::Eight,
        &bytes,
    )
}

/// Writes disparity as KITTI does: 16 bit, 1/256 px, 0 = invalid; a valid 0 becomes 1.
///
/// # Errors
/// As the file system gives them.
pub fn write_disparity(path: &Path, disparity: &Disparity) -> std::io::Result<()> {
    let bytes: Vec<u8> = disparity
        .pixels()
        .flat_map(|&d| if d == INVALID { 0 } else { d.max(1) }.to_be_bytes())
        .collect();
    write(
        path,
        disparity.size(),
        ::png::ColorType::Grayscale,
        ::png::BitDepth::Sixteen,
        &bytes,
    )
}

/// Writes pictures of one size by places in a palette, `delay_ms` each, over and over; one alone
/// is a plain picture.
///
/// # Errors
/// As the file system gives them.
pub fn write_indexed(
    path: &Path,
    size: Size,
    palette: &[[u8; 3]],
    pictures: &[Vec<u8>],
    delay_ms: u16,
) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut encode = || -> std::io::Result<()> {
        let mut encoder = ::png::Encoder::new(&mut file, size.width as u32, size.height as u32);
        encoder.set_color(::png::ColorType::Indexed);
        encoder.set_depth(::png::BitDepth::Eight);
        encoder.set_palette(palette.as_flattened());
        encoder.set_compression(::png::Compression::High);
        // Neighbours in a palette are no neighbours in colour.
        encoder.set_filter(::png::Filter::NoFilter);
        if pictures.len() > 1 {
            encoder.set_animated(pictures.len() as u32, 0)?;
            encoder.set_frame_delay(delay_ms, 1000)?;
        }
        let mut writer = encoder.write_header()?;
        for picture in pictures {
            writer.write_image_data(picture)?;
        }
        writer.finish()?;
        file.flush()
    };
    encode().inspect_err(|_| remove(path))
}

/// A part of a picture is of no use (but a device or pipe is not ours to remove).
fn remove(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|m| m.is_file()) {
        let _ = fs::remove_file(path);
    }
}
