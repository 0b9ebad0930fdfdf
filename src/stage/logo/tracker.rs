//! Logos from frame to frame: step 8 of the contract.
use super::{
    Params,
    pose::{self, Quad},
    verify::Detection,
};
use crate::{
    frame::{Logo, LogoState, Logos, MAX_LOGOS, Size},
    stage::state::{StateError, StateReader, StateWriter},
};

/// How much of a newly seen velocity enters that of a track.
const VELOCITY_GAIN: f64 = 0.5;

/// Overlap of boxes from which a detection may be the track's logo.
const MIN_OVERLAP: f64 = 0.1;

/// A logo that is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Track {
    pub id: u32,
    pub template: u16,
    pub state: LogoState,
    /// Where it is, or while it is unseen where it would be.
    pub quad: Quad,
    /// Of each corner, px a frame.
    velocity: Quad,
    hits: u32,
    misses: u32,
    confidence: f64,
    /// Whether it was found in this frame.
    pub found: bool,
}

/// The tracks of a drive.
#[derive(Debug)]
pub(super) struct Tracker {
    confirm_hits: u32,
    lost_misses: u32,
    tentative_misses: u32,
    size: Size,
    tracks: heapless::Vec<Track, MAX_LOGOS>,
    next_id: u32,
}

impl Tracker {
    pub fn new(params: &Params, size: Size) -> Self {
        Self {
            confirm_hits: params.confirm_hits,
            lost_misses: params.lost_misses,
            tentative_misses: params.tentative_misses,
            size,
            tracks: heapless::Vec::new(),
            next_id: 1,
        }
    }

    pub fn reset(&mut self) {
        self.tracks.clear();
        self.next_id = 1;
    }

    pub fn save(&self, to: &mut StateWriter<'_>) {
        to.u32(self.next_id);
        to.u8(self.tracks.len() as u8);
        for track in &self.tracks {
            to.u32(track.id);
            to.u16(track.template);
            to.u8(match track.state {
                LogoState::Tentative => 0,
                LogoState::Tracked => 1,
                LogoState::Lost => 2,
            });
            for &v in track.quad.iter().chain(&track.velocity).flatten() {
                to.f64(v);
            }
            to.u32(track.hits);
            to.u32(track.misses);
            to.f64(track.confidence);
            to.u8(u8::from(track.found));
        }
    }

    /// Takes the tracks of a tracker of as many `templates`.
    pub fn load(&mut self, from: &mut StateReader<'_>, templates: usize) -> Result<(), StateError> {
        let quad = |from: &mut StateReader<'_>| -> Result<Quad, StateError> {
            let mut quad = Quad::default();
            for v in quad.iter_mut().flatten() {
                *v = from.f64("corner")?;
            }
            Ok(quad)
        };
        let next_id = from.u32()?;
        let mut tracks = heapless::Vec::new();
        for _ in 0..from.u8()? {
            let track = Track {
                id: from.u32()?,
                template: from.u16()?,
                state: match from.u8()? {
                    0 => LogoState::Tentative,
                    1 => LogoState::Tracked,
                    2 => LogoState::Lost,
                    _ => return Err(from.value("state")),
                },
                quad: quad(from)?,
                velocity: quad(from)?,
                hits: from.u32()?,
                misses: from.u32()?,
                confidence: from.f64("confidence")?,
                found: from.u8()? != 0,
            };
            if usize::from(track.template) >= templates {
                return Err(from.value("template"));
            }
            if tracks.push(track).is_err() {
                return Err(from.value("number of tracks"));
            }
        }
        (self.next_id, self.tracks) = (next_id, tracks);
        Ok(())
    }

    /// By id.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Begins a frame: what was reported as lost goes, the others move on.
    pub fn predict(&mut self) {
        self.tracks.retain(|t| t.state != LogoState::Lost);
        for track in &mut self.tracks {
            track.found = false;
            for (corner, v) in track.quad.iter_mut().zip(&track.velocity) {
                corner[0] += v[0];
                corner[1] += v[1];
            }
        }
    }

    /// Track number `index` was found.
    pub fn hit(&mut self, index: usize, detection: &Detection) {
        let track = &mut self.tracks[index];
        track.found = true;
        for k in 0..4 {
            for c in 0..2 {
                // The quad is the prediction; on the second sight there is no velocity yet.
                let off = detection.quad[k][c] - track.quad[k][c];
                let gain = if track.hits == 1 { 1.0 } else { VELOCITY_GAIN };
                track.velocity[k][c] += gain * off / f64::from(1 + track.misses);
            }
        }
        track.quad = detection.quad;
        track.hits = track.hits.saturating_add(1);
        track.misses = 0;
        track.confidence = detection.ncc;
        if track.hits >= self.confirm_hits {
            track.state = LogoState::Tracked;
        }
    }

    /// The track that a detection goes on with: of the same template, not found yet, the largest
    /// overlap, then the lower id.
    pub fn of(&self, detection: &Detection) -> Option<usize> {
        let bounds = pose::bounds(&detection.quad);
        let mut best: Option<(usize, f64)> = None;
        for (i, track) in self.tracks.iter().enumerate() {
            if track.found || track.template != detection.template {
                continue;
            }
            let overlap = pose::box_iou(&bounds, &pose::bounds(&track.quad));
            if overlap >= MIN_OVERLAP && best.is_none_or(|(_, b)| overlap > b) {
                best = Some((i, overlap));
            }
        }
        best.map(|(i, _)| i)
    }

    /// Begins a track; nothing where there are as many as can be.
    pub fn begin(&mut self, detection: &Detection) {
        let track = Track {
            id: self.next_id,
            template: detection.template,
            state: if self.confirm_hits <= 1 {
                LogoState::Tracked
            } else {
                LogoState::Tentative
            },
            quad: detection.quad,
            velocity: [[0.0; 2]; 4],
            hits: 1,
            misses: 0,
            confidence: detection.ncc,
            found: true,
        };
        if self.tracks.push(track).is_ok() {
            self.next_id = self.next_id.saturating_add(1);
        }
    }

    /// Ends a frame: counts misses, and reports.
    pub fn report(&mut self, output: &mut Logos) {
        let (lost_misses, tentative_misses) = (self.lost_misses, self.tentative_misses);
        let (width, height) = (self.size.width as f64, self.size.height as f64);
        for track in self.tracks.iter_mut().filter(|t| !t.found) {
            track.misses += 1;
            track.confidence *= 1.0 - 1.0 / f64::from(lost_misses + 1);
            let [x, y] = pose::centre(&track.quad);
            let outside = !(x >= 0.0 && y >= 0.0 && x < width && y < height);
            // A carried quad that folds up says nothing any more.
            let folded = !pose::convex(&track.quad);
            if track.misses >= lost_misses || outside || folded {
                track.state = match track.state {
                    LogoState::Tentative => {
                        track.misses = u32::MAX;
                        LogoState::Tentative
                    }
                    _ => LogoState::Lost,
                };
            }
        }
        self.tracks
            .retain(|t| t.state != LogoState::Tentative || t.misses < tentative_misses);
        output.clear();
        for track in &self.tracks {
            if track.state == LogoState::Tentative && !track.found {
                continue;
            }
            let v = &track.velocity;
            let mean = |c: usize| (0.25 * (v[0][c] + v[1][c] + v[2][c] + v[3][c])) as f32;
            let logo = Logo {
                id: track.id,
                template: track.template,
                state: track.state,
                quad: track.quad.map(|p| p.map(|v| v as f32)),
                velocity: [mean(0), mean(1)],
                confidence: (track.confidence.clamp(0.0, 1.0) * 255.0 + 0.5) as u8,
            };
            // There are no more tracks than room.
            let _ = output.push(logo);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(640, 480);

    fn at(x: f64, y: f64) -> Detection {
        Detection {
            template: 0,
            quad: [[x, y], [x + 60.0, y], [x + 60.0, y + 30.0], [x, y + 30.0]],
            ncc: 0.8,
        }
    }

    /// A frame in which these are found; what is reported: id, state, left upper corner.
    fn frame(tracker: &mut Tracker, seen: &[Detection]) -> Vec<(u32, LogoState, [f32; 2])> {
        tracker.predict();
        for d in seen {
            match tracker.of(d) {
                Some(i) => tracker.hit(i, d),
                None => tracker.begin(d),
            }
        }
        let mut out = Logos::new();
        tracker.report(&mut out);
        out.iter().map(|l| (l.id, l.state, l.quad[0])).collect()
    }

    use LogoState::{Lost, Tentative, Tracked};

    #[test]
    fn the_life_of_a_track() {
        let mut t = Tracker::new(&Params::default(), SIZE);
        assert_eq!(frame(&mut t, &[]), []);
        assert_eq!(
            frame(&mut t, &[at(100.0, 50.0)]),
            [(1, Tentative, [100.0, 50.0])]
        );
        assert_eq!(
            frame(&mut t, &[at(104.0, 51.0)]),
            [(1, Tracked, [104.0, 51.0])]
        );
        // Unseen it goes on as it went, nine times; then it is lost, and then gone.
        for n in 1..10 {
            let expected = [104.0 + 4.0 * n as f32, 51.0 + n as f32];
            assert_eq!(frame(&mut t, &[]), [(1, Tracked, expected)], "{n}");
        }
        assert_eq!(frame(&mut t, &[]), [(1, Lost, [144.0, 61.0])]);
        assert_eq!(frame(&mut t, &[]), []);
        // The next is another.
        assert_eq!(frame(&mut t, &[at(148.0, 62.0)])[0].0, 2);
        t.reset();
        assert_eq!(frame(&mut t, &[at(148.0, 62.0)])[0].0, 1);
    }

    #[test]
    fn one_sight_is_soon_forgotten() {
        let mut t = Tracker::new(&Params::default(), SIZE);
        frame(&mut t, &[at(100.0, 50.0)]);
        assert_eq!(frame(&mut t, &[]), []);
        assert_eq!(frame(&mut t, &[]), []);
        // Still remembered.
        assert_eq!(frame(&mut t, &[at(100.0, 50.0)])[0].0, 1);
        let mut t = Tracker::new(&Params::default(), SIZE);
        frame(&mut t, &[at(100.0, 50.0)]);
        for _ in 0..3 {
            assert_eq!(frame(&mut t, &[]), []);
        }
        assert_eq!(frame(&mut t, &[at(100.0, 50.0)])[0].0, 2);
    }

    #[test]
    fn two_of_one_template_keep_their_ids() {
        let mut t = Tracker::new(&Params::default(), SIZE);
        let ids = |seen: Vec<(u32, LogoState, [f32; 2])>| -> Vec<u32> {
            seen.iter().map(|s| s.0).collect()
        };
        assert_eq!(
            ids(frame(&mut t, &[at(100.0, 50.0), at(300.0, 50.0)])),
            [1, 2]
        );
        let seen = frame(&mut t, &[at(290.0, 50.0), at(110.0, 50.0)]);
        assert_eq!(
            seen,
            [(1, Tracked, [110.0, 50.0]), (2, Tracked, [290.0, 50.0])]
        );
        // They pass each other.
        for k in 2..30 {
            let (a, b) = (100.0 + 10.0 * f64::from(k), 300.0 - 10.0 * f64::from(k));
            // Alternately one is hidden while they cross.
            let seen = match k {
                8..=12 => vec![at(a, 50.0)],
                _ => vec![at(b, 50.0), at(a, 50.0)],
            };
            let seen = frame(&mut t, &seen);
            assert_eq!(seen[0].0, 1);
            assert_eq!(seen[0].2[0], a as f32, "{k}");
        }
    }

    #[test]
    fn a_track_that_leaves_the_frame_is_lost_at_once() {
        let mut t = Tracker::new(&Params::default(), SIZE);
        frame(&mut t, &[at(560.0, 50.0)]);
        frame(&mut t, &[at(590.0, 50.0)]);
        // The middle is at 650.
        assert_eq!(frame(&mut t, &[]), [(1, Lost, [620.0, 50.0])]);
        assert_eq!(frame(&mut t, &[]), []);
    }

    #[test]
    fn there_is_an_end_to_tracks() {
        let mut t = Tracker::new(&Params::default(), Size::new(8000, 480));
        let many: Vec<Detection> = (0..40).map(|i| at(100.0 * f64::from(i), 50.0)).collect();
        let seen = frame(&mut t, &many);
        assert_eq!(seen.len(), MAX_LOGOS);
        assert_eq!(seen[31].0, 32);
    }
}
