//! Where everything stands, and where what moves is at each instant.
use super::ground::{BLOCK, CROSS, FRONT, KERB, RISE, in_block};
use super::houses::{border, garden, house};
use super::maths::{Pose, Rng, V, floor, v};
use super::scene::Content;
use super::vehicle::{Kind, Model};
use super::{Motion, furniture};

/// Middle of a driving lane and of a parking strip, m from the middle of the street.
const LANE_MID: f64 = 1.6;
pub(crate) const STRIP_MID: f64 = 4.25;
/// Speed of the traffic, m/s.
pub(crate) const FLOW: f64 = 9.0;

/// What the layout depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    pub motion: Motion,
    /// When the own vehicle pulls out, s; never reached in a still drive.
    pub start: f64,
    /// Where the street ends, m.
    pub end: f64,
}

impl Plan {
    /// Everything near the own vehicle, which is at `z`, at the time `t` in seconds.
    pub fn content(&self, z: f64, t: f64) -> Content {
        let mut out = Content::default();
        let first = floor((z - 30.0) / BLOCK) as i64 - 1;
        let last = floor((z + 235.0).min(self.end) / BLOCK) as i64;
        for block in first..=last {
            self.houses(&mut out, block);
            self.verge(&mut out, block);
            self.parked(&mut out, block);
            self.side_street(&mut out, block, t);
        }
        self.far_end(&mut out);
        for block in first - 1..=last + 1 {
            self.walkers(&mut out, block, t);
        }
        self.crossing_person(&mut out, t);
        self.traffic(&mut out, z, t);
        let seen = |p: V| p.z > z - 32.0 && p.z < z + 250.0;
        // A part that nothing can show is not kept; plates refer to parts by number.
        let mut moved = vec![usize::MAX; out.parts.len()];
        let mut kept = Vec::with_capacity(out.parts.len());
        for (i, part) in out.parts.into_iter().enumerate() {
            if seen(part.pose.at) {
                moved[i] = kept.len();
                kept.push(part);
            }
        }
        out.parts = kept;
        out.plates.retain_mut(|plate| {
            plate.part = moved[plate.part];
            plate.part != usize::MAX
        });
        out.contacts.retain(|c| seen(c.pose.at));
        out
    }

    fn rng(&self, block: i64, what: u64) -> Rng {
        Rng::new(self.seed, block, what)
    }

    /// Lots fill each side from one side street to the next.
    fn houses(&self, out: &mut Content, block: i64) {
        let base = block as f64 * BLOCK;
        let (from, to) = (base + CROSS.1 + 2.0, base + BLOCK + CROSS.0 - 2.0);
        for (side, what) in [(-1.0, 1), (1.0, 2)] {
            let mut rng = self.rng(block, what);
            let mut z = from;
            while z < to - 1.0 {
                let mut width = rng.range(9.5, 15.5);
                if to - z - width < 8.0 {
                    width = to - z;
                }
                if z + width > self.end {
                    break;
                }
                let half = width * 0.5;
                let pose = Pose::facing(v(side * FRONT, RISE, z + half), 0.0, 1.0);
                let corner = z + width > to - 1.0;
                if corner || rng.chance(0.3) {
                    garden(out, pose, side, half, &mut rng);
                } else {
                    house(out, pose, side, half, &mut rng);
                }
                z += width;
            }
        }
    }

    /// Trees, lamps, signs, bins and bollards on the pavement.
    fn verge(&self, out: &mut Content, block: i64) {
        let base = block as f64 * BLOCK;
        let mut rng = self.rng(block, 3);
        for side in [-1.0, 1.0] {
            let shift = if side > 0.0 { 0.0 } else { 7.0 };
            let place = |z: f64| v(side * (KERB + 0.65), RISE, base + z);
            for i in 0..5 {
                let z = CROSS.1 + 8.0 + 15.0 * f64::from(i) + shift + rng.range(-1.0, 1.0);
                let close = side > 0.0 && (base + z - 3.0).abs() < 7.0;
                if rng.chance(0.72) && z < BLOCK + CROSS.0 - 6.0 && !close {
                    furniture::tree(out, place(z), &mut rng);
                }
            }
            for i in 0..3 {
                let z = CROSS.1 + 3.5 + 28.0 * f64::from(i) + shift;
                furniture::lamp(out, place(z) - v(side * 0.2, 0.0, 0.0), side);
            }
            furniture::sign(
                out,
                place(if side > 0.0 { 14.5 } else { 35.5 }),
                side,
                rng.bits() as u32,
            );
            furniture::sign(out, place(if side > 0.0 { 62.0 } else { 74.0 }), side, 1);
            furniture::bin(out, place(CROSS.1 + 22.5) + v(side * 1.9, 0.0, 0.0));
            for z in [16.9, 17.9, 21.6] {
                furniture::bollard(out, place(z) - v(side * 0.3, 0.0, 0.0));
            }
        }
    }

    fn parked(&self, out: &mut Content, block: i64) {
        let base = block as f64 * BLOCK;
        let mut rng = self.rng(block, 4);
        for side in [-1.0, 1.0] {
            for bay in 0..12 {
                let z = base + CROSS.1 + 8.0 + 6.0 * f64::from(bay) + rng.range(-0.35, 0.35);
                let x = side * (STRIP_MID + rng.range(-0.1, 0.12));
                let pose = Pose::facing(v(x, 0.0, z), rng.range(-0.02, 0.02), side);
                let id =
                    (block.rem_euclid(1 << 20) as u32) * 64 + bay + if side > 0.0 { 32 } else { 0 };
                let model = if rng.chance(0.16) {
                    Model::marked(Kind::Van, rng.pick(&[0, 1, 2]), id)
                } else {
                    Model::car(&mut rng)
                };
                let there = rng.chance(0.66);
                // The scene's first metres are arranged below.
                if there && !(-12.0..15.5).contains(&z) && z < self.end - 4.0 {
                    model.build(out, pose, false);
                }
            }
        }
        if block == -1 {
            let mut put = |side: f64, z: f64, model: Model| {
                let pose = Pose::facing(v(side * STRIP_MID, 0.0, z), 0.0, side);
                model.build(out, pose, false);
            };
            put(-1.0, 3.6, Model::car(&mut rng));
            put(
                -1.0,
                10.4,
                Model::marked(Kind::Van, (self.seed % 3) as usize, 1),
            );
            put(1.0, 12.4, Model::car(&mut rng));
            put(1.0, -8.0, Model::car(&mut rng));
        }
    }

    /// What waits in the side streets, and what closes them off.
    fn side_street(&self, out: &mut Content, block: i64, t: f64) {
        let base = block as f64 * BLOCK;
        let mut rng = self.rng(block, 5);
        for side in [-1.0, 1.0] {
            let front = Pose::facing(v(side * 44.0, RISE, base + 26.5), 0.0, 1.0);
            house(out, front, side, 14.0, &mut rng);
            for (z, turn) in [(CROSS.0 - 2.0, -1.0), (CROSS.1 + 2.0, 1.0)] {
                // Along the side street: the border's length lies across.
                let pose = Pose::facing(v(side * 31.0, RISE, base + z), 1.0, 0.0);
                border(out, pose, -turn, 12.5, &mut rng);
                for x in [22.0, 29.0, 37.0] {
                    let at = v(
                        side * (x + rng.range(-2.0, 2.0)),
                        RISE,
                        base + z + turn * 3.0,
                    );
                    if rng.chance(0.8) {
                        furniture::tree(out, at, &mut rng);
                    }
                }
            }
            let id = vehicle_id(2, block, u32::from(side > 0.0));
            let model = match rng.bits() % 4 {
                0 => Model::marked(Kind::Lorry, rng.pick(&[0, 1, 2]), id),
                1 => Model::marked(Kind::Van, rng.pick(&[0, 1, 2]), id),
                _ => Model::car(&mut rng),
            };
            let lorry = Model::marked(Kind::Lorry, (self.seed + 1) as usize % 3, 2);
            let lane = base + if side > 0.0 { 28.9 } else { 24.2 };
            let there = rng.chance(0.6);
            if block == 0 && side < 0.0 {
                // A lorry: crosses ahead while the own vehicle waits, else waits itself.
                let half = lorry.half_length();
                let (x, moving) = if self.motion == Motion::Drive {
                    (-KERB - 1.0 - half, false)
                } else {
                    (5.0 * t - 4.0 - half, true)
                };
                if x < 34.0 {
                    lorry.build(out, Pose::facing(v(x, 0.0, lane), 1.0, 0.0), moving);
                }
            } else if there || block == 0 {
                let x = side * (KERB + 1.0 + model.half_length());
                model.build(out, Pose::facing(v(x, 0.0, lane), -side, 0.0), false);
            }
        }
    }

    /// Houses across the street where it ends.
    fn far_end(&self, out: &mut Content) {
        let mut rng = self.rng(0, 6);
        for i in -2..=2 {
            let at = v(f64::from(i) * 14.0, RISE, self.end + 10.0);
            house(out, Pose::facing(at, -1.0, 0.0), 1.0, 7.0, &mut rng);
        }
    }

    fn walkers(&self, out: &mut Content, block: i64, t: f64) {
        let base = block as f64 * BLOCK;
        let mut rng = self.rng(block, 7);
        for i in 0..10 {
            let side = if i & 1 == 0 { -1.0 } else { 1.0 };
            let way = if rng.chance(0.5) { 1.0 } else { -1.0 };
            let speed = rng.range(1.1, 1.65);
            let z = base + rng.range(0.0, BLOCK) + way * speed * t;
            let x = side * rng.range(6.75, 7.75);
            let y = if z > self.end { continue } else { height(x, z) };
            let phase = rng.unit() * 6.2 + speed * t * 4.1;
            let stride = (libm::sin(phase), libm::cos(phase));
            let stands = rng.chance(0.12);
            let pose = if stands {
                let z = z - way * speed * t;
                Pose::facing(v(x, height(x, z), z), -side, 0.3)
            } else {
                Pose::facing(v(x, y, z), 0.0, way)
            };
            let stride = if stands { (0.1, 0.0) } else { stride };
            furniture::person(out, pose, stride, !stands, &mut rng);
        }
        // Two wait at the zebra.
        for (x, z) in [(-5.95, 18.7), (-6.3, 19.6)] {
            let pose = Pose::facing(v(x, RISE, base + z), 1.0, 0.1);
            let there = block == 0 || rng.chance(0.4);
            let mut own = Rng::new(self.seed, block, (z * 10.0) as u64);
            if there {
                furniture::person(out, pose, (0.12, 0.0), false, &mut own);
            }
        }
    }

    /// Somebody finishes crossing at the first zebra.
    fn crossing_person(&self, out: &mut Content, t: f64) {
        let mut rng = self.rng(0, 8);
        let speed = 1.35;
        let x = (2.7 + speed * t).min(6.9);
        let moving = x < 6.9;
        let phase = 1.0 + speed * t * 4.1;
        let stride = if moving {
            (libm::sin(phase), libm::cos(phase))
        } else {
            (0.1, 0.0)
        };
        let y = if x > KERB { RISE } else { 0.0 };
        furniture::person(
            out,
            Pose::facing(v(x, y, 19.8), 1.0, 0.0),
            stride,
            moving,
            &mut rng,
        );
    }

    /// Traffic in both lanes: vehicles at one speed, at places that move along with them.
    fn traffic(&self, out: &mut Content, z: f64, t: f64) {
        let drive = self.motion == Motion::Drive;
        for (way, what) in [(1.0, 9u64), (-1.0, 10)] {
            // A slot's place at time 0 is `u`; now it is at u + way * FLOW * t.
            let shift = way * FLOW * t;
            let (lo, hi) = (z - 40.0 - shift, (z + 240.0).min(self.end) - shift);
            let mut k = floor(lo / 40.0) as i64 - 1;
            while (k as f64) * 40.0 < hi {
                let mut rng = self.rng(k, what);
                let u = k as f64 * 40.0 + rng.range(0.0, 15.0);
                let id = vehicle_id(3, k, u32::from(way > 0.0));
                let model = match rng.bits() % 8 {
                    0 | 1 => Model::marked(Kind::Van, rng.pick(&[0, 1, 2]), id),
                    2 => Model::marked(Kind::Lorry, rng.pick(&[0, 1, 2]), id),
                    _ => Model::car(&mut rng),
                };
                k += 1;
                // Room for the own vehicle, the lorry that crosses and the arranged ones.
                let free = match (way > 0.0, drive) {
                    (true, true) => !(-16.0..44.0).contains(&u),
                    (true, false) => !(-34.0..44.0).contains(&u) && u > 2.0 - FLOW * self.start,
                    (false, true) => true,
                    (false, false) => !(-12.0..72.0).contains(&u),
                };
                if free && rng.chance(0.85) && u > lo && u < hi {
                    let pose = Pose::facing(v(way * LANE_MID, 0.0, u + shift), 0.0, way);
                    model.build(out, pose, true);
                }
            }
        }
        let mut rng = self.rng(0, 11);
        let own = if drive { 14.5 } else { -11.0 };
        let mut put = |way: f64, u: f64, model: Model| {
            let pose = Pose::facing(v(way * LANE_MID, 0.0, u + way * FLOW * t), 0.0, way);
            if (pose.at.z - z).abs() < 240.0 {
                model.build(out, pose, true);
            }
        };
        let mark = (self.seed + 2) as usize % 3;
        put(1.0, own, Model::marked(Kind::Van, mark, 3));
        if !drive {
            put(-1.0, 11.0, Model::car(&mut rng));
        }
    }
}

fn height(x: f64, z: f64) -> f64 {
    let z = in_block(z);
    if x.abs() > KERB && !(z > CROSS.0 && z < CROSS.1) {
        RISE
    } else {
        0.0
    }
}

/// Numbers vehicles: those of a kind of place (below 16), in block or slot `at`, `item` (below
/// 64) there. The arranged ones have numbers below 64.
fn vehicle_id(place: u32, at: i64, item: u32) -> u32 {
    (place << 26) | ((at + 4096) as u32 & 0xF_FFFF) << 6 | item
}
