//! Results against truth.
