use std::fmt::Write as _;

use super::{data::Frame, escape};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;
/// Bars that can still be told apart.
const MOST_BARS: usize = 300;
/// Colours of stages in the style sheet.
pub const COLOURS: usize = 8;

/// A round step of 1, 2 or 5 times a power of ten that divides `range` into at most six.
fn step(range: f64) -> f64 {
    let mut power = 1e-3;
    loop {
        for n in [1.0, 2.0, 5.0] {
            if range <= 6.0 * n * power || power > 1e12 {
                return n * power;
            }
        }
        power *= 10.0;
    }
}

struct Plot {
    svg: String,
    width: f64,
    height: f64,
    top_value: f64,
}

impl Plot {
    /// Frame, grid and labels of the vertical axis.
    fn new(label: &str, height: f64, most: f64, unit: &str) -> Self {
        Self::sized(label, (WIDTH, height), most, unit)
    }

    fn sized(label: &str, (width, height): (f64, f64), most: f64, unit: &str) -> Self {
        let mut svg = String::new();
        let _ = write!(
            svg,
            r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="{}">"#,
            escape(label)
        );
        let step = step(most.max(1e-3));
        let steps = (most / step).ceil().max(1.0);
        let mut plot = Self {
            svg,
            width,
            height,
            top_value: steps * step,
        };
        for i in 0..=steps as usize {
            let value = i as f64 * step;
            let y = plot.y(value);
            let decimals = if step < 1.0 { 2 } else { 0 };
            let _ = write!(
                plot.svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" text-anchor="end" x="{:.1}" y="{:.1}">{value:.decimals$}{unit}</text>"#,
                width - RIGHT,
                LEFT - 6.0,
                y + 4.0
            );
        }
        plot
    }

    fn y(&self, value: f64) -> f64 {
        let room = self.height - TOP - BOTTOM;
        TOP + room * (1.0 - value / self.top_value)
    }

    fn bar(&mut self, class: &str, x: f64, width: f64, from: f64, to: f64, title: &str) {
        let (y, below) = (self.y(to), self.y(from));
        let _ = write!(
            self.svg,
            r#"<rect class="{class}" x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{:.2}"><title>{}</title></rect>"#,
            below - y,
            escape(title)
        );
    }

    fn below(&mut self, x: f64, text: &str) {
        let y = self.height - 9.0;
        let _ = write!(
            self.svg,
            r#"<text class="tick" text-anchor="middle" x="{x:.1}" y="{y:.1}">{}</text>"#,
            escape(text)
        );
    }

    fn line(&mut self, value: f64, text: &str) {
        let y = self.y(value);
        let _ = write!(
            self.svg,
            r#"<line class="mark" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick mark" text-anchor="end" x="{:.1}" y="{:.1}">{}</text>"#,
            self.width - RIGHT,
            self.width - RIGHT,
            y - 4.0,
            escape(text)
        );
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Duration of each frame, stacked by stage. Of a long drive each bar is the slowest of several
/// neighbours, so that no peak is lost.
pub(super) fn timeline(frames: &[Frame], stages: &[String], p99_ms: f64) -> String {
    let per_bar = frames.len().div_ceil(MOST_BARS).max(1);
    let bars: Vec<&Frame> = frames
        .chunks(per_bar)
        .filter_map(|chunk| {
            let slower = |a: &&Frame, b: &&Frame| a.duration_us.total_cmp(&b.duration_us);
            // A frame without a result is what must be seen.
            let gap = chunk.iter().find(|f| !f.has_result());
            gap.or_else(|| chunk.iter().max_by(slower))
        })
        .collect();
    let ms = |us: f64| us / 1000.0;
    // Stages that ran side by side can add up to more than the frame.
    let height_of = |f: &&Frame| {
        let sum: f64 = f.stages.iter().map(|s| s.1).sum();
        ms(f.duration_us.max(sum))
    };
    let most = bars.iter().map(height_of).fold(0.0, f64::max);
    let mut plot = Plot::new("duration of each frame by stage", 240.0, most, " ms");
    let pitch = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let width = (pitch * 0.84).max(0.5);
    for (i, frame) in bars.iter().enumerate() {
        let x = LEFT + i as f64 * pitch;
        if !frame.has_result() {
            let title = format!("frame {}: {}", frame.number, frame.outcome);
            let top = plot.top_value;
            plot.bar("gap", x, width, 0.0, top, &title);
            continue;
        }
        let title = |what: &str, us: f64| {
            format!(
                "frame {} ({}), {what}: {:.3} ms",
                frame.number,
                frame.outcome,
                ms(us)
            )
        };
        plot.bar(
            "rest",
            x,
            width,
            0.0,
            ms(frame.duration_us),
            &title("in all", frame.duration_us),
        );
        let mut from = 0.0;
        for &(stage, us) in &frame.stages {
            let class = format!("c{}", stage % COLOURS);
            let title = title(&stages[stage], us);
            plot.bar(&class, x, width, from, from + ms(us), &title);
            from += ms(us);
        }
    }
    if p99_ms > 0.0 && p99_ms <= plot.top_value {
        plot.line(p99_ms, "p99");
    }
    let labels = bars.len().min(8);
    for i in 0..labels {
        let at = i * bars.len() / labels;
        let x = LEFT + at as f64 * pitch + width / 2.0;
        plot.below(x, &bars[at].number.to_string());
    }
    plot.end()
}

/// How many frames took how long.
pub(super) fn histogram(frames: &[Frame]) -> String {
    const BINS: usize = 24;
    let times = frames.iter().filter(|f| f.has_result());
    let times: Vec<f64> = times.map(|f| f.duration_us / 1000.0).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    if times.is_empty() {
        return String::new();
    }
    let span = (most - least).max(1e-3);
    let mut bins = [0usize; BINS];
    for t in &times {
        let bin = (t - least) / span * BINS as f64;
        bins[(bin as usize).min(BINS - 1)] += 1;
    }
    let tallest = bins.into_iter().max().unwrap_or_default();
    // Frames come whole: no half steps on the axis.
    let mut plot = Plot::new("frames by duration", 180.0, tallest.max(6) as f64, "");
    let pitch = (WIDTH - LEFT - RIGHT) / BINS as f64;
    let edge = |bin: usize| least + span * bin as f64 / BINS as f64;
    for (i, &n) in bins.iter().enumerate() {
        let x = LEFT + i as f64 * pitch;
        if n > 0 {
            let title = format!("{n} frames: {:.2} to {:.2} ms", edge(i), edge(i + 1));
            plot.bar("c0", x, pitch * 0.9, 0.0, n as f64, &title);
        }
        if i % 4 == 0 {
            plot.below(x + 8.0, &format!("{:.2} ms", edge(i)));
        }
    }
    plot.end()
}

/// A frame's number and how long something took in it, us.
pub type Point = (u64, Option<f64>);

/// How wide the two plots of a stage are.
const COURSE: f64 = 620.0;
const SPREAD: f64 = 330.0;
const SMALL: f64 = 120.0;

/// A budget is drawn where it does not make what is measured too small to be seen.
fn near(budget_ms: Option<f64>, most: f64) -> Option<f64> {
    budget_ms.filter(|&b| b <= 4.0 * most)
}

fn highest(points: &[Point]) -> f64 {
    points.iter().filter_map(|p| p.1).fold(0.0, f64::max) / 1000.0
}

/// How long something took, frame by frame. Of a long drive each bar is the slowest of several
/// neighbours.
pub fn course(name: &str, class: &str, points: &[Point], budget_ms: Option<f64>) -> String {
    let most = highest(points);
    let budget = near(budget_ms, most);
    let label = format!("duration of {name}, frame by frame");
    let top = budget.map_or(most, |b| b.max(most) * 1.02);
    let mut plot = Plot::sized(&label, (COURSE, SMALL), top, " ms");
    let bars: Vec<Point> = points
        .chunks(points.len().div_ceil(MOST_BARS).max(1))
        .filter_map(|chunk| {
            let key = |p: &&Point| p.1.unwrap_or(-1.0);
            chunk
                .iter()
                .max_by(|a, b| key(a).total_cmp(&key(b)))
                .copied()
        })
        .collect();
    let pitch = (COURSE - LEFT - RIGHT) / bars.len().max(1) as f64;
    for (i, (number, us)) in bars.iter().enumerate() {
        if let Some(us) = us {
            let ms = us / 1000.0;
            let over = budget_ms.is_some_and(|b| ms > b);
            let class = if over { "over" } else { class };
            let title = format!("frame {number}: {ms:.3} ms");
            let x = LEFT + i as f64 * pitch;
            plot.bar(class, x, (pitch * 0.84).max(0.5), 0.0, ms, &title);
        }
    }
    let labels = bars.len().min(6);
    for i in 0..labels {
        let at = i * bars.len() / labels;
        plot.below(LEFT + (at as f64 + 0.5) * pitch, &bars[at].0.to_string());
    }
    if let Some(b) = budget {
        plot.line(b, "budget");
    }
    plot.end()
}

/// Bins of [`spread`].
const SPREAD_BINS: usize = 30;

/// How many frames took how long.
pub fn spread(name: &str, class: &str, points: &[Point], budget_ms: Option<f64>) -> String {
    let times = points.iter().filter_map(|p| p.1);
    spread_of(name, class, times.map(|us| (us, 1)), budget_ms)
}

/// The same of durations (us) and how many took each.
pub fn spread_of(
    name: &str,
    class: &str,
    times: impl Iterator<Item = (f64, u64)> + Clone,
    budget_ms: Option<f64>,
) -> String {
    const BINS: usize = SPREAD_BINS;
    let most = times.clone().map(|t| t.0).fold(0.0, f64::max) / 1000.0;
    let budget = near(budget_ms, most);
    // From 0, so that stages can be compared with their budgets.
    let span = budget.map_or(most, |b| b.max(most)).max(1e-3) * 1.05;
    let mut bins = [0u64; BINS];
    for (us, n) in times {
        bins[((us / 1000.0 / span * BINS as f64) as usize).min(BINS - 1)] += n;
    }
    let tallest = bins.into_iter().max().unwrap_or_default();
    let label = format!("frames by duration of {name}");
    let mut plot = Plot::sized(&label, (SPREAD, SMALL), tallest.max(6) as f64, "");
    let pitch = (SPREAD - LEFT - RIGHT) / BINS as f64;
    let edge = |bin: usize| span * bin as f64 / BINS as f64;
    for (i, &n) in bins.iter().enumerate().filter(|(_, n)| **n > 0) {
        let over = budget_ms.is_some_and(|b| edge(i) >= b);
        let class = if over { "over" } else { class };
        let title = format!("{n} frames: {:.2} to {:.2} ms", edge(i), edge(i + 1));
        let x = LEFT + i as f64 * pitch;
        plot.bar(class, x, pitch * 0.9, 0.0, n as f64, &title);
    }
    for i in [0, BINS / 2, BINS - 5] {
        let x = LEFT + i as f64 * pitch + 8.0;
        plot.below(x, &format!("{:.2} ms", edge(i)));
    }
    if let Some(b) = budget {
        let x = LEFT + b / span * BINS as f64 * pitch;
        let _ = write!(
            plot.svg,
            r#"<line class="mark" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{:.1}"/>"#,
            SMALL - BOTTOM
        );
    }
    plot.end()
}
