//! The report on a replay: one HTML file with everything in it, to be mailed or archived.
pub(crate) mod chart;
mod data;

use std::{
    fmt::{Display, Write as _},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use data::Results;

use super::{
    SinkError, is_result,
    summary::{Percentiles, write_atomically},
};
use crate::files;

/// Writing to a string can't fail.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {
        let _ = write!($page, $($text)*);
    };
}

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder has no `summary.json`.
    #[error(
        "{}: not found; expected the results of a finished replay (roadloop replay DRIVE --out DIR)",
        path.display()
    )]
    NoSummary {
        /// Where it should be.
        path: PathBuf,
    },
    /// `summary.json` is no summary.
    #[error("{}: {source}; expected a summary that roadloop replay wrote", path.display())]
    Summary {
        /// The file.
        path: PathBuf,
        /// What was found where.
        source: serde_json::Error,
    },
    /// `timing.csv` is damaged.
    #[error("{}: line {line}: {what}", path.display())]
    Timing {
        /// The file.
        path: PathBuf,
        /// The line, 1-based.
        line: u64,
        /// What was found and expected.
        what: String,
    },
    /// A file is missing or can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// As the file system has it.
        source: io::Error,
    },
    /// The page would replace one of the results.
    #[error(
        "--out {}: is, or lies among, the results that the report is on; expected another place",
        path.display()
    )]
    OverResults {
        /// Where the page was to go.
        path: PathBuf,
    },
    /// The page would replace a file that is none.
    #[error("{0}")]
    Replaces(String),
    /// The report can't be written.
    #[error(transparent)]
    Write(#[from] SinkError),
}

/// Writes the report on the results in a folder, with up to `pictures` of its overlays.
///
/// # Errors
/// When the results are not those of a replay, or the file can't be written.
pub fn write(results: &Path, out: &Path, pictures: usize) -> Result<(), ReportError> {
    if is_result(results, out) {
        return Err(ReportError::OverResults { path: out.into() });
    }
    check_page("--out", out).map_err(ReportError::Replaces)?;
    let html = html(results, pictures)?;
    Ok(write_atomically(out, html.as_bytes())?)
}

/// The text of the report.
///
/// # Errors
/// As [`write()`], but for the writing.
pub fn html(folder: &Path, pictures: usize) -> Result<String, ReportError> {
    let results = Results::read(folder)?;
    let mut page = begin("roadloop report");
    head(&mut page, &results);
    stages(&mut page, &results);
    times(&mut page, &results);
    each_stage(&mut page, &results);
    states(&mut page, &results);
    gaps(&mut page, &results);
    overlays(&mut page, &results, pictures);
    provenance(&mut page, &results);
    page.push_str(END);
    Ok(page)
}

/// What pages begin with, and nothing else does.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
                    <meta name=\"generator\" content=\"roadloop\">";

/// Refuses a place for a page where there is something else than a page of roadloop's.
///
/// # Errors
/// With the option that names the place, what was found and what is expected.
pub(crate) fn check_page(option: &str, path: &Path) -> Result<(), String> {
    let refused = |found: &str| {
        let path = path.display();
        Err(format!("{option} {path}: {found}"))
    };
    if let Some(folder) = files::missing_folder(path) {
        let folder = folder.display();
        return refused(&format!("{folder} is no folder, expected a file to write"));
    }
    if path.is_dir() {
        return refused("a folder, expected a file to write");
    }
    // A pipe or a device is written to, and nothing is replaced.
    if !path.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = files::open(path, u64::MAX)
        .and_then(|file| file.take(HEAD.len() as u64).read_to_end(&mut head));
    match read {
        Ok(_) if head == HEAD.as_bytes() => Ok(()),
        _ => refused("it is there and is no page of roadloop's, which alone is replaced"),
    }
}

/// The beginning of a page with everything in it, to where its text begins.
pub(crate) fn begin(title: &str) -> String {
    let mut page = String::with_capacity(64 * 1024);
    page.push_str(HEAD);
    page.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    put!(page, "<title>{}</title>\n<style>\n", escape(title));
    page.push_str(include_str!("style.css"));
    page.push_str("</style></head>\n<body><main>\n");
    page
}

/// Its end.
pub(crate) const END: &str = "</main></body></html>\n";

/// Text as it may stand in HTML, between tags and in quotes.
pub(crate) fn escape(text: impl Display) -> String {
    let text = text.to_string();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn head(page: &mut String, results: &Results) {
    let s = &results.summary;
    put!(
        page,
        "<h1>Replay report</h1>\n<p class=\"sub\">preset {} · backend {} · roadloop {}</p>\n",
        escape(&s.provenance.preset),
        escape(&s.provenance.backend),
        escape(&s.provenance.version)
    );
    let gaps: u64 = s.gaps.0.iter().map(|(_, n)| n).sum();
    let ms = |us: f64| format!("{:.2} ms", us / 1000.0);
    let d = s.frame.duration;
    let warn = if gaps > 0 { " warn" } else { "" };
    page.push_str("<div class=\"cards\">");
    for (class, value, what) in [
        ("", s.frames.to_string(), "frames with a result"),
        ("", ms(d.p50_us), "a frame, median"),
        ("", ms(d.p99_us), "a frame, p99"),
        ("", ms(d.max_us), "a frame, slowest"),
        (warn, gaps.to_string(), "gaps"),
    ] {
        put!(
            page,
            "<div class=\"card{class}\"><b>{value}</b><span>{what}</span></div>"
        );
    }
    put!(
        page,
        "</div>\n<p class=\"note\">digest <code>{}</code>: equal for equal results, on any \
         machine and number of threads</p>\n",
        escape(&s.digest)
    );
}

fn percentiles(page: &mut String, p: &Percentiles) {
    for us in [p.p50_us, p.p99_us, p.p999_us, p.max_us] {
        put!(page, "<td>{:.3}</td>", us / 1000.0);
    }
}

fn stages(page: &mut String, results: &Results) {
    let s = &results.summary;
    page.push_str(
        "<h2>Stages</h2>\n<div class=\"panel\"><table><tr><th>stage, ms</th><th>p50</th>\
         <th>p99</th><th>p99.9</th><th>max</th><th>runs</th><th>over budget</th><th>late</th>\
         <th>skipped</th></tr>\n",
    );
    for (i, (name, stage)) in s.stages.0.iter().enumerate() {
        put!(
            page,
            "<tr><td><span class=\"key c{}\"></span>{}</td>",
            i % chart::COLOURS,
            escape(name)
        );
        percentiles(page, &stage.duration);
        for n in [stage.count, stage.over_budget, stage.late, stage.skipped] {
            put!(page, "<td>{n}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("<tr class=\"total\"><td>whole frame</td>");
    percentiles(page, &s.frame.duration);
    put!(
        page,
        "<td>{}</td><td></td><td>{}</td><td></td></tr>\n",
        s.frames,
        s.frame.late
    );
    page.push_str("<tr><td>jitter, frame to frame</td>");
    percentiles(page, &s.frame.jitter);
    page.push_str("<td></td><td></td><td></td><td></td></tr>\n</table></div>\n");
}

fn times(page: &mut String, results: &Results) {
    if results.frames.is_empty() {
        return;
    }
    let p99_ms = results.summary.frame.duration.p99_us / 1000.0;
    page.push_str("<h2>Time of each frame</h2>\n<div class=\"panel\">");
    page.push_str(&chart::timeline(&results.frames, &results.stages, p99_ms));
    page.push_str("<div class=\"legend\">");
    for (i, name) in results.stages.iter().enumerate() {
        let colour = i % chart::COLOURS;
        put!(
            page,
            "<span><i class=\"key c{colour}\"></i>{}</span>",
            escape(name)
        );
    }
    page.push_str("<span><i class=\"key rest\"></i>between stages</span>");
    page.push_str("<span><i class=\"key gap\"></i>no result</span></div></div>\n");
    page.push_str("<h2>Frames by duration</h2>\n<div class=\"panel\">");
    page.push_str(&chart::histogram(&results.frames));
    page.push_str("</div>\n");
}

/// A row a stage: its durations frame by frame and by length, against its budget; then the same
/// of whole frames, and of the difference of one frame and the next.
fn each_stage(page: &mut String, results: &Results) {
    let of_stage = |stage: usize| {
        let one = |f: &data::Frame| f.stages.iter().find(|s| s.0 == stage).map(|s| s.1);
        results.frames.iter().map(|f| (f.number, one(f))).collect()
    };
    let whole: Vec<chart::Point> = (results.frames.iter())
        .map(|f| (f.number, f.has_result().then_some(f.duration_us)))
        .collect();
    let jitter: Vec<chart::Point> = (results.frames.windows(2))
        .map(|w| {
            let both = w[0].has_result() && w[1].has_result();
            let step = (w[1].duration_us - w[0].duration_us).abs();
            (w[1].number, both.then_some(step))
        })
        .collect();
    let budgets = &results.summary.provenance.budgets_us;
    let mut rows: Vec<(String, String, Vec<chart::Point>, Option<u64>)> = Vec::new();
    for (i, name) in results.stages.iter().enumerate() {
        let class = format!("c{}", i % chart::COLOURS);
        rows.push((name.clone(), class, of_stage(i), budgets.get(name).copied()));
    }
    rows.push((
        "whole frame".into(),
        "whole".into(),
        whole,
        budgets.get("frame").copied(),
    ));
    rows.push((
        "jitter, frame to frame".into(),
        "whole".into(),
        jitter,
        None,
    ));
    page.push_str("<h2>Latency of each stage against its budget</h2>\n<div class=\"panel\">");
    for (name, class, points, budget) in &rows {
        if points.iter().all(|p| p.1.is_none()) {
            continue;
        }
        put!(
            page,
            "<div class=\"pair\"><h3><span class=\"key {class}\"></span>{}</h3>",
            escape(name)
        );
        let over = |us: &f64| budget.is_some_and(|b| *us > b as f64);
        let over = points.iter().filter_map(|p| p.1).filter(over).count();
        let text = match budget {
            Some(b) => format!("budget {:.2} ms, {over} over it", *b as f64 / 1000.0),
            None => "no budget".into(),
        };
        let budget_ms = budget.map(|b| b as f64 / 1000.0);
        put!(page, "<span class=\"note\">{text}</span>");
        page.push_str(&chart::course(name, class, points, budget_ms));
        page.push_str(&chart::spread(name, class, points, budget_ms));
        page.push_str("</div>\n");
    }
    page.push_str(
        "<p class=\"note\">Left: in the order of the frames, of a long drive the slowest of \
         several neighbours. Right: how many frames took how long. Dashed: the budget, where it \
         is near enough to be seen.</p></div>\n",
    );
}

/// How many frames are in each state of motion and foreground.
fn states(page: &mut String, results: &Results) {
    let s = &results.summary;
    let both = [("Motion", &s.motion), ("Foreground", &s.foreground)];
    for (title, counts) in both {
        let Some(counts) = counts else {
            continue;
        };
        let all: u64 = counts.0.iter().map(|(_, n)| n).sum();
        put!(
            page,
            "<h2>{title}</h2>\n<div class=\"panel\"><table class=\"states\">"
        );
        for (name, n) in &counts.0 {
            let share = *n as f64 / all.max(1) as f64 * 100.0;
            put!(
                page,
                "<tr><td>{}</td><td>{n}</td><td><div class=\"share\" style=\"width:{share:.1}%\">\
                 </div></td></tr>\n",
                escape(name)
            );
        }
        page.push_str("</table></div>\n");
    }
}

fn gaps(page: &mut String, results: &Results) {
    page.push_str("<h2>Gaps</h2>\n");
    let gaps = &results.summary.gaps.0;
    if gaps.iter().all(|(_, n)| *n == 0) {
        page.push_str("<p>None: every frame has its complete result.</p>\n");
    } else {
        page.push_str("<div class=\"panel\"><table><tr><th>what</th><th>frames</th></tr>\n");
        for (name, n) in gaps.iter().filter(|(_, n)| *n > 0) {
            put!(page, "<tr><td>{}</td><td>{n}</td></tr>\n", escape(name));
        }
        page.push_str("</table></div>\n");
    }
    let pictures = results.summary.pictures;
    if pictures.dropped > 0 {
        put!(
            page,
            "<p class=\"note\">{} frames have no pictures: they came faster than pictures can \
             be written.</p>\n",
            pictures.dropped
        );
    }
}

fn overlays(page: &mut String, results: &Results, most: usize) {
    let all = &results.overlays;
    let n = most.min(all.len());
    if n == 0 {
        return;
    }
    page.push_str("<h2>Pictures</h2>\n");
    for i in 0..n {
        // The first, the last, and evenly between them.
        let path = &all[if n == 1 {
            all.len() / 2
        } else {
            i * (all.len() - 1) / (n - 1)
        }];
        // A picture that was lost since costs the page no more than that.
        let bytes = match files::read(path, files::MAX_LIST) {
            Ok(bytes) => bytes,
            Err(e) => {
                log::warn!("left out: {}: {e}", path.display());
                continue;
            }
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        page.push_str("<figure><img alt=\"left image with stixels\" src=\"data:image/png;base64,");
        BASE64_STANDARD.encode_string(bytes, page);
        put!(
            page,
            "\"><figcaption>frame {}</figcaption></figure>\n",
            escape(name)
        );
    }
}

fn provenance(page: &mut String, results: &Results) {
    let s = &results.summary;
    let p = &s.provenance;
    page.push_str("<h2>Where this comes from</h2>\n<div class=\"panel\"><table class=\"facts\">");
    let parts = s.digests.0.iter();
    let facts = [
        ("roadloop".to_owned(), &p.version),
        ("backend".to_owned(), &p.backend),
        ("preset".to_owned(), &p.preset),
        ("configuration, hash".to_owned(), &p.config_hash),
        ("calibration, hash".to_owned(), &p.calib_hash),
        ("drive".to_owned(), &p.drive),
        ("pace".to_owned(), &p.pace),
        ("digest".to_owned(), &s.digest),
    ];
    let parts = parts.map(|(part, hash)| (format!("digest of {part}"), hash));
    for (what, value) in facts.into_iter().chain(parts) {
        put!(
            page,
            "<tr><td>{}</td><td><code>{}</code></td></tr>\n",
            escape(what),
            escape(value)
        );
    }
    page.push_str("</table></div>\n");
}
