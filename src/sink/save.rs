use std::{fmt, str::FromStr};

use crate::frame::FrameResult;

/// What `--save` can ask for: pictures, each kind in a folder of its name, and the list of logos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Save {
    /// The left image with its stixels.
    Overlay,
    /// 16-bit disparity, 1/256 px, 0 = invalid.
    Disparity,
    /// Disparity in the colours of its distances, for the eye.
    DisparityColour,
    /// The mask of what moves: 255 moving, 127 shadow, else 0.
    Foreground,
    /// The class of each pixel: its index, 8 bits.
    Labels,
    /// `logos.csv`, which is written wherever that stage runs.
    Logos,
}

impl Save {
    /// All kinds.
    pub const ALL: [Save; 6] = [
        Save::Overlay,
        Save::Disparity,
        Save::DisparityColour,
        Save::Foreground,
        Save::Labels,
        Save::Logos,
    ];

    /// The kinds of pictures.
    pub const PICTURES: [Save; 5] = [
        Save::Overlay,
        Save::Disparity,
        Save::DisparityColour,
        Save::Foreground,
        Save::Labels,
    ];

    /// The name on the command line and of the folder.
    pub const fn name(self) -> &'static str {
        match self {
            Save::Overlay => "overlay",
            Save::Disparity => "disparity",
            Save::DisparityColour => "disparity-colour",
            Save::Foreground => "foreground",
            Save::Labels => "labels",
            Save::Logos => "logos",
        }
    }
}

impl Save {
    /// Whether results of this shape have it.
    pub fn is_in(self, shape: &FrameResult) -> bool {
        match self {
            Save::Overlay => true,
            Save::Disparity | Save::DisparityColour => shape.street.is_some(),
            Save::Foreground => shape.foreground.is_some(),
            Save::Labels => shape.labels.is_some(),
            Save::Logos => shape.logos.is_some(),
        }
    }
}

/// What to save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveSet([bool; Save::ALL.len()]);

impl SaveSet {
    /// Nothing.
    pub const NONE: Self = Self([false; Save::ALL.len()]);

    /// These as well.
    pub fn with(mut self, save: Save) -> Self {
        self.0[save as usize] = true;
        self
    }

    /// Whether `save` is asked for.
    pub const fn contains(self, save: Save) -> bool {
        self.0[save as usize]
    }

    /// Whether nothing is asked for.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The pictures that are asked for, in the order of [`Save::ALL`].
    pub fn pictures(self) -> impl Iterator<Item = Save> {
        Save::PICTURES
            .into_iter()
            .filter(move |&s| self.contains(s))
    }

    /// What is asked for, in the order of [`Save::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Save> {
        Save::ALL.into_iter().filter(move |&s| self.contains(s))
    }
}

impl fmt::Display for SaveSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, save) in self.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            f.write_str(save.name())?;
        }
        Ok(())
    }
}

/// What is wrong with the list after `--save`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// No picture has this name.
    #[error("unknown picture {0:?}; expected a list of {known}", known = known())]
    Unknown(String),
}

fn known() -> String {
    Save::ALL.map(Save::name).join(", ")
}

/// From a list with commas, such as `overlay,disparity`; empty for none.
impl FromStr for SaveSet {
    type Err = SaveError;

    fn from_str(list: &str) -> Result<Self, SaveError> {
        let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
        names.into_iter().try_fold(Self::NONE, |set, name| {
            match Save::ALL.into_iter().find(|s| s.name() == name) {
                Some(save) => Ok(set.with(save)),
                None => Err(SaveError::Unknown(name.into())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names() {
        assert_eq!("".parse(), Ok(SaveSet::NONE));
        let set: SaveSet = "disparity, overlay,disparity".parse().unwrap();
        assert!(set.iter().eq([Save::Overlay, Save::Disparity]));
        assert_eq!(set.to_string(), "overlay,disparity");
    }

    #[test]
    fn errors_name_the_culprit_and_the_choice() {
        let text = |list: &str| list.parse::<SaveSet>().unwrap_err().to_string();
        assert_eq!(
            text("overlay,overlap"),
            "unknown picture \"overlap\"; expected a list of overlay, disparity, disparity-colour, \
             foreground, labels, logos"
        );
    }
}
