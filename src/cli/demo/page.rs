//! `index.html` of a demo: what was found, in motion, and where the rest lies.
use std::fmt::Write as _;

use crate::{
    bench::report::Report,
    sink::{
        overlay::tour::Shown,
        report::{END, begin, escape},
        summary::Summary,
    },
};

/// Writing to a string can't fail.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {
        let _ = write!($page, $($text)*);
    };
}

/// What lies beside the page.
const LINKS: [(&str, &str); 9] = [
    (
        "report.html",
        "the replay: each stage's times, states, gaps, provenance",
    ),
    (
        "latency.html",
        "the loop at a rate, as on a vehicle: histograms against the budgets, jitter",
    ),
    ("tour.png", "the picture of all four"),
    (
        "results/overlay/",
        "a picture a frame, as large as the images",
    ),
    ("results/disparity/", "disparity, 16 bit"),
    (
        "results/",
        "tables: stixels.csv, logos.csv, motion.csv, timing.csv; summary.json",
    ),
    (
        "roadloop.toml",
        "the configuration: roadloop replay drive --config roadloop.toml --out out",
    ),
    (
        "drive/",
        "the drive: pictures, calibration, speed, the logos' pictures",
    ),
    (
        "drive/truth/",
        "what is truly there: disparity, labels, what moves, stixels, logos, road",
    ),
];

/// The text of the page; `shown` is what the still shows.
pub fn html(summary: &Summary, shown: Option<Shown>, measured: &Report) -> String {
    let mut page = begin("roadloop demo");
    page.push_str("<h1>A street, seen by roadloop</h1>\n");
    put!(
        page,
        "<p class=\"sub\">a synthetic drive: at the kerb first, then driving · backend {} · roadloop {}</p>\n",
        escape(&summary.provenance.backend),
        escape(&summary.provenance.version)
    );
    if shown.is_some() {
        page.push_str(
            "<figure><img alt=\"four pictures of a street: stixels, labels, foreground, logos\" \
             src=\"tour.apng\"><figcaption>Stixels and labels are computed of the stereo camera's \
             pictures, foreground (while the vehicle stands) and logos of the mono camera's.\
             </figcaption></figure>\n",
        );
    }
    let shown = shown.unwrap_or_default();
    let frame = &measured.frame.duration;
    page.push_str("<div class=\"cards\">");
    for (value, what) in [
        (summary.frames.to_string(), "frames with a result"),
        (
            shown.stixels.to_string(),
            "stixels in the picture that shows most",
        ),
        (shown.logos.to_string(), "logos there"),
        (
            format!("{:.1} ms", frame.p50_us / 1000.0),
            "a frame, median",
        ),
        (
            format!("{:.1} ms", frame.max_us / 1000.0),
            "a frame, slowest",
        ),
    ] {
        put!(
            page,
            "<div class=\"card\"><b>{value}</b><span>{what}</span></div>"
        );
    }
    page.push_str("</div>\n<h2>Where to look</h2>\n<div class=\"panel\"><table class=\"facts\">\n");
    for (place, what) in LINKS {
        put!(
            page,
            "<tr><td><a href=\"{place}\">{place}</a></td><td>{what}</td></tr>\n"
        );
    }
    page.push_str("</table></div>\n<h2>Latency</h2>\n<div class=\"panel\"><table><tr><th>ms</th>");
    page.push_str("<th>p50</th><th>p90</th><th>max</th></tr>\n");
    let stages = measured
        .stages
        .0
        .iter()
        .map(|(name, s)| (name.as_str(), &s.duration));
    for (name, d) in stages.chain([("whole frame", frame)]) {
        let total = if name == "whole frame" {
            " class=\"total\""
        } else {
            ""
        };
        put!(page, "<tr{total}><td>{}</td>", escape(name));
        for us in [d.p50_us, d.p90_us, d.max_us] {
            put!(page, "<td>{:.2}</td>", us / 1000.0);
        }
        page.push_str("</tr>\n");
    }
    put!(
        page,
        "</table></div>\n<p class=\"note\">{} frames at {:.1} Hz. The digest of the replay is \
         <code>{}</code>, on any machine and number of threads.</p>\n",
        measured.frames,
        measured.settings.rate_hz,
        escape(&summary.digest)
    );
    for doubt in &measured.doubts {
        put!(page, "<p class=\"note\">Doubtful: {}</p>\n", escape(doubt));
    }
    page.push_str(END);
    page
}
