//! What of the stereo chain is recorded into its graph, and in which order.
use std::rc::Rc;

use crate::{
    cuda::{DeviceBuffer, Event, GpuError, Stream},
    frame::Size,
    stage::stixel,
};

use super::{
    memory::{DeviceMemory, HostMemory},
    street::Stages,
};

/// All that is recorded into the graph.
pub(super) struct Recording<'a> {
    pub stages: &'a Stages,
    pub stixel: &'a stixel::cuda::Plan,
    pub host: &'a HostMemory,
    pub device: &'a DeviceMemory,
    pub marks: &'a [Rc<Event>],
    pub side: &'a Stream,
    pub order: &'a Event,
    pub size: Size,
}

impl Recording<'_> {
    pub fn record(&self, main: &Stream) -> Result<(), GpuError> {
        let (host, device) = (self.host, self.device);
        let mut marks = self.marks.iter();
        let mut mark = || match marks.next() {
            Some(event) => main.record_in_graph(event),
            None => Ok(()),
        };
        mark()?;
        let mut branched = false;
        if let (Some(from), Some(raw), Some(out)) = (&host.rgb, &device.raw_rgb, &device.rgb) {
            self.branch(main, &mut branched)?;
            self.side.copy_to_device(from, raw)?;
            if !self.stages.rectify.is_identity() {
                self.stages.rectify.enqueue_rgb(self.side, raw, out)?;
            }
            if let Some(to) = &host.left_rgb {
                self.side.copy_to_host(out, to)?;
            }
        }

        if let Some(stored) = &host.stored {
            main.copy_to_device(stored, &device.disparity)?;
            self.stages.rectify.enqueue_mask(main, &device.disparity)?;
        }
        if let (Some(from), Some(raw), Some(out)) = (&host.grey, &device.raw, &device.grey) {
            main.copy_to_device(from, raw)?;
            if !self.stages.rectify.is_identity() {
                let (raw_left, raw_right) = self.halves(raw)?;
                let (left, right) = self.halves(out)?;
                let right = raw_right.as_ref().zip(right.as_ref());
                self.stages
                    .rectify
                    .enqueue(main, (&raw_left, &left), right)?;
                if let Some(to) = &host.left {
                    self.branch(main, &mut branched)?;
                    self.side.copy_to_host(&left, to)?;
                }
            }
        }
        mark()?;
        if let (Some(stereo), Some(grey)) = (&self.stages.stereo, &device.grey) {
            if let (left, Some(right)) = self.halves(grey)? {
                stereo.enqueue(main, &left, &right, &device.disparity)?;
            }
            if let Some(to) = &host.disparity {
                self.branch(main, &mut branched)?;
                self.side.copy_to_host(&device.disparity, to)?;
            }
            mark()?;
        }
        self.stages
            .road
            .enqueue(main, &device.disparity, &device.road)?;
        mark()?;
        self.stixel.enqueue(
            main,
            &device.disparity,
            self.size.width,
            &device.road.view()?,
            &device.words,
        )?;
        main.copy_to_host(&device.results, &host.results)?;
        mark()?;
        if branched {
            self.side.record(self.order)?;
            main.wait(self.order)?;
        }
        Ok(())
    }

    /// What the side stream is given from here on waits for the main stream so far.
    fn branch(&self, main: &Stream, branched: &mut bool) -> Result<(), GpuError> {
        *branched = true;
        main.record(self.order)?;
        self.side.wait(self.order)
    }

    /// The left image and, where there is one, the right one.
    fn halves(
        &self,
        images: &DeviceBuffer<u8>,
    ) -> Result<(DeviceBuffer<u8>, Option<DeviceBuffer<u8>>), GpuError> {
        let area = self.size.area();
        let right = (images.len() > area).then(|| images.slice(area..2 * area));
        Ok((images.slice(0..area)?, right.transpose()?))
    }
}
