//! How many logos laid into street frames are found, and how often is something found that is
//! not there? The full benchmark: `cargo run --release --example logo_benchmark`, or this test
//! with `--ignored`.
use std::sync::Arc;

use roadloop::{
    evaluate::logos::benchmark::{self, BINS, Outcome},
    frame::{Image, Size},
    source::synth::{Options, Street},
    stage::logo::{BuildOptions, Params},
};

fn frames(count: usize, size: Size) -> Vec<Image<u8>> {
    (0..count)
        .map(|i| {
            let options = Options {
                frames: 40,
                seed: 11 + i as u64,
                size,
                ..Options::default()
            };
            Street::new(&options).unwrap().render(4 * i).mono
        })
        .collect()
}

fn outcome(frames: &[Image<u8>], trials: usize, seed: u64) -> Outcome {
    let params = Params::default();
    let templates = benchmark::templates(&params, &BuildOptions::default()).unwrap();
    let outcome = benchmark::run(&params, Arc::new(templates), frames, trials, seed).unwrap();
    eprintln!(
        "{trials} trials: {:.3}, by size {:?}, wrong {:.3}",
        outcome.success((0.0, f64::INFINITY)),
        BINS.map(|bin| outcome.success(bin)),
        outcome.wrong()
    );
    outcome
}

#[test]
fn a_few_trials() {
    let frames = frames(1, Size::new(800, 600));
    let few = outcome(&frames, 12, 3);
    assert!(few.success((0.0, f64::INFINITY)) >= 0.7);
    assert_eq!(few.wrong(), 0.0);
    // The same again, to the bit.
    let again = outcome(&frames, 2, 3);
    for (a, b) in few.trials.iter().zip(&again.trials) {
        assert_eq!(a.placing, b.placing);
        assert_eq!(a.reported, b.reported);
    }
}

#[test]
#[ignore = "minutes without --release"]
fn the_whole_benchmark() {
    let frames = frames(8, Size::new(1280, 720));
    let all = outcome(&frames, 180, 1);
    assert!(all.success((0.0, f64::INFINITY)) >= 0.7);
    assert!(all.success((0.0, 80.0)) >= 0.6);
    assert!(all.wrong() <= 0.01);
}
