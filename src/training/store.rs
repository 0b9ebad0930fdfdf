//! The images' tables, in memory where they all fit, else read anew for each pass.
use std::sync::OnceLock;

use rayon::prelude::*;

use super::{
    TrainError,
    data::{DataError, Dataset, Facts, Raster},
};
#[cfg(feature = "cuda")]
use crate::frame::Size;
use crate::{
    frame::Image,
    stage::forest::{Needs, PlaneBuilder, Planes},
};

/// An image as a tree sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Which image of the data set.
    pub image: usize,
    /// Whether from right to left.
    pub mirrored: bool,
}

pub(super) struct Store<'a> {
    data: &'a Dataset,
    facts: &'a [Facts],
    builder: PlaneBuilder,
    needs: Needs,
    budget: u64,
    /// A place for each image, plain and mirrored, if all fit into the budget.
    resident: Option<Vec<[OnceLock<Planes>; 2]>>,
}

impl<'a> Store<'a> {
    pub fn new(
        data: &'a Dataset,
        facts: &'a [Facts],
        builder: PlaneBuilder,
        needs: Needs,
        budget: u64,
        flip: bool,
    ) -> Self {
        let channels = builder.spec().channels.into();
        let all: u64 = facts.iter().map(|f| needs.bytes(f.size, channels)).sum();
        let all = if flip { 2 * all } else { all };
        let places = || facts.iter().map(|_| Default::default()).collect();
        Self {
            data,
            facts,
            builder,
            needs,
            budget,
            resident: (all <= budget).then(places),
        }
    }

    /// What turns pictures into samples.
    #[cfg(feature = "cuda")]
    pub fn builder(&self) -> &PlaneBuilder {
        &self.builder
    }

    /// Which tables are read.
    #[cfg(feature = "cuda")]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The size of an image.
    #[cfg(feature = "cuda")]
    pub fn size(&self, image: usize) -> Size {
        self.facts[image].size
    }

    /// How many images there are.
    #[cfg(feature = "cuda")]
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Reads what tables are made of: samples by channel, then depth, as far as they are needed.
    #[cfg(feature = "cuda")]
    pub fn raw(
        &self,
        builder: &mut PlaneBuilder,
        view: View,
        to: &mut [u16],
    ) -> Result<(), DataError> {
        let size = self.facts[view.image].size;
        let colours = match self.needs.colour {
            true => size.area() * usize::from(builder.spec().channels),
            false => 0,
        };
        let (samples, depths) = to.split_at_mut(colours);
        if self.needs.colour {
            let raster = self.raster(view.image)?;
            samples.copy_from_slice(builder.samples(raster.pixels(), view.mirrored));
        }
        if self.needs.depth {
            let depth = self.depth(view.image)?;
            let needs = Needs {
                colour: false,
                depth: true,
                depth_sums: false,
            };
            let mut planes = Planes::new(size, builder.spec(), needs);
            builder.fill_depth(&mut planes, |x, y| depth.get(x, y), view.mirrored);
            depths.copy_from_slice(planes.depths());
        }
        Ok(())
    }

    fn changed(&self, image: usize) -> DataError {
        let text = format!(
            "{} changed while it was used",
            self.data.items()[image].name
        );
        DataError::Option(text)
    }

    /// An image's pixels, as they were when they were scanned.
    fn raster(&self, image: usize) -> Result<Raster, DataError> {
        let raster = self.data.raster(image)?;
        let channels = usize::from(self.builder.spec().channels);
        let found = raster.channels();
        let fits = found == channels || found == 1;
        if raster.pixels().size() != self.facts[image].size || !fits {
            return Err(self.changed(image));
        }
        Ok(raster)
    }

    fn depth(&self, image: usize) -> Result<Image<u16>, DataError> {
        let steps = self.builder.spec().depth_steps_per_m;
        let depth = self.data.depth(image, self.facts[image].size, steps)?;
        depth.ok_or_else(|| self.changed(image))
    }

    fn bytes(&self, view: View) -> u64 {
        let channels = self.builder.spec().channels.into();
        self.needs.bytes(self.facts[view.image].size, channels)
    }

    fn load(&self, builder: &mut PlaneBuilder, view: View) -> Result<Planes, DataError> {
        let size = self.facts[view.image].size;
        let mut planes = Planes::new(size, builder.spec(), self.needs);
        if self.needs.colour {
            let raster = self.raster(view.image)?;
            builder.fill(&mut planes, raster.pixels(), view.mirrored);
        }
        if self.needs.depth {
            let depth = self.depth(view.image)?;
            builder.fill_depth(&mut planes, |x, y| depth.get(x, y), view.mirrored);
        }
        Ok(planes)
    }

    /// Hands the views of `wanted` (places in `views`) over in their order, in batches that fit
    /// into the budget; while one is worked on the next is read.
    pub fn for_batches(
        &self,
        views: &[View],
        wanted: &[usize],
        mut each: impl FnMut(&[usize], &[&Planes]) -> Result<(), TrainError> + Send,
    ) -> Result<(), TrainError> {
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(places) = &self.resident {
            let place = |&i: &usize| &places[views[i].image][usize::from(views[i].mirrored)];
            wanted.par_iter().try_for_each_init(
                || self.builder.clone(),
                |builder, i| {
                    if place(i).get().is_none() {
                        let planes = self.load(builder, views[*i])?;
                        let _ = place(i).set(planes);
                    }
                    Ok::<(), TrainError>(())
                },
            )?;
            let planes: Vec<&Planes> = wanted.iter().filter_map(|i| place(i).get()).collect();
            return each(wanted, &planes);
        }
        // Two batches are there at a time.
        let mut batches: Vec<&[usize]> = Vec::new();
        let (mut begin, mut bytes) = (0, 0);
        for (end, &i) in wanted.iter().enumerate() {
            let more = self.bytes(views[i]);
            if end > begin && bytes + more > self.budget / 2 {
                batches.push(&wanted[begin..end]);
                (begin, bytes) = (end, 0);
            }
            bytes += more;
        }
        batches.push(&wanted[begin..]);
        let read = |batch: &[usize]| -> Result<Vec<Planes>, TrainError> {
            batch
                .par_iter()
                .map_init(
                    || self.builder.clone(),
                    |builder, &i| Ok(self.load(builder, views[i])?),
                )
                .collect()
        };
        let mut next = Some(read(batches[0])?);
        for (k, batch) in batches.iter().enumerate() {
            let Some(planes) = next.take() else { break };
            let planes: Vec<&Planes> = planes.iter().collect();
            let (done, read) = rayon::join(
                || each(batch, &planes),
                || batches.get(k + 1).map(|batch| read(batch)),
            );
            done?;
            next = read.transpose()?;
        }
        Ok(())
    }
}
