//! What stages have learnt, as bytes: so that a recording can begin anywhere and go on as the
//! loop did. Little-endian, without gaps; the same bytes on every processor.
use crate::frame::{PixelKind, Size};

/// Why a state is refused. The stage is as freshly built then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StateError {
    /// It ends before it is whole.
    #[error("the state of {stage} is cut short")]
    Short {
        /// Whose.
        stage: &'static str,
    },
    /// It is of another version, size, kind of picture or set of parameters.
    #[error("the state of {stage} has {what} {found}, expected {expected}")]
    Shape {
        /// Whose.
        stage: &'static str,
        /// Which quantity.
        what: &'static str,
        /// As it says.
        found: String,
        /// As this plan has it.
        expected: String,
    },
    /// A number that no stage could have come to.
    #[error("the state of {stage} holds an impossible {what}")]
    Value {
        /// Whose.
        stage: &'static str,
        /// Which quantity.
        what: &'static str,
    },
    /// It could not be brought to the device that computes; the device is lost, or says why.
    #[error("the state does not reach the device: {0}")]
    Device(String),
    /// It is no state at all, or of another version of the program.
    #[error("no state of stages that this version knows: {0}")]
    Unknown(String),
}

#[cfg(feature = "cuda")]
impl From<crate::cuda::GpuError> for StateError {
    fn from(e: crate::cuda::GpuError) -> Self {
        Self::Device(e.to_string())
    }
}

/// Appends numbers to a state.
pub struct StateWriter<'a>(pub &'a mut Vec<u8>);

impl StateWriter<'_> {
    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Four bytes, two's complement.
    pub fn i32(&mut self, v: i32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// The bits of a number.
    pub fn f32(&mut self, v: f32) {
        self.u32(v.to_bits());
    }

    /// The bits of a number.
    pub fn f64(&mut self, v: f64) {
        self.0.extend_from_slice(&v.to_bits().to_le_bytes());
    }

    /// Bytes as they are; their number is not written.
    pub fn bytes(&mut self, v: &[u8]) {
        self.0.extend_from_slice(v);
    }

    /// The shape that a state is of.
    pub fn shape(&mut self, version: u8, kind: Option<PixelKind>, size: Size) {
        self.u8(version);
        self.u8(kind_code(kind));
        self.u32(size.width as u32);
        self.u32(size.height as u32);
    }
}

fn kind_code(kind: Option<PixelKind>) -> u8 {
    match kind {
        None => 0,
        Some(PixelKind::Grey8) => 1,
        Some(PixelKind::Grey16) => 2,
        Some(PixelKind::Rgb8) => 3,
    }
}

/// Takes numbers from a state.
pub struct StateReader<'a> {
    stage: &'static str,
    rest: &'a [u8],
}

impl<'a> StateReader<'a> {
    /// Reads the state of `stage`.
    pub fn new(stage: &'static str, bytes: &'a [u8]) -> Self {
        Self { stage, rest: bytes }
    }

    /// So many bytes.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], StateError> {
        let stage = self.stage;
        let (head, rest) = (self.rest.split_at_checked(n)).ok_or(StateError::Short { stage })?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn u8(&mut self) -> Result<u8, StateError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn u16(&mut self) -> Result<u16, StateError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn u32(&mut self) -> Result<u32, StateError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Four bytes, two's complement.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn i32(&mut self) -> Result<i32, StateError> {
        self.array().map(i32::from_le_bytes)
    }

    /// A finite number.
    ///
    /// # Errors
    /// [`StateError::Short`], [`StateError::Value`].
    pub fn f32(&mut self, what: &'static str) -> Result<f32, StateError> {
        let v = f32::from_bits(self.u32()?);
        if v.is_finite() {
            Ok(v)
        } else {
            Err(self.value(what))
        }
    }

    /// A finite number.
    ///
    /// # Errors
    /// [`StateError::Short`], [`StateError::Value`].
    pub fn f64(&mut self, what: &'static str) -> Result<f64, StateError> {
        let v = f64::from_bits(u64::from_le_bytes(self.array()?));
        if v.is_finite() {
            Ok(v)
        } else {
            Err(self.value(what))
        }
    }

    /// Checks the shape that the state is of.
    ///
    /// # Errors
    /// [`StateError::Short`], [`StateError::Shape`].
    pub fn shape(
        &mut self,
        version: u8,
        kind: Option<PixelKind>,
        size: Size,
    ) -> Result<(), StateError> {
        let found = (self.u8()?, self.u8()?);
        self.same("version", found.0, version)?;
        self.same("kind of pixels", found.1, kind_code(kind))?;
        let (width, height) = (self.u32()?, self.u32()?);
        let found = Size::new(width as usize, height as usize);
        self.same("size", found, size)
    }

    /// Checks a number that the plan has too.
    ///
    /// # Errors
    /// [`StateError::Shape`].
    pub fn same<T: PartialEq + std::fmt::Display>(
        &self,
        what: &'static str,
        found: T,
        expected: T,
    ) -> Result<(), StateError> {
        if found == expected {
            return Ok(());
        }
        Err(StateError::Shape {
            stage: self.stage,
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        })
    }

    /// The error for an impossible number.
    pub fn value(&self, what: &'static str) -> StateError {
        let stage = self.stage;
        StateError::Value { stage, what }
    }

    /// That there is no more.
    ///
    /// # Errors
    /// [`StateError::Value`].
    pub fn end(&self) -> Result<(), StateError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.value("length"))
        }
    }
}
