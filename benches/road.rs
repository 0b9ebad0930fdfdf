//! What does the road stage cost a frame?
use criterion::{Criterion, criterion_group, criterion_main};
use roadloop::{
    frame::{Camera, Disparity, INVALID, Image, Road, RoadOrigin},
    stage::{
        Stage as _,
        road::{Params, cpu::Plan},
    },
};

/// Road, two walls and a sixteenth of holes, with some noise.
fn scene(width: usize, height: usize) -> Disparity {
    let mut noise = 1u32;
    Image::from_fn(width, height, |x, y| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if noise >> 28 == 0 {
            return INVALID;
        }
        let ground = 80.0 * (y as f64 / height as f64 - 0.45);
        let wall = if x < width / 3 { 25.0 } else { 8.0 };
        let d = ground.max(wall) + f64::from(noise >> 16) / 65536.0;
        (d * 256.0) as u16
    })
}

fn road(c: &mut Criterion) {
    let mut group = c.benchmark_group("road");
    for (width, height) in [(640, 480), (1024, 440), (1226, 370), (1280, 720)] {
        let camera = Camera {
            focal_px: 700.0,
            cx: width as f64 / 2.0,
            cy: height as f64 / 2.0,
            baseline_m: 0.5,
        };
        let scene = scene(width, height);
        let size = scene.size();
        let mut plan = Plan::new(&Params::default(), size, &camera, 128, None)
            .expect("default parameters are valid");
        let mut road = Road {
            slope: 0.0,
            offset: 0.0,
            horizon_row: 0.0,
            pitch_rad: 0.0,
            camera_height_m: 0.0,
            confidence: 0.0,
            origin: RoadOrigin::Assumed,
        };
        group.bench_function(format!("{width}x{height}"), |b| {
            b.iter(|| plan.run(&scene, &mut road));
        });
    }
    group.finish();
}

criterion_group!(benches, road);
criterion_main!(benches);
