//! roadloop: the perception loop of a vehicle. Stereo and mono images go in; a fixed time
//! later come out stixels, foreground, logos and labels (a random forest, which [`training`] grows).
//!
//! # Rooms
//! Data goes one way: [`source`] → slot → [`stage`]s → result → [`sink`].
//!
//! | room | what it is for |
//! |---|---|
//! | [`frame`] | the nouns: images, disparity, road, stixels, frame sets, gaps |
//! | [`calib`] | rigs from files, rectification maps, metric geometry |
//! | [`source`] | where frames come from: folders of recorded drives, MCAP recordings, V4L2 cameras, the synthetic street |
//! | [`picture`] | picture files, decoded to the same bytes on every processor |
//! | [`stage`] | what is computed, one folder a stage; a stage knows no source, sink, clock or other stage |
//! | [`frame_loop`] | clock, slots, budgets, admission, deadlines; the one place that knows the order of the stages |
//! | [`maths`] | numerics that several stages share, the same bits on host and device |
//! | `cuda` | the GPU (feature `cuda`): context, streams, graphs, memory, kernels |
//! | [`recording`] | topics, schemas and messages of MCAP recordings, CDR |
//! | [`replay`] | a recorded drive through all of these |
//! | [`live`] | live cameras through all of these |
//! | [`realtime`] | memory, scheduling class and processors, asked of the kernel once |
//! | [`service`] | signs of life, metrics, health and log of a program that runs for months |
//! | [`training`] | the forest's trainer: data sets, candidates, histograms, levels |
//! | [`sink`] | where results go: tables, pictures, summary, digest, report |
//! | [`mod@bench`] | what the whole loop takes, measured |
//! | [`evaluate`] | results against truth |
//! | `files` | what is read and written of the file system: regular files of bounded size |
//! | [`config`] | `roadloop.toml`, typed and validated |
//! | [`cli`] | the command line, one file a command |
//!
//! # Conventions, everywhere
//! - Images: row 0 is the top row, x to the right; sizes in pixels, 64-bit indices.
//! - Disparity: `u16` in 1/256 px; the right match of `(x, y)` is `(x - d, y)`;
//!   [`frame::INVALID`] is "no measurement", and the only code for it.
//! - Camera frame: x right, y down, z forward, metres. Pitch is positive when the camera looks down.
//! - Time: [`frame::Timestamp`], nanoseconds.
//! - Results are the same bytes on every backend, run and thread count: integers and fixed
//!   point where sums are reordered, transcendental functions only in tables built by the host
//!   through `libm`.
#![deny(unsafe_code)]

pub mod bench;
pub mod calib;
pub mod cli;
pub mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod evaluate;
mod files;
pub mod frame;
pub mod frame_loop;
pub mod live;
pub mod maths;
pub mod picture;
pub mod realtime;
pub mod recording;
pub mod replay;
pub mod service;
pub mod sink;
pub mod source;
pub mod stage;
pub mod training;
