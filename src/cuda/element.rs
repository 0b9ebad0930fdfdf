//! What may lie in device memory and be passed to kernels.
use std::fmt;
use std::marker::PhantomData;

#[doc(hidden)]
pub use cust::memory::DeviceCopy;

/// A value that host and device lay out alike: any bits are a valid one, zero too, and it owns
/// nothing. Structs become one with [`device_struct!`](crate::device_struct).
///
/// # Safety
/// The above holds, and the layout is C's.
pub unsafe trait Element: DeviceCopy + 'static {}

/// A value that a kernel takes as a parameter.
pub trait Argument: Element {
    /// Names every device address in it, so that each launch can check that it is alive.
    fn addresses(&self, visit: &mut dyn FnMut(u64)) {
        let _ = visit;
    }
}

/// A plain number.
pub trait Number: Argument {
    /// Its bits, in the low end.
    fn bits(self) -> u64;
}

macro_rules! plain {
    ($($type:ty, $bits:expr;)*) => { $(
        // SAFETY: a number of fixed size; any bits are a value.
        unsafe impl Element for $type {}
        impl Argument for $type {}
        impl Number for $type {
            fn bits(self) -> u64 {
                let bits: fn($type) -> u64 = $bits;
                bits(self)
            }
        }
    )* };
}
plain! {
    u8, |v| v.into();
    u16, |v| v.into();
    u32, |v| v.into();
    u64, |v| v;
    i8, |v| v as u64;
    i16, |v| v as u64;
    i32, |v| v as u64;
    i64, |v| v as u64;
    f32, |v| v.to_bits().into();
    f64, |v| v.to_bits();
}

// SAFETY: an array is its elements, one after the other, as in C.
unsafe impl<T: Element, const N: usize> Element for [T; N] {}
impl<T: Argument, const N: usize> Argument for [T; N] {
    fn addresses(&self, visit: &mut dyn FnMut(u64)) {
        for element in self {
            element.addresses(visit);
        }
    }
}

/// The address of `T`s in device memory: a `T *` or `const T *` to the kernel. It keeps nothing
/// alive; a launch or capture refuses it when its buffer is gone.
#[repr(transparent)]
pub struct DevicePtr<T> {
    address: u64,
    of: PhantomData<*const T>,
}

impl<T> DevicePtr<T> {
    /// No buffer: for parameters that a kernel may do without.
    pub const NULL: Self = Self {
        address: 0,
        of: PhantomData,
    };

    pub(super) fn new(address: u64) -> Self {
        Self {
            address,
            of: PhantomData,
        }
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.address
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DevicePtr<T> {}
impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}
impl<T> Eq for DevicePtr<T> {}
impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

// SAFETY: one 64-bit address; nothing is owned, and the host never follows it.
unsafe impl<T: 'static> DeviceCopy for DevicePtr<T> {}
// SAFETY: as above; zero is NULL.
unsafe impl<T: 'static> Element for DevicePtr<T> {}
impl<T: 'static> Argument for DevicePtr<T> {
    fn addresses(&self, visit: &mut dyn FnMut(u64)) {
        if self.address != 0 {
            visit(self.address);
        }
    }
}

/// Declares a struct that kernels take by value or that lies in device memory, with C's layout.
/// Its fields are [`Argument`]s: numbers, arrays, [`DevicePtr`]s and other such structs. The
/// kernel's side declares the same fields in the same order.
///
/// ```
/// # #[cfg(feature = "cuda")] {
/// use roadloop::cuda::DevicePtr;
/// roadloop::device_struct! {
///     /// What the kernel needs.
///     #[derive(Debug, PartialEq)]
///     pub struct Params {
///         /// Pixels.
///         pub image: DevicePtr<u8>,
///         /// In pixels.
///         pub width: u32,
///     }
/// }
/// # }
/// ```
#[macro_export]
macro_rules! device_struct {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type),+ }

        // SAFETY: C layout, and every field is an Element (checked by the bounds).
        #[allow(unsafe_code)]
        unsafe impl $crate::cuda::DeviceCopy for $name where $($type: $crate::cuda::Argument),+ {}
        // SAFETY: as above.
        #[allow(unsafe_code)]
        unsafe impl $crate::cuda::Element for $name where $($type: $crate::cuda::Argument),+ {}
        impl $crate::cuda::Argument for $name {
            fn addresses(&self, visit: &mut dyn FnMut(u64)) {
                $($crate::cuda::Argument::addresses(&self.$field, visit);)+
            }
        }
    };
}
