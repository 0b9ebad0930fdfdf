//! The compiled kernels that this program carries, by toolkit; `build.rs` writes the table.

/// What one toolkit made.
pub(super) struct Toolkit {
    /// CUDA version.
    pub version: (u32, u32),
    /// Compute capabilities that it has machine code for.
    pub archs: &'static [u32],
    /// Compute capability of the PTX besides, if any.
    pub ptx: Option<u32>,
    /// Fatbins by the name of the kernel file.
    pub images: &'static [(&'static str, &'static dyn Image)],
}

/// Bytes, aligned as the driver reads them.
#[repr(C, align(64))]
pub(super) struct Aligned<const N: usize>(pub [u8; N]);

/// A fatbin of whatever size.
pub(super) trait Image: Sync {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
}

impl<const N: usize> Image for Aligned<N> {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Toolkit {
    /// Whether there is machine code that this GPU runs: made for the same major version, and
    /// for its minor version or (except on Jetsons, whose versions stand alone) an older one.
    pub fn has_code_for(&self, arch: u32) -> bool {
        const JETSON: [u32; 6] = [53, 62, 72, 87, 101, 110];
        self.archs.iter().any(|&a| {
            a == arch
                || (a / 10 == arch / 10
                    && a < arch
                    && !JETSON.contains(&a)
                    && !JETSON.contains(&arch))
        })
    }
}

include!(concat!(env!("OUT_DIR"), "/images.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_goes_by_architecture() {
        let toolkit = |archs| Toolkit {
            version: (12, 4),
            archs,
            ptx: None,
            images: &[],
        };
        for (archs, arch, expected) in [
            (&[87, 90][..], 87, true),
            (&[87, 90], 90, true),
            (&[87, 90], 86, false),
            (&[80], 86, true),
            (&[80], 87, false),
            (&[87], 89, false),
            (&[90], 100, false),
            (&[72], 75, false),
        ] {
            assert_eq!(
                toolkit(archs).has_code_for(arch),
                expected,
                "{archs:?} on {arch}"
            );
        }
    }

    #[test]
    fn every_toolkit_has_every_kernel_file() {
        assert!(!TOOLKITS.is_empty());
        for toolkit in TOOLKITS {
            assert!(
                toolkit.images.iter().any(|i| i.0 == "selftest"),
                "{:?}",
                toolkit.version
            );
            for (name, image) in toolkit.images {
                // The magic number of a fatbin.
                assert_eq!(&image.bytes()[..4], [0x50, 0xed, 0x55, 0xba], "{name}");
                assert_eq!(image.bytes().as_ptr() as usize % 64, 0, "{name}");
            }
        }
        let ptx = TOOLKITS.iter().filter(|t| t.ptx.is_some()).count();
        assert_eq!(ptx, 1, "PTX of the oldest toolkit alone");
    }
}
