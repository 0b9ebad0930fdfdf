//! The images' tables on the device: all of them where they fit, else a batch at a time, while the
//! next one is on its way through page-locked memory.
use std::ops::Range;

use rayon::prelude::*;

use super::{
    kernels::{COLUMN_WARPS, Kernels, ROW_WARPS, Tables, ViewTables, WARP},
    memory::{Pair, buffer},
};
use crate::{
    cuda::{Context, DeviceBuffer, DevicePtr, Event, GpuError, LaunchShape, Pinned, Stream},
    frame::Size,
    stage::forest::PlaneBuilder,
    training::{
        TrainError,
        data::DataError,
        store::{Store, View},
    },
};

/// Views of a batch; also blocks in one direction of a launch.
const MOST_VIEWS: usize = 1 << 14;

/// What is copied at a time where all images stay, bytes.
const AT_ONCE: u64 = 64 << 20;

/// Batches in flight: one is brought, one waits for the host, one is worked on.
pub const SLOTS: usize = 3;

/// What batches in flight have each.
pub struct Slot {
    /// The batch's tables, where they do not stay.
    planes: Option<DeviceBuffer<u32>>,
    raw: DeviceBuffer<u16>,
    /// What is copied from, unless all of it is in page-locked memory.
    ring: Option<Pinned<u16>>,
    views: Pair<ViewTables>,
    built: Pair<ViewTables>,
    pub moved: Pair<[u32; 2]>,
    pub nodes: Pair<u32>,
    pub list: Pair<[u32; 2]>,
    pub items: Pair<[u32; 4]>,
    /// The batch's tables are there, and its pixels are at their nodes.
    pub ready: Event,
    /// The batch's work is done.
    pub done: Event,
}

/// A batch that is on the device, once [`Slot::ready`] is.
#[derive(Clone, Copy)]
pub struct There {
    pub planes: DevicePtr<u32>,
    pub views: DevicePtr<ViewTables>,
}

/// All tables on the device.
struct Resident {
    planes: DeviceBuffer<u32>,
    at: Vec<ViewTables>,
    there: Vec<bool>,
}

/// All that tables are made of in page-locked memory.
struct Cache {
    host: Pinned<u16>,
    at: Vec<Range<usize>>,
    there: Vec<bool>,
}

pub struct Images<'a> {
    store: &'a Store<'a>,
    context: Context,
    tables: Tables,
    sides: usize,
    resident: Option<Resident>,
    cache: Option<Cache>,
    /// Most words of tables, and most samples of 16 bits, of a batch.
    words: usize,
    raw: usize,
    /// Bytes that were copied to the device.
    copied: u64,
}

impl<'a> Images<'a> {
    /// Takes `budget` bytes of the device, or what the largest image needs, and on the host
    /// `host_budget` at most where images do not stay.
    pub fn new(
        context: &Context,
        store: &'a Store<'a>,
        flip: bool,
        (budget, host_budget): (u64, u64),
    ) -> Result<(Self, [Slot; SLOTS]), GpuError> {
        let tables = Tables::new(store.needs(), store.builder().spec().channels);
        let sides = if flip { 2 } else { 1 };
        let mut images = Self {
            store,
            context: context.clone(),
            tables,
            sides,
            resident: None,
            cache: None,
            words: 0,
            raw: 0,
            copied: 0,
        };
        let size = |i: usize| images.store.size(i / sides);
        let places = store.len() * sides;
        let (mut words, mut raw, mut most_words, mut most_raw) = (0u64, 0u64, 0, 0);
        for i in 0..places {
            let (w, r) = (tables.words(size(i)), tables.raw(size(i)));
            words += w as u64;
            raw += r as u64;
            (most_words, most_raw) = (most_words.max(w), most_raw.max(r));
        }
        // Samples of 16 bits that a slot has.
        let ring = (budget / 4).min(2 * AT_ONCE) / (2 * SLOTS as u64);
        if 4 * words + 2 * SLOTS as u64 * ring <= budget {
            let mut at = Vec::with_capacity(places);
            let mut next = 0;
            for i in 0..places {
                at.push(tables.at(size(i), next, 0));
                next += tables.words(size(i));
            }
            images.resident = Some(Resident {
                planes: buffer(context, "training images", next)?,
                at,
                there: vec![false; places],
            });
            images.words = usize::MAX;
            images.raw = most_raw.max(ring as usize);
        } else {
            let (bytes, raw_bytes) = (4 * words, 2 * raw);
            let share = |part: u64| {
                let all = u128::from(bytes) + u128::from(raw_bytes);
                (u128::from(budget / SLOTS as u64) * u128::from(part) / all.max(1)) as usize
            };
            images.words = most_words.max(share(bytes) / 4);
            images.raw = most_raw.max(share(raw_bytes) / 2);
            if 2 * raw <= host_budget {
                let mut at = Vec::with_capacity(places);
                let mut next = 0;
                for i in 0..places {
                    let n = tables.raw(size(i));
                    at.push(next..next + n);
                    next += n;
                }
                images.cache = Some(Cache {
                    host: Pinned::new(context, "training images", next)?,
                    at,
                    there: vec![false; places],
                });
            }
        }
        let slots = [images.slot()?, images.slot()?, images.slot()?];
        Ok((images, slots))
    }

    fn slot(&self) -> Result<Slot, GpuError> {
        let context = &self.context;
        let streamed = self.resident.is_none();
        let ring = self.cache.is_none();
        Ok(Slot {
            planes: streamed
                .then(|| buffer(context, "a batch's tables", self.words))
                .transpose()?,
            raw: buffer(context, "a batch's images", self.raw)?,
            ring: ring
                .then(|| Pinned::new(context, "a batch's images", self.raw.max(1)))
                .transpose()?,
            views: Pair::new("views"),
            built: Pair::new("views to be built"),
            moved: Pair::new("pixels that move"),
            nodes: Pair::new("nodes of pixels"),
            list: Pair::new("pixels of a batch"),
            items: Pair::new("work of a batch"),
            ready: Event::for_order(context, false)?,
            done: Event::for_order(context, false)?,
        })
    }

    /// Whether all images stay on the device.
    pub fn is_resident(&self) -> bool {
        self.resident.is_some()
    }

    /// Bytes of images that were copied to the device so far.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    fn place(&self, view: View) -> usize {
        view.image * self.sides + usize::from(view.mirrored)
    }

    fn is_there(&self, view: View) -> bool {
        let place = self.place(view);
        self.resident.as_ref().is_some_and(|r| r.there[place])
    }

    /// Reads what is to stay in page-locked memory. No copy from it may be in flight.
    pub fn read_ahead(&mut self, views: &[View], wanted: &[usize]) -> Result<(), TrainError> {
        let sides = self.sides;
        let place = |view: View| view.image * sides + usize::from(view.mirrored);
        let Some(cache) = &mut self.cache else {
            return Ok(());
        };
        let mut missing: Vec<View> = wanted.iter().map(|&i| views[i]).collect();
        missing.retain(|&view| !cache.there[place(view)]);
        missing.sort_unstable_by_key(|&view| place(view));
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        {
            let mut host = cache.host.write()?;
            let mut parts = Vec::with_capacity(missing.len());
            let (mut rest, mut passed) = (&mut host[..], 0);
            for &view in &missing {
                let at = &cache.at[place(view)];
                let (_, tail) = std::mem::take(&mut rest).split_at_mut(at.start - passed);
                let (part, tail) = tail.split_at_mut(at.len());
                parts.push((view, part));
                (rest, passed) = (tail, at.end);
            }
            read(self.store, parts)?;
        }
        for view in missing {
            cache.there[place(view)] = true;
        }
        Ok(())
    }

    /// Places in `views`, in runs that a slot has room for. `pixels` counts a view's pixels, of
    /// which a batch has `most` at most, or one view's.
    pub fn batches<'w>(
        &self,
        views: &[View],
        wanted: &'w [usize],
        pixels: impl Fn(usize) -> usize,
        most: usize,
    ) -> Vec<&'w [usize]> {
        let mut batches = Vec::new();
        let (mut begin, mut sums) = (0, [0usize; 3]);
        for (end, &i) in wanted.iter().enumerate() {
            let size = self.store.size(views[i].image);
            let new = !self.is_there(views[i]);
            let more = [
                if self.is_resident() {
                    0
                } else {
                    self.tables.words(size)
                },
                if new { self.tables.raw(size) } else { 0 },
                pixels(i),
            ];
            let limits = [self.words, self.raw, most];
            let full = (0..3).any(|k| sums[k] + more[k] > limits[k]);
            if end > begin && (full || end - begin >= MOST_VIEWS) {
                batches.push(&wanted[begin..end]);
                (begin, sums) = (end, [0; 3]);
            }
            (0..3).for_each(|k| sums[k] += more[k]);
        }
        batches.push(&wanted[begin..]);
        batches
    }

    /// Brings a batch's tables to the device, in the order of `stream`. The slot's last batch must
    /// be done.
    pub fn bring(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        slot: &mut Slot,
        views: &[View],
        batch: &[usize],
    ) -> Result<There, TrainError> {
        let (mut all, mut new) = (Vec::with_capacity(batch.len()), Vec::new());
        let (mut words, mut raw) = (0, 0);
        for &i in batch {
            let (view, place) = (views[i], self.place(views[i]));
            let size = self.store.size(view.image);
            let mut at = match &self.resident {
                Some(resident) => resident.at[place],
                None => self.tables.at(size, words, 0),
            };
            words += self.tables.words(size);
            if !self.is_there(view) {
                at.raw = raw as u64;
                let n = self.tables.raw(size);
                new.push((view, at, raw..raw + n));
                raw += n;
            }
            all.push(at);
            if let Some(resident) = &mut self.resident {
                resident.there[place] = true;
            }
        }
        let planes = match (&slot.planes, &self.resident) {
            (Some(planes), _) => planes.ptr(),
            (None, Some(resident)) => resident.planes.ptr(),
            (None, None) => DevicePtr::NULL,
        };
        let done = self.build(kernels, stream, slot, planes, &new);
        if let (Err(_), Some(resident)) = (&done, &mut self.resident) {
            for (view, ..) in &new {
                resident.there[view.image * self.sides + usize::from(view.mirrored)] = false;
            }
        }
        done?;
        self.copied += 2 * raw as u64;
        let views = slot.views.load(stream, &all)?.ptr();
        Ok(There { planes, views })
    }

    fn build(
        &self,
        kernels: &Kernels,
        stream: &Stream,
        slot: &mut Slot,
        planes: DevicePtr<u32>,
        new: &[(View, ViewTables, Range<usize>)],
    ) -> Result<(), TrainError> {
        let Some((_, _, last)) = new.last() else {
            return Ok(());
        };
        match (&self.cache, &slot.ring) {
            (Some(cache), _) => {
                // What lies side by side is copied at once.
                let mut copies: Vec<(Range<usize>, Range<usize>)> = Vec::new();
                for (view, _, to) in new {
                    let from = cache.at[self.place(*view)].clone();
                    match copies.last_mut() {
                        Some((f, t)) if f.end == from.start && t.end == to.start => {
                            (f.end, t.end) = (from.end, to.end);
                        }
                        _ => copies.push((from, to.clone())),
                    }
                }
                for (from, to) in copies {
                    let from = cache.host.slice(from)?;
                    stream.copy_to_device(&from, &slot.raw.slice(to)?)?;
                }
            }
            (None, Some(ring)) => {
                {
                    let mut host = ring.write()?;
                    let mut rest = &mut host[..];
                    let mut parts = Vec::with_capacity(new.len());
                    for (view, _, range) in new {
                        let (part, tail) = std::mem::take(&mut rest).split_at_mut(range.len());
                        parts.push((*view, part));
                        rest = tail;
                    }
                    read(self.store, parts)?;
                }
                let n = last.end;
                stream.copy_to_device(&ring.slice(0..n)?, &slot.raw.slice(0..n)?)?;
            }
            (None, None) => {}
        }
        let list: Vec<ViewTables> = new.iter().map(|(_, at, _)| *at).collect();
        let views = slot.built.load(stream, &list)?.ptr();
        let n = list.len() as u32;
        let rows = list
            .iter()
            .map(|v| v.height as usize + 1)
            .max()
            .unwrap_or(1);
        let columns = list.iter().map(|v| v.width as usize + 1).max().unwrap_or(1);
        let (sums, others) = self.tables.counts();
        let blocks = (rows * (sums + others) as usize).div_ceil(ROW_WARPS) as u32;
        let shape = LaunchShape::new([blocks, n, 1], [(ROW_WARPS * WARP) as u32, 1, 1]);
        let raw = slot.raw.ptr();
        kernels
            .rows
            .launch(stream, shape, &(self.tables, views, raw, planes))?;
        if sums > 0 {
            let blocks = columns.div_ceil(WARP) as u32;
            let threads = (COLUMN_WARPS * WARP) as u32;
            let shape = LaunchShape::new([blocks, sums, n], [threads, 1, 1]);
            kernels
                .columns
                .launch(stream, shape, &(self.tables, views, planes))?;
        }
        Ok(())
    }
}

/// Reads some views, side by side.
fn read(store: &Store<'_>, parts: Vec<(View, &mut [u16])>) -> Result<(), DataError> {
    parts.into_par_iter().try_for_each_init(
        || store.builder().clone(),
        |builder: &mut PlaneBuilder, (view, to)| store.raw(builder, view, to),
    )
}

impl Tables {
    /// Words of 32 bits that an image's tables take.
    fn words(self, size: Size) -> usize {
        let table = (size.width + 1) * (size.height + 1);
        let (sums, depth) = self.counts();
        table * sums as usize + depth as usize * size.area().div_ceil(2)
    }

    /// Samples of 16 bits that they are made of.
    fn raw(self, size: Size) -> usize {
        (self.channels + self.depth) as usize * size.area()
    }

    /// Where an image's tables are that begin with a word.
    fn at(self, size: Size, first: usize, raw: usize) -> ViewTables {
        let table = (size.width + 1) * (size.height + 1);
        let depth_sums = first + table * self.channels as usize;
        let depth = depth_sums + 2 * table * self.depth_sums as usize;
        ViewTables {
            sums: first as u64,
            depth_sums: depth_sums as u64,
            depth: 2 * depth as u64,
            raw: raw as u64,
            width: size.width as i32,
            height: size.height as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lie_one_after_the_other() {
        let (rgbd, depth) = (
            Tables {
                channels: 3,
                depth_sums: 1,
                depth: 1,
            },
            Tables {
                channels: 0,
                depth_sums: 0,
                depth: 1,
            },
        );
        let size = Size::new(5, 3);
        assert_eq!((rgbd.words(size), rgbd.raw(size)), (5 * 24 + 8, 4 * 15));
        let at = rgbd.at(size, 100, 7);
        assert_eq!(
            (at.sums, at.depth_sums, at.depth, at.raw),
            (100, 172, 440, 7)
        );
        assert_eq!((depth.words(size), depth.raw(size)), (8, 15));
        assert_eq!(depth.at(size, 100, 0).depth, 200);
    }
}
