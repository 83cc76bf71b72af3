//! Tests: field.
