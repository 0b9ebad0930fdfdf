//! The forest's trainer (Pianu et al., "A novel approach to train random forests on GPU for
//! computer vision applications using local features").
//!
//! Trees grow level by level. For each level the images pass by once (once a slice where the
//! histograms of a level do not fit into memory); candidates are drawn anew from `(tree, node,
//! candidate)` and never stored between levels.
//!
//! # What decides a tree
//! Data, feature, input and [`Recipe`](crate::stage::forest::Recipe) alone. Counts are whole
//! numbers, so are responses, thresholds and the gain ([`gain`]): no order of images, threads,
//! slices or devices changes a bit of the result.
//!
//! 1. **Bag.** The images with the smallest first words of stream `(t, key, 0, Bag)`, `ceil(bag
//!    n)` of them; `key` is that of the image's content. With `flip` each is there twice, the
//!    second time mirrored, with the same pixels.
//! 2. **Pixels** ([`samples`]): from stream `(t, key, class, Pixels)`.
//! 3. **Frontier.** The nodes of a level with more than `min_pixels` pixels, of more than one
//!    class.
//! 4. **Candidates.** Candidate `f` of node `n` (its number in the full binary tree, the root is
//!    0) has the parameters that the feature draws from stream `(t, n, f, Feature)`, and either
//!    thresholds uniform in the feature's range, from `(t, n, f, Thresholds)`, or the responses
//!    of the node's pixels of ranks `floor(v n / 2^32)`, `v` from `(t, n, 0, Picks)`: the same
//!    pixels for all its candidates. A pick that is invalid gives the threshold at which all that
//!    is valid goes left. Ranks count images in their order, pixels by row and column.
//! 5. **Split.** The greatest gain; among equals the smallest `f`, then the first threshold as
//!    drawn. Not above `min_gain`, or with all pixels on one side: a leaf.
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod data;
mod error;
pub mod gain;
mod grow;
mod growing;
mod histogram;
mod job;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod reduce;
pub mod samples;
mod store;

pub use error::TrainError;
pub use grow::train;
pub use job::{Job, Observer, Resources, Silent, Traffic};
pub use reduce::{Local, RankError, Reducer};
pub use store::View;
