//! What it costs to convert a picture as it comes from the camera, by format; in one thread.
//!
//! `cargo run --release --example capture_time [WIDTH HEIGHT]` prints the least time of many
//! pictures, ms.
use std::time::{Duration, Instant};

use roadloop::{
    frame::{Image, Size},
    source::cameras::{Converter, PixelFormat},
};

fn main() {
    let mut sizes = std::env::args().skip(1).map_while(|a| a.parse().ok());
    let width = sizes.next().unwrap_or(1280);
    let size = Size::new(width, sizes.next().unwrap_or(720));
    println!("{size}, ms a picture, least of 60");
    println!("{:<8} {:>7} {:>7} {:>7}", "format", "grey", "rgb", "both");
    for format in PixelFormat::ALL {
        let stride = format.row_bytes(size.width).next_multiple_of(64);
        let bytes: Vec<u8> = (0..format.picture_bytes(size.width, size.height, stride))
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        let mut converter = Converter::new(format, size, format.shift_bits());
        let mut grey = Image::new(size.width, size.height);
        let mut rgb = Image::new(size.width, size.height);
        let mut least = |with_grey: bool, with_rgb: bool| {
            let mut least = Duration::MAX;
            for _ in 0..60 {
                let start = Instant::now();
                let (grey, rgb) = (with_grey.then_some(&mut grey), with_rgb.then_some(&mut rgb));
                if let Err(e) = converter.convert(std::hint::black_box(&bytes), stride, grey, rgb) {
                    eprintln!("{format}: {e}");
                }
                least = least.min(start.elapsed());
            }
            1e3 * least.as_secs_f64()
        };
        let (grey, colour, both) = (least(true, false), least(false, true), least(true, true));
        println!("{:<8} {grey:>7.3} {colour:>7.3} {both:>7.3}", format.name());
    }
}
