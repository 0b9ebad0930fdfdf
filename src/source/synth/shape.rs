//! Solids that a ray can meet.
use super::maths::{V, noise3, v};

/// Half-space `normal . p <= offset`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plane {
    pub normal: V,
    pub offset: f64,
}

/// A solid in its own coordinates.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// What lies inside all of these planes.
    Convex(Vec<Plane>),
    Ellipsoid {
        centre: V,
        radii: V,
    },
    /// An ellipsoid's shell with holes, as of leaves; `grain` is the size of a clump, m.
    Foliage {
        centre: V,
        radii: V,
        grain: f64,
        salt: u32,
    },
    /// Flat-ended, along a unit axis.
    Cylinder {
        centre: V,
        axis: V,
        half: f64,
        radius: f64,
    },
    /// Round-ended rod from `a` to `b`.
    Capsule {
        a: V,
        b: V,
        radius: f64,
    },
}

/// A solid with the box that holds it.
#[derive(Clone, Debug)]
pub(crate) struct Solid {
    pub shape: Shape,
    pub lo: V,
    pub hi: V,
}

impl Solid {
    /// A box; `cut` takes corners off.
    pub fn cuboid(lo: V, hi: V) -> Self {
        let p = |x, y, z, offset| Plane {
            normal: v(x, y, z),
            offset,
        };
        let planes = vec![
            p(-1.0, 0.0, 0.0, -lo.x),
            p(1.0, 0.0, 0.0, hi.x),
            p(0.0, -1.0, 0.0, -lo.y),
            p(0.0, 1.0, 0.0, hi.y),
            p(0.0, 0.0, -1.0, -lo.z),
            p(0.0, 0.0, 1.0, hi.z),
        ];
        Self {
            shape: Shape::Convex(planes),
            lo,
            hi,
        }
    }

    /// Cuts off what lies beyond the plane through `at` whose outward direction is `normal`.
    pub fn cut(mut self, at: V, normal: V) -> Self {
        if let Shape::Convex(planes) = &mut self.shape {
            let normal = normal.unit();
            planes.push(Plane {
                normal,
                offset: normal.dot(at),
            });
        }
        self
    }

    /// Cuts at (`x`, z) on both sides, mirrored in x.
    pub fn cut_both(self, at: V, normal: V) -> Self {
        self.cut(at, normal)
            .cut(v(-at.x, at.y, at.z), v(-normal.x, normal.y, normal.z))
    }

    pub fn ellipsoid(centre: V, radii: V) -> Self {
        Self {
            shape: Shape::Ellipsoid { centre, radii },
            lo: centre - radii,
            hi: centre + radii,
        }
    }

    pub fn foliage(centre: V, radii: V, grain: f64, salt: u32) -> Self {
        Self {
            shape: Shape::Foliage {
                centre,
                radii,
                grain,
                salt,
            },
            lo: centre - radii,
            hi: centre + radii,
        }
    }

    pub fn cylinder(centre: V, axis: V, half: f64, radius: f64) -> Self {
        // Of the box only: an upper bound of each axis' extent.
        let e = |a: f64| a.abs() * half + radius * (1.0 - a * a).max(0.0).sqrt();
        let r = v(e(axis.x), e(axis.y), e(axis.z));
        Self {
            shape: Shape::Cylinder {
                centre,
                axis,
                half,
                radius,
            },
            lo: centre - r,
            hi: centre + r,
        }
    }

    pub fn capsule(a: V, b: V, radius: f64) -> Self {
        let r = v(radius, radius, radius);
        Self {
            shape: Shape::Capsule { a, b, radius },
            lo: v(a.x.min(b.x), a.y.min(b.y), a.z.min(b.z)) - r,
            hi: v(a.x.max(b.x), a.y.max(b.y), a.z.max(b.z)) + r,
        }
    }

    /// The first meeting of the ray `o + t d` with the surface for `0 < t < max`, and which
    /// face. A ray that starts inside meets nothing of a convex solid.
    pub fn hit(&self, o: V, d: V, max: f64) -> Option<(f64, u8)> {
        match &self.shape {
            Shape::Convex(planes) => convex(planes, o, d, max),
            Shape::Ellipsoid { centre, radii } => {
                let (t, _) = ellipsoid(o - *centre, d, *radii)?;
                (t > 1e-6 && t < max).then_some((t, 0))
            }
            Shape::Foliage {
                centre,
                radii,
                grain,
                salt,
            } => {
                let (near, far) = ellipsoid(o - *centre, d, *radii)?;
                let leaf = |t: f64| {
                    let p = (o + d * t) * (1.0 / grain);
                    let n = 0.65 * noise3(p, *salt) + 0.35 * noise3(p * 2.3, !*salt);
                    n < 0.49
                };
                if near > 1e-6 && near < max && leaf(near) {
                    return Some((near, 0));
                }
                (far > 1e-6 && far < max && leaf(far)).then_some((far, 1))
            }
            Shape::Cylinder {
                centre,
                axis,
                half,
                radius,
            } => cylinder(o - *centre, d, *axis, *half, *radius, max),
            Shape::Capsule { a, b, radius } => capsule(o, d, *a, *b, *radius, max),
        }
    }

    /// Outward direction at a point of face `face`.
    pub fn normal(&self, p: V, face: u8) -> V {
        match &self.shape {
            Shape::Convex(planes) => planes[usize::from(face)].normal,
            Shape::Ellipsoid { centre, radii } | Shape::Foliage { centre, radii, .. } => {
                let q = p - *centre;
                let n = v(
                    q.x / (radii.x * radii.x),
                    q.y / (radii.y * radii.y),
                    q.z / (radii.z * radii.z),
                )
                .unit();
                if face == 1 { -n } else { n }
            }
            Shape::Cylinder { centre, axis, .. } => match face {
                0 => {
                    let q = p - *centre;
                    (q - *axis * q.dot(*axis)).unit()
                }
                1 => -*axis,
                _ => *axis,
            },
            Shape::Capsule { a, b, .. } => {
                let ab = *b - *a;
                let k = ((p - *a).dot(ab) / ab.dot(ab)).clamp(0.0, 1.0);
                (p - (*a + ab * k)).unit()
            }
        }
    }
}

fn convex(planes: &[Plane], o: V, d: V, max: f64) -> Option<(f64, u8)> {
    let (mut near, mut far, mut face) = (1e-6, max, u8::MAX);
    for (i, p) in planes.iter().enumerate() {
        let along = p.normal.dot(d);
        let room = p.offset - p.normal.dot(o);
        if along < 0.0 {
            // Entering: room / along is where the plane is passed.
            let t = room / along;
            if t > near {
                near = t;
                face = i as u8;
            }
        } else if along > 0.0 {
            let t = room / along;
            if t < far {
                far = t;
            }
        } else if room < 0.0 {
            return None;
        }
        if near >= far {
            return None;
        }
    }
    (face != u8::MAX).then_some((near, face))
}

fn ellipsoid(o: V, d: V, r: V) -> Option<(f64, f64)> {
    let o = v(o.x / r.x, o.y / r.y, o.z / r.z);
    let d = v(d.x / r.x, d.y / r.y, d.z / r.z);
    let (a, b, c) = (d.dot(d), o.dot(d), o.dot(o) - 1.0);
    let disc = b * b - a * c;
    if disc <= 0.0 {
        return None;
    }
    let root = disc.sqrt();
    Some(((-b - root) / a, (-b + root) / a))
}

fn cylinder(o: V, d: V, axis: V, half: f64, radius: f64, max: f64) -> Option<(f64, u8)> {
    let (oa, da) = (o.dot(axis), d.dot(axis));
    let (op, dp) = (o - axis * oa, d - axis * da);
    let (a, b, c) = (dp.dot(dp), op.dot(dp), op.dot(op) - radius * radius);
    let mut best: Option<(f64, u8)> = None;
    let mut offer = |t: f64, face: u8| {
        if t > 1e-6 && t < max && best.is_none_or(|(u, _)| t < u) {
            best = Some((t, face));
        }
    };
    let disc = b * b - a * c;
    if disc < 0.0 {
        return None;
    }
    if a > 1e-12 {
        let t = (-b - disc.sqrt()) / a;
        if (oa + da * t).abs() <= half {
            offer(t, 0);
        }
    }
    if da.abs() > 1e-12 {
        let side = if da > 0.0 { -1.0 } else { 1.0 };
        let t = (side * half - oa) / da;
        let q = op + dp * t;
        if q.dot(q) <= radius * radius {
            offer(t, if da > 0.0 { 1 } else { 2 });
        }
    }
    best
}

fn capsule(o: V, d: V, a: V, b: V, radius: f64, max: f64) -> Option<(f64, u8)> {
    let ab = b - a;
    let oa = o - a;
    let (bb, bd, bo) = (ab.dot(ab), ab.dot(d), ab.dot(oa));
    let (dd, od, oo) = (d.dot(d), oa.dot(d), oa.dot(oa));
    // The infinite cylinder, scaled by |ab|^2.
    let (qa, qb) = (bb * dd - bd * bd, bb * od - bo * bd);
    let qc = bb * oo - bo * bo - radius * radius * bb;
    let disc = qb * qb - qa * qc;
    if disc < 0.0 {
        return None;
    }
    let ball = |q: V| {
        let (b, c) = (q.dot(d), q.dot(q) - radius * radius);
        let disc = b * b - dd * c;
        (disc >= 0.0).then(|| (-b - disc.sqrt()) / dd)
    };
    let t = if qa > 1e-12 {
        let t = (-qb - disc.sqrt()) / qa;
        let along = bo + t * bd;
        if along > 0.0 && along < bb {
            Some(t)
        } else {
            ball(if along <= 0.0 { oa } else { o - b })
        }
    } else {
        ball(if bd > 0.0 { oa } else { o - b })
    }?;
    (t > 1e-6 && t < max).then_some((t, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_meet_solids_where_geometry_says() {
        let z = v(0.0, 0.0, 1.0);
        let o = v(0.0, 0.0, -10.0);
        let one = v(1.0, 1.0, 1.0);
        let at = |s: Solid| s.hit(o, z, 1e9).map(|(t, f)| (t, s.normal(o + z * t, f)));
        let expected = Some((9.0, -z));
        assert_eq!(at(Solid::cuboid(-one, one)), expected);
        assert_eq!(at(Solid::ellipsoid(V::default(), one)), expected);
        assert_eq!(at(Solid::cylinder(V::default(), z, 1.0, 1.0)), expected);
        assert_eq!(
            at(Solid::cylinder(V::default(), v(0.0, 1.0, 0.0), 1.0, 1.0)),
            expected
        );
        assert_eq!(
            at(Solid::capsule(v(-2.0, 0.0, 0.0), v(2.0, 0.0, 0.0), 1.0)),
            expected
        );
        assert_eq!(at(Solid::capsule(V::default(), z, 1.0)), expected);
        let wedge = Solid::cuboid(-one, one).cut(V::default(), -z);
        assert_eq!(at(wedge), Some((10.0, -z)));
        assert_eq!(Solid::cuboid(one * 2.0, one * 3.0).hit(o, z, 1e9), None);
        assert_eq!(Solid::cuboid(-one, one).hit(o, z, 9.0), None);
    }
}
