//! Does the synthetic truth agree with the pictures and with itself?
use roadloop::frame::{Class, INVALID, Size};
use roadloop::picture::grey_of;
use roadloop::source::synth::labels::Label;
use roadloop::source::synth::{LogoState, Motion, Options, Rendered, Street, stixels};

fn street(motion: Motion, frames: usize) -> Street {
    Street::new(&Options {
        frames,
        seed: 3,
        size: Size::new(640, 275),
        motion,
    })
    .unwrap()
}

fn label(r: &Rendered, x: usize, y: usize) -> Label {
    Label::from_id(r.labels.get(x, y)).unwrap()
}

#[test]
fn the_right_picture_warped_by_the_truth_is_the_left_picture() {
    let r = street(Motion::Drive, 3).render(2);
    let (w, h) = (r.left_rgb.width(), r.left_rgb.height());
    let (mut seen, mut close, mut total) = (0u32, 0u32, 0u64);
    for y in 1..h - 1 {
        for x in 1..w - 1 {
            let d = r.disparity.get(x, y);
            // Inside surfaces, where no neighbour is much nearer or farther.
            let flat = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
                .iter()
                .all(|&(a, b)| r.disparity.get(a, b).abs_diff(d) < 200);
            let at = x as f64 - f64::from(d) / 256.0;
            if d == INVALID || !flat || at < 0.0 || hidden(&r, x, y) {
                continue;
            }
            let (i, f) = (at as usize, at - (at as usize) as f64);
            let grey = |x: usize| f64::from(grey_of(r.right_rgb.get(x, y)));
            let warped = grey(i) * (1.0 - f) + grey((i + 1).min(w - 1)) * f;
            let error = (warped - f64::from(grey_of(r.left_rgb.get(x, y)))).abs();
            seen += 1;
            close += u32::from(error < 16.0);
            total += error as u64;
        }
    }
    assert!(seen > (w * h / 2) as u32, "{seen} px judged");
    assert!(
        close as f64 > 0.97 * seen as f64,
        "{close} of {seen} px agree"
    );
    assert!(
        total < 5 * u64::from(seen),
        "mean error {}",
        total / u64::from(seen)
    );
}

/// Whether something nearer in the left image lands on the same place of the right one.
fn hidden(r: &Rendered, x: usize, y: usize) -> bool {
    let d = i64::from(r.disparity.get(x, y));
    let at = x as i64 * 256 - d;
    (x + 1..(x + 160).min(r.disparity.width())).any(|n| {
        let e = r.disparity.get(n, y);
        e != INVALID && i64::from(e) > d + 256 && (n as i64 * 256 - i64::from(e) - at).abs() < 512
    })
}

#[test]
fn the_road_lies_on_its_line() {
    for motion in [Motion::Still, Motion::Drive] {
        let r = street(motion, 4).render(3);
        let mut seen = 0;
        for y in 0..r.labels.height() {
            for x in 0..r.labels.width() {
                if matches!(label(&r, x, y), Label::Road | Label::Marking) {
                    let d = f32::from(r.disparity.get(x, y)) / 256.0;
                    let line = r.road.disparity_px(y as f32);
                    assert!((d - line).abs() < 0.004, "{d} at {x} {y}, {line} expected");
                    seen += 1;
                }
            }
        }
        assert!(seen > 20_000, "{seen} px of road");
    }
}

#[test]
fn disparity_and_depth_and_labels_agree() {
    let s = street(Motion::Mixed, 5);
    let r = s.render(4);
    for y in 0..r.labels.height() {
        for x in 0..r.labels.width() {
            let (d, z) = (r.disparity.get(x, y), r.depth.get(x, y));
            let sky = label(&r, x, y) == Label::Sky;
            assert_eq!(sky, d == INVALID);
            if sky {
                assert_eq!(z, 0);
            } else if z != 0 {
                let (d, z) = (f64::from(d) / 256.0, f64::from(z) / 256.0);
                let error = (s.camera().focal_px * s.camera().baseline_m / z - d).abs();
                // Half a unit of each code.
                assert!(error < 0.5 / 256.0 * (1.0 + d / z) + 1e-9, "{d} px, {z} m");
            }
        }
    }
}

#[test]
fn only_things_that_can_move_are_marked_as_moving() {
    let r = street(Motion::Mixed, 10).render(3);
    let mut moving = 0;
    for y in 0..r.labels.height() {
        for x in 0..r.labels.width() {
            if r.moving.get(x, y) != 0 {
                assert!(matches!(
                    label(&r, x, y),
                    Label::Vehicle | Label::Pedestrian
                ));
                moving += 1;
            }
        }
    }
    assert!(moving > 1_000, "{moving} px move");
}

#[test]
fn nothing_but_what_moves_changes_while_the_camera_stands() {
    let s = street(Motion::Still, 10);
    let (a, b) = (s.render(2), s.render(7));
    let mut still = 0;
    for y in 0..a.labels.height() {
        for x in 0..a.labels.width() {
            if a.moving.get(x, y) == 0 && b.moving.get(x, y) == 0 {
                assert_eq!(a.disparity.get(x, y), b.disparity.get(x, y));
                // Labels too, but for paint: it is cut by colour, which does not change either.
                assert_eq!(a.labels.get(x, y), b.labels.get(x, y));
                still += 1;
            }
        }
    }
    assert!(still > a.labels.size().area() / 2);
    assert_eq!(a.road, b.road);
    assert_ne!(a.left_rgb, b.left_rgb);
}

#[test]
fn logos_lie_on_vehicles_inside_the_image() {
    let s = street(Motion::Mixed, 12);
    let mut whole = 0;
    for frame in [0, 5, 11] {
        let r = s.render(frame);
        for logo in &r.logos {
            assert!((0.25..=1.0).contains(&logo.visible));
            if logo.state != LogoState::Visible {
                continue;
            }
            whole += 1;
            let mut middle = (0.0, 0.0);
            for (x, y) in logo.quad {
                assert!(x >= 0.0 && x < r.labels.width() as f64);
                assert!(y >= 0.0 && y < r.labels.height() as f64);
                middle = (middle.0 + x / 4.0, middle.1 + y / 4.0);
            }
            let (x, y) = (middle.0 as usize, middle.1 as usize);
            assert_eq!(label(&r, x, y), Label::Vehicle, "{logo:?} in frame {frame}");
        }
    }
    assert!(whole >= 2, "{whole} marks wholly visible");
}

#[test]
fn truth_stixels_cover_each_column_and_agree_with_the_labels() {
    let r = street(Motion::Drive, 2).render(1);
    for width in [1, 5, 7] {
        let list = stixels(&r.labels, &r.disparity, width);
        assert_eq!(list.columns(), r.labels.width() / width);
        let (mut agree, mut all) = (0, 0);
        for u in 0..list.columns() {
            let mut next = 0;
            for s in list.column(u) {
                assert_eq!(usize::from(s.top), next);
                assert!(s.base >= s.top);
                next = usize::from(s.base) + 1;
                assert_eq!(s.class == Class::Sky, s.disparity == 0);
                for y in s.top..=s.base {
                    for x in u * width..(u + 1) * width {
                        let class = label(&r, x, usize::from(y)).stixel_class();
                        agree += usize::from(class == Some(s.class));
                        all += 1;
                    }
                }
            }
            assert_eq!(next, r.labels.height());
        }
        // A column has one class a row, so wide columns lose their edges.
        let least = if width == 1 { 1.0 } else { 0.97 };
        assert!(agree as f64 >= least * all as f64, "{agree} of {all} px");
    }
}
