//! Nearest keys to a vector, under a filter.
