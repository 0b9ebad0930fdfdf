//! What cameras send: pixel formats by their V4L2 codes.
use serde::{Deserialize, Serialize};

/// Which colours the top left 2 x 2 pixels of a Bayer image have, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the colours in their order")]
pub enum Bayer {
    Rggb,
    Grbg,
    Gbrg,
    Bggr,
}

/// How the bytes of a picture lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// One byte a pixel.
    Bytes,
    /// Two bytes a pixel, low byte first, this many bits in use, from bit 0.
    Words(u32),
    /// Y, U, Y, V for two pixels.
    Yuyv,
    /// U, Y, V, Y for two pixels.
    Uyvy,
    /// Rows of Y, then half as many rows of U, V pairs, all in one plane.
    Nv12,
}

/// A pixel format that is understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE", try_from = "String")]
#[expect(missing_docs, reason = "the names of the V4L2 documentation")]
pub enum PixelFormat {
    #[default]
    Grey,
    Y10,
    Y12,
    Y16,
    Yuyv,
    Uyvy,
    Nv12,
    Rggb8,
    Grbg8,
    Gbrg8,
    Bggr8,
    Rggb10,
    Grbg10,
    Gbrg10,
    Bggr10,
    Rggb12,
    Grbg12,
    Gbrg12,
    Bggr12,
}

impl PixelFormat {
    /// All formats.
    pub const ALL: [Self; 19] = [
        Self::Grey,
        Self::Y10,
        Self::Y12,
        Self::Y16,
        Self::Yuyv,
        Self::Uyvy,
        Self::Nv12,
        Self::Rggb8,
        Self::Grbg8,
        Self::Gbrg8,
        Self::Bggr8,
        Self::Rggb10,
        Self::Grbg10,
        Self::Gbrg10,
        Self::Bggr10,
        Self::Rggb12,
        Self::Grbg12,
        Self::Gbrg12,
        Self::Bggr12,
    ];

    /// The V4L2 code.
    pub const fn fourcc(self) -> [u8; 4] {
        match self {
            Self::Grey => *b"GREY",
            Self::Y10 => *b"Y10 ",
            Self::Y12 => *b"Y12 ",
            Self::Y16 => *b"Y16 ",
            Self::Yuyv => *b"YUYV",
            Self::Uyvy => *b"UYVY",
            Self::Nv12 => *b"NV12",
            Self::Rggb8 => *b"RGGB",
            Self::Grbg8 => *b"GRBG",
            Self::Gbrg8 => *b"GBRG",
            Self::Bggr8 => *b"BA81",
            Self::Rggb10 => *b"RG10",
            Self::Grbg10 => *b"BA10",
            Self::Gbrg10 => *b"GB10",
            Self::Bggr10 => *b"BG10",
            Self::Rggb12 => *b"RG12",
            Self::Grbg12 => *b"BA12",
            Self::Gbrg12 => *b"GB12",
            Self::Bggr12 => *b"BG12",
        }
    }

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grey => "GREY",
            Self::Y10 => "Y10",
            Self::Y12 => "Y12",
            Self::Y16 => "Y16",
            Self::Yuyv => "YUYV",
            Self::Uyvy => "UYVY",
            Self::Nv12 => "NV12",
            Self::Rggb8 => "RGGB8",
            Self::Grbg8 => "GRBG8",
            Self::Gbrg8 => "GBRG8",
            Self::Bggr8 => "BGGR8",
            Self::Rggb10 => "RGGB10",
            Self::Grbg10 => "GRBG10",
            Self::Gbrg10 => "GBRG10",
            Self::Bggr10 => "BGGR10",
            Self::Rggb12 => "RGGB12",
            Self::Grbg12 => "GRBG12",
            Self::Gbrg12 => "GBRG12",
            Self::Bggr12 => "BGGR12",
        }
    }

    /// The format of a V4L2 code.
    pub fn of_fourcc(code: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.fourcc() == code)
    }

    /// How its bytes lie.
    pub const fn packing(self) -> Packing {
        match self {
            Self::Grey | Self::Rggb8 | Self::Grbg8 | Self::Gbrg8 | Self::Bggr8 => Packing::Bytes,
            Self::Y10 | Self::Rggb10 | Self::Grbg10 | Self::Gbrg10 | Self::Bggr10 => {
                Packing::Words(10)
            }
            Self::Y12 | Self::Rggb12 | Self::Grbg12 | Self::Gbrg12 | Self::Bggr12 => {
                Packing::Words(12)
            }
            Self::Y16 => Packing::Words(16),
            Self::Yuyv => Packing::Yuyv,
            Self::Uyvy => Packing::Uyvy,
            Self::Nv12 => Packing::Nv12,
        }
    }

    /// Its colour filter, where it has one.
    pub const fn bayer(self) -> Option<Bayer> {
        match self {
            Self::Rggb8 | Self::Rggb10 | Self::Rggb12 => Some(Bayer::Rggb),
            Self::Grbg8 | Self::Grbg10 | Self::Grbg12 => Some(Bayer::Grbg),
            Self::Gbrg8 | Self::Gbrg10 | Self::Gbrg12 => Some(Bayer::Gbrg),
            Self::Bggr8 | Self::Bggr10 | Self::Bggr12 => Some(Bayer::Bggr),
            _ => None,
        }
    }

    /// Whether it has colour.
    pub const fn has_colour(self) -> bool {
        self.bayer().is_some()
            || matches!(
                self.packing(),
                Packing::Yuyv | Packing::Uyvy | Packing::Nv12
            )
    }

    /// The shift that brings a sample of it to 8 bits, where nothing else is configured.
    pub const fn shift_bits(self) -> u32 {
        match self.packing() {
            Packing::Words(bits) => bits - 8,
            _ => 0,
        }
    }

    /// Bytes that hold the pixels of a row.
    pub const fn row_bytes(self, width: usize) -> usize {
        match self.packing() {
            Packing::Bytes | Packing::Nv12 => width,
            Packing::Words(_) => 2 * width,
            // Pixels come in pairs.
            Packing::Yuyv | Packing::Uyvy => 4 * width.div_ceil(2),
        }
    }

    /// Bytes of a picture whose rows lie `stride` bytes apart, up to the last pixel's: what a
    /// driver must fill at least.
    pub const fn picture_bytes(self, width: usize, height: usize, stride: usize) -> usize {
        let (rows, last) = match self.packing() {
            Packing::Nv12 => (height + height.div_ceil(2), 2 * width.div_ceil(2)),
            _ => (height, self.row_bytes(width)),
        };
        if rows == 0 {
            return 0;
        }
        (rows - 1) * stride + last
    }
}

/// By name or V4L2 code, in upper or lower case.
impl TryFrom<String> for PixelFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| {
            let code = format.fourcc();
            let code = code.trim_ascii_end();
            format.name().eq_ignore_ascii_case(&text) || code.eq_ignore_ascii_case(text.as_bytes())
        });
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("format {text:?}, expected one of {names}")
        })
    }
}

impl std::fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_all_different_and_come_back() {
        for format in PixelFormat::ALL {
            assert_eq!(PixelFormat::of_fourcc(format.fourcc()), Some(format));
            let text = toml::Value::try_from(format).unwrap();
            assert_eq!(text.as_str(), Some(format.name()));
        }
        assert_eq!(PixelFormat::of_fourcc(*b"MJPG"), None);
        let of = |text: &str| PixelFormat::try_from(text.to_owned());
        assert_eq!(of("grey"), Ok(PixelFormat::Grey));
        assert_eq!(of("RG10"), Ok(PixelFormat::Rggb10));
        assert_eq!(of("y16"), Ok(PixelFormat::Y16));
        assert!(of("MJPG").unwrap_err().contains("RGGB12"));
    }

    #[test]
    fn bytes_of_pictures() {
        use PixelFormat::*;
        for (format, width, height, stride, bytes) in [
            (Grey, 5, 3, 8, 2 * 8 + 5),
            (Rggb12, 5, 3, 16, 2 * 16 + 10),
            (Yuyv, 5, 2, 12, 24),
            (Nv12, 4, 4, 6, 5 * 6 + 4),
            (Nv12, 5, 3, 6, 4 * 6 + 6),
            (Y16, 4, 0, 8, 0),
        ] {
            assert_eq!(
                format.picture_bytes(width, height, stride),
                bytes,
                "{format}"
            );
        }
    }
}
