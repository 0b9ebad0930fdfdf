//! Do several ranks grow the trees of one? Ranks are threads here; `make mpi-check` does the same
//! with processes.
#[path = "common/columns.rs"]
mod columns;
#[path = "common/ranks.rs"]
mod ranks;
#[path = "common/toy.rs"]
mod toy;

use std::sync::atomic::{AtomicBool, Ordering};

use roadloop::{
    stage::forest::{Forest, Sampling, ThresholdSource},
    training::{Job, Observer, Resources, Silent, TrainError, data::Dataset, reduce, train},
};

use ranks::{Board, Rank};

/// Trains with so many ranks; what each gives.
fn together(
    ranks: usize,
    data: &Dataset,
    change: impl Fn(&mut Job<'_>) + Sync,
    (memory_limit, observer): (u64, &dyn Observer),
    stops: &[AtomicBool],
) -> Vec<Result<Forest, TrainError>> {
    let board = Board::new(ranks);
    std::thread::scope(|scope| {
        let of = |rank: usize| {
            let (board, change, stop) = (&board, &change, &stops[rank]);
            scope.spawn(move || {
                // Ranks differ in their threads too.
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1 + rank % 2);
                pool.build().unwrap().install(|| {
                    let rank = Rank { rank, ranks, board };
                    let facts = reduce::scan(data, &rank)?;
                    let mut job = toy::job(data, &facts);
                    change(&mut job);
                    let resources = Resources {
                        memory_limit,
                        stop,
                        checkpoint: None,
                        observer,
                        ranks: &rank,
                    };
                    train(&job, &resources, None)
                })
            })
        };
        let threads: Vec<_> = (0..ranks).map(of).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn quiet(ranks: usize) -> Vec<AtomicBool> {
    (0..ranks).map(|_| AtomicBool::new(false)).collect()
}

fn data() -> (tempfile::TempDir, Dataset) {
    let tmp = toy::folder();
    let options = roadloop::training::data::DataOptions {
        folder: Some(tmp.path().into()),
        ..Default::default()
    };
    let data = Dataset::open(&options).unwrap();
    (tmp, data)
}

#[test]
fn ranks_grow_the_trees_of_one() {
    let (_tmp, data) = data();
    let facts = data.scan().unwrap();
    for source in [ThresholdSource::Uniform, ThresholdSource::Responses] {
        for (sampling, flip) in [(Sampling::Uniform, false), (Sampling::Balanced, true)] {
            let change = |job: &mut Job<'_>| {
                job.recipe.threshold_source = source;
                job.recipe.sampling = sampling;
                job.recipe.flip = flip;
            };
            let mut job = toy::job(&data, &facts);
            change(&mut job);
            let alone = toy::quiet(&job).unwrap();
            // More ranks than images too.
            for (ranks, limit) in [
                (2, 1 << 30),
                (1 + data.items().len(), 1 << 30),
                (3, 1 << 12),
            ] {
                let trained = together(ranks, &data, change, (limit, &Silent), &quiet(ranks));
                for forest in trained {
                    assert_eq!(forest.unwrap(), alone, "{ranks} {source:?} {limit}");
                }
            }
        }
    }
}

#[test]
fn who_is_told_to_stop_stops_all_at_the_same_level() {
    struct At<'a>(&'a AtomicBool);
    impl Observer for At<'_> {
        fn level_begins(&self, tree: u32, level: u32, _: usize, _: usize, _: u64) {
            if (tree, level) == (1, 3) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let (_tmp, data) = data();
    let stops = quiet(3);
    let trained = together(3, &data, |_| (), (1 << 30, &At(&stops[1])), &stops);
    for result in trained {
        let error = result.unwrap_err();
        assert!(
            matches!(error, TrainError::Stopped { tree: 1, level: 3 }),
            "{error}"
        );
    }
}

#[test]
fn an_error_of_one_ends_all() {
    let (_tmp, data) = data();
    // The last image is the last rank's.
    let last = data.items().last().unwrap();
    let bytes = std::fs::read(&last.labels).unwrap();
    std::fs::write(&last.labels, &bytes[..bytes.len() / 2]).unwrap();
    let results = together(2, &data, |_| (), (1 << 30, &Silent), &quiet(2));
    let texts: Vec<String> = results
        .into_iter()
        .map(|r| r.unwrap_err().to_string())
        .collect();
    assert!(
        texts[0].contains("rank 0: 1 of 2 ranks have failed"),
        "{texts:?}"
    );
    assert!(texts[1].contains("ends after row"), "{texts:?}");
}

#[test]
fn ranks_of_different_trainings_are_refused() {
    let (_tmp, data) = data();
    let turn = std::sync::atomic::AtomicU64::new(0);
    let change = |job: &mut Job<'_>| job.recipe.seed = turn.fetch_add(1, Ordering::Relaxed);
    for result in together(2, &data, change, (1 << 30, &Silent), &quiet(2)) {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("ranks differ in what is trained"), "{text}");
    }
}
