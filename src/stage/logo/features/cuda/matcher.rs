//! Nearest descriptors (`kernels/logo_match.cu`).
use super::Found;
use crate::{
    cuda::{Context, DeviceBuffer, DevicePtr, Function, GpuError, LaunchShape, Module, Stream},
    device_struct,
    stage::logo::features::matcher::MAX_TRAIN,
};

/// Queries of a block of `logo_match`, and its threads.
const MATCH_QUERIES: usize = 8;
const MATCH_THREADS: u32 = 128;
/// Lists of a launch.
const MOST: usize = 8;

device_struct! {
    /// The two nearest train descriptors of a query; distances over 256: there is none.
    #[derive(Debug, Default, PartialEq)]
    pub struct Match {
        /// Index of the nearest.
        pub train: u32,
        /// Its distance in bits.
        pub distance: u32,
        /// Index of the second nearest.
        pub second: u32,
        /// Its distance in bits.
        pub second_distance: u32,
    }
}

device_struct! {
    /// As in the kernel file.
    struct Lists {
        train: [DevicePtr<[u32; 8]>; MOST],
        count: [DevicePtr<u32>; MOST],
        groups: [DevicePtr<u32>; MOST],
        out: [DevicePtr<Match>; MOST],
    }
}

type MatchTwo = Function<(DevicePtr<[u32; 8]>, DevicePtr<u32>, Lists, u32)>;

/// Matches descriptors on the device.
pub struct Matcher {
    kernel: MatchTwo,
}

/// Descriptors on the device, some of which are used.
#[derive(Clone, Copy)]
pub struct Train<'a> {
    /// The descriptors.
    pub descriptors: &'a DeviceBuffer<[u32; 8]>,
    /// How many of them count; one number.
    pub count: &'a DeviceBuffer<u32>,
    /// See [`crate::stage::logo::features::matcher::two_nearest_apart`].
    pub groups: Option<&'a DeviceBuffer<u32>>,
}

impl Matcher {
    /// The kernel.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &Context) -> Result<Self, GpuError> {
        let module = Module::load(context, "logo_match")?;
        Ok(Self {
            kernel: module.function("logo_match")?,
        })
    }

    /// Gives the matching of what a plan found to the stream: `out[i]` is that of keypoint `i`.
    ///
    /// # Errors
    /// [`GpuError::Size`] when `out` has not room for each descriptor, or there are fewer groups
    /// than train descriptors, or more of those than [`MAX_TRAIN`]; from the driver.
    pub fn enqueue(
        &self,
        stream: &Stream,
        query: &Found,
        train: Train<'_>,
        out: &DeviceBuffer<Match>,
    ) -> Result<(), GpuError> {
        self.enqueue_all(stream, query, &[(train, out)])
    }

    /// The same for several lists of train descriptors, side by side.
    ///
    /// # Errors
    /// As [`Matcher::enqueue`].
    pub fn enqueue_all(
        &self,
        stream: &Stream,
        query: &Found,
        lists: &[(Train<'_>, &DeviceBuffer<Match>)],
    ) -> Result<(), GpuError> {
        let counts = query.counts.view::<u32>()?;
        let count = counts.slice(3..4)?;
        (lists.chunks(MOST))
            .try_for_each(|lists| self.launch(stream, &query.descriptors, &count, lists))
    }

    /// As [`Matcher::enqueue`], of the first `count` descriptors of a list.
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_lists(
        &self,
        stream: &Stream,
        query: &DeviceBuffer<[u32; 8]>,
        count: &DeviceBuffer<u32>,
        train: Train<'_>,
        out: &DeviceBuffer<Match>,
    ) -> Result<(), GpuError> {
        self.launch(stream, query, count, &[(train, out)])
    }

    /// Up to [`MOST`] lists.
    fn launch(
        &self,
        stream: &Stream,
        query: &DeviceBuffer<[u32; 8]>,
        count: &DeviceBuffer<u32>,
        lists: &[(Train<'_>, &DeviceBuffer<Match>)],
    ) -> Result<(), GpuError> {
        let mut on_device = Lists {
            train: [DevicePtr::NULL; MOST],
            count: [DevicePtr::NULL; MOST],
            groups: [DevicePtr::NULL; MOST],
            out: [DevicePtr::NULL; MOST],
        };
        for (i, (train, out)) in lists.iter().enumerate() {
            check(query, train, out)?;
            on_device.train[i] = train.descriptors.ptr();
            on_device.count[i] = train.count.ptr();
            on_device.groups[i] = train.groups.map_or(DevicePtr::NULL, DeviceBuffer::ptr);
            on_device.out[i] = out.ptr();
        }
        let blocks = query.len().div_ceil(MATCH_QUERIES).max(1) as u32;
        self.kernel.launch(
            stream,
            LaunchShape::new([blocks, lists.len() as u32, 1], [MATCH_THREADS, 1, 1]),
            &(query.ptr(), count.ptr(), on_device, query.len() as u32),
        )
    }
}

fn check(
    query: &DeviceBuffer<[u32; 8]>,
    train: &Train<'_>,
    out: &DeviceBuffer<Match>,
) -> Result<(), GpuError> {
    let n = train.descriptors.len();
    let groups = train.groups.map_or(n, |g| g.len());
    for (what, found, expected, good) in [
        (
            "logo: matches",
            out.len(),
            query.len(),
            out.len() >= query.len(),
        ),
        ("logo: groups", groups, n, groups >= n),
        ("logo: train descriptors", n, MAX_TRAIN, n <= MAX_TRAIN),
    ] {
        if !good {
            return Err(GpuError::Size {
                what,
                found: found as u64,
                expected: expected as u64,
            });
        }
    }
    Ok(())
}
