//! Tests: promises.
