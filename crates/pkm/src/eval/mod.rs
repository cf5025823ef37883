//! Measuring search: sets of questions with known answers, and scores.

pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod set;
