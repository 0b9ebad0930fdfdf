//! Logos tracked on vehicles.
use serde::{Deserialize, Serialize};

/// Most logos that a frame reports.
pub const MAX_LOGOS: usize = 32;

/// How sure a track is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogoState {
    /// Found, but not often enough yet.
    #[default]
    Tentative,
    /// Found in enough frames.
    Tracked,
    /// Not found in the last frames; reported once, then gone.
    Lost,
}

impl LogoState {
    /// The name in `logos.csv`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tentative => "tentative",
            Self::Tracked => "tracked",
            Self::Lost => "lost",
        }
    }
}

/// One logo in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Logo {
    /// The track, counted from 1 in the order in which tracks began.
    pub id: u32,
    /// Which template, by its place in the templates' list of names.
    pub template: u16,
    /// How sure it is.
    pub state: LogoState,
    /// The corners of the template's picture in this frame: top left, top right, bottom right,
    /// bottom left as seen in the template; x and y in pixels, pixel centres at whole numbers.
    pub quad: [[f32; 2]; 4],
    /// Of the centre, px a frame.
    pub velocity: [f32; 2],
    /// 0 to 255.
    pub confidence: u8,
}

/// The logos of one frame, by id.
pub type Logos = heapless::Vec<Logo, MAX_LOGOS>;
