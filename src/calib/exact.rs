//! A rig as one line of text that gives the same rig to the last bit: recordings keep it beside
//! their `CameraInfo`, which rounds the base line.
use nalgebra::{Matrix3, Vector3};

use super::{
    Distortion, Format, Given, Lens, Pinhole, RawPair, Rig, rectification::bouguet, rig::Model,
};
use crate::frame::{Camera, Size};

impl Rig {
    /// Rotations from the raw to the rectified cameras, left and right; `None` where the images
    /// are rectified already.
    pub fn rotations(&self) -> Option<[Matrix3<f64>; 2]> {
        let pair = self.raw_pair()?;
        Some(pair.given.map_or_else(|| bouguet(pair), |g| g.rotations))
    }

    /// All numbers of the rig, for [`Rig::from_line`].
    pub fn to_line(&self) -> String {
        let mut words = Words(String::new());
        let size = self.image_size().unwrap_or(Size::new(0, 0));
        match self.raw_pair() {
            None => {
                words.word("rectified");
                words.size(size);
                words.camera(self.rectified_camera());
            }
            Some(pair) => {
                words.word("raw");
                words.size(size);
                for lens in pair.lenses {
                    let Pinhole { fx, fy, cx, cy } = lens.pinhole;
                    words.numbers(&[fx, fy, cx, cy]);
                    words.word(match lens.distortion {
                        Distortion::None => "none",
                        Distortion::RadialTangential4(_) => "radtan4",
                        Distortion::RadialTangential5(_) => "radtan5",
                        Distortion::Rational8(_) => "rational8",
                        Distortion::Equidistant4(_) => "equidistant4",
                    });
                    words.numbers(lens.distortion.coefficients());
                }
                words.numbers(pair.rotation.as_slice());
                words.numbers(pair.translation.as_slice());
                match pair.given {
                    None => words.word("computed"),
                    Some(given) => {
                        words.word("given");
                        for r in given.rotations {
                            words.numbers(r.as_slice());
                        }
                        words.camera(Some(given.camera));
                    }
                }
            }
        }
        words.0
    }

    /// The rig of such a line; `None` where it is none, or its numbers are those of no rig.
    pub fn from_line(line: &str) -> Option<Self> {
        // Longer lines are none of ours.
        if line.len() > 4096 {
            return None;
        }
        let mut words = line.split_ascii_whitespace();
        let words = &mut words;
        let kind = words.next()?;
        let side = |word: &str| word.parse::<u32>().ok().map(|v| v as usize);
        let size = Size::new(side(words.next()?)?, side(words.next()?)?);
        let model = match kind {
            "rectified" => Model::Rectified(camera(words)?),
            "raw" => {
                let lenses = [lens(words)?, lens(words)?];
                let rotation = rotation(words)?;
                let translation = Vector3::from_column_slice(&numbers::<3>(words)?);
                // The right camera stands to the right of the left one.
                if !(Camera::BASELINE_M.contains(&translation.norm()) && translation.x < 0.0) {
                    return None;
                }
                let given = match words.next()? {
                    "computed" => None,
                    "given" => Some(Given {
                        rotations: [self::rotation(words)?, self::rotation(words)?],
                        camera: camera(words)?,
                    }),
                    _ => return None,
                };
                Model::Raw(Box::new(RawPair {
                    lenses,
                    rotation,
                    translation,
                    given,
                }))
            }
            _ => return None,
        };
        if words.next().is_some() {
            return None;
        }
        Some(Self {
            model,
            size: (size.area() > 0).then_some(size),
            format: Format::Numbers,
            warnings: Vec::new(),
        })
    }
}

struct Words(String);

impl Words {
    fn word(&mut self, word: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0 += word;
    }

    fn size(&mut self, size: Size) {
        self.word(&size.width.to_string());
        self.word(&size.height.to_string());
    }

    /// In the fewest digits that give the same number again.
    fn numbers(&mut self, numbers: &[f64]) {
        for n in numbers {
            self.word(&format!("{n:?}"));
        }
    }

    fn camera(&mut self, camera: Option<Camera>) {
        if let Some(c) = camera {
            self.numbers(&[c.focal_px, c.cx, c.cy, c.baseline_m]);
        }
    }
}

fn numbers<'a, const N: usize>(words: &mut impl Iterator<Item = &'a str>) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    for n in &mut numbers {
        *n = words.next()?.parse().ok().filter(|n: &f64| n.is_finite())?;
    }
    Some(numbers)
}

fn camera<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Camera> {
    let [focal_px, cx, cy, baseline_m] = numbers(words)?;
    let fits = Camera::FOCAL_PX.contains(&focal_px)
        && [cx, cy].iter().all(|c| Camera::PRINCIPAL_PX.contains(c))
        && Camera::BASELINE_M.contains(&baseline_m);
    fits.then_some(Camera {
        focal_px,
        cx,
        cy,
        baseline_m,
    })
}

fn lens<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Lens> {
    let [fx, fy, cx, cy] = numbers(words)?;
    let fits = [fx, fy].iter().all(|f| Camera::FOCAL_PX.contains(f))
        && [cx, cy].iter().all(|c| Camera::PRINCIPAL_PX.contains(c));
    let distortion = match words.next()? {
        "none" => Distortion::None,
        "radtan4" => Distortion::RadialTangential4(numbers(words)?),
        "radtan5" => Distortion::RadialTangential5(numbers(words)?),
        "rational8" => Distortion::Rational8(numbers(words)?),
        "equidistant4" => Distortion::Equidistant4(numbers(words)?),
        _ => return None,
    };
    fits.then_some(Lens {
        pinhole: Pinhole { fx, fy, cx, cy },
        distortion,
    })
}

fn rotation<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Matrix3<f64>> {
    let r = Matrix3::from_column_slice(&numbers::<9>(words)?);
    let off = (r * r.transpose() - Matrix3::identity()).abs().max();
    (off < 1e-6 && r.determinant() > 0.0).then_some(r)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rigs() -> impl Strategy<Value = Rig> {
        let n = || -0.3..0.3f64;
        let f = || 100.0..2000.0f64;
        (f(), f(), n(), n(), n(), 0.01..2.0f64, 0..6u8, any::<bool>()).prop_map(
            |(f, c, a, b, k, baseline, kind, given)| {
                let camera = Camera {
                    focal_px: f,
                    cx: c,
                    cy: c / 3.0,
                    baseline_m: baseline,
                };
                if kind == 0 {
                    return Rig::rectified(camera);
                }
                let pinhole = Pinhole {
                    fx: f,
                    fy: f * 1.01,
                    cx: c,
                    cy: c / 2.0,
                };
                let distortion = match kind {
                    1 => Distortion::None,
                    2 => Distortion::RadialTangential4([k, a, b, k / 7.0]),
                    3 => Distortion::RadialTangential5([k, a, b, k / 7.0, 1e-17]),
                    4 => Distortion::Rational8([k; 8]),
                    _ => Distortion::Equidistant4([k, a, b, 0.0]),
                };
                let turn = |a, b| nalgebra::Rotation3::from_euler_angles(a, b, k).into_inner();
                let pair = RawPair {
                    lenses: [Lens {
                        pinhole,
                        distortion,
                    }; 2],
                    rotation: turn(a, b),
                    translation: Vector3::new(-baseline, a / 100.0, b / 100.0),
                    given: given.then(|| Given {
                        rotations: [turn(b, a), turn(a, a)],
                        camera,
                    }),
                };
                Rig::raw(pair, Some(Size::new(640, 480)))
            },
        )
    }

    proptest! {
        #[test]
        fn a_line_gives_the_same_rig(rig in rigs()) {
            prop_assert_eq!(Rig::from_line(&rig.to_line()), Some(rig));
        }

        #[test]
        fn hostile_lines_do_no_harm(rig in rigs(), at in 0..400usize, c in any::<char>()) {
            let mut line = rig.to_line();
            if line.is_char_boundary(at.min(line.len())) {
                line.insert(at.min(line.len()), c);
            }
            if let Some(rig) = Rig::from_line(&line) {
                let _ = rig.rectification(Size::new(64, 48));
            }
        }
    }
}
