//! Which of some instants is nearest to another: by time alone, never by place in a list, which
//! is off by one after the first drop.

/// The place of the stamp nearest to `at`, of increasing `stamps`; of two equally near ones the
/// earlier. `None` where none is within `tolerance` (inclusive).
pub(super) fn nearest(stamps: &[u64], at: u64, tolerance: u64) -> Option<usize> {
    let after = stamps.partition_point(|&stamp| stamp < at);
    let distance = |place: usize| stamps.get(place).map(|stamp| (stamp.abs_diff(at), place));
    let before = after.checked_sub(1).and_then(distance);
    // The earlier has the smaller place.
    let (far, place) = before.into_iter().chain(distance(after)).min()?;
    (far <= tolerance).then_some(place)
}

/// Half of what lies between increasing stamps on average; `None` for fewer than two.
pub(super) fn half_period(mut stamps: impl ExactSizeIterator<Item = u64>) -> Option<u64> {
    let steps = stamps.len().checked_sub(1).filter(|&steps| steps > 0)?;
    let first = stamps.next()?;
    let last = stamps.last()?;
    Some(last.checked_sub(first)? / (2 * steps as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nearest_by_hand() {
        let stamps = [100, 200, 301];
        for (at, tolerance, expected) in [
            (100, 0, Some(0)),
            (149, 60, Some(0)),
            // As near to both: the earlier.
            (150, 50, Some(0)),
            (150, 49, None),
            (151, 60, Some(1)),
            (250, 50, Some(1)),
            (251, 50, Some(2)),
            (0, 99, None),
            (0, 100, Some(0)),
            (u64::MAX, u64::MAX, Some(2)),
        ] {
            assert_eq!(
                nearest(&stamps, at, tolerance),
                expected,
                "{at} {tolerance}"
            );
        }
        assert_eq!(nearest(&[], 7, u64::MAX), None);
    }

    #[test]
    fn half_periods() {
        assert_eq!(half_period([].into_iter()), None);
        assert_eq!(half_period([5].into_iter()), None);
        assert_eq!(half_period([5, 105, 205].into_iter()), Some(50));
        assert_eq!(half_period([0, 33, 100].into_iter()), Some(25));
    }

    proptest! {
        #[test]
        fn nearest_as_a_search_through_all(
            mut stamps in prop::collection::vec(0u64..300, 0..20), at in 0u64..300,
            tolerance in 0u64..100,
        ) {
            stamps.sort();
            stamps.dedup();
            let mut best: Option<(u64, usize)> = None;
            for (place, &stamp) in stamps.iter().enumerate() {
                let far = stamp.max(at) - stamp.min(at);
                if far <= tolerance && best.is_none_or(|(least, _)| far < least) {
                    best = Some((far, place));
                }
            }
            prop_assert_eq!(nearest(&stamps, at, tolerance), best.map(|(_, place)| place));
        }
    }
}
