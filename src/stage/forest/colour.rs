//! RGB to CIELab in whole numbers, by tables that the host builds.
//!
//! sRGB (IEC 61966-2-1) under D65: `t = M lin(rgb) / white`, `L = 116 f(t_y) - 16`,
//! `a = 500 (f(t_x) - f(t_y))`, `b = 200 (f(t_y) - f(t_z))` (CIE 15, 8.2.1). `lin` is a table of
//! 256 entries in 1/65536, each row of `M` is divided by its sum (white is `t = 1`) and rounded
//! to 1/65536, and `f` is a table over `t` in 1/16384, of entries in 1/65536.

/// Steps of a sample in one unit of L, a or b.
pub const LAB_ONE: u16 = 64;

/// What is added to a and b, so that they are above 0, in steps.
pub const LAB_BIAS: u16 = 128 * LAB_ONE;

const F_STEPS: usize = 1 << 14;

/// Rows x, y, z of linear sRGB to XYZ, D65.
const MATRIX: [[f64; 3]; 3] = [
    [0.412_456_4, 0.357_576_1, 0.180_437_5],
    [0.212_672_9, 0.715_152_2, 0.072_175_0],
    [0.019_333_9, 0.119_192_0, 0.950_304_1],
];

/// Tables of the conversion.
#[derive(Clone, Debug)]
pub struct LabTables {
    linear: [u32; 256],
    matrix: [[u32; 3]; 3],
    f: Vec<u32>,
}

impl Default for LabTables {
    fn default() -> Self {
        Self::new()
    }
}

impl LabTables {
    /// Builds them.
    pub fn new() -> Self {
        let one = 65_536.0;
        let linear = std::array::from_fn(|v| {
            let v = v as f64 / 255.0;
            let linear = if v <= 0.040_45 {
                v / 12.92
            } else {
                libm::pow((v + 0.055) / 1.055, 2.4)
            };
            libm::round(linear * one) as u32
        });
        let matrix = MATRIX.map(|row| {
            let sum = row[0] + row[1] + row[2];
            let mut fixed = row.map(|m| libm::round(m / sum * one) as u32);
            // White is exactly 1.
            fixed[1] = 65_536 - fixed[0] - fixed[2];
            fixed
        });
        let f = (0..=F_STEPS)
            .map(|t| {
                let t = t as f64 / F_STEPS as f64;
                let f = if t > 216.0 / 24_389.0 {
                    libm::cbrt(t)
                } else {
                    (24_389.0 / 27.0 * t + 16.0) / 116.0
                };
                libm::round(f * one) as u32
            })
            .collect();
        Self { linear, matrix, f }
    }

    /// All tables one behind the other, as the kernels read them.
    #[cfg(feature = "cuda")]
    pub(super) fn words(&self) -> Vec<u32> {
        let matrix = self.matrix.iter().flatten();
        let all = self.linear.iter().chain(matrix).chain(&self.f);
        all.copied().collect()
    }

    /// L in 1/64, a and b in 1/64 with 128 added.
    #[inline]
    pub fn lab(&self, rgb: [u8; 3]) -> [u16; 3] {
        let [r, g, b] = rgb.map(|v| self.linear[usize::from(v)]);
        let [x, y, z] = self.matrix.map(|[p, q, s]| {
            // At most 65536^2: 64 bits.
            let sum = u64::from(p) * u64::from(r)
                + u64::from(q) * u64::from(g)
                + u64::from(s) * u64::from(b);
            // 1/2^32 to 1/2^14, rounded.
            let t = (sum + (1 << 17)) >> 18;
            i64::from(self.f[t as usize])
        });
        // 1/65536 to 1/64, rounded.
        let steps = |v: i64| (v + 512) >> 10;
        let bias = i64::from(LAB_BIAS);
        [
            steps(116 * y - 16 * 65_536).clamp(0, 65_535) as u16,
            (steps(500 * (x - y)) + bias).clamp(0, 65_535) as u16,
            (steps(200 * (y - z)) + bias).clamp(0, 65_535) as u16,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_colours() {
        let tables = LabTables::new();
        // Reference values of the CIE formulas for the sRGB corners.
        for (rgb, lab) in [
            ([255, 255, 255], [100.0, 0.0, 0.0]),
            ([0, 0, 0], [0.0, 0.0, 0.0]),
            ([255, 0, 0], [53.24, 80.09, 67.20]),
            ([0, 255, 0], [87.74, -86.18, 83.18]),
            ([0, 0, 255], [32.30, 79.19, -107.86]),
            ([119, 119, 119], [50.03, 0.0, 0.0]),
        ] {
            let [l, a, b] = tables.lab(rgb);
            let one = f64::from(LAB_ONE);
            let got = [
                f64::from(l) / one,
                f64::from(a) / one - 128.0,
                f64::from(b) / one - 128.0,
            ];
            for (got, want) in got.iter().zip(lab) {
                assert!((got - want).abs() < 0.2, "{rgb:?}: {got} for {want}");
            }
        }
    }

    #[test]
    fn grey_has_no_colour() {
        let tables = LabTables::new();
        for v in 0..=255u8 {
            let [_, a, b] = tables.lab([v; 3]);
            assert_eq!((a, b), (LAB_BIAS, LAB_BIAS), "{v}");
        }
    }
}
