//! Logos against truth, and a benchmark that makes its own.
pub mod benchmark;
pub mod composite;
pub mod marks;

/// Mean distance of corners, px.
fn corner_error(a: &[[f64; 2]; 4], b: &[[f64; 2]; 4]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(p, q)| {
            let (x, y) = (p[0] - q[0], p[1] - q[1]);
            (x * x + y * y).sqrt()
        })
        .sum::<f64>()
        / 4.0
}
