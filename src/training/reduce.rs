//! Several processes train one forest: each has a part of the images, and a level's histogram is
//! the sum of theirs.
//!
//! Ranks have views of images in blocks, in order. Candidates are drawn anew by each from the same
//! streams, so what travels is counts: pixels by class at the start, the bins of each slice of the
//! frontier, and with thresholds from responses these (each is known to one rank and 0 on the
//! others). All of it are sums of whole numbers, so the trees are those of one rank, bit for bit.
//!
//! Before each sum the ranks agree that all of them go on (`agreed`): a rank that was told to
//! stop, or can't read a picture, ends the training of all of them at the same place.
use super::{
    TrainError,
    data::{Dataset, Facts},
};
use crate::frame::Size;

/// Adds up numbers over ranks.
pub trait Reducer: Sync {
    /// Which rank this is, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// How many there are.
    fn ranks(&self) -> usize {
        1
    }

    /// Each value becomes its sum over all ranks, which call this together with lists of the same
    /// length. Returns only when it is done.
    ///
    /// # Errors
    /// When a rank is lost.
    fn sum_u32(&self, values: &mut [u32]) -> Result<(), RankError>;

    /// The same of longer numbers.
    ///
    /// # Errors
    /// As [`Reducer::sum_u32`].
    fn sum_u64(&self, values: &mut [u64]) -> Result<(), RankError>;
}

/// Why ranks can't go on together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// One does not answer any more.
    #[error("rank {rank}: another rank is lost: {what}")]
    Lost {
        /// Who says so.
        rank: usize,
        /// How it was noticed.
        what: String,
    },
    /// One has failed, and says why itself.
    #[error("rank {rank}: {failed} of {ranks} ranks have failed; their own errors say why")]
    Failed {
        /// Who says so.
        rank: usize,
        /// How many failed.
        failed: u64,
        /// Of how many.
        ranks: usize,
    },
    /// Ranks were started for different trainings.
    #[error("rank {rank}: ranks differ in {what}; expected the same of all")]
    Differ {
        /// Who says so.
        rank: usize,
        /// In what.
        what: &'static str,
    },
}

/// One process alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Reducer for Local {
    fn sum_u32(&self, _: &mut [u32]) -> Result<(), RankError> {
        Ok(())
    }

    fn sum_u64(&self, _: &mut [u64]) -> Result<(), RankError> {
        Ok(())
    }
}

/// The part of `n` things in order that is a rank's.
pub fn part(ranks: &dyn Reducer, n: usize) -> std::ops::Range<usize> {
    let edge = |r: usize| (n as u64 * r as u64 / ranks.ranks() as u64) as usize;
    edge(ranks.rank())..edge(ranks.rank() + 1)
}

/// What all ranks do next: go on only if none has an error. A rank that has one ends with it, the
/// others with [`RankError::Failed`], or [`TrainError::Stopped`] where it was told to stop.
pub(super) fn agreed<T>(
    ranks: &dyn Reducer,
    stopped: impl FnOnce() -> TrainError,
    mine: Result<T, TrainError>,
) -> Result<T, TrainError> {
    if ranks.ranks() == 1 {
        return mine;
    }
    let mut counts = match &mine {
        Ok(_) => [0, 0],
        Err(TrainError::Stopped { .. }) => [1, 0],
        Err(_) => [0, 1],
    };
    ranks.sum_u64(&mut counts)?;
    match (mine, counts) {
        (Ok(value), [0, 0]) => Ok(value),
        (Ok(_), [_, 0]) => Err(stopped()),
        (Ok(_), [_, failed]) => Err(RankError::Failed {
            rank: ranks.rank(),
            failed,
            ranks: ranks.ranks(),
        }
        .into()),
        (Err(e), _) => Err(e),
    }
}

/// A value of each rank, known to all.
pub(super) fn gathered(ranks: &dyn Reducer, mine: u64) -> Result<Vec<u64>, RankError> {
    let mut all = vec![0; ranks.ranks()];
    all[ranks.rank()] = mine;
    ranks.sum_u64(&mut all)?;
    Ok(all)
}

/// Checks that all ranks have the same.
pub(super) fn same(ranks: &dyn Reducer, what: &'static str, mine: u64) -> Result<(), RankError> {
    let rank = ranks.rank();
    if gathered(ranks, mine)?.iter().any(|&other| other != mine) {
        return Err(RankError::Differ { rank, what });
    }
    Ok(())
}

/// Numbers of an image that travel, besides those of its classes.
const HEAD: usize = 6;

/// Reads all images once ([`Dataset::scan`]), each rank its part.
///
/// # Errors
/// That of the first image of this rank that has one, or that of another rank.
pub fn scan(data: &Dataset, ranks: &dyn Reducer) -> Result<Vec<Facts>, TrainError> {
    if ranks.ranks() == 1 {
        return Ok(data.scan()?);
    }
    let (n, classes) = (data.items().len(), data.classes().len());
    same(ranks, "the number of images", n as u64)?;
    same(ranks, "the number of classes", classes as u64)?;
    let stopped = || TrainError::Stopped { tree: 0, level: 0 };
    let mine = part(ranks, n);
    let facts = data.scan_part(mine.clone()).map_err(TrainError::Data);
    let facts = agreed(ranks, stopped, facts)?;
    let wide = HEAD + classes;
    let mut words = vec![0u64; n * wide];
    for (to, f) in words[mine.start * wide..]
        .chunks_exact_mut(wide)
        .zip(&facts)
    {
        let (width, height) = (f.size.width as u64, f.size.height as u64);
        let (channels, bits, key) = (f.channels as u64, f.bits.into(), f.key.into());
        to[..HEAD].copy_from_slice(&[width, height, channels, bits, key, f.digest]);
        to[HEAD..].copy_from_slice(&f.class_pixels);
    }
    ranks.sum_u64(&mut words)?;
    let of = |w: &[u64]| Facts {
        size: Size::new(w[0] as usize, w[1] as usize),
        channels: w[2] as usize,
        bits: w[3] as u8,
        key: w[4] as u32,
        digest: w[5],
        class_pixels: w[HEAD..].to_vec(),
    };
    Ok(words.chunks_exact(wide).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Of(usize, usize);

    impl Reducer for Of {
        fn rank(&self) -> usize {
            self.0
        }
        fn ranks(&self) -> usize {
            self.1
        }
        fn sum_u32(&self, _: &mut [u32]) -> Result<(), RankError> {
            Ok(())
        }
        fn sum_u64(&self, values: &mut [u64]) -> Result<(), RankError> {
            // The other ranks: one was stopped.
            if values.len() == 2 {
                values[0] += 1;
            }
            Ok(())
        }
    }

    #[test]
    fn parts_cover_everything_once() {
        for (ranks, n) in [(1, 7), (3, 7), (5, 3), (4, 0)] {
            let all: Vec<usize> = (0..ranks).flat_map(|r| part(&Of(r, ranks), n)).collect();
            assert!(all.into_iter().eq(0..n));
        }
    }

    #[test]
    fn who_is_stopped_stops_all_and_an_error_goes_first() {
        let stopped = || TrainError::Stopped { tree: 1, level: 2 };
        let of = |mine| agreed(&Of(0, 2), stopped, mine).unwrap_err();
        assert!(matches!(of(Ok(())), TrainError::Stopped { tree: 1, .. }));
        let own = of(Err(TrainError::Set("mine".into())));
        assert_eq!(own.to_string(), "mine");
        assert_eq!(agreed(&Local, stopped, Ok(5)).unwrap(), 5);
    }
}
