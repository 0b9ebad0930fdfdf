//! The reference, and the backend where there is no GPU.
