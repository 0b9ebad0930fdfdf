//! `roadloop.toml`, typed and validated.
