//! How long does the stixel stage take? On a drawn street with noise, holes and several objects
//! in each column; real drives take about as long.
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use roadloop::{
    frame::{Camera, Disparity, INVALID, Road, RoadOrigin, Size},
    stage::{
        Stage as _,
        stixel::{Input, Params, cpu::Plan},
    },
};

fn noise(x: usize, y: usize) -> u64 {
    let mut z = (x as u64) << 32 ^ y as u64;
    for _ in 0..3 {
        z = (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    z ^ z >> 32
}

fn street(size: Size, road: &Road) -> Disparity {
    let horizon = road.horizon_row as usize;
    Disparity::from_fn(size.width, size.height, |x, y| {
        let n = noise(x, y);
        if n.is_multiple_of(16) || noise(x / 24, y / 24).is_multiple_of(9) {
            return INVALID;
        }
        let ground = f64::from(road.slope) * (y as f64 - f64::from(road.horizon_row));
        // Something every 40 columns, nearer and taller from one to the next.
        let at = x / 40 % 7;
        let object = 4.0 + 9.0 * at as f64;
        let (top, house) = (horizon.saturating_sub(10 * at), horizon.saturating_sub(120));
        let wall = match y {
            y if y >= top => object,
            y if y >= house => 6.0,
            _ => 0.0,
        };
        let jitter = (n >> 8) as f64 % 256.0 - 128.0;
        (ground.max(wall) * 256.0 + jitter).max(0.0) as u16
    })
}

fn stixel(c: &mut Criterion) {
    let pools = [1, 2].map(|n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
        (n, pool.expect("a pool of threads"))
    });
    for (name, params) in [("default", Params::default()), ("paper", Params::paper())] {
        let mut group = c.benchmark_group(format!("stixel/{name}"));
        group.sample_size(20);
        for (width, height) in [(640, 480), (1024, 440), (1226, 370), (1280, 720)] {
            let size = Size::new(width, height);
            let camera = Camera {
                focal_px: 707.0,
                cx: width as f64 / 2.0,
                cy: height as f64 / 2.0,
                baseline_m: 0.54,
            };
            let horizon_row = height as f32 / 2.0;
            let road = Road {
                slope: 0.33,
                offset: -0.33 * horizon_row,
                horizon_row,
                pitch_rad: 0.0,
                camera_height_m: 1.64,
                confidence: 1.0,
                origin: RoadOrigin::Fixed,
            };
            let disparity = street(size, &road);
            for (threads, pool) in &pools {
                let id = BenchmarkId::new(size.to_string(), format!("{threads} threads"));
                group.bench_function(id, |b| {
                    pool.install(|| {
                        let mut plan =
                            Plan::new(&params, size, &camera, 128).expect("the presets are usable");
                        let mut out = plan.output();
                        let input = Input {
                            disparity: &disparity,
                            road: &road,
                        };
                        b.iter(|| plan.run(black_box(input), &mut out));
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, stixel);
criterion_main!(benches);
