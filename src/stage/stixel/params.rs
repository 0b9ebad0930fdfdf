use serde::{Deserialize, Serialize};

use super::math::COST_PER_NAT;

/// How the pixels of one row of a column become one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// The middle one; the mean of the two middle ones when their number is even.
    Median,
}

/// What a pixel without measurement is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidPixels {
    /// No measurement; a row of a column needs one in at least half of its pixels.
    Honoured,
    /// A measured disparity of 0, as the reference does.
    Zero,
}

/// How a disparity becomes a whole number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// The next lower step.
    Floor,
    /// The nearest step, half a step up.
    Nearest,
}

/// Whose disparity sets the spread of an object's measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SigmaOf {
    /// Each measurement's own, as the reference does.
    Measurement,
    /// The stixel's, as the paper says.
    Model,
}

/// How the ground line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoadModel {
    /// The reference's: the horizon is the next whole row downwards, the pitch enters the
    /// spread of the ground twice, sky begins two rows above the last ground row and never
    /// directly on ground.
    Reference,
    /// The horizon where it is; sky begins where ground ends, also directly on it.
    Exact,
}

/// Parameters of the stixel stage: the probabilities and spreads of the model (Hernandez-Juarez
/// et al., WACV 2017; Pfeiffer and Franke, BMVC 2011), and which of the reference's habits are
/// kept. [`Params::default`] is the repaired model, [`Params::paper`] the reference's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Width of a column, px, 1 to 255.
    pub stixel_width: usize,
    /// Length of a column's list, 1 to 65,535. A column with more stixels keeps the lowest ones,
    /// the last of them stretched to the top of the image, and is counted as overflowed.
    pub max_stixels_per_column: usize,
    /// How the pixels of one row of a column become one measurement.
    pub reduction: Reduction,
    /// What a pixel without measurement is taken for.
    pub invalid_pixels: InvalidPixels,
    /// Pixels nearer to the left border are taken as missing, px: so little is to be seen of the
    /// right image there that anything matches. Not where `invalid_pixels` is `zero`.
    pub left_border_px: usize,
    /// In columns nearer to the left border than this, px, ground and near objects whose match
    /// would lie outside the right image are expected to be missing. Not where `invalid_pixels`
    /// is `zero`.
    pub unseen_border_px: usize,
    /// How means, and measurements in the object model, become whole steps.
    pub rounding: Rounding,
    /// Steps per px of a measurement in the object model, 1 to 16.
    pub object_steps_per_px: usize,
    /// Whose disparity sets the spread of an object's measurements.
    pub object_sigma_of: SigmaOf,
    /// How the ground line is used.
    pub road_model: RoadModel,
    /// An object whose mean is below this is written as sky, px; 0 switches it off.
    pub sky_below_px: f64,
    /// Objects below this disparity are not told from sky: all that is measured on them costs as
    /// much as an outlier, px; 0 switches it off.
    pub farthest_object_px: f64,

    /// Disparity noise on objects, px.
    pub sigma_object_px: f64,
    /// Disparity noise on ground, px.
    pub sigma_ground_px: f64,
    /// Disparity noise in the sky, px.
    pub sigma_sky_px: f64,
    /// Spread of an object's depth, m; adds to its disparity noise.
    pub object_depth_m: f64,
    /// Depth within which two objects above one another are one, m.
    pub separation_m: f64,
    /// Disparity within which two objects above one another are one at any depth, px.
    pub separation_px: f64,
    /// Uncertainty of the camera's height, m.
    pub sigma_height_m: f64,
    /// Uncertainty of the camera's tilt, degrees.
    pub sigma_tilt_deg: f64,
    /// An object within this of the ground's disparity stands on it, px.
    pub ground_tolerance_px: f64,
    /// The smallest disparity of an object next to sky, px.
    pub sky_tolerance_px: f64,

    /// Rate of outliers on objects.
    pub p_outlier_object: f64,
    /// Rate of outliers on ground.
    pub p_outlier_ground: f64,
    /// Rate of outliers in the sky.
    pub p_outlier_sky: f64,
    /// Probability that the upper of two objects is the nearer one.
    pub p_order: f64,
    /// Probability that two objects above one another are within the separation; 0: never.
    pub p_same_depth: f64,
    /// Probability that an object above ground is nearer than the ground there.
    pub p_gravity: f64,
    /// Probability that an object above ground is farther than the ground there.
    pub p_below_ground: f64,
    /// Probability that an object begins where sky ends.
    pub p_object_on_sky: f64,
    /// Probability that a measurement is missing; used where `invalid_pixels` is `honoured`.
    pub p_missing: f64,
    /// Probability of ground where a measurement is missing.
    pub p_ground_if_missing: f64,
    /// Probability of an object where a measurement is missing.
    pub p_object_if_missing: f64,
    /// Probability of sky where a measurement is missing.
    pub p_sky_if_missing: f64,
    /// The same for what is missing from the top of the image down to a measurement that is above
    /// the horizon: nothing is to be matched in a clear sky.
    pub p_sky_if_missing_at_top: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            stixel_width: 5,
            max_stixels_per_column: 64,
            reduction: Reduction::Mean,
            invalid_pixels: InvalidPixels::Honoured,
            left_border_px: 16,
            unseen_border_px: 128,
            rounding: Rounding::Nearest,
            object_steps_per_px: 8,
            object_sigma_of: SigmaOf::Model,
            road_model: RoadModel::Exact,
            sky_below_px: 0.0,
            farthest_object_px: 3.0,
            sigma_object_px: 1.0,
            sigma_ground_px: 1.0,
            sigma_sky_px: 0.8,
            object_depth_m: 1.0,
            separation_m: 1.0,
            separation_px: 1.0,
            sigma_height_m: 0.04,
            sigma_tilt_deg: 0.1,
            ground_tolerance_px: 3.0,
            sky_tolerance_px: 1.0,
            p_outlier_object: 0.25,
            p_outlier_ground: 0.02,
            p_outlier_sky: 0.4,
            p_order: 0.2,
            p_same_depth: 0.05,
            p_gravity: 0.1,
            p_below_ground: 0.04,
            p_object_on_sky: 0.3,
            p_missing: 0.2,
            p_ground_if_missing: 0.33,
            p_object_if_missing: 0.36,
            p_sky_if_missing: 0.38,
            p_sky_if_missing_at_top: 0.6,
        }
    }
}

impl Params {
    /// The reference's model with the defaults of its main program.
    pub fn paper() -> Self {
        Self {
            stixel_width: 5,
            max_stixels_per_column: 50,
            reduction: Reduction::Mean,
            invalid_pixels: InvalidPixels::Zero,
            left_border_px: 0,
            unseen_border_px: 0,
            rounding: Rounding::Floor,
            object_steps_per_px: 1,
            object_sigma_of: SigmaOf::Measurement,
            road_model: RoadModel::Reference,
            sky_below_px: 1.0,
            farthest_object_px: 0.0,
            sigma_object_px: 1.0,
            sigma_ground_px: 2.0,
            sigma_sky_px: 0.1,
            object_depth_m: 10.2,
            separation_m: 10.2,
            separation_px: 0.0,
            sigma_height_m: 0.05,
            sigma_tilt_deg: 0.05,
            ground_tolerance_px: 3.0,
            sky_tolerance_px: 3.0,
            p_outlier_object: 0.15,
            p_outlier_ground: 0.15,
            p_outlier_sky: 0.4,
            p_order: 0.2,
            p_same_depth: 0.0,
            p_gravity: 0.1,
            p_below_ground: 0.04,
            p_object_on_sky: 1.0,
            p_missing: 0.0,
            p_ground_if_missing: 0.36,
            p_object_if_missing: 0.28,
            p_sky_if_missing: 0.36,
            p_sky_if_missing_at_top: 0.36,
        }
    }

    /// Checks every value on its own, and the probabilities that must leave something over.
    ///
    /// # Errors
    /// The first key that is out of its range.
    pub fn validate(&self) -> Result<(), ParamsError> {
        let whole = |key, found: usize, low: usize, high: usize| {
            if (low..=high).contains(&found) {
                return Ok(());
            }
            Err(ParamsError::Whole {
                key,
                found,
                low,
                high,
            })
        };
        let real = |key, found: f64, low: f64, high: f64| {
            if (low..=high).contains(&found) {
                return Ok(());
            }
            Err(ParamsError::Real {
                key,
                found,
                low,
                high,
            })
        };
        whole("stixel_width", self.stixel_width, 1, 255)?;
        let list = self.max_stixels_per_column;
        whole("max_stixels_per_column", list, 1, usize::from(u16::MAX))?;
        whole("object_steps_per_px", self.object_steps_per_px, 1, 16)?;
        whole("left_border_px", self.left_border_px, 0, 256)?;
        whole("unseen_border_px", self.unseen_border_px, 0, 256)?;
        real("sky_below_px", self.sky_below_px, 0.0, 255.0)?;
        real("farthest_object_px", self.farthest_object_px, 0.0, 32.0)?;
        for (key, value) in [
            ("sigma_object_px", self.sigma_object_px),
            ("sigma_ground_px", self.sigma_ground_px),
            ("sigma_sky_px", self.sigma_sky_px),
        ] {
            real(key, value, 0.05, 64.0)?;
        }
        real("object_depth_m", self.object_depth_m, 0.0, 1000.0)?;
        real("separation_m", self.separation_m, 0.0, 1000.0)?;
        real("separation_px", self.separation_px, 0.0, 32.0)?;
        real("sigma_height_m", self.sigma_height_m, 0.0, 10.0)?;
        real("sigma_tilt_deg", self.sigma_tilt_deg, 0.0, 10.0)?;
        real("ground_tolerance_px", self.ground_tolerance_px, 0.1, 32.0)?;
        real("sky_tolerance_px", self.sky_tolerance_px, 0.0, 32.0)?;
        for (key, value) in [
            ("p_outlier_object", self.p_outlier_object),
            ("p_outlier_ground", self.p_outlier_ground),
            ("p_outlier_sky", self.p_outlier_sky),
            ("p_order", self.p_order),
            ("p_gravity", self.p_gravity),
            ("p_below_ground", self.p_below_ground),
        ] {
            real(key, value, 0.001, 0.999)?;
        }
        real("p_same_depth", self.p_same_depth, 0.0, 0.998)?;
        real("p_object_on_sky", self.p_object_on_sky, 0.001, 1.0)?;
        let rest = 1.0 - self.p_gravity - self.p_below_ground;
        real("1 - p_gravity - p_below_ground", rest, 0.001, 1.0)?;
        let rest = 1.0 - self.p_order - self.p_same_depth;
        real("1 - p_order - p_same_depth", rest, 0.001, 1.0)?;
        if self.invalid_pixels == InvalidPixels::Honoured {
            real("p_missing", self.p_missing, 0.01, 0.9)?;
            for (key, value) in [
                ("p_ground_if_missing", self.p_ground_if_missing),
                ("p_object_if_missing", self.p_object_if_missing),
                ("p_sky_if_missing", self.p_sky_if_missing),
                ("p_sky_if_missing_at_top", self.p_sky_if_missing_at_top),
            ] {
                real(key, value, 0.01, 0.98)?;
                // Bayes with equal class priors must leave a probability of being measured.
                real(
                    "3 * p_missing * a p_..._if_missing",
                    3.0 * self.p_missing * value,
                    0.001,
                    0.95,
                )?;
            }
        }
        Ok(())
    }
}

/// Why a plan can't be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// A whole number is out of its range.
    #[error("stixel.{key} is {found}, expected {low} to {high}")]
    Whole {
        /// The key.
        key: &'static str,
        /// Its value.
        found: usize,
        /// Smallest value.
        low: usize,
        /// Largest value.
        high: usize,
    },
    /// A number is out of its range, or not a number.
    #[error("stixel.{key} is {found}, expected {low} to {high}")]
    Real {
        /// The key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// The disparity range is none that the stages share.
    #[error("stixel: disparity range is {found} px, expected 64, 128 or 256")]
    Disparities {
        /// The range, px.
        found: usize,
    },
    /// The image has no row, or more than stixels can name.
    #[error("stixel: image of {found} rows, expected 1 to 65535")]
    Height {
        /// Rows of the image.
        found: usize,
    },
    /// Focal length or baseline can't be a camera's.
    #[error("stixel: camera has {key} {found}, expected more than 0 and finite")]
    Camera {
        /// Which value.
        key: &'static str,
        /// The value.
        found: f64,
    },
    /// So improbable outliers in so tall an image would leave the range of 32-bit costs.
    #[error(
        "stixel: a cost range of {range} per row (1/{COST_PER_NAT} nat) over {rows} rows exceeds 32 bits; \
         raise `p_outlier_*` or use fewer rows"
    )]
    CostRange {
        /// Largest cost of a pixel less the smallest.
        range: i64,
        /// Rows of the image.
        rows: usize,
    },
}
