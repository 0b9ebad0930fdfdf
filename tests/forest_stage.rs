//! Does the stage label pixels as its text says, with any shape, thread count and input?
#[path = "common/columns.rs"]
mod columns;
#[path = "common/heap.rs"]
mod heap;
#[path = "common/toy.rs"]
mod toy;

use roadloop::{
    frame::{Camera, Disparity, INVALID, Image, Rgb, Size},
    stage::{
        Stage as _,
        forest::{
            Depth, Feature, FeatureSpec, Forest, Input, InputSpec, LEAF, LeafOptions, Norm, Params,
            Pixels, PlaneBuilder, Planes, Region, Rgbd, ThresholdSource, cpu::Plan,
        },
    },
};

fn forest() -> Forest {
    forest_of(|_| {})
}

/// With other options of regions; thresholds are then responses.
fn forest_of(change: impl Fn(&mut Region)) -> Forest {
    let tmp = toy::folder();
    let (data, facts) = toy::open(tmp.path());
    let mut job = toy::job(&data, &facts);
    if let FeatureSpec::Region(feature) = &mut job.feature {
        let before = *feature;
        change(feature);
        if *feature != before {
            job.recipe.threshold_source = ThresholdSource::Responses;
        }
    }
    job.recipe.trees = 3;
    job.recipe.class_weights = vec![256, 512, 256];
    toy::quiet(&job).unwrap()
}

fn picture(size: Size) -> Rgb {
    Image::from_fn(size.width, size.height, |x, y| toy::colour(3, x, y))
}

/// Posteriors of one pixel, tree by tree, in floating point.
fn plain(forest: &Forest, planes: &Planes, x: usize, y: usize) -> Vec<f64> {
    let FeatureSpec::Region(feature) = forest.meta.feature else {
        panic!("regions only");
    };
    let mut sums = vec![0.0; 3];
    for tree in &forest.trees {
        let mut node = tree.nodes[0];
        while node.left != LEAF {
            let response = feature.response(planes, &node.theta, x as i32, y as i32);
            let right = usize::from(response > node.tau);
            node = tree.nodes[node.left as usize + right];
        }
        let leaf = &tree.counts[3 * node.leaf_number().unwrap() as usize..][..3];
        let weighted = [leaf[0], 2 * leaf[1], leaf[2]].map(f64::from);
        let all: f64 = weighted.iter().sum();
        for (sum, n) in sums.iter_mut().zip(weighted) {
            *sum += n / all / 3.0;
        }
    }
    sums
}

/// Each pixel's posteriors and label against those of a walk of its own.
fn check(forest: &Forest, sizes: &[(usize, usize)]) {
    for &(w, h) in sizes {
        let size = Size::new(w, h);
        let picture = picture(size);
        let spec = InputSpec::default();
        let mut planes = Planes::new(size, &spec, forest.meta.feature.needs());
        PlaneBuilder::new(&spec).fill(&mut planes, Pixels::Rgb(&picture), false);
        for step in [1, 2, 3, 40] {
            let params = Params {
                step,
                posteriors: true,
                ..Params::default()
            };
            let mut plan = Plan::new(forest, &params, size, None).unwrap();
            let mut output = plan.output();
            let input = Input {
                pixels: Pixels::Rgb(&picture),
                depth: Depth::None,
            };
            plan.run(input, &mut output);
            let grid = params.grid(size);
            assert_eq!(output.labels.size(), grid);
            let step = step as usize;
            for (gy, gx) in (0..grid.height).flat_map(|y| (0..grid.width).map(move |x| (y, x))) {
                let at = |cell: usize, side: usize| (cell * step + step / 2).min(side - 1);
                let expected = plain(forest, &planes, at(gx, w), at(gy, h));
                let got = &output.posteriors[3 * (gy * grid.width + gx)..][..3];
                for (&got, want) in got.iter().zip(&expected) {
                    assert!((f64::from(got) - want * 65_535.0).abs() < 2.5);
                }
                let best = (0..3).rev().max_by_key(|&c| got[c]).unwrap();
                // Among equals after rounding down, either.
                let label = forest
                    .meta
                    .classes
                    .iter()
                    .position(|c| c.index == output.labels.get(gx, gy));
                let label = label.unwrap();
                assert!(got[label] == got[best]);
                assert_eq!(output.confidence.get(gx, gy), got[label]);
            }
        }
    }
}

#[test]
fn labels_are_those_of_the_greatest_mean_posterior() {
    check(
        &forest(),
        &[(1, 1), (31, 33), (32, 20), (2, 1025), (1023, 3)],
    );
}

/// Tiles in the middle, at the borders and cut by them; regions of which some lie inside.
#[test]
fn pixels_together_find_the_leaves_of_single_ones() {
    for norm in [Norm::Mean, Norm::Sum] {
        for shrink in [false, true] {
            let forest = forest_of(|feature| {
                feature.offset_px = 12;
                feature.region_px = 5;
                feature.single_share = 64;
                feature.row_share = 8;
                (feature.norm, feature.shrink) = (norm, shrink);
            });
            check(&forest, &[(300, 97), (129, 33)]);
        }
    }
}

#[test]
fn threads_change_nothing_and_runs_allocate_nothing() {
    let forest = forest();
    let size = Size::new(150, 61);
    let picture = picture(size);
    let grey = Image::from_fn(150, 61, |x, y| picture.get(x, y)[0]);
    let params = Params {
        posteriors: true,
        ..Params::default()
    };
    let mut expected = None;
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let output = pool.install(|| {
            let mut plan = Plan::new(&forest, &params, size, None).unwrap();
            assert!(plan.replicates_grey() && !plan.needs_depth());
            let mut output = plan.output();
            let mut run = |pixels| {
                let depth = Depth::None;
                plan.run(Input { pixels, depth }, &mut output);
            };
            run(Pixels::Rgb(&picture));
            run(Pixels::Grey(&grey));
            let before = heap::allocations();
            run(Pixels::Rgb(&picture));
            assert_eq!(heap::allocations() - before, 0, "{threads} threads");
            output
        });
        assert_eq!(expected.get_or_insert(output.clone()), &output);
    }
}

#[test]
fn depth_from_disparity_and_void_without_it() {
    let tmp = toy::folder();
    for (i, (w, h)) in toy::sizes().into_iter().enumerate() {
        std::fs::create_dir_all(tmp.path().join("depth")).unwrap();
        let depth = Disparity::from_fn(w, h, |x, y| 1000 * u16::from(toy::label(i, x, y) + 1));
        let path = tmp.path().join(format!("depth/p{i}.png"));
        roadloop::frame::png::write_disparity(&path, &depth).unwrap();
    }
    let options = roadloop::training::data::DataOptions {
        folder: Some(tmp.path().into()),
        depth: Some(tmp.path().join("depth")),
        ..Default::default()
    };
    let data = roadloop::training::data::Dataset::open(&options).unwrap();
    let facts = data.scan().unwrap();
    let mut job = toy::job(&data, &facts);
    job.feature = FeatureSpec::Rgbd(Rgbd {
        offset_px: 12,
        shrink: true,
        ..Rgbd::default()
    });
    job.recipe.threshold_source = ThresholdSource::Responses;
    let forest = toy::quiet(&job).unwrap();
    let size = Size::new(40, 17);
    // f B = 4 px m: 4000 mm at 1 px.
    let camera = Camera {
        focal_px: 40.0,
        cx: 0.0,
        cy: 0.0,
        baseline_m: 0.1,
    };
    let missing = |x: usize, y: usize| (x + y).is_multiple_of(7);
    let disparity = Disparity::from_fn(40, 17, |x, y| match missing(x, y) {
        true => INVALID,
        false => 256 + 64 * (x as u16),
    });
    let steps = Image::from_fn(40, 17, |x, y| match disparity.get(x, y) {
        INVALID => 0,
        d => (f64::from(4000 * 256) / f64::from(d) + 0.5) as u16,
    });
    let picture = picture(size);
    for void in [false, true] {
        let params = Params {
            void_without_depth: void,
            ..Params::default()
        };
        let mut plan = Plan::new(&forest, &params, size, Some(&camera)).unwrap();
        assert!(plan.needs_depth());
        let mut outputs = Vec::new();
        for depth in [
            Depth::Disparity(&disparity),
            Depth::Steps(&steps),
            Depth::None,
        ] {
            let mut output = plan.output();
            let pixels = Pixels::Rgb(&picture);
            plan.run(Input { pixels, depth }, &mut output);
            outputs.push(output);
        }
        assert_eq!(outputs[0], outputs[1]);
        for (x, y) in (0..17).flat_map(|y| (0..40).map(move |x| (x, y))) {
            assert_eq!(outputs[0].labels.get(x, y) == 0, void && missing(x, y));
            assert_eq!(outputs[2].labels.get(x, y) == 0, void);
        }
    }
}

#[test]
fn leaf_options_and_refusals() {
    let forest = forest();
    let size = Size::new(20, 20);
    let of = |leaves| {
        let params = Params {
            leaves,
            ..Params::default()
        };
        let mut plan = Plan::new(&forest, &params, size, None).map_err(|e| e.to_string())?;
        let mut output = plan.output();
        let picture = picture(size);
        let input = Input {
            pixels: Pixels::Rgb(&picture),
            depth: Depth::None,
        };
        plan.run(input, &mut output);
        Ok::<u64, String>(output.confidence.pixels().map(|&c| u64::from(c)).sum())
    };
    let usual = LeafOptions::default();
    let base = of(usual).unwrap();
    // Counts added to all classes make a forest less sure, a bias surer.
    assert!(
        of(LeafOptions {
            alpha: 50.0,
            ..usual
        })
        .unwrap()
            < base
    );
    assert!(of(LeafOptions { bias: 0.2, ..usual }).unwrap() > base);
    assert_ne!(
        of(LeafOptions {
            prior: true,
            ..usual
        })
        .unwrap(),
        base
    );
    assert_eq!(
        of(LeafOptions { bias: 1.0, ..usual }).unwrap_err(),
        "forest.bias is 1, expected 0 to below 1"
    );
    // A balance of 1 takes away what the prior brings.
    let balanced = |balance, prior| {
        of(LeafOptions {
            balance,
            prior,
            ..usual
        })
    };
    assert_eq!(balanced(1.0, true).unwrap(), base);
    assert_ne!(balanced(1.0, false).unwrap(), base);
    assert_ne!(balanced(1.0, false).unwrap(), balanced(0.5, false).unwrap());
    for wrong in [-0.1, 2.5, f64::NAN] {
        assert_eq!(
            balanced(wrong, false).unwrap_err(),
            format!("forest.balance is {wrong}, expected 0 to 2")
        );
    }
    let refused = |params: Params, w, h| {
        let plan = Plan::new(&forest, &params, Size::new(w, h), None);
        plan.err().map(|e| e.to_string())
    };
    let step = Params {
        step: 0,
        ..Params::default()
    };
    assert_eq!(
        refused(step, 5, 5).unwrap(),
        "forest.step is 0, expected 1 to 256"
    );
    assert_eq!(
        refused(Params::default(), 0, 5).unwrap(),
        "forest: images of 0x5, expected 1x1 to 16384x16384"
    );
    let unknown = toml::from_str::<Params>("stepp = 2").unwrap_err();
    assert!(unknown.to_string().contains("stepp"));
    assert_eq!(toml::from_str::<Params>("").unwrap(), Params::default());
}
