//! What becomes of picture files: every kind, and whatever can be wrong with them.
mod common;

use proptest::prelude::*;
use roadloop::{
    frame::{Image, Size},
    picture::{self, Picture, PictureError, PictureReader, decode, grey_of},
};

/// A PNG written by hand: rows with filter 0 in stored deflate blocks, Adam7 on demand.
struct Png<'a> {
    width: usize,
    height: usize,
    depth: u8,
    colour: u8,
    interlaced: bool,
    chunks: &'a [(&'a [u8; 4], &'a [u8])],
}

impl Png<'_> {
    fn samples(&self) -> usize {
        match self.colour {
            0 | 3 => 1,
            2 => 3,
            4 => 2,
            _ => 4,
        }
    }

    /// `sample(x, y, channel)`.
    fn bytes(&self, sample: impl Fn(usize, usize, usize) -> u16) -> Vec<u8> {
        let passes: &[(usize, usize, usize, usize)] = if self.interlaced {
            &[
                (0, 0, 8, 8),
                (4, 0, 8, 8),
                (0, 4, 4, 8),
                (2, 0, 4, 4),
                (0, 2, 2, 4),
                (1, 0, 2, 2),
                (0, 1, 1, 2),
            ]
        } else {
            &[(0, 0, 1, 1)]
        };
        let mut raw = Vec::new();
        for &(x0, y0, dx, dy) in passes {
            if x0 >= self.width {
                continue;
            }
            for y in (y0..self.height).step_by(dy) {
                raw.push(0);
                let (mut held, mut bits) = (0u32, 0);
                for x in (x0..self.width).step_by(dx) {
                    for c in 0..self.samples() {
                        held = held << self.depth | u32::from(sample(x, y, c));
                        bits += u32::from(self.depth);
                        while bits >= 8 {
                            bits -= 8;
                            raw.push((held >> bits) as u8);
                        }
                    }
                }
                if bits > 0 {
                    raw.push((held << (8 - bits)) as u8);
                }
            }
        }
        let mut head = Vec::new();
        head.extend((self.width as u32).to_be_bytes());
        head.extend((self.height as u32).to_be_bytes());
        head.extend([self.depth, self.colour, 0, 0, u8::from(self.interlaced)]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        chunk(&mut file, b"IHDR", &head);
        for (name, data) in self.chunks {
            chunk(&mut file, name, data);
        }
        chunk(&mut file, b"IDAT", &zlib(&raw));
        chunk(&mut file, b"IEND", &[]);
        file
    }
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let from = file.len();
    file.extend(name);
    file.extend(data);
    let mut crc = u32::MAX;
    for &byte in &file[from..] {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    file.extend((!crc).to_be_bytes());
}

fn zlib(raw: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let blocks: Vec<&[u8]> = raw.chunks(65_535).collect();
    for (n, block) in blocks.iter().enumerate() {
        out.push(u8::from(n + 1 == blocks.len()));
        out.extend((block.len() as u16).to_le_bytes());
        out.extend((!(block.len() as u16)).to_le_bytes());
        out.extend(*block);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for &byte in raw {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn png(width: usize, height: usize, depth: u8, colour: u8) -> Png<'static> {
    Png {
        width,
        height,
        depth,
        colour,
        interlaced: false,
        chunks: &[],
    }
}

fn grey8(width: usize, height: usize, pixels: &[u8]) -> Picture {
    Picture::Grey8(Image::from_vec(width, height, pixels.to_vec()).unwrap())
}

fn rgb8(width: usize, height: usize, pixels: &[[u8; 3]]) -> Picture {
    Picture::Rgb8(Image::from_vec(width, height, pixels.to_vec()).unwrap())
}

#[test]
fn grey_png_of_few_bits_is_stretched() {
    let one = png(3, 1, 1, 0).bytes(|x, _, _| (x % 2) as u16);
    assert_eq!(decode(&one).unwrap(), grey8(3, 1, &[0, 255, 0]));
    let two = png(5, 1, 2, 0).bytes(|x, _, _| (x % 4) as u16);
    assert_eq!(decode(&two).unwrap(), grey8(5, 1, &[0, 85, 170, 255, 0]));
    let four = png(16, 1, 4, 0).bytes(|x, _, _| x as u16);
    let stretched: Vec<u8> = (0..16).map(|v| 17 * v).collect();
    assert_eq!(decode(&four).unwrap(), grey8(16, 1, &stretched));
    let eight = png(2, 2, 8, 0).bytes(|x, y, _| (100 * y + x) as u16);
    assert_eq!(decode(&eight).unwrap(), grey8(2, 2, &[0, 1, 100, 101]));
}

#[test]
fn sixteen_bit_grey_png_keeps_its_samples() {
    let file = png(3, 1, 16, 0).bytes(|x, _, _| [0, 256, 65_535][x]);
    let expected = Image::from_vec(3, 1, vec![0, 256, 65_535]).unwrap();
    assert_eq!(decode(&file).unwrap(), Picture::Grey16(expected.clone()));
    let alpha = png(3, 1, 16, 4).bytes(|x, _, c| if c == 0 { [0, 256, 65_535][x] } else { 7 });
    assert_eq!(decode(&alpha).unwrap(), Picture::Grey16(expected));
}

#[test]
fn alpha_is_dropped() {
    let sample = |x: usize, _: usize, c: usize| [10 + x, 20, 30, 0][c] as u16;
    let pixels = [[10, 20, 30], [11, 20, 30]];
    assert_eq!(
        decode(&png(2, 1, 8, 2).bytes(sample)).unwrap(),
        rgb8(2, 1, &pixels)
    );
    assert_eq!(
        decode(&png(2, 1, 8, 6).bytes(sample)).unwrap(),
        rgb8(2, 1, &pixels)
    );
    let grey = png(2, 1, 8, 4).bytes(|x, _, c| if c == 0 { 9 + x as u16 } else { 0 });
    assert_eq!(decode(&grey).unwrap(), grey8(2, 1, &[9, 10]));
}

#[test]
fn sixteen_bit_colour_is_rounded_to_eight() {
    let sample = |x: usize, _: usize, _: usize| [0, 128, 129, 65_535][x];
    let expected = rgb8(4, 1, &[[0; 3], [0; 3], [1; 3], [255; 3]]);
    assert_eq!(decode(&png(4, 1, 16, 2).bytes(sample)).unwrap(), expected);
    assert_eq!(decode(&png(4, 1, 16, 6).bytes(sample)).unwrap(), expected);
}

#[test]
fn palettes_become_colour() {
    let palette = [1, 2, 3, 40, 50, 60, 255, 254, 253];
    let expected = rgb8(3, 1, &[[255, 254, 253], [1, 2, 3], [40, 50, 60]]);
    for depth in [2, 4, 8] {
        for transparent in [false, true] {
            let chunks: &[(&[u8; 4], &[u8])] = &[(b"PLTE", &palette), (b"tRNS", &[0, 128])];
            let file = Png {
                chunks: &chunks[..1 + usize::from(transparent)],
                ..png(3, 1, depth, 3)
            };
            let file = file.bytes(|x, _, _| [2, 0, 1][x]);
            assert_eq!(decode(&file).unwrap(), expected, "{depth} bits");
        }
    }
}

#[test]
fn a_colour_beyond_its_palette_is_damage() {
    let palette = [1, 2, 3, 40, 50, 60, 255, 254, 253];
    for (depth, interlaced) in [(2, false), (4, true), (8, false)] {
        let chunks: &[(&[u8; 4], &[u8])] = &[(b"PLTE", &palette)];
        let file = Png {
            chunks,
            interlaced,
            ..png(5, 4, depth, 3)
        }
        .bytes(|x, y, _| if (x, y) == (4, 2) { 3 } else { 2 });
        assert_eq!(
            text(&file),
            "damaged PNG: colour 3 in row 2, of a palette of 3"
        );
    }
}

#[test]
fn interlaced_png_is_the_same_picture() {
    for (w, h) in [(1, 1), (3, 5), (8, 8), (9, 17), (31, 2)] {
        for (depth, colour) in [(1, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (8, 6)] {
            let sample = |x: usize, y: usize, c: usize| {
                let v = 7919 * x + 104_729 * y + 31 * c;
                (v & ((1 << depth) - 1)) as u16
            };
            let plain = png(w, h, depth, colour);
            let interlaced = Png {
                interlaced: true,
                ..png(w, h, depth, colour)
            };
            assert_eq!(
                decode(&interlaced.bytes(sample)).unwrap(),
                decode(&plain.bytes(sample)).unwrap(),
                "{w}x{h}, {depth} bits, colour type {colour}"
            );
        }
    }
}

#[test]
fn text_and_binary_pgm_and_ppm() {
    let comments = b"P2 # by hand\n# 9 9\n3\t1\r255\n0 7 # seven\n255";
    assert_eq!(decode(comments).unwrap(), grey8(3, 1, &[0, 7, 255]));
    assert_eq!(
        decode(b"P5 2 1 255 \n\xFF").unwrap(),
        grey8(2, 1, &[10, 255])
    );
    assert_eq!(
        decode(b"P2 4 1 3 0 1 2 3").unwrap(),
        grey8(4, 1, &[0, 85, 170, 255])
    );
    assert_eq!(
        decode(b"P5 2 1 15 \x01\x0F").unwrap(),
        grey8(2, 1, &[17, 255])
    );
    let deep = Picture::Grey16(Image::from_vec(2, 1, vec![300, 4095]).unwrap());
    assert_eq!(decode(b"P2 2 1 4095 300 4095").unwrap(), deep);
    assert_eq!(decode(b"P5 2 1 4095\n\x01\x2C\x0F\xFF").unwrap(), deep);
    assert_eq!(
        decode(b"P3 1 2 255 1 2 3 4 5 6").unwrap(),
        rgb8(1, 2, &[[1, 2, 3], [4, 5, 6]])
    );
    assert_eq!(
        decode(b"P6 1 1 255\n\x01\x02\x03").unwrap(),
        rgb8(1, 1, &[[1, 2, 3]])
    );
    assert_eq!(
        decode(b"P6 1 1 65535\n\x00\x80\x00\x81\xFF\xFF").unwrap(),
        rgb8(1, 1, &[[0, 1, 255]])
    );
    // What comes after the first picture is another picture.
    assert_eq!(
        decode(b"P5 1 1 255 \x05P5 9 9 255").unwrap(),
        grey8(1, 1, &[5])
    );
}

/// An uncompressed BMP: rows from the bottom, each filled up to four bytes.
fn bmp(width: usize, height: i32, bits: u16, palette: &[[u8; 4]], rows: &[&[u8]]) -> Vec<u8> {
    let start = 54 + 4 * palette.len() as u32;
    let mut bytes = b"BM\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(start.to_le_bytes());
    bytes.extend(40u32.to_le_bytes());
    bytes.extend((width as u32).to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend((palette.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(palette.iter().flatten());
    for row in rows {
        bytes.extend(*row);
        let written = bytes.len() - start as usize;
        bytes.resize(start as usize + written.next_multiple_of(4), 0);
    }
    bytes
}

#[test]
fn bmp_files() {
    let grey: Vec<[u8; 4]> = (0..=255).map(|v| [v, v, v, 0]).collect();
    let file = bmp(3, 2, 8, &grey, &[&[4, 5, 6], &[1, 2, 255]]);
    assert_eq!(decode(&file).unwrap(), grey8(3, 2, &[1, 2, 255, 4, 5, 6]));
    // A negative height: from the top.
    let file = bmp(3, -2, 8, &grey, &[&[1, 2, 3], &[4, 5, 6]]);
    assert_eq!(decode(&file).unwrap(), grey8(3, 2, &[1, 2, 3, 4, 5, 6]));
    let colour = [[1, 2, 3, 0], [255, 0, 0, 0]];
    let file = bmp(2, 1, 8, &colour, &[&[0, 1]]);
    let pixels = vec![[3, 2, 1], [0, 0, 255]];
    let expected = Picture::Rgb8(Image::from_vec(2, 1, pixels).unwrap());
    assert_eq!(decode(&file).unwrap(), expected);
    let file = bmp(2, 1, 24, &[], &[&[1, 2, 3, 255, 0, 0]]);
    assert_eq!(decode(&file).unwrap(), expected);
}

#[test]
fn a_bmp_cut_anywhere_is_an_error() {
    let grey: Vec<[u8; 4]> = (0..=255).map(|v| [v, v, v, 0]).collect();
    let file = bmp(5, 3, 8, &grey, &[&[1; 5], &[2; 5], &[3; 5]]);
    for len in 2..file.len() {
        assert!(decode(&file[..len]).is_err(), "{len} bytes");
    }
    let mut large = file.clone();
    large[18..22].copy_from_slice(&100_000u32.to_le_bytes());
    assert!(text(&large).starts_with("too large: 100000x3 px"));
    let mut old = file;
    old[14] = 12;
    assert_eq!(
        text(&old),
        "a BMP with a header of 12 bytes, expected 40 or more"
    );
}

fn text(bytes: &[u8]) -> String {
    decode(bytes).unwrap_err().to_string()
}

#[test]
fn damaged_files_say_what_is_wrong() {
    assert_eq!(text(b""), "truncated picture: the file is empty");
    assert_eq!(
        text(b"GIF89a"),
        "not a PNG, PGM, PPM, JPEG or BMP picture (begins with 47 49 46 38)"
    );
    assert_eq!(text(b"\x89PN"), "truncated PNG in its signature");
    assert_eq!(
        text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"),
        "truncated PNG in its header"
    );
    assert_eq!(text(b"P5"), "truncated PGM/PPM before its width");
    assert_eq!(text(b"P5 3"), "truncated PGM/PPM before its height");
    assert_eq!(
        text(b"P5 x"),
        "damaged PGM/PPM: 'x' at byte 3 instead of its width"
    );
    assert_eq!(text(b"P5 0 4 255 "), "a picture of 0x4 px has no pixels");
    assert_eq!(
        text(b"P5 1 1 0 "),
        "damaged PGM/PPM: maximum 0, expected 1 to 65535"
    );
    assert_eq!(
        text(b"P5 2 3 255 abcde"),
        "truncated PGM/PPM: it ends after row 2 of 3"
    );
    assert_eq!(
        text(b"P2 2 2 9 1 2 3 "),
        "truncated PGM/PPM: it ends after row 1 of 2"
    );
    assert_eq!(
        text(b"P2 2 1 9 1 10"),
        "damaged PGM/PPM: a sample of 10 in row 0, its maximum is 9"
    );
    assert_eq!(
        text(b"P5 20000 4 255 "),
        "too large: 20000x4 px; a picture may have up to 16384 px a side, 67108864 px in all, \
         and 536870912 bytes"
    );
    assert_eq!(text(b"\xFF\xD8\xFF"), "truncated JPEG: no end marker");
    let file = png(4, 9, 8, 0).bytes(|x, y, _| (x + y) as u16);
    assert_eq!(
        text(&file[..file.len() - 30]),
        "truncated PNG: it ends after row 7 of 9"
    );
}

#[test]
fn a_size_that_the_file_cannot_hold_takes_no_memory() {
    // 8192 x 8192 in some 60 bytes: were it believed, this loop would take 64 GiB.
    for _ in 0..1000 {
        let mut file = png(1, 1, 8, 0).bytes(|_, _, _| 0);
        file.truncate(8);
        let mut head = Vec::new();
        head.extend(8192u32.to_be_bytes());
        head.extend(8192u32.to_be_bytes());
        head.extend([8, 0, 0, 0, 0]);
        chunk(&mut file, b"IHDR", &head);
        chunk(&mut file, b"IDAT", &zlib(&[0]));
        chunk(&mut file, b"IEND", &[]);
        assert!(matches!(decode(&file), Err(PictureError::Truncated(_))));
        assert!(matches!(
            decode(b"P5 8192 8192 255 x"),
            Err(PictureError::Truncated(_))
        ));
        assert!(matches!(
            decode(b"P3 8192 8192 255 1 1"),
            Err(PictureError::Truncated(_))
        ));
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let mut files = vec![
        b"P2 3 2 255\n1 2 3 4 5 6\n".to_vec(),
        b"P6 2 2 255\n123456789abc".to_vec(),
    ];
    for (depth, colour) in [(4, 0), (8, 0), (16, 0), (8, 2), (16, 6)] {
        for interlaced in [false, true] {
            let png = Png {
                interlaced,
                ..png(7, 9, depth, colour)
            };
            files.push(png.bytes(|x, y, c| ((x + 3 * y + c) & 15) as u16));
        }
    }
    for file in files {
        decode(&file).unwrap();
        for cut in 0..file.len() {
            // The white space at the end of a text file is no loss, nor is a digit of its last
            // number.
            let whole = file.starts_with(b"P2") && cut >= file.len() - 1;
            assert_eq!(
                decode(&file[..cut]).is_ok(),
                whole,
                "{cut} of {}",
                file.len()
            );
        }
    }
}

#[test]
fn real_pngs_cut_or_damaged_never_panic() {
    let Some(drive) = common::data("kitti_odom_06/image_l/000000.png") else {
        return;
    };
    let mut file = std::fs::read(drive).unwrap();
    assert_eq!(decode(&file).unwrap().size(), Size::new(1226, 370));
    for n in 0..60 {
        let cut = n * (file.len() - 1) / 59;
        assert!(decode(&file[..cut]).is_err(), "{cut} of {}", file.len());
    }
    for n in 0..60 {
        let at = 8 + n * (file.len() - 9) / 59;
        file[at] ^= 0x55;
        // Checked sums find every single damage but for those in what is passed over.
        let _ = decode(&file);
        file[at] ^= 0x55;
    }
}

#[test]
fn jpeg_is_read_and_a_cut_one_refused() {
    let Some(path) = common::data("opencv_stereo/aloeL.jpg") else {
        return;
    };
    let mut file = std::fs::read(&path).unwrap();
    assert_eq!(picture::size(&path).unwrap(), Size::new(1282, 1110));
    let picture = picture::read(&path).unwrap();
    assert_eq!(picture.kind(), "RGB");
    assert_eq!(picture.size(), Size::new(1282, 1110));
    for n in 0..20 {
        let cut = n * (file.len() - 2) / 19;
        assert!(decode(&file[..cut]).is_err(), "{cut} of {}", file.len());
    }
    // What is missing is missing with an end marker put after it too, be it a quarter or a row
    // of blocks; fill bytes before the marker are allowed.
    for cut in [
        file.len() / 4,
        file.len() / 2,
        file.len() - 2_000,
        file.len() - 60,
    ] {
        let mut file = file[..cut].to_vec();
        file.extend([0xFF, 0xD9]);
        let error = decode(&file).unwrap_err();
        assert!(
            matches!(error, PictureError::Truncated(_)),
            "{cut}: {error}"
        );
    }
    let mut filled = file[..file.len() - 2].to_vec();
    filled.extend([0xFF, 0xFF, 0xFF, 0xD9]);
    assert!(decode(&filled).unwrap() == picture);
    for n in 0..20 {
        let at = 2 + n * (file.len() - 3) / 19;
        file[at] ^= 0x55;
        let _ = decode(&file);
        file[at] ^= 0x55;
    }
    let grey = common::data("opencv_stereo/left01.jpg").unwrap();
    let picture = picture::read(&grey).unwrap();
    assert_eq!(
        (picture.kind(), picture.size()),
        ("8-bit grey", Size::new(640, 480))
    );
}

#[test]
fn content_decides_not_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("picture.png");
    std::fs::write(&path, b"P5 2 1 255 ab").unwrap();
    assert_eq!(picture::read(&path).unwrap(), grey8(2, 1, b"ab"));
    assert_eq!(picture::size(&path).unwrap(), Size::new(2, 1));
    let error = picture::read(dir.path()).unwrap_err().to_string();
    assert_eq!(error, "not a file but a folder; expected a regular file");
    let error = picture::read(&dir.path().join("none.png")).unwrap_err();
    assert!(matches!(error, PictureError::Io(_)), "{error}");
}

#[test]
fn a_reader_gives_the_same_whatever_it_read_before() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<Vec<u8>> = vec![
        png(5, 4, 8, 0).bytes(|x, y, _| (x * y) as u16),
        png(5, 4, 16, 2).bytes(|x, y, c| (x * y * c) as u16),
        b"P5 2 1 255 ab".to_vec(),
        png(5, 4, 16, 0).bytes(|x, y, _| (x + y) as u16),
        b"P5 2 1 255 a".to_vec(),
        png(5, 4, 8, 0).bytes(|x, _, _| x as u16),
    ];
    let mut reader = PictureReader::new();
    let mut picture = Picture::default();
    for file in files {
        let path = dir.path().join("p");
        std::fs::write(&path, &file).unwrap();
        match (reader.read_into(&path, &mut picture), decode(&file)) {
            (Ok(()), Ok(alone)) => assert_eq!(picture, alone),
            (read, alone) => assert!(read.is_err() && alone.is_err()),
        }
    }
}

#[test]
fn grey_of_colour() {
    assert_eq!(grey_of([255; 3]), 255);
    assert_eq!(grey_of([0; 3]), 0);
    assert_eq!(
        [[255, 0, 0], [0, 255, 0], [0, 0, 255]].map(grey_of),
        [77, 149, 29]
    );
    assert!((0..=255).all(|v| grey_of([v; 3]) == v));
}

fn sized<T: std::fmt::Debug>(
    pixel: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = (usize, usize, Vec<T>)> {
    (1usize..40, 1usize..40).prop_flat_map(move |(w, h)| {
        (
            Just(w),
            Just(h),
            prop::collection::vec(pixel.clone(), w * h),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(
        (w, h, grey) in sized(any::<u8>()),
        (cw, ch, colour) in sized(any::<[u8; 3]>()),
        (dw, dh, deep) in sized(1u16..),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.png");
        let image = Image::from_vec(w, h, grey.clone()).unwrap();
        roadloop::frame::png::write_grey(&path, &image).unwrap();
        prop_assert_eq!(picture::read(&path).unwrap(), Picture::Grey8(image.clone()));
        let mut pgm = format!("P5\n{w} {h}\n255\n").into_bytes();
        pgm.extend(&grey);
        prop_assert_eq!(decode(&pgm).unwrap(), Picture::Grey8(image.clone()));
        let words: Vec<String> = grey.iter().map(u8::to_string).collect();
        let pgm = format!("P2\n{w} {h} 255\n{}", words.join(" "));
        prop_assert_eq!(decode(pgm.as_bytes()).unwrap(), Picture::Grey8(image));

        let image = Image::from_vec(cw, ch, colour.clone()).unwrap();
        roadloop::frame::png::write_rgb(&path, &image).unwrap();
        prop_assert_eq!(picture::read(&path).unwrap(), Picture::Rgb8(image.clone()));
        prop_assert_eq!(picture::size(&path).unwrap(), image.size());
        let mut ppm = format!("P6 {cw} {ch} 255 ").into_bytes();
        ppm.extend(colour.as_flattened());
        prop_assert_eq!(decode(&ppm).unwrap(), Picture::Rgb8(image));

        let image = Image::from_vec(dw, dh, deep.clone()).unwrap();
        let file = png(dw, dh, 16, 0).bytes(|x, y, _| deep[y * dw + x]);
        prop_assert_eq!(decode(&file).unwrap(), Picture::Grey16(image.clone()));
        let mut pgm = format!("P5 {dw} {dh} 65535\n").into_bytes();
        pgm.extend(deep.iter().flat_map(|d| d.to_be_bytes()));
        prop_assert_eq!(decode(&pgm).unwrap(), Picture::Grey16(image));
    }

    #[test]
    fn any_bytes_are_a_picture_or_an_error(
        head in prop::sample::select(vec![
            &b"P5 "[..], b"P2 9 9 ", b"P6 3 3 255 ", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            b"\xFF\xD8\xFF\xE0", b"\xFF\xD8\xFF\xC0\0\x0B\x08\0\x10\0\x10\x01\x01\x11\0", b"",
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = decode(&[head, &tail].concat());
    }
}
