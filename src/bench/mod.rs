//! What the whole loop takes: `roadloop bench latency`.
//!
//! | file | what |
//! |---|---|
//! | [`meter`] | the sinks that measure: stages, whole frames, when results are handed out |
//! | [`report`] | what was measured, as JSON and as a table |
//! | [`page`] | the same as an HTML page, histograms against budgets |
//! | [`machine`] | on what it was measured, and what makes a figure doubtful |
//! | [`input`] | a few frames in memory, over and over, at a rate |
//! | [`contend`] | another load beside the loop |
pub mod contend;
pub mod input;
pub mod machine;
pub mod meter;
pub mod page;
pub mod report;
