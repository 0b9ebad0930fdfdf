//! The stereo chain and the mono chain as one backend.
use super::{Advance, Backend, BackendError, Laps, Slot, Unit};
use crate::{
    frame::Timestamp,
    stage::{foreground::SnapshotError, state::StateError},
};

/// Two backends on the same slot: what computes the street, then what computes from the mono
/// image. A drive may lack either. What can be launched of the one is under way beside the other.
///
/// A stage that gets a backend of its own (a graph on a GPU) takes the place of one of the two
/// without the other's knowing.
pub struct Chain<S, M> {
    street: Option<S>,
    mono: Option<M>,
    /// Of the street, then of the mono chain.
    units: Vec<Unit>,
    street_units: usize,
}

impl<S: Backend, M: Backend> Chain<S, M> {
    /// Both, or one of them.
    pub fn new(street: Option<S>, mono: Option<M>) -> Self {
        let of = |units: Option<&[Unit]>| units.unwrap_or_default().to_vec();
        let mut units = of(street.as_ref().map(|s| s.units()));
        let street_units = units.len();
        units.extend(of(mono.as_ref().map(|m| m.units())));
        Self {
            street,
            mono,
            units,
            street_units,
        }
    }

    /// Whose unit it is, and which of its; `None` where there is no such unit.
    fn part(&mut self, unit: usize) -> Option<(&mut dyn Backend, usize)> {
        match unit.checked_sub(self.street_units) {
            None => Some((self.street.as_mut()?, unit)),
            Some(unit) => Some((self.mono.as_mut()?, unit)),
        }
    }
}

impl<S: Backend, M: Backend> Backend for Chain<S, M> {
    fn name(&self) -> &'static str {
        match (&self.street, &self.mono) {
            (Some(street), _) => street.name(),
            (None, Some(mono)) => mono.name(),
            (None, None) => "none",
        }
    }

    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.run(unit, slot, laps),
            None => Ok(()),
        }
    }

    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.start(unit, slot, laps),
            None => Ok(false),
        }
    }

    fn start_behind(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.start_behind(unit, slot, laps),
            None => Ok(false),
        }
    }

    fn meanwhile(&mut self, unit: usize, slot: &mut Slot, laps: &Laps<'_>) {
        if let Some((part, unit)) = self.part(unit) {
            part.meanwhile(unit, slot, laps);
        }
    }

    fn advance(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &Laps<'_>,
    ) -> Result<Advance, BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.advance(unit, slot, laps),
            None => Ok(Advance::Nothing),
        }
    }

    fn wait(
        &mut self,
        unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.wait(unit, until, laps),
            None => Ok(true),
        }
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        match self.part(unit) {
            Some((part, unit)) => part.finish(unit, slot, laps),
            None => Ok(()),
        }
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        if let Some((part, unit)) = self.part(unit) {
            part.withdraw(unit, slot);
        }
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.street
            .as_mut()
            .map_or(Ok(()), |s| s.restore(snapshot))?;
        self.mono.as_mut().map_or(Ok(()), |m| m.restore(snapshot))
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        let street = self.street.as_ref().and_then(Backend::snapshot);
        street.or_else(|| self.mono.as_ref().and_then(Backend::snapshot))
    }

    /// Only whole: with the state of one of the two no frame would come out as it did.
    fn save(&self, to: &mut Vec<u8>) -> bool {
        let length = to.len();
        let street = self.street.as_ref().is_none_or(|s| s.save(to));
        let whole = street && self.mono.as_ref().is_none_or(|m| m.save(to));
        if !whole {
            to.truncate(length);
        }
        whole
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.street.as_mut().map_or(Ok(()), |s| s.load(state))?;
        self.mono.as_mut().map_or(Ok(()), |m| m.load(state))
    }
}

/// A backend that is chosen when the program runs.
impl Backend for Box<dyn Backend + '_> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn units(&self) -> &[Unit] {
        (**self).units()
    }

    fn run(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        (**self).run(unit, slot, laps)
    }

    fn start(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        (**self).start(unit, slot, laps)
    }

    fn start_behind(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<bool, BackendError> {
        (**self).start_behind(unit, slot, laps)
    }

    fn wait(
        &mut self,
        unit: usize,
        until: Timestamp,
        laps: &Laps<'_>,
    ) -> Result<bool, BackendError> {
        (**self).wait(unit, until, laps)
    }

    fn advance(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &Laps<'_>,
    ) -> Result<Advance, BackendError> {
        (**self).advance(unit, slot, laps)
    }

    fn meanwhile(&mut self, unit: usize, slot: &mut Slot, laps: &Laps<'_>) {
        (**self).meanwhile(unit, slot, laps);
    }

    fn finish(
        &mut self,
        unit: usize,
        slot: &mut Slot,
        laps: &mut Laps<'_>,
    ) -> Result<(), BackendError> {
        (**self).finish(unit, slot, laps)
    }

    fn withdraw(&mut self, unit: usize, slot: &mut Slot) {
        (**self).withdraw(unit, slot);
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        (**self).restore(snapshot)
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        (**self).snapshot()
    }

    fn save(&self, to: &mut Vec<u8>) -> bool {
        (**self).save(to)
    }

    fn load(&mut self, state: &[u8]) -> Result<(), StateError> {
        (**self).load(state)
    }
}
