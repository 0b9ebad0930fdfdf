//! The p99 of what was measured last, in bounded memory.

/// The last `N` durations, in the order in which they came and sorted.
///
/// The p99 is the nearest rank: of `n` durations the one with ⌈0.99 n⌉ - 1 shorter ones before it.
/// Of up to 99 that is the longest, of 256 the third longest.
#[derive(Clone, Debug, Default)]
pub struct Window<const N: usize> {
    came: heapless::Deque<u64, N>,
    sorted: heapless::Vec<u64, N>,
}

impl<const N: usize> Window<N> {
    /// Takes one more; the oldest makes room where all are taken.
    pub fn push(&mut self, ns: u64) {
        if self.came.is_full()
            && let Some(oldest) = self.came.pop_front()
        {
            let at = self.sorted.partition_point(|&v| v < oldest);
            self.sorted.remove(at);
        }
        let at = self.sorted.partition_point(|&v| v < ns);
        // Not full: just made sure.
        let _ = self.came.push_back(ns);
        let _ = self.sorted.insert(at, ns);
    }

    /// Forgets all but this one.
    pub fn restart(&mut self, ns: u64) {
        self.came.clear();
        self.sorted.clear();
        self.push(ns);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The p99; `None` where nothing was measured.
    pub fn p99(&self) -> Option<u64> {
        let rank = (self.len() * 99).div_ceil(100);
        self.sorted.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rank_of_the_p99_is_the_nearest() {
        let mut window = Window::<256>::default();
        assert_eq!(window.p99(), None);
        for n in 1..=256 {
            window.push(n);
            let expected = match n {
                ..=99 => n,
                100..=199 => n - 1,
                _ => n - 2,
            };
            assert_eq!(window.p99(), Some(expected), "{n}");
        }
    }

    proptest! {
        /// Few different values, so that equal ones meet; 7 places, so that they run over often.
        #[test]
        fn it_is_what_sorting_the_last_ones_gives(
            steps in prop::collection::vec(prop_oneof![12 => (0u64..9).prop_map(Some), 1 => Just(None)], 0..200)
        ) {
            let mut window = Window::<7>::default();
            let mut all: Vec<u64> = Vec::new();
            for step in steps {
                match step {
                    Some(ns) => {
                        window.push(ns);
                        all.push(ns);
                    }
                    None => {
                        window.restart(5);
                        all = vec![5];
                    }
                }
                let mut last: Vec<u64> = all.iter().rev().take(7).copied().collect();
                last.sort_unstable();
                let rank = (0.99 * last.len() as f64).ceil() as usize;
                prop_assert_eq!(window.len(), last.len());
                prop_assert_eq!(window.p99(), Some(last[rank - 1]));
            }
        }
    }
}
