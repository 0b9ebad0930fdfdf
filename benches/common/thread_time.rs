//! Processor time of one thread, which other programs disturb less than the time on the wall.
use std::time::Duration;

/// Least and median processor time of a call of `f` on a thread alone, ms, after `warm` calls.
pub fn thread_time(warm: usize, runs: usize, mut f: impl FnMut() + Send) -> [f64; 2] {
    let now = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let mut times: Vec<f64> = pool.expect("one thread").install(|| {
        (0..warm).for_each(|_| f());
        let time = |_| {
            let start = now();
            f();
            (now() - start).as_secs_f64() * 1e3
        };
        (0..runs).map(time).collect()
    });
    times.sort_by(f64::total_cmp);
    [times[0], times[runs / 2]]
}

/// A line for people and one of JSON.
pub fn tell(bench: &str, case: &str, size: &str, [least, median]: [f64; 2]) {
    println!("{bench}: {size} {case}: {least:.3} ms, median {median:.3}");
    let json = serde_json::json!({
        "bench": bench, "case": case, "size": size, "least_ms": least, "median_ms": median,
    });
    println!("{json}");
}
