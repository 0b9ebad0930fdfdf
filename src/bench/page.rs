//! The report as an HTML page: histograms against budgets.
use std::fmt::Write as _;

use super::report::{FRAME, HANDED_OUT, Quantiles, REQUIRED, Report};
use crate::sink::report::{
    END, begin,
    chart::{COLOURS, spread_of},
    escape,
};

/// Writing to a string can't fail.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {
        let _ = write!($page, $($text)*);
    };
}

/// The text of the page.
pub fn html(report: &Report) -> String {
    let mut page = begin("roadloop latency");
    head(&mut page, report);
    table(&mut page, report);
    histograms(&mut page, report);
    gaps(&mut page, report);
    page.push_str("<h2>Where this comes from</h2>\n<div class=\"panel\"><table class=\"facts\">");
    for (what, value) in report.facts() {
        let value = escape(value);
        put!(
            page,
            "<tr><td>{what}</td><td><code>{value}</code></td></tr>\n"
        );
    }
    page.push_str("</table></div>\n");
    page.push_str(END);
    page
}

fn head(page: &mut String, report: &Report) {
    let s = &report.settings;
    put!(
        page,
        "<h1>Latency</h1>\n<p class=\"sub\">{} · {} Hz · backend {} · roadloop {}</p>\n",
        escape(&s.input),
        rounded(s.rate_hz),
        escape(&report.provenance.backend),
        escape(&report.provenance.version)
    );
    let ms = |us: f64| format!("{:.2} ms", us / 1000.0);
    let d = &report.frame.duration;
    let misses = report.misses.late + report.misses.without_result;
    let warn = if misses > 0 { " warn" } else { "" };
    page.push_str("<div class=\"cards\">");
    for (class, value, what) in [
        ("", report.frames.to_string(), "frames with a result"),
        ("", ms(d.p50_us), "a frame, median"),
        ("", ms(d.p999_us), "a frame, p99.9"),
        ("", ms(d.max_us), "a frame, slowest"),
        (warn, misses.to_string(), "missed deadlines"),
    ] {
        put!(
            page,
            "<div class=\"card{class}\"><b>{value}</b><span>{what}</span></div>"
        );
    }
    page.push_str("</div>\n");
    for doubt in &report.doubts {
        put!(page, "<p class=\"note\">Doubtful: {}</p>\n", escape(doubt));
    }
}

fn row(page: &mut String, name: &str, q: &Quantiles, rest: [Option<u64>; 3]) {
    put!(page, "<td>{}</td>", escape(name));
    for us in [
        q.p50_us, q.p90_us, q.p99_us, q.p999_us, q.p9999_us, q.max_us,
    ] {
        put!(page, "<td>{:.3}</td>", us / 1000.0);
    }
    for n in rest {
        put!(
            page,
            "<td>{}</td>",
            n.map_or(String::new(), |n| n.to_string())
        );
    }
    page.push_str("</tr>\n");
}

fn table(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Stages and frames</h2>\n<div class=\"panel\"><table><tr><th>ms</th><th>p50</th>\
         <th>p90</th><th>p99</th><th>p99.9</th><th>p99.99</th><th>max</th><th>over budget</th>\
         <th>late</th><th>skipped</th></tr>\n",
    );
    for (name, stage) in &report.stages.0 {
        page.push_str("<tr>");
        let rest = [stage.over_budget, stage.late, stage.skipped].map(Some);
        row(page, name, &stage.duration, rest);
    }
    let late = |n| [None, Some(n), None];
    let (frame, out) = (&report.frame, &report.handed_out);
    let misses = &report.misses;
    for (name, q, rest) in [
        (
            "required stages",
            &report.required,
            late(misses.required_late),
        ),
        ("whole frame", &frame.duration, late(misses.late)),
        ("jitter of that", &frame.jitter, [None; 3]),
        ("handed out", &out.course.duration, late(out.late)),
        ("jitter of that", &out.course.jitter, [None; 3]),
    ] {
        page.push_str("<tr class=\"total\">");
        row(page, name, q, rest);
    }
    page.push_str("</table></div>\n");
}

fn histograms(page: &mut String, report: &Report) {
    page.push_str("<h2>Frames by duration, against the budgets</h2>\n<div class=\"panel\">");
    let deadline = Some(report.settings.deadline_us);
    let stages = report.stages.0.iter().enumerate().map(|(i, (name, s))| {
        let class = format!("c{}", i % COLOURS);
        (name.as_str(), name.as_str(), class, Some(s.budget_us))
    });
    let whole = [
        (REQUIRED, "required stages", deadline),
        (FRAME, "whole frame", deadline),
        (HANDED_OUT, "handed out", report.settings.latency_us),
    ];
    let whole = whole.map(|(key, name, budget)| (key, name, "whole".to_owned(), budget));
    for (key, name, class, budget) in stages.chain(whole) {
        let counts = report.histogram(key);
        if counts.is_empty() {
            continue;
        }
        let text = budget.map_or("no budget".into(), |b| {
            let over = counts.iter().filter(|c| c.0 > b as f64);
            let over: u64 = over.map(|c| c.1).sum();
            format!("budget {:.2} ms, about {over} over it", b as f64 / 1000.0)
        });
        put!(
            page,
            "<div class=\"pair\"><h3><span class=\"key {class}\"></span>{}</h3>\
             <span class=\"note\">{text}</span>",
            escape(name)
        );
        let budget_ms = budget.map(|b| b as f64 / 1000.0);
        page.push_str(&spread_of(name, &class, counts.iter().copied(), budget_ms));
        page.push_str("</div>\n");
    }
    page.push_str("</div>\n");
}

fn gaps(page: &mut String, report: &Report) {
    page.push_str("<h2>Gaps</h2>\n");
    let gaps = report.gaps.0.iter().filter(|(_, n)| *n > 0);
    if gaps.clone().next().is_none() {
        page.push_str("<p>None: every frame has its complete result.</p>\n");
        return;
    }
    page.push_str("<div class=\"panel\"><table><tr><th>what</th><th>frames</th></tr>\n");
    for (name, n) in gaps {
        put!(page, "<tr><td>{}</td><td>{n}</td></tr>\n", escape(name));
    }
    page.push_str("</table></div>\n");
}

/// A rate as people read it.
pub(crate) fn rounded(hz: f64) -> f64 {
    (hz * 100.0).round() / 100.0
}
