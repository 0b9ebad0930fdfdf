//! Does finding, describing and matching features take memory while it runs?
use roadloop::{
    frame::{Image, Size},
    stage::logo::features::{FeatureParams, Features, cpu::Plan, matcher},
};

#[path = "common/heap.rs"]
mod heap;

#[test]
fn features_and_matches_allocate_nothing() {
    let params = FeatureParams {
        max_keypoints: 200,
        cell_px: 40,
        ..FeatureParams::default()
    };
    let size = Size::new(320, 200);
    let noise = |salt: usize| {
        Image::from_fn(size.width, size.height, |x, y| {
            ((x / 3 * 7919) ^ (y / 3 * 104_729) ^ (x * y * salt)) as u8
        })
    };
    let images = [
        noise(31),
        noise(17),
        Image::filled(size.width, size.height, 9),
    ];
    // In the pool, as the loop's thread is.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.unwrap().install(|| {
        let mut plan = Plan::new(&params, size).unwrap();
        let mut out = Features::new(&params);
        let mut matches = Vec::with_capacity(params.capacity());
        let mut found = 0;
        for round in 0..3 {
            let before = heap::allocations();
            for image in &images {
                plan.run(image, &mut out);
                matcher::two_nearest(&out.descriptors, &out.descriptors, &mut matches);
                found += matches.len();
            }
            let taken = heap::allocations() - before;
            assert!(round == 0 || taken == 0, "{taken} allocations");
        }
        assert!(found > 300, "{found}");
    });
}
