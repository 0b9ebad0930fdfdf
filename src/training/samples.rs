//! Which pixels of an image a tree is trained on.
use crate::stage::forest::{Purpose, Sampling, Seed};

/// The class of a pixel that has none.
pub const VOID: u8 = 255;

/// A training pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Column.
    pub x: u16,
    /// Row.
    pub y: u16,
    /// Its class, counted from 0.
    pub class: u8,
    /// The node that it is in.
    pub node: u32,
}

/// Draws the pixels of one image for one tree, by row, then column.
///
/// `labels` are classes from 0, [`VOID`] where there is none (or no depth where that is needed),
/// row by row. **Uniform**: `count` draws with replacement from all labelled pixels, rank
/// `floor(v n / 2^32)` each, from stream `(t, key, 0, Pixels)`. **Balanced**: of each class that
/// is there `ceil(count / classes)` pixels without replacement, all where there are fewer: a
/// partial Fisher-Yates shuffle by stream `(t, key, class + 1, Pixels)`.
pub fn draw(
    labels: &[u8],
    width: usize,
    sampling: Sampling,
    count: u32,
    classes: usize,
    (seed, tree, key): (Seed, u32, u32),
) -> Vec<Sample> {
    let mut chosen: Vec<u32> = Vec::new();
    match sampling {
        Sampling::Uniform => {
            let labelled: Vec<u32> = (0..labels.len() as u32)
                .filter(|&i| labels[i as usize] != VOID)
                .collect();
            if !labelled.is_empty() {
                let mut words = seed.stream(Purpose::Pixels, tree, key, 0);
                let rank = |_| labelled[words.below(labelled.len() as u32) as usize];
                chosen.extend((0..count).map(rank));
            }
        }
        Sampling::Balanced => {
            let mut by_class = vec![Vec::new(); classes];
            for (i, &class) in labels.iter().enumerate() {
                if class != VOID {
                    by_class[usize::from(class)].push(i as u32);
                }
            }
            let most = (count as usize).div_ceil(classes.max(1));
            for (class, pixels) in by_class.iter_mut().enumerate() {
                let mut words = seed.stream(Purpose::Pixels, tree, key, class as u32 + 1);
                let n = pixels.len();
                for i in 0..most.min(n) {
                    let j = i + words.below((n - i) as u32) as usize;
                    pixels.swap(i, j);
                }
                chosen.extend(&pixels[..most.min(n)]);
            }
        }
    }
    chosen.sort_unstable();
    chosen
        .into_iter()
        .map(|i| {
            let i = i as usize;
            Sample {
                x: (i % width) as u16,
                y: (i / width) as u16,
                class: labels[i],
                node: 0,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[u8], sampling: Sampling, count: u32, key: u32) -> Vec<Sample> {
        draw(labels, 5, sampling, count, 3, (Seed::default(), 2, key))
    }

    #[test]
    fn void_is_never_drawn() {
        let mut labels = vec![VOID; 40];
        labels[7] = 1;
        labels[31] = 2;
        for sampling in [Sampling::Uniform, Sampling::Balanced] {
            let list = of(&labels, sampling, 60, 9);
            assert!(
                list.iter()
                    .all(|s| (s.x, s.y, s.class) == (2, 1, 1) || (s.x, s.y, s.class) == (1, 6, 2))
            );
            assert!(list.is_sorted_by_key(|s| (s.y, s.x)));
            assert_eq!(
                list.len(),
                if sampling == Sampling::Uniform { 60 } else { 2 }
            );
            assert!(of(&[VOID; 40], sampling, 60, 9).is_empty());
        }
    }

    #[test]
    fn balanced_gives_rare_classes_their_share() {
        let labels: Vec<u8> = (0..400).map(|i| u8::from(i % 40 == 0)).collect();
        let count = |list: &[Sample], class| list.iter().filter(|s| s.class == class).count();
        let balanced = of(&labels, Sampling::Balanced, 20, 1);
        // ceil(20 / 3) of each; no pixel twice.
        assert_eq!((count(&balanced, 0), count(&balanced, 1)), (7, 7));
        assert!(
            balanced
                .windows(2)
                .all(|w| (w[0].x, w[0].y) != (w[1].x, w[1].y))
        );
        let uniform = of(&labels, Sampling::Uniform, 400, 1);
        assert!(count(&uniform, 1) < 30);
        assert_ne!(uniform, of(&labels, Sampling::Uniform, 400, 2));
    }
}
