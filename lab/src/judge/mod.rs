//! Verdicts: intervals of measured figures, and whether a figure keeps its bound.

mod bound;
mod disturbance;
mod interval;

pub(crate) use bound::{Bound, Verdict};
pub(crate) use disturbance::{Disturbance, Watch};
pub(crate) use interval::{Estimate, NamedEstimate, counted, median, ratio_of_medians, ratios};

/// The confidence of intervals unless a caller chooses another one.
pub(crate) const LEVEL: f64 = 0.95;
