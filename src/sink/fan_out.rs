//! Several sinks as one.
use super::{Announced, Sink, SinkError, View};
use crate::frame::{FrameId, FrameResult, Gap};

/// Hands everything to each of some sinks. Of a live loop none may end it: one that fails is told
/// of in the log and gets nothing any more, the others go on.
#[derive(Default)]
pub struct FanOut<'a> {
    sinks: Vec<(&'static str, Option<Box<dyn Sink + Send + 'a>>)>,
}

impl<'a> FanOut<'a> {
    /// No sinks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, by a name for the log.
    #[must_use]
    pub fn with(mut self, name: &'static str, sink: impl Sink + Send + 'a) -> Self {
        self.sinks.push((name, Some(Box::new(sink))));
        self
    }

    /// The names of those that have failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.sinks
            .iter()
            .filter_map(|(name, sink)| sink.is_none().then_some(*name))
    }

    fn each(&mut self, mut tell: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>) {
        for (name, slot) in &mut self.sinks {
            if let Some(sink) = slot
                && let Err(e) = tell(sink.as_mut())
            {
                log::error!("{name} has failed and gets nothing any more: {e}");
                *slot = None;
            }
        }
    }
}

impl Sink for FanOut<'_> {
    /// Before the first frame a failure is one.
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        for (_, slot) in &mut self.sinks {
            if let Some(sink) = slot {
                sink.begin(announced)?;
            }
        }
        Ok(())
    }

    /// At most one of them keeps what the stages have learnt.
    fn state_room(&mut self, next: FrameId) -> Option<&mut Vec<u8>> {
        let sinks = self.sinks.iter_mut().filter_map(|(_, sink)| sink.as_mut());
        sinks.into_iter().find_map(|sink| sink.state_room(next))
    }

    fn frame(&mut self, view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.each(|sink| sink.frame(view, result));
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.each(|sink| sink.gap(id, gap));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.each(|sink| sink.finish());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io, sync::Mutex};

    /// Fails at its n-th frame.
    struct Fails<'a>(u32, &'a Mutex<Vec<&'static str>>);

    impl Sink for Fails<'_> {
        fn frame(&mut self, _: View<'_>, _: &FrameResult) -> Result<(), SinkError> {
            self.1.lock().unwrap().push("frame");
            self.0 = self.0.wrapping_sub(1);
            if self.0 == 0 {
                return Err(SinkError::Thread(io::Error::other("no")));
            }
            Ok(())
        }

        fn gap(&mut self, _: FrameId, _: Gap) -> Result<(), SinkError> {
            self.1.lock().unwrap().push("gap");
            Ok(())
        }

        fn finish(&mut self) -> Result<(), SinkError> {
            self.1.lock().unwrap().push("finish");
            Ok(())
        }
    }

    #[test]
    fn one_that_fails_does_not_stop_the_others() {
        let (bad, good) = (Mutex::default(), Mutex::default());
        let mut all = FanOut::new()
            .with("bad", Fails(2, &bad))
            .with("good", Fails(0, &good));
        for _ in 0..3 {
            all.frame(View::default(), &FrameResult::default()).unwrap();
        }
        all.gap(FrameId::default(), Gap::Late).unwrap();
        all.finish().unwrap();
        assert!(all.failed().eq(["bad"]));
        assert_eq!(*bad.lock().unwrap(), ["frame"; 2]);
        assert_eq!(
            *good.lock().unwrap(),
            ["frame", "frame", "frame", "gap", "finish"]
        );
    }
}
