//! Forests that nobody trained: valid, of any feature, the same on every run.
#![allow(dead_code)]
use roadloop::{
    maths::random::hash,
    stage::forest::{
        Class, Colour, DepthDifference, Feature as _, FeatureSpec, Forest, InputSpec, Meta, Node,
        Norm, Purpose, Recipe, Region, Rgbd, Seed, Theta, Tree, dispatch,
    },
};

/// Questions about colours, of every kind.
pub fn region(channels: u8, norm: Norm, shrink: bool) -> FeatureSpec {
    let most = if norm == Norm::Sum { 9000 } else { 40 * 256 };
    FeatureSpec::Region(Region {
        channels,
        offset_px: 30,
        region_px: 12,
        norm,
        shrink,
        single_share: 60,
        row_share: 20,
        thresholds: (-most, most),
        single_thresholds: (0, 2 * most),
    })
}

/// Questions about colours and depths, of every kind.
pub fn rgbd(channels: u8, norm: Norm, shrink: bool) -> FeatureSpec {
    let most = if norm == Norm::Sum { 3000 } else { 40 * 256 };
    FeatureSpec::Rgbd(Rgbd {
        channels,
        offset_px: 60,
        region_px: 9,
        reference: 1500,
        norm,
        shrink,
        depth_share: 100,
        single_share: 40,
        row_share: 20,
        thresholds: (-most, most),
        single_thresholds: (0, 2 * most),
        depth_thresholds: (-800 * 256, 800 * 256),
    })
}

/// Questions about depths.
pub fn depth(one_offset: bool) -> FeatureSpec {
    FeatureSpec::Depth(DepthDifference {
        one_offset,
        ..DepthDifference::default()
    })
}

/// Images of 8 bits.
pub fn input(channels: u8, colour: Colour, fill_depth: bool) -> InputSpec {
    InputSpec {
        colour,
        channels,
        fill_depth,
        ..InputSpec::default()
    }
}

fn tree(feature: &FeatureSpec, t: u32, depth: u32, classes: usize) -> Tree {
    let mut tree = Tree::default();
    let (mut levels, mut leaves) = (vec![1], 0);
    let mut i = 0;
    while i < levels.len() {
        let level = levels[i];
        let n = i as u32;
        // Some branches end before others.
        if level < depth && (level < 3 || hash(t, n, 1) % 8 < 7) {
            let mut words = Seed::default().stream(Purpose::Feature, t, n, 0);
            let theta: Theta = dispatch!(feature, f => f.draw(&mut words));
            let (low, high) = dispatch!(feature, f => f.threshold_range(&theta));
            tree.nodes.push(Node {
                left: levels.len() as u32,
                theta,
                tau: words.within(low, high),
            });
            levels.extend([level + 1; 2]);
        } else {
            tree.nodes.push(Node::leaf(leaves));
            leaves += 1;
            // Some leaves have seen nothing.
            let seen = !hash(t, n, 2).is_multiple_of(16);
            tree.counts.extend((0..classes as u32).map(|c| {
                let count = hash(t, n, 3 + c) % 40;
                if seen { count } else { 0 }
            }));
        }
        i += 1;
    }
    tree
}

/// A forest of some trees of some depth at most.
pub fn forest(
    feature: FeatureSpec,
    input: InputSpec,
    trees: u32,
    depth: u32,
    classes: usize,
) -> Forest {
    let class = |i: usize| Class {
        index: 1 + i as u8,
        name: format!("class {i}"),
        colour: [i as u8; 3],
    };
    Forest {
        meta: Meta {
            feature,
            input,
            classes: (0..classes).map(class).collect(),
            void: 0,
            recipe: Recipe {
                trees,
                depth,
                ..Recipe::default()
            },
            images: 1,
            class_pixels: vec![1; classes],
            data_digest: 0,
            progress: None,
            program: "test".into(),
        },
        trees: (0..trees)
            .map(|t| tree(&feature, t, depth, classes))
            .collect(),
    }
}
