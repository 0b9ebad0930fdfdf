//! Nearest and second nearest descriptors by Hamming distance: all pairs, no matrix in memory.
use rayon::prelude::*;

use super::{
    Descriptor,
    simd::{self, Isa},
};

/// Trained descriptors whose words lie side by side while queries pass over them.
pub(super) const BLOCK: usize = 256;

/// One number of each descriptor of a block; aligned, so that no load crosses two cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lines([u32; BLOCK]);

/// Side by side in the inner loop.
pub(super) const LANES: usize = 16;

/// Bits of a key below its distance: the train index.
const INDEX_BITS: u32 = 23;

/// Most train descriptors.
pub const MAX_TRAIN: usize = (1 << INDEX_BITS) - 1;

/// Queries a task.
const TASK: usize = 64;

/// The two nearest train descriptors of a query descriptor. Of equally distant ones the lower
/// index is the nearer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Index of the query.
    pub query: u32,
    /// Index of the nearest.
    pub train: u32,
    /// Its distance in bits.
    pub distance: u32,
    /// Index of the second nearest.
    pub second: u32,
    /// Its distance in bits.
    pub second_distance: u32,
}

/// Best, its group, and best of any other group, as keys `distance << 23 | index`.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) best: u32,
    pub(super) group: u32,
    pub(super) second: u32,
}

impl Pair {
    pub(super) const NONE: Self = Self {
        best: u32::MAX,
        group: u32::MAX,
        second: u32::MAX,
    };

    /// The two nearest of both.
    pub(super) fn merge(self, other: Self) -> Self {
        let (near, far) = if self.best <= other.best {
            (self, other)
        } else {
            (other, self)
        };
        let rival = if far.group == near.group {
            far.second
        } else {
            far.best
        };
        Self {
            second: near.second.min(rival),
            ..near
        }
    }
}

/// For each query, in order, the nearest and the second nearest of `train`. `out` is empty when
/// `train` has fewer than two: there is then no second to compare with. Allocates only where `out`
/// has too little room.
///
/// # Panics
/// When `train` has more than [`MAX_TRAIN`] descriptors.
pub fn two_nearest(query: &[Descriptor], train: &[Descriptor], out: &mut Vec<Match>) {
    nearest(query, train, None, out, Isa::detect());
}

/// As [`two_nearest`], but the second must be of another group than the nearest: descriptors of one
/// point (several orientations, several sizes of a template) are not rivals. A query for which
/// all of `train` is one group has no match.
///
/// # Panics
/// When `groups` is not as long as `train`, a group is `u32::MAX`, or as [`two_nearest`].
pub fn two_nearest_apart(
    query: &[Descriptor],
    train: &[Descriptor],
    groups: &[u32],
    out: &mut Vec<Match>,
) {
    assert_eq!(groups.len(), train.len(), "groups of train descriptors");
    assert!(!groups.contains(&u32::MAX), "group u32::MAX");
    nearest(query, train, Some(groups), out, Isa::detect());
}

/// As [`two_nearest_apart`] once for each set of instructions that this processor has; to compare
/// them.
pub fn each(query: &[Descriptor], train: &[Descriptor], groups: Option<&[u32]>) -> Vec<Vec<Match>> {
    Isa::available()
        .map(|isa| {
            let mut out = Vec::new();
            nearest(query, train, groups, &mut out, isa);
            out
        })
        .collect()
}

fn nearest(
    query: &[Descriptor],
    train: &[Descriptor],
    groups: Option<&[u32]>,
    out: &mut Vec<Match>,
    isa: Isa,
) {
    assert!(
        train.len() <= MAX_TRAIN,
        "{} train descriptors",
        train.len()
    );
    out.clear();
    if train.len() < 2 {
        return;
    }
    out.resize(query.len(), Match::default());
    out.par_chunks_mut(TASK)
        .zip(query.par_chunks(TASK))
        .enumerate()
        .for_each(|(task, (out, query))| {
            let mut pairs = [Pair::NONE; TASK];
            simd::match_task(isa, query, train, groups, &mut pairs);
            for (i, (out, pair)) in out.iter_mut().zip(pairs).enumerate() {
                let index = |key: u32| key & ((1 << INDEX_BITS) - 1);
                *out = Match {
                    query: (task * TASK + i) as u32,
                    train: index(pair.best),
                    distance: pair.best >> INDEX_BITS,
                    second: index(pair.second),
                    second_distance: pair.second >> INDEX_BITS,
                };
            }
        });
    // All of one group.
    out.retain(|m| m.second_distance <= 256);
}

/// Some queries against all of `train`.
#[inline(always)]
pub(super) fn match_task(
    query: &[Descriptor],
    train: &[Descriptor],
    groups: Option<&[u32]>,
    pairs: &mut [Pair; TASK],
) {
    let mut words = [Lines([0u32; BLOCK]); 8];
    let mut of = Lines([0u32; BLOCK]);
    for (block, chunk) in train.chunks(BLOCK).enumerate() {
        let first = block * BLOCK;
        for (i, descriptor) in chunk.iter().enumerate() {
            for (word, value) in words.iter_mut().zip(descriptor.0) {
                word.0[i] = value;
            }
            // Without groups each is one of its own.
            of.0[i] = groups.map_or((first + i) as u32, |g| g[first + i]);
        }
        for (query, pair) in query.iter().zip(pairs.iter_mut()) {
            let of_block = nearest_of_block(query, &words, &of.0, first as u32, chunk.len());
            *pair = pair.merge(of_block);
        }
    }
}

/// Keys of [`LANES`] train descriptors from `at`; the largest beyond `len`.
#[inline(always)]
fn keys(query: &Descriptor, words: &[Lines; 8], at: usize, first: u32, len: usize) -> [u32; LANES] {
    let mut distance = [0u32; LANES];
    for (word, q) in words.iter().zip(query.0) {
        let lanes: &[u32; LANES] = word.0[at..].first_chunk().unwrap_or(&[0; LANES]);
        for (distance, t) in distance.iter_mut().zip(lanes) {
            *distance += (t ^ q).count_ones();
        }
    }
    let mut keys = [0; LANES];
    for (lane, (key, distance)) in keys.iter_mut().zip(distance).enumerate() {
        let i = (at + lane) as u32;
        *key = if i < len as u32 {
            distance << INDEX_BITS | (first + i)
        } else {
            u32::MAX
        };
    }
    keys
}

/// The two nearest of a block.
#[inline(always)]
fn nearest_of_block(
    query: &Descriptor,
    words: &[Lines; 8],
    groups: &[u32; BLOCK],
    first: u32,
    len: usize,
) -> Pair {
    let mut best = [u32::MAX; LANES];
    let mut second = [u32::MAX; LANES];
    let mut group = [u32::MAX; LANES];
    for at in (0..len).step_by(LANES) {
        let keys = keys(query, words, at, first, len);
        let of: &[u32; LANES] = groups[at..].first_chunk().unwrap_or(&[0; LANES]);
        for lane in 0..LANES {
            let (key, g) = (keys[lane], of[lane]);
            let nearer = key < best[lane];
            let same = g == group[lane];
            let rival = if nearer { best[lane] } else { key };
            second[lane] = if same {
                second[lane]
            } else {
                second[lane].min(rival)
            };
            group[lane] = if nearer { g } else { group[lane] };
            best[lane] = best[lane].min(key);
        }
    }
    let mut pair = Pair::NONE;
    for lane in 0..LANES {
        pair = pair.merge(Pair {
            best: best[lane],
            group: group[lane],
            second: second[lane],
        });
    }
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_two_give_no_match() {
        let some = [Descriptor([7; 8]); 3];
        let mut out = vec![Match::default()];
        two_nearest(&some, &some[..1], &mut out);
        assert!(out.is_empty());
        two_nearest(&some, &[], &mut out);
        assert!(out.is_empty());
        two_nearest_apart(&some, &some, &[4; 3], &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn equal_distances_go_to_the_lower_index() {
        let train = [Descriptor([1; 8]), Descriptor([0; 8]), Descriptor([0; 8])];
        let mut out = Vec::new();
        two_nearest(&train[1..2], &train, &mut out);
        let expected = Match {
            query: 0,
            train: 1,
            distance: 0,
            second: 2,
            second_distance: 0,
        };
        assert_eq!(out, [expected]);
    }
}
