//! The logos' features and their matches as one graph; what the tracker does with them is the
//! host's.
use std::{rc::Rc, sync::Arc};

use crate::{
    cuda::{Arena, ArenaLayout, Context, Event, GpuError, GraphExec, Pinned, Priority, Stream},
    frame::{Logos, Mask, MonoImage, Size, Timestamp},
    frame_loop::{Advance, ChainError, Laps, StageId},
    stage::logo::{
        self, Follower, Templates,
        features::{
            self,
            cuda::{Counts, Match, Matcher, Train},
            matcher,
        },
    },
};

use super::{launched::nanoseconds, pixels::pack};

/// Most bits in which two descriptors differ; more means that there is no second.
const MAX_DISTANCE: u32 = 256;

/// The logos' features and matches on the device, the rest on the host.
pub(super) struct Marks {
    graph: GraphExec,
    pub stream: Stream,
    pub follower: Follower,
    /// What the graph uses.
    _features: features::cuda::Plan,
    _matcher: Matcher,
    picture: Pinned<u8>,
    counts: Pinned<Counts>,
    keypoints: Pinned<features::cuda::Keypoint>,
    /// As many for each template as there may be keypoints.
    matches: Pinned<Match>,
    found: Vec<features::Keypoint>,
    found_matches: Vec<Vec<matcher::Match>>,
    capacity: usize,
    /// Around the graph's work.
    marks: [Rc<Event>; 2],
    launched: Timestamp,
    /// What the host took for it until its features are waited for.
    host_ns: u64,
    /// What the host took for it since, where that has been done.
    settled_ns: Option<u64>,
    pub device_bytes: u64,
}

impl Marks {
    pub fn new(
        context: &Context,
        params: &logo::Params,
        templates: Arc<Templates>,
        size: Size,
        mask: Option<&Mask>,
    ) -> Result<Self, ChainError> {
        let follower = Follower::with_mask(params, Arc::clone(&templates), size, mask)?;
        let features = features::cuda::Plan::with_mask(context, &params.features, size, mask)?;
        let gpu = |e: GpuError| ChainError::from(e.in_stage("logo"));
        let matcher = Matcher::new(context).map_err(gpu)?;
        let list = templates.list();
        let capacity = features.found().keypoints.len();

        let mut layout = ArenaLayout::new();
        let picture = layout.reserve::<u8>("logo picture", size.area());
        let matches = layout.reserve::<Match>("logo matches", list.len() * capacity);
        let trains: Vec<_> = list
            .iter()
            .map(|template| {
                let n = template.descriptors().len();
                (
                    layout.reserve::<[u32; 8]>("logo template", n),
                    layout.reserve::<u32>("logo template's points", n),
                    layout.reserve::<u32>("logo template's size", 1),
                )
            })
            .collect();
        let own_bytes = layout.bytes();
        let arena = Arena::new(context, "logo templates", layout).map_err(gpu)?;
        let stream = Stream::new(context, Priority::Normal)?;
        let picture = arena.buffer(picture)?;
        let matches = arena.buffer(matches)?;
        let mut on_device = Vec::new();
        for (template, (descriptors, groups, count)) in list.iter().zip(trains) {
            let words: Vec<[u32; 8]> = template.descriptors().iter().map(|d| d.0).collect();
            let buffers = (
                arena.buffer(descriptors)?,
                arena.buffer(groups)?,
                arena.buffer(count)?,
            );
            stream.upload(&words, &buffers.0)?;
            stream.upload(template.groups(), &buffers.1)?;
            stream.upload(&[words.len() as u32], &buffers.2)?;
            on_device.push(buffers);
        }

        let host_picture = Pinned::<u8>::new(context, "logo picture", size.area())?;
        let host_counts = Pinned::<Counts>::new(context, "logo counts", 1)?;
        let host_keypoints = Pinned::new(context, "logo keypoints", capacity)?;
        let host_matches = Pinned::<Match>::new(context, "logo matches", matches.len())?;
        // What lies behind the ends of lists is copied with them, and never looked at.
        stream.fill(&matches.view::<u32>()?, 0u32)?;
        stream.fill(&features.found().keypoints.view::<u32>()?, 0u32)?;
        let marks = [Rc::new(Event::new(context)?), Rc::new(Event::new(context)?)];
        let graph = stream
            .capture::<GpuError>(|stream| {
                stream.record_in_graph(&marks[0])?;
                stream.copy_to_device(&host_picture, &picture)?;
                features.enqueue(stream, &picture)?;
                let found = features.found();
                let mut lists = Vec::new();
                for (i, (descriptors, groups, count)) in on_device.iter().enumerate() {
                    // With fewer there is no second to compare with.
                    if descriptors.len() < 2 {
                        continue;
                    }
                    let train = Train {
                        descriptors,
                        count,
                        groups: Some(groups),
                    };
                    lists.push((train, matches.slice(i * capacity..(i + 1) * capacity)?));
                }
                let lists: Vec<_> = lists.iter().map(|(train, out)| (*train, out)).collect();
                matcher.enqueue_all(stream, found, &lists)?;
                stream.copy_to_host(&found.counts, &host_counts)?;
                stream.copy_to_host(&found.keypoints, &host_keypoints)?;
                stream.copy_to_host(&matches, &host_matches)?;
                stream.record_in_graph(&marks[1])
            })?
            .instantiate()?;
        graph.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            device_bytes: own_bytes + features.device_bytes(),
            found: Vec::with_capacity(capacity),
            found_matches: vec![Vec::with_capacity(capacity); list.len()],
            graph,
            stream,
            follower,
            _features: features,
            _matcher: matcher,
            picture: host_picture,
            counts: host_counts,
            keypoints: host_keypoints,
            matches: host_matches,
            capacity,
            marks,
            launched: Timestamp::default(),
            host_ns: 0,
            settled_ns: None,
        })
    }

    pub fn launch(&mut self, image: &MonoImage, laps: &Laps<'_>) -> Result<(), GpuError> {
        let from = laps.now();
        pack(self.follower.grey(image), &mut self.picture.write()?);
        self.launched = laps.now();
        self.settled_ns = None;
        self.host_ns = self.launched.since(from);
        self.graph.launch(&self.stream)
    }

    pub fn follow(&mut self, laps: &Laps<'_>) {
        let from = laps.now();
        self.follower.follow();
        self.host_ns += laps.now().since(from);
    }

    /// What the features say, as soon as they are there.
    pub fn advance(&mut self, logos: &mut Logos, laps: &Laps<'_>) -> Result<Advance, GpuError> {
        if self.settled_ns.is_none() {
            if !self.stream.is_done()? {
                return Ok(Advance::Waits);
            }
            self.settle(logos, laps)?;
        }
        Ok(Advance::Nothing)
    }

    pub fn collect(&mut self, logos: &mut Logos, laps: &mut Laps<'_>) -> Result<(), GpuError> {
        if self.settled_ns.is_none() {
            self.stream.synchronize()?;
            self.settle(logos, laps)?;
        }
        let settled_ns = self.settled_ns.take().unwrap_or_default();
        let device = nanoseconds(self.marks[1].microseconds_since(&self.marks[0])?);
        let duration = self.host_ns + device + settled_ns;
        laps.note(StageId::Logo, self.launched, duration);
        laps.took(duration);
        Ok(())
    }

    /// Takes the features over, which are there, and has the tracker look at them.
    fn settle(&mut self, logos: &mut Logos, laps: &Laps<'_>) -> Result<(), GpuError> {
        let arrived = laps.now();
        let n = (self.counts.read()?[0].count as usize).min(self.capacity);
        self.found.clear();
        let keypoints = self.keypoints.read()?;
        self.found
            .extend(keypoints[..n].iter().map(|&k| features::Keypoint::from(k)));
        let matches = self.matches.read()?;
        let list = self.follower.templates().list();
        for (i, (template, out)) in list.iter().zip(&mut self.found_matches).enumerate() {
            out.clear();
            if template.descriptors().len() < 2 {
                continue;
            }
            let of_template = &matches[i * self.capacity..][..n];
            out.extend((0u32..).zip(of_template).filter_map(of_device));
        }
        self.follower
            .settle(&self.found, &self.found_matches, logos);
        self.settled_ns = Some(laps.now().since(arrived));
        Ok(())
    }
}

/// A match as the follower wants it; `None` where the device says that there is none.
fn of_device((query, found): (u32, &Match)) -> Option<matcher::Match> {
    (found.second_distance <= MAX_DISTANCE).then_some(matcher::Match {
        query,
        train: found.train,
        distance: found.distance,
        second: found.second,
        second_distance: found.second_distance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_without_a_second_neighbour_has_no_match() {
        let found = |second_distance| Match {
            train: 3,
            distance: 7,
            second: 5,
            second_distance,
        };
        assert_eq!(of_device((4, &found(257))), None);
        assert_eq!(of_device((4, &found(256))).unwrap().query, 4);
    }
}
