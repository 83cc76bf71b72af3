//! Tests: vectors.
