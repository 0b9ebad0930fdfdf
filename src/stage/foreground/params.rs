use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::frame::{PixelKind, Size};

/// Most modes a pixel may have.
pub const MAX_MODES: usize = 5;

/// Parameters of the foreground stage. Variances and thresholds are in grey levels of 8 bits,
/// whatever the pixels are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Whether the stage runs; left out, it runs where a drive has a mono camera.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// File of the model: read before the first frame where it exists, written after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<PathBuf>,
    /// Most modes a pixel, 1 to 5.
    pub modes: usize,
    /// Frames that the model remembers: the automatic learning rate is `1 / min(2 n, history)`
    /// in the n-th frame.
    pub history_frames: u32,
    /// A fixed learning rate, 0 to 1; 0 freezes the model. Left out, it is automatic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f32>,
    /// Frames after which the mask is valid.
    pub warm_up_frames: u32,
    /// A pixel nearer to a mode than this many variances matches it (squared Mahalanobis).
    pub match_threshold: f32,
    /// A pixel nearer to a mode of the background than this many variances is background.
    pub background_threshold: f32,
    /// Share of the weight, from the heaviest mode down, that is background.
    pub background_ratio: f32,
    /// Variance of a new mode.
    pub variance_init: f32,
    /// Least variance of a mode.
    pub variance_min: f32,
    /// Greatest variance of a mode, at most 255.
    pub variance_max: f32,
    /// How much support a mode needs to stay: this share of the history, about.
    pub complexity_prior: f32,
    /// Whether darker background of the same colour is shadow; left out: in colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<bool>,
    /// The darkest that a shadow is, as a share of the background's brightness.
    pub shadow_ratio: f32,
    /// The brightest that a shadow is, as a share of the background's brightness.
    pub shadow_max_ratio: f32,
    /// A shadow is nearer to the darkened background than this many (darkened) variances.
    pub shadow_threshold: f32,
    /// Side of the median that cleans the mask up: 0 (none), 3 or 5.
    pub median_px: u32,
    /// Whether changes of the camera's gain are evened out.
    pub gain_compensation: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            enabled: None,
            snapshot: None,
            modes: 5,
            history_frames: 500,
            learning_rate: None,
            warm_up_frames: 10,
            match_threshold: 6.0,
            background_threshold: 36.0,
            background_ratio: 0.6,
            variance_init: 15.0,
            variance_min: 4.0,
            variance_max: 60.0,
            complexity_prior: 0.05,
            shadow: None,
            shadow_ratio: 0.5,
            shadow_max_ratio: 0.9,
            shadow_threshold: 4.0,
            median_px: 5,
            gain_compensation: true,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// A parameter is out of its range.
    #[error("foreground.{key} is {found}, expected {expected}")]
    Range {
        /// The parameter's key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// An image size that can't be worked on.
    #[error("image size is {0}, expected 1x1 to 65535x65535")]
    Size(Size),
    /// A mask of another size than the images.
    #[error("the mask is {found} px, the images are {expected}")]
    Mask {
        /// The mask's size.
        found: Size,
        /// The images' size.
        expected: Size,
    },
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// With the first key that is out of its range.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let check = |key, found: f64, low: f64, high: f64, expected| {
            if (low..=high).contains(&found) {
                Ok(())
            } else {
                Err(ParamsError::Range {
                    key,
                    found,
                    expected,
                })
            }
        };
        check("modes", self.modes as f64, 1.0, MAX_MODES as f64, "1 to 5")?;
        let frames = |key, n: u32| check(key, n.into(), 1.0, 1e6, "1 to 1000000");
        frames("history_frames", self.history_frames)?;
        frames("warm_up_frames", self.warm_up_frames)?;
        let share = |key, v: f32| check(key, v.into(), 0.0, 1.0, "0 to 1");
        share("learning_rate", self.learning_rate.unwrap_or(0.0))?;
        let threshold = |key, v: f32| check(key, v.into(), 0.01, 1e4, "0.01 to 10000");
        threshold("match_threshold", self.match_threshold)?;
        threshold("background_threshold", self.background_threshold)?;
        share("background_ratio", self.background_ratio)?;
        let variance = |key, v: f32, low: f32| {
            check(
                key,
                v.into(),
                low.into(),
                255.0,
                "1 to 255, from variance_min over variance_init to variance_max",
            )
        };
        variance("variance_min", self.variance_min, 1.0)?;
        variance("variance_init", self.variance_init, self.variance_min)?;
        variance("variance_max", self.variance_max, self.variance_init)?;
        check(
            "complexity_prior",
            self.complexity_prior.into(),
            0.0,
            0.5,
            "0 to 0.5",
        )?;
        let ratio = |key, v: f32| check(key, v.into(), 0.1, 1.0, "0.1 to 1");
        ratio("shadow_ratio", self.shadow_ratio)?;
        ratio("shadow_max_ratio", self.shadow_max_ratio)?;
        threshold("shadow_threshold", self.shadow_threshold)?;
        if ![0, 3, 5].contains(&self.median_px) {
            return Err(ParamsError::Range {
                key: "median_px",
                found: self.median_px.into(),
                expected: "0, 3 or 5",
            });
        }
        Ok(())
    }

    /// Whether shadows are looked for in pixels of this kind.
    pub fn shadow_of(&self, kind: PixelKind) -> bool {
        self.shadow.unwrap_or(kind == PixelKind::Rgb8)
    }
}
