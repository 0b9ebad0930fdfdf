//! Are the marks of the synthetic street's vehicles followed, as its own truth has it?
use std::{fmt::Write as _, fs, sync::Arc};

use roadloop::{
    evaluate::logos::{Options as Judge, evaluate},
    frame::{Image, Logos, MonoImage, PixelKind, Size},
    picture::grey_of,
    source::synth::{Motion, Options, Street, marks},
    stage::{
        Stage as _,
        logo::{BuildOptions, Input, Params, Templates, cpu::Plan},
    },
};

#[test]
fn marks_of_the_street() {
    let params = Params::default();
    let pictures = marks(192)
        .map(|(name, picture, alpha)| {
            let grey = Image::from_fn(picture.width(), picture.height(), |x, y| {
                grey_of(picture.get(x, y))
            });
            (name.to_owned(), grey, Some(alpha))
        })
        .collect();
    let templates =
        Templates::of_pictures(pictures, &params.features, &BuildOptions::default()).unwrap();
    let templates = Arc::new(templates);
    let options = Options {
        frames: 40,
        seed: 1,
        size: Size::new(1024, 440),
        motion: Motion::Drive,
    };
    let street = Street::new(&options).unwrap();
    let mut plan = Plan::new(&params, templates.clone(), PixelKind::Grey8, options.size).unwrap();
    let header = "frame,id,name,state,x0,y0,x1,y1,x2,y2,x3,y3,confidence\n";
    let (mut results, mut truth) = (header.to_owned(), header.to_owned());
    let mut logos = Logos::new();
    for frame in 1..9 {
        let rendered = street.render(frame);
        for t in &rendered.mono_logos {
            let corners = t.quad.map(|(x, y)| format!("{x:.3},{y:.3}")).join(",");
            let (id, name, state) = (t.id, t.name, t.state.name());
            writeln!(
                truth,
                "{frame},{id},{name},{state},{corners},{:.3}",
                t.visible
            )
            .unwrap();
        }
        let image = MonoImage::Grey8(rendered.mono);
        plan.run(Input { image: &image }, &mut logos);
        for l in &logos {
            let name = templates.list()[usize::from(l.template)].name();
            let corners = l.quad.map(|[x, y]| format!("{x:.3},{y:.3}")).join(",");
            let (id, state, sure) = (l.id, l.state.name(), f64::from(l.confidence) / 255.0);
            writeln!(results, "{frame},{id},{name},{state},{corners},{sure:.3}").unwrap();
        }
    }
    eprintln!("{results}\n{truth}");
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("logos.csv"), dir.path().join("truth.csv"));
    fs::write(&a, results).unwrap();
    fs::write(&b, truth).unwrap();
    let report = evaluate(&a, &b, &Judge::default()).unwrap();
    eprintln!("{report}");
    // Many of the true ones are smaller than what is looked for (24 px square).
    assert_eq!((report.wrong, report.id_switches), (0, 0), "{report}");
    assert!(report.recall.is_some_and(|r| r >= 0.5), "{report}");
    assert!(report.mean_error_px.is_some_and(|e| e < 3.0), "{report}");
}
